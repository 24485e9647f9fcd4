"""Dependency trees as arc-standard actions (Nivre 2004; Zhao et al. 2024), and back.

GEN puts a word on the stack; *left_arc* makes the top the head of the second, which goes; *right_arc* makes
the second the head of the top, which goes; *pop_root* ends a sentence of whose words one is left. A tree has
several sequences; the static oracle's takes left before right before GEN, and right once the dependent has
all its own. No arcs of these trees cross. Words are numbers from 0; a word's head is -1 if it is the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.trees.graphs import Graph

CROSSING = "arcs cross (config.lift=true lifts them)"


@dataclass(frozen=True, slots=True, eq=False)
class ArcActions:
    """The arcs of a sentence of n tokens, in the order in which they are made.

    Attributes:
        begins: bool (n), tokens that begin a word.
        arcs: int32 (n), arcs between each token and the next one; after a word's last token alone.
        left: bool (arcs), whether each of them is a left_arc.
    """

    begins: NDArray[np.bool_]
    arcs: NDArray[np.int32]
    left: NDArray[np.bool_]

    @property
    def most_words(self) -> int:
        """The most words that are on the stack at once."""
        before = self.begins.cumsum() - self.arcs.cumsum() + self.arcs
        return int(before.max(initial=0))


def actions_of(graph: Graph, word: NDArray[np.int32], *, lift: bool = False) -> ArcActions | str:
    """The static oracle's actions for a sentence, or the reason why there are none.

    Args:
        graph: its words' dependencies.
        word: int32 (n + 2), each token's word, from 0; -1 for ROOT and end-of-sentence.
        lift: lift crossing arcs (:meth:`pdtools.trees.Graph.projected`).
    """
    try:
        heads = graph.tree_heads()
    except InputError as error:
        return error.reason
    if graph.n_crossings:
        if not lift:
            return CROSSING
        heads = graph.projected()[0].tree_heads()
    n_tokens = np.bincount(word[1:-1], minlength=graph.n_words)
    return static_oracle(heads - np.int32(1), n_tokens)


def static_oracle(heads: NDArray[np.int32], n_tokens: NDArray[np.integer] | None = None) -> ArcActions:
    """The actions of a projective tree.

    Left arcs follow their head; the right arc of a dependent follows the last word of what it dominates.

    Args:
        heads: int32 (m), each word's head.
        n_tokens: int (m), the number of tokens of each word, at least 1; None: one each.
    """
    m = len(heads)
    word = np.arange(m)
    is_right = (heads >= 0) & (heads < word)
    last = word.copy()
    np.maximum.at(last, heads[is_right], word[is_right])
    while not np.array_equal(last, further := last[last]):
        last = further
    made = np.empty((m, 2), np.int64)  # left and right arcs after each word
    made[:, 0] = np.bincount(heads[heads > word], minlength=m)
    made[:, 1] = np.bincount(last[is_right], minlength=m)
    counts = np.ones(m, np.int64) if n_tokens is None else np.asarray(n_tokens, np.int64)
    ends = counts.cumsum()
    begins, arcs = np.zeros(ends[-1], np.bool_), np.zeros(ends[-1], np.int32)
    begins[ends - counts] = True
    arcs[ends - 1] = made.sum(1)
    left = np.repeat(np.arange(2 * m) % 2 == 0, made.ravel())
    return ArcActions(begins, arcs, left)


def heads_of(actions: ArcActions) -> NDArray[np.int32]:
    """The heads that actions make, int32 (m); -1 of words that are left on the stack."""
    heads = np.full(int(actions.begins.sum()), -1, np.int32)
    for head, dependent in arcs_of(actions):
        heads[dependent] = head
    return heads


def arcs_of(actions: ArcActions) -> Iterator[tuple[int, int]]:
    """Head and dependent of each arc, in order."""
    stack: list[int] = []
    n_words = 0
    directions = iter(actions.left.tolist())
    for begins, arcs in zip(actions.begins.tolist(), actions.arcs.tolist(), strict=True):
        if begins:
            stack.append(n_words)
            n_words += 1
        for _ in range(arcs):
            top, second = stack.pop(), stack.pop()
            head, dependent = (top, second) if next(directions) else (second, top)
            stack.append(head)
            yield head, dependent


def dependency_text(words: Sequence[str], heads: Sequence[int]) -> str:
    """Each word with its dependents in parentheses, such as ``((the) cat) saw ((a) dog)``; what is on the
    stack between bars."""
    dependents: list[list[int]] = [[] for _ in heads]
    roots: list[int] = []
    for word, head in enumerate(heads):
        (roots if head < 0 else dependents[head]).append(word)
    text = list(words)
    # Deepest first, without recursion: a word is written once all its dependents are.
    waiting = [len(each) for each in dependents]
    ready = [word for word, number in enumerate(waiting) if not number]
    for word in ready:  # which grows
        parts = [(d, f"({text[d]})") for d in dependents[word]]
        text[word] = " ".join(part for _, part in sorted([*parts, (word, text[word])]))
        head = heads[word]
        if head >= 0:
            waiting[head] -= 1
            if not waiting[head]:
                ready.append(head)
    return " | ".join(text[root] for root in roots)
