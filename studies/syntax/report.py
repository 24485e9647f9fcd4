"""What the scripts of this study ask: the chosen rate; the tables, figures and results of all runs.

python report.py rate SWEEP.json | table FOLDER | figures RESULTS.json FOLDER | tapes FILE.json
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import gather
import score_tables
import search_tables
import tape_tables

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.view.charts import dots, with_rows
from pdtools.report.view.vega import save_chart


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
        places = {
            score["name"].replace("_", " "): {of["group"]: of for of in score["groups"]} for score in scores
        }
        draw_dots(folder / f"syntax-{task}-by-{level}.svg", places, value, 0.01, shares=True)
    by_suite = (found["attention"] or {"by_suite": {}})["by_suite"]
    distractors = {
        suite: by_suite[suite][region]
        for suite, region in score_tables.DISTRACTORS.items()
        if region in by_suite.get(suite, {})
    }
    value = "attention before the verb (percent)"
    for name, by_place in (("distractors", distractors), ("number-src", by_suite.get("number_src", {}))):
        draw_dots(folder / f"syntax-attention-{name}.svg", by_place, value, 100, shares=False)


def draw_dots(
    file: Path,
    places: Mapping[str, Mapping[str, gather.Document]],
    value: str,
    scale: float,
    *,
    shares: bool,
) -> None:
    """At each place the mean and interval of every model that has one, times a scale; no file for none."""
    rows = []
    for place, models in places.items():
        for model, of in models.items():
            mean = of["mean"]
            low, high = (
                (of["low"], of["high"])
                if "low" in of
                else of["over_seeds"] or of["over_items"] or (mean, mean)
            )
            ends = {"score": scale * mean, "low": scale * low, "high": scale * high}
            rows.append({"name": place, "series": gather.title_of(model), **ends})
    if rows:
        series = list(dict.fromkeys(row["series"] for row in rows))
        save_chart(file, with_rows(dots(series=series, title=value, shares=shares), rows))


# Passages of the notebook and the page of results, from docs/notes/results/syntax (studies/pages.py).
PASSAGES: dict[str, Callable[..., str]] = {
    "table": score_tables.scores_table,
    "score": score_tables.score_of,
    "loss": score_tables.loss_of,
    "difference": score_tables.difference_in,
    "points": score_tables.points_in,
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
