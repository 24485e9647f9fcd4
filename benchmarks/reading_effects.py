"""Coverage of the intervals of predicted effects when the truth is known, in simulations.

Subjects read fillers, and items in two conditions (each subject one version of each item), with the effects
``TRUTH`` (milliseconds a bit, of the word and of the two before it). Subjects differ in speed and in how much
a bit slows them, items in how large their effect is; the critical word is ``EXTRA`` ms slower in the first
condition than bits say. Both the effect of people and the predicted one are known, and have an interval.

    python benchmarks/reading_effects.py [--seed 0]
"""

from __future__ import annotations

import argparse

import numpy as np

from pdtools.evaluation.reading.effects import ConditionPair
from pdtools.evaluation.reading.evaluate import Regression, evaluate_reading
from pdtools.evaluation.reading.scoring import ModelWords, WordValues
from pdtools.evaluation.reading.times import Columns, ReadingTimes, TimedText
from pdtools.report.tables import print_table

SIMULATIONS, FILLERS, ITEMS, WORDS, CRITICAL, SUBJECTS = 200, 40, 24, 12, 6, 32
TRUTH, MEAN, BITS, EXTRA = (4.0, 2.0, 1.0), 300.0, 5.0, 30.0
BY_SUBJECT, BY_ITEM, NOISE = 0.25, 10.0, 60.0


def one(rng: np.random.Generator) -> list[list[float]]:
    """(low, value, high) of people's and of predicted effects at the critical word and the two after it; and
    of milliseconds a bit by word before."""
    kinds = ["filler"] * FILLERS + ["hard", "easy"] * ITEMS
    groups = [f"f{i}" for i in range(FILLERS)] + [f"i{i // 2}" for i in range(2 * ITEMS)]
    n = len(kinds)
    lengths = rng.integers(1, 12, (n, WORDS))
    surprisal = rng.gamma(2, 3, (n, WORDS))
    hard, easy = np.arange(FILLERS, n, 2), np.arange(FILLERS + 1, n, 2)
    lengths[hard], surprisal[hard] = lengths[easy], surprisal[easy]
    surprisal[hard, CRITICAL] += BITS
    slowed = sum(
        (
            np.pad(effect * surprisal[:, : WORDS - lag], ((0, 0), (lag, 0)))
            for lag, effect in enumerate(TRUTH)
        ),
        np.zeros((n, WORDS)),
    )
    extra = np.zeros((n, WORDS))
    extra[hard, CRITICAL] = EXTRA + BY_ITEM * rng.normal(size=ITEMS)
    word, subject, time = [], [], []
    for who in range(SUBJECTS):
        first = (np.arange(ITEMS) + who) % 2
        read = np.concatenate([np.arange(FILLERS), FILLERS + 2 * np.arange(ITEMS) + first])
        of_subject = MEAN + 5.0 * lengths[read] + 30 * rng.normal() + extra[read]
        of_subject = of_subject + slowed[read] * (1 + BY_SUBJECT * rng.normal())
        word.append((read[:, None] * WORDS + np.arange(WORDS)).ravel())
        subject.append(np.full(read.size * WORDS, who))
        time.append((of_subject + NOISE * rng.normal(size=of_subject.shape)).ravel())
    texts = tuple(
        TimedText(str(i), 1, tuple("x" * m for m in row), np.zeros(WORDS, np.int64), groups[i])
        for i, row in enumerate(lengths)
    )
    at = np.concatenate(word)
    labels = {
        "condition": np.array(kinds, dtype=object)[at // WORDS],
        "roi": np.array([str(i - CRITICAL) for i in range(WORDS)], dtype=object)[at % WORDS],
    }
    names = tuple(map(str, range(SUBJECTS)))
    times = ReadingTimes(
        texts, at, np.concatenate(subject), np.concatenate(time), names, 0, Columns(), labels=labels
    )
    words = tuple(WordValues({"surprisal": row}, {}, np.full(WORDS, -1)) for row in surprisal)
    model = ModelWords("m", {}, words)
    regression = Regression(
        least=0, samples=1000, seed=1, fit="filler", predict=(ConditionPair("hard", "easy"),)
    )
    scores = evaluate_reading(times, [model], frequency=None, regression=regression).scores
    slopes = scores["by_model"]["m"]["coefficients"]["surprisal"]["by_word_before"]
    parts = [*(each[which] for which in ("human", "predicted") for each in scores["effects"]), *slopes]
    return [[part[name] for name in ("low", "value", "high")] for part in parts]


def main() -> None:
    """Print, for each effect, the truth, the mean estimate and the share of intervals that hold the truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of what is simulated")
    rng = np.random.default_rng(parser.parse_args().seed)
    found = np.array([one(rng) for _ in range(SIMULATIONS)])  # (simulations, 9, 3)
    by_bits = [BITS * each for each in TRUTH]
    truths = np.array([by_bits[0] + EXTRA, *by_bits[1:], *by_bits, *TRUTH])
    places = ["critical word", "1 after it", "2 after it"]
    names = [f"{who}, {place}" for who in ("people", "predicted") for place in places]
    names += [f"ms a bit, {lag} before" for lag in range(3)]
    covered = 100 * np.mean((found[..., 0] <= truths) & (truths <= found[..., 2]), axis=0)
    rows = zip(names, truths.tolist(), found[..., 1].mean(0).tolist(), covered.tolist(), strict=True)
    titles = ["effect", "truth", "mean estimate", "% of intervals"]
    print_table(titles, list(rows), title=f"{SIMULATIONS} simulations", digits=2)


if __name__ == "__main__":
    main()
