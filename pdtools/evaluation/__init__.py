"""Scores: bracketing (EVALB), perplexity, BLiMP, syntactic generalization, and the comparison of runs.

An evaluation gives ``Results`` (:mod:`pdtools.evaluation.results`), which are written as a folder.
"""
