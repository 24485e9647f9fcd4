"""Two models on the same items: differences, and whether they could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.classification.record import CLASSIFY
from pdtools.evaluation.comparison.classification import compare_answers
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.comparison.difference import Difference
from pdtools.evaluation.comparison.items import OtherItemsError, columns_read, groups_of, read_outcomes
from pdtools.evaluation.comparison.statistics import CONFIDENCE, interval, mcnemar
from pdtools.evaluation.record import evaluations
from pdtools.evaluation.results import read_results

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_SAMPLES = 10_000


def compare_runs(
    a: str | Path, b: str | Path, *, seed: int = 0, samples: int = DEFAULT_SAMPLES
) -> dict[str, Any]:
    """Compare two results folders of ``eval-blimp``, ``eval-sg`` or ``eval-classify``, item by item.

    Items that one run could not score are left out of both, and counted. Of SG, the first prediction of
    each suite counts, and the suites that the SG score leaves out are not part of ``overall``.

    Args:
        a, b: the folders.
        seed: of the bootstrap.
        samples: bootstrap samples.

    Returns:
        ``task``, ``groups`` (a :class:`Difference` each: overall, then by level), ``counts``, ``settings``,
        and ``notes``: in words, what differs in how the two were made and changes their scores.

    Raises:
        PdtoolsError: if the two are not runs over the same items.
    """
    import numpy as np

    (document_a, table_a), (document_b, table_b) = (read_results(each, columns_read()) for each in (a, b))
    task_name = _task_name(document_a, a)
    if _task_name(document_b, b) != task_name:
        raise PdtoolsError(f"{a} and {b} are results of different evaluations")
    compared = comparability(document_a, document_b)
    notes = compared.notes
    if task_name == CLASSIFY:
        if compared.refused is not None:
            raise InputError(f"results of {compared.refused} than {a}", file=b)
        documents, tables = (document_a, document_b), (table_a, table_b)
        found, items = compare_answers(documents, tables, (a, b), seed=seed, samples=samples)
        return {
            "task": document_a["settings"]["prompt_task"],
            "groups": [
                *(replace(score, level="overall") for score in found[:1]),
                *found,
            ],
            "notes": notes,
            "counts": {"items": items, "items_compared": found[0].items if found else 0},
            "settings": {
                "seed": seed,
                "bootstrap_samples": samples,
                "confidence": CONFIDENCE,
                "test": "McNemar, exact, two-sided; of F1 and correlations a paired bootstrap",
            },
        }
    outcomes = evaluations()[task_name].outcomes
    assert outcomes is not None
    try:  # the items name what is not the same, if they know
        answered = read_outcomes([table_a, table_b], [a, b], outcomes)
    except OtherItemsError as error:
        raise PdtoolsError("; ".join([str(error), *notes])) from None
    if compared.refused is not None:
        raise InputError(f"results of {compared.refused} than {a}", file=b)
    counted, scored = answered.scored()
    columns, keep = answered.columns, np.flatnonzero(scored)
    if not len(keep):
        raise PdtoolsError(f"{a} and {b} have no item that both could score")
    some = f"only the {len(keep)} of {int(counted.sum())} items that both could score"
    left_out = [some] if len(keep) < counted.sum() else []
    right_a, right_b = (np.array([of_run[i] for i in keep], dtype=np.int8) for of_run in answered.correct)
    rng = np.random.default_rng(seed)
    groups = [
        _difference(
            level, name, members, [columns[outcomes.unit][i] for i in keep], right_a, right_b, rng, samples
        )
        for level, name, members in groups_of(
            outcomes, {c: [columns[c][i] for i in keep] for c in (*outcomes.levels, outcomes.unit)}
        )
    ]
    return {
        "task": task_name,
        "groups": groups,
        "notes": notes + left_out,
        "counts": {"items": int(counted.sum()), "items_compared": len(keep)},
        "settings": {
            "seed": seed,
            "bootstrap_samples": samples,
            "confidence": CONFIDENCE,
            "test": "McNemar, exact, two-sided",
        },
    }


def _task_name(document: dict[str, Any], folder: str | Path) -> str:
    task = document.get("settings", {}).get("task")
    record = evaluations().get(task)
    if record is None or (record.outcomes is None and task != CLASSIFY):
        raise InputError("not results of eval-blimp, eval-sg or eval-classify", file=folder)
    return str(task)


def _difference(
    level: str,
    name: str,
    members: NDArray[np.int64],
    units: Sequence[str],
    right_a: NDArray[np.int8],
    right_b: NDArray[np.int8],
    rng: np.random.Generator,
    samples: int,
) -> Difference:
    import numpy as np

    a, b = right_a[members], right_b[members]
    unit = np.unique([units[i] for i in members], return_inverse=True)[1]
    totals = []
    resampled = np.zeros(samples)
    for u in range(unit.max() + 1):
        inside = unit == u
        n = int(inside.sum())
        difference = b[inside].astype(int) - a[inside]
        totals.append((a[inside].mean(), b[inside].mean()))
        # A bootstrap sample of n paired differences is a multinomial draw of how often each value occurs.
        shares = np.array([(difference == value).sum() for value in (-1, 0, 1)]) / n
        drawn = rng.multinomial(n, shares, size=samples)  # (samples, 3)
        resampled += (drawn[:, 2] - drawn[:, 0]) / n
    resampled /= len(totals)
    low, high = interval(resampled)
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    return Difference(
        level=level,
        name=name,
        items=len(members),
        a=float(np.mean([x for x, _ in totals])),
        b=float(np.mean([y for _, y in totals])),
        low=low,
        high=high,
        only_a=only_a,
        only_b=only_b,
        p=mcnemar(only_a, only_b),
    )
