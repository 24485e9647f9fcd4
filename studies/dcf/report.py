"""The results of study.sh: tables beside the paper's, figures, and everything as JSON.

Usage: report.py FOLDER (of study.sh). Writes tables.md, results.json and figures into it.
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pdtools.evaluation.results import RESULTS
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.tables import listed, markdown_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart

TASKS = {"rs": "RS", "sm": "SM", "ma": "MA", "se": "SE"}
OBJECTIVES = {"masked": "MLM", "causal": "ALM"}
POSITIONS = ("none", "sincos", "relative", "rotary", "alibi")
KINDS = ("vanilla", "stack")

# Tables 1 and 2 of Li et al. (2024): mean and deviation over five seeds, percent. They disagree on two cells.
COLUMNS_1 = ("RNN", "stack RNN", "MLM vanilla", "MLM stack", "ALM vanilla", "ALM stack")
PAPER_1 = {  # in the order of COLUMNS_1
    "rs": ((81.0, 0.8), (100.0, 0.0), (54.8, 0.0), (100.0, 0.0), (55.4, 0.8), (100.0, 0.0)),
    "sm": ((73.2, 1.0), (100.0, 0.0), (50.4, 0.1), (93.1, 4.4), (50.4, 0.1), (92.8, 2.6)),
    "ma": ((75.8, 4.3), (91.0, 6.3), (30.1, 0.0), (34.3, 1.4), (30.2, 0.1), (29.5, 0.6)),
    "se": ((56.7, 10.3), (89.9, 7.2), (20.0, 0.0), (29.8, 8.0), (20.2, 0.1), (20.3, 0.2)),
}
RNNS = ("rnn", "stack-rnn")
PAPER_2 = {  # by objective, task and kind: in the order of POSITIONS
    "masked": {
        "rs": {
            "vanilla": ((54.8, 0.0), (50.7, 0.2), (67.6, 2.2), (55.4, 1.2), (79.4, 3.5)),
            "stack": ((100.0, 0.0), (99.1, 1.7), (100.0, 0.0), (86.3, 15.0), (100.0, 0.0)),
        },
        "sm": {
            "vanilla": ((50.4, 0.1), (49.5, 0.6), (67.5, 1.0), (52.1, 1.8), (70.9, 1.2)),
            "stack": ((93.1, 4.4), (74.7, 8.8), (98.5, 1.1), (73.1, 4.5), (92.9, 2.7)),
        },
        "ma": {
            "vanilla": ((30.1, 0.0), (30.1, 0.0), (30.1, 0.0), (30.1, 0.0), (30.1, 0.0)),
            "stack": ((34.3, 1.4), (33.8, 0.8), (35.0, 1.1), (34.5, 1.3), (34.7, 1.1)),
        },
        "se": {
            "vanilla": ((20.0, 0.0), (20.0, 0.0), (20.0, 0.0), (20.0, 0.0), (20.0, 0.0)),
            "stack": ((29.8, 8.0), (23.9, 3.0), (25.2, 1.8), (30.0, 3.8), (27.9, 5.8)),
        },
    },
    "causal": {
        "rs": {
            "vanilla": ((55.4, 0.8), (55.2, 0.7), (62.0, 6.1), (72.9, 3.5), (57.1, 0.6)),
            "stack": ((100.0, 0.0), (96.8, 4.5), (100.0, 0.0), (100.0, 0.0), (100.0, 0.0)),
        },
        "sm": {
            "vanilla": ((64.9, 2.0), (60.8, 3.1), (70.5, 0.9), (71.9, 0.9), (70.5, 1.6)),
            "stack": ((92.8, 2.6), (49.6, 4.4), (93.2, 2.3), (83.8, 1.7), (93.4, 1.2)),
        },
        "ma": {
            "vanilla": ((30.2, 0.1), (25.7, 2.3), (30.3, 0.1), (26.0, 0.8), (30.3, 0.1)),
            "stack": ((30.0, 0.1), (28.0, 2.8), (30.3, 0.3), (25.6, 0.3), (30.3, 0.1)),
        },
        "se": {
            "vanilla": ((20.2, 0.1), (20.2, 0.3), (20.7, 0.2), (20.3, 0.2), (20.5, 0.3)),
            "stack": ((20.3, 0.2), (20.2, 0.1), (20.7, 0.1), (20.2, 0.3), (20.3, 0.1)),
        },
    },
}
# Student's t, 97.5%, by degrees of freedom; for more, that of 9, a little too wide.
T_97_5 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

Found = dict[tuple[str, str, str], dict[str, dict[str, Any]]]  # task, objective, model: seed: scores


def main(folder: Path) -> None:
    """Read every results folder, write what there is."""
    found: Found = defaultdict(dict)
    made = None
    for path in sorted((folder / "results").glob(f"*/{RESULTS}")):
        task, objective, model, seed = parse_name(path.parent.name)
        document = read_json(path)
        found[task, objective, model][seed] = document["scores"]
        made = document["provenance"]
    settings = (folder / "settings").read_text(encoding="utf-8").strip()
    text = f"`{settings}`\n\n{table_1(found)}\n{table_2(found)}\n{note(found)}"
    write_json(
        folder / "results.json",
        {
            "scores": {
                "/".join(row): {seed: shortened(scores) for seed, scores in seeds.items()}
                for row, seeds in sorted(found.items())
            },
            "summary": {
                "/".join(row): summary(seeds.values(), score_of(row[2]))
                for row, seeds in sorted(found.items())
            },
            "settings": settings,
            "paper": {"table 1": PAPER_1, "table 2": PAPER_2},
            "provenance": provenance(),
            "provenance_of_one": made,
        },
    )
    with atomic_text(folder / "tables.md") as stream:
        stream.write(text)
    print(text)
    for task in TASKS:
        rows = [
            point for row, seeds in found.items() if drawn(row, task) for point in line_by_length(*row, seeds)
        ]
        if rows:
            chart = curves(rows, x="symbols of x", y="symbols of y right (percent)", percent=True)
            save_chart(folder / f"{task}-by-length.svg", chart)


def shortened(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of a seed with accuracies alone by length: the rest is in its own results."""
    return {**scores, "by_length": {n: of["accuracy"] for n, of in scores["by_length"].items()}}


