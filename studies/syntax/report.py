"""What the scripts of this study ask: the chosen rate, and the table of the results.

python report.py rate SWEEP.json | table FOLDER
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics

MODELS = {
    "base": "base LM",
    "base-head": "base LM + attachment loss",
    "pushdown": "Pushdown LM",
    "plm": "PLM",
    "plm-mask": "PLM-mask",
    "tg": "Transformer Grammar",
    "treereg": "base LM + TreeReg",
    "scaffold": "ScLM-next",
}
# Where each score is: the evaluation, its name there, the title, what it is multiplied by.
SCORES = {
    "sg": ("sg", "sg_31", "SG, 31 suites (%)", 100),
    "blimp": ("blimp", "overall", "BLiMP (%)", 100),
    "given": ("ppl", "ppl_word_given_trees", "perplexity per word, given trees", 1),
    "joint": ("ppl", "ppl_word_joint", "joint", 1),
    "marginal": ("ppl", "ppl_word_marginal", "marginal, at most", 1),
    "f1": ("parse", "f1", "unlabeled F1, binarized (%)", 1),
}


def rate(file: str) -> None:
    """Print the learning rate with the lowest validation loss; a run's name is its rate."""
    print(read_json(Path(file))[0]["name"])


def table(folder: str) -> None:
    """Write table.md and results.json."""
    found = collected(Path(folder))
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(markdown(found))
    print(markdown(found), end="")


def collected(folder: Path) -> dict[str, Any]:
    """The settings, and every run that was tested, with what it was trained on and its scores."""
    runs = [run_of(folder, results) for results in sorted(folder.glob("results/*-*"))]
    runs.sort(key=lambda run: (list(MODELS).index(run["model"]), run["seed"]))
    counts = read_json(folder / "shards" / "train" / "manifest.json")["counts"]
    return {
        "settings": (folder / "settings").read_text().strip(),
        "words": counts["words"],
        "sentences": counts["sentences"],
        "runs": runs,
    }


def run_of(folder: Path, results: Path) -> dict[str, Any]:
    """What a run was trained on, how far, and what it scores."""
    model, _, seed = results.name.rpartition("-")
    run = folder / "runs" / results.name
    last = read_metrics(run, "train")[-1]
    valid = min(read_metrics(run, "valid"), key=lambda record: record["loss"])
    scores = {}
    for score, (task, name, _, _) in SCORES.items():
        file = results / task / "results.json"
        if file.exists():
            scores[score] = read_json(file)["scores"].get(name)
    return {
        "model": model,
        "seed": int(seed),
        "rate": (folder / "rates" / model).read_text().strip(),
        "steps": last["step"],
        "tokens_read": last["tokens"],
        "best_step": valid["step"],
        "valid_loss": valid["loss"],
        "scores": scores,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Means over seeds, with the deviation where there are several."""
    shown = [score for score in SCORES if any(run["scores"].get(score) is not None for run in found["runs"])]
    titles = ["model", "seeds", "rate", *(SCORES[score][2] for score in shown)]
    rows = [titles, ["---"] * len(titles)]
    groups = defaultdict(list)
    for run in found["runs"]:
        groups[run["model"]].append(run)
    for model, runs in groups.items():
        cells = [MODELS[model], str(len(runs)), runs[0]["rate"]]
        rows.append(cells + [over_seeds([run["scores"].get(s) for run in runs], SCORES[s][3]) for s in shown])
    return markdown_table(rows)


def over_seeds(values: Sequence[float | None], scale: float) -> str:
    """The mean ± the deviation."""
    there = [scale * value for value in values if value is not None]
    if not there:
        return ""
    return f"{mean(there):.1f}" + (f" ± {stdev(there):.1f}" if len(there) > 1 else "")


PASSAGES = {"table": markdown}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    try:
        {"rate": rate, "table": table}[command](*arguments)
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
