"""Relevance feedback by a simulated user: what a few judged documents do to the rest of a ranking.

Same-class retrieval (:mod:`.same_class`) follows Passalis and Tefas (2018, section 4.5 and Table 5): of the first 30
documents at most five relevant and five irrelevant ones are judged. In a retrieval collection (:mod:`.graded`) the
first ten of what is served are. Figures named ``residual`` and all those of retrieval collections are of the ranking
without the judged documents, so that nothing is gained by moving these up.
"""
