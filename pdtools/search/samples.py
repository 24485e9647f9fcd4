"""Parses of a model in training, to be shown."""

from __future__ import annotations

from collections.abc import Sequence

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel
from pdtools.search.kinds import search_of
from pdtools.search.model import Model
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words, split_spaces
from pdtools.training.samples import SampleParse


def parse_samples(loaded: LoadedModel, texts: Sequence[str]) -> list[SampleParse]:
    """The best parse of each text (:data:`pdtools.training.samples.ParseSamples`).

    A sentence that cannot be parsed has a reason, and stops nothing.

    Args:
        loaded: a model that parses, in evaluation mode.
        texts: words with single spaces.
    """
    by_treereg = not loaded.model.has_derivations
    style = loaded.tokenizer.text_style
    try:
        # A small beam: these parses add to the time of every evaluation.
        search = NO_SEARCH if by_treereg else SearchOptions(beam=search_of(loaded.model).sample_beam)
        parser = Model.of(loaded, search, parses=True)
        found = list(parser.parse(join_words(split_spaces(text).words, style) for text in texts))
    except PdtoolsError as error:  # such as too little memory
        return [SampleParse(None, None, None, str(error)) for _ in texts]
    return [
        SampleParse(None, None, None, parsed.reason)
        if isinstance(parsed, Unscorable)
        else SampleParse(str(parsed.k_best[0][1]), parsed.k_best[0][0], parsed.marginal)
        for parsed in found
    ]
