"""Reviews: all relevant documents of a set, found batch by batch, and when to stop.

A review is a session taken to its end. What it ranks with is :mod:`resift.reviews.ranking`, when it may stop
:mod:`resift.reviews.stopping`, what was decided in it, by whom and when, :mod:`resift.reviews.log`.
"""
