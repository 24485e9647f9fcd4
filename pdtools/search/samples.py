"""Parses of a model that is being trained, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.scorer import searcher_of
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words, split_spaces
from pdtools.training.samples import SampleParse

# Small: this comes on top of every evaluation. Hypotheses of models of actions are more, and shorter-lived.
_BEAM, _ACTION_BEAM = 10, 50


def parse_samples(loaded: LoadedModel, texts: Sequence[str]) -> list[SampleParse]:
    """The best parse of each text (:data:`pdtools.training.samples.ParseSamples`); a sentence that cannot be
    parsed has a reason, and stops nothing.

    Args:
        loaded: a model that parses, in evaluation mode.
        texts: words with single spaces.
    """
    by_treereg = not loaded.model.derivation_kind.exist
    beam = _ACTION_BEAM if loaded.model.derivation_kind.choices == "actions" else _BEAM
    style = loaded.tokenizer.text_style
    try:
        searcher = searcher_of(loaded, NO_SEARCH if by_treereg else SearchOptions(beam=beam))
        found = list(searcher.parse(join_words(split_spaces(text).words, style) for text in texts))
    except PdtoolsError as error:  # such as too little memory
        return [SampleParse(None, None, None, str(error)) for _ in texts]
    return [
        SampleParse(None, None, None, parsed.reason)
        if isinstance(parsed, Unscorable)
        else SampleParse(str(parsed.k_best[0][1]), parsed.k_best[0][0], parsed.marginal)
        for parsed in found
    ]
