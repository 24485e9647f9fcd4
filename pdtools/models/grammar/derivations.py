"""Derivations of actions: sampling and enumeration of models that write the tree into the string."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.models.derivations import AnyDerivation, DerivationKind
from pdtools.trees import UNKNOWN_LABEL, Constituents, Tree, constituents_of_words
from pdtools.trees.actions import ActionIds, InOrderIds


@dataclass(frozen=True, slots=True)
class ActionDerivation:
    """A string with its openers and closers.

    Attributes:
        tokens: int32[n].
        labels: int32[m], labels' numbers in pre-order.
        opens, closes: int32[n], the numbers of constituents that open before and close after each token.
    """

    tokens: NDArray[np.int32]
    labels: NDArray[np.int32]
    opens: NDArray[np.int32]
    closes: NDArray[np.int32]

    def text(self, words: Sequence[str], labels: Sequence[str]) -> str:
        """Brackets such as ``(S (NP the dog) (VP barks``, with open constituents left open.

        Args:
            words: the tokens' words, and perhaps more.
            labels: names of the labels' numbers.
        """
        names = (f"({labels[label]}" for label in self.labels.tolist())
        parts = []
        for word, opens, closes in zip(words, self.opens.tolist(), self.closes.tolist(), strict=False):
            parts += [*itertools.islice(names, opens), word + ")" * closes]
        return " ".join(parts)

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`~pdtools.models.derivations.AnyDerivation`; open constituents are closed at the end."""
        n = len(self.tokens)
        starts = np.repeat(np.arange(n, dtype=np.int32), self.opens)
        ends = np.full_like(starts, n)
        open_nodes: list[int] = []
        upcoming = 0
        for k, (opens, closes) in enumerate(zip(self.opens.tolist(), self.closes.tolist(), strict=True)):
            open_nodes.extend(range(upcoming, upcoming + opens))
            upcoming += opens
            for _ in range(closes):
                ends[open_nodes.pop()] = k + 1
        names = tuple(labels[i] if labels else UNKNOWN_LABEL for i in self.labels.tolist())
        tree = Tree(("",) * n, ("",) * n, names, starts, ends)
        return constituents_of_words(tree, word_of_token, words)


def read_actions(actions: NDArray[np.integer], ids: ActionIds) -> ActionDerivation:
    """Convert a sequence of actions without the start, with closers once; open constituents stay open.

    Openers after the last token, of constituents without words, are dropped.
    """
    is_token = actions < ids.tokens
    n = int(is_token.sum())
    is_opener = (actions >= ids.tokens) & (actions < ids.first_closer)
    before: NDArray[np.int64] = np.cumsum(is_token) - is_token  # tokens before each action
    opens = np.bincount(before[is_opener], minlength=n + 1)[:n]
    is_closer = actions >= ids.first_closer
    closes = np.bincount(before[is_closer] - 1, minlength=n)[:n] if n else np.zeros(0, np.int64)
    return ActionDerivation(
        tokens=actions[is_token].astype(np.int32),
        labels=(actions[is_opener & (before < n)] - ids.tokens).astype(np.int32),
        opens=opens.astype(np.int32),
        closes=closes.astype(np.int32),
    )


def read_in_order(
    actions: NDArray[np.integer], ids: InOrderIds, continues: NDArray[np.bool_]
) -> ActionDerivation:
    """Convert a sequence of in-order actions without the start; open constituents stay open.

    Args:
        ids: numbers of actions.
        continues: bool (V,), tokens that continue a word.
    """
    tokens: list[int] = []
    nodes: list[tuple[int, int, int]] = []  # first token, minus the node's number, label
    closes: list[int] = []
    path: list[int] = []  # the first tokens of open constituents
    corner = 0  # the first token of what was read last, a word or a constituent
    for action in actions.tolist():
        if action < ids.tokens:
            if not tokens or not continues[action]:
                corner = len(tokens)
            tokens.append(action)
            closes.append(0)
        elif action < ids.first_closer:
            # The later one of constituents that begin together is around the earlier.
            nodes.append((corner, -len(nodes), action - ids.tokens))
            path.append(corner)
        elif action == ids.first_closer:
            corner = path.pop()
            closes[-1] += 1
    nodes.sort()
    first = np.array([node[0] for node in nodes], np.int64)
    return ActionDerivation(
        tokens=np.array(tokens, np.int32),
        labels=np.array([node[2] for node in nodes], np.int32),
        opens=np.bincount(first, minlength=len(tokens)).astype(np.int32),
        closes=np.array(closes, np.int32),
    )


class ActionKind(DerivationKind):
    """Actions: the tree, with labels, is written into the string."""

    name = "actions"
    labelled = True
    written = True
    unit = "action"

    def given(self, attach: NDArray[np.int32], constituents: Constituents | None) -> Any:
        """See :meth:`DerivationKind.given`: the constituents."""
        return constituents

    def content(self, given: Any) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return b"".join(array.tobytes() for array in (given.labels, given.opens, given.closes))

    def read(self, tokens: NDArray[np.int32], given: Any) -> AnyDerivation:
        """See :meth:`DerivationKind.read`."""
        return ActionDerivation(tokens[1:-1], given.labels, given.opens, given.closes)
