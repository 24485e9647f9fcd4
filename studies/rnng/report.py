"""The results of this study in one document, and its tables.

python report.py rate FOLDER      the learning rate of RNNG with the lowest validation loss
python report.py gather FOLDER    scores of all runs, as in docs/notes/results/rnng/scores.json
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.results import RESULTS
from pdtools.files import read_json
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics

MODELS = {"base": "base LM", "pushdown": "Pushdown LM", "tg": "TG", "rnng": "RNNG"}
# Of each measure its heading, the evaluation and where its results have it, scale and decimals.
MEASURES: Mapping[str, tuple[str, str, tuple[str, ...], float, int]] = {
    "perplexity": ("perplexity", "ppl", ("ppl_word_marginal",), 1, 1),
    "given": ("given trees", "ppl", ("ppl_word_given_trees",), 1, 1),
    "sg": ("SG (%)", "sg", ("sg_31",), 100, 1),
    "margin": ("SG margin, bits", "sg", ("margin_bits", "overall"), 1, 2),
    "labelled": ("labelled F1", "labelled", ("f1",), 1, 1),
    "unlabeled": ("unlabeled F1, binarized", "unlabeled", ("f1",), 1, 1),
}
CONSTRUCTIONS = {
    "NPS_AMB - NPS_UAMB": "NP/S garden path",
    "NPZ_AMB - NPZ_UAMB": "NP/Z garden path",
    "MVRR_AMB - MVRR_UAMB": "reduced relative",
    "RC_Obj - RC_Subj": "object less subject relative",
    "AttachHigh - AttachMulti": "high attachment",
    "AttachLow - AttachMulti": "low attachment",
    "UNAGREE - AGREE": "wrong agreement",
}
PUBLISHED = "rnng"
RUNS = 8

Scores = Mapping[str, Any]


def best_rate(folder: Path) -> str:
    """The rate whose try ended with the lowest loss on the validation part."""
    losses = {run.name: read_metrics(run, "valid")[-1]["loss"] for run in (folder / "rates").glob("[0-9]*")}
    return min(losses, key=lambda rate: (losses[rate], float(rate)))


def gathered(folder: Path) -> dict[str, Any]:
    """Scores of every run by its measures, circuits of SG and constructions of SAP; the published RNNG's."""
    tries = {run.name: read_metrics(run, "valid")[-1]["loss"] for run in (folder / "rates").glob("[0-9]*")}
    document: dict[str, Any] = {"published": {}, "rates": tries, "runs": {}}
    for model in MODELS:
        for results in sorted((folder / "results").glob(f"{model}-[0-9]*")):
            run: dict[str, Any] = {}
            for key, (_, evaluation, path, *_) in MEASURES.items():
                if (results / evaluation / RESULTS).exists():
                    scores = read_json(results / evaluation / RESULTS)["scores"]
                    run[key] = reduce(getitem, path, scores)
                    if key == "sg":
                        run["circuits"] = scores["by_circuit"]
            if (results / "sap.csv").exists():
                for name, of, bits in constructions(results / "sap.csv"):
                    (document["published"] if of == PUBLISHED else run.setdefault("sap", {}))[name] = bits
            document["runs"].setdefault(model, {})[results.name.rpartition("-")[2]] = run
    return document


def constructions(file: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Name, model, and mean bits with interval of each construction of a table of sap.py."""
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["of"] in CONSTRUCTIONS and row["model"] not in ("gpt2", "lstm"):
                bits = {name: float(row[name]) for name in ("bits", "low", "high")}
                yield row["of"], row["model"], bits


def values(scores: Scores, model: str, key: str) -> list[float]:
    """A measure of a model, or a construction's bits, of all seeds that have it."""
    runs = scores["runs"].get(model, {}).values()
    if key in CONSTRUCTIONS:
        return [run["sap"][key]["bits"] for run in runs if key in run.get("sap", {})]
    *_, scale, _ = MEASURES[key]
    return [scale * run[key] for run in runs if run.get(key) is not None]


def cell(numbers: list[float], decimals: int) -> str:
    """The mean and each seed's value; empty without one."""
    each = [f"{number:,.{decimals}f}" for number in numbers]
    return f"{mean(numbers):,.{decimals}f} ({', '.join(each)})" if len(each) > 1 else "".join(each)


def table(scores: Scores) -> str:
    """A row for each model, a column for each measure."""
    rows = [["", *(heading for heading, *_ in MEASURES.values())], ["---"] * (len(MEASURES) + 1)]
    for model, label in MODELS.items():
        cells = [cell(values(scores, model, key), decimals) for key, (*_, decimals) in MEASURES.items()]
        rows.append([label, *cells])
    return markdown_table(rows)


def sap(scores: Scores) -> str:
    """A row for each construction, a column for the mean of each model and the published RNNG's."""
    rows = [["bits", *MODELS.values(), "RNNG, published"], ["---"] * (len(MODELS) + 2)]
    for key, label in CONSTRUCTIONS.items():
        cells = [f"{mean(bits):.1f}" if (bits := values(scores, model, key)) else "" for model in MODELS]
        known = scores["published"].get(key)
        cells.append(f"{known['bits']:.1f} ({known['low']:.1f} to {known['high']:.1f})" if known else "")
        rows.append([label, *cells])
    return markdown_table(rows)


def relation(scores: Scores, key: str) -> str:
    """Where RNNG stands beside the others in a measure: above, below, or not told apart."""
    of_it = values(scores, "rnng", key)
    found: dict[str, list[str]] = {}
    for other, label in MODELS.items():
        theirs = values(scores, other, key)
        if other == "rnng" or not (of_it and theirs):
            continue
        where = "not told apart from"
        if min(of_it) > max(theirs):
            where = "above"
        elif max(of_it) < min(theirs):
            where = "below"
        found.setdefault(where, []).append(label if label.isupper() else f"the {label}")
    parts = [f"{where} {' and '.join(labels)}" for where, labels in found.items()]
    return ", ".join(parts)


def finding(scores: Scores) -> str:
    """Sentences: how many runs have every primary measure, and where RNNG stands."""
    runs = [run for of_model in scores["runs"].values() for run in of_model.values()]
    whole = sum({"perplexity", "sg"} <= run.keys() for run in runs)
    sentences = [] if whole == RUNS else [f"Scored so far: {whole} of {RUNS} runs."]
    names = {
        "perplexity": "perplexity",
        "sg": "SG score",
        "labelled": "labelled F1",
        "unlabeled": "unlabeled F1",
    }
    places = [f"{name} is {where}" for key, name in names.items() if (where := relation(scores, key))]
    if places:
        sentences.append(f"The RNNG's {'; its '.join(places)}.")
    return " ".join(sentences)


def rates(scores: Scores) -> str:
    """The validation losses of the tries of RNNG's rate, from the lowest rate to the highest."""
    tries = sorted(scores["rates"].items(), key=lambda item: float(item[0]))
    return ", ".join(f"{loss:.2f} at {rate}" for rate, loss in tries)


PASSAGES = {"rates": rates, "table": table, "sap": sap, "finding": finding}

if __name__ == "__main__":
    try:
        action, folder = sys.argv[1], Path(sys.argv[2])
        print(
            best_rate(folder) if action == "rate" else json.dumps(gathered(folder), indent=1, sort_keys=True)
        )
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
