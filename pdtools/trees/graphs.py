"""Dependency graphs: unlabelled arcs between the words of a sentence; trees in them, and features.

Nodes are 0, the root, and the words 1..m. A word may have several heads or none; there may be several roots,
cycles, and arcs that cross. No arc goes from a word to itself, none to the root.

Arcs are in canonical order: by their later word t; for each t first arcs to t, by their heads 0..t-1, then
arcs from t, by their dependents 1..t-1. These 2t - 1 are the *candidates* of t.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.errors import InputError
from pdtools.trees.projection import constituents, project
from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, unescape

Int32 = NDArray[np.int32]
_Integer = TypeVar("_Integer", np.int32, np.int64)
_ARC = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")
_COMPARED_AT_ONCE = 1 << 22  # pairs of arcs
# The length of a missing path: two of them still fit into int16.
FAR = 16_000
# Costs of a step of a path, from a head to its dependent and back, in depths and in distances.
COSTS = ((1, 1), (10, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The arcs of a sentence, in canonical order; :meth:`of` makes and checks one.

    Attributes:
        n_words: m.
        heads: int32 (a), 0..m.
        dependents: int32 (a), 1..m.
    """

    n_words: int
    heads: Int32
    dependents: Int32

    @classmethod
    def of(cls, n_words: int, heads: ArrayLike, dependents: ArrayLike) -> Graph:
        """Put arcs, (a) each, in canonical order; equal ones become one.

        Raises:
            InputError: for an arc from a word to itself, to the root, or outside the sentence.
        """
        h, d = (np.asarray(ends, dtype=np.int64).reshape(-1) for ends in (heads, dependents))
        for bad, reason in (
            ((h < 0) | (h > n_words) | (d < 1) | (d > n_words), f"outside of {n_words} words"),
            (h == d, "from a word to itself"),
        ):
            if bad.any():
                k = int(bad.argmax())
                raise InputError(f"the arc {h[k]}-{d[k]}: {reason}")
        # A word t has 2t - 1 candidates: the words before it have (t - 1)².
        _, first = np.unique((np.maximum(h, d) - 1) ** 2 + _candidates(h, d), return_index=True)
        return cls(n_words, h[first].astype(np.int32), d[first].astype(np.int32))

    @classmethod
    def of_heads(cls, heads: ArrayLike) -> Graph:
        """The graph in which each word has one head, int (m), 0 for the root; errors as :meth:`of`."""
        found = np.asarray(heads, dtype=np.int32)
        return cls.of(len(found), found, np.arange(1, len(found) + 1))

    @classmethod
    def from_text(cls, text: str, n_words: int) -> Graph:
        """Undo ``str``: ``0-2 2-1`` has an arc from the root to word 2, and one from there to word 1.

        Raises:
            InputError: for what is no arc; as :meth:`of`.
        """
        arcs = text.split()
        if bad := next((arc for arc in arcs if not _ARC.fullmatch(arc)), None):
            raise InputError(f"no arc: {bad[:20]!r}")
        numbers = list(map(int, "-".join(arcs).split("-"))) if arcs else []
        return cls.of(n_words, numbers[::2], numbers[1::2])

    def __str__(self) -> str:
        return " ".join(f"{head}-{dependent}" for head, dependent in self.arcs)

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def arcs(self) -> list[tuple[int, int]]:
        """Head and dependent of each arc."""
        return list(zip(self.heads.tolist(), self.dependents.tolist(), strict=True))

    @property
    def later(self) -> Int32:
        """Int32 (a), the word t that each arc belongs to."""
        return np.maximum(self.heads, self.dependents)

    @property
    def candidates(self) -> Int32:
        """Int32 (a), which of the candidates 0..2t-2 of its word t each arc is."""
        return _candidates(self.heads, self.dependents)

    @property
    def counts(self) -> Int32:
        """The number of arcs that belong to each word: int32 (m)."""
        return np.bincount(self.later - 1, minlength=self.n_words).astype(np.int32)

    @property
    def n_roots(self) -> int:
        """The number of words that the root is head of."""
        return int(np.count_nonzero(self.heads == 0))

    @property
    def has_cycle(self) -> bool:
        """True if a path along arcs, from heads to dependents, leads back to its start."""
        waiting = np.bincount(self.dependents, minlength=self.n_words + 1).tolist()
        below: list[list[int]] = [[] for _ in waiting]
        for head, dependent in self.arcs:
            below[head].append(dependent)
        order = [k for k, heads in enumerate(waiting) if not heads]
        for k in order:  # which grows
            for dependent in below[k]:
                waiting[dependent] -= 1
                if not waiting[dependent]:
                    order.append(dependent)
        return len(order) < len(waiting)

    @property
    def n_crossings(self) -> int:
        """The number of crossing arcs: pairs of which one begins inside the other and ends outside."""
        left, right = np.minimum(self.heads, self.dependents), self.later
        rows = max(1, _COMPARED_AT_ONCE // max(1, len(self)))
        found = 0
        for some in (slice(i, i + rows) for i in range(0, len(self), rows)):
            a, b = left[some, None], right[some, None]
            found += int(np.count_nonzero((a < left) & (left < b) & (b < right)))
        return found

    @property
    def problem(self) -> str | None:
        """Why this is no tree, in which words have one head, one of them the root; None of a tree."""
        n_heads = np.bincount(self.dependents, minlength=self.n_words + 1)[1:]
        if (n_heads != 1).any():
            k = int((n_heads != 1).argmax())
            return f"word {k + 1} has {n_heads[k] or 'no'} head{'s' if n_heads[k] else ''}"
        above = self._heads()
        for _ in range(self.n_words.bit_length()):  # further than any path that ends
            above = above[above]
        if above.any():
            return "the heads form a cycle"
        return None if self.n_roots == 1 else f"{self.n_roots} roots, not one"

    def tree_heads(self) -> Int32:
        """Int32 (m), the head of each word of a tree, 0 for the root.

        Raises:
            InputError: if this is no tree.
        """
        if (problem := self.problem) is not None:
            raise InputError(problem)
        return self._heads()[1:]

    def _heads(self) -> Int32:
        """Int32 (m + 1), the head of each node where words have one; the root has itself."""
        heads = np.zeros(self.n_words + 1, dtype=np.int32)
        heads[self.dependents] = self.heads
        return heads

    def projected(self) -> tuple[Graph, int]:
        """Return the tree with arcs lifted until none cross, and the number of lifts.

        See :func:`pdtools.trees.projection.project`: to the head's head, the shortest arc first.

        Raises:
            InputError: if this is no tree.
        """
        parents = (self.tree_heads() - 1).tolist()
        n_lifted, _ = project(parents)
        return Graph.of_heads(np.array(parents, dtype=np.int32) + 1), n_lifted


def _candidates(heads: NDArray[_Integer], dependents: NDArray[_Integer]) -> NDArray[_Integer]:
    return np.where(heads < dependents, heads, (heads + dependents - 1).astype(heads.dtype))


# --- trees in graphs --------------------------------------------------------------------------


def heads_in(graph: Graph) -> list[int]:
    """A tree in a graph: the head of each word, 0 of the one root; of a tree its own.

    Words are reached from the root breadth first, smaller numbers first. A word that is not reached, or is
    another one under the root, depends on the first word under the root.
    """
    below: list[list[int]] = [[] for _ in range(graph.n_words + 1)]
    for head, dependent in graph.arcs:
        below[head].append(dependent)
    heads = [-1] * graph.n_words
    top, order = 0, [0]
    for node in order:  # which grows
        for dependent in sorted(below[node]):
            if heads[dependent - 1] < 0:
                heads[dependent - 1] = node or top
                top = top or dependent
                order.append(dependent)
        if node == order[-1] and -1 in heads:
            below[0] = [heads.index(-1) + 1]
            order.append(0)
    return heads


def graph_tree(graph: Graph, words: Sequence[str]) -> Tree:
    """The constituents of a graph, by :func:`heads_in`: a head spans its descendants, flat.

    Labels and tags are those of models without labels. Crossing arcs are lifted. If the words are not the
    graph's (in running text, without spaces between some), all depend on the first.
    """
    heads = heads_in(graph if graph.n_words == len(words) else Graph.of(len(words), [], []))
    tree, _ = constituents(words, ["_"] * len(words), [head - 1 for head in heads])
    labels = (UNKNOWN_LABEL,) * len(tree.labels)
    return replace(tree, tags=(UNKNOWN_TAG,) * len(words), labels=labels)


def conllu(graph: Graph, words: Sequence[str], ranges: Sequence[tuple[int, int, str]] = ()) -> str:
    """A sentence in CoNLL-U, with the blank line after it: heads by :func:`heads_in`, all arcs in DEPS.

    Args:
        words: as leaves of trees; brackets in them are unescaped.
        ranges: multi-word tokens: their first and last word, and their form as a leaf.
    """
    of_word: list[list[int]] = [[] for _ in words]
    for head, dependent in sorted(graph.arcs):
        of_word[dependent - 1].append(head)
    tokens = {first: (last, unescape(form)) for first, last, form in ranges}
    written = {k: unescape(word) for k, word in enumerate(words, 1)}
    for first, (last, form) in tokens.items():
        written = {k: word for k, word in written.items() if not first < k <= last} | {first: form}
    lines = [f"# text = {' '.join(written[k] for k in sorted(written))}"]
    for number, (word, head, heads) in enumerate(zip(words, heads_in(graph), of_word, strict=True), start=1):
        relation = "dep" if head else "root"
        deps = "|".join(f"{each}:{'dep' if each else 'root'}" for each in heads) or "_"
        if number in tokens:
            last, form = tokens[number]
            lines.append("\t".join([f"{number}-{last}", form, *"________"]))
        fields = [number, unescape(word), "_", "_", "_", "_", head, relation, deps, "_"]
        lines.append("\t".join(map(str, fields)))
    return "\n".join(lines) + "\n\n"


# --- features ---------------------------------------------------------------------------------


class GraphFeatures(NamedTuple):
    """Features of node j after word t (Huang et al. 2026), which a model reads beside words.

    Each is int16 (B, M, M) of B graphs of M = m + 1 nodes; 0 for j > t, and for words that no path leads to.
    An arc is there from its later word on.

    Attributes:
        degree: 10 · dependents + heads.
        depth: 1 + arcs of the shortest path from the root, whatever their directions.
        distance: cheapest path from t to j; 10 a step to a dependent, 1 a step to a head.
    """

    degree: NDArray[np.int16]
    depth: NDArray[np.int16]
    distance: NDArray[np.int16]


def graph_features(adjacency: NDArray[np.bool_]) -> GraphFeatures:
    """Compute the features after every word, in m steps of array operations.

    All new arcs touch t. With o and b the costs of t's arcs from and to t, and X the cheapest paths before t,
    f = min_i (o_i + X[i]) and g = min_i (X[:, i] + b_i) are the paths from and to t, and all others become
    min(X, g[:, None] + f).

    Args:
        adjacency: bool (B, M, M), ``[b, h, d]`` for an arc from h to d; no self-loops.
    """
    batch, nodes, _ = adjacency.shape
    paths = np.full((2, batch, nodes, nodes), FAR, dtype=np.int16)  # shortest, and cheapest
    paths[:, :, range(nodes), range(nodes)] = 0
    degree = np.zeros((batch, nodes), dtype=np.int16)
    found = np.zeros((3, batch, nodes, nodes), dtype=np.int16)
    found[1, :, 0, 0] = 1
    for t in range(1, nodes):
        is_head, is_dependent = adjacency[:, :t, t], adjacency[:, t, :t]  # (B, t)
        degree[:, :t] += is_head * np.int16(10) + is_dependent
        degree[:, t] = is_dependent.sum(1) * 10 + is_head.sum(1)
        rows, old = np.nonzero(is_head | is_dependent)  # (arcs,), in the order of rows
        if len(rows):
            touched, first = np.unique(rows, return_index=True)
            for x, (down, up) in zip(paths, COSTS, strict=True):
                # The cheaper one, if there are arcs both ways.
                out = np.where(is_head[rows, old], up, down).astype(np.int16)  # (arcs,)
                back = np.where(is_dependent[rows, old], up, down).astype(np.int16)
                f = np.minimum.reduceat(x[rows, old, :t] + out[:, None], first)  # (touched, t)
                g = np.minimum.reduceat(x[rows, :t, old] + back[:, None], first)
                x[touched, t, :t], x[touched, :t, t] = f, g
                x[touched, :t, :t] = np.minimum(x[touched, :t, :t], g[:, :, None] + f[:, None, :])
            np.minimum(paths, FAR, out=paths)
        found[0, :, t, : t + 1] = degree[:, : t + 1]
        found[1, :, t, : t + 1] = _or_0(paths[0, :, 0, : t + 1] + 1)
        found[2, :, t, : t + 1] = _or_0(paths[1, :, t, : t + 1])
    return GraphFeatures(*found)


def _or_0(lengths: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.where(lengths < FAR, lengths, np.int16(0))
