"""Two models' answers to the same prompts: McNemar's test of accuracies, a paired bootstrap for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.classification.record import NAMES, read_answers
from pdtools.evaluation.comparison.difference import Difference
from pdtools.evaluation.comparison.statistics import bootstrap_p, interval, mcnemar

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pdtools.prompts.metrics import Score


def compare_answers(
    documents: tuple[dict[str, Any], dict[str, Any]],
    tables: tuple[pa.Table, pa.Table],
    folders: tuple[str | Path, str | Path],
    *,
    seed: int,
    samples: int,
) -> tuple[list[Difference], int]:
    """The scores of two results of ``eval-classify`` over the labelled items that both have, the task's own
    first; and how many items have labels.

    Raises:
        PdtoolsError: if they are not over the same items.
    """
    import numpy as np

    from pdtools.prompts.metrics import WRONG, accuracy, f1, pearson, spearman

    scorers: dict[str, Score] = {"accuracy": accuracy, "f1": f1, "spearman": spearman, "pearson": pearson}
    metrics = [document["settings"]["metric"] for document in documents]
    names = {"f1": ("f1", "accuracy"), "spearman": ("spearman", "pearson")}.get(metrics[0], ("accuracy",))
    is_label = "accuracy" in names
    (gold, one), (golds, other) = (
        read_answers(*each, is_label) for each in zip(tables, folders, strict=True)
    )
    items = [item for item in gold if item in golds]
    if different := next((item for item in items if gold[item] != golds[item]), None):
        raise PdtoolsError(f"{folders[0]} and {folders[1]}: item {different} is not the same in both")
    if metrics[0] != metrics[1] or not items:
        raise PdtoolsError(f"{folders[0]} and {folders[1]} have no labelled item in common")
    positive = documents[0]["settings"].get("positive")
    # Of labels F1's is 1, others from 2 on: all that scores ask is which are equal.
    values = sorted({v for found in (gold, one, other) for v in found.values() if v not in (positive, None)})
    codes = {positive: 1, None: WRONG} | {value: i + 2 for i, value in enumerate(values)}
    numbers = [
        np.array([codes[found[item]] if is_label else found[item] for item in items])
        for found in (gold, one, other)
    ]
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(len(items), size=len(items)) for _ in range(samples)]
    found = [_difference(name, scorers[name], *numbers, drawn=drawn, is_label=is_label) for name in names]
    return [score for score in found if score is not None], max(len(gold), len(golds))


def _difference(
    name: str,
    score: Score,
    gold: NDArray[Any],
    one: NDArray[Any],
    other: NDArray[Any],
    *,
    drawn: list[NDArray[np.int64]],
    is_label: bool,
) -> Difference | None:
    import numpy as np

    a, b = score(gold, one), score(gold, other)
    if a is None or b is None:
        return None
    found = [(score(gold[i], one[i]), score(gold[i], other[i])) for i in drawn]
    differences = np.array([y - x for x, y in found if x is not None and y is not None] or [b - a])
    low, high = interval(differences)
    right = (gold == one), (gold == other)
    only_a, only_b = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    return Difference(
        level="score",
        name=NAMES[name],
        items=len(gold),
        a=a,
        b=b,
        low=low,
        high=high,
        only_a=only_a if is_label else None,
        only_b=only_b if is_label else None,
        p=mcnemar(only_a, only_b) if name == "accuracy" else bootstrap_p(differences),
    )
