"""Effects in milliseconds: differences between conditions, observed and predicted from bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import interval
from pdtools.evaluation.reading.regression import Float
from pdtools.evaluation.reading.times import ReadingTimes

if TYPE_CHECKING:
    import pyarrow as pa

EFFECTS = "effects"
"""The table of effects in a folder of results."""
REGION = (0, 1, 2)
"""The critical word and the two after it, as numbered in the column ``roi``."""
# Number of bootstrap samples in memory at once.
_AT_ONCE = 250
_WAYS = ("both", "items", "subjects")
"""The units drawn with replacement."""


@dataclass(frozen=True)
class ConditionPair:
    """An effect: the times of one condition minus another's."""

    more: str
    less: str

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.more} − {self.less}"

    @classmethod
    def read(cls, text: str) -> ConditionPair:
        """Parse two names with a comma between them.

        Raises:
            PdtoolsError: if there are not two.
        """
        more, _, less = (part.strip() for part in text.partition(","))
        if not more or not less or "," in less or more == less:
            raise PdtoolsError(f"--predict {text}: has to be two conditions, such as ambiguous,unambiguous")
        return cls(more, less)


def chosen(times: ReadingTimes, text: str) -> NDArray[np.bool_]:
    """The observations that --fit selects: values of the column of conditions, or COLUMN=VALUE,VALUE.

    Raises:
        PdtoolsError: if a value is not in the column, which is then described.
    """
    column, separator, values = text.partition("=")
    wanted = [value.strip() for value in (values if separator else text).split(",")]
    cells = _checked(times, column if separator else times.columns.condition, wanted, f"--fit {text}")
    return np.isin(cells, wanted)


def _checked(times: ReadingTimes, column: str, wanted: Sequence[str], option: str) -> NDArray[np.str_]:
    """The values of a column, (n,), if all wanted ones are there.

    Raises:
        PdtoolsError: naming one that no observation has.
    """
    cells = times.label(column).astype(str)
    there = sorted(set(cells.tolist()))
    for value in wanted:
        if value not in there:
            which = "row with a time" if value in times.label(column, untimed=True) else "row"
            raise PdtoolsError(f"{option}: no {which} has {value!r}, only {', '.join(map(repr, there[:8]))}")
    return cells


@dataclass(frozen=True)
class _Cell:
    """Sums over the observations of a condition at one place, by group of items and subject.

    Attributes:
        number, time: (groups, subjects).
        predictors: (groups, subjects, p).
    """

    number: Float
    time: Float
    predictors: Float

    def means(self, groups: Float, subjects: Float) -> tuple[Float, Float]:
        """Mean time (s,) and mean predictors (s, p), with multiplicities (s, ·) of groups and subjects."""
        number = ((subjects @ self.number.T) * groups).sum(1)
        time = ((subjects @ self.time.T) * groups).sum(1)
        predictors = np.einsum("sg,sgp->sp", groups, np.einsum("su,gup->sgp", subjects, self.predictors))
        with np.errstate(invalid="ignore", divide="ignore"):
            return time / number, predictors / number[:, None]


@dataclass(frozen=True)
class Design:
    """The design matrix of one model.

    Attributes:
        name: the model's name.
        predictors: float64 (W, p), of all words, with a column of ones; NaN where missing.
        surprisal: the column with the word's own surprisal; None: there is none.
    """

    name: str
    predictors: Float
    surprisal: int | None


def predicted_effects(
    times: ReadingTimes,
    plausible: NDArray[np.bool_],
    fitted: NDArray[np.bool_],
    kept: NDArray[np.int64],
    designs: Sequence[Design],
    contrasts: Sequence[ConditionPair],
    *,
    seed: int,
    samples: int,
) -> list[dict[str, Any]]:
    """Each effect at the critical word and after it, observed and as each model predicts it.

    Milliseconds per unit are fitted to mean times of words over subjects; the times of conditions are
    predicted from them. Intervals draw groups of items and subjects with replacement, for the fit and for the
    prediction, and fit anew.

    Args:
        times: reading times in all conditions.
        plausible: bool (n,), observations that count.
        fitted: bool (n,), observations among these that are fitted.
        kept: int64, words that are fitted.
        designs: each model's design matrix.
        contrasts: the effects.
        seed, samples: for the bootstrap.

    Returns:
        For each contrast, place and model: ``human``, ``predicted``, ``ratio`` (each with ``value``, ``low``,
        ``high``), ``bits`` of both conditions, numbers of groups and observations.

    Raises:
        PdtoolsError: if a condition or its critical words are not in the table.
    """
    wanted = [name for each in contrasts for name in (each.more, each.less)]
    options = " ".join(f"--predict {each.more},{each.less}" for each in contrasts)
    conditions = _checked(times, times.columns.condition, wanted, options)
    place = _places(times)
    known = np.logical_and.reduce([~np.isnan(each.predictors).any(1) for each in designs])
    usable = plausible & known[times.word]
    found = []
    fits = [_Conversion(times, plausible & fitted, kept, design.predictors) for design in designs]
    for contrast in contrasts:
        for roi in REGION:
            sides = [
                usable & (place == roi) & (conditions == name) for name in (contrast.more, contrast.less)
            ]
            if not all(side.any() for side in sides):
                if roi:
                    continue
                raise PdtoolsError(
                    f"{contrast.name}: no critical word ({times.columns.roi} 0) has a time and values of all"
                    " models"
                )
            critical = plausible & (place == roi) & np.isin(conditions, [contrast.more, contrast.less])
            excluded = int((critical & ~known[times.word]).sum())
            for design, conversion in zip(designs, fits, strict=True):
                rng = np.random.default_rng(seed)  # people are the same for all models
                found.append(
                    {
                        "contrast": contrast.name,
                        "roi": roi,
                        "model": design.name,
                        **_effect(times, sides, design, conversion, rng, samples),
                        "observations_left_out": excluded,
                    }
                )
    return found


