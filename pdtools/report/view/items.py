"""Single parses, for the page of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdtools.report.view.drawing import Drawing, Items, numbers_of

if TYPE_CHECKING:
    import pandas as pd

    from pdtools.report.view.loaded import Loaded


def _parses(items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    range_ = range(len(of_task))
    texts = {}
    if "gold_tree@0" in items:
        texts = {"gold tree": items["gold_tree@0"].tolist()}
        texts |= {
            each.model: items[f"predicted_tree@{i}"].tolist()
            for i, each in enumerate(of_task)
            if f"predicted_tree@{i}" in items
        }
    return {
        "groups": ["sentences"],
        "group": [0] * len(items),
        "id": items["line"].astype(str).tolist(),
        "texts": texts,
        "listed": 1,
        "unfolded": True,
        "outcomes": [numbers_of(_f1(items, i), 1) for i in range_],
    }


def _f1(items: pd.DataFrame, i: int) -> pd.Series:
    """The F1 of each sentence, in percent."""
    names = ("matched", "gold", "predicted")
    matched, gold, predicted = (items[f"{name}@{i}"].astype(float) for name in names)
    return 200 * matched / (gold + predicted)


PARSES = Drawing(
    key=("line",),
    columns=dict.fromkeys(("line", "matched", "gold", "predicted"), "integers"),
    optional=dict.fromkeys(("gold_tree", "predicted_tree"), "strings"),
    items=_parses,
    outcome="matched",
    is_right=False,
)
"""The drawing of parses: F1 of each sentence."""