def parse_name(name: str) -> tuple[str, str, str, str]:
    """``rs-masked-stack-none-1``: task, objective, model, seed."""
    match = re.fullmatch(r"([a-z]+)-([a-z]+)-(.+)-(\d+)", name)
    assert match is not None, name
    task, objective, model, seed = match.groups()
    return task, objective, model, seed


def score_of(model: str) -> str:
    """The average that a row shows: that of the released code leaves the first length out."""
    return "accuracy_as_released" if model.endswith("-released") else "accuracy_beyond_training"


def summary(seeds: Iterable[Mapping[str, Any]], score: str = "accuracy_beyond_training") -> dict[str, Any]:
    """Accuracy beyond the lengths of training in percent: seeds, their mean, deviation, and its 95% interval.

    The interval is Student's, for other seeds: None for a single seed. Accuracies end at 0 and 100, and so
    does the interval. Where no test string is longer than in training, there is no mean either.
    """
    values = [100 * each[score] for each in seeds if each[score] is not None]
    found: dict[str, Any] = {
        "score": score,
        "seeds": values,
        "mean": mean(values) if values else None,
        "deviation": None,
        "low": None,
        "high": None,
    }
    if len(values) > 1:
        half = T_97_5.get(len(values) - 1, T_97_5[9]) * stdev(values) / math.sqrt(len(values))
        found |= {
            "deviation": stdev(values),
            "low": max(0.0, found["mean"] - half),
            "high": min(100.0, found["mean"] + half),
        }
    return found


def cell(found: Found, task: str, objective: str, model: str) -> str:
    """Ours: the mean over seeds, their deviation, its interval; how many, where other cells have more."""
    of = summary(found.get((task, objective, model), {}).values(), score_of(model))
    if of["mean"] is None:
        return "-"
    number = len(of["seeds"])
    fewer = f" ({number})" if number < max(map(len, found.values())) else ""
    if of["deviation"] is None:
        return f"**{of['mean']:.1f}**{fewer}"
    return f"**{of['mean']:.1f}** ± {of['deviation']:.1f} [{of['low']:.1f}, {of['high']:.1f}]{fewer}"


def paper_cell(value: tuple[float, float]) -> str:
    """The paper's mean and deviation."""
    return f"{value[0]:.1f} ± {value[1]:.1f}"


def table_1(found: Found) -> str:
    """RNNs, and transformers without positions; a row of the paper's before each of ours."""
    rows = [["table 1", *COLUMNS_1], ["---"] * (len(COLUMNS_1) + 1)]
    for task, label in TASKS.items():
        rows.append([f"{label}, paper", *map(paper_cell, PAPER_1[task])])
        ours = [cell(found, task, "masked", model) for model in RNNS]
        ours += [cell(found, task, objective, f"{kind}-none") for objective in OBJECTIVES for kind in KINDS]
        rows.append([label, *ours])
        released = [cell(found, task, "masked", f"{model}-released") for model in RNNS]
        released += [
            cell(found, task, objective, f"{kind}-none-released")
            for objective in OBJECTIVES
            for kind in KINDS
        ]
        if set(released) != {"-"}:
            rows.append([f"{label}, as released", *released])
    return markdown_table(rows)


def table_2(found: Found) -> str:
    """Transformers by positional encoding."""
    return "\n".join(table_2_of(found, objective) for objective in OBJECTIVES)


