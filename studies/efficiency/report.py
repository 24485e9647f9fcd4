"""What the scripts of this study ask: nested subsets of documents, and the table and figures of the results.

python report.py documents TREES FOLDER SHARE… | table FOLDER
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import difference_of
from pdtools.files import atomic_directory, atomic_text, read_json, write_json
from pdtools.files.kinds import expand_inputs
from pdtools.parsers.pipeline import SUFFIXES
from pdtools.provenance import provenance
from pdtools.report.tables import markdown_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart
from pdtools.training import read_metrics

MODELS = {"base": "base LM", "pushdown": "Pushdown LM"}
HELD_OUT = Fraction(1, 20)
# Where each score is in results.json; SG by each convention.
SCORES = {
    "sg_31": ("sg", "SG, mean of 31 suites"),
    "sg_33": ("sg", "SG, mean of 33 suites"),
    "mean_of_circuits": ("sg", "SG, mean of circuits"),
    "mean_of_items": ("sg", "SG, mean of items"),
    "overall": ("blimp", "BLiMP, mean of paradigms"),
}


def documents(trees: str, folder: str, *shares: str) -> None:
    """Link the documents of every subset into a folder of its own, and those of validation (``valid``).

    The order is that of hashes of their paths, the same on every machine. Validation has the first documents
    that reach a twentieth of all bytes, a subset the first of the others that reach its share: a document
    that would go further beyond it than the subset is short of it is left to the larger subsets.
    """
    root = Path(trees)
    names = [Path(file).relative_to(root) for file in expand_inputs([trees], SUFFIXES["treebank"])]
    names.sort(key=lambda name: hashlib.sha256(name.as_posix().encode()).digest())
    sizes = {name: (root / name).stat().st_size for name in names}
    held_out = taken(names, sizes, HELD_OUT)
    rest = [name for name in names if name not in held_out]
    smaller: list[Path] = []
    subsets = {"valid": held_out}
    for share in sorted(shares, key=Fraction):
        # Nested: what smaller subsets have comes first.
        rest.sort(key=lambda name: name not in smaller)
        smaller = subsets[share.replace("/", "-")] = taken(rest, sizes, Fraction(share))
    for subset, members in subsets.items():
        target = Path(folder, subset)
        if target.exists():
            continue
        with atomic_directory(target) as temporary:
            for number, name in enumerate(members):
                link = temporary / f"{number:07}-{'-'.join(name.parts)}"
                link.symlink_to(os.path.abspath(root / name))


def taken(names: Sequence[Path], sizes: Mapping[Path, int], share: Fraction) -> list[Path]:
    """The documents, in order, that come closest to a share of the bytes of all."""
    wanted = share * sum(sizes[name] for name in names)
    chosen: list[Path] = []
    size = 0
    for name in names:
        if abs(size + sizes[name] - wanted) <= abs(size - wanted):
            chosen.append(name)
            size += sizes[name]
    return chosen


def table(folder: str) -> None:
    """Write table.md, results.json and a figure for each score."""
    found = collected(Path(folder))
    text = markdown(found)
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    print(text, end="")
    for score, (_, title) in SCORES.items():
        if rows := list(figure_rows(found["runs"], score)):
            file = Path(folder, f"by-tokens-{score.replace('_', '-')}.svg")
            save_chart(file, curves(rows, x="training tokens", y=f"{title} (percent)", log_x=True))


def collected(folder: Path) -> dict[str, Any]:
    """The settings; every run that was tested, with its tokens, losses and scores; both models compared."""
    runs = list(map(run_of, sorted(folder.glob("results/*"))))
    runs.sort(key=lambda run: (list(MODELS).index(run["model"]), run["tokens"], run["seed"]))
    differences = []
    for run in runs:
        for task in dict.fromkeys(task for task, _ in SCORES.values()):
            a, b = (folder / "results" / f"{model}-{run['share']}-{run['seed']}" / task for model in MODELS)
            if run["model"] == "pushdown" and all(Path(each, "results.json").exists() for each in (a, b)):
                of_pair = {"task": task, "share": run["share"], "seed": run["seed"]}
                differences.append({**of_pair, **difference_of(a, b)})
    return {"settings": (folder / "settings").read_text().strip(), "runs": runs, "differences": differences}


def run_of(results: Path) -> dict[str, Any]:
    """What a run was trained on, how far, and what it scores."""
    model, _, rest = results.name.partition("-")
    share, _, seed = rest.rpartition("-")
    out = results.parent.parent
    counts = read_json(out / "shards" / share / "manifest.json")["counts"]
    valid = min(read_metrics(out / "runs" / results.name, "valid"), key=lambda record: record["loss"])
    last = read_metrics(out / "runs" / results.name, "train")[-1]
    scores = {}
    for score, (task, _) in SCORES.items():
        file = results / task / "results.json"
        if file.exists():
            scores[score] = read_json(file)["scores"][score]
    return {
        "model": model,
        "share": share,
        "seed": int(seed),
        "documents": counts["documents"],
        "words": counts["words"],
        "tokens": counts["tokens"],
        "steps": last["step"],
        "tokens_read": last["tokens"],
        "best_step": valid["step"],
        "ppl_given_trees": valid["ppl_token_given_trees"],
        "ppl_joint": valid["ppl_token_joint"],
        "attachment_accuracy": valid["attachment_accuracy"],
        "scores": scores,
    }


def grouped(runs: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The seeds of each model and subset."""
    groups = defaultdict(list)
    for run in runs:
        groups[run["model"], run["share"]].append(run)
    return groups


