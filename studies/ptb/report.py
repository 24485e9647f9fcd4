"""What the scripts of this study ask: the draws, the best run of a model, the table.

python report.py draw SHARDS NUMBER | best FOLDER MODEL | table FOLDER
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.evaluation.sg.circuits import CIRCUITS as SUITES_OF
from pdtools.files import atomic_text, write_json
from pdtools.provenance import provenance
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
    found = [(min(valid_losses(run)), str(run)) for run in runs(folder, model) if is_finished(run)]
    return min(found)[1] if found else ""


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
    """The table in Markdown; it is also written to table.md, and what it is made of to results.json."""
    found = {}
    for model in models(folder):
        chosen = Path(best(folder, model))
        ppl = scores(Path(folder, "results", f"{chosen.name}-ppl"))
        if ppl is None:
            continue
        suites = scores(Path(folder, "results", f"{chosen.name}-sg")) or {}
        ours = {"ppl_valid": math.exp(min(valid_losses(chosen))), "ppl_test": ppl["ppl_token_marginal"]}
        found[model] = {"run": chosen.name, **ours, "sg": suites}
    text = markdown(found)
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    write_json(Path(folder, "results.json"), {"scores": found, "provenance": provenance()})
    return text


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
}


if __name__ == "__main__":
    print({"draw": draw, "best": best, "table": table}[sys.argv[1]](*sys.argv[2:]))
