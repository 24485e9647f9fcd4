"""The families of checkpoints: one for each kind of derivation, and the choice of a checkpoint's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import torch_dtype
from pdtools.models import LanguageModel, LoadedModel
from pdtools.search.adaptive_beam import AdaptiveFamily
from pdtools.search.checkpoints import SearchFamily
from pdtools.search.families.actions import ActionFamily, TransitionFamily, inside_words
from pdtools.search.families.arcs import ArcFamily
from pdtools.search.families.attachments import AttachmentFamily, end_logprob, searched_tokens
from pdtools.search.families.causal import CausalFamily
from pdtools.search.families.huggingface import load_pretrained
from pdtools.search.families.masked import MaskedFamily
from pdtools.search.families.ngrams import NgramFamily
from pdtools.search.families.proposal_trees import ProposalTreesFamily
from pdtools.search.families.treereg import TreeRegFamily
from pdtools.search.families.unsearched import StringFamily
from pdtools.search.family import Family
from pdtools.search.options import AUTO, Context, Particles, Pll, SearchOptions
from pdtools.search.scores import Dtype, GivenRow, Measure, PrefixScores, RowScore

# By the name of their kind (:class:`pdtools.models.derivations.DerivationKind`).
SEARCHES: dict[str, type[SearchFamily]] = {
    "attachments": AttachmentFamily,
    "actions": ActionFamily,
    "arcs": ArcFamily,
    "transitions": TransitionFamily,
}


def search_of(model: LanguageModel) -> type[SearchFamily]:
    """The family that searches a model's derivations.

    Raises:
        PdtoolsError: if there is no search for them.
    """
    name = model.derivation_kind.name
    if name not in SEARCHES:
        raise PdtoolsError(f"nothing here searches derivations of the kind {name}")
    return SEARCHES[name]


def family_of(
    loaded: LoadedModel,
    search: SearchOptions,
    *,
    context: Context,
    measures: Collection[Measure],
    parses: bool,
) -> Family:
    """The family of a checkpoint, as it is asked.

    Raises:
        PdtoolsError: if the model cannot do what is asked, or an option does not suit it.
    """
    model = loaded.model
    found: Family
    if parses:
        search.check_number()
        found = _parser(loaded, search, context)
    elif search.beam == AUTO:
        if not model.derivation_kind.conditions_tokens:
            raise PdtoolsError(f"{loaded.folder}: this model needs no search: leave out --beam auto")
        searcher = search_of(model)
        if not searcher.adapts:
            raise PdtoolsError(f"{loaded.folder}: --beam auto is for attachment models: give a number")
        found = AdaptiveFamily(
            lambda step: searcher(
                loaded, replace(search, beam=step.beam, margin=step.margin), context=context
            )
        )
    elif search.trees is not None:
        if context.of is not None:
            raise PdtoolsError("--trees cannot be combined with --context")
        return ProposalTreesFamily(loaded, trees=search.trees, max_batch=search.max_batch)
    elif model.derivation_kind.conditions_tokens or (model.derivation_kind.exist and "structure" in measures):
        found = search_of(model)(loaded, search, context=context)
    else:
        search.check_one_width()
        found = StringFamily(loaded, max_batch=search.max_batch, context=context)
    found.measures = frozenset(measures)
    return found


def _check_no_trees(path: str, search: SearchOptions, *, parses: bool) -> None:
    """Refuse what a model of another package, which has no trees, cannot do."""
    search.check_one_width()
    if parses:
        raise PdtoolsError(f"{path}: a model of another package has no parses")
    if search.beam == AUTO:
        raise PdtoolsError(f"{path}: this model needs no search: leave out --beam auto")
    if search.trees is not None:
        raise PdtoolsError(f"{path}: a model of another package has no trees: leave out --trees")


def ngram_family(
    path: str,
    search: SearchOptions,
    *,
    dtype: Dtype,
    context: Context,
    measures: Collection[Measure],
    parses: bool,
) -> Family:
    """The family of a file of n-grams, as it is asked.

    Raises:
        PdtoolsError: see :class:`pdtools.search.families.ngrams.NgramFamily`.
    """
    _check_no_trees(path, search, parses=parses)
    if dtype != "float32":
        raise PdtoolsError(f"{path}: n-grams have no weights to convert: leave out --dtype")
    return NgramFamily(path, context=context, measures=measures)


def pretrained_family(
    folder: str,
    search: SearchOptions,
    *,
    device: str,
    dtype: Dtype,
    bos: bool,
    pll: Pll | None,
    context: Context,
    measures: Collection[Measure],
    parses: bool,
) -> Family:
    """The family of a Hugging Face model in a folder, as it is asked.

    Raises:
        PdtoolsError: if the model cannot do what is asked, or an option does not suit it.
        MissingDependencyError: if transformers is not installed.
    """
    _check_no_trees(folder, search, parses=parses)
    tokenizer, model, masked = load_pretrained(folder)
    model = model.to(device, torch_dtype(dtype, device)).eval()
    if not masked:
        if pll is not None:
            raise PdtoolsError(
                f"{folder}: {model.config.model_type} is causal, and gives probabilities: leave out --pll"
            )
        return CausalFamily(
            folder, tokenizer, model, bos=bos, max_batch=search.max_batch, context=context, measures=measures
        )
    if not bos:
        raise PdtoolsError(
            f"{folder}: a masked language model reads the tokens around a text: leave out --no-bos"
        )
    pll = pll or "within-word"
    return MaskedFamily(
        folder, tokenizer, model, pll=pll, max_batch=search.max_batch, context=context, measures=measures
    )


def _parser(loaded: LoadedModel, search: SearchOptions, context: Context) -> Family:
    """The family that searches a model's derivations, or parses by TreeReg."""
    if loaded.model.has_treereg and not loaded.model.derivation_kind.exist:
        if search.given:
            raise PdtoolsError(
                f"{loaded.folder}: a model trained with TreeReg parses without a beam: leave out its options"
            )
        return TreeRegFamily(loaded, cky=search.cky, max_batch=search.max_batch)
    if search.cky:
        raise PdtoolsError(f"{loaded.folder}: --cky is for models that parse by TreeReg")
    if not loaded.model.derivation_kind.exist:
        raise PdtoolsError(
            f"{loaded.folder}: this model was trained without an attachment head, or TreeReg: it cannot parse"
        )
    return search_of(loaded.model)(loaded, search, context=context)


