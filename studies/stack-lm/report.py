"""The results of study.sh: a table beside the paper's, and everything as JSON.

Usage: report.py FOLDER (of study.sh). Writes table.md and results.json into it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pdtools.evaluation.results import RESULTS
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance

OBJECTIVES = {"masked": ("MLM", "ppl_token_masked"), "causal": ("ALM", "ppl_token_marginal")}
KINDS = ("vanilla", "stack")
# Table 3 of Li et al. (2024): mean and deviation over five seeds; from scratch, and with pretrained weights.
PAPER = {
    "Penn Treebank": {
        ("masked", False): ("95.53 ± 19.66", "34.28 ± 2.76"),
        ("causal", False): ("73.14 ± 0.34", "69.86 ± 0.26"),
        ("masked", True): ("3.99 ± 0.08", "4.46 ± 0.11"),
        ("causal", True): ("21.26 ± 0.03", "32.36 ± 0.16"),
    },
    "WikiText-2": {
        ("masked", False): ("73.74 ± 3.79", "64.75 ± 1.75"),
        ("causal", False): ("191.01 ± 0.71", "206.42 ± 0.80"),
        ("masked", True): ("4.41 ± 0.12", "4.65 ± 0.06"),
        ("causal", True): ("29.29 ± 0.02", "54.96 ± 0.19"),
    },
}


def read_results(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Perplexities by objective and kind, then by seed."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for path in sorted((folder / "results").glob(f"*/{RESULTS}")):
        objective, kind, seed = path.parent.name.split("-")
        found[objective, kind][seed] = read_json(path)["scores"][OBJECTIVES[objective][1]]
    return dict(found)


def cell(values: dict[str, float]) -> str:
    """Mean and deviation over seeds."""
    if not values:
        return ""
    deviation = f" ± {stdev(values.values()):.2f}" if len(values) > 1 else ""
    return f"**{mean(values.values()):.2f}**{deviation}"


def pretrained_objectives(folder: Path) -> set[str]:
    """The objectives whose models began with pretrained weights."""
    given = dict(pair.partition("=")[::2] for pair in (folder / "settings").read_text().split())
    if given["SCRATCH"] != "0":
        return set()
    return {objective for objective, name in (("masked", "ROBERTA"), ("causal", "GPT2")) if given[name]}


def table(found: dict[tuple[str, str], dict[str, float]], pretrained: set[str]) -> str:
    """Markdown: ours, and the paper's of such models on its two corpora."""
    corpora = [f"{corpus}: {kind}" for corpus in PAPER for kind in KINDS]
    lines = [
        f"| perplexity | seeds | vanilla | stack | {' | '.join(corpora)} |",
        "|---" * (4 + len(corpora)) + "|",
    ]
    for objective, (name, _) in OBJECTIVES.items():
        ours = [found.get((objective, kind), {}) for kind in KINDS]
        is_pretrained = objective in pretrained
        title = f"{name}, {'pretrained' if is_pretrained else 'from scratch'}"
        theirs = [figure for corpus in PAPER.values() for figure in corpus[objective, is_pretrained]]
        numbers = list(map(len, ours))
        seeds = numbers[0] if len(set(numbers)) == 1 else f"{numbers[0]}, {numbers[1]}"
        lines.append(f"| {title} | {seeds} | {' | '.join(map(cell, ours))} | {' | '.join(theirs)} |")
    note = (
        "Mean ± deviation over seeds. Perplexities are of a token: ours of this study's tokenizer and text,"
        " the paper's of GPT-2's or RoBERTa's and its corpora. Only vanilla and stack of one corpus can be"
        " compared."
    )
    return "\n".join([*lines, "", note]) + "\n"


def main(folder: Path) -> None:
    """Write the table and the numbers."""
    found = read_results(folder)
    text = table(found, pretrained_objectives(folder))
    with atomic_text(folder / "table.md") as stream:
        stream.write(text)
    scores: dict[str, Any] = {}
    for (objective, kind), values in found.items():
        scores.setdefault(objective, {})[kind] = values
    settings = (folder / "settings").read_text().strip()
    write_json(folder / RESULTS, {"scores": scores, "settings": settings, "provenance": provenance()})
    print(text, end="")


def published_cells(document: dict[str, Any], objective: str) -> str:
    """Two cells of the table in studies/stack-lm/README.md: large perplexities without decimals."""
    cells = []
    for kind in KINDS:
        seeds = list(document["scores"][objective][kind].values())
        digits = ",.0f" if mean(seeds) > 900 else ".1f"
        deviation = f" ± {stdev(seeds):{digits}}" if len(seeds) > 1 else ""
        cells.append(f"**{mean(seeds):{digits}}**{deviation}")
    return " | ".join(cells)


# Passages of studies/stack-lm/README.md, from files of docs/notes/results/stack-lm.
PASSAGES: dict[str, Callable[..., str]] = {"cells": published_cells}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
