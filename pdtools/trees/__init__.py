"""Bracketed trees, their transforms, attachments and stack tapes (numpy only; nltk where named)."""

from pdtools.trees.arrays import TreeArrays, count_trees, parse_chunk
from pdtools.trees.attachments import (
    attachments,
    constituents_of_words,
    expand_attachments,
    merge_subwords,
    sentence_layout,
    spans_from_attachments,
    stack_text,
    tree_from_attachments,
)
from pdtools.trees.chunks import FileChunk, cut_chunks, files_beside, in_order, path_beside
from pdtools.trees.constituents import (
    ChunkConstituents,
    Constituents,
    chunk_constituents,
    expand_constituents,
    labelled,
    opens_and_closes,
    tree_from_constituents,
)
from pdtools.trees.graphs import Graph
from pdtools.trees.reader import SourcedTree, read_proposals, read_trees
from pdtools.trees.tape import deepest_of, packed_tapes, tape
from pdtools.trees.transforms import (
    TRACE_TAGS,
    WRAPPERS,
    TransformCounts,
    bare_tree,
    binarize,
    collapse_unaries,
    expand_unaries,
    normalize,
    unbinarize,
)
from pdtools.trees.tree import (
    BLANK_LINE,
    UNKNOWN_LABEL,
    UNKNOWN_TAG,
    Tree,
    escape,
    flat_tree,
    is_placeholder,
    placeholder,
    sentence_problem,
    unescape,
    word_problem,
)