def place_name(roi: int) -> str:
    """A place of :data:`REGION` in words."""
    return f"{roi} after it" if roi else "critical word"


def effects_table(effects: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Effects of :func:`predicted_effects` as a table: a row for each contrast, place and model.

    Columns:
        contrast, roi, model: identify the effect.
        human, human_low, human_high: people's effect and its interval, milliseconds.
        predicted, predicted_low, predicted_high: the effect that the model predicts.
        ratio, ratio_low, ratio_high: predicted by human; null where people's effect may be 0.
        bits, bits_of_less: surprisal in the contrast's first and second condition, or null.
        groups, observations: their numbers.
        observations_left_out: observations of words for which a model has no values.
    """
    import pyarrow as pa

    schema = [("contrast", pa.string()), ("roi", pa.int64()), ("model", pa.string())]
    numbers = ("groups", "observations", "observations_left_out")
    rows = []
    for each in effects:
        row = {name: each[name] for name in ("contrast", "roi", "model", *numbers)}
        for name in ("human", "predicted", "ratio"):
            estimate = each[name] or {}
            row |= {name: estimate.get("value"), f"{name}_low": estimate.get("low")}
            row[f"{name}_high"] = estimate.get("high")
        row["bits"], row["bits_of_less"] = each.get("bits", (None, None))
        rows.append(row)
    estimates = [f"{name}{end}" for name in ("human", "predicted", "ratio") for end in ("", "_low", "_high")]
    schema += [(name, pa.float64()) for name in (*estimates, "bits", "bits_of_less")]
    schema += [(name, pa.int64()) for name in numbers]
    return pa.Table.from_pylist(rows, pa.schema(schema))


def _places(times: ReadingTimes) -> NDArray[np.int64]:
    """Positions of observations' words relative to the critical one, (n,); −1: not in the region."""
    found = np.full(len(times.word), -1)
    for i, cell in enumerate(times.label(times.columns.roi)):
        try:
            found[i] = int(float(cell)) if cell not in ("", "NA") else -1
        except (ValueError, OverflowError) as error:
            raise PdtoolsError(
                f"{times.columns.roi} is {cell!r}: has to be 0 at the critical word, 1 and 2 after it"
            ) from error
    return found


class _Conversion:
    """Least squares on mean times over subjects, for drawn groups and subjects."""

    def __init__(
        self, times: ReadingTimes, which: NDArray[np.bool_], kept: NDArray[np.int64], predictors: Float
    ) -> None:
        self._x = predictors[kept]  # (w, p)
        at = np.full(len(predictors), -1)
        at[kept] = np.arange(len(kept))
        which = which & (at[times.word] >= 0)
        shape = (len(times.subjects), len(kept))
        self._sums, self._numbers = np.zeros(shape), np.zeros(shape)
        np.add.at(self._sums, (times.subject[which], at[times.word[which]]), times.time[which])
        np.add.at(self._numbers, (times.subject[which], at[times.word[which]]), 1)
        names, self._group = np.unique(times.group_of_word[kept], return_inverse=True)
        self.groups = len(names)

    def coefficients(self, groups: Float, subjects: Float) -> Float:
        """Coefficients (s, p), with multiplicities of groups (s, groups) and subjects (s, subjects)."""
        numbers = subjects @ self._numbers
        weights = groups[:, self._group] * (numbers > 0)
        means = np.divide(subjects @ self._sums, numbers, out=np.zeros_like(numbers), where=numbers > 0)
        p = self._x.shape[1]
        products = (self._x[:, :, None] * self._x[:, None]).reshape(-1, p * p)
        gram = (weights @ products).reshape(-1, p, p)
        right = (weights * means) @ self._x
        scale = np.sqrt(np.einsum("spp->sp", gram))
        scale[scale == 0] = 1
        gram = gram / scale[:, :, None] / scale[:, None]
        found: Float = (np.linalg.pinv(gram, hermitian=True) @ (right / scale)[..., None])[..., 0] / scale
        return found


def _effect(
    times: ReadingTimes,
    sides: Sequence[NDArray[np.bool_]],
    design: Design,
    conversion: _Conversion,
    rng: np.random.Generator,
    samples: int,
) -> dict[str, Any]:
    names, group = np.unique(times.group_of_word[times.word[sides[0] | sides[1]]], return_inverse=True)
    of_observation = np.full(len(times.word), -1)
    of_observation[sides[0] | sides[1]] = group
    cells = [_cell(times, side, of_observation, len(names), design.predictors) for side in sides]

    def effects(fitted: Float, predicted: Float, subjects: Float) -> tuple[Float, Float, Float, Float]:
        (time, x), (less, less_x) = (cell.means(predicted, subjects) for cell in cells)
        beta = conversion.coefficients(fitted, subjects)
        return time - less, (beta * (x - less_x)).sum(1), x, less_x

    n_subjects = len(times.subjects)
    ones = [np.ones((1, n)) for n in (conversion.groups, len(names), n_subjects)]
    human, predicted, x, less_x = effects(*ones)
    drawn = {}
    for way in _WAYS:
        sizes = (conversion.groups, len(names), n_subjects)
        every = [np.array(effects(*draw)[:2]) for draw in _draws(sizes, way, rng, samples)]
        values = np.concatenate(every, axis=1)  # (2, samples)
        drawn[way] = values[:, np.isfinite(values).all(0)]
    found: dict[str, Any] = {
        "human": _with_interval(human[0], {way: each[0] for way, each in drawn.items()}),
        "predicted": _with_interval(predicted[0], {way: each[1] for way, each in drawn.items()}),
        "groups": len(names),
        "observations": int(sides[0].sum() + sides[1].sum()),
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        # A ratio to people's effect is of little use if that may be 0.
        sure = found["human"]["low"] > 0 or found["human"]["high"] < 0
        found["ratio"] = (
            _with_interval(predicted[0] / human[0], {way: b / a for way, (a, b) in drawn.items()})
            if sure
            else None
        )
    if design.surprisal is not None:
        found["bits"] = [float(each[0, design.surprisal]) for each in (x, less_x)]
    return found


def _cell(
    times: ReadingTimes,
    side: NDArray[np.bool_],
    group: NDArray[np.int64],
    groups: int,
    predictors: Float,
) -> _Cell:
    place = (group[side], times.subject[side])
    shape = (groups, len(times.subjects))
    number, time = np.zeros(shape), np.zeros(shape)
    sums = np.zeros((*shape, predictors.shape[1]))
    np.add.at(number, place, 1)
    np.add.at(time, place, times.time[side])
    np.add.at(sums, place, predictors[times.word[side]])
    return _Cell(number, time, sums)


def _draws(
    sizes: tuple[int, int, int], way: str, rng: np.random.Generator, samples: int
) -> Iterator[tuple[Float, Float, Float]]:
    """Multiplicities of fitted groups, predicted groups, and subjects, drawn or all 1."""
    for first in range(0, samples, _AT_ONCE):
        rows = min(_AT_ONCE, samples - first)
        fitted, predicted, subjects = (
            np.ones((rows, n))
            if way == kept
            else rng.multinomial(n, np.full(n, 1 / n), rows).astype(np.float64)
            for n, kept in zip(sizes, ("subjects", "subjects", "items"), strict=True)
        )
        yield fitted, predicted, subjects


def _with_interval(value: float, drawn: Mapping[str, Float]) -> dict[str, float]:
    """The quantiles of drawing both, shrunk so that their spread is the two-way clustered one.

    With variances I between items, S between subjects, and N of the residual, drawing items gives I + N,
    subjects S + N, and both I + S + 3 N (Owen 2007), so that I + S + N is 2 (items + subjects) − both.
    """
    both, items, subjects = (float(drawn[way].var()) for way in _WAYS)
    wanted = max(2 * (items + subjects) - both, items, subjects)
    share = min(1.0, float(np.sqrt(wanted / both))) if both > 0 else 1.0
    low, high = interval(drawn["both"])
    return {
        "value": float(value),
        "low": value + share * (low - value),
        "high": value + share * (high - value),
    }
