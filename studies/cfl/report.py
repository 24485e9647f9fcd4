"""The results of study.sh: a table beside what the paper says, figures, and everything as JSON.

Usage: report.py best FOLDER: the run of each model and language with the lowest validation difference.
       report.py table FOLDER: writes table.md, results.json and figures into it.
       report.py curves FOLDER LANGUAGE MODEL: all of its runs as far as they are, by epoch, as JSON.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.evaluation.results import read_results
from pdtools.files import STDIO, atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.stacks import draw_history
from pdtools.report.tables import listed, markdown_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart
from pdtools.training import METRICS, read_metrics, run_state

MODELS = {
    "lstm": "LSTM",
    "gref": "Gref",
    "jm": "JM",
    "ns": "NS",
    "ns-s": "NS+S",
    "ns-u": "NS+U",
    "rns": "NS+S+U (RNS)",
}
LANGUAGES = ("marked-reversal", "unmarked-reversal", "padded-reversal", "dyck", "hardest", "dyck-released")
# Figures 1 and 2 are curves without numbers. What the text (section 4) says of them: the RNS is within 0.05
# nats of the bound on every validation set; models with a stack "effectively solve" marked reversal and Dyck.
WITHIN = 0.05
PAPER_RNS = f"≤ {WITHIN}"
PERFECT = "the training strings' distribution"
TRAINED = range(40, 81)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as far as it is: validation differences (nats a symbol) by step."""

    folder: Path
    steps: tuple[int, ...]
    differences: tuple[float, ...]
    finished: str | None

    @property
    def best(self) -> float:
        """The lowest validation difference."""
        return min(self.differences)

    @property
    def tested(self) -> str:
        """What the results of its best step are called: a run that is resumed may have another one later."""
        return f"{self.folder.name}-{self.steps[self.differences.index(self.best)]}"


def runs_of(folder: Path, language: str, model: str) -> list[Run]:
    """All runs that have evaluated at least once."""
    found = []
    for run in sorted(path.parent for path in (folder / "runs" / language / model).glob(f"*/{METRICS}")):
        restart = run.name.rpartition("-")[2]
        bound = read_json(folder / "data" / language / f"bound-{restart}" / "results.json")["scores"]["bound"]
        valid = read_metrics(run, "valid")
        if valid:
            found.append(
                Run(
                    folder=run,
                    steps=tuple(record["step"] for record in valid),
                    differences=tuple(record["loss"] - bound for record in valid),
                    finished=run_state(run).finished,
                )
            )
    return found


def best_run(folder: Path, language: str, model: str) -> Run | None:
    """The finished run with the lowest validation difference."""
    finished = [run for run in runs_of(folder, language, model) if run.finished]
    return min(finished, key=lambda run: run.best, default=None)


def print_best(folder: Path) -> None:
    """A line for each model and language: both, and the names of the best run and of its results."""
    for language in LANGUAGES:
        for model in MODELS:
            run = best_run(folder, language, model)
            if run is not None:
                print(language, model, run.folder.name, run.tested)


def print_curves(folder: Path, language: str, model: str) -> None:
    """Validation differences of all runs, finished or not, after each evaluation."""
    runs = {
        run.folder.name: {
            "finished": run.finished,
            "steps": list(run.steps),
            "valid_by_step": [round(difference, 6) for difference in run.differences],
        }
        for run in runs_of(folder, language, model)
    }
    write_json(STDIO, {"scores": {language: {model: runs}}, "provenance": provenance()})


