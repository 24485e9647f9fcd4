"""A minimal pair whose sentences have given scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pdtools.evaluation.blimp.evaluate import evaluate_blimp
from pdtools.evaluation.blimp.pairs import Pair
from pdtools.evaluation.results import Results
from pdtools.search.scores import SentenceScore, Unscorable


def judged(good: SentenceScore | Unscorable, bad: SentenceScore | Unscorable) -> Results:
    """The results of the pair."""

    class Model:
        settings: ClassVar[dict[str, Any]] = {"kind": "surprisals"}

        def score(self, sentences: Iterable[Any]) -> Iterator[SentenceScore | Unscorable]:
            assert len(list(sentences)) == 2
            return iter((good, bad))

    pair = Pair(paradigm="p", phenomenon="q", field="f", number="0", good="good one", bad="bad one")
    return evaluate_blimp([pair], Model())  # type: ignore[arg-type]
