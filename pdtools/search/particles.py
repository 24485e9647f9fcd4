"""Particles: log p(x) by sequential Monte Carlo, an estimate that no beam's contents affect.

Particles are hypotheses with weights. After each token all legal attachments of all particles are weighed
(action models: all next actions, until the next token is generated; other kinds: all next choices), and
at most N of these extensions are drawn so that weights are preserved in expectation (:func:`thin`).
So the sum of the weights after any token, p̂(x_1 … x_t), is an unbiased estimate of p(x_1 … x_t), for any N;
it is exact if N is at least the number of derivations. Its logarithm is biased downward, about by half the
variance of log p̂ (Jensen's inequality), so that perplexity is biased upward; both errors fall with N.

Unlike particles that each draw one attachment from the model and are resampled later (the bootstrap filter),
no two have the same history, and none is drawn if all can be kept.

Thinning is the optimal resampling of Fearnhead and Clifford (2003, "On-line inference for hidden Markov
models via particle filters"), for hypotheses that are all different: weights above some c stay as they are,
each other one stays with probability weight/c and then weighs c. No other unbiased way to keep so many
changes the weights less, in squares.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models import LanguageModel
from pdtools.search.options import Particles
from pdtools.search.scores import PrefixScores


def thin(weights: Tensor, most: Tensor, uniform: Tensor) -> Tensor:
    """Keep at most ``most`` hypotheses of each row, with weights preserved in expectation.

    The draw is systematic, along the row: similar hypotheses should be neighbours.

    Args:
        weights: float64 (P, C), log; −inf where there is no hypothesis.
        most: int64 (P,), at least 1. A row with fewer keeps all, unchanged.
        uniform: float64 (P,), a random number in (0, 1) for each row.

    Returns:
        float64 (P, C), log weights; −inf for dropped ones.
    """
    top = weights.amax(1, keepdim=True)  # (P, 1)
    weight = (weights - top.where(top > -torch.inf, 0.0)).exp()  # (P, C)
    threshold = _threshold(weight, most)  # (P, 1), c
    share = torch.where(weight > threshold, 0.0, weight / threshold).nan_to_num(0.0)  # to be drawn by
    passed = (share.cumsum(1) - uniform[:, None]).floor()  # (P, C), whole numbers that were passed
    before = torch.cat([(-uniform[:, None]).floor(), passed[:, :-1]], 1)
    drawn = torch.where(passed > before, threshold.log() + top, -torch.inf)
    return torch.where(weight > threshold, weights, drawn)


def _threshold(weight: Tensor, most: Tensor) -> Tensor:
    """The c of each row for which Σ min(1, weight/c) is ``most``, (P, 1); 0 for rows of no more than that."""
    largest_first = weight.sort(1, descending=True).values  # (P, C)
    rest = largest_first.flip(1).cumsum(1).flip(1)  # (P, C), summed from here on
    left = most[:, None] - torch.arange(weight.shape[1], device=weight.device)  # (P, C), still to be kept
    fits = (left > 0) & (largest_first * left <= rest)
    certain = fits.to(torch.uint8).argmax(1, keepdim=True)  # (P, 1), the first that need not stay
    found = rest.gather(1, certain) / left.gather(1, certain)
    return found.masked_fill(((weight > 0).sum(1) <= most)[:, None], 0.0)


def uniform_of(seed: int, prefix: NDArray[np.integer]) -> float:
    """A random number in (0, 1) that depends only on the seed and on the tokens read."""
    content = seed.to_bytes(16, "little") + prefix.astype("<i8").tobytes()
    digest = hashlib.blake2b(content, digest_size=6).digest()
    return (int.from_bytes(digest, "little") + 0.5) / 2.0**48


@torch.inference_mode()
def by_choices(model: LanguageModel, ids: NDArray[np.int32], particles: Particles) -> PrefixScores:
    """Estimate log p(x) of a string, int32 (n + 2): thin after every choice, whichever token it comes before.

    Each derivation generates a token once, so the weights of generating it, whenever that happens, sum to an
    unbiased estimate.
    """
    number, seed = particles.number, particles.seed
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
