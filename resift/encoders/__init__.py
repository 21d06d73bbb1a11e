"""Texts to vectors: the models of the papers, as they are saved and served; the lab makes and trains them.

================  ==================================================================================
module            what of the papers it holds
================  ==================================================================================
``model``         all encoders: a word table, a pool (the mean of Passalis and Tefas 2018, eq. 3, or the maximum of
                  Muffo et al. 2021, eq. 6), a mask, a head, a similarity
``residual``      EmBoost's networks (Cakaloglu et al. 2022, eqs. 6 and 7)
``registry``      saved models by their folders
================  ==================================================================================

Memberships in codewords or a universe are in :mod:`resift_lab.encoders`.
"""
