"""Texts to vectors: the encoders of the papers, by name.

================  ==================================================================================
module            what of the papers it holds
================  ==================================================================================
``model``         all encoders: a word table, a pool, a mask, a head, a similarity
``pooling``       mean (Passalis and Tefas 2018, eq. 3) and maximum (Muffo et al. 2021, eq. 6)
``codebook``      bag of embedded words: memberships in codewords (Passalis and Tefas 2018, eqs. 1, 2)
``universe``      static fuzzy bag of words: what memberships are measured against (Muffo et al. 2021)
``residual``      EmBoost's networks (Cakaloglu et al. 2022, eqs. 6 and 7)
``registry``      encoders by name
================  ==================================================================================

``kmeans`` serves codebooks and universes; ``batching`` and ``kernels`` are for speed.
"""
