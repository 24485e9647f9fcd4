"""Effects of stimuli's designs in print: tables, the table of the design, and sentences for a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdtools.evaluation.comparison.designs import DesignEffects
from pdtools.evaluation.comparison.effects import Effect, Float, cells
from pdtools.evaluation.comparison.statistics import deviation
from pdtools.evaluation.intervals import half_width
from pdtools.report.tables import Cell, Number, decimal, listed, print_note, print_table

_MINUS = "\N{MINUS SIGN}"


def print_effects(found: DesignEffects, *, details: bool = False) -> None:
    """Print the effects at the critical region, or at all: a table for each model, and each difference."""
    titles = {place: f"region {found.table.labels[place]}, " for place in found.table.places}
    for place in found.table.places if details else [found.critical]:
        title = titles[place] if len(titles) > 1 else ""
        by_model: dict[str, list[Effect]] = {}
        for effect in found.by_place[place]:
            by_model.setdefault(effect.row()["model"], []).append(effect)
        for model, own in by_model.items():
            numbers = {effect.estimate.items for effect in own}
            df = {round(each, 1) for effect in own if (each := effect.estimate.df) is not None}
            one_df = df.pop() if len(df) == 1 else None
            headings = ["effect", "bits", "95%", "bootstrap", f"t({one_df:g})" if one_df else "t", "p"]
            headings += [] if found.table.slopes is None else ["ms", "ms 95%"]
            rows: list[list[Cell]] = []
            for effect in own:
                of = effect.estimate
                t = None if of.t is None else decimal(of.t, 2)
                if t is not None and one_df is None and of.df is not None:
                    t += f" ({of.df:.3g})"
                ends = [_bounds(of.low, of.high), _bounds(of.boot_low, of.boot_high)]
                cells_of = [*ends, None if t is None else Number(t), None if of.p is None else f"{of.p:.2g}"]
                several = [] if len(numbers) == 1 else [of.items]
                ms = [] if effect.ms is None else [effect.ms[0], _bounds(*effect.ms[1:])]
                rows.append([effect.contrast.name, of.value, *cells_of, *ms, *several])
            said = f", {_number(own)}" if len(numbers) == 1 else ""
            seeds = (
                f", {own[0].estimate.runs} models" if own[0].estimate.runs > 2 - (own[0].less is None) else ""
            )
            items = [] if said else ["items"]
            print_table([*headings, *items], rows, title=f"{title}{model}{said}{seeds}")
            print()
    for note in found.notes:
        print_note(note)
    if any(effect.estimate.p is not None for effect in found.by_place[found.critical]):
        seeds = " and seeds" if found.over_seeds else ""
        print_note(f"95%, t, p: Student's t over items{seeds}; p is not corrected. bootstrap: over items")


def _bounds(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"[{decimal(low, 2)}, {decimal(high, 2)}]"


def complete_cells(found: DesignEffects, members: Sequence[str]) -> tuple[list[int], Float]:
    """The C cells that are compared, and the values (n, C) at the critical region of items that have all.

    Args:
        found: the effects.
        members: models, over which means are taken.
    """
    table = found.table
    of_models = table.values[[table.models.index(model) for model in members]]
    values = of_models[:, table.places.index(found.critical)].mean(0)  # (I, C)
    compared, several = table.compared_cells()
    return compared, values[several & np.isfinite(values[:, compared]).all(1)][:, compared]


def cell_means(values: Float) -> list[tuple[float, float | None, float | None]]:
    """The mean of each condition with its 95% interval within items (Morey 2008).

    Intervals are those of values less their item's mean, whose variance is made C / (C − 1) times as large.

    Args:
        values: (n, C), of items and conditions, without missing ones.
    """
    n, n_cells = values.shape
    within = values - values.mean(1, keepdims=True)
    found: list[tuple[float, float | None, float | None]] = []
    for mean, own in zip(values.mean(0).tolist(), within.T, strict=True):
        spread = deviation(own.tolist())
        if spread is None or n_cells < 2:
            found.append((mean, None, None))
        else:
            half = half_width(spread * math.sqrt(n_cells / (n_cells - 1)), n)
            found.append((mean, mean - half, mean + half))
    return found


def cell_rows(found: DesignEffects) -> tuple[list[str], list[list[Any]]]:
    """The means of the conditions at the critical region, with differences at their margins.

    Columns are the levels of the last factor, and rows those of the others. A last column, or row, for each
    other level has this less the reference; where they meet it is the interaction.
    """
    *rest, last = found.table.factors
    against = [f"{level} {_MINUS} {last.levels[0]}" for level in last.levels[1:]]
    columns = ["model", *(factor.name for factor in rest), *last.levels, *against]
    body: list[list[Any]] = []
    for name, members in found.groups.items():
        kept, values = complete_cells(found, members)
        if not len(values):
            continue
        every = np.full(len(cells(found.table.factors)), np.nan)
        every[kept] = values.mean(0)
        means = every.reshape(-1, len(last.levels))
        labels = cells(rest)
        rows = list(zip(labels, means, strict=True))
        if len(rest) == 1:
            names = [(f"{label[0]} {_MINUS} {labels[0][0]}",) for label in labels]
            rows += [(names[i], means[i] - means[0]) for i in range(1, len(labels))]
        for label, own in rows:
            numbers = [*own.tolist(), *(own[1:] - own[0]).tolist()]
            known = (None if math.isnan(number) else round(number, 4) for number in numbers)
            body.append([name, *label, *known])
    return columns, body


def results_sentence(found: DesignEffects) -> str:
    """The effects at the critical region, as a paper has them: estimate, interval, t, p, items and seeds."""
    by_model: dict[tuple[str | None, str], list[Effect]] = {}
    for effect in found.by_place[found.critical]:
        by_model.setdefault((effect.less, effect.model), []).append(effect)
    where = f"At region {found.label}, with" if len(found.table.places) > 1 else "With"
    parts = []
    for (less, model), own in by_model.items():
        said = "; ".join([_in_words(effect) for effect in own])
        seeds = len(found.groups[model])
        who = f"{model} (mean of {seeds} models)" if seeds > 1 else model
        if less is not None:
            who = f"Between models ({model} {_MINUS} {less}, paired over items)"
        else:
            who, where = f"{where} {who}", "With"
        parts.append(f"{who}, {said} ({_number(own)}).")
    return " ".join(parts)


def _number(own: Sequence[Effect]) -> str:
    least, most = (of(effect.estimate.items for effect in own) for of in (min, max))
    return "1 item" if most == 1 else f"{most} items" if least == most else f"{least} to {most} items"


def _in_words(effect: Effect) -> str:
    of, contrast = effect.estimate, effect.contrast
    if contrast.effect == contrast.name:  # an interaction, of factors with two levels
        text = f"the interaction {contrast.effect}"
    elif " × " in contrast.contrast:
        text = f"the interaction {contrast.effect}, {contrast.contrast},"
    else:
        text = f"the effect of {contrast.effect} ({contrast.contrast})"
    text = f"{text} {'was' if effect.less is None else 'differed by'} {_signed(decimal(of.value, 2))} bits"
    if of.low is None or of.high is None or of.t is None or of.p is None:
        return text
    ends = _ends(of.low, of.high)
    df = "" if of.df is None else f"({of.df:.4g})"
    p = "p < .001" if of.p < 0.001 else f"p = {of.p:.3f}".replace("0.", ".")
    text = f"{text}, 95% CI {ends}, t{df} = {_signed(decimal(of.t, 2))}, {p}"
    ms, low, high = effect.ms or (0.0, None, None)
    if low is None or high is None:
        return text
    return f"{text}, a predicted {_signed(decimal(ms, 1))} ms, 95% CI {_ends(low, high, 1)}"


def _ends(low: float, high: float, digits: int = 2) -> str:
    return f"[{', '.join(_signed(decimal(end, digits)) for end in (low, high))}]"


def _signed(text: str) -> str:
    return text.replace("-", _MINUS)


def methods_sentence(found: DesignEffects, versions: str, hashes: Mapping[str, str]) -> str:
    """The reading of a table, and the meaning of effects, intervals and p, for a paper.

    Args:
        found: the effects.
        versions: the version of pdtools.
        hashes: the SHA-256 of tables, by their names.
    """
    factors = [f"{factor.name} ({', '.join(factor.levels)})" for factor in found.table.factors]
    size = " × ".join(str(len(factor.levels)) for factor in found.table.factors)
    text = f"Surprisals (bits, summed over the tokens of a region) are those of {listed(found.table.models)}."
    if len(factors) > 1:
        text += (
            f" The design is {size} within items, {listed(factors)}; the first level of each factor is"
            " subtracted. A main effect is averaged over the other factors, an interaction is a difference of"
            " differences."
        )
    else:
        text += f" Conditions differ within items: {listed(factors)}."
    over = "items and seeds" if found.over_seeds else "items"
    text += (
        " Effects are means over the items that have all the conditions needed; 95% intervals and p are by"
        f" Student's t over {over}, without correction for several tests."
    )
    if found.table.slopes is not None:
        text += (
            " Milliseconds are predictions: bits times slopes fitted to another corpus, with intervals that"
            " have the errors of both."
        )
    text += f" Effects were computed with {versions}"
    shown = ", ".join(f"{name} {value[:12]}" for name, value in hashes.items())
    return f"{text} from {shown} (SHA-256)." if shown else f"{text}."
