"""Derivations of attachments: a token, then what it attaches to (Murty et al. 2023, section 3 and eq. 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pdtools.models.derivations import Derivation, DerivationKind, Derivations
from pdtools.models.transformer.tape import StackState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.models.base import LanguageModel


class AttachmentKind(DerivationKind):
    """Attachments, which make trees without labels."""

    name = "attachments"

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        return AttachmentDerivations(model, rows, length)


class AttachmentDerivations(Derivations):
    """Strings with attachments: in turns a token and a position, that of the token itself for a shift."""

    def __init__(self, model: LanguageModel, rows: int, length: int) -> None:
        """ROOT is read; there is room for ``length`` positions, ROOT and end-of-sentence included."""
        self._model = model
        self._state = model.start(rows, length)
        self._windows = model.layout == "window"
        self._stack = StackState.start(rows, length, model.device, windows=self._windows)
        self._next: Tensor | None = None  # int64 (R,), the token that is to be attached
        self._never = [model.pad_id, model.root_id]
        self.step, self.most_steps = 2, 2 * length
        root = torch.full((rows,), model.root_id, device=model.device)
        model.advance(self._state, root, self._stack.tape_row())

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`. What little probability padding and ROOT are given is lost."""
        if self._next is not None:
            attach = self._model.attach_logprobs(self._state, self._next, self._stack.legal())
            return attach.double()  # (R, k + 2)
        logprobs = self._model.next_token_logprobs(self._state).double()  # (R, V)
        logprobs[:, self._never] = -torch.inf
        return logprobs

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._next is not None:
            legal = self._stack.legal()
            if self._windows:  # what attaches to ROOT is followed by end-of-sentence, and nothing else is
                legal &= (torch.arange(legal.shape[1], device=legal.device) == 0) == (
                    token == self._model.eos_id
                )
            return legal
        return torch.arange(self._model.vocab_size, device=self._model.device)[None] == token

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        if self._next is None:
            return choices
        ends = (choices == 0) & self._windows
        return torch.where(ends, self._model.eos_id, -1)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        if self._next is None:
            self._next = choices
            return
        self._stack.push(choices)
        self._model.advance(self._state, self._next, self._stack.tape_row())
        self._next = None

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self._state.select(rows)
        self._stack = self._stack.select(rows)
        self._next = None if self._next is None else self._next[rows]

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return int(self._state.nbytes)

    def derivation(self, choices: NDArray[np.int32]) -> Derivation:
        """See :meth:`Derivations.derivation`."""
        attach = choices[1::2] - 1
        if len(attach) and attach[-1] < 0:  # a token attached to ROOT: so does end-of-sentence elsewhere
            attach[-1] = len(attach) - 1
        return Derivation(choices[::2][: len(attach)], attach)
