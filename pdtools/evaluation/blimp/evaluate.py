"""Evaluation on BLiMP: is a pair's acceptable sentence the more probable one (Warstadt et al. 2020)?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, Score, String
from pdtools.evaluation.blimp.pairs import PairFiles, Pairs
from pdtools.evaluation.results import Progress, Results, no_progress
from pdtools.evaluation.sg.formula import Formula

if TYPE_CHECKING:
    from pdtools.search.model import Model


def evaluate_blimp(pairs: Pairs, model: Model, progress: Progress = no_progress) -> Results:
    """Score minimal pairs, see :func:`pdtools.evaluation.benchmark.evaluate.evaluate_items`.

    Returns:
        Accuracies over the scored pairs, as fractions of 1; None if no pair has a score. ``overall``: the
        unweighted mean of the paradigms (with paradigms of one size, as in BLiMP, and every pair scored it is
        the mean over the pairs too, which is ``mean_of_items``); ``by_paradigm``; ``by_phenomenon`` and
        ``by_field``: means of their paradigms; ``by_prediction``: ``per_token`` as ``overall``, deciding by
        the mean log-probability of a token instead of the total; ``margin_bits``: the same means of
        log p(good) − log p(bad), in bits, without ``--beam auto``.
    """
    return evaluate_items(PairItems(pairs), model, progress)


class PairItems(ItemSet):
    """Minimal pairs as items; they need no files in the form of BLiMP."""

    task, title = "blimp", "BLiMP"
    names = ("field", "phenomenon", "paradigm")

    def __init__(self, pairs: Pairs) -> None:
        self.limit = pairs.limit if isinstance(pairs, PairFiles) else None
        self.predictions = {"main": "good > bad", "per_token": "good > bad"}
        self.scores = {"main": Score(), "per_token": Score("per_token")}
        self.settings = {
            "decision": "total log-probability of the good sentence strictly greater; a tie is not right",
            "text": "as in the data, written in the model's text style; final period and capitals kept",
        }
        self._pairs = pairs
        self._levels: dict[str, tuple[str | None, ...]] = {}  # a paradigm's groups are its first pair's

    def __iter__(self) -> Iterator[Item]:
        """The pairs in order."""
        roles = ("good", "bad")
        formulas = {name: Formula.parse(of, roles) for name, of in self.predictions.items()}
        for pair in self._pairs:
            levels = self._levels.setdefault(pair.paradigm, (pair.field, pair.phenomenon, pair.paradigm))
            strings = {role: String(getattr(pair, role)) for role in roles}
            yield Item(pair.number, strings, formulas, levels)

    def named(self, levels: Sequence[str | None]) -> str:
        """The name of a paradigm, as it is in the data: perhaps empty."""
        return levels[-1] or ""