def write_report(folder: Path) -> None:
    """Read every results folder, write what there is."""
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    lines: dict[str, tuple[list[Document], list[Document]]] = {}  # language: rows of figures 1 and 2
    for language in LANGUAGES:
        training, lengths = lines.setdefault(language, ([], []))
        for model, label in MODELS.items():
            run = best_run(folder, language, model)
            if run is None:
                continue
            cell: dict[str, Any] = {
                "run": run.folder.name,
                "runs": {
                    each.folder.name: {"valid": each.best, "last_step": each.steps[-1]}
                    for each in runs_of(folder, language, model)
                    if each.finished
                },
                "valid": run.best,
                "steps": list(run.steps),
                "valid_by_step": list(run.differences),
                "seconds": run_state(run.folder).seconds,
            }
            training += line(label, zip(run.steps, run.differences, strict=True))
            results = folder / "results" / language / model / run.tested
            if results.exists():
                document, _ = read_results(results)
                by_length = {
                    int(length): each["difference"]
                    for length, each in document["scores"]["by_length"].items()
                }
                cell["test_by_length"] = by_length
                for name, wanted in (("test_trained_lengths", True), ("test_longer", False)):
                    values = [value for length, value in by_length.items() if (length in TRAINED) == wanted]
                    cell[name] = mean(values) if values else None
                lengths += line(label, by_length.items())
                perfect = perfect_by_length(by_length)
                cell["perfect"] = mean(perfect.values()) if perfect else None
            cells.setdefault(language, {})[model] = cell
    watched = {
        path.parent.name: read_json(path)
        for path in sorted((folder / "runs" / "marked-reversal").glob("*/*.actions.json"))
    }
    settings = (folder / "settings").read_text().strip()
    write_json(
        folder / "results.json",
        {"scores": cells, "actions": watched, "settings": settings, "provenance": provenance()},
    )
    table = f"{markdown(cells)}\n{settings}\n"
    with atomic_text(folder / "table.md") as stream:
        stream.write(table)
    print(table)
    nats = "cross-entropy difference (nats a symbol)"
    for language, (training, lengths) in lines.items():
        if lengths:
            first = [row["x"] for row in lengths if row["series"] == lengths[0]["series"]]
            lengths += line(PERFECT, perfect_by_length(first).items())
        if training:
            save_chart(folder / f"figure-1-{language}.svg", curves(training, x="training steps", y=nats))
            save_chart(folder / f"figure-2-{language}.svg", curves(lengths, x="tokens", y=nats))
    for model, rows in watched.items():
        for name in ("everywhere", "reached"):
            shares = [row[name] for row in rows]
            draw_history(folder / f"figure-3-{model}-{name}.svg", shares, label="epoch")


def line(label: str, points: Iterable[tuple[float, float]]) -> list[Document]:
    """A line of a figure, as rows."""
    return [{"series": label, "x": x, "y": y} for x, y in points]


def perfect_by_length(lengths: Iterable[float]) -> dict[int, float]:
    """The difference, by length, of a model that has exactly the distribution of the training strings.

    Any length of ``TRAINED`` is as probable as another; the bound by length is that given the length.
    """
    trained = [int(length) for length in lengths if length in TRAINED]
    return {length: math.log(len(trained)) / (length + 1) for length in trained}


Cells = dict[str, dict[str, dict[str, Any]]]  # language, model


def markdown(cells: Cells) -> str:
    """Two tables: validation, with what the paper says, and test by length."""
    of_cells = [cell for models in cells.values() for cell in models.values()]
    runs, epochs = ((len(cell["runs"]) for cell in of_cells), (len(cell["steps"]) for cell in of_cells))
    note = f"Runs of a cell that the best on validation was chosen of: {numbers(runs)}."
    note += f" Epochs of the best: {numbers(epochs)}."
    return "\n\n".join(
        [
            "Validation (lengths 40 to 80):",
            validation_table(cells).rstrip(),
            "Test, mean over lengths:",
            lengths_table(cells).rstrip(),
            note,
            "",
        ]
    )


def validation_table(cells: Cells, models: Iterable[str] = MODELS) -> str:
    """Differences on the validation sets, with what the paper says."""
    head = ["difference, nats", *cells]
    rows = [head, ["---"] * len(head), ["NS+S+U (RNS), paper", *[PAPER_RNS] * len(cells)]]
    for model in models:
        rows.append([MODELS[model], *(number(of.get(model, {}).get("valid")) for of in cells.values())])
    return markdown_table(rows)


def lengths_table(cells: Cells, models: Iterable[str] = MODELS) -> str:
    """Differences on the test, on lengths of training and on longer ones."""
    rows = [["40 to 80 / longer", *cells], ["---"] * (len(cells) + 1)]
    floors = [
        next((cell["perfect"] for cell in of.values() if "perfect" in cell), None) for of in cells.values()
    ]
    rows.append([PERFECT, *(f"{number(floor)} / -" for floor in floors)])
    for model in models:
        each = [of.get(model, {}) for of in cells.values()]
        names = ("test_trained_lengths", "test_longer")
        rows.append([MODELS[model], *(" / ".join(number(cell.get(name)) for name in names) for cell in each)])
    return markdown_table(rows)


def trained(cells: Cells) -> list[str]:
    """The models that there are runs of, for some language."""
    return [model for model in MODELS if any(model in of for of in cells.values())]


def numbers(values: Iterable[int]) -> str:
    """All that there are, once each."""
    return ", ".join(map(str, sorted(set(values)))) or "none"


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "-" if value is None else f"{value:.3f}"


# --- passages of the notebook and the page of results, from files of docs/notes/results/cfl -----------------

