"""Evaluate relevance feedback with a simulated user who judges a few documents of each ranking.

Same-class retrieval (:mod:`.same_class`) follows Passalis and Tefas (2018, section 4.5 and Table 5): the user judges at
most five relevant and five irrelevant documents among the first 30. In a retrieval collection (:mod:`.graded`) the user
judges the first ten hits.

Metrics of retrieval collections, and metrics named ``residual``, ignore the judged documents. A method therefore gains
nothing by moving the judged documents up.
"""
