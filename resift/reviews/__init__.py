"""Technology-assisted reviews: find all relevant documents of a set in batches, and decide when to stop.

A review is a session that continues until its end. :mod:`resift.reviews.ranking` ranks the documents,
:mod:`resift.reviews.stopping` decides when a review may stop, and :mod:`resift.reviews.log` records all decisions.
"""
