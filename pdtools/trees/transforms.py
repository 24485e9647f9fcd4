"""Clean, collapse and binarize trees, with the labels of nltk's transforms, so that nltk can undo them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.trees.tree import TRACE_TAG, Factor, Tree, check_factor

Functions = Literal["strip", "keep"]
Children = list[tuple[str, int, int]]

TRACE_TAGS = frozenset({TRACE_TAG, "-DFL-"})
"""Tags of leaves that are no words: traces, and Switchboard's marks of disfluency (``(-DFL- E_S)``)."""
WRAPPERS = frozenset({"", "ROOT", "TOP", "S1", "VROOT"})
MAX_LABEL_CHARS = 1 << 26
"""Limit on one tree's label characters from binarization; n children of a node are named n² / 2 times."""
TOO_WIDE = "a node with too many children to be binarized with labels that name them all"
_REMEMBERED_LABEL = 64  # longest labels, in characters, that are cached
_INDEX = re.compile(r"(?<=\*)-.*")
# A node that binarization made: VP|<NP-PP>.
_ARTIFICIAL = re.compile(r"\|<.*>$")


@dataclass
class TransformCounts:
    """Counts of what :func:`normalize` removed or rewrote, summed over trees.

    Attributes:
        traces: leaves tagged ``-NONE-`` or ``-DFL-``.
        kinds: the number of each kind (:func:`kind_of_empty`).
        emptied: phrases that were left without words.
        rewritten: for each label that holds ``|``, the number of times it was cut to its first part.
        empty_trees: trees of which nothing was left.
    """

    traces: int = 0
    emptied: int = 0
    rewritten: Counter[str] = field(default_factory=Counter)
    empty_trees: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: TransformCounts) -> TransformCounts:
        names = [each.name for each in fields(self)]
        return TransformCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


def normalize(
    tree: Tree, *, functions: Functions = "strip", counts: TransformCounts | None = None
) -> Tree | None:
    """Clean a treebank's tree.

    Binarization is undone. Traces (leaves tagged ``-NONE-`` or ``-DFL-``, whatever their form) and the
    phrases that they leave empty are removed, and so is a wrapper ("", ROOT, TOP, S1, VROOT) with one child.
    Labels lose function tags and indices (``NP-SBJ-1``, ``NP=2`` and BLLIP's ``NP#3`` become ``NP``;
    ``-LRB-`` stays); one that holds ``|`` keeps its first part.

    Args:
        tree: the tree as read.
        functions: ``keep`` leaves function tags and indices on.
        counts: added to, if given.

    Returns:
        The clean tree, or None if it had no words but traces.
    """
    counts = TransformCounts() if counts is None else counts
    bare = bare_tree(tree, counts)
    if bare is None:
        return None
    tags, labels = (
        tuple(_clean_label(label, functions, counts) for label in some) for some in (bare.tags, bare.labels)
    )
    return replace(bare, tags=tags, labels=labels)


def bare_tree(tree: Tree, counts: TransformCounts | None = None) -> Tree | None:
    """The result of :func:`normalize`, with tags and labels as they are written."""
    bare = remove_traces(unbinarize(tree), counts)
    return None if bare is None else _unwrap(bare)


def remove_traces(tree: Tree, counts: TransformCounts | None = None) -> Tree | None:
    """Remove leaves tagged as in ``TRACE_TAGS``, and emptied phrases; None if nothing is left."""
    if TRACE_TAGS.isdisjoint(tree.tags):
        return tree
    counts = TransformCounts() if counts is None else counts
    kept = np.array([tag not in TRACE_TAGS for tag in tree.tags])
    place = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)  # (n + 1) kept words before each word
    starts, ends = place[tree.starts], place[tree.ends]
    filled = starts < ends
    counts.traces += int((~kept).sum())
    for k in np.flatnonzero(~kept).tolist():
        counts.kinds[kind_of_empty(tree.words[k]) if tree.tags[k] == TRACE_TAG else tree.tags[k]] += 1
    counts.emptied += int((~filled).sum())
    if not kept.any():
        counts.empty_trees += 1
        return None
    words, tags, labels = _select(tree.words, kept), _select(tree.tags, kept), _select(tree.labels, filled)
    return Tree(words, tags, labels, starts[filled], ends[filled])


def kind_of_empty(leaf: str) -> str:
    """The kind of an empty leaf: for ``*T*-1`` and ``*arb*-D``, the part in stars."""
    return _INDEX.sub("", leaf) if leaf[0] in "*0" else "others"


def _unwrap(tree: Tree) -> Tree:
    n_outer = 0
    while n_outer < len(tree.labels) and tree.labels[n_outer] in WRAPPERS and _has_one_child(tree, n_outer):
        n_outer += 1
    return Tree(tree.words, tree.tags, tree.labels[n_outer:], tree.starts[n_outer:], tree.ends[n_outer:])


