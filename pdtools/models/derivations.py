"""Kinds of derivations: none, attachments, actions, …; a class for each, one protocol.

A derivation is a sequence of choices, made from left to right: for a string its tokens; with attachments a
token, its attachment, the next token, and so on; with actions the tree is written into the string. p(x, y) is
the product of the choices' probabilities. Sampling and enumeration use nothing else of a model. If one choice
follows each token, a beam search needs no more than that either (:mod:`pdtools.models.tokenwise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.jobs.devices import widest_float
from pdtools.models.batch import Batch, collate, empty_batch
from pdtools.trees import Constituents, Tree, merge_subwords, tree_from_attachments

if TYPE_CHECKING:
    from pdtools.models.base import LanguageModel
    from pdtools.shards import ShardSet
    from pdtools.shards.rows import ShardRow


# Why a sentence has no derivation of dependency arcs.
NO_ARCS = "trees of constituents have no dependency arcs"
OTHER_WORDS = "words that begin where no token shows it"


@dataclass(frozen=True, kw_only=True)
class DerivationKind(ABC):
    """The derivations of a model: a class for each kind, with all that models know of it.

    Its search is registered in :data:`pdtools.search.kinds.SEARCHES`, under its name; its view, if
    pages show more than trees, in :data:`pdtools.inspection.derivation_views.VIEWS`.

    Attributes:
        conditions_tokens: whether the probabilities of tokens depend on the choices before. If not, p(x)
            needs no search.
        scores_given: whether derivations that are given have probabilities; if not, the model could make
            others alone, and of given ones there are only the probabilities of tokens.
        name: the kind's name.
        exist: whether there are any, and so trees.
        labelled: whether rows of shards give its derivations as labelled constituents, not as attachments.
        has_arcs: whether they give them as dependency arcs.
        has_counts: whether each word's number of arcs has a probability of its own.
        written: whether the tree is written into the string: a batch's tokens are then its choices.
        unit: the name of its choices in scores of training.
    """

    conditions_tokens: bool = False
    scores_given: bool = True
    name: ClassVar[str]
    exist: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    has_arcs: ClassVar[bool] = False
    has_counts: ClassVar[bool] = False
    written: ClassVar[bool] = False
    unit: ClassVar[str] = "attachment"

    @abstractmethod
    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """Derivations of a model; see :meth:`pdtools.models.LanguageModel.derive`."""

    # --- rows of shards -----------------------------------------------------------------------

    def of_row(self, shards: ShardSet, row: int) -> Any:
        """The derivation of a row, as :meth:`pack` takes it.

        Raises:
            PdtoolsError: if the shards do not have it.
        """
        return self.given(shards.attach(row), None)

    def pack(self, model: LanguageModel, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """Rows, tokens (n + 2) with their derivations, as a batch; see
        :meth:`pdtools.models.LanguageModel.pack`."""
        return collate(rows, model.pad_id) if rows else empty_batch(model.root_id, model.pad_id)

    def row_lengths(self, model: LanguageModel, shards: ShardSet) -> NDArray[np.int64]:
        """The number of positions of rows in a batch."""
        return np.asarray(shards.lengths, dtype=np.int64)

    def row_length(self, model: LanguageModel, tokens: Any, given: Any) -> int:
        """The number of positions of a row in a batch."""
        return len(tokens)

    def unfit_rows(self, model: LanguageModel, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """Rows whose derivations a model can take at no length: which, bool (rows,), and why."""
        return []

    # --- trees that are given -----------------------------------------------------------------

    def given(self, attach: NDArray[np.int32], constituents: Constituents | None) -> Any:
        """The derivation of a tree, as :meth:`pack` takes it.

        Args:
            attach: int32 (n + 2), see :func:`pdtools.trees.sentence_layout`.
            constituents: for labelled kinds.

        Returns:
            The derivation, or the reason why the kind has none for this tree.
        """
        return attach

    def of_sentence(self, row: ShardRow) -> Any:
        """The derivation of a tokenized sentence with its tree; see :meth:`given`."""
        return self.given(row.attach, row.constituents)

    def problem(self, model: LanguageModel, given: Any) -> str | None:
        """The reason why a model can never take a derivation; None if it can."""
        return None

    def content(self, given: Any) -> bytes:
        """Bytes that are equal for equal derivations of the same tokens."""
        return cast(bytes, given.tobytes())

    def read(self, tokens: NDArray[np.int32], given: Any) -> AnyDerivation:
        """Convert a row's derivation, with tokens (n + 2), to one that gives a tree."""
        return Derivation(tokens[1:-1], given[1:-1] - np.int32(1))


