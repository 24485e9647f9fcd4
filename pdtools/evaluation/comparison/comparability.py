"""Comparability of results: whether scores mean the same, how settings differ, and whether items agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.record import MARGIN, Outcomes, evaluation_of
from pdtools.evaluation.results import STRINGS_TABLE, check_columns, read_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# Inputs that are not the data.
_NOT_DATA = ("model", "strings")

# Settings that describe a model, or repeat others in words; the unit of files of surprisals; and EVALB's
# limit of errors.
_DESCRIPTIONS = (
    *("model", "models", "kind", "words", "marginal", "given_trees_used", "alignment", "objective"),
    "derivations",
    *("unit_of_file", "max_error", "bootstrap_samples", "seed"),
)
# For these, None means unknown, or not applicable.
_NONE_IS_NO_VALUE = ("beam", "eos")
_NONE = {
    "limit": "all",
    "margin": "none",
    "text_style": "as given",
    "streams": "each row by itself",
    "pll": "none (probabilities)",
}
# Settings of some kinds of results: if only one of two has it, it differs.
_OF_SOME = ("streams", "warning", "pll", "given_trees", "context", "context_parses", "window", "stride")
_NAMES = {
    "limit": "most pairs or prefixes",
    "eos": "end-of-sentence counted",
    "eos_counted": "end-of-sentence counted",
    "bos": "beginning-of-sentence read first",
    "dtype": "type of the weights",
    "cutoff_len": "length limit",
    "pll": "pseudo-log-likelihoods",
}


def comparability(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str | None, dict[str, str]]:
    """Compare how two results were made.

    A setting that one of them lacks, as another kind of model may, is not known to differ; for a model
    without search, neither is its beam.

    Args:
        a, b: documents of ``results.json``.

    Returns:
        The difference in what the scores mean ("other sentences"), or None; and, by name, the settings that
        change the numbers: their values in the one and in the other, in words.
    """
    settings_a, settings_b = a["settings"], b["settings"]
    record = evaluation_of(a)
    same = {"task": "another evaluation", **(record.same if record else {})}
    refused = _other_data(a, b, record.data if record else None)
    for name, reason in reversed(same.items()):
        known = (settings_a.get(name), settings_b.get(name))
        if known[0] != known[1] and (name != "text_sha256" or None not in known):
            refused = reason
    differs = {}
    for name in {**settings_a, **settings_b}:
        is_of_end = record is not None and record.ignores_end and name.startswith("eos")
        if name in same or name in _DESCRIPTIONS or is_of_end:
            continue
        if name == "margin" and None in (settings_a.get("beam"), settings_b.get("beam")):
            continue
        in_both = (name in settings_a and name in settings_b) or name in _OF_SOME
        # The warning of pseudo-log-likelihoods says no more than their pll.
        one, other = (
            None if name == "warning" and "pll" in each else each.get(name)
            for each in (settings_a, settings_b)
        )
        if not in_both or one == other or (name in _NONE_IS_NO_VALUE and None in (one, other)):
            continue
        shown = _NAMES.get(name, name.replace("_", " "))
        if isinstance(one, list) and isinstance(other, list):
            shown = f"{shown}, besides those of both"
            one, other = ([x for x in x_of if x not in y_of] for x_of, y_of in ((one, other), (other, one)))
        differs[name] = f"{shown}: {_value(name, one)} and {_value(name, other)}"
    return refused, differs


def _other_data(a: Mapping[str, Any], b: Mapping[str, Any], data: str | None) -> str | None:
    if data is None:
        return None
    read_a, read_b = (_inputs(document) for document in (a, b))
    for role in sorted(read_a.keys() & read_b.keys()):
        if role.startswith(data) and role not in _NOT_DATA:
            one, other = (read[role].get("sha256") for read in (read_a, read_b))
            if one is not None and other is not None and one != other:
                return f"other data ({read_b[role].get('path')}, not {read_a[role].get('path')})"
    return None


def _inputs(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The inputs by role, without entries that are not in provenance's form."""
    described: Any = document
    for name in ("provenance", "inputs"):
        described = described.get(name) if isinstance(described, dict) else None
    inputs = described if isinstance(described, dict) else {}
    return {role: read for role, read in inputs.items() if isinstance(read, dict)}


def _value(name: str, value: Any) -> str:
    if value is None or value == []:
        return _NONE.get(name, "none")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join("=".join(map(str, each)) if isinstance(each, list) else str(each) for each in value)
    return str(value)


# --- items --------------------------------------------------------------------------------------

_KINDS = {"item": "names", "prediction": "integers"}
_OF_STRINGS = {
    "item": "names",
    "string": "strings",
    "region": "integers",
    "context": "strings",
    "text": "strings",
}