def table_2_of(found: Found, objective: str) -> str:
    """The half of :func:`table_2` that is about one objective."""
    rows = [[f"table 2, {OBJECTIVES[objective]}", *POSITIONS], ["---"] * (len(POSITIONS) + 1)]
    for task, label in TASKS.items():
        for kind in KINDS:
            paper = map(paper_cell, PAPER_2[objective][task][kind])
            rows.append([f"{label} {kind}, paper", *paper])
            ours = [cell(found, task, objective, f"{kind}-{positions}") for positions in POSITIONS]
            rows.append([f"{label} {kind}", *ours])
    return markdown_table(rows)


def note(found: Found) -> str:
    """What the cells mean."""
    most = max(map(len, found.values()), default=0)
    return (
        "Percent of the symbols of y, mean over lengths longer than in training (as released: without the"
        " first of these, transformers with dropout). Ours: **mean** ± sample deviation over"
        f" {most} seeds, or as many as (in parentheses) [95% interval of the mean, for other seeds]. Paper:"
        " mean ± deviation over 5.\n"
    )


def drawn(row: tuple[str, str, str], task: str) -> bool:
    """Whether a row has a line in the figure of a task: those of table 1."""
    return row[0] == task and row[2] in ("rnn", "stack-rnn", "vanilla-none", "stack-none")


def line_by_length(
    task: str, objective: str, model: str, seeds: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Accuracy by length: the mean over seeds, and the lowest and highest of them around it."""
    kind = model.removesuffix("-none")
    label = kind if model in RNNS else f"{kind}, {OBJECTIVES[objective]}"
    by_length = [each["by_length"] for each in seeds.values()]
    lengths = sorted(map(int, set.intersection(*map(set, by_length))))
    for length in lengths:
        values = [100 * each[str(length)]["accuracy"] for each in by_length]
        yield {"series": label, "x": length, "y": mean(values), "low": min(values), "high": max(values)}


# --- passages of the notebook and the page of results, from files of docs/notes/results/dcf -----------------

Document = dict[str, Any]


def found_in(*documents: Document) -> Found:
    """The scores of results; of the second and further ones those without positions only."""
    found: Found = {}
    for document in documents:
        for name, seeds in document["scores"].items():
            task, objective, model = name.split("/")
            if document is documents[0] or model.endswith("-none"):
                found[task, objective, model] = seeds
    return found


def released_table(document: Document, *tasks: str) -> str:
    """The transformers as released, on some tasks."""
    rows = [
        ["as released", *(f"{OBJECTIVES[objective]} {kind}" for objective in OBJECTIVES for kind in KINDS)],
        ["---"] * (len(OBJECTIVES) * len(KINDS) + 1),
    ]
    for task in tasks:
        cells = [
            mean_of(document, f"{task}/{objective}/{kind}-none-released")
            for objective in OBJECTIVES
            for kind in KINDS
        ]
        rows.append([TASKS[task], *cells])
    return markdown_table(rows)


def mean_of(document: Document, row: str) -> str:
    """The average of a row, such as rs/causal/stack-none, percent."""
    found = summary(document["scores"][row].values(), score_of(row))
    return f"{found['mean']:.1f}"


def seeds_of(document: Document, row: str) -> str:
    """The average of every seed of a row, percent."""
    return listed(
        [f"{value:.1f}" for value in summary(document["scores"][row].values(), score_of(row))["seeds"]]
    )


# The columns and rows of the page of results: names of rows of table 1, written out.
SHORT_COLUMNS = ("RNN", "stack RNN", "masked transformer", "+ stack", "causal transformer", "+ stack")
SHORT_ROWS = {"rs": "reverse string", "sm": "stack manipulation"}


def short_table(document: Document) -> str:
    """Means of the two tasks that are learned, without positions, below the paper's."""
    rows = [["", *SHORT_COLUMNS], ["---"] * (len(SHORT_COLUMNS) + 1)]
    for task, name in SHORT_ROWS.items():
        models = [f"masked/{model}" for model in RNNS]
        models += [f"{objective}/{kind}-none" for objective in OBJECTIVES for kind in KINDS]
        rows.append([f"{name}, paper", *(f"{value:.1f}" for value, _ in PAPER_1[task])])
        rows.append([f"{name}, here", *(mean_of(document, f"{task}/{model}") for model in models)])
    return markdown_table(rows)


PASSAGES: dict[str, Callable[..., str]] = {
    "short": short_table,
    "table-1": lambda document: table_1(found_in(document)),
    "note": lambda document: note(found_in(document)),
    "table-2": lambda objective, *documents: table_2_of(found_in(*documents), objective),
    "released": released_table,
    "mean": mean_of,
    "seeds": seeds_of,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