class AnyDerivation(Protocol):
    """A string with its derivation.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
    """

    @property
    def tokens(self) -> NDArray[np.int32]: ...

    def tree(self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None) -> Tree:
        """The tree over words, at least one.

        Constituents that do not cover whole words are dropped.

        Args:
            words: words as trees have them.
            word_of_token: for each token, the word it belongs to.
            labels: names of the labels' numbers; None: there are none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Derivation:
    """A string with attachments.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
        attach: int32[n], positions counted from 0, attach[k] == k for a shift; all shifts for a model
            without derivations.
    """

    tokens: NDArray[np.int32]
    attach: NDArray[np.int32]

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :meth:`AnyDerivation.tree`: a binary one without labels."""
        tree = tree_from_attachments(self.attach, [""] * len(self.tokens))
        return merge_subwords(tree, word_of_token, words)


class Derivations(ABC):
    """R unfinished derivations of a model, made in parallel, one choice after the other.

    Attributes:
        step: number of the next choice, and of the random number that draws it.
        most_steps: upper bound of these numbers.
    """

    step: int
    most_steps: int

    @abstractmethod
    def logprobs(self) -> Tensor:
        """Log-probabilities of every next choice, float64 (R, C), nats; −inf if it is not allowed.

        This depends only on the choices before, never on the rest of the string.
        """

    @abstractmethod
    def fits(self, token: int) -> Tensor:
        """Choices that fit a string whose next token (or end-of-sentence) is given: bool (R or 1, C).

        The others are dropped, not renormalised: their mass belongs to other strings.
        """

    @abstractmethod
    def generated(self, choices: Tensor) -> Tensor:
        """The token, end-of-sentence included, that each choice adds; −1 for none.

        Args:
            choices: int64 (R,).

        Returns:
            int64 (R,).
        """

    def full(self) -> Tensor | None:
        """Derivations without room for another choice, bool (R,); None: all have room."""
        return None

    @abstractmethod
    def push(self, choices: Tensor) -> None:
        """Make a choice, int64 (R,), in each derivation; none may end it."""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Continue with copies of the given derivations: int64 (R',), in any order, repeats allowed."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory taken by the tokens read."""

    @abstractmethod
    def derivation(self, choices: NDArray[np.int32]) -> AnyDerivation:
        """Convert all choices of one derivation: with end-of-sentence, or cut off before a token."""


@dataclass(frozen=True, kw_only=True)
class StringKind(DerivationKind):
    """The kind without derivations: strings alone."""

    name = "none"
    exist = False
    scores_given: bool = False

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        return StringDerivations(model, rows, length)


class StringDerivations(Derivations):
    """Strings without derivations: every choice is a token."""

    def __init__(self, model: LanguageModel, rows: int, length: int) -> None:
        """Read ROOT; there is room for ``length`` positions, ROOT and end-of-sentence included."""
        self._model = model
        self._position = 0
        self._state = model.start(rows, length)
        self._never = [i for i in (model.pad_id, model.root_id, model.eos_id) if i != model.end_id]
        self.step, self.most_steps = 2, 2 * length  # two numbers a position, as with attachments
        self._feed(torch.full((rows,), model.root_id, device=model.device))

    def _feed(self, tokens: Tensor) -> None:
        no_tape = torch.zeros(len(tokens), self._position + 1, dtype=torch.int16, device=tokens.device)
        self._model.advance(self._state, tokens, no_tape)

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`. The small probabilities of padding and ROOT are lost."""
        logprobs = self._model.next_token_logprobs(self._state)  # (R, V)
        logprobs = logprobs.to(widest_float(logprobs.device))
        logprobs[:, self._never] = -torch.inf
        return logprobs

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        token = self._model.end_id if token == self._model.eos_id else token
        return torch.arange(self._model.vocab_size, device=self._model.device)[None] == token

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        return torch.where(choices == self._model.end_id, self._model.eos_id, choices)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self._position += 1
        self.step += 2
        self._feed(choices)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self._state.select(rows)

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return int(self._state.nbytes)

    def derivation(self, choices: NDArray[np.int32]) -> Derivation:
        """See :meth:`Derivations.derivation`."""
        tokens = choices[choices != self._model.end_id]
        return Derivation(tokens, np.arange(len(tokens), dtype=np.int32))
