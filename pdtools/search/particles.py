"""Particles: log p(x) by sequential Monte Carlo, an estimate that no beam's contents affect.

Particles are hypotheses with weights. After each token all legal attachments of all particles are weighed
(action models: all next actions, until the next token is generated; other kinds: all next choices), and
at most N of these extensions are drawn so that weights are preserved in expectation
(:mod:`pdtools.search.attachments.thinning`). So the sum of the weights after any token, p̂(x_1 … x_t), is an
unbiased estimate of p(x_1 … x_t), for any N; it is exact if N is at least the number of derivations.
Its logarithm is biased downward, about by half the variance of log p̂ (Jensen's inequality), so that
perplexity is biased upward; both errors fall with N.

Unlike particles that each draw one attachment from the model and are resampled later (the bootstrap filter),
no two have the same history, and none is drawn if all can be kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.search.actions.scorer import inside_words
from pdtools.search.attachments.scorer import end_logprob, searched_tokens
from pdtools.search.derivation_search import ParticleStrings
from pdtools.search.kinds import search_of
from pdtools.search.options import Particles
from pdtools.search.scores import GivenRow, PrefixScores, RowScore


def particle_search(
    model: LanguageModel,
    token_ids: Sequence[NDArray[np.int32]],
    particles: Particles,
    *,
    inside: Sequence[NDArray[np.bool_]] | None = None,
    max_batch: int | None = None,
    share_prefixes: bool = True,
) -> list[PrefixScores]:
    """Estimate log p(x) of strings.

    The draws for a string depend only on the seed and on its tokens. Strings with a common beginning share
    the particles for it.

    Args:
        model: in evaluation mode, one whose words depend on derivations.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence; for a model of windows
            as in :func:`pdtools.search.beam_search`.
        particles: their number and seed.
        inside: for an action model, for each string the tokens that continue a word
            (:func:`pdtools.search.actions.scorer.inside_words`).
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: see :func:`pdtools.search.beam_search`.

    Returns:
        log p̂ of the first t tokens of each string, in input order.

    Raises:
        PdtoolsError: if p(x) is exact without them, or the device is out of memory.
    """
    check_uses_particles(model)
    asked = ParticleStrings(
        token_ids=token_ids,
        particles=particles,
        inside=inside,
        max_batch=max_batch,
        share_prefixes=share_prefixes,
    )
    return search_of(model).particles(model, asked)


def with_particles(
    model: LanguageModel,
    rows: Sequence[GivenRow],
    scores: Sequence[RowScore],
    particles: Particles,
    *,
    max_batch: int | None = None,
) -> list[RowScore]:
    """Add estimates of log p(x) to the scores of rows of shards; see :func:`particle_search`."""
    ids = [searched_tokens(model, row.tokens) for row in rows]
    inside = [inside_words(row.word) for row in rows]
    found = particle_search(model, ids, particles, inside=inside, max_batch=max_batch)
    return [
        score._replace(particles=each.marginal, end_particles=end_logprob(model, tokens, each.logprobs))
        for score, tokens, each in zip(scores, ids, found, strict=True)
    ]


def check_uses_particles(model: LanguageModel) -> None:
    """Refuse a model that needs no particles.

    Raises:
        PdtoolsError: if p(x) is exact without them.
    """
    if not model.words_depend:
        raise PdtoolsError(
            "this model has no trees to sum over, and log p(x) is exact: leave out --particles"
        )
