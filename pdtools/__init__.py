"""Treebank preprocessing, training and evaluation of syntactic language models.

Importing :mod:`pdtools` loads nothing heavy; each part is imported by name, for example
``from pdtools.trees import read_trees``.
"""

__version__ = "0.1.0"
