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
from numpy.typing import NDArray
from torch import Tensor

from pdtools.trees import Constituents, Tree, merge_subwords, tree_from_attachments

if TYPE_CHECKING:
    from pdtools.shards.rows import ShardRow


# Why a sentence has no derivation of dependency arcs.
NO_ARCS = "trees of constituents have no dependency arcs"
OTHER_WORDS = "words that begin where no token shows it"


@dataclass(frozen=True, kw_only=True)
class DerivationKind:
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

    # --- rows of shards -----------------------------------------------------------------------

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