@dataclass(frozen=True, kw_only=True)
class RunItems:
    """The items of one run.

    Attributes:
        folder: the folder of the results.
        places: the row of each item, by its key.
        columns: the items' columns, by name; ``correct`` is None for an item without a score, and
            ``margin_bits``, of results that have it, for one without a margin. ``strings``, of results that
            have them: the texts of its strings.
    """

    folder: str | Path
    places: Mapping[tuple[Any, ...], int]
    columns: Mapping[str, list[Any]]

    @property
    def has_margins(self) -> bool:
        """Return whether an item has a margin: with ``--beam auto``, for one, none has."""
        return any(margin is not None for margin in self.columns.get(MARGIN, ()))


def read_items(table: pa.Table, folder: str | Path, outcomes: Outcomes) -> RunItems:
    """Read the items of an evaluation with right and wrong answers.

    Raises:
        InputError: for items that are not in the evaluation's form.
    """
    kinds = {name: _KINDS.get(name, "strings") for name in outcomes.columns}
    has_margins = outcomes.margin is not None and MARGIN in table.column_names
    kinds |= {"correct": "booleans"} | ({MARGIN: "numbers"} if has_margins else {})
    check_columns(table, kinds, folder)
    for name in (*outcomes.key, outcomes.unit):
        if table[name].null_count:
            raise InputError(f"items: column {name} has a null", file=folder)
    columns = {
        name: table[name].to_pylist() for name in (*outcomes.columns, *([MARGIN] if has_margins else []))
    }
    keys = list(zip(*(columns[name] for name in outcomes.key), strict=True))
    places = {key: place for place, key in enumerate(keys)}
    if len(places) < len(keys):
        raise InputError(f"items: two with the same {', '.join(outcomes.key)}", file=folder)
    if (strings := read_table(folder, STRINGS_TABLE, [outcomes.unit, *_OF_STRINGS])) is not None:
        check_columns(strings, {outcomes.unit: "strings", **_OF_STRINGS}, folder, what="strings")
        texts: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        listed = [strings[name].to_pylist() for name in (outcomes.unit, *_OF_STRINGS)]
        for unit, item, role, region, context, text in zip(*listed, strict=True):
            if region is not None or text:  # not the end, which only some models count
                texts.setdefault((unit, item), []).append((role, region, context, text))
        of_items = zip(columns[outcomes.unit], columns["item"], strict=True)
        columns[STRINGS_TABLE] = [texts.get(each) for each in of_items]
    return RunItems(folder=folder, places=places, columns=columns)


def check_same(first: RunItems, other: RunItems, outcomes: Outcomes) -> None:
    """Refuse a run over other items.

    Raises:
        PdtoolsError: naming an item that only one of the two has, or that differs between them.
    """
    if first.places.keys() != other.places.keys():
        key = min(first.places.keys() ^ other.places.keys(), key=lambda key: tuple(map(str, key)))
        raise PdtoolsError(
            f"{first.folder} and {other.folder} are not about the same items: only one has {_named(key)}"
        )
    both = first.columns.keys() & other.columns.keys() & {STRINGS_TABLE}
    for key, place in first.places.items():
        there = other.places[key]
        content = (*outcomes.content, *both)
        if any(first.columns[name][place] != other.columns[name][there] for name in content):
            raise not_the_same(_named(key), first.folder, other.folder)


def not_the_same(item: str, first: str | Path, other: str | Path) -> PdtoolsError:
    """An error for an item that two runs describe differently."""
    return PdtoolsError(f"{first} and {other}: item {item} is not the same in both")


def _named(key: tuple[Any, ...]) -> str:
    return " ".join(map(str, key))


def in_all(runs: Sequence[RunItems], column: str) -> list[list[Any]]:
    """A column of items in runs: (items, runs), items in the order of the first run."""
    return [[run.columns[column][run.places[key]] for run in runs] for key in runs[0].places]


def which_count(items: RunItems) -> NDArray[np.bool_]:
    """Mask of the items that count, bool (items): for SG, first predictions."""
    import numpy as np

    predictions = items.columns.get("prediction") or [1] * len(items.places)
    return np.array([prediction == 1 for prediction in predictions], dtype=bool)


def groups_of(
    outcomes: Outcomes, columns: Mapping[str, Sequence[Any]]
) -> list[tuple[str, str, NDArray[np.int64]]]:
    """Groups of items as (level, name, indices of items), overall first."""
    import numpy as np

    units = np.array(columns[outcomes.unit])
    in_overall = np.array([unit not in outcomes.outside for unit in units], dtype=bool)
    groups = [("overall", "", np.flatnonzero(in_overall))]
    for level in outcomes.levels:
        names = np.array(columns[level], dtype=object)
        groups += [
            (level, name, np.flatnonzero((names == name) & in_overall))
            for name in sorted(set(names[in_overall]) - {None})
        ]
    groups += [(outcomes.unit, str(name), np.flatnonzero(units == name)) for name in np.unique(units)]
    return [group for group in groups if len(group[2])]


def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of right answers, in percent."""
    return 100 * means(sums)


def means(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of a number."""
    return sums[..., 0] / sums[..., 1]
