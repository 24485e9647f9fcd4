"""A minimal pair whose sentences have given scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.blimp.pairs import PairItems, pair_item
from pdtools.evaluation.results import Results
from pdtools.search.scores import SentenceScore, Unscorable


def judged(good: SentenceScore | Unscorable, bad: SentenceScore | Unscorable) -> Results:
    """The results of the pair."""

    class Model:
        settings: ClassVar[dict[str, Any]] = {"kind": "surprisals"}

        def score(self, sentences: Iterable[Any]) -> Iterator[SentenceScore | Unscorable]:
            assert len(list(sentences)) == 2
            return iter((good, bad))

    pair = pair_item("good one", "bad one", "0", paradigm="p", phenomenon="q", field="f")
    return evaluate_items(PairItems([pair]), Model())  # type: ignore[arg-type]