Document = dict[str, Any]


def rns_within(base: Document, longer: Document, *again: Document) -> str:
    """Of how many runs of the RNS the best epoch is within the paper's 0.05 nats, for every language.

    Args:
        base, longer: results of two studies. Runs of one name are one run, which the second resumed.
        again: results or curves of more runs; each counts as a run.
    """
    rows = [["RNS", *base["scores"]], ["---"] * (1 + len(base["scores"]))]
    rows += [["runs within 0.05 nats"], ["the best of them, nats"]]
    for language in base["scores"]:
        runs = best_by_run(base, language, "rns") | best_by_run(longer, language, "rns")
        values = [*runs.values()]
        for document in again:
            values += best_by_run(document, language, "rns").values()
        rows[2].append(f"{sum(value <= WITHIN for value in values)} of {len(values)}")
        rows[3].append(number(min(values)))
    return markdown_table(rows)


def best_by_run(document: Document, language: str, model: str) -> dict[str, float]:
    """The lowest difference of each run, in a study's results or in curves."""
    cell = document["scores"].get(language, {}).get(model, {})
    runs = cell.get("runs", cell)
    return {name: run["valid"] if "valid" in run else min(run["valid_by_step"]) for name, run in runs.items()}


def restarts_table(*documents: Document) -> str:
    """The lowest difference of every restart, from the first on, of what the last document has runs of."""
    rows = [["language", "model", "within 0.05 nats", "lowest difference of each restart"], ["---"] * 4]
    for language, cells in documents[-1]["scores"].items():
        for model in cells:
            runs: dict[str, float] = {}
            for document in documents:
                runs |= best_by_run(document, language, model)
            values = [runs[name] for name in sorted(runs, key=lambda name: int(name.rpartition("-")[2]))]
            within = f"{sum(value <= WITHIN for value in values)} of {len(values)}"
            rows.append([language, MODELS[model], within, ", ".join(map(number, values))])
    return markdown_table(rows)


def early(document: Document, epochs: str) -> str:
    """The lowest differences within so many epochs, run by run, by learning rate."""
    by_rate: dict[str, list[str]] = {}
    (runs,) = (runs for of in document["scores"].values() for runs in of.values())
    for name, run in sorted(runs.items(), key=lambda item: int(item[0].rpartition("-")[2])):
        rate = name.removeprefix("lr").rpartition("-")[0]
        by_rate.setdefault(rate, []).append(number(min(run["valid_by_step"][: int(epochs)])))
    rates = sorted(by_rate.items(), key=lambda item: -float(item[0]))
    return "learning rate " + "; ".join(f"{rate}: {', '.join(values)}" for rate, values in rates)


def sudden(document: Document, name: str) -> str:
    """When a run came below 0.05 nats."""
    (runs,) = (runs for of in document["scores"].values() for runs in of.values())
    values = runs[name]["valid_by_step"]
    epoch = next(i for i, value in enumerate(values) if value <= WITHIN)
    return (
        f"{number(values[epoch - 1])} after {epoch} epochs, at {number(values[epoch])} after {epoch + 1},"
        f" and at {number(min(values))} at best"
    )


def continued(document: Document, epochs: str) -> str:
    """The best of runs that went on after so many epochs, and never came below 0.05 nats."""
    (runs,) = (runs for of in document["scores"].values() for runs in of.values())
    longer = sorted(
        (min(run["valid_by_step"]), len(run["steps"]), run["finished"] == "patience")
        for run in runs.values()
        if len(run["steps"]) > int(epochs) and min(run["valid_by_step"]) > WITHIN
    )
    return ", ".join(
        f"{number(value)} in {steps}{' (stopped early)' if is_early else ''}"
        for value, steps, is_early in longer
    )


PASSAGES: dict[str, Callable[..., str]] = {
    "validation": lambda document: validation_table(document["scores"], trained(document["scores"])),
    "test": lambda document: lengths_table(document["scores"], trained(document["scores"])),
    "rns-within": rns_within,
    "restarts": restarts_table,
    "early": early,
    "valid": lambda document, language, model: number(document["scores"][language][model]["valid"]),
    "tested": lambda document, language, model, part: number(
        document["scores"][language][model][f"test_{part}"]
    ),
    "sudden": sudden,
    "continued": continued,
    "action": lambda document, kind: f"{document['scores'][kind]:.1%}",
    "tops": lambda document: listed([f"{max(top):.2f}" for top in document["scores"]["top"].values()]),
}


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "best": print_best,
        "table": write_report,
        "curves": print_curves,
    }
    commands[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
