"""What the scripts of this study ask: the draws, the best run of a model, the table.

python report.py draw SHARDS NUMBER | best FOLDER MODEL | table FOLDER
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

STREAMS, LENGTH = 32, 35  # of configs/ptb-rnn.toml
CIRCUITS = (
    "Agreement",
    "Licensing",
    "Garden-Path Effects",
    "Gross Syntactic State",
    "Center Embedding",
    "Long-Distance Dependencies",
)
# Parameters, validation and test perplexity, SG score: tables 1 and 3.
PAPER = {
    "lstm": (5_656_336, 125.78, 120.95, 0.433),
    "jm-hidden": (5_684_828, 121.24, 115.35, 0.387),
    "jm-learned": (5_685_289, 122.87, 117.93, 0.431),
    "ns-1-2": (5_660_954, 126.10, 122.62, 0.414),
    "ns-1-11": (5_732_621, 129.11, 124.98, 0.431),
    "ns-3-4": (5_743_700, 126.71, 122.53, 0.447),
    "rns-1-2": (5_660_954, 122.64, 117.56, 0.435),
    "rns-1-11": (5_732_621, 127.21, 121.84, 0.386),
    "rns-3-4": (5_751_892, 122.67, 118.09, 0.408),
}


def draw(shards: str, number: str) -> str:
    """Learning rate, clipping threshold (log-uniform, as in appendix D), and the steps of an epoch."""
    rng = random.Random(int(number))
    rate, clip = 10 ** rng.uniform(0, 2), 10 ** rng.uniform(-5, -3)
    manifest = json.loads(Path(shards, "train", "manifest.json").read_text())
    # Of a row, ROOT is not in the text; end-of-sentence is.
    tokens = manifest["counts"]["tokens"] + manifest["counts"]["sentences"]
    epoch = math.ceil(math.ceil(tokens / STREAMS) / LENGTH)
    return f"{rate:.4g} {clip:.4g} {epoch}"


def best(folder: str, model: str) -> str:
    """The run with the lowest validation loss; nothing if there is none."""
    found = [(losses[0], str(run)) for run in runs(folder, model) if (losses := sorted(valid_losses(run)))]
    return min(found)[1] if found else ""


def runs(folder: str, model: str) -> list[Path]:
    """All draws of a model."""
    return [path for path in Path(folder, "runs").glob(f"{model}-*") if path.name[len(model) + 1 :].isdigit()]


def valid_losses(run: Path) -> list[float]:
    """Nats a token, of every evaluation."""
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [entry["loss"] for entry in map(json.loads, lines) if entry["kind"] == "valid"]


def table(folder: str) -> str:
    """The table in Markdown; it is also written to table.md."""
    head = ["model", "valid", "test", "SG", *CIRCUITS, "paper: valid", "test", "SG"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for model, (_, valid, test, sg) in PAPER.items():
        chosen = best(folder, model)
        ppl = scores(Path(folder, "results", f"{model}-ppl"))
        if not chosen or ppl is None:
            continue
        suites = scores(Path(folder, "results", f"{model}-sg")) or {"sg_31": None, "by_circuit": {}}
        circuits = [share(suites["by_circuit"].get(name)) for name in CIRCUITS]
        cells = [
            model,
            f"{math.exp(min(valid_losses(Path(chosen)))):.2f}",
            f"{ppl['ppl_token_marginal']:.2f}",
            share(suites["sg_31"]),
            *circuits,
            f"{valid:.2f}",
            f"{test:.2f}",
            f"{sg:.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    Path(folder, "table.md").write_text(text)
    return text


def share(value: float | None) -> str:
    """A score from 0 to 1, or nothing: not all suites were there."""
    return "" if value is None else f"{value:.3f}"


def scores(results: Path) -> dict[str, Any] | None:
    """What an evaluation found, if there was one."""
    file = results / "results.json"
    return json.loads(file.read_text())["scores"] if file.exists() else None


if __name__ == "__main__":
    print({"draw": draw, "best": best, "table": table}[sys.argv[1]](*sys.argv[2:]))
