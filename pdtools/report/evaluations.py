"""Printing of each evaluation's results, and the figures of those on formal languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pdtools.evaluation.benchmark.outcomes import Tally
from pdtools.evaluation.bootstrap import FEW_ITEMS, FEWEST, are_few
from pdtools.evaluation.perplexity import record as perplexity
from pdtools.evaluation.record import MARGIN
from pdtools.evaluation.results import ITEMS, Results, mean
from pdtools.evaluation.sg.record import CONVENTIONS
from pdtools.report.tables import Cell, decimals, percent, print_note, print_table
from pdtools.search.scores import is_pseudo, marked

_ALPHA = 0.05  # below it differences are called significant
_COUNTS = ("items", "scored", "ties")
_NAMES = ("cross_entropy", "bound", "difference")


def with_bound(name: str, bound: str | None) -> str:
    """The name of a row, with the bound that its score is, if any."""
    return name if bound is None else f"{name}, {bound}"


def with_bounds(name: str, bounds: Mapping[str, str | None]) -> str:
    """The name of a row of several models' scores, with the bound of each; without models if all have one.

    Args:
        name: the score's name.
        bounds: by model, the bound that its score is; None if it is exact.
    """
    of: dict[str, list[str]] = {}
    for model, bound in bounds.items():
        if bound is not None:
            of.setdefault(bound, []).append(model)
    if [len(models) for models in of.values()] == [len(bounds)]:
        return with_bound(name, *of)
    said = "; ".join(f"{', '.join(models)}: {bound}" for bound, models in of.items())
    return f"{name} ({said})" if said else name


def print_scores(results: Results) -> None:
    """Print the main scores of any evaluation that has a record."""
    document = results.document({})
    record = results.evaluation
    assert record is not None
    rows: list[tuple[Cell, ...]] = [
        (label, value, ", ".join(over)) for label, (value, over) in record.main_scores(document).items()
    ]
    title = marked(record.title, pseudo=is_pseudo(results.settings))
    print_table([title, "score", "over"], rows)


def print_parse(results: Results) -> None:
    """Print bracketing scores, over all sentences and up to the length limit."""
    scores, counts, cutoff = results.scores, results.counts, results.settings["cutoff_len"]
    names = [name for name in scores if name != "up_to_cutoff"]
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), scores[name], scores["up_to_cutoff"][name]) for name in names
    ]
    rows += [
        (name.replace("_", " "), counts[name], counts["up_to_cutoff"][name])
        for name in ("sentences", "scored", "errors", "skipped", "left_out")
    ]
    kind = "labeled" if results.settings["labeled"] else "unlabeled"
    factor = results.settings["binarize"]
    title = f"Bracketing, {kind}" + ("" if factor == "none" else f", {factor}-binarized") + " (percent)"
    print_table(["score", "all", f"up to {cutoff} words"], rows, title=title)


def print_sg_runs(results: Results) -> None:
    """Print SG scores of many runs: in their conventions, then by circuit."""
    runs = results.scores["runs"]

    def names(run: dict[str, Any]) -> tuple[Cell, ...]:
        return (run["model"], run["corpus"], run["seed"])

    print_table(
        [
            "model",
            "corpus",
            "seed",
            *(name.removeprefix("mean_of_").replace("_", " ") for name in CONVENTIONS),
        ],
        [(*names(run), *(percent(run[name]) for name in CONVENTIONS)) for run in runs],
        title="Syntactic generalization (percent); circuits, items: the means of these",
    )
    print()
    circuits = sorted({circuit for run in runs for circuit in run["by_circuit"]})
    print_table(
        ["circuit", "model", "corpus", "seed", "score"],
        [
            (circuit, *names(run), percent(run["by_circuit"].get(circuit)))
            for circuit in circuits
            for run in runs
        ],
    )


def print_perplexity(results: Results) -> None:
    """Print the perplexities that there are, with the numbers of tokens, words and sentences."""
    document = {"settings": results.settings}
    rows: list[tuple[Cell, ...]] = [
        (with_bound(name, perplexity.bound(name, document)), score)
        for name, score in results.scores.items()
        if score is not None
    ]
    title = "Pseudo-perplexity" if is_pseudo(results.settings) else "Perplexity"
    print_table(["score", "value"], rows, title=title, digits=4)
    counts: list[tuple[Cell, ...]] = [(name, count) for name, count in results.counts.items()]
    print()
    print_table(["count", "value"], counts)


def print_attention(results: Results, *, details: bool = False) -> None:
    """Print attention to regions by suite and model, with intervals; with ``details`` by layer too."""
    scores, settings = results.scores, results.settings
    for suite, regions in scores["by_suite"].items():
        rows: list[tuple[Cell, ...]] = []
        for region, models in regions.items():
            for model, score in models.items():
                less = scores["differences"].get(suite, {}).get(region, {}).get(model)
                shown, compared = (
                    (None, None) if of is None else (percent(of["mean"]), _interval(of["low"], of["high"]))
                    for of in (score, less)
                )
                rows.append((region, model, *shown, *compared))
                for layer, share in enumerate(score["by_layer"], start=1) if details else []:
                    rows.append(("", f"  layer {layer}", percent(share), "", None, ""))
        items = results.counts["items_by_suite"][suite]
        title = f"{suite}: attention when {settings['at']} is predicted (percent; items: {items})"
        print_table(["region", "model", "mean", "95%", "less 1st", "95%"], rows, title=title)
        print()
    print_note("mean: over layers, heads, items and seeds; less 1st: less the first model's")


def _interval(low: float, high: float, digits: int = 2) -> str:
    return f"[{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def print_classification(results: Results) -> None:
    """Print scores of a task with their intervals, and the number of items of each label."""
    scores, counts = dict(results.scores), results.counts
    spans = scores.pop("intervals") or {}
    title = f"{results.settings['prompt_task']} (percent)"
    rows: list[tuple[Cell, ...]] = [
        (name, percent(score), _interval(*spans[name]) if spans.get(name) else "")
        for name, score in scores.items()
    ]
    print_table([title, "score", "95%"], rows)
    ties = f", {counts['ties']} ties" if "ties" in counts else ""
    print_note(f"{counts['items']} items, {counts['items_labelled']} with labels{ties}")
    if spans and are_few(counts["items_labelled"]):
        print_note(FEW_ITEMS)
    if "by_label" in counts:
        print()
        columns = ("gold", "predicted", "right")
        by_label = counts["by_label"].items()
        print_table(["label", *columns], [(label, *(of[name] for name in columns)) for label, of in by_label])


# --- evaluations of items -----------------------------------------------------------------------


def print_benchmark(results: Results, *, details: bool = False) -> None:
    """Print accuracy overall and by level; the finest groups with ``details``, or if no other has a name."""
    scores, counts, record = results.scores, results.counts, results.evaluation
    assert record is not None
    outcomes = record.outcomes
    if outcomes is None:
        print_scores(results)
        return
    by_unit = scores[f"by_{outcomes.unit}"]
    of = [name for name, score in by_unit.items() if score is not None and name not in outcomes.outside]
    said = f" (mean of {len(of):,} {_plural(outcomes.unit)})" if len(of) > 1 else ""
    overall = (counts[key] for key in ("items", "items_scored", "ties"))
    rows: list[tuple[Cell, ...]] = [(f"overall{said}", percent(scores["overall"]), *overall)]
    single = {name: score for name, score in scores.items() if not isinstance(score, dict)}
    single |= {
        f"overall, {name}": score
        for name, score in [*scores["by_prediction"].items()][1:]
        if not isinstance(score, dict)
    }
    rows += [
        (name.upper() if name in ("mcc", "auc") else name.replace("_", " "), percent(score), None, None, None)
        for name, score in single.items()
        if name != "overall"
    ]
    columns = ["accuracy", *_COUNTS]
    title = marked(record.title, pseudo=is_pseudo(results.settings))
    print_table([f"{title} (percent)", *columns], rows)
    if MARGIN in scores and (margin := scores[MARGIN]["overall"]) is not None:
        print_note(f"mean margin: {margin:+.3f} bits")
    named = [
        name.removeprefix("by_") for name, of_level in scores.items() if name.startswith("by_") and of_level
    ]
    above = [name for name in named if name not in ("prediction", outcomes.unit)]
    is_alone = not {*above} & {*outcomes.levels}
    for level in [*above, outcomes.unit] if details or is_alone else above:
        groups = _counts(results, level)
        over = " over items" if level in outcomes.over_items else ""
        print()
        print_table(
            [level, f"accuracy{over}", *_COUNTS],
            [
                (name, percent(score), *groups[name].counts.values())
                for name, score in scores[f"by_{level}"].items()
            ],
        )
    several = [(unit, of) for unit, of in scores["by_prediction"].items() if isinstance(of, dict)]
    if details and several:
        print()
        print_table(
            [outcomes.unit, "prediction", "accuracy"],
            [(unit, name, percent(score)) for unit, of in several for name, score in of.items()],
        )


def _plural(unit: str) -> str:
    if unit.endswith("phenomenon"):
        return f"{unit[:-2]}a"
    return f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"


def _counts(results: Results, level: str) -> dict[str, Tally]:
    """The counts of the first prediction, by group of a level."""
    columns = results.table(ITEMS).select([level, "prediction", "outcome"]).to_pydict()
    found: dict[str, Tally] = {}
    for groups, prediction, outcome in zip(*columns.values(), strict=True):
        if prediction == 1:
            for group in groups if isinstance(groups, list) else [groups]:  # flags are several
                found.setdefault(group, Tally()).add(outcome)
    return found


# --- formal languages ---------------------------------------------------------------------------


def print_closing(results: Results) -> None:
    """Print closing accuracy by set, length, depth, open brackets; and the distance from the automaton."""
    titles = {"by_set": "set", "by_dependency": "dependency", "by_depth": "depth", "by_open": "open brackets"}
    for kind, title in titles.items():
        rows: list[tuple[Cell, ...]] = [
            (
                name,
                each["prefixes"],
                percent(each["accuracy"]),
                _interval(each["low"], each["high"], digits=1),
                *(
                    percent(each[of])
                    for of in (
                        "accuracy_by_best",
                        "accuracy_given_attachments",
                        "attachment_accuracy",
                        "lost_by_beam",
                    )
                ),
            )
            for name, each in results.scores[kind].items()
        ]
        columns = [title, "prefixes", "right", "95%", "best", "given", "attached", "lost"]
        print_table(columns, rows, title=f"Closing brackets by {title} (percent)")
        print()
    print_note(
        "best: right by the best hypothesis alone; given: if the attachments are given; attached: closers"
        " attached right; lost: by the beam"
    )
    print()
    if "entropy" in results.scores:
        entropy: list[tuple[Cell, ...]] = list(results.scores["entropy"].items())
        print_table(["nats a token", "value"], entropy, title="Against the automaton", digits=4)


def print_cfl(results: Results) -> None:
    """Print the scores over all strings, and by ten lengths together."""
    scores = results.scores
    columns = ["strings", "model", "bound", "difference"]
    overall: list[Cell] = [results.counts["strings"], *(scores[name] for name in _NAMES)]
    title = f"{results.settings['language']['grammar']}: cross-entropy, nats a symbol"
    print_table(columns, [overall], title=title, digits=4)
    print()
    rows: list[tuple[Cell, ...]] = [
        (lengths, sum(each["strings"] for each in group), *(_mean(group, name) for name in _NAMES))
        for lengths, group in _by_ten(scores["by_length"], first=0)
    ]
    print_table(["lengths", *columns], rows, title="By length, the bound given it (nats a symbol)", digits=4)


def print_transduction(results: Results) -> None:
    """Print accuracy on average, and by ten lengths together."""
    scores, settings = results.scores, results.settings
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), percent(scores[name]))
        for name in ("accuracy", "accuracy_beyond_training", "accuracy_as_released", "exact")
    ]
    title = f"Task {settings['formal_task']}, {settings['objective']}, {settings['decoding']} (percent)"
    print_table(["average over lengths", "score"], rows, title=title)
    print()
    print_table(
        ["lengths", "pairs", "accuracy", "exact"],
        [
            (
                lengths,
                sum(each["pairs"] for each in group),
                *(percent(_mean(group, name)) for name in ("accuracy", "exact")),
            )
            for lengths, group in _by_ten(scores["by_length"], first=1)
        ],
    )


def _by_ten(by_length: Mapping[str, Any], *, first: int) -> list[tuple[str, list[Any]]]:
    """The scores of ten lengths together, beginning at a first one, named by the lengths that there are."""
    tens: dict[int, dict[str, Any]] = {}
    for length, each in by_length.items():
        tens.setdefault((int(length) - first) // 10, {})[length] = each
    return [(f"{next(iter(of))}-{next(reversed(of))}", list(of.values())) for of in tens.values()]


def _mean(group: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a score over lengths that have it, each with equal weight."""
    return mean([each[name] for each in group if each[name] is not None])


