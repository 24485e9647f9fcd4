"""Comparability of two results: whether their scores mean the same, and how their settings differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdtools.evaluation.record import evaluation_of

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
_NONE = {"limit": "all", "margin": "none", "text_style": "as given", "streams": "each row by itself"}
# Settings of some kinds of results: if only one of two has it, it differs.
_OF_SOME = ("streams", "warning", "given_trees", "context", "context_parses", "window", "stride")
_NAMES = {
    "limit": "most pairs or prefixes",
    "eos": "end-of-sentence counted",
    "eos_counted": "end-of-sentence counted",
    "bos": "beginning-of-sentence read first",
    "dtype": "type of the weights",
    "cutoff_len": "length limit",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparability:
    """The outcome of comparing how two results were made.

    Attributes:
        refused: the difference in what the scores mean ("results of other sentences than"); None if there is
            none.
        differs: settings that change the numbers, by name: their values in the one and in the other, in
            words.
    """

    refused: str | None
    differs: Mapping[str, str]

    @property
    def notes(self) -> list[str]:
        """The differences, one per line."""
        return list(self.differs.values())


def comparability(a: Mapping[str, Any], b: Mapping[str, Any]) -> Comparability:
    """Compare how two results were made.

    A setting that one of them lacks, as another kind of model may, is not known to differ; for a model
    without search, neither is its beam.

    Args:
        a, b: documents of ``results.json``.
    """
    settings_a, settings_b = (_settings(document) for document in (a, b))
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
        one, other = settings_a.get(name), settings_b.get(name)
        if not in_both or one == other or (name in _NONE_IS_NO_VALUE and None in (one, other)):
            continue
        shown = _NAMES.get(name, name.replace("_", " "))
        if isinstance(one, list) and isinstance(other, list):
            shown = f"{shown}, besides those of both"
            one, other = ([x for x in x_of if x not in y_of] for x_of, y_of in ((one, other), (other, one)))
        differs[name] = f"{shown}: {_value(name, one)} and {_value(name, other)}"
    return Comparability(refused=refused, differs=differs)


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """All settings, including the scorer's."""
    settings = dict(document["settings"])
    scorer = settings.pop("scorer", None)
    return (scorer if isinstance(scorer, dict) else {}) | settings


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
