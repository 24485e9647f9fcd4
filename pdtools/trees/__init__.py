"""Bracketed trees, their transforms, attachments and stack tapes (numpy only; nltk where named)."""

from pdtools.trees.arrays import TreeArrays, count_trees, parse_piece, read_arrays
from pdtools.trees.attachments import (
    attachments,
    constituents_of_words,
    expand_attachments,
    merge_subwords,
    sentence_layout,
    spans_from_attachments,
    tree_from_attachments,
)
from pdtools.trees.pieces import FilePiece, cut_pieces, in_order
from pdtools.trees.placeholders import is_placeholder, placeholder, sentence_problem, word_problem
from pdtools.trees.reader import SourcedTree, read_trees
from pdtools.trees.tape import (
    deepest_of,
    max_depth,
    pack_tape,
    packed_tapes,
    tape,
    tape_from_spans,
    unpack_tape,
)
from pdtools.trees.transforms import (
    TRACE_TAG,
    TransformCounts,
    binarize,
    collapse_unaries,
    expand_unaries,
    normalize,
    remove_traces,
    unbinarize,
)
from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, flat_tree, unescape

__all__ = [
    "TRACE_TAG",
    "UNKNOWN_LABEL",
    "UNKNOWN_TAG",
    "FilePiece",
    "SourcedTree",
    "TransformCounts",
    "Tree",
    "TreeArrays",
    "attachments",
    "binarize",
    "collapse_unaries",
    "constituents_of_words",
    "count_trees",
    "cut_pieces",
    "deepest_of",
    "escape",
    "expand_attachments",
    "expand_unaries",
    "flat_tree",
    "in_order",
    "is_placeholder",
    "max_depth",
    "merge_subwords",
    "normalize",
    "pack_tape",
    "packed_tapes",
    "parse_piece",
    "placeholder",
    "read_arrays",
    "read_trees",
    "remove_traces",
    "sentence_layout",
    "sentence_problem",
    "spans_from_attachments",
    "tape",
    "tape_from_spans",
    "tree_from_attachments",
    "unbinarize",
    "unescape",
    "unpack_tape",
    "word_problem",
]
