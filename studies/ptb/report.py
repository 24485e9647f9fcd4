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

from pdtools.evaluation.sg.circuits import CIRCUITS as SUITES_OF
from pdtools.files import atomic_text, write_json
from pdtools.provenance import provenance
from pdtools.report.plots import Line, draw_lines
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics, run_state

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


def best(folder: str, model: str) -> str:
    """The finished run with the lowest validation loss; nothing if there is none."""
    return "\n".join(map(str, finished(folder, model)[:1]))


def all_of(folder: str, model: str) -> str:
    """The finished runs, a line each, that with the lowest validation loss first."""
    return "\n".join(map(str, finished(folder, model)))


def finished(folder: str, model: str) -> list[Path]:
    """The runs that came to their ends, by validation loss."""
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
    restarts = {model: list(tested_runs(folder, model)) for model in models(folder)}
    # Not that of another draw, where the best one was not tested.
    found = {
        model: of[0]
        for model, of in restarts.items()
        if of and of[0]["run"] == Path(best(folder, model)).name
    }
    text = markdown(found)
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    document = {"scores": found, "restarts": restarts, "provenance": provenance()}
    write_json(Path(folder, "results.json"), document)
    draw_restarts(document, folder)
    return text


def tested_runs(folder: str, model: str) -> Iterator[dict[str, Any]]:
    """Scores of the runs that were tested, by validation loss."""
    for run in finished(folder, model):
        ppl = scores(Path(folder, "results", f"{run.name}-ppl"))
        if ppl is not None:
            suites = scores(Path(folder, "results", f"{run.name}-sg")) or {}
            ours = {"ppl_valid": math.exp(min(valid_losses(run))), "ppl_test": ppl["ppl_token_marginal"]}
            yield {"run": run.name, **ours, "sg": suites}


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """The table: a row for each model, the paper's values at its end."""
    head = ["model", "valid", "test", "SG", "SG (31)", *CIRCUITS, "paper: valid", "test", "SG"]
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
            *(share(circuit(suites, name)) for name in CIRCUITS),
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
    draw_restarts(json.loads(Path(results).read_text()), folder)
    return ""


def draw_restarts(document: dict[str, Any], folder: str) -> None:
    """Figure 4, SG score by test perplexity of every draw, if more than the best ones were tested."""
    lines = [
        Line(label=model, x=[of["ppl_test"] for of in each], y=[of["sg"]["sg_33"] for of in each])
        for model, each in scored(document).items()
    ]
    if any(len(line.x) > 1 for line in lines):
        file = Path(folder, "ptb-restarts.svg")
        draw_lines(
            file, lines, x="test perplexity", y="SG score, mean of 33 suites", log_x=True, points_only=True
        )


def scored(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """By model the draws that have both scores."""
    return {
        model: [of for of in each if of["sg"].get("sg_33") is not None]
        for model, each in document["restarts"].items()
    }


def restarts_table(document: dict[str, Any]) -> str:
    """Of each model: both scores over draws, their rank correlation, SG at the lowest perplexity."""
    head = ["model", "draws", "test perplexity", "SG", "rank correlation (p)", "of the lowest perplexity: SG"]
    rows = [head, ["---"] * len(head)]
    for model, each in scored(document).items():
        ppl, sg = ([of["ppl_test"] for of in each], [of["sg"]["sg_33"] for of in each])
        rho, p = rank_correlation(ppl, sg)
        rows.append(
            [
                model,
                str(len(each)),
                f"{min(ppl):.1f} to {max(ppl):.1f}",
                f"{min(sg):.3f} to {max(sg):.3f}",
                f"{rho:+.2f} ({p:.2g})",
                f"{sg[int(np.argmin(ppl))]:.3f}",
            ]
        )
    return markdown_table(rows)


def rank_correlation(x: Sequence[float], y: Sequence[float], draws: int = 10_000) -> tuple[float, float]:
    """Spearman's, of values without ties, and its two-sided p by permutations."""
    a, b = (np.argsort(np.argsort(each)) for each in (x, y))
    rng = np.random.default_rng(0)
    found = np.corrcoef(a, b)[0, 1]
    others = np.array([np.corrcoef(a, rng.permutation(b))[0, 1] for _ in range(draws)])
    extreme = int((np.abs(others) >= abs(found) - 1e-12).sum())
    return float(found), (1 + extreme) / (1 + draws)


def tested(document: dict[str, Any]) -> str:
    """Perplexities of the test, from the lowest on, with the models' names."""
    scores = sorted((of["ppl_test"], model) for model, of in document["scores"].items())
    return ", ".join(f"{value:.1f} ({model})" for value, model in scores)


# Passages of docs/notes/studies/ptb.md, from files of docs/notes/results/ptb.
PASSAGES: dict[str, Callable[..., str]] = {
    "table": lambda document: markdown(
        {name: document["scores"][name] for name in PAPER if name in document["scores"]}
    ),
    "tested": tested,
    "restarts": restarts_table,
}


if __name__ == "__main__":
    commands = {"draw": draw, "best": best, "all": all_of, "table": table, "figures": figures}
    print(commands[sys.argv[1]](*sys.argv[2:]))
