"""Minimal pairs and test suites in the forms of their files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_pairs(file: Path, pairs: Iterable[Sequence[str]]) -> Path:
    """Good and bad sentences, as pairs of one paradigm of BLiMP that are numbered from 0."""
    names = {"UID": "toy", "field": "syntax", "linguistics_term": "binding"}
    rows = [
        {**names, "pairID": str(number), "sentence_good": good, "sentence_bad": bad}
        for number, (good, bad) in enumerate(pairs)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def condition(name: str, *contents: str) -> dict[str, Any]:
    """A condition of an item, with the texts of its regions."""
    regions = [{"region_number": n, "content": text} for n, text in enumerate(contents, start=1)]
    return {"condition_name": name, "regions": regions}


def suite_of(*items: list[dict[str, Any]], formula: str = "(2;%x%) < (2;%y%)", **meta: str) -> dict[str, Any]:
    """A suite of one formula; items are numbered from 1."""
    return {
        "meta": {"name": "toy", "metric": "sum", **meta},
        "predictions": [{"type": "formula", "formula": formula}],
        "items": [{"item_number": n, "conditions": own} for n, own in enumerate(items, start=1)],
    }