def _has_one_child(tree: Tree, node: int) -> bool:
    if len(tree) == 1:
        return True
    child = node + 1
    return child < len(tree.labels) and tree.starts[child] == 0 and tree.ends[child] == len(tree)


def _clean_label(label: str, functions: Functions, counts: TransformCounts) -> str:
    if "|" in label:
        counts.rewritten[label] += 1
    return clean_label(label, functions)


def clean_label(label: str, functions: Functions = "strip") -> str:
    """A label as :func:`normalize` writes it."""
    return (_remembered if len(label) <= _REMEMBERED_LABEL else _cleaned)(label, functions)


def _cleaned(label: str, functions: Functions) -> str:
    if "|" in label:
        # A label of bars alone has no first part; X is the treebank's label for the unknown.
        label = next((part for part in label.split("|") if part), "X")
    if functions == "keep":
        return label
    return "+".join(
        re.sub(r"(?<=.)[-=#].*", "", part) if part[:1] != "-" else part for part in label.split("+")
    )


_remembered = lru_cache(maxsize=65536)(_cleaned)


def collapse_unaries(tree: Tree) -> Tree:
    """Join unary chains of constituents into one label: (S (VP …)) becomes (S+VP …). Tags stay apart.

    The same as nltk's ``collapse_unary(collapsePOS=False, collapseRoot=True, joinChar="+")``.
    """
    begins_chain = np.ones(len(tree.labels), dtype=bool)
    begins_chain[1:] = (tree.starts[1:] != tree.starts[:-1]) | (tree.ends[1:] != tree.ends[:-1])
    if begins_chain.all():
        return tree
    first = np.flatnonzero(begins_chain).tolist()
    past = [*first[1:], len(tree.labels)]
    labels = tuple("+".join(tree.labels[a:b]) for a, b in zip(first, past, strict=True))
    return replace(tree, labels=labels, starts=tree.starts[begins_chain], ends=tree.ends[begins_chain])


def expand_unaries(tree: Tree) -> Tree:
    """Undo :func:`collapse_unaries`: a label with ``+`` becomes a chain. Undo binarization first."""
    chains = [[label] if _ARTIFICIAL.search(label) else label.split("+") for label in tree.labels]
    lengths = np.array([len(chain) for chain in chains], dtype=np.int32)
    labels = tuple(label for chain in chains for label in chain)
    return replace(
        tree, labels=labels, starts=np.repeat(tree.starts, lengths), ends=np.repeat(tree.ends, lengths)
    )


def binarize(tree: Tree, factor: Factor = "right") -> Tree:
    """Give every constituent at most two children, with nltk's labels of all children: ``VP|<NP-PP>``.

    The same as nltk's ``chomsky_normal_form(factor, horzMarkov=None)``. Unary constituents stay as they are.

    Args:
        tree: any tree.
        factor: ``right`` groups the last children, ``left`` the first.

    Raises:
        InputError: if the new labels are longer than ``MAX_LABEL_CHARS`` together, as for a node with
            some ten thousand children.
    """
    check_factor(factor)

    def groups(children: Children) -> list[tuple[int, int]]:
        n = len(children)
        return [(i, n) if factor == "right" else (0, n - i) for i in range(1, n - 1)]

    return _grouped(tree, groups)


def binarize_from_heads(tree: Tree, heads: NDArray[np.int32]) -> Tree:
    """Binarize outward from heads, with the labels of :func:`binarize`, a tree made from dependencies.

    Such trees are flat: the factoring determines most of their attachments. Right-factoring groups the last
    children of a node, whatever they are; here a head is grouped with its dependents to the right, the
    nearest first, and then with its dependents to the left.

    Args:
        tree: a tree in which no arc crosses a constituent.
        heads: int32 (n), each word's head, -1 for the root.

    Raises:
        InputError: if the new labels are too long, see :func:`binarize`.
    """
    parents = heads.tolist()

    def groups(children: Children) -> list[tuple[int, int]]:
        n, start, end = len(children), children[0][1], children[-1][2]
        head = start
        while start <= parents[head] < end:
            head = parents[head]
        place = next(i for i, child in enumerate(children) if child[1] <= head < child[2])
        to_the_right = [(place, past) for past in range(place + 2, n + 1)]
        return [*to_the_right, *((first, n) for first in range(place - 1, -1, -1))][:-1]  # the last has all

    return _grouped(tree, groups)


def _grouped(tree: Tree, groups: Callable[[Children], list[tuple[int, int]]]) -> Tree:
    """Add a node over each group ``children[first:past]`` of a node's children."""
    added: list[tuple[str, int, int]] = []
    n_chars = 0
    for label, children in zip(tree.labels, children_of(tree), strict=True):
        for first, past in groups(children):
            inside = children[first:past]
            name = f"{label}|<{'-'.join(name for name, _, _ in inside)}>"
            added.append((name, inside[0][1], inside[-1][2]))
            n_chars += len(name)
            if n_chars > MAX_LABEL_CHARS:
                raise InputError(TOO_WIDE)
    return _with_nodes(tree, added)