def check_widths(model: LanguageModel, search: SearchOptions) -> None:
    """Refuse further widths besides the beam for models whose search has only one, or that need none.

    Raises:
        PdtoolsError: see :meth:`SearchOptions.check_one_width`.
    """
    if not (model.derivation_kind.exist and search_of(model).has_widths):
        search.check_one_width()


def particle_search(
    model: LanguageModel,
    token_ids: Sequence[NDArray[np.int32]],
    particles: Particles,
    *,
    inside: Sequence[NDArray[np.bool_]] | None = None,
    max_batch: int | None = None,
    share_prefixes: bool = True,
) -> list[PrefixScores]:
    """Estimate log p(x) of strings (:mod:`pdtools.search.particles`).

    The draws for a string depend only on the seed and on its tokens. Strings with a common beginning share
    the particles for it.

    Args:
        model: in evaluation mode, one whose words depend on derivations.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence; for a model of windows
            as in :func:`pdtools.search.beam_search`.
        particles: their number and seed.
        inside: for an action model, for each string the tokens that continue a word
            (:func:`pdtools.search.families.actions.inside_words`).
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: see :func:`pdtools.search.beam_search`.

    Returns:
        log p̂ of the first t tokens of each string, in input order.

    Raises:
        PdtoolsError: if p(x) is exact without them, or the device is out of memory.
    """
    check_uses_particles(model)
    return search_of(model).particles(
        model, token_ids, particles, inside=inside, max_batch=max_batch, share_prefixes=share_prefixes
    )


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
    if not model.derivation_kind.conditions_tokens:
        raise PdtoolsError(
            "this model has no trees to sum over, and log p(x) is exact: leave out --particles"
        )
