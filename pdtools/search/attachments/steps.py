"""Records of a search's beams, if requested."""

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
        kept: number of hypotheses in it.
        total: log Σ of their joint probabilities, nats.
        joints: float64[K], nats.
        parents: int64[K], the rank of the hypothesis that each extends, among all kept after the token
            before.
        derivations: each one's: attachments int32[k + 1], or actions.
        token_logprobs: float64[K], nats: log p of the token alone; None for action models.
        attachment: float64[k + 1], the probability that the token attaches to each position, over all
            extensions before any was dropped; None for action models.
    """

    kept: int
    total: float
    joints: NDArray[np.float64]
    parents: NDArray[np.int64]
    derivations: tuple[Derived, ...]
    token_logprobs: NDArray[np.float64] | None = None
    attachment: NDArray[np.float64] | None = None
