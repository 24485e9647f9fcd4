"""The part of a derivation that a transformer's layers and attachment head see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pdtools.models.transformer.score_terms import Reading, ScoreInputs
from pdtools.models.transformer.tape import legal_attachments, tape_from_attachments

# Tapes of up to this many depths have one byte a cell, as the fast paths need them.
KERNEL_DEPTHS = 256


@dataclass(frozen=True)
class View:
    """Tapes of whole rows (B, N, N), or of the last token of hypotheses (R, k + 1).

    Attributes:
        tape: int16, W_k[j]; None if it was not computed, because nothing uses it.
        depths: the same within the depth tables, deeper tokens in the last row; uint8 if that is enough; None
            for a model without them.
        read: other functions of the tape, by name (:attr:`.ScoreTerm.reads`).
    """

    tape: Tensor | None = None
    depths: Tensor | None = None
    read: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, attach: Tensor, depths: int | None, reads: Mapping[str, Reading]) -> View:
        """Compute the view of whole rows with attachments int (B, N).

        Args:
            attach: the attachments of the batch.
            depths: rows of the depth tables; None for a model without them.
            reads: other functions of the tape that the model uses.
        """
        tape = tape_from_attachments(attach)  # (B, N, N)
        cells = torch.ones_like(tape[0], dtype=torch.bool).tril() if reads else None
        return cls.of_tape(tape, depths, reads, cells)

    @classmethod
    def of_tape(
        cls, tape: Tensor, depths: int | None, reads: Mapping[str, Reading], cells: Tensor | None = None
    ) -> View:
        """Compute the view of a tape: of whole rows, or of the last token of hypotheses, int16 (R, k + 1).

        Args:
            tape: the tape.
            depths, reads: see :meth:`of_rows`.
            cells: bool (N, N), the cells that exist; None: all.
        """
        within = None
        if depths is not None:
            within = tape.clamp(max=depths - 1)
            within = within.to(torch.uint8) if depths <= KERNEL_DEPTHS else within
        return cls(tape, within, {name: of(tape, cells) for name, of in reads.items()})

    def inputs(self, *, causal: Tensor | None = None, visible: Tensor | None = None) -> ScoreInputs:
        """Return the inputs of score terms; masks as in :class:`ScoreInputs`."""
        read = {"tape": self.depths, **self.read}
        # (B, 1, N, N), or (R, 1, 1, k + 1)
        by_head: dict[str, Any] = {
            name: x if x is None else x[:, None] if x.ndim == 3 else x[:, None, None]
            for name, x in read.items()
        }
        return ScoreInputs(causal=causal, visible=visible, **by_head)

    @property
    def arrival(self) -> Tensor | None:
        """The depth W_j[j] of each token when it arrived, in whole rows: (B, N); None without depths."""
        return None if self.depths is None else self.depths.diagonal(dim1=1, dim2=2)

    def legal(self, roots: Tensor | None) -> Tensor:
        """Return the tokens that each token may attach to in whole rows: bool (B, N, N); see
        :func:`legal_attachments`."""
        assert self.tape is not None
        return legal_attachments(self.tape, roots)