def _with_nodes(tree: Tree, added: Sequence[tuple[str, int, int]]) -> Tree:
    """The tree with added constituents (label, start, end), none of which has the span of another."""
    if not added:
        return tree
    labels, starts, ends = (
        [*own, *new]
        for own, new in zip(
            (tree.labels, tree.starts.tolist(), tree.ends.tolist()), zip(*added, strict=True), strict=True
        )
    )
    # No new node has the span of another, so the order of spans is pre-order; lexsort is stable, which keeps
    # unary chains in order.
    order = np.lexsort((-np.array(ends), np.array(starts)))
    in_order = (labels[i] for i in order.tolist())
    return Tree.of(tree.words, tree.tags, in_order, np.array(starts)[order], np.array(ends)[order])


def unbinarize(tree: Tree) -> Tree:
    """Undo :func:`binarize`: nodes labelled ``X|<Y-Z>`` go, their children move up."""
    original = np.array([_ARTIFICIAL.search(label) is None for label in tree.labels], dtype=bool)
    original[:1] = True  # the top node covers the sentence, whatever its label
    if original.all():
        return tree
    labels = _select(tree.labels, original)
    return replace(tree, labels=labels, starts=tree.starts[original], ends=tree.ends[original])


def children_of(tree: Tree) -> list[Children]:
    """The children of each constituent from left to right: label (for a bare word: the word), start, end."""
    children: list[Children] = [[] for _ in tree.labels]
    path: list[int] = []
    ends = tree.ends.tolist()
    upcoming = 0
    starts = tree.starts.tolist()
    for k, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        while path and ends[path[-1]] == k:
            path.pop()
        while upcoming < len(starts) and starts[upcoming] == k:
            if path:
                children[path[-1]].append((tree.labels[upcoming], k, ends[upcoming]))
            path.append(upcoming)
            upcoming += 1
        if path:
            children[path[-1]].append((tag or word, k, k + 1))
    return children


def _select(texts: tuple[str, ...], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(itertools.compress(texts, mask.tolist()))


# --- trees in which ids, comments or empty leaves would be read as words -----------------------
# Historical treebanks (Penn-Helsinki, YCOE, IcePaHC, Keyaki) keep a tree's id and comments in brackets of
# their own. They, and treebanks whose tags were removed, write empty leaves without the tag -NONE-. The label
# above tells these from words: (NP-SBJ *pro*) is empty, (NN *sigh*) is a word. Trees with discontinuous
# constituents number their leaves: 0=the.

FOREIGN_LABELS = ("ID", "METADATA", "CODE")
EMPTY_LEAF = "an empty leaf without the tag -NONE-"
NUMBERED_LEAVES = "leaves with numbers, such as 0=The: parse --from discbracket reads them"

# A category, and after it no letter: a function, an index or a number may follow.
_PHRASE = re.compile(
    r"(?:WH?)?(?:NP|PP|ADJP|ADVP|QP)(?![^\W\d_])"
    r"|(?:CP|IP|VP|NX|NUMP|CONJP|INTJ|INTP|PRN|PRT|FRAG|UCP|RRC|S|SBARQ?|SINV|SQ)(?![^\W\d_])"
)
_ZERO = re.compile(r"(?:C|P|SBAR|WH?[A-Z]+P)(?![^\W\d_])")
_NUMBERED = re.compile(r"[0-9]+=.+")
_STARS = re.compile(r"\*(?:-\d+|[^*]+\*(?:-.+)?)?")


def refused_form(tree: Tree) -> tuple[str, str] | None:
    """The reason why a tree is refused, and advice; None for other trees."""
    for label in FOREIGN_LABELS:
        if label in tree.labels or label in tree.tags:
            return f"({label} …) is no part of a tree: parse --from penn-historical reads it", ""
    for k, (tag, word) in enumerate(zip(tree.tags, tree.words, strict=True)):
        if word[0] in "*0" and is_empty_leaf(tag or _phrase_of(tree, k), word) and (tag or word != "*"):
            leaf = f"({tag} {word}): ({tag} (-NONE- {word}))" if tag else f"{word}: (-NONE- {word})"
            return EMPTY_LEAF, f"{leaf} would be read"
        if word.startswith("0=") and all(map(_NUMBERED.fullmatch, tree.words)):
            return NUMBERED_LEAVES, ""
    return None


def is_empty_leaf(label: str, word: str) -> bool:
    """Return whether a leaf is empty, given its text and the label directly above it."""
    if word == "0":
        return _ZERO.match(label) is not None
    return _STARS.fullmatch(word) is not None and _PHRASE.match(label) is not None


def _phrase_of(tree: Tree, k: int) -> str:
    """The label of the smallest constituent around a word."""
    around = np.flatnonzero((tree.starts <= k) & (k < tree.ends))
    return tree.labels[around[-1]] if len(around) else ""
