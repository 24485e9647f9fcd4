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
from pdtools.report.plots import Line, draw_lines
from pdtools.report.stack_runs import draw_history
from pdtools.report.tables import markdown_table
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
PAPER_RNS = "≤ 0.05"
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
        """What the results of its best step are called: a run that goes on may have another one later."""
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
    lines: dict[str, tuple[list[Line], list[Line]]] = {}  # language, figures 1 and 2
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
            training.append(Line(label=label, x=run.steps, y=run.differences))
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
                lengths.append(Line(label=label, x=list(by_length), y=list(by_length.values())))
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
            perfect = perfect_by_length(lengths[0].x)
            lengths.append(Line(label=PERFECT, x=list(perfect), y=list(perfect.values())))
        if training:
            draw_lines(folder / f"figure-1-{language}.svg", training, x="training steps", y=nats)
            draw_lines(folder / f"figure-2-{language}.svg", lengths, x="tokens", y=nats)
    for model, rows in watched.items():
        for name in ("everywhere", "reached"):
            shares = [row[name] for row in rows]
            draw_history(folder / f"figure-3-{model}-{name}.svg", shares, label="epoch")


def perfect_by_length(lengths: Iterable[float]) -> dict[int, float]:
    """The difference, by length, of a model that has exactly the distribution of the training strings.

    Any length of ``TRAINED`` is as probable as another; the bound by length is that given the length.
    """
    trained = [int(length) for length in lengths if length in TRAINED]
    return {length: math.log(len(trained)) / (length + 1) for length in trained}


def markdown(cells: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Two tables: validation, with what the paper says, and test by length."""
    languages = [language for language in LANGUAGES if language in cells]
    head = ["difference, nats", *languages]
    valid = [head, ["---"] * len(head), ["NS+S+U (RNS), paper", *[PAPER_RNS] * len(languages)]]
    test = [["40 to 80 / longer", *languages], ["---"] * len(head)]
    floors = [
        next((cell["perfect"] for cell in cells[language].values() if "perfect" in cell), None)
        for language in languages
    ]
    test.append([PERFECT, *(f"{number(floor)} / -" for floor in floors)])
    for model, label in MODELS.items():
        each = [cells[language].get(model, {}) for language in languages]
        valid.append([label, *(number(cell.get("valid")) for cell in each)])
        pairs = [
            [number(cell.get(name)) for name in ("test_trained_lengths", "test_longer")] for cell in each
        ]
        test.append([label, *(" / ".join(pair) for pair in pairs)])
    of_cells = [cell for models in cells.values() for cell in models.values()]
    runs, epochs = ((len(cell["runs"]) for cell in of_cells), (len(cell["steps"]) for cell in of_cells))
    note = f"Runs of a cell that the best on validation was chosen of: {numbers(runs)}."
    note += f" Epochs of the best: {numbers(epochs)}."
    return "\n\n".join(
        [
            "Validation (lengths 40 to 80):",
            markdown_table(valid).rstrip(),
            "Test, mean over lengths:",
            markdown_table(test).rstrip(),
            note,
            "",
        ]
    )


def numbers(values: Iterable[int]) -> str:
    """All that there are, once each."""
    return ", ".join(map(str, sorted(set(values)))) or "none"


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "best": print_best,
        "table": write_report,
        "curves": print_curves,
    }
    commands[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
