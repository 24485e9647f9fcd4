"""Single items of minimal pairs and of parses, for the page of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdtools.report.view.drawing import BITS, Drawing, Items, grouped, numbers_of, outcomes_of, tokens_of

if TYPE_CHECKING:
    import pandas as pd

    from pdtools.report.view.loaded import Loaded


def _pairs(items: pd.DataFrame, of_task: Sequence[Loaded]) -> Items:
    found: Items = {
        **grouped(items["paradigm"]),
        "id": items["pair"].astype(str).tolist(),
        "texts": {"good": items["sentence_good@0"].tolist(), "bad": items["sentence_bad@0"].tolist()},
        "listed": 2,
        "pair": ["good", "bad"],
        "outcomes": [outcomes_of(items[f"correct@{i}"]) for i in range(len(of_task))],
        "margins": [
            numbers_of((items[f"logprob_good@{i}"] - items[f"logprob_bad@{i}"]) * BITS, 2)
            for i in range(len(of_task))
        ],
    }
    if tokens := tokens_of(items, of_task, ("good", "bad")):
        found |= tokens
    else:
        found["note"] = (
            "These results have no surprisals of tokens: eval-blimp of today's pdtools keeps them."
        )
    return found


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


PAIRS = Drawing(
    columns={"logprob_good": "numbers", "logprob_bad": "numbers"},
    optional=dict.fromkeys(("surprisals_good", "surprisals_bad"), "tokens"),
    items=_pairs,
)
"""The drawing of minimal pairs."""
PARSES = Drawing(
    key=("line",),
    columns=dict.fromkeys(("line", "matched", "gold", "predicted"), "integers"),
    optional=dict.fromkeys(("gold_tree", "predicted_tree"), "strings"),
    items=_parses,
    outcome="matched",
    is_right=False,
)
"""The drawing of parses: F1 of each sentence."""
