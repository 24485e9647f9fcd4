"""Dependency trees as arc-standard actions (Nivre 2004; Zhao et al. 2024), and back.

GEN puts a word on the stack; *left_arc* makes the top the head of the second, which goes; *right_arc* makes
the second the head of the top, which goes; *pop_root* ends a sentence of whose words one is left. A tree has
several sequences; the static oracle's takes left before right before GEN, and right once the dependent has
all its own. No arcs of these trees cross. Words are numbers from 0; a word's head is -1 if it is the root.

A row, as Dependency Transformer Grammars read it, is the start, tokens and arcs, and pop_root: for n tokens
and m words 2 + n + 2 (m - 1) positions. Each arc stands twice: COMPOSE, which sees both top items of the
stack and is the item in their place, and STACK, which sees the stack and goes. A word's tokens are one item;
the start is the bottom one. Everything a mask needs is an integer a position, made for many rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.errors import InputError
from pdtools.trees.actions import ActionIds, ActionRows, Int64, counted_from
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


# --- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArcIds(ActionIds):
    """Numbers of arc-standard actions: tokens come first, then pop_root, left_arc and right_arc.

    There are no openers; to a search pop_root and arcs are closers.
    """

    labels: int = 0
    typed: bool = False
    doubled: bool = True

    @property
    def closers(self) -> int:
        """See :attr:`ActionIds.closers`."""
        return 3

    @property
    def pop_root(self) -> int:
        """The number of pop_root."""
        return self.tokens

    @property
    def left(self) -> int:
        """The number of left_arc."""
        return self.tokens + 1

    @property
    def right(self) -> int:
        """The number of right_arc."""
        return self.tokens + 2

    def positions(self, tokens: ArrayLike, words: ArrayLike) -> Int64:
        """The number of positions of rows with these numbers of tokens (special ones aside) and words."""
        return np.asarray(tokens, np.int64) + 2 * np.asarray(words, np.int64)


@dataclass(frozen=True, eq=False)
class ArcRows(ActionRows):
    """Rows of arc-standard actions one after the other, T positions together.

    In place of constituents words on the stack are counted: ``n_open`` are those after each position, and so
    is ``depth``, items below the one that a position is (of STACK, that was put there last). ``innermost`` is
    -1.

    Attributes:
        head: int64 (T), of arcs the last token of the head, of pop_root the start; -1 of tokens.
    """

    head: Int64


def arc_rows(rows: Sequence[tuple[NDArray[np.integer], ArcActions]], ids: ArcIds, start: int) -> ArcRows:
    """Write trees into their strings, by operations on the arrays of all rows.

    Args:
        rows: the n tokens of each, without ROOT and end-of-sentence, and their arcs.
        ids: numbers of actions.
        start: the number that the start token has.
    """
    tokens = np.concatenate([np.append(start, row) for row, _ in rows]).astype(np.int64)
    begins_word = np.concatenate([np.append(False, each.begins) for _, each in rows])
    arcs = np.concatenate([np.append(0, each.arcs) for _, each in rows]).astype(np.int64)
    left = np.concatenate([each.left for _, each in rows])  # (a)
    first_of_rows = np.cumsum([0, *(len(row) + 1 for row, _ in rows)])
    is_last = np.zeros(len(tokens), np.int64)
    is_last[first_of_rows[1:] - 1] = 1
    ends = np.cumsum(1 + 2 * arcs + is_last)  # the end of a token with the actions that follow it
    token_at = ends - 1 - 2 * arcs - is_last
    compose_at = counted_from(token_at + 1, arcs, 2)  # (a)
    pop_at = ends[first_of_rows[1:] - 1] - 1  # (rows)
    begins = np.append(0, pop_at + 1)
    total = int(begins[-1])
    lengths = np.diff(begins)

    actions = np.zeros(total, np.int64)
    actions[token_at] = tokens
    actions[compose_at] = actions[compose_at + 1] = np.where(left, ids.left, ids.right)
    actions[pop_at] = ids.pop_root
    step = np.zeros(total, np.int64)
    step[token_at] = begins_word
    step[compose_at], step[pop_at] = -1, -1
    depth = np.cumsum(step)
    depth -= np.repeat(depth[begins[:-1]], lengths)  # the start has 0
    is_item = np.ones(total, np.bool_)
    is_item[compose_at + 1] = False

    # An item at depth d goes with the next COMPOSE at d, as the second, or at d - 1, as the top.
    position = np.arange(total)
    composes = np.sort(np.concatenate([compose_at, pop_at]))
    keys = np.append(np.sort(depth[composes] * total + composes), -1)

    def next_at(level: Int64) -> Int64:
        found = keys[np.searchsorted(keys[:-1], level * total + position, side="right")]
        return np.where(found // total == level, found % total, total)

    pop = np.minimum(next_at(depth), next_at(depth - 1))
    pop = np.minimum(pop, np.repeat(begins[1:], lengths))
    pop[~is_item] = position[~is_item]

    # The head of an item made by COMPOSE is the head of one of its items, and so on down to a token.
    items = position[is_item]
    item_keys = np.sort(depth[items] * total + items)
    second = item_keys[np.searchsorted(item_keys, depth[composes] * total + composes) - 1] % total
    top = composes - 1 - ~is_item[composes - 1]
    source = position.copy()
    source[composes] = np.where(actions[composes] == ids.left, top, second)
    source[~is_item] = position[~is_item] - 1
    while not np.array_equal(source, further := source[source]):
        source = further
    head = np.where(actions < ids.tokens, -1, actions[source])

    first = np.repeat(begins[:-1], lengths)
    return ArcRows(
        begins=begins,
        actions=actions,
        n_open=depth.astype(np.int32),
        depth=depth.astype(np.int32),
        innermost=np.full(total, -1, np.int32),
        pop=(pop - first).astype(np.int32),
        head=head,
    )
