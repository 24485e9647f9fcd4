"""Results of reading times without a model: two contrasts, of people and as two models predict them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from pdtools.evaluation.results import ITEMS, Results, write_results

CONTRASTS = ("hard − easy", "object − subject")
PLACES = ("critical word", "1 after it", "2 after it")
GAINS = {"gpt": (0.00123, 0.00045, 0.00204), "rnng": (0.000984, -0.0002, 0.0021)}


def estimate(value: float, reach: float) -> dict[str, float]:
    return {"value": value, "low": value - reach, "high": value + reach / 2}


def people(contrast: int, roi: int) -> dict[str, float]:
    return estimate(50.0 * (contrast + 1) - 30 * roi, 20)


def effect(contrast: int, roi: int, model: str) -> dict[str, Any]:
    """At the critical word people's effect is not 0, and there is a ratio."""
    predicted = estimate({"gpt": 12.5, "rnng": -0.004}[model] * (1 + contrast), 6)
    human = people(contrast, roi)
    return {
        "contrast": CONTRASTS[contrast],
        "roi": roi,
        "model": model,
        "human": human,
        "predicted": predicted,
        "ratio": None if roi else estimate(predicted["value"] / human["value"], 0.125),
        "bits": [9.0, 4.0],
        "groups": 24 - roi,
        "observations": 600,
        "observations_left_out": roi,
    }


EFFECTS = [effect(c, roi, model) for c in range(2) for roi in range(3) for model in GAINS]


def write(
    folder: Path,
    *,
    effects: Any = EFFECTS,
    coefficients: bool = True,
    scale: float = 1,
    seed: int | None = None,
    words: int = 321,
) -> str:
    """Results of two models, or of a seed of one."""
    by_model: dict[str, Any] = {}
    gains = GAINS if seed is None else {folder.parent.name: GAINS["gpt"]}
    for k, (name, gain) in enumerate(gains.items(), 1):
        by_model[name] = {n: scale * x for n, x in zip(("delta_ll", "low", "high"), gain, strict=True)}
        if coefficients:
            by_model[name]["coefficients"] = {
                "surprisal": {
                    "sum": {**estimate(1.5 * k * scale, 0.125), "for_new": estimate(1.5 * k * scale, 0.25)}
                }
            }
    scores = {"by_model": by_model, **({} if effects is None else {"effects": effects})}
    settings = {"task": "reading", "baseline": ["length"], "models": {name: {} for name in gains}}
    counts = {"words_regressed": words}
    found = Results(scores=scores, counts=counts, settings=settings, tables={ITEMS: pa.table({"word": [1]})})
    made = (
        {}
        if seed is None
        else {"inputs": {"model": {"path": "m", "training": {"seed": seed, "sha256": "x"}}}}
    )
    write_results(folder, found, made)
    return str(folder)
