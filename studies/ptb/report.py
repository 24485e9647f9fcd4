"""What the scripts of this study ask: the draws, the runs of a model, the table and figure 4.

python report.py draw SHARDS NUMBER | best FOLDER MODEL | all FOLDER MODEL | table FOLDER |
    figures RESULTS.json FOLDER
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.evaluation.sg.record import CIRCUITS as SUITES_OF
from pdtools.files import atomic_text, write_json
from pdtools.provenance import provenance
from pdtools.report.tables import markdown_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart
from pdtools.training import read_metrics, run_state

Restarts = dict[str, list[dict[str, Any]]]  # scores of the draws of each model

STREAMS, LENGTH = 32, 35  # of configs/ptb-rnn.toml
CIRCUITS = (
    "Agreement",
    "Licensing",
    "Garden-Path Effects",
    "Gross Syntactic State",
    "Center Embedding",
    "Long-Distance Dependencies",
)
# Validation and test perplexity, SG score: table 1.
PAPER = {
    "lstm": (125.78, 120.95, 0.433),
    "jm-hidden": (121.24, 115.35, 0.387),
    "jm-learned": (122.87, 117.93, 0.431),
    "ns-1-2": (126.10, 122.62, 0.414),
    "ns-1-11": (129.11, 124.98, 0.431),
    "ns-3-4": (126.71, 122.53, 0.447),
    "rns-1-2": (122.64, 117.56, 0.435),
    "rns-1-11": (127.21, 121.84, 0.386),
    "rns-3-4": (122.67, 118.09, 0.408),
}


def draw(shards: str, number: str) -> str:
    """Learning rate, clipping threshold (log-uniform, as in appendix D), and the steps of an epoch.

    Both are for the mean loss of a step's tokens, by whose number the paper's thresholds are multiplied.
    """
    rng = random.Random(int(number))
    rate, clip = 10 ** rng.uniform(0, 2), 10 ** rng.uniform(-5, -3) * STREAMS * LENGTH
    manifest = json.loads(Path(shards, "train", "manifest.json").read_text())
    # Ends of sentences are in the text: among the tokens of blocks, besides those of sentences.
    is_block = manifest["settings"]["layout"] == "block"
    tokens = manifest["counts"]["tokens"] + (0 if is_block else manifest["counts"]["sentences"])
    epoch = math.ceil(math.ceil(tokens / STREAMS) / LENGTH)
    return f"{rate:.4g} {clip:.4g} {epoch}"


def best(folder: str, model: str) -> list[Path]:
    """The finished run with the lowest validation loss; nothing if there is none."""
    return finished(folder, model)[:1]


def finished(folder: str, model: str) -> list[Path]:
    """The runs that came to their ends, the one with the lowest validation loss first."""
    found = [(min(valid_losses(run)), run) for run in runs(folder, model) if is_finished(run)]
    return [run for _, run in sorted(found)]


def models(folder: str) -> list[str]:
    """What there are runs of: those of the paper's table, in its order, then others."""
    there = {path.name.rpartition("-")[0] for path in Path(folder, "runs").iterdir()}
    return [*(name for name in PAPER if name in there), *sorted(there - PAPER.keys())]


def runs(folder: str, model: str) -> list[Path]:
    """All draws of a model."""
    return [path for path in Path(folder, "runs").glob(f"{model}-*") if path.name[len(model) + 1 :].isdigit()]


def is_finished(run: Path) -> bool:
    """Whether it came to its end."""
    return run_state(run).finished is not None


def valid_losses(run: Path) -> list[float]:
    """Nats a token, of every evaluation."""
    return [record["loss"] for record in read_metrics(run, "valid")]


def table(folder: str) -> str:
    """The table, of the best draws, in Markdown and in table.md; results.json has every draw's scores."""
    found: dict[str, dict[str, Any]] = {}
    restarts: Restarts = {}
    for model in models(folder):
        draws = list(tested_runs(folder, model))
        names = [of["run"] for of in draws]
        if names and [run.name for run in best(folder, model)] == names[:1]:
            found[model] = draws[0]
        # Figure 4 is of all draws: some that were the best once are no sample of them.
        if len(draws) > 2 and names == [run.name for run in finished(folder, model)]:
            restarts[model] = draws
    text = markdown(found)
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    write_json(
        Path(folder, "results.json"), {"scores": found, "restarts": restarts, "provenance": provenance()}
    )
    draw_restarts(restarts, folder)
    return text


def tested_runs(folder: str, model: str) -> Iterator[dict[str, Any]]:
    """Scores of the runs that were tested, by validation loss."""
    for run in finished(folder, model):
        ppl = scores(Path(folder, "results", f"{run.name}-ppl"))
        if ppl is not None:
            suites = scores(Path(folder, "results", f"{run.name}-sg")) or {}
            ours = {"ppl_valid": math.exp(min(valid_losses(run))), "ppl_test": ppl["ppl_token_marginal"]}
            yield {"run": run.name, **ours, "sg": suites}


