"""Comparison of results: differences, intervals, tests, and whether they may be compared at all.

A *run* is one model's results of an evaluation, a *group* the runs of models that differ only in their seeds
(or that a user put together), a *pair* two groups. A model has *items* right or wrong, or has a
number for each; a *unit* of items (a paradigm, a suite) counts once in the overall score, a *level* has
several units (phenomena, circuits).
"""
