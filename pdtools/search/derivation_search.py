"""The search of each kind of derivation: the interface for scorers, parsers and estimates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel
from pdtools.search.attachments.thinning import thin, uniform_of
from pdtools.search.checkpoint_scorer import CheckpointScorer
from pdtools.search.contexts import Context
from pdtools.search.family import Family
from pdtools.search.options import Particles, SearchOptions
from pdtools.search.scores import PrefixScores


@dataclass(frozen=True, kw_only=True, slots=True)
class ParticleStrings:
    """Strings whose log p(x) particles estimate; see :func:`pdtools.search.particles.particle_search`.

    Attributes:
        token_ids: for each string int32 (n + 2): ROOT, the n tokens, end-of-sentence.
        particles: their number and seed.
        inside: for each string bool (n + 2), the tokens that continue a word; None: none do.
        max_batch: strings per batch; None: as many as fit a fixed amount of memory.
        share_prefixes: whether common beginnings of strings share particles.
    """

    token_ids: Sequence[NDArray[np.int32]]
    particles: Particles
    inside: Sequence[NDArray[np.bool_]] | None = None
    max_batch: int | None = None
    share_prefixes: bool = True


class DerivationSearch(ABC):
    """The search for derivations of one kind.

    Attributes:
        has_widths: whether its beam has further widths (a word beam, a fast track).
        sample_beam: number of hypotheses for parses that are shown during training.
    """

    has_widths: bool = False
    sample_beam: int = 10

    @abstractmethod
    def searcher(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> CheckpointScorer:
        """A scorer and parser of sentences with a checkpoint; without a beam, only for given derivations."""

    def adaptive(self, loaded: LoadedModel, search: SearchOptions, *, context: Context) -> Family:
        """The family that compares sentences with the beam ``auto``.

        Raises:
            PdtoolsError: if nothing does.
        """
        raise PdtoolsError(f"{loaded.folder}: --beam auto is for attachment models: give a number")

    def particles(self, model: LanguageModel, asked: ParticleStrings) -> list[PrefixScores]:
        """Estimate log p(x) in nats, string by string and choice by choice, for any kind of derivation."""
        number, seed = asked.particles.number, asked.particles.seed
        return [_by_choices(model, ids, number, seed) for ids in asked.token_ids]


@torch.inference_mode()
def _by_choices(model: LanguageModel, ids: NDArray[np.int32], number: int, seed: int) -> PrefixScores:
    """Thin after every choice, whichever token it comes before.

    Each derivation generates a token once, so the weights of generating it, whenever that happens, sum to an
    unbiased estimate.
    """
    derivations = model.derive(number, len(ids))
    derivations.select(torch.tensor([0], device=model.device))
    weights = torch.zeros(1, dtype=torch.float64, device=model.device)  # (R,)
    following = torch.ones(1, dtype=torch.int64, device=model.device)  # (R,), the index of the next token
    wanted = torch.tensor(ids, dtype=torch.int64, device=model.device)  # (n + 2)
    reached = torch.full((len(ids),), -torch.inf, dtype=torch.float64, device=model.device)
    reached[0] = 0.0
    step = 0
    while len(weights):
        logprobs = derivations.logprobs()  # (R, C)
        joint = torch.full_like(logprobs, -torch.inf)
        for token in following.unique().tolist():
            fits = derivations.fits(int(ids[token])) & (following == token)[:, None]  # (R, C)
            joint = torch.where(fits, weights[:, None] + logprobs, joint)
        rows, choices = torch.nonzero(joint > -torch.inf, as_tuple=True)  # (M,)
        derivations.select(rows)
        weights, following = joint[rows, choices], following[rows]
        generates = derivations.generated(choices) == wanted[following]  # (M,)
        for token in following[generates].unique().tolist():
            here = weights[generates & (following == token)].logsumexp(0)
            reached[token] = torch.logaddexp(reached[token], here)
        following = following + generates
        step += 1
        weights = _thinned(weights.masked_fill(following == len(ids), -torch.inf), number, ids, seed, step)
        kept = torch.nonzero(weights > -torch.inf)[:, 0]
        derivations.select(kept)
        weights, following = weights[kept], following[kept]
        if len(kept):
            derivations.push(choices[kept])
    return PrefixScores(reached.cpu().numpy())


def _thinned(weights: Tensor, number: int, ids: NDArray[np.int32], seed: int, step: int) -> Tensor:
    """Log weights (M,), at most ``number`` of them above −inf."""
    if not len(weights):
        return weights
    drawn = uniform_of(seed, np.append(ids, np.int32(step)))
    uniform = torch.tensor([drawn], dtype=torch.float64, device=weights.device)
    return thin(weights[None], torch.tensor([number], device=weights.device), uniform)[0]