def markdown(found: Mapping[str, Any]) -> str:
    """The table of means over seeds (each seed), and that of the differences."""
    shown = [score for score in SCORES if any(run["scores"].get(score) is not None for run in found["runs"])]
    head = ["model", "tokens", "documents", "best step", "perplexity given trees", "joint"]
    rows = [[*head, *(SCORES[score][1] for score in shown)], ["---"] * (len(head) + len(shown))]
    for (model, _), runs in grouped(found["runs"]).items():
        first = runs[0]
        steps = ", ".join(str(run["best_step"]) for run in runs)
        cells = [MODELS[model], f"{first['tokens']:,}", str(first["documents"]), steps]
        cells += [of_seeds([run[key] for run in runs]) for key in ("ppl_given_trees", "ppl_joint")]
        rows.append(cells + [of_seeds([run["scores"].get(score) for run in runs], 100) for score in shown])
    differences = [["Pushdown LM - base LM", "share", "seed", "points [95%]", "McNemar's p"], ["---"] * 5]
    for each in found["differences"]:
        interval = f"{100 * (each['b'] - each['a']):+.1f}"
        if each["low"] is not None:  # a few items have no interval
            interval += f" [{100 * each['low']:+.1f}, {100 * each['high']:+.1f}]"
        task = {"sg": "SG", "blimp": "BLiMP"}[each["task"]]
        differences.append(
            [task, each["share"].replace("-", "/"), str(each["seed"]), interval, f"{each['p']:.2g}"]
        )
    return f"{markdown_table(rows)}\n{markdown_table(differences)}"


def short_table(found: Mapping[str, Any]) -> str:
    """SG and BLiMP alone: means over seeds (each seed)."""
    shown = ("sg_31", "overall")
    rows = [["model", "tokens", *(f"{SCORES[score][1]} (%)" for score in shown)], ["---"] * (2 + len(shown))]
    for (model, _), runs in grouped(found["runs"]).items():
        cells = [of_seeds([run["scores"].get(score) for run in runs], 100) for score in shown]
        rows.append([MODELS[model], f"{runs[0]['tokens']:,}", *cells])
    return markdown_table(rows)


def of_seeds(values: Sequence[float | None], scale: float = 1) -> str:
    """The mean, and each of several."""
    there = [scale * value for value in values if value is not None]
    if not there:
        return ""
    each = f" ({', '.join(f'{value:.1f}' for value in there)})" if len(there) > 1 else ""
    return f"{mean(there):.1f}{each}"


def figure_rows(runs: Sequence[Mapping[str, Any]], score: str) -> Iterator[dict[str, Any]]:
    """A line for each model: means over seeds by the tokens of the subset, with the range of the seeds."""
    for model, label in MODELS.items():
        points = {
            group[0]["tokens"]: [
                100 * run["scores"][score] for run in group if run["scores"].get(score) is not None
            ]
            for (name, _), group in grouped(runs).items()
            if name == model
        }
        for x, values in sorted(points.items()):
            if values:
                yield {"series": label, "x": x, "y": mean(values), "low": min(values), "high": max(values)}


PASSAGES = {"table": markdown, "short": short_table}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    try:
        documents(*arguments) if command == "documents" else table(*arguments)
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
