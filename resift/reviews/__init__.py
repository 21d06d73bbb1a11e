"""Technology-assisted reviews: find all relevant documents of a set in batches, and decide when to stop.

In a review, people read documents in the order of their estimated relevance, and judge whether each is relevant. Their
judgements improve the order of the remaining documents. :mod:`resift.reviews.ranking` ranks the documents,
:mod:`resift.reviews.stopping` decides when a review may stop, and :mod:`resift.reviews.log` records all judgements.
"""
