"""Margins of runs: collected into one small file a run, and compared as the plan says.

python margins.py collect RESULTS -o NAME.csv.gz
python margins.py compare PLAN FILES... -o FILE.json
python margins.py simulate PLAN [--draws 200]

RESULTS holds ``sg`` and ``blimp``, or folders of these named by numbers of passes, and may hold ``ppl``.
PLAN is ``trees``, ``english`` or ``agreement``. ``simulate`` prints the coverage of the plan's intervals on
simulated margins.
A file has a row for each first prediction of an SG item that counts, and for each pair of BLiMP: ``passes``
(0: not known), ``evaluation``, ``unit`` (suite or paradigm), ``group`` (circuit or phenomenon), ``item``,
``margin`` in bits, and ``correct`` (1, 0); and one for ``ppl``, whose margin is the mean log₂ p of a word.
Its name is that of the run, ``CONDITION-SEED.csv.gz``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pdtools.evaluation.comparison.statistics import Spread, deviation, holm
from pdtools.evaluation.results import read_document
from pdtools.evaluation.sg.record import EXCLUDED
from pdtools.files import atomic_path, write_json

EVALUATIONS = ("sg", "blimp")
_COLUMNS = {
    "sg": {"suite": "unit", "circuit": "group", "item": "item"},
    "blimp": {"paradigm": "unit", "phenomenon": "group", "item": "item"},
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The comparisons of an experiment, written down before its first score.

    Attributes:
        families: pairs (condition, less which condition) whose measures are corrected together by Holm.
        seeds: number of runs of a condition.
        unplanned: pairs that were compared afterwards, in no family.
        primary: the measures, each a score (:func:`scores_of`) and its number of suites or paradigms.
    """

    families: tuple[tuple[tuple[str, str], ...], ...]
    seeds: int
    unplanned: tuple[tuple[str, str], ...] = ()
    primary: tuple[tuple[str, int], ...] = (("margin sg", 31), ("margin blimp", 67))

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the primary measures."""
        return tuple(score for score, _ in self.primary)


PLANS = {
    "trees": Plan(
        families=(
            (("pushdown", "base"),),
            (("pushdown", "base-head"), ("pushdown", "pushdown-auto")),
        ),
        seeds=6,
        unplanned=(("base-head", "base"), ("pushdown-auto", "base")),
    ),
    "english": Plan(families=((("pushdown", "base"),),), seeds=3),
    "agreement": Plan(
        families=tuple(
            tuple((f"pushdown-{size}", f"{less}-{size}") for size in (30000, 100000, 300000, 1000000))
            for less in ("base", "base-head")
        ),
        seeds=10,
        primary=(("margin blimp attractors", 3),),
    ),
}


# --- collecting ---------------------------------------------------------------------------------


def collect(results: Path) -> pd.DataFrame:
    """The rows of a run's results.

    Args:
        results: a folder with ``sg`` and ``blimp``, or with folders of these named by numbers of passes.
    """
    folders = {0: results} if any((results / name).is_dir() for name in EVALUATIONS) else {}
    folders |= {int(each.name): each for each in results.iterdir() if each.name.isdigit()}
    rows = [
        _rows(folder / name, name).assign(passes=passes)
        for passes, folder in sorted(folders.items())
        for name in (*EVALUATIONS, "ppl")
        if (folder / name).is_dir()
    ]
    return pd.concat(rows)[["passes", "evaluation", "unit", "group", "item", "margin", "correct"]]


def _rows(folder: Path, evaluation: str) -> pd.DataFrame:
    if evaluation == "ppl":
        scores = read_document(folder)["scores"]
        perplexity = scores.get("ppl_word_particles", scores.get("ppl_word_marginal"))
        return pd.DataFrame(
            [{"evaluation": "ppl", "group": "", "unit": "test", "item": 0, "margin": -math.log2(perplexity)}]
        ).assign(correct=math.nan)
    items = pq.read_table(folder / "items.parquet").to_pandas()
    items = items[items["prediction"] == 1]
    if evaluation == "sg":
        items = items[~items["suite"].isin(EXCLUDED)]
    if items["margin_bits"].isna().any():
        raise SystemExit(f"{folder}: an item without a margin")
    kept = items[list(_COLUMNS[evaluation])].rename(columns=_COLUMNS[evaluation])
    kept = kept.assign(evaluation=evaluation, margin=items["margin_bits"].round(4))
    return kept.assign(correct=items["correct"].astype(int))


# --- comparing ----------------------------------------------------------------------------------


def scores_of(rows: pd.DataFrame) -> dict[str, float]:
    """Mean margins and shares of right items (percent): units with equal weight.

    Args:
        rows: one run's, after one number of passes.

    Returns:
        By ``MEASURE EVALUATION`` and ``MEASURE EVALUATION GROUP``.
    """
    found = {}
    for measure, factor in (("margin", 1.0), ("correct", 100.0)):
        known = rows[rows[measure].notna()].fillna({"group": ""})
        by_unit = known.groupby(["evaluation", "group", "unit"])[measure].mean().mul(factor)
        for (evaluation, group), value in by_unit.groupby(level=[0, 1]).mean().items():
            if group:
                found[f"{measure} {evaluation} {group}"] = float(value)
        for evaluation, value in by_unit.groupby(level=0).mean().items():
            found[f"{measure} {evaluation}"] = float(value)
    return found


def of_units(rows: pd.DataFrame) -> dict[str, float]:
    """The mean margin in bits of every suite and paradigm of a run, by ``EVALUATION UNIT``."""
    known = rows[rows["evaluation"].isin(EVALUATIONS)]
    means = known.groupby(["evaluation", "unit"])["margin"].mean()
    return {f"{evaluation} {unit}": float(value) for (evaluation, unit), value in means.items()}


def difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """The difference of means over seeds, its 95% interval and p by Welch's t."""
    between, spread = mean(ours) - mean(theirs), Spread.of(0.0, ours, theirs)
    low, high = spread.interval(between)
    return {"difference": between, "low": low, "high": high, "p": spread.p(between)}


