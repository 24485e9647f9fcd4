"""What the scripts of this study ask: the chosen rate; the tables, figures and results of all runs.

python report.py rate SWEEP.json | table FOLDER | figures RESULTS.json FOLDER | tapes FILE.json
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gather
import score_tables
import search_tables
import tape_tables

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.plots import Curve, draw_categories


def rate(file: str) -> None:
    """Print the learning rate with the lowest validation loss; a run's name is its rate."""
    print(read_json(Path(file))[0]["name"])


def table(folder: str) -> None:
    """Write results.json, table.md and the figures, and print the tables."""
    found = gather.collected(Path(folder))
    text = score_tables.markdown(found)
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    print(text, end="")
    draw(found, Path(folder))


def tapes(file: str) -> None:
    """Print the tables of a file of tape_use.py."""
    found = read_json(Path(file))
    strata = (tape_tables.strata_table(found, name) for name in tape_tables.STRATA)
    print("\n".join([tape_tables.tape_table(found), *strata]), end="")


# --- figures ------------------------------------------------------------------------------------


def figures(results: str, folder: str) -> None:
    """Draw the figures of a results file again."""
    draw(read_json(Path(results)), Path(folder))


def draw(found: gather.Document, folder: Path) -> None:
    """Figures 3, 5 and 6, as far as there are results: syntax-….svg."""
    for level, (task, value) in gather.LEVELS.items():
        scores = score_tables.at_level(found, level)
        lines = lines_of([{of["group"]: of for of in score["groups"]} for score in scores], 1)
        if lines:
            names = [score["name"].replace("_", " ") for score in scores]
            draw_categories(folder / f"syntax-{task}-by-{level}.svg", names, lines, value=value, percent=True)
    by_suite = (found["attention"] or {"by_suite": {}})["by_suite"]
    distractors = {
        suite: by_suite[suite][region]
        for suite, region in score_tables.DISTRACTORS.items()
        if region in by_suite.get(suite, {})
    }
    value = "attention before the verb (percent)"
    for name, by_place in (("distractors", distractors), ("number-src", by_suite.get("number_src", {}))):
        if lines := lines_of(list(by_place.values()), 100):
            draw_categories(folder / f"syntax-attention-{name}.svg", list(by_place), lines, value=value)


def lines_of(places: Sequence[Mapping[str, gather.Document]], scale: float) -> list[Curve]:
    """A line for each model: its mean and interval at each place that it has a value of."""
    lines = []
    for model in dict.fromkeys(model for place in places for model in place):
        at = [x for x, place in enumerate(places) if model in place]
        values = [places[x][model] for x in at]
        bounds = [
            (of["low"], of["high"])
            if "low" in of
            else of["over_seeds"] or of["over_items"] or (of["mean"], of["mean"])
            for of in values
        ]
        lines.append(
            Curve(
                label=gather.title_of(model),
                x=at,
                y=[scale * of["mean"] for of in values],
                low=[scale * low for low, _ in bounds],
                high=[scale * high for _, high in bounds],
            )
        )
    return lines


# Passages of the notebook and the page of results, from docs/notes/results/syntax (studies/pages.py).
PASSAGES: dict[str, Callable[..., str]] = {
    "table": score_tables.scores_table,
    "score": score_tables.score_of,
    "loss": score_tables.loss_of,
    "difference": score_tables.difference_in,
    "particles": score_tables.particles_in,
    "planned": score_tables.planned_in,
    "hours": score_tables.hours_of,
    "differences": score_tables.differences_table,
    "budgets": score_tables.budgets_table,
    "level": score_tables.level_table,
    "distractors": score_tables.distractor_table,
    "regions": score_tables.regions_table,
    "rates": score_tables.rates_table,
    "runs": score_tables.runs_table,
    "missing": score_tables.missing_list,
    "notes": score_tables.notes_list,
    "tapes": tape_tables.tape_table,
    "tapes-over-seeds": tape_tables.tapes_over_seeds,
    "gain": tape_tables.gain_in,
    "searches": search_tables.searches_table,
    "strata": tape_tables.strata_table,
}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {
        "rate": rate,
        "table": table,
        "figures": figures,
        "tapes": tapes,
    }
    try:
        commands[command](*arguments)
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
