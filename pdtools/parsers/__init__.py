"""Parsing of sentences and conversion of treebanks: parser backends, and the code around them."""
