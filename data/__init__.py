"""Samples written by this project: a treebank, raw text, a mini BLiMP and a mini SG; and their generator."""
