"""Parsing of sentences and conversion of treebanks: parser backends, and the code around them."""

from pdtools.parsers.base import ParseFailure, Parser, load_parser
from pdtools.parsers.pipeline import (
    ParseCounts,
    TreeForm,
    convert_treebank,
    parse_corpus,
    split_of,
    write_splits,
    write_trees,
)
from pdtools.parsers.sentences import SourcedSentence, read_sentences

__all__ = [
    "ParseCounts",
    "ParseFailure",
    "Parser",
    "SourcedSentence",
    "TreeForm",
    "convert_treebank",
    "load_parser",
    "parse_corpus",
    "read_sentences",
    "split_of",
    "write_splits",
    "write_trees",
]
