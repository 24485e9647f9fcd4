"""Tables of reading-time predictors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pdtools.evaluation.bootstrap import FEWEST, are_few
from pdtools.evaluation.reading.effects import place_name
from pdtools.evaluation.results import Results
from pdtools.report.tables import Cell, decimals, print_note, print_table

_ALPHA = 0.05  # below it differences are called significant


def print_reading(results: Results) -> None:
    """Print gains over the baseline, milliseconds per unit, pairs of models, and exclusions."""
    scores, counts = results.scores, results.counts
    baseline = " + ".join(results.settings["baseline"])
    if "effects" in scores:
        print_effects(scores["effects"])
        print()
    rows: list[list[Cell]] = [
        [f"{name}: {predictor}", *_cells(found["sum"]), *(each["value"] for each in found["by_word_before"])]
        for name, model in scores["by_model"].items()
        for predictor, found in model["coefficients"].items()
    ]
    lags = ["the word", *(f"{lag} before" for lag in range(1, results.settings["spillover"] + 1))]
    print_table(["milliseconds a unit", "sum", "from", "to", "p", *lags], rows, digits=3)
    print_note("sum: effects of the word and of those before it, with their interval and p")
    print()
    rows = [
        [name, found["delta_ll"], found["low"], found["high"], found["p"], found["p_observations"]]
        for name, found in scores["by_model"].items()
    ]
    print_table(
        ["model", "ΔLL", "from", "to", "p", "p by words"],
        rows,
        title=f"Held-out log-likelihood over {baseline}, nats a word: {counts['words_regressed']} words of"
        f" {counts['items']} items",
        digits=[digits_of_gain(row[1:4]) for row in rows],
    )
    if scores["pairs"]:
        print()
        rows = [
            [
                f"{pair['b']} − {pair['a']}",
                pair["difference"],
                pair["low"],
                pair["high"],
                pair["p"],
                pair["p_observations"],
            ]
            for pair in scores["pairs"]
        ]
        digits = [digits_of_gain(row[1:4]) for row in rows]
        print_table(["difference of ΔLL", "", "from", "to", "p", "p by words"], rows, digits=digits)
    print_note("p: models exchanged in whole items; p by words: in single words, as in papers")
    if are_few(counts["groups"]):
        print_note(f"with fewer than {FEWEST} items intervals over items are too narrow")
    if (least := 2.0 ** (1 - counts["groups"])) > _ALPHA:
        print_note(f"with {counts['groups']} items p cannot be below {least:.2g}, whatever the models")
    print()
    excluded: list[list[Cell]] = [
        [reason, number] for reason, number in counts["words_left_out"].items() if number
    ]
    excluded += [
        [f"times: {reason}", number] for reason, number in counts["observations_left_out"].items() if number
    ]
    print_table(["excluded", "number"], excluded)
    print()
    print_note("For lme4 in R, of observations.parquet (--table: as CSV):")
    for name, model in results.settings["models"].items():
        print_note(f"{name}: {model['lme4']}")


def print_effects(effects: Sequence[dict[str, Any]]) -> None:
    """Print people's effects, and each model's, at the critical word and after it: a table per contrast."""
    for i, (contrast, of_contrast) in enumerate(itertools.groupby(effects, lambda each: each["contrast"])):
        rows: list[list[Cell]] = []
        for roi, of_place in itertools.groupby(of_contrast, lambda each: each["roi"]):
            found = list(of_place)
            groups = found[0]["groups"]
            rows.append([place_name(roi), "people", *_bounds(found[0]["human"]), None, groups])
            for each in found:
                ratio = None if each["ratio"] is None else each["ratio"]["value"]
                rows.append(["", each["model"], *_bounds(each["predicted"]), ratio, groups])
        if i:
            print()
        columns = ["place", "of", "ms", "from", "to", "ratio", "items"]
        print_table(columns, rows, title=f"Effect of {contrast}, people's and predicted", digits=2)


def _bounds(estimate: dict[str, float]) -> list[Cell]:
    return [estimate[name] for name in ("value", "low", "high")]


def digits_of_gain(gain: Sequence[Cell]) -> int:
    """The number of decimals for a gain and its interval."""
    return max(4, decimals(*(cell for cell in gain if isinstance(cell, float))))


def _cells(estimate: dict[str, float]) -> list[Cell]:
    return [estimate[name] for name in ("value", "low", "high", "p")]
