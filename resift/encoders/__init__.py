"""Encoders that turn texts into vectors, and a reranker that compares texts word by word.

This package has the models as they are saved and served. :mod:`resift_lab` trains and evaluates them.

====================  ============================================================================================
module                contents
====================  ============================================================================================
``model``             the encoders of Passalis and Tefas (2017, 2018) and Muffo et al. (2021)
``bags``              RN-BoF for bags of vectors (Passalis and Tefas 2017)
``residual``          EmBoost's networks (Cakaloglu et al. 2022)
``word2doc``          the network of word2doc (2018), with the retriever in ``hashed_retriever``
``queries``           encoders of queries for documents that a transformer encoded
``late_interaction``  a reranker that compares the words of a query and a document
``dynamax``           a similarity of texts that compares their words (Zhelezniak et al. 2019)
``builders``          untrained encoders by name
``registry``          saved encoders by folder
====================  ============================================================================================
"""
