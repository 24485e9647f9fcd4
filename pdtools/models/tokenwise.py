"""Derivations in which one choice follows each token, as beam search in lock-step needs them.

p(x, y) = Π p(x_k | x_<k, y_<k) · p(y_k | x_≤k, y_<k): a token, its choice, then the model reads both. So all
hypotheses of a string stand at the same token. A kind of such derivations supplies two classes, which beam
search (:func:`pdtools.search.beam_search`), sampling and particles use:

- a :class:`TokenwiseKind`: ``widths``, if hypotheses are few at first;
- a :class:`TokenwiseDerivations`: ``legal`` and ``choice_logprobs`` (the distribution of choices), ``extend``
  (a choice is made, its token read), ``select`` for tensors kept beside the model's state, ``derivation``.

The model supplies ``derive``, ``start``, ``next_token_logprobs`` and, if that is faster, ``token_logprobs``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import widest_float
from pdtools.models.derivations import Derivation, DerivationKind, Derivations
from pdtools.models.transformer.tape import StackState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pdtools.models.base import DecoderState, LanguageModel


class TokenwiseKind(DerivationKind):
    """A kind whose derivations have one choice after each token.

    Attributes:
        regular: whether :meth:`widths` is exact: after k tokens all strings have the same number of
            derivations.
    """

    regular: ClassVar[bool] = False

    @staticmethod
    def of(model: LanguageModel) -> TokenwiseKind:
        """The kind of a model, which has to be a tokenwise one.

        Raises:
            PdtoolsError: if it is not.
        """
        kind = model.derivation_kind
        if not isinstance(kind, TokenwiseKind):
            raise PdtoolsError(
                "this model was trained without an attachment head: it has no parses to search"
            )
        return kind

    def widths(self, beam: int, length: int) -> list[int]:
        """Maximal numbers of hypotheses after token k < ``length`` (ROOT is 0), at most ``beam``."""
        return [1, *[beam] * (length - 1)][:length]


class TokenwiseDerivations(Derivations):
    """R unfinished derivations: in turns a token and its choice, or both at once (:meth:`extend`).

    Attributes:
        model: the model that they are derivations of.
        state: the model's state after the tokens that it has read.
        windows: whether rows may hold several sentences, each after its own ROOT.
        history: int32 (R, length, …), the choice at each position; 0 at ROOT and at positions not reached
            yet.
    """

    model: LanguageModel
    state: DecoderState
    windows: bool
    history: Tensor

    def __init__(self, model: LanguageModel, rows: int, length: int, entries: int | None = None) -> None:
        """Make room for ``length`` positions, ROOT and end-of-sentence included; nothing is read yet."""
        self.model = model
        self.windows = model.layout == "window"
        # End-of-sentence is not read; in windows it has no place of its own.
        self.state = model.start(rows, length - self.windows, entries)
        self.history = torch.zeros(rows, length, dtype=torch.int32, device=model.device)
        self._next: Tensor | None = None  # int64 (R,), the token whose choice is next
        self._never = [token for token in (model.pad_id, model.root_id, model.final_id) if token >= 0]
        self.step, self.most_steps = 2, 2 * length

    # --- supplied by a kind -------------------------------------------------------------------

    @abstractmethod
    def legal(self, tokens: Tensor) -> Tensor:
        """Return the choices that the next tokens, int64 (R,), have: bool (R, C), one at least."""

    @abstractmethod
    def choice_logprobs(self, tokens: Tensor, legal: Tensor) -> Tensor:
        """Log-probabilities of the choices of the next tokens, int64 (R,): float (R, C), nats; −inf for
        illegal ones. Rows may be selected before :meth:`extend`."""

    @abstractmethod
    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """Make the choices, int64 (R,), of the next tokens, int64 (R,): note them in :attr:`history`, and let
        the model read the tokens."""

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self.state.select(rows)
        self.history = self.history[rows]
        self._next = None if self._next is None else self._next[rows]

    def consistent(self, legal: Tensor, ends: Tensor) -> Tensor:
        """Return the legal choices (R, C) that agree with where the given sentences of windows end.

        The others are dropped, not renormalised.

        Args:
            ends: bool (R,), in windows True if the next token is its sentence's last; elsewhere all false.
        """
        return legal

    def followed(self, legal: Tensor, tokens: Tensor) -> Tensor:
        """Return the legal choices (R, C) of the next tokens, int64 (R,), that a beam search follows.

        The others are dropped; each row has one at least. Kinds whose choices are regular follow all.
        """
        return legal

    def closed(self) -> Tensor:
        """The number of constituents that the choices made last have closed: int (R,).

        Raises:
            PdtoolsError: if choices of this kind close none.
        """
        raise PdtoolsError("choices of this kind close no constituents")

    # --- choice by choice ---------------------------------------------------------------------

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`. The probabilities of tokens that no string has are lost."""
        if self._next is not None:
            return self.choice_logprobs(self._next, self.legal(self._next)).double()  # (R, C)
        logprobs = self.model.next_token_logprobs(self.state).double()  # (R, V)
        logprobs[:, self._never] = -torch.inf
        return logprobs

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._next is not None:
            ends = torch.full_like(self._next, self.windows and token == self.model.eos_id, dtype=torch.bool)
            return self.consistent(self.legal(self._next), ends)
        return torch.arange(self.model.vocab_size, device=self.model.device)[None] == token

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        return choices if self._next is None else torch.full_like(choices, -1)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        if self._next is None:
            self._next = choices
            return
        tokens, self._next = self._next, None
        self.extend(tokens, choices)

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return self.state.nbytes


