"""Reading times on the page of evaluations: milliseconds of effects and of bits, and gains in likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pdtools.evaluation.comparison.statistics import Spread
from pdtools.evaluation.reading.effects import place_name
from pdtools.evaluation.record import COUNT, NUMBER, OBJECT, OBJECT_OR_NULL, STRING
from pdtools.evaluation.results import RESULTS, check_values
from pdtools.report.evaluations import digits_of_gain
from pdtools.report.tables import decimal, decimals
from pdtools.report.view.charts import dots
from pdtools.report.view.drawing import Drawing
from pdtools.report.view.loaded import Loaded

PEOPLE = "people"
_ESTIMATE = ("value", "low", "high")
_GAIN = ("delta_ll", "low", "high")
_RATIO = ("ratio", "ratio_low", "ratio_high")
_NORMAL = 1.959963984540054  # standard deviations on each side that hold 95% of a normal distribution
_READ = {
    "contrast": STRING,
    "roi": COUNT,
    "model": STRING,
    "groups": COUNT,
    **{f"{of}.{name}": NUMBER for of in ("human", "predicted") for name in _ESTIMATE},
    "ratio": OBJECT_OR_NULL,
}
"""The kinds of the values of an effect."""


def _parts(of_task: Sequence[Loaded], _: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Charts of eval-reading's results, milliseconds first; two of each if there are groups of seeds."""
    for each in of_task:
        _check(each)
    runs = _charts(of_task)
    together = _of_seeds(of_task)
    if len(together) == len(of_task):
        return {"drawn": runs}, {}
    said = " Runs that differ only in seed are one dot; its interval is over seeds too (Student's t)."
    return {"drawn": [{**each, "said": each["said"] + said} for each in _charts(together)], "runs": runs}, {}


def _charts(of_task: Sequence[Loaded]) -> list[dict[str, Any]]:
    drawn = [_effects(of_task), _milliseconds(of_task), _gains(of_task)]
    return [each for each in drawn if each["rows"]]


def _of_seeds(of_task: Sequence[Loaded]) -> list[Loaded]:
    """Runs that differ only in seed, merged.

    Not merged are runs with several models each, regressions on other words, or other effects of people.
    """
    groups: dict[str, list[Loaded]] = {}
    for each in of_task:
        groups.setdefault(each.group or each.model, []).append(each)
    found = []
    for members in groups.values():
        first, *others = map(_regressed, members)
        is_one = others and first is not None and all(each == first for each in others)
        found += [_mean(members)] if is_one else members
    return found


def _regressed(each: Loaded) -> tuple[Any, ...] | None:
    """The properties that merged runs have in common; None for several models."""
    document = each.document
    if len(document["scores"]["by_model"]) != 1:
        return None
    (model,) = document["scores"]["by_model"].values()
    effects = [
        (of["contrast"], of["roi"], of["human"], of["groups"]) for of in document["scores"].get("effects", [])
    ]
    counts, baseline = document["counts"]["words_regressed"], document["settings"].get("baseline")
    return effects, list(model.get("coefficients") or {}), counts, baseline


def _mean(members: Sequence[Loaded]) -> Loaded:
    """Merge runs into one, whose estimates are means."""
    first, scores = members[0], [each.document["scores"] for each in members]
    models = [next(iter(each["by_model"].values())) for each in scores]
    mean: dict[str, Any] = dict(
        zip(_GAIN, _over_seeds([[of[name] for name in _GAIN] for of in models]), strict=True)
    )
    mean["coefficients"] = {
        name: {"sum": {"for_new": _estimates([_sum(of["coefficients"][name]) for of in models])}}
        for name in models[0].get("coefficients") or {}
    }
    effects = []
    for of in zip(*(each.get("effects", []) for each in scores), strict=True):
        ratios = [each["ratio"] for each in of]
        effects.append(
            {
                **of[0],
                "model": first.group,
                "predicted": _estimates([each["predicted"] for each in of]),
                "ratio": None if None in ratios else _estimates(ratios),
            }
        )
    document = {**first.document, "scores": {"by_model": {first.group: mean}, "effects": effects}}
    return replace(first, model=first.group, document=document)


def _sum(coefficients: Mapping[str, Any]) -> Mapping[str, float]:
    """The sum over a word and those before it, with its interval for other items and readers."""
    found: Mapping[str, float] = coefficients["sum"]["for_new"]
    return found


