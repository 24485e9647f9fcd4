"""Syntactic generalization: suites as items, and the scores of papers (Hu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, NamedSpan, String
from pdtools.evaluation.benchmark.outcomes import Tally, scores_of
from pdtools.evaluation.results import Progress, Results, mean, no_progress
from pdtools.evaluation.sg.circuits import EXCLUDED, SCORED_31, SCORED_33
from pdtools.evaluation.sg.suites import Condition, Suites

if TYPE_CHECKING:
    from pdtools.search.model import Model

CONVENTIONS = ("overall", "sg_31", "sg_33", "mean_of_circuits", "mean_of_items")
"""The ways to combine all items into one number, see :func:`evaluate_sg`."""


def evaluate_sg(suites: Suites, model: Model, progress: Progress = no_progress) -> Results:
    """Score suites with a model, see :func:`pdtools.evaluation.benchmark.evaluate.evaluate_items`.

    An item is right iff the suite's first prediction holds; a suite is the mean over its scored items; a
    circuit the unweighted mean of its suites. fgd-embed3, fgd-embed4 and nn-nv-rpl are in ``by_suite`` only.

    Returns:
        ``overall``: the mean of the suites (Hu et al. 2020: unweighted, neither of circuits nor of items)
        without the three excluded; ``sg_31``: the same, if all 31 suites of the paper are there, else None;
        ``sg_33``: with fgd-embed3 and fgd-embed4 (as Qian et al. 2021), if all are there;
        ``mean_of_circuits``; ``mean_of_items``; ``by_circuit``; ``by_suite``; ``by_prediction``: every
        prediction of every suite that has more than one; ``margin_bits``.
    """
    return evaluate_items(SuiteItems(suites), model, progress)


def sg_scores(tallies: Mapping[str, Mapping[tuple[str | None, ...], Tally]]) -> dict[str, Any]:
    """The scores of :func:`evaluate_sg` from counts: by prediction, then by circuit and suite."""
    return scores_of(tallies, SuiteItems(()))


class SuiteItems(ItemSet):
    """The items of test suites.

    Args:
        suites: the suites.
        text_style: see :meth:`written`.
    """

    task, title = "sg", "Syntactic generalization"
    names = ("circuit", "suite")
    outside = EXCLUDED

    def __init__(self, suites: Suites | tuple[()], text_style: str | None = None) -> None:
        self._suites, self._style = suites, text_style
        self.settings = {
            "text": "regions joined by single spaces, final punctuation and capitals as in the suites",
            "equality": "|a - b| <= 1e-3 + 1e-5 |b|",
            "eos_in_regions": False,
        }

    def written(self, text_style: str | None) -> SuiteItems:
        """See :class:`ItemSet`. Suites are spaced as treebanks are."""
        return SuiteItems(self._suites, text_style)

    def __iter__(self) -> Iterator[Item]:
        """The items of all suites, in order."""
        for suite in self._suites:
            formulas = {str(number): of for number, of in enumerate(suite.formulas, start=1)}
            for item in suite.items:
                strings = {
                    condition.name: present(condition, self._style, suite.region_names)
                    for condition in item.conditions
                }
                yield Item(str(item.number), strings, formulas, (suite.circuit, suite.name))

    def further_scores(self, scores: Mapping[str, Any], tallies: Mapping[str, Any]) -> Mapping[str, Any]:
        """The other conventions of papers."""
        by_suite, by_circuit = scores["by_suite"], scores["by_circuit"]
        by_prediction = {
            suite: {name: of[circuit, suite].share for name, of in tallies.items() if (circuit, suite) in of}
            for circuit, suite in sorted(next(iter(tallies.values())), key=lambda key: str(key[1]))
        }
        return {
            "sg_31": _mean_of_all(by_suite, SCORED_31),
            "sg_33": _mean_of_all(by_suite, SCORED_33),
            "mean_of_circuits": mean([score for score in by_circuit.values() if score is not None]),
            "by_prediction": {suite: of for suite, of in by_prediction.items() if len(of) > 1},
        }


def _mean_of_all(by_suite: Mapping[str, float | None], wanted: Iterable[str]) -> float | None:
    """The mean of these suites, if every one of them has a score."""
    scores = [by_suite.get(suite) for suite in sorted(wanted)]
    present = [score for score in scores if score is not None]
    return mean(present) if len(present) == len(scores) else None


def present(
    condition: Condition, text_style: str | None, region_names: Mapping[int, str] | None = None
) -> String:
    """Write a sentence in a model's text style. Suites are spaced as treebanks are.

    Args:
        text_style: see :meth:`ItemSet.written`.
        region_names: names of regions, by number.
    """
    from pdtools.tokenization import join_words, split_spaces, split_words

    text, spans = condition.text, condition.spans
    if text_style == "raw":
        sentence = join_words(split_spaces(text).words, "raw")
        spans, word = (), 0
        for region in condition.regions:
            first, word = word, word + len(region.split(" ")) if region else word
            empty_at = sentence.ends[word - 1] if word else 0
            ends = (sentence.starts[first], sentence.ends[word - 1]) if region else (empty_at, empty_at)
            spans = (*spans, ends)
    else:
        sentence = split_words(text, "ptb") if text_style == "ptb" else split_spaces(text)
    names = region_names or {}
    regions = (
        NamedSpan(number, *ends, region, names.get(number))
        for number, ends, region in zip(condition.numbers, spans, condition.regions, strict=True)
    )
    return String(sentence.text, regions=tuple(regions), words=sentence)
