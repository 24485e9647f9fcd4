"""Items with what is known of each of their strings, as columns, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Results


def wide_items(results: Results | Path, prediction: int = 1) -> pd.DataFrame:
    """A row for each item: for each role its whole text, ``start_``, ``logprob_`` (nats), ``tokens_``, …"""
    names = ("items", "strings")
    if isinstance(results, Path):
        items, strings = (pd.read_parquet(results / f"{name}.parquet") for name in names)
    else:
        items, strings = (results.table(name).to_pandas() for name in names)
    unit = strings.columns[0]
    items = items[items["prediction"] == prediction].set_index([unit, "item"])
    strings["start"] = strings["context"].str.len()
    strings["whole"] = strings["context"].fillna("") + strings["text"]
    strings["logprob"] = -math.log(2) * strings["bits"]
    columns = ["start", "logprob", "tokens", "dropped", "surprisals", "read"]
    for role, of in strings.groupby("string", sort=False):
        known: Any = of.set_index([unit, "item"])
        items = items.join(known[["whole"]].rename(columns={"whole": role}))
        items = items.join(known[columns].add_suffix(f"_{role}"))
    return items.reset_index()


def pair_tables(rows: Iterable[Mapping[str, Any]]) -> dict[str, pa.Table]:
    """The two tables of minimal pairs: in a row ``item``, its groups, ``good`` and ``bad``, what is known.

    ``bits_good``, ``surprisals_good``, … are of its strings; whatever else is a column of the items.
    """
    items, strings = [], []
    for given in rows:
        row = dict(given)
        for role in ("good", "bad"):
            of_role = {name: row.pop(f"{name}_{role}", None) for name in ("bits", "surprisals")}
            place = {"paradigm": row["paradigm"], "item": row["item"], "string": role}
            unknown = {"region": None, "name": None, "context": None}
            strings.append({**place, **unknown, "text": row.pop(role), **of_role})
        items.append({**row, "prediction": 1, "formula": "good > bad"})
    return {ITEMS: pa.Table.from_pylist(items), STRINGS_TABLE: pa.Table.from_pylist(strings)}
