"""Two results or more side by side: differences, intervals, and whether they may be compared at all.

A *run* is one model's results of an evaluation, a *group* the runs of models that differ in their seeds alone
(or that someone put together), a *pair* two groups. *Items* are what a model has right or wrong, or has a
number of; a *unit* of items (a paradigm, a suite) counts once in the overall score, a *level* has several
units (phenomena, circuits).
"""