def compare(
    plan: Plan,
    runs: Mapping[str, Mapping[int, Mapping[str, float]]],
    units: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """All scores by condition, and the differences of the plan.

    Args:
        runs: by ``CONDITION-SEED`` and passes, the scores (:func:`scores_of`).
        units: by ``CONDITION-SEED``, those of suites and paradigms (:func:`of_units`) after the last pass.

    Returns:
        ``scores``: by passes, score and condition the values, mean and deviation; ``families``: of each
        family whose runs have all ended, the differences of margins after the last pass, with p corrected;
        ``others``: of every other score of its conditions, and of unplanned pairs; ``units``: of suites and
        paradigms. Conditions of other families are left out.

    Raises:
        SystemExit: if no family has all its runs.
    """
    conditions: dict[str, list[str]] = {}
    for run in sorted(runs):
        conditions.setdefault(run.rpartition("-")[0], []).append(run)
    whole = {name for name, of in conditions.items() if len(of) >= plan.seeds}
    read = [pairs for pairs in plan.families if all(name in whole for pair in pairs for name in pair)]
    if not read:
        raise SystemExit("no family has all its runs: nothing is read")
    in_families = {name for pairs in read for pair in pairs for name in pair}
    conditions = {name: of for name, of in conditions.items() if name in in_families}
    values: dict[int, dict[str, dict[str, list[float]]]] = {}
    for condition, members in conditions.items():
        for run in members:
            for passes, scores in runs[run].items():
                for score, value in scores.items():
                    of_score = values.setdefault(passes, {}).setdefault(score, {})
                    of_score.setdefault(condition, []).append(value)
    last = max(values)
    families, of_each, means = [], [], units or {}
    for pairs in read:
        family = [
            {"a": a, "less": b, "score": score, "passes": last}
            | difference(values[last][score][a], values[last][score][b])
            for score in plan.measures
            for a, b in pairs
        ]
        corrected = holm([each["p"] for each in family])
        families.append([{**each, "corrected": p} for each, p in zip(family, corrected, strict=True)])
        of_each += [
            {"a": a, "less": b, "unit": unit}
            | difference(*([means[run][unit] for run in conditions[name]] for name in (a, b)))
            for a, b in pairs
            for unit in sorted(means.get(conditions[a][0], ()))
        ]
    planned = [pair for pairs in read for pair in pairs]
    others = [
        {"a": a, "less": b, "score": score, "passes": passes} | difference(of[a], of[b])
        for a, b in (*planned, *plan.unplanned)
        for passes, scores in sorted(values.items())
        for score, of in sorted(scores.items())
        if {a, b} <= of.keys() and ((a, b) not in planned or passes != last or score not in plan.measures)
    ]
    summary = {
        str(passes): {
            score: {
                name: {"values": each, "mean": mean(each), "deviation": deviation(each)}
                for name, each in sorted(of.items())
            }
            for score, of in sorted(scores.items())
        }
        for passes, scores in sorted(values.items())
    }
    return {"scores": summary, "families": families, "others": others, "units": of_each}


# --- simulated margins --------------------------------------------------------------------------


def simulated(plan: Plan, rng: np.random.Generator, effect: float) -> Iterator[tuple[str, pd.DataFrame]]:
    """Runs of all conditions: items and units differ, seeds of a condition by 0.1 bits and by unit.

    Args:
        effect: bits that the first condition of each pair is ahead of those that are no first one.
    """
    units = []
    for score, n in plan.primary:
        _, name, *group = score.split(" ")
        units += [(name, group[0] if group else f"{name}{i // 5}", f"{name}-{i}") for i in range(n)]
    ahead = {a for family in plan.families for a, _ in family}
    items = pd.DataFrame(
        [(*unit, item) for unit in units for item in range(20)],
        columns=["evaluation", "group", "unit", "item"],
    )
    code = items["unit"].astype("category").cat.codes.to_numpy()
    hard = rng.normal(0.3, 1.0, len(units))[code] + rng.normal(0, 2.0, len(items))
    for condition in sorted({name for family in plan.families for pair in family for name in pair}):
        for seed in range(1, plan.seeds + 1):
            own = rng.normal(0, 0.1) + rng.normal(0, 0.3, len(units))[code] + rng.normal(0, 1.0, len(items))
            margin = hard + own + (effect if condition in ahead else 0.0)
            yield f"{condition}-{seed}", items.assign(margin=margin, correct=(margin > 0).astype(int))


def coverage(plan: Plan, draws: int, effect: float = 0.25, seed: int = 0) -> dict[str, float]:
    """The share of 95% intervals of primary differences that hold the effect, and of those that exclude 0."""
    rng = np.random.default_rng(seed)
    held = found = tried = 0
    for _ in range(draws):
        runs = {name: {0: scores_of(rows)} for name, rows in simulated(plan, rng, effect)}
        for family in compare(plan, runs)["families"]:
            for each in family:
                tried += 1
                held += each["low"] <= effect <= each["high"]
                found += each["low"] > 0
    return {"intervals": tried, "hold the effect": held / tried, "exclude 0": found / tried}


def main() -> None:
    """Collect, compare or simulate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["collect", "compare", "simulate"])
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    if given.what == "collect":
        rows = collect(Path(given.inputs[0]))
        # No time stamp: the same results give the same bytes.
        with atomic_path(given.output) as whole:
            rows.to_csv(whole, index=False, compression={"method": "gzip", "mtime": 0})
    elif given.what == "compare":
        plan, *files = given.inputs
        tables = {Path(file).name.removesuffix(".csv.gz"): pd.read_csv(file) for file in files}
        runs = {
            name: {int(passes): scores_of(of) for passes, of in rows.groupby("passes")}
            for name, rows in tables.items()
        }
        units = {
            name: of_units(rows[rows["passes"] == rows["passes"].max()]) for name, rows in tables.items()
        }
        write_json(given.output, compare(PLANS[plan], runs, units))
    else:
        for effect in (0.0, 0.25):
            print(f"effect {effect} bits:", coverage(PLANS[given.inputs[0]], given.draws, effect))


if __name__ == "__main__":
    main()
