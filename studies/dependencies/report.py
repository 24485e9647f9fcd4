"""Gather this study's results, and make its tables.

python report.py FOLDER > docs/notes/results/dependencies/scores.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files import read_json
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics

MODELS = {
    "transformer": "base LM",
    "pushdown": "Pushdown LM",
    "tg": "TG",
    "dtg": "DTG",
    "gilt": "GiLT",
    "gilt-16": "GiLT, scorer of 16",
}
TESTS = {"lines": "LinES", "pud": "PUD"}
GIVEN, MARGINAL = "ppl_word_given_trees", "ppl_word_marginal"
# Heading, where the value is, its scale and decimals.
COLUMNS = {
    "table": (
        *((f"{name}, marginal", f"ppl-{test}", MARGINAL, 1, 0) for test, name in TESTS.items()),
        *((f"{name}, given", f"ppl-{test}", GIVEN, 1, 0) for test, name in TESTS.items()),
        ("SG (%)", "sg", "sg_31", 100, 1),
        ("BLiMP (%)", "blimp", "overall", 100, 1),
    ),
    "parses": (
        *((f"UAS, {name}", f"arcs-{test}", "uas_f1", 1, 1) for test, name in TESTS.items()),
        *((f"arc F1, {name}", f"arcs-{test}", "arc_f1", 1, 1) for test, name in TESTS.items()),
        *((f"F1, {name}", f"parse-{test}", "unlabeled_f1", 1, 1) for test, name in TESTS.items()),
    ),
    "training": (
        ("loss", "valid", "loss", 1, 3),
        ("of counts, a word", "valid", "count_loss", 1, 3),
        ("seconds", "valid", "seconds", 1, 0),
    ),
}

# The columns of the page of results, which has means alone.
SHORT = (*COLUMNS["table"], *COLUMNS["parses"][:2])

Scores = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float | None]]]]


def gathered(folder: Path) -> dict[str, Any]:
    """Scores by model, seed, evaluation and name, with those of validation at the step that is kept."""
    found: dict[str, Any] = {}
    for model in MODELS:
        for run in sorted((folder / "runs").glob(f"{model}-[0-9]")):
            seed = run.name.rpartition("-")[2]
            valid = read_metrics(run, "valid")
            best = dict(min(valid, key=lambda row: row["loss"]))
            best["seconds"] = valid[-1]["seconds"]
            wanted = {name for *_, name, _, _ in COLUMNS["training"]}
            scores = {"valid": {name: value for name, value in best.items() if name in wanted}}
            for file in sorted((folder / "results" / run.name).glob("*/results.json")):
                columns = (*COLUMNS["table"], *COLUMNS["parses"])
                names = {name for _, evaluation, name, *_ in columns if evaluation == file.parent.name}
                scores[file.parent.name] = {name: read_json(file)["scores"].get(name) for name in names}
            found.setdefault(model, {})[seed] = scores
    return found


def table(scores: Scores, kind: str = "table") -> str:
    """A row for each model; the mean of its seeds, and (but for the kind ``short``) each."""
    columns = SHORT if kind == "short" else COLUMNS[kind]
    rows = [["", *(heading for heading, *_ in columns)], ["---"] * (len(columns) + 1)]
    for model, label in MODELS.items():
        cells = [cell(scores.get(model, {}), *where) for _, *where in columns]
        if kind == "short":
            cells = [text.partition(" (")[0] for text in cells]
        if any(cells):
            rows.append([label, *cells])
    return markdown_table(rows)


def cell(seeds: Mapping[str, Any], evaluation: str, name: str, scale: float, decimals: int) -> str:
    """The mean of the seeds that have a score, and each; empty without one."""
    values = [scores.get(evaluation, {}).get(name) for scores in seeds.values()]
    there = [f"{scale * value:,.{decimals}f}" for value in values if value is not None]
    if not there:
        return ""
    average = mean(scale * value for value in values if value is not None)
    return f"{average:,.{decimals}f} ({', '.join(there)})" if len(there) > 1 else there[0]


PASSAGES = {kind: lambda scores, kind=kind: table(scores, kind) for kind in (*COLUMNS, "short")}

if __name__ == "__main__":
    try:
        print(json.dumps(gathered(Path(sys.argv[1])), indent=1, sort_keys=True))
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
