"""Syntactic generalization: suites, their formulas, and scores (Hu et al. 2020)."""