def _estimates(of: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found = _over_seeds([[each[name] for name in _ESTIMATE] for each in of])
    return dict(zip(_ESTIMATE, found, strict=True))


def _over_seeds(of: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The mean of runs' (value, low, high) and its 95% interval, for other seeds and other items.

    Runs share their items, so the mean varies over items as one run does.
    """
    values = [value for value, _, _ in of]
    items = sum(((high - low) / (2 * _NORMAL)) ** 2 for _, low, high in of) / len(of)
    mean = sum(values) / len(values)
    return mean, *Spread.of(items, values).interval(mean)


def _check(each: Loaded) -> None:
    """Refuse effects and coefficients that cannot be drawn."""
    file, scores = each.folder / RESULTS, each.document["scores"]
    effects = scores.get("effects", [])
    found = {"effects": dict(enumerate(effects)) if isinstance(effects, list) else effects}
    check_values(found, {f"effects.*.{name}": kind for name, kind in _READ.items()}, file, optional=" ")
    for ratio in (effect["ratio"] for effect in effects):
        check_values({"ratio": ratio}, {f"ratio.{name}": NUMBER for name in _ESTIMATE if ratio}, file)
    for model in scores["by_model"].values():
        check_values(model, {"coefficients": OBJECT}, file)
        of = {f"coefficients.*.sum.for_new.{name}": NUMBER for name in _ESTIMATE}
        check_values(model, of, file, optional="" if not model.get("coefficients") else " ")


def _name(each: Loaded, name: str, of_task: Sequence[Loaded]) -> str:
    """A series' name: with several results, models have their folders' names too; single ones only these."""
    if len(of_task) == 1:
        return name
    is_single = len(each.document["scores"]["by_model"]) == 1 and name != PEOPLE
    return each.model if is_single else f"{each.model}: {name}"


def _effects(of_task: Sequence[Loaded]) -> dict[str, Any]:
    """People's effects and each model's predictions, by contrast and place."""
    found = [(each, effect) for each in of_task for effect in each.document["scores"].get("effects", [])]
    people: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _, effect in found:
        of_place = people.setdefault((effect["contrast"], effect["roi"]), [])
        if effect["human"] not in of_place:
            of_place.append(effect["human"])
    # Results with other texts, or with values missing for other words, have their own effects of people.
    is_one = all(len(of_place) == 1 for of_place in people.values())
    by_place: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for each, effect in found:
        observed = PEOPLE if is_one else _name(each, PEOPLE, of_task)
        rows = by_place.setdefault((effect["contrast"], effect["roi"]), {})
        rows.setdefault(observed, _row(effect, observed, effect["human"], None))
        model = _name(each, effect["model"], of_task)
        rows[model] = _row(effect, model, effect["predicted"], effect["ratio"])
    listed = [
        row for of in by_place.values() for row in sorted(of.values(), key=lambda row: not _is_people(row))
    ]
    series = {row["series"]: _is_people(row) for row in listed}
    return {
        "name": "effects",
        "title": "Effects: people's, and those that models predict, ms",
        "said": "Dots with 95% intervals (items and subjects drawn with replacement, of what is fitted and of"
        " what is predicted). Dashed: no effect. Ratio: predicted to people's, where that is not 0 for sure.",
        "columns": [
            ["panel", "effect"],
            ["name", "place"],
            ["series", "of"],
            ["score", "ms"],
            ["low", "from"],
            ["high", "to"],
            ["ratio", "ratio"],
            ["ratio_low", "ratio from"],
            ["ratio_high", "ratio to"],
            ["n", "items"],
        ],
        "rows": listed,
        "chart": dots(
            series=[name for name, is_observed in series.items() if not is_observed],
            observed=[name for name, is_observed in series.items() if is_observed],
            title="effect (ms)",
            chance=0.0,
            shares=False,
            panels=list(dict.fromkeys(row["panel"] for row in listed)),
        ),
        "beside": _side_by_side(listed, series),
    }


def _row(
    effect: Mapping[str, Any], series: str, estimate: Mapping[str, float], ratio: Mapping[str, float] | None
) -> dict[str, Any]:
    return {
        "panel": effect["contrast"],
        "name": place_name(effect["roi"]),
        "series": series,
        **_scores(estimate),
        **{name: (ratio or {}).get(of) for name, of in zip(_RATIO, _ESTIMATE, strict=True)},
        "n": effect["groups"],
        "digits": decimals(*(estimate[name] for name in _ESTIMATE)),
    }


def _is_people(row: Mapping[str, Any]) -> bool:
    name: str = row["series"]
    return name == PEOPLE or name.endswith(f": {PEOPLE}")


def _scores(estimate: Mapping[str, float]) -> dict[str, float]:
    return {"score": estimate["value"], "low": estimate["low"], "high": estimate["high"]}


def _side_by_side(rows: Sequence[Mapping[str, Any]], series: Mapping[str, bool]) -> dict[str, Any]:
    """Milliseconds of people and of each model, with ratios: a row for each contrast and place."""
    columns = ["effect", "place"]
    for name, is_observed in series.items():
        columns += [f"{name} (ms)"] if is_observed else [f"{name} (ms)", "ratio"]
    by_place: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_place.setdefault((row["panel"], row["name"]), {})[row["series"]] = row
    listed = []
    for place, of in by_place.items():
        cells: list[str | None] = [*place]
        for name, is_observed in series.items():
            estimate = of.get(name)
            cells.append(None if estimate is None else _estimate(estimate))
            if not is_observed:
                ratio = None if estimate is None else estimate["ratio"]
                cells.append(None if ratio is None else _signed(decimal(ratio, 2)))
        listed.append(cells)
    return {"columns": columns, "rows": listed}


def _estimate(row: Mapping[str, Any]) -> str:
    score, low, high = (_signed(decimal(row[name], row["digits"])) for name in ("score", "low", "high"))
    return f"{score} [{low}, {high}]"


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def _milliseconds(of_task: Sequence[Loaded]) -> dict[str, Any]:
    """Milliseconds per unit of each predictor: for a word and the words before it together."""
    rows = [
        {
            "name": predictor,
            "series": _name(each, name, of_task),
            **_scores(_sum(found)),
            "n": each.document["counts"]["words_regressed"],
            "digits": decimals(*(_sum(found)[name] for name in _ESTIMATE)),
        }
        for each in of_task
        for name, model in each.document["scores"]["by_model"].items()
        for predictor, found in (model.get("coefficients") or {}).items()
    ]
    series = list(dict.fromkeys(row["series"] for row in rows))
    units = "bit" if all(row["name"] != "closed" for row in rows) else "bit or constituent"
    return {
        "name": "milliseconds",
        "title": f"Milliseconds a {units}",
        "said": "The sum over a word and those before it, fitted to all words, with 95% intervals for"
        " other items and readers. Dashed: none.",
        "columns": [["name", "predictor"], ["series", "model"], *_COLUMNS],
        "rows": rows,
        "chart": dots(series=series, title=f"ms a {units}", chance=0.0, shares=False),
    }


_COLUMNS = [["score", "ms"], ["low", "from"], ["high", "to"], ["n", "words"]]


def _gains(of_task: Sequence[Loaded]) -> dict[str, Any]:
    """Each model's gain over its baseline, nats per word; with several results, named with folders."""
    rows = []
    for each in of_task:
        baseline = " + ".join(each.document["settings"].get("baseline", [])) or "the baseline"
        for name, found in each.document["scores"]["by_model"].items():
            gain = [found[name] for name in _GAIN]
            rows.append(
                {
                    "name": f"over {baseline}",
                    "series": _name(each, name, of_task),
                    **dict(zip(("score", "low", "high"), gain, strict=True)),
                    "n": each.document["counts"]["words_regressed"],
                    "digits": digits_of_gain(gain),
                }
            )
    series = list(dict.fromkeys(row["series"] for row in rows))
    return {
        "name": "gains",
        "title": "Held-out log-likelihood over the baseline, nats a word",
        "said": "Dots with 95% intervals (items drawn with replacement). Dashed: the baseline.",
        "columns": [["series", "model"], ["score", "ΔLL"], *_COLUMNS[1:]],
        "rows": rows,
        "chart": dots(series=series, title="ΔLL (nats a word)", chance=0.0, shares=False),
    }


READING = Drawing(parts=_parts)
"""The drawing of reading-time predictors."""
