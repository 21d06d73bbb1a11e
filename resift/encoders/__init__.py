"""Encoders that turn texts into vectors, and a reranker that compares texts word by word.

This package has the models as they are saved and served. :mod:`resift_lab` trains and evaluates them.

====================  ============================================================================================
module                contents
====================  ============================================================================================
``model``             the encoders of Passalis and Tefas (2017, 2018) and Muffo et al. (2021)
``residual``          EmBoost's networks (Cakaloglu et al. 2022)
``queries``           encoders of queries for documents that a transformer encoded
``late_interaction``  a reranker that compares the words of a query and a document
``builders``          untrained encoders by name
``registry``          saved encoders by folder
====================  ============================================================================================
"""
