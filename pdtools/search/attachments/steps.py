"""What a search keeps of its beams, if it is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Derived = TypeVar("Derived")


@dataclass(frozen=True, slots=True)
class BeamStep(Generic[Derived]):
    """The beam after a token, with the K best of its hypotheses, best first.

    Attributes:
        kept: how many hypotheses it held.
        total: log Σ of their joint probabilities, nats.
        joints: float64[K], nats.
        parents: int64[K], the rank of the one that each extends, among all kept after the token before.
        derivations: of each: attachments int32[k + 1], or actions.
        token_logprobs: float64[K], nats: log p of the token alone; None of action models.
        attachment: float64[k + 1], how likely the token attaches to each position, over all extensions before
            any was dropped; None of action models.
    """

    kept: int
    total: float
    joints: NDArray[np.float64]
    parents: NDArray[np.int64]
    derivations: tuple[Derived, ...]
    token_logprobs: NDArray[np.float64] | None = None
    attachment: NDArray[np.float64] | None = None
