"""Parsing of sentences and conversion of treebanks: parser backends, and the code around them."""

from pdtools.parsers.backends import ParseFailure, Parser, load_parser
from pdtools.parsers.pipeline import (
    ParseCounts,
    TreeForm,
    TreeLine,
    split_of,
    write_splits,
    write_trees,
)
from pdtools.parsers.splitting import SourcedSentence, read_sentences

__all__ = [
    "ParseCounts",
    "ParseFailure",
    "Parser",
    "SourcedSentence",
    "TreeForm",
    "TreeLine",
    "load_parser",
    "read_sentences",
    "split_of",
    "write_splits",
    "write_trees",
]
