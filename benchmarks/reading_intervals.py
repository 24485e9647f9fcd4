"""Coverage of the intervals of eval-reading when the effects are known, in simulations.

Words have a length and a surprisal; subjects read them with the effects ``TRUTH`` (milliseconds a bit, of
the word and of the two before it) and noise that is normal, cut at 0, or skewed. The regressions are as in
``pdtools eval-reading``: means over subjects, without first and last words of sentences and times below
``--min-time``, which cuts the short ones off, so that effects look smaller than they are.

    python benchmarks/reading_intervals.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdtools.evaluation.reading.evaluate import Regression, evaluate_reading
from pdtools.evaluation.reading.scoring import ModelWords, WordValues
from pdtools.evaluation.reading.times import Columns, ReadingTimes, TimedText
from pdtools.report.tables import print_table

SIMULATIONS, ITEMS, WORDS, SENTENCE, SUBJECTS = 200, 12, 60, 15, 8
TRUTH, MEAN = (4.0, 2.0, 1.0), 250.0
# Noise of an observation in milliseconds, and --min-time.
CASES = {
    "normal, 40 ms": ("normal", 40.0, 100.0),
    "normal, 120 ms": ("normal", 120.0, 100.0),
    "normal, 120 ms, --min-time 0": ("normal", 120.0, 0.0),
    "skewed, 120 ms": ("skewed", 120.0, 100.0),
}


def noise(kind: str, deviation: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Noise with mean 0: normal, or from a gamma distribution of shape 2."""
    if kind == "normal":
        return rng.normal(0, deviation, n)
    return (rng.gamma(2, 1, n) - 2) * deviation / np.sqrt(2)


def one(
    kind: str, deviation: float, least: float, rng: np.random.Generator
) -> list[tuple[float, float, float]]:
    """Low, value and high of each effect and of their sum, in one simulation."""
    lengths = rng.integers(1, 12, (ITEMS, WORDS))
    surprisal = rng.gamma(2, 3, (ITEMS, WORDS))
    expected = MEAN + 5.0 * lengths
    for lag, effect in enumerate(TRUTH):
        expected[:, lag:] += effect * surprisal[:, : WORDS - lag]
    sentences = np.arange(WORDS) // SENTENCE
    texts = tuple(
        TimedText(str(i), 1, tuple("x" * n for n in row), sentences) for i, row in enumerate(lengths)
    )
    word = np.tile(np.arange(lengths.size), SUBJECTS)
    times = np.maximum(expected.ravel()[word] + noise(kind, deviation, len(word), rng), 0)
    subject = np.repeat(np.arange(SUBJECTS), lengths.size)
    read = ReadingTimes(texts, word, subject, times, tuple(map(str, range(SUBJECTS))), 0, Columns())
    words = tuple(WordValues({"surprisal": row}, {}, np.full(WORDS, -1)) for row in surprisal)
    model = ModelWords("m", {}, words)
    regression = Regression(least=least, samples=100)
    found = evaluate_reading(read, [model], frequency=None, regression=regression).scores
    effects = found["by_model"]["m"]["coefficients"]["surprisal"]
    every = [*effects["by_word_before"], effects["sum"]]
    return [(each["low"], each["value"], each["high"]) for each in every]


def main() -> None:
    """Print a table of coverages in percent (95 is wanted) and of mean estimates."""
    truths = np.array([*TRUTH, sum(TRUTH)])
    rows = []
    for seed, (name, case) in enumerate(CASES.items()):
        rng = np.random.default_rng(seed)
        found = np.array([one(*case, rng) for _ in range(SIMULATIONS)])  # (simulations, effects, 3)
        covered = 100 * np.mean((found[..., 0] <= truths) & (truths <= found[..., 2]), axis=0)
        rows.append((name, *covered.tolist(), *found[..., 1].mean(0).tolist()))
    effects = [*(f"{effect:g}" for effect in TRUTH), f"sum {sum(TRUTH):g}"]
    titles = ["noise", *(f"{effect}: %" for effect in effects), *(f"{effect}: mean" for effect in effects)]
    print_table(titles, rows, title=f"{SIMULATIONS} simulations", digits=2)


if __name__ == "__main__":
    main()
