"""Derivations of models of strings alone: token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pdtools.jobs.devices import widest_float
from pdtools.models.derivations import Derivation, DerivationKind, Derivations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.models.base import LanguageModel


class StringKind(DerivationKind):
    """The kind without derivations: strings alone."""

    name = "none"
    exist = False

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
        import numpy as np

        tokens = choices[choices != self._model.end_id]
        return Derivation(tokens, np.arange(len(tokens), dtype=np.int32))
