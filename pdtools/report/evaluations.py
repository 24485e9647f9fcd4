"""Printing of each evaluation's results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdtools.evaluation.bootstrap import FEW_ITEMS, are_few
from pdtools.evaluation.perplexity import record as perplexity
from pdtools.evaluation.results import Results
from pdtools.evaluation.sg.record import CONVENTIONS
from pdtools.report.tables import Cell, percent, print_note, print_table


def with_bound(name: str, bound: str | None) -> str:
    """The name of a row, with the bound that its score is, if any."""
    return name if bound is None else f"{name}, {bound}"


def print_scores(results: Results) -> None:
    """Print the main scores of any evaluation that has a record."""
    document = results.document({})
    record = results.evaluation
    assert record is not None
    rows: list[tuple[Cell, ...]] = [
        (label, value, ", ".join(over)) for label, (value, over) in record.main_scores(document).items()
    ]
    print_table([record.title, "score", "over"], rows)


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
    """Print perplexities, with the numbers of tokens, words and sentences."""
    document = {"settings": results.settings}
    rows: list[tuple[Cell, ...]] = [
        (with_bound(name, perplexity.bound(name, document)), score) for name, score in results.scores.items()
    ]
    print_table(["score", "value"], rows, title="Perplexity", digits=4)
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
                shown = (percent(score["mean"]), _of_interval(score))
                compared = (None, None) if less is None else (percent(less["mean"]), _of_interval(less))
                rows.append((region, model, *shown, *compared))
                for layer, share in enumerate(score["by_layer"], start=1) if details else []:
                    rows.append(("", f"  layer {layer}", percent(share), "", None, ""))
        items = results.counts["items_by_suite"][suite]
        title = f"{suite}: attention when {settings['at']} is predicted (percent; items: {items})"
        print_table(["region", "model", "mean", "95%", "less 1st", "95%"], rows, title=title)
        print()
    print_note("mean: over layers, heads, items and seeds; less 1st: less the first model's")


def _of_interval(score: Mapping[str, float]) -> str:
    return f"[{100 * score['low']:.2f}, {100 * score['high']:.2f}]"


def print_classification(results: Results) -> None:
    """Print scores of a task with their intervals, and the number of items of each label."""
    scores, counts = dict(results.scores), results.counts
    spans = scores.pop("intervals") or {}
    title = f"{results.settings['prompt_task']} (percent)"
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            percent(score),
            f"[{100 * spans[name][0]:.2f}, {100 * spans[name][1]:.2f}]" if spans.get(name) else "",
        )
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
