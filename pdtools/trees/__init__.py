"""Bracketed trees, their transforms, attachments and stack tapes (numpy only; nltk where named)."""

from pdtools.trees.arrays import TreeArrays, parse_piece, read_arrays
from pdtools.trees.attachments import (
    attachments,
    expand_attachments,
    merge_subwords,
    sentence_layout,
    spans_from_attachments,
    tree_from_attachments,
)
from pdtools.trees.pieces import Piece, cut_pieces, in_order
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
    TransformCounts,
    binarize,
    collapse_unaries,
    expand_unaries,
    normalize,
    remove_traces,
    unbinarize,
)
from pdtools.trees.tree import Tree, escape, flat_tree, unescape

__all__ = [
    "Piece",
    "SourcedTree",
    "TransformCounts",
    "Tree",
    "TreeArrays",
    "attachments",
    "binarize",
    "collapse_unaries",
    "cut_pieces",
    "deepest_of",
    "escape",
    "expand_attachments",
    "expand_unaries",
    "flat_tree",
    "in_order",
    "max_depth",
    "merge_subwords",
    "normalize",
    "pack_tape",
    "packed_tapes",
    "parse_piece",
    "read_arrays",
    "read_trees",
    "remove_traces",
    "sentence_layout",
    "spans_from_attachments",
    "tape",
    "tape_from_spans",
    "tree_from_attachments",
    "unbinarize",
    "unescape",
    "unpack_tape",
]
