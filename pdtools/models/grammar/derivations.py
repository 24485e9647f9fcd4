"""Derivations of actions: sampling and enumeration of models that write the tree into the string."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models.derivations import AnyDerivation, DerivationKind, Derivations
from pdtools.models.grammar.batch import ActionBatch
from pdtools.models.grammar.state import ActionState
from pdtools.trees import UNKNOWN_LABEL, Constituents, Tree, constituents_of_words
from pdtools.trees.actions import ActionIds

if TYPE_CHECKING:
    from pdtools.models.base import LanguageModel
    from pdtools.models.grammar.model import GrammarLM
    from pdtools.shards import ShardSet


# Why a model cannot take a derivation.
_UNKNOWN = "labels unknown to the model"
_OPEN = "more than {} constituents open at once (config.max_open)"
# Entries that are kept for each that is still seen, and positions that are reckoned with for each token.
_KEPT = 4


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


class ActionKind(DerivationKind):
    """Actions: the tree, with labels, is written into the string."""

    name = "actions"
    labelled = True
    written = True
    unit = "action"

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        return ActionDerivations(cast("GrammarLM", model), rows, length)

    def of_row(self, shards: ShardSet, row: int) -> Constituents:
        """See :meth:`DerivationKind.of_row`."""
        return shards.constituents(row)

    def pack(self, model: LanguageModel, rows: Sequence[tuple[Any, Any]]) -> ActionBatch:
        """See :meth:`DerivationKind.pack`: (tokens, constituents)."""
        return ActionBatch.of_rows(rows, model.config.actions, model.root_id, model.pad_id)

    def row_lengths(self, model: LanguageModel, shards: ShardSet) -> NDArray[np.int64]:
        """See :meth:`DerivationKind.row_lengths`: actions."""
        actions: ActionIds = model.config.actions
        return actions.positions(np.asarray(shards.lengths) - 2, shards.n_constituents)

    def row_length(self, model: LanguageModel, tokens: Any, given: Constituents) -> int:
        """See :meth:`DerivationKind.row_length`: actions."""
        return int(model.config.actions.positions(len(tokens) - 2, len(given.labels)))

    def unfit_rows(self, model: LanguageModel, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`DerivationKind.unfit_rows`."""
        most = model.config.max_open
        return [(shards.has_unknown_labels, _UNKNOWN), (shards.most_open > most, _OPEN.format(most))]

    def given(self, attach: NDArray[np.int32], constituents: Constituents | None) -> Any:
        """See :meth:`DerivationKind.given`: the constituents."""
        return constituents

    def problem(self, model: LanguageModel, given: Any) -> str | None:
        """See :meth:`DerivationKind.problem`."""
        if given.labels.min() < 0:
            return _UNKNOWN
        opened = given.opens.cumsum() - given.closes.cumsum() + given.closes  # (n)
        if opened.max() > (most := model.config.max_open):
            return _OPEN.format(most)
        return None

    def content(self, given: Any) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return b"".join(array.tobytes() for array in (given.labels, given.opens, given.closes))

    def read(self, tokens: NDArray[np.int32], given: Any) -> AnyDerivation:
        """See :meth:`DerivationKind.read`."""
        return ActionDerivation(tokens[1:-1], given.labels, given.opens, given.closes)


class ActionDerivations(Derivations):
    """Prefixes of actions: tokens, then openers, then closers are the columns of choices.

    Attributes:
        state: the model's state after all choices.
    """

    def __init__(self, model: GrammarLM, rows: int, length: int) -> None:
        """Read the start; choices and memory are reckoned for ``length`` tokens."""
        self._model = model
        self._ids = model.actions
        self.state = model.start(rows)
        self._length = length
        self._alone = True  # no others have the same memory
        model.advance(self.state, torch.full((rows,), model.root_id, device=model.device))
        # Between two tokens at most all open constituents close, and as many open.
        self.step, self.most_steps = 0, length * (2 * model.config.max_open + 1)

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        structure, tokens = self._model.action_logprobs(self.state)
        return torch.cat([tokens, structure], 1).double()  # (R, A)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        n_open = self.state.n_open[:, None]  # (R, 1)
        choice = torch.arange(self._ids.number, device=n_open.device)
        is_closer = choice >= self._ids.first_closer
        if token == self._model.eos_id:
            return is_closer.expand(len(n_open), -1)
        return (choice == token) | ((choice >= self._ids.tokens) & (~is_closer | (n_open > 1)))

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`: the end is the closing of the last constituent."""
        ends = (choices >= self._ids.first_closer) & (self.state.n_open == 1)
        return choices.where(choices < self._ids.tokens, -1).masked_fill(ends, self._model.eos_id)

    def full(self) -> Tensor | None:
        """See :meth:`Derivations.full`."""
        most = self._model.max_length
        return None if most is None else self.state.read >= most

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        self._model.advance(self.state, choices)
        if self._alone and self.state.memory.used > _KEPT * self.state.entries.numel():
            self.state.compact()

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self.state.select(rows)

    def taken(self, rows: Tensor) -> ActionDerivations:
        """Copies of the given derivations beside these, with the same memory."""
        return self._beside(self.state.taken(rows))

    @staticmethod
    def join(parts: Sequence[ActionDerivations]) -> ActionDerivations:
        """Derivations of one memory, one after the other."""
        return parts[0]._beside(ActionState.join([part.state for part in parts]))

    def _beside(self, state: ActionState) -> ActionDerivations:
        beside = object.__new__(type(self))
        vars(beside).update(vars(self), state=state, _alone=False)  # a search makes many
        return beside

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return self.state.nbytes * self._length * _KEPT

    def derivation(self, choices: NDArray[np.int32]) -> ActionDerivation:
        """See :meth:`Derivations.derivation`; constituents open at a cut are closed after the last token."""
        return cast("ActionDerivation", self._model.read_derivation(choices))
