"""The table and results of this study: python report.py table FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow.parquet as pq

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_text, read_json, read_lines, write_json
from pdtools.files.json_input import parse_json
from pdtools.provenance import provenance
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics

ARMS = {"plain": "GPT-2", "pushdown": "Pushdown-GPT2"}


def table(folder: str) -> None:
    """Write results.json and table.md, and print it."""
    found = collected(Path(folder))
    text = markdown(found)
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    print(text, end="")


def collected(out: Path) -> dict[str, Any]:
    """The settings, and of every run its losses as a language model and its answers."""
    kinds = [parse_json(line, out)["kind"] for _, line in read_lines(str(out / "data" / "dev.jsonl"))]
    runs = []
    for file in sorted(out.glob("results/*/*/results.json")):
        arm, _, seed = file.parent.name.rpartition("-")
        scores = read_json(file)["scores"]
        first = min(read_metrics(out / "stage1" / arm / seed, "valid"), key=lambda each: each["loss"])
        items = pq.read_table(file.parent / "items.parquet", columns=["item", "correct"]).to_pylist()
        right = {
            kind: mean(item["correct"] for item in items if kinds[int(item["item"])] == kind) for kind in KINDS
        }
        runs.append(
            {
                "arm": arm,
                "seed": int(seed),
                "task": file.parts[-3],
                "accuracy": scores["accuracy"],
                "interval": scores["intervals"]["accuracy"],
                "accuracy_by_kind": right,
                "items": len(items),
                "ppl_given_trees": first["ppl_token_given_trees"],
                "ppl_joint": first["ppl_token_joint"],
                "attachment_accuracy": first["attachment_accuracy"],
            }
        )
    return {
        "settings": (out / "settings").read_text().strip(),
        "gpt2": read_json(out / "gpt2" / "made.json"),
        "runs": runs,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Means over seeds, and each seed, as table 3 has them; and what stage 1 came to."""
    rows = [["", "all", "another number near", "the subject near", "perplexity", "attachments"], ["---"] * 6]
    for arm, title in ARMS.items():
        runs = [run for run in found["runs"] if run["arm"] == arm]
        if runs:
            cells = [of_seeds(runs, key, 100) for key in ("accuracy", "accuracy_across", "accuracy_near")]
            rows.append(
                [title, *cells, of_seeds(runs, "ppl_given_trees"), of_seeds(runs, "attachment_accuracy", 100)]
            )
    return markdown_table(rows)


def of_seeds(runs: list[Mapping[str, Any]], key: str, scale: float = 1) -> str:
    """The mean, and each of several."""
    values = [scale * run[key] for run in runs if run[key] is not None]
    each = f" ({', '.join(f'{value:.1f}' for value in values)})" if len(values) > 1 else ""
    return f"{mean(values):.1f}{each}" if values else ""


def found_here(found: Mapping[str, Any]) -> str:
    """One sentence: both arms, and how they differ with each seed."""
    right = {
        arm: {run["seed"]: 100 * run["accuracy"] for run in found["runs"] if run["arm"] == arm}
        for arm in ARMS
    }
    plain, pushdown = right.values()
    seeds = sorted(plain.keys() & pushdown.keys())
    differences = [pushdown[seed] - plain[seed] for seed in seeds]
    signs = {difference > 0 for difference in differences}
    says = "the same sign with every seed" if len(signs) == 1 else "of both signs"
    return (
        f"Pushdown-GPT-2 answers {mean(pushdown.values()):.1f}% of the items right, the plain GPT-2"
        f" {mean(plain.values()):.1f}%; by seeds the differences are"
        f" {', '.join(f'{difference:+.1f}' for difference in differences)} points: {says}. Chance is 50%."
    )


PASSAGES = {"table": markdown, "found": found_here}

if __name__ == "__main__":
    try:
        table(*sys.argv[2:])
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