def markdown(found: dict[str, dict[str, Any]], circuits: Sequence[str] = CIRCUITS) -> str:
    """The table: a row for each model, the paper's values at its end."""
    head = ["model", "valid", "test", "SG", "SG (31)", *circuits, "paper: valid", "test", "SG"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for model, ours in found.items():
        suites = ours["sg"]
        valid, test, sg = PAPER.get(model, (None, None, None))
        cells = [
            model,
            perplexity(ours["ppl_valid"]),
            perplexity(ours["ppl_test"]),
            share(suites.get("sg_33")),
            share(suites.get("sg_31")),
            *(share(circuit(suites, name)) for name in circuits),
            perplexity(valid),
            perplexity(test),
            share(sg),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def circuit(suites: dict[str, Any], name: str) -> float | None:
    """The mean over all suites of a circuit, if all are there.

    The paper's long-distance dependencies are eight suites, two more than ``sg_31`` and ``by_circuit`` have.
    """
    found = [suites.get("by_suite", {}).get(suite) for suite in SUITES_OF[name]]
    return None if None in found else mean(found)


def perplexity(value: float | None) -> str:
    """Two decimals, or nothing: the paper has no such model."""
    return "" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """A score from 0 to 1, or nothing: not all suites were there, or the paper has no such model."""
    return "" if value is None else f"{value:.3f}"


def scores(results: Path) -> dict[str, Any] | None:
    """What an evaluation found, if there was one."""
    file = results / "results.json"
    return json.loads(file.read_text())["scores"] if file.exists() else None


def figures(results: str, folder: str) -> str:
    """Draw figure 4 of a results file again."""
    draw_restarts(json.loads(Path(results).read_text()).get("restarts", {}), folder)
    return ""


def draw_restarts(restarts: Restarts, folder: str) -> None:
    """Figure 4: SG score by test perplexity of every draw, if all were tested."""
    rows = [
        {"series": model, "x": x, "y": y}
        for model, ppl, sg in points(restarts)
        for x, y in zip(ppl, sg, strict=True)
    ]
    if rows:
        y = "SG score, mean of 33 suites"
        chart = curves(rows, x="test perplexity", y=y, log_x=True, joined=False)
        save_chart(Path(folder, "ptb-restarts.svg"), chart)


def points(restarts: Restarts) -> Iterator[tuple[str, list[float], list[float]]]:
    """Of each model whose draws have both: test perplexities, SG scores, of the best by validation first."""
    for model, draws in restarts.items():
        scores = [(of["ppl_test"], of["sg"].get("sg_33")) for of in draws]
        if all(sg is not None for _, sg in scores):
            yield model, [ppl for ppl, _ in scores], [sg for _, sg in scores]


def restarts_table(document: dict[str, Any]) -> str:
    """Both scores over all draws, with their rank correlation; its p is not corrected for several models."""
    head = [
        "model",
        "draws",
        "test perplexity",
        "SG",
        "of the draw that validation chooses",
        "rank correlation (p)",
    ]
    rows = [head, ["---"] * len(head)]
    for model, ppl, sg in points(document["restarts"]):
        rho, p = rank_correlation(ppl, sg)
        ranges = [f"{min(ppl):.1f} to {max(ppl):.1f}", f"{min(sg):.3f} to {max(sg):.3f}"]
        rows.append([model, str(len(sg)), *ranges, f"{ppl[0]:.1f}, {sg[0]:.3f}", f"{rho:+.2f} ({p:.2g})"])
    return markdown_table(rows)


def rank_correlation(x: Sequence[float], y: Sequence[float], draws: int = 10_000) -> tuple[float, float]:
    """Spearman's, and its two-sided p by permutations; 0 and 1 where all of x, or of y, are equal."""
    a, b = (np.array([ranks(each)]) for each in (x, y))
    a, b = a - a.mean(), b - b.mean()
    if not (a.any() and b.any()):
        return 0.0, 1.0
    orders = np.random.default_rng(0).permuted(np.repeat(b, draws, 0), axis=1)  # (draws, n)
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    found, others = float((a * b).sum() / scale), (a * orders).sum(1) / scale
    return found, (1 + int((np.abs(others) >= abs(found) - 1e-9).sum())) / (1 + draws)


def ranks(values: Sequence[float]) -> list[float]:
    """From 0; those of equal values are their mean."""
    return [(sum(v < value for v in values) + sum(v <= value for v in values) - 1) / 2 for value in values]


def tested(document: dict[str, Any]) -> str:
    """Perplexities of the test, from the lowest on, with the models' names."""
    scores = sorted((of["ppl_test"], model) for model, of in document["scores"].items())
    return ", ".join(f"{value:.1f} ({model})" for value, model in scores)


def published(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The scores of results, of the paper's models and in its order."""
    return {name: document["scores"][name] for name in PAPER if name in document["scores"]}


# Passages of the notebook and the page of results, from files of docs/notes/results/ptb.
PASSAGES: dict[str, Callable[..., str]] = {
    "table": lambda document: markdown(published(document)),
    "short": lambda document: markdown(published(document), circuits=()),
    "tested": tested,
    "restarts": restarts_table,
}


def lines(runs: Sequence[Path]) -> str:
    """Each on a line of its own."""
    return "".join(f"{run}\n" for run in runs)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., str]] = {
        "draw": lambda *given: f"{draw(*given)}\n",
        "best": lambda *given: lines(best(*given)),
        "all": lambda *given: lines(finished(*given)),
        "table": table,
        "figures": figures,
    }
    try:
        print(commands[command](*arguments), end="")
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
