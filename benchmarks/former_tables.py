"""Results of test suites, minimal pairs and benchmarks from before ``strings.parquet``, in today's tables.

    python benchmarks/former_tables.py RESULTS...

Folders of results are rewritten in place; others are left alone. ``same.py`` converts the first copy's
results so. It can go when no study runs from a copy that writes such tables.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pdtools.evaluation.benchmark.item_set import ItemSet
from pdtools.evaluation.benchmark.outcomes import JudgedItems

NATS = math.log(2)
"""Nats in a bit."""
_NOT_NEEDED = "no prediction needs it"
_KINDS = {"main": "sum", "per_token": "per_token"}


def convert(folder: Path) -> bool:
    """Rewrite a folder of results; returns whether it had former tables."""
    document = json.loads((folder / "results.json").read_text("utf-8"))
    task = document["settings"]["task"]
    kind = "benchmark" if task.startswith("benchmark-") else task
    if kind not in _CONVERTED or (folder / "strings.parquet").exists():
        return False
    items = pq.read_table(folder / "items.parquet").to_pandas().astype(object)
    items = items.where(items.notna(), None)
    tables = _CONVERTED[kind](folder, document, items)
    for name, (rows, schema) in tables.items():
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{name}.parquet")
    (folder / "regions.parquet").unlink(missing_ok=True)
    (folder / "results.json").write_text(json.dumps(document, indent=2), "utf-8")
    return True


Tables = dict[str, tuple[list[dict[str, Any]], pa.Schema]]


def _tables(names: tuple[str, ...], flags: tuple[str, ...], nested: bool, items: Any, strings: Any) -> Tables:
    of = ItemSet()
    of.names, of.flags, of.nested = names, flags, nested
    judged = JudgedItems(of)
    more = [
        pa.field(name, pa.bool_() if name == "acceptable" else pa.float64())
        for name in ("score", "acceptable", "value")
        if any(name in row for row in items)
    ]
    schema = pa.schema([*judged.items_schema(), *more])
    return {"items": (items, schema), "strings": (strings, judged.strings_schema())}


def _rename(document: dict[str, Any], items: str) -> None:
    """Counts of strings and items, and records, as results have them today."""
    counts = document["counts"]
    for old in list(counts):
        new = {items: "items", f"{items}_scored": "items_scored", f"{items}_unscorable": "items_unscorable"}
        name = new.get(old, old.replace("sentences", "strings"))
        counts[name] = counts.pop(old)
    unit = {"items": "suite", "pairs": "paradigm"}[items]
    if (evaluation := document.get("evaluation")) is not None:
        evaluation["items"] |= {
            "counted": "items",
            "key": [unit, "item", "prediction"],
            "content": ["formula"],
        }
        for of in evaluation["scores"].values():
            of["over"] = [each.replace(" pairs", " items") for each in of["over"]]


def _suites(folder: Path, document: dict[str, Any], items: pd.DataFrame) -> Tables:
    regions = pq.read_table(folder / "regions.parquet").to_pylist()
    strings = [
        {
            "suite": row["suite"],
            "item": str(row["item"]),
            "string": row["condition"],
            "region": row["region"],
            "name": row["region_name"],
            "text": row["content"],
            "read": row["text"] if (row["reason"] or _NOT_NEEDED).startswith(_NOT_NEEDED) else None,
            "tokens": row["tokens"],
            "bits": row["surprisal"],
            "reason": row["reason"],
        }
        for row in regions
    ]
    rows = [
        {
            **row,
            "item": str(row["item"]),
            "outcome": {None: "unscorable", True: "right", False: "wrong"}[row["correct"]],
        }
        for row in items.to_dict("records")
    ]
    counts = document["counts"]
    first = [row for row in rows if row["prediction"] == 1]
    reasons = {row["text"]: row["reason"] for row in regions}
    counts |= {
        "ties": 0,
        "sentences": len(reasons),
        "sentences_unscorable": sum(
            not (reason or _NOT_NEEDED).startswith(_NOT_NEEDED) for reason in reasons.values()
        ),
        "by_suite": {
            name: {"items": n, "scored": sum(r["suite"] == name and r["correct"] is not None for r in first)}
            | {"ties": 0}
            for name, n in Counter(row["suite"] for row in first).items()
        },
    }
    counts.pop("suites")
    document["settings"].pop("text_sha256", None)
    document["settings"]["limit"] = None
    _rename(document, "items")
    return _tables(("circuit", "suite"), (), True, rows, strings)


def _pairs(folder: Path, document: dict[str, Any], items: pd.DataFrame) -> Tables:
    rows, strings = [], []
    for row in items.to_dict("records"):
        key = {"paradigm": row["paradigm"], "item": row["pair"]}
        strings += [_string(row, role, f"sentence_{role}") | key for role in ("good", "bad")]
        for prediction, kind in enumerate(_KINDS.values(), start=1):
            margin = _margin(row, kind)
            outcome = row["outcome"]
            if kind == "per_token" and margin is not None:
                outcome = "tie" if margin == 0 else "right" if margin > 0 else "wrong"
            known = row["beam"] is None
            rows.append(
                {
                    **row,
                    **key,
                    "prediction": prediction,
                    "formula": "good > bad",
                    "outcome": outcome,
                    "correct": None if outcome == "unscorable" else outcome == "right",
                    "margin_bits": margin if known else None,
                }
            )
    counts, scores = document["counts"], document["scores"]
    counts.pop("paradigms")
    for of in counts["by_paradigm"].values():
        of["items"] = of.pop("pairs")
    scores["by_prediction"] = {"main": scores["overall"], "per_token": scores.pop("overall_per_token")}
    document["settings"].pop("per_token")
    document["settings"] |= {
        "log_base": "bits",
        "text": "as in the data, written in the model's text style; final period and capitals kept",
        "predictions": dict.fromkeys(("main", "per_token"), "good > bad"),
        "scores": {name: {"kind": kind, "alpha": 1.0} for name, kind in _KINDS.items()},
    }
    _rename(document, "pairs")
    return _tables(("field", "phenomenon", "paradigm"), (), True, rows, strings)


def _benchmark(folder: Path, document: dict[str, Any], items: pd.DataFrame) -> Tables:
    evaluation = document["evaluation"]["items"]
    roles = [name.removeprefix("logprob_") for name in items.columns if name.startswith("logprob_")]
    unit = "group" if evaluation is None else evaluation["unit"]
    levels = [] if evaluation is None else evaluation["levels"]
    if evaluation is not None:
        evaluation |= {"key": [unit, "item", "prediction"], "content": ["formula"]}
        evaluation["margin"] = f"{document['evaluation']['title']}, margin (bits)"
    document["settings"]["log_base"] = "bits"
    kinds = [of["kind"] for of in document["settings"]["scores"].values()]
    rows, strings, seen = [], [], set()
    for row in items.to_dict("records"):
        key = {unit: row.get(unit), "item": str(row["item"])}
        for role in roles if row["item"] not in seen else ():
            if row[role] is not None:
                strings.append(_string(row, role, role) | key)
        seen.add(row["item"])
        known = row["beam"] is None and row["formula"] == "good > bad"
        margin = _margin(row, kinds[row["prediction"] - 1]) if known else None
        rows.append({**row, **key, "margin_bits": margin})
    nested = unit != "group"
    names = (*levels, unit) if nested else tuple(levels)
    flags = [name for name in document["scores"] if name.startswith("by_")]
    own = tuple(
        name.removeprefix("by_")
        for name in flags
        if name.removeprefix("by_") in items.columns and name.removeprefix("by_") not in (*levels, unit)
    )
    return _tables(tuple(names), own, nested, rows, strings)


def _string(row: dict[str, Any], role: str, text: str) -> dict[str, Any]:
    logprob, start = row[f"logprob_{role}"], row.get(f"start_{role}")
    at = 0 if start is None else int(start)
    tokens = row[f"surprisals_{role}"]
    return {
        "string": role,
        "context": row[text][:at] if at else None,
        "text": row[text][at:],
        "read": row.get(f"text_{role}"),
        "tokens": row[f"tokens_{role}"],
        "bits": None if logprob is None else -logprob / NATS,
        "surprisals": None
        if tokens is None
        else [
            {**{name: of[name] for name in ("token", "start", "end")}, "bits": of["surprisal"] / NATS}
            for of in tokens
        ],
        "dropped": row[f"dropped_{role}"],
        "reason": row["reason"] if logprob is None else None,
    }


def _margin(row: dict[str, Any], kind: str) -> float | None:
    good, bad = (row[f"logprob_{role}"] for role in ("good", "bad"))
    if good is None or bad is None or kind not in ("sum", "per_token"):
        return None
    if kind == "per_token":
        good, bad = (each / row[f"tokens_{role}"] for each, role in ((good, "good"), (bad, "bad")))
    return float(good - bad) / NATS


_CONVERTED = {"sg": _suites, "blimp": _pairs, "benchmark": _benchmark}


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(given, "converted" if convert(Path(given)) else "left alone", sep=": ")
