"""Derivations of attachments: a token, then its attachment (Murty et al. 2023, section 3 and eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pdtools.models.derivations import Derivation
from pdtools.models.tokenwise import TokenwiseDerivations, TokenwiseKind
from pdtools.models.transformer.tape import StackState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.models.base import LanguageModel


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

    def derive(
        self, model: LanguageModel, rows: int, length: int, entries: int | None = None
    ) -> AttachmentDerivations:
        """See :meth:`TokenwiseKind.derive`."""
        return AttachmentDerivations(model, rows, length, entries)

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