@dataclass(frozen=True, kw_only=True)
class AttachmentKind(TokenwiseKind):
    """The kind of attachments, which make trees without labels.

    Attributes:
        open_only: whether tokens attach only to single tokens on the stack.
    """

    name = "attachments"
    open_only: bool = False

    @property
    def regular(self) -> bool:  # type: ignore[override]
        """See :class:`TokenwiseKind`."""
        return not self.open_only

    def widths(self, beam: int, length: int) -> list[int]:
        """See :meth:`TokenwiseKind.widths`: min(beam, Catalan(k))."""
        widths, catalan = [], 1
        for k in range(length):
            widths.append(min(beam, catalan))
            if catalan < beam:
                catalan = catalan * 2 * (2 * k + 1) // (k + 2)
        return widths


class AttachmentDerivations(TokenwiseDerivations):
    """Strings with attachments: a choice is a position, the token's own for a shift."""

    def __init__(self, model: LanguageModel, rows: int, length: int, entries: int | None = None) -> None:
        """Read ROOT; there is room for ``length`` positions, ROOT and end-of-sentence included."""
        super().__init__(model, rows, length, entries)
        self._stack = StackState.start(rows, length, model.device, windows=self.windows)
        self._height = self._stack.height  # int16 (R,), before the last choices
        self._open_only = getattr(model.derivation_kind, "open_only", False)
        root = torch.full((rows,), model.root_id, device=model.device)
        model.advance(self.state, root, self._stack.tape_row())

    def legal(self, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.legal`; C is k + 1 for token k, the shift last."""
        legal = self._stack.legal()
        if self.windows:  # a ROOT can only shift
            legal[:, :-1] &= (tokens != self.model.root_id)[:, None]
        if self._open_only:
            legal[:, :-1] &= self._stack.tape_row() == 0
        if self.model.final_id >= 0:  # end-of-sentence attaches to ROOT
            to_root = torch.arange(legal.shape[1], device=legal.device) == 0
            legal = torch.where((tokens == self.model.eos_id)[:, None], to_root, legal)
        return legal

    def choice_logprobs(self, tokens: Tensor, legal: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`."""
        return self.model.attach_logprobs(self.state, tokens, legal)

    def consistent(self, legal: Tensor, ends: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.consistent`: the last token attaches to ROOT, and no other."""
        if self._stack.root is None:
            return legal
        to_root = torch.arange(legal.shape[1], device=legal.device) == self._stack.root[:, None]  # (R, C)
        return legal & (to_root == ends[:, None])

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`."""
        stack = self._stack
        self._height = stack.height
        stack.push(choices)
        self.history[:, stack.position] = choices
        if self.windows:
            stack.begin(tokens == self.model.root_id)
        self.model.advance(self.state, tokens, stack.tape_row())

    def closed(self) -> Tensor:
        """See :meth:`TokenwiseDerivations.closed`."""
        return self._height + 1 - self._stack.height

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        if self._next is None or not self.windows:
            return super().generated(choices)
        return torch.where(choices == 0, self.model.eos_id, -1)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        super().select(rows)
        self._stack = self._stack.select(rows)

    def derivation(self, choices: NDArray[np.int32]) -> Derivation:
        """See :meth:`Derivations.derivation`."""
        attach = choices[1::2] - 1
        if len(attach) and attach[-1] < 0:  # a token attached to ROOT: so does end-of-sentence elsewhere
            attach[-1] = len(attach) - 1
        return Derivation(choices[::2][: len(attach)], attach)


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
