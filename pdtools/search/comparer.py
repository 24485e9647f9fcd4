"""Scores of compared sentences, by searches that are as wide as the comparisons need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel
from pdtools.search.adaptive_beam import STEPS, Compared, Comparison, MaybeScore, SentenceOrBeginning
from pdtools.search.attachments.scorer import AttachmentScorer
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.kinds import search_of
from pdtools.search.options import AUTO, AUTO_SEARCH, SearchOptions
from pdtools.search.scorer import load_model
from pdtools.search.scores import Beginning, Dtype
from pdtools.search.strings.huggingface import is_huggingface


def load_comparer(
    model_dir: str | Path,
    search: SearchOptions = AUTO_SEARCH,
    *,
    device: str = "cpu",
    dtype: Dtype = "float32",
    context: Context = NO_CONTEXT,
) -> AdaptiveBeamComparer:
    """Load a model for comparisons of sentences, with the beam ``auto``.

    Arguments are as in :func:`pdtools.search.load_scorer`.

    Raises:
        PdtoolsError: if the folder holds no model whose strings are searched.
    """
    if is_huggingface(model_dir):
        raise PdtoolsError(f"{model_dir}: this model needs no search: leave out --beam auto")
    loaded = load_model(model_dir, device=device, dtype=dtype)
    return AdaptiveBeamComparer(loaded, search, context=context)


class AdaptiveBeamComparer:
    """A :class:`pdtools.search.adaptive_beam.Comparer` that takes the steps of ``STEPS``, as far as needed.

    Args:
        loaded: a checkpoint whose words depend on derivations.
        search: number of sentences searched at once; the widths are the steps'.
        context: the text read before sentences.

    Raises:
        PdtoolsError: if its strings need no search.
    """

    # Number of comparisons worked on together: enough for the last few still to fill batches.
    look_ahead = 256

    def __init__(
        self, loaded: LoadedModel, search: SearchOptions = AUTO_SEARCH, *, context: Context = NO_CONTEXT
    ) -> None:
        if not loaded.model.words_depend:
            raise PdtoolsError(f"{loaded.folder}: this model needs no search: leave out --beam auto")
        if not search_of(loaded.model).has_adaptive_beam:
            raise PdtoolsError(f"{loaded.folder}: --beam auto is for attachment models: give a number")
        self._scorers = [
            AttachmentScorer(loaded, replace(search, beam=step.beam, margin=step.margin), context=context)
            for step in STEPS
        ]
        steps = [list(step) for step in STEPS]
        self.settings = {**self._scorers[-1].settings, "beam": AUTO, "beam_margin_and_doubt_of_steps": steps}

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """See :class:`pdtools.search.adaptive_beam.Comparer`."""
        stream = iter(comparisons)
        while block := list(islice(stream, self.look_ahead)):
            yield from self._compare(block)

    def _compare(self, comparisons: Sequence[Comparison]) -> list[Compared]:
        found: dict[int, Compared] = {}
        open_ones = list(range(len(comparisons)))
        for step, scorer in zip(STEPS, self._scorers, strict=True):
            bounds = {i: getattr(step, comparisons[i].sums) for i in open_ones}
            sentences = {
                text for i in open_ones if bounds[i] is not None for text in comparisons[i].sentences
            }
            in_order = sorted(sentences, key=_text)  # common beginnings become neighbours
            scores: dict[SentenceOrBeginning, MaybeScore] = dict(
                zip(in_order, scorer.score(in_order), strict=True)
            )
            undecided = []
            for i in open_ones:
                if (error_bound := bounds[i]) is not None:
                    now = tuple(scores[text] for text in comparisons[i].sentences)
                    found[i] = Compared(now, step.beam, step.margin)
                    off = error_bound.of(now)
                    if not off or comparisons[i].decided(now, off):
                        continue
                undecided.append(i)
            open_ones = undecided
        return [found[i] for i in range(len(comparisons))]


def _text(sentence: SentenceOrBeginning) -> str:
    if isinstance(sentence, Beginning):
        return _text(sentence.sentence)
    return sentence if isinstance(sentence, str) else sentence.text
