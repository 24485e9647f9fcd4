"""The table and results of this study: python report.py table FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow.parquet as pq

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import compare, difference_of
from pdtools.evaluation.comparison.groups import Group, find_models
from pdtools.files import atomic_text, read_json, read_lines, write_json
from pdtools.files.inputs import parse_json
from pdtools.provenance import provenance
from pdtools.report.tables import listed, markdown_table
from pdtools.training import read_metrics

ARMS = {"plain": "GPT-2", "pushdown": "Pushdown-GPT2"}
# Where a noun of the other number stands, as make.py has it.
KINDS = {"before": "before the subject's head", "between": "between it and the verb", "none": "nowhere"}
# Answers that need no structure.
RULES = {"first": "answering by the first noun", "last": "by the last noun before the verb"}


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
    data = [parse_json(line, out) for _, line in read_lines(str(out / "data" / "dev.jsonl"))]
    runs = []
    for file in sorted(out.glob("results/*/*/results.json")):
        arm, _, seed = file.parent.name.rpartition("-")
        scores = read_json(file)["scores"]
        first = min(read_metrics(out / "stage1" / arm / seed, "valid"), key=lambda each: each["loss"])
        items = pq.read_table(file.parent / "items.parquet", columns=["item", "correct"]).to_pylist()
        right = by_kind(data, {int(item["item"]): item["correct"] for item in items})
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
        "rules": {
            rule: {"accuracy": mean(right), "accuracy_by_kind": by_kind(data, dict(enumerate(right)))}
            for rule in RULES
            for right in [[item[rule] == item["label"] for item in data]]
        },
        "runs": runs,
        **compared(out),
    }


def by_kind(data: Sequence[Mapping[str, Any]], right: Mapping[int, bool]) -> dict[str, float]:
    """The share of right answers, by their place in the data, of each kind of sentence."""
    return {kind: mean(right[i] for i in right if data[i]["kind"] == kind) for kind in KINDS}


def compared(out: Path) -> dict[str, Any]:
    """Both arms, seed by seed with McNemar's test, and all seeds with an interval over these."""
    arms = {
        arm: sorted(out.glob(f"results/*/{arm}-*"), key=lambda folder: int(folder.name.rpartition("-")[2]))
        for arm in ARMS
    }
    pairs = {
        folder.name.rpartition("-")[2]: difference_of(
            folder, folder.with_name(folder.name.replace("plain", "pushdown"))
        )
        for folder in arms["plain"]
    }
    groups = [
        Group(name=arm, models=tuple(model for folder in folders for model in find_models(folder)))
        for arm, folders in arms.items()
    ]
    (score,) = compare(groups).scores
    return {"by_seed": pairs, "of_all": asdict(score)}


def markdown(found: Mapping[str, Any]) -> str:
    """Means over seeds, and each seed, as table 3 has them; what stage 1 came to; both arms compared."""
    differences = [
        ["seed", "points [95%]", "right in one arm only: plain, pushdown", "McNemar's p"],
        ["---"] * 4,
    ]
    for seed, pair in found["by_seed"].items():
        points = f"{100 * (pair['b'] - pair['a']):+.1f}"
        if pair["low"] is not None:  # a few items have no interval
            points = interval(*(100 * share for share in (pair["b"] - pair["a"], pair["low"], pair["high"])))
        differences.append([seed, points, f"{pair['only_a']}, {pair['only_b']}", f"{pair['p']:.2g}"])
    (pair,) = found["of_all"]["pairs"]
    if pair["over_seeds"] is not None:
        differences.append(["mean, over seeds", interval(pair["difference"], *pair["over_seeds"]), "", ""])
    return accuracies(found) + "\n" + markdown_table(differences)


def accuracies(found: Mapping[str, Any]) -> str:
    """The first of these tables: means over seeds, and each seed."""
    titles = ["", "all", *KINDS.values(), "perplexity", "attachments"]
    rows = [titles, ["---"] * len(titles)]
    for rule, title in RULES.items():
        rates = [found["rules"][rule]["accuracy"], *found["rules"][rule]["accuracy_by_kind"].values()]
        rows.append([title, *(f"{100 * rate:.1f}" for rate in rates), "", ""])
    for arm, title in ARMS.items():
        runs = [{**run, **run["accuracy_by_kind"]} for run in found["runs"] if run["arm"] == arm]
        shares = [of_seeds(runs, key, 100) for key in ("accuracy", *KINDS)]
        heads = of_seeds(runs, "attachment_accuracy", 100)
        rows.append([title, *shares, of_seeds(runs, "ppl_given_trees"), heads])
    return markdown_table(rows)


def interval(difference: float, low: float, high: float) -> str:
    """In points."""
    return f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]"


def of_seeds(runs: list[Mapping[str, Any]], key: str, scale: float = 1) -> str:
    """The mean, and each of several."""
    values = [scale * run[key] for run in runs if run[key] is not None]
    each = f" ({', '.join(f'{value:.1f}' for value in values)})" if len(values) > 1 else ""
    return f"{mean(values):.1f}{each}" if values else ""


def found_here(found: Mapping[str, Any]) -> str:
    """Both arms, how they differ with each seed and over all, and what answers without structure come to."""
    plain, pushdown = (
        mean(100 * run["accuracy"] for run in found["runs"] if run["arm"] == arm) for arm in ARMS
    )
    differences = listed([f"{100 * (pair['b'] - pair['a']):+.1f}" for pair in found["by_seed"].values()])
    (pair,) = found["of_all"]["pairs"]
    first, last = (f"{100 * found['rules'][rule]['accuracy']:.1f}%" for rule in RULES)
    low, high = pair["over_seeds"]
    return (
        f"Pushdown-GPT-2 answers {pushdown:.1f}% of the items right and the plain GPT-2 {plain:.1f}%."
        f" The difference is {pair['difference']:+.1f} points"
        f" (95% interval over seeds {low:+.1f} to {high:+.1f}); with the single seeds it is {differences}."
        f" Chance is 50%; {RULES['first']} gives {first} and {RULES['last']} {last}."
    )


PASSAGES = {"table": markdown, "accuracies": accuracies, "found": found_here}

if __name__ == "__main__":
    try:
        table(*sys.argv[2:])
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