def draw_by_length(
    path: str | Path, scores: Mapping[str, Mapping[str, Any]], value: str, *, x: str, y: str
) -> None:
    """Draw a value by length, a line for each model's scores (by its label); shares in percent."""
    from pdtools.report.view.charts import curves
    from pdtools.report.view.vega import save_chart

    is_share = value == "accuracy"
    rows = [
        {"series": label, "x": int(length), "y": (100 if is_share else 1) * values[value]}
        for label, each in scores.items()
        for length, values in each["by_length"].items()
    ]
    save_chart(path, curves(rows, x=x, y=y, percent=is_share))


# --- reading times ------------------------------------------------------------------------------


def print_reading(results: Results) -> None:
    """Print gains over the baseline, milliseconds per unit, pairs of models, and exclusions."""
    scores, counts = results.scores, results.counts
    baseline = " + ".join(results.settings["baseline"])
    if "effects" in scores:
        print_effects(scores["effects"])
        print()
    rows: list[list[Cell]] = [
        [
            f"{name}: {predictor}",
            *_estimated(found["sum"]["for_new"]),
            *(each["value"] for each in found["by_word_before"]),
        ]
        for name, model in scores["by_model"].items()
        for predictor, found in model["coefficients"].items()
    ]
    lags = ["the word", *(f"{lag} before" for lag in range(1, results.settings["spillover"] + 1))]
    print_table(["milliseconds a unit", "sum", "from", "to", "p", *lags], rows, digits=3)
    print_note("sum: the word and those before it; interval, p: for other items and readers")
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
    from pdtools.evaluation.reading.effects import place_name

    for i, (contrast, of_contrast) in enumerate(groupby(effects, lambda each: each["contrast"])):
        rows: list[list[Cell]] = []
        for roi, of_place in groupby(of_contrast, lambda each: each["roi"]):
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


def _estimated(estimate: dict[str, float]) -> list[Cell]:
    return [estimate[name] for name in ("value", "low", "high", "p")]
