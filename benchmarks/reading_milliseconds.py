"""Coverage of intervals of effects in milliseconds, predicted for other items from the slopes of a corpus.

Subjects read the words of a corpus with the effects ``TRUTH`` (milliseconds a bit, of the word and of the
two before it), whose surprisals are alike in neighbouring words; items and subjects may differ in effects
and speed. The differences in bits of other items are then turned into milliseconds by the sum of the fitted
slopes. The truth is the mean difference in bits of all items there could be, times the true sum.

    python benchmarks/reading_milliseconds.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdtools.evaluation.comparison.effects import in_milliseconds
from pdtools.evaluation.reading.regression import Coefficient, Fit, fit, for_new
from pdtools.report.tables import Cell, print_table

SIMULATIONS = 200
TRUTH = (3.0, 1.5, 0.7)
_DEVIATION = 2.0  # the items' differences in bits have this standard deviation


@dataclass(frozen=True)
class Case:
    """A simulation.

    Attributes:
        items, words, subjects: the corpus.
        stimuli: number of other items.
        bits: their mean difference.
        items_differ, subjects_differ: standard deviation of their effects, as a share of the mean effect.
        speed: standard deviation of items' mean times, milliseconds.
    """

    items: int = 40
    words: int = 30
    subjects: int = 20
    stimuli: int = 24
    bits: float = 2.0
    items_differ: float = 0.0
    subjects_differ: float = 0.0
    speed: float = 0.0


CASES = {
    "independent noise": Case(),
    "6 stimuli": Case(stimuli=6),
    "no difference in bits": Case(bits=0),
    "items differ": Case(items_differ=0.3, speed=20),
    "subjects differ": Case(subjects_differ=0.5),
    "both differ": Case(items_differ=0.3, subjects_differ=0.5, speed=20),
    "10 stories of 300 words, both differ": Case(
        items=10, words=300, items_differ=0.3, subjects_differ=0.3, speed=20
    ),
}
WAYS = ("effect", "slope's error alone", "items' error alone", "words independent", "slopes independent")
"""The interval of an effect, and what it would be without one of its parts."""


def corpus(case: Case, rng: np.random.Generator) -> tuple[Fit, tuple[Any, Any, Any, Any]]:
    """The fit of a simulated corpus, and what it was fitted to: arguments of :func:`for_new`."""
    noise = rng.gamma(2, 3, (case.items, case.words + 2))
    surprisal = np.empty_like(noise)
    surprisal[:, 0] = noise[:, 0]
    for i in range(1, case.words + 2):
        surprisal[:, i] = 0.6 * surprisal[:, i - 1] + 0.4 * noise[:, i]
    lagged = np.stack([surprisal[:, 2 - lag : case.words + 2 - lag] for lag in range(3)], -1).reshape(-1, 3)
    n, item = len(lagged), np.repeat(np.arange(case.items), case.words)
    length = rng.integers(1, 12, n)
    effect = (lagged @ TRUTH) * (1 + case.items_differ * rng.normal(size=case.items))[item]
    plain = 250 + 5.0 * length + case.speed * rng.normal(size=case.items)[item]
    times = plain[:, None] + effect[:, None] * (1 + case.subjects_differ * rng.normal(size=case.subjects))
    times += 120 * rng.normal(size=times.shape)
    mean = times.mean(1)
    word, subject = np.indices(times.shape).reshape(2, -1)
    predictors = np.column_stack([np.ones(n), length, lagged])
    return fit(predictors, mean), (predictors, mean, item, (word, subject, times.ravel()))


def one(case: Case, rng: np.random.Generator) -> list[bool]:
    """Test in one simulation which intervals of :data:`WAYS` hold the truth."""
    model, of_corpus = corpus(case, rng)
    weights = np.array([0.0, 0, 1, 1, 1])
    slope = for_new(model, *of_corpus, weights=weights)
    words = model.combined(weights)
    marginal = float(np.sqrt((weights * np.diag(model.covariance)).sum() * model.variance))
    bits = case.bits + _DEVIATION * rng.normal(size=(1, case.stimuli))
    truth = sum(TRUTH) * case.bits
    alone = Coefficient(slope.value, np.array(0.0), slope.freedom)
    slopes = [slope, None, alone, words, Coefficient(words.value, np.array(marginal), words.freedom)]
    found = []
    for each in slopes:
        low, high = (each or slope).interval()
        if each is None:
            ends = sorted((float(low) * bits.mean(), float(high) * bits.mean()))
        else:
            own = np.array([[float(each.value), float(high - low) / 2]])
            _, *ends = in_milliseconds([bits], [own])
        found.append(bool(ends[0] <= truth <= ends[1]))
    return [found[0], found[1], found[2], found[3], found[4]]


def coverage(case: Case, *, seed: int = 0, simulations: int = SIMULATIONS) -> dict[str, float]:
    """The share of simulations in which each interval holds the truth, in percent."""
    rng = np.random.default_rng(seed)
    shares = 100 * np.mean([one(case, rng) for _ in range(simulations)], axis=0)
    return dict(zip(WAYS, shares.tolist(), strict=True))


def main() -> None:
    """Print a table of coverages in percent; 95 is wanted."""
    rows: list[list[Cell]] = [[name, *coverage(case).values()] for name, case in CASES.items()]
    print_table(["simulation", *WAYS], rows, title=f"{SIMULATIONS} simulations", digits=1)


if __name__ == "__main__":
    main()
