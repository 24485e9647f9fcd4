"""What each evaluation prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdtools.evaluation.overview import Headline
from pdtools.evaluation.results import Results, mean
from pdtools.evaluation.sg_scores import CONVENTIONS
from pdtools.report.plots import Line, draw_lines
from pdtools.report.tables import Cell, print_table

_LENGTHS_TOGETHER = 10  # in a printed table of lengths


def percent(score: float | None) -> float | None:
    """A fraction of 1 as a percentage."""
    return None if score is None else 100 * score


def print_parse(results: Results) -> None:
    """Bracketing scores, over all sentences and up to the length limit."""
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


def print_blimp(results: Results) -> None:
    """Accuracy overall, by field, phenomenon and paradigm."""
    scores, counts = results.scores, results.counts
    rows: list[tuple[Cell, ...]] = [
        ("overall", "", percent(scores["overall"]), counts["pairs"], counts["pairs_scored"], counts["ties"])
    ]
    rows.append(("overall, per token", "", percent(scores["overall_per_token"]), None, None, None))
    by_paradigm = counts["by_paradigm"]
    groups = _groups(results, ("field", "phenomenon", "paradigm"))
    for level, name, members in groups:
        found = [by_paradigm[paradigm] for paradigm in members]
        rows.append(
            (
                level,
                name,
                percent(scores[f"by_{level}"][name]),
                *(sum(one[key] for one in found) for key in ("pairs", "scored", "ties")),
            )
        )
    print_table(["level", "name", "accuracy", "pairs", "scored", "ties"], rows, title="BLiMP (percent)")


def _groups(results: Results, levels: tuple[str, ...]) -> Iterator[tuple[str, str, list[str]]]:
    items = results.table("items").select([*levels]).to_pydict()
    for level in levels:
        members: dict[str, dict[str, None]] = {}
        for name, paradigm in zip(items[level], items[levels[-1]], strict=True):
            if name is None:  # pairs of one's own may have no phenomenon or field
                continue
            members.setdefault(name, {})[paradigm] = None
        for name in sorted(members):
            yield level, name, list(members[name])


def print_sg(results: Results) -> None:
    """SG scores in their conventions, then by circuit and by suite."""
    scores = results.scores
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), "", percent(scores[name])) for name in CONVENTIONS
    ]
    for level in ("circuit", "suite"):
        rows += [(level, name, percent(score)) for name, score in scores[f"by_{level}"].items()]
    for suite, predictions in scores["by_prediction"].items():
        rows += [(f"prediction {p}", suite, percent(score)) for p, score in predictions.items()]
    print_table(["level", "name", "score"], rows, title="Syntactic generalization (percent)")


def print_sg_runs(results: Results) -> None:
    """SG scores of many runs: in their conventions, then by circuit."""
    runs = results.scores["runs"]

    def names(run: dict[str, Any]) -> tuple[Cell, ...]:
        return (run["model"], run["corpus"], run["seed"])

    print_table(
        ["model", "corpus", "seed", *(name.replace("_", " ") for name in CONVENTIONS)],
        [(*names(run), *(percent(run[name]) for name in CONVENTIONS)) for run in runs],
        title="Syntactic generalization (percent)",
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
    """Perplexities, and over what."""
    rows: list[tuple[Cell, ...]] = [(name, score) for name, score in results.scores.items()]
    print_table(["score", "value"], rows, title="Perplexity", digits=4)
    counts: list[tuple[Cell, ...]] = [(name, count) for name, count in results.counts.items()]
    print()
    print_table(["count", "value"], counts)


def print_closing(results: Results) -> None:
    """Accuracy at closing brackets by set, length, depth, open brackets; the distance from the automaton."""
    titles = {"by_set": "set", "by_dependency": "dependency", "by_depth": "depth", "by_open": "open brackets"}
    for kind, title in titles.items():
        rows: list[tuple[Cell, ...]] = [
            (
                name,
                each["prefixes"],
                percent(each["accuracy"]),
                f"[{100 * each['low']:.1f}, {100 * each['high']:.1f}]",
                percent(each["accuracy_given_attachments"]),
                percent(each["attachment_accuracy"]),
                percent(each["lost_by_beam"]),
            )
            for name, each in results.scores[kind].items()
        ]
        columns = [title, "prefixes", "right", "95%", "attachments given", "closers attached right"]
        columns.append("lost by the beam")
        print_table(columns, rows, title=f"Closing brackets by {title} (percent)")
        print()
    if "entropy" in results.scores:
        entropy: list[tuple[Cell, ...]] = list(results.scores["entropy"].items())
        print_table(["nats a token", "value"], entropy, title="Against the automaton", digits=4)


def print_transduction(results: Results) -> None:
    """Accuracy on average, and by ten lengths together."""
    scores, settings = results.scores, results.settings
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), percent(scores[name]))
        for name in ("accuracy", "accuracy_beyond_training", "accuracy_as_released", "exact")
    ]
    title = f"Task {settings['formal_task']}, {settings['objective']}, {settings['decoding']} (percent)"
    print_table(["average over lengths", "score"], rows, title=title)
    print()
    tens: dict[int, list[dict[str, Any]]] = {}
    for length, each in scores["by_length"].items():
        tens.setdefault((int(length) - 1) // _LENGTHS_TOGETHER, []).append({"length": length, **each})
    print_table(
        ["lengths", "pairs", "accuracy", "exact"],
        [
            (
                f"{group[0]['length']}-{group[-1]['length']}",
                sum(each["pairs"] for each in group),
                percent(mean([each["accuracy"] for each in group])),
                percent(mean([each["exact"] for each in group])),
            )
            for group in tens.values()
        ],
    )


def draw_by_length(path: str | Path, results: Results) -> None:
    """A figure of the accuracy by length (:func:`pdtools.report.plots.draw_lines`)."""
    by_length = results.scores["by_length"]
    line = Line(
        label=f"{results.settings['formal_task']}, {results.settings['objective']}",
        x=[int(length) for length in by_length],
        y=[100 * each["accuracy"] for each in by_length.values()],
    )
    draw_lines(path, [line], x="symbols of x", y="symbols of y right (percent)", percent=True)


def print_comparison(found: dict[str, Any], first: str, second: str) -> None:
    """Two runs side by side, by group."""
    print(f"a: {first}\nb: {second}")
    rows: list[tuple[Cell, ...]] = [
        (
            group.level,
            group.name,
            group.items,
            percent(group.a),
            percent(group.b),
            f"{100 * group.difference:+.2f}",
            f"[{100 * group.low:+.2f}, {100 * group.high:+.2f}]",
            group.only_a,
            group.only_b,
            f"{group.p:.2g}",
        )
        for group in found["groups"]
    ]
    columns = ["level", "name", "items", "a", "b", "b - a", "95%", "only a", "only b", "p"]
    print_table(columns, rows, title=f"{found['task']} (percent)")
    _print_notes("not the same in both: ", found["notes"])


def print_overview(headlines: Sequence[Headline], a: str, b: str) -> None:
    """The main scores of two models, one a line."""
    rows: list[tuple[Cell, ...]] = [
        (
            headline.score,
            headline.a,
            headline.b,
            None if headline.a is None or headline.b is None else f"{headline.b - headline.a:+.2f}",
            None if headline.p is None else f"{headline.p:.2g}",
        )
        for headline in headlines
    ]
    print_table(["score", a, b, "difference", "p"], rows)
    for notes, scores in _scores_by_notes(headlines).items():
        _print_notes(f"{', '.join(scores)}: ", notes)


def _scores_by_notes(headlines: Sequence[Headline]) -> dict[tuple[str, ...], list[str]]:
    """What is to be said of scores, and of which."""
    found: dict[tuple[str, ...], list[str]] = {}
    for headline in headlines:
        notes = headline.notes if headline.refused is None else (headline.refused,)
        if notes:
            found.setdefault(notes, []).append(headline.score)
    return found


def _print_notes(of: str, notes: Sequence[str]) -> None:
    """Remarks under a table, no wider than one."""
    if notes:
        print(textwrap.fill(of + "; ".join(notes), 80, subsequent_indent="  ", break_long_words=False))
