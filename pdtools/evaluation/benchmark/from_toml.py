"""Benchmarks from TOML files: the keys of each part, and their checks.

Keys:
    files: patterns of file names (``"*/data.tsv"``), in a folder or zip.
    path: a regular expression for paths (RE2: no lookaround), whose groups are columns, in place of a row's
        own of that name: ``"(?P<language>[a-z]+)_evalset/"``.
    form: odd forms: ``kind``, ``delimiter``, ``quote``, ``header``, ``skip`` (lines). Without ``quote``,
        quotes around whole cells of TSV are undone.
    rows: rows that make one item: ``{ every = 2, as = ["bad", "good"] }``; ``{ every = 2, role = "{1}", good
        = "True", bad = "False" }``; or ``by = "{item}"`` instead of ``every``.
    [strings]: templates over columns, ``file``, ``dir`` and ``row``: ``"{good.text}"`` of the row ``good``;
        ``"{choices.text}"``, a key in JSON and Parquet, of each object of a list; filters after a bar:
        ``replace:_: ``, ``split:,``, a number, ``lower``, ``upper``, ``capitalize``, ``strip``. With ``{
        context = "{prefix}", text = "{form}" }`` only the text is scored, given the context.
    options: one of several is right: ``{ texts = "{options}", right = 0 }``, with or without ``context``.
        ``right`` is an index, from 0; the text; or one of ``labels`` (``["A", "B"]``, or a row's own,
        ``"{choices.label}"``). ``missing = true`` leaves out options with an empty or missing column.
    [predictions]: formulas: ``main = "t1_c1 > t1_c2 & t2_c2 > t2_c1"``, ``"right > max(others)"``; ``main``
        counts. Default: ``good > bad``.
    [scores]: what predictions compare: ``sum``, ``per_token``, ``per_character``, ``per_byte``, ``per_word``,
        ``{ slln = 0.5 }`` (a power from 0 to 10).
    [levels]: groups of items, the finest last; the overall score is the mean of the finest. If levels cross,
        the finest are the combinations, and the levels' scores are over their items. ``{ flags = ["binding",
        "NPI"] }``: true-or-false columns; an item may be in several.
    [chance]: the score of guessing, by prediction.
    label, threshold: instead of predictions: acceptability, ``threshold = { from = "*train*" }``.
    value: instead of predictions: ``{ column = "ratio", against = "a - b", correlation = "spearman" }``.
    suites: ``true``: SyntaxGym files, with their own items and predictions.
    reader: for files that are no tables (``pdtools/evaluation/benchmark/readers.py``).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.definition import (
    KINDS,
    OTHERS,
    RIGHT,
    RIGHT_IS_HIGHEST,
    SCORES,
    Benchmark,
    Options,
    Rows,
    Text,
    formula_of,
    option_name,
)
from pdtools.evaluation.benchmark.item_set import Label, Score, Value
from pdtools.evaluation.benchmark.readers import READERS
from pdtools.evaluation.benchmark.templates import Template
from pdtools.evaluation.record import MARGIN
from pdtools.files.typed_values import TomlFiles

BENCHMARKS = TomlFiles("benchmarks", "benchmark")
# Columns of the tables of results, whose names no level may have.
_TAKEN = {
    *("item", "prediction", "group", "formula", "outcome", "correct", MARGIN, "beam", "margin", "reason"),
    *("string", "region", "name", "context", "text", "read", "tokens", "bits", "surprisals", "dropped"),
    *("overall", "score", "acceptable", "value"),
}
_LARGEST = sys.float_info.max
_LARGEST_POWER = 10  # papers take powers below 1
_MOST_SKIPPED = 1_000_000
_NAME = re.compile(r"[A-Za-z]\w*")
_ABOUT = ("title", "right", "cite", "url", "licence", "get")


def read_benchmark(source: str) -> Benchmark:
    """A benchmark by its bundled name, or from a TOML file.

    Raises:
        InputError: if there is no such benchmark, or the file defines none.
    """
    return benchmark_from(BENCHMARKS.read(source), source, Path(source).stem)


def benchmark_from(table: Mapping[str, Any], place: str, name: str) -> Benchmark:
    """A benchmark from the content of a TOML file.

    Args:
        place: the name for messages.
        name: the benchmark's name.

    Raises:
        InputError: naming the place and the fault.
    """
    try:
        return _benchmark(table, name)
    except PdtoolsError as error:
        raise InputError(str(error), file=place) from None


def benchmark_of_columns(name: str, good: str, bad: str, levels: Sequence[str]) -> Benchmark:
    """A benchmark of pairs in two columns, with groups in others.

    Raises:
        PdtoolsError: for a column that no template can name.
    """
    named: dict[str, str] = {}
    for level in levels:
        key = re.sub(r"^(?=[\W\d])|\W+", "_", level).strip("_") or "level"
        if not _NAME.fullmatch(key) or key in _TAKEN:
            key = f"level_{key}"
        if key in named:
            raise PdtoolsError(f"--level {named[key]} and --level {level} are both called {key}")
        named[key] = level
    table = {
        "title": name,
        "strings": {"good": _column(good), "bad": _column(bad)},
        "levels": {key: _column(level) for key, level in named.items()},
    }
    return benchmark_from(table, "--good, --bad, --level", name)


def _column(name: str) -> str:
    return name if "{" in name else f"{{{name}}}"


# --- kinds of values --------------------------------------------------------------------------

Kind = Callable[[Any, str], Any]
"""A check of a value, which messages call by the second argument; it returns what the value stands for."""


def _plain(kind: type, called: str) -> Kind:
    def check(given: Any, where: str) -> Any:
        return given if type(given) is kind else _refuse(f"{where} has to be {called}")

    return check


def _number(low: float, high: float, called: str, kinds: tuple[type, ...] = (int, float)) -> Kind:
    def check(given: Any, where: str) -> Any:
        is_number = type(given) in kinds and low <= given <= high
        return given if is_number else _refuse(f"{where} has to be {called}")

    return check


def _one_of(known: Collection[str]) -> Kind:
    def check(given: Any, where: str) -> str:
        is_known = isinstance(given, str) and given in known
        return given if is_known else _refuse(f"{where} has to be one of {', '.join(known)}")

    return check


def _table(kinds: Mapping[str, Kind], needed: Sequence[str] = ()) -> Kind:
    """A table with these keys, some of which it needs."""

    def check(given: Any, where: str) -> dict[str, Any]:
        given = _any_table(given, where)
        if unknown := next((key for key in given if key not in kinds), None):
            _refuse(f"{where or 'a benchmark'} has no {unknown!r} (known: {', '.join(kinds)})")
        if missing := [key for key in needed if key not in given]:
            _refuse(f"{where} has to say {' and '.join(missing)}")
        return {key: kinds[key](value, f"{where}.{key}" if where else key) for key, value in given.items()}

    return check


def _each(kind: Kind) -> Kind:
    """A table with any keys."""

    def check(given: Any, where: str) -> dict[str, Any]:
        return {key: kind(value, f"{where}.{key}") for key, value in _any_table(given, where).items()}

    return check


_string, _flag = _plain(str, "a string"), _plain(bool, "true or false")
_any_table = _plain(dict, "a table")


def _strings(given: Any, where: str) -> tuple[str, ...]:
    every = [given] if isinstance(given, str) else given
    if not isinstance(every, (list, tuple)) or not all(isinstance(each, str) for each in every):
        _refuse(f"{where} has to be a list of strings")
    return tuple(every)


def _template(given: Any, where: str) -> Template:
    try:
        return Template.parse(_string(given, where))
    except PdtoolsError as error:
        _refuse(str(error) if str(error).startswith(where) else f"{where}: {error}")


def _templates(given: Any, where: str) -> tuple[Template, ...]:
    return tuple(_template(each, where) for each in _strings(given, where))


def _score(given: Any, where: str) -> Score:
    if isinstance(given, dict):
        return Score("slln", float(_table({"slln": _POWER}, ["slln"])(given, where)["slln"]))
    return Score(_one_of(SCORES)(given, where))


def _rows(given: Any, where: str) -> Rows:
    known = {"every": _EVERY, "by": _template, "role": _template, "as": _strings}
    given = _any_table(given, where)
    found = _table(known)({key: value for key, value in given.items() if key in known}, where)
    roles = _each(_string)({key: value for key, value in given.items() if key not in known}, where)
    names = found.pop("as", None)
    if ("every" in found) == ("by" in found):
        _refuse("rows has either every, a number of rows, or by, a template of what they share")
    if ("role" in found) == (names is not None):
        _refuse("rows has either as, the rows' names in their order, or role, a template of what a row is")
    if names is not None:
        if roles or len({*names}) != found.get("every"):
            _refuse("rows.as has a name for each of rows.every rows, and nothing beside it")
        roles = dict.fromkeys(names, "")
    elif len({*roles.values()}) < max(2, len(roles), found.get("every", 0)):
        _refuse('rows.role goes with a name for each value of it: good = "True", bad = "False"')
    return Rows(roles, **found)


def _text(given: Any, where: str) -> Text:
    if isinstance(given, str):
        return Text(_template(given, where))
    if not isinstance(given, dict):
        _refuse(f"{where} has to be a template, or a table of context and text")
    kinds = {"context": _template, "text": _template, "blank": _string}
    return Text(**_table(kinds, ["context", "text"])(given, where))


def _options(given: Any, where: str) -> Options:
    kinds: dict[str, Kind] = {
        "texts": _templates,
        "right": lambda right, where: right if type(right) is int else _template(right, where),
        "context": _template,
        "blank": _string,
        "labels": _templates,
        "missing": _flag,
    }
    return Options(**_table(kinds, ["texts", "right"])(given, where))


def _level(given: Any, where: str) -> Template | tuple[str, ...]:
    """The template of a level, or the columns of flags."""
    if not isinstance(given, dict):
        return _template(given, where)
    return tuple(_table({"flags": _strings}, ["flags"])(given, where)["flags"])


def _label(given: Any, where: str) -> Label:
    given = given if isinstance(given, dict) else {"value": given}
    kinds = {"value": _template, "good": _string, "bad": _string}
    return Label(**_table(kinds, ["value"])(given, where))


def _threshold(given: Any, where: str) -> dict[str, Any]:
    if isinstance(given, dict):
        return {"source": _table({"from": _string}, ["from"])(given, where)["from"]}
    called = 'a number, or {from = "*train*"}, files that it is chosen on'
    return {"threshold": _number(-_LARGEST, _LARGEST, called)(given, where)}


def _value(given: Any, where: str) -> Value:
    kinds: dict[str, Kind] = {
        "column": lambda column, where: _template(_column(_string(column, where)), where),
        "against": _string,
        "correlation": _one_of(["spearman", "pearson"]),
    }
    return Value(**_table(kinds, ["column", "against"])(given, where))


_POWER = _number(0, _LARGEST_POWER, f"a power of the number of tokens, from 0 to {_LARGEST_POWER}")
_EVERY = _number(2, _LARGEST, "a number from 2 on", (int,))
_SKIPPED = _number(0, _MOST_SKIPPED, f"a number of lines, from 0 to {_MOST_SKIPPED:,}", (int,))
_FORM = {"kind": _one_of(KINDS), "delimiter": _string, "quote": _flag, "header": _flag, "skip": _SKIPPED}
_PARTS: dict[str, Kind] = {
    **dict.fromkeys(_ABOUT, _string),
    "files": _strings,
    "path": _string,
    "form": _table(_FORM),
    "reader": _one_of(READERS),
    "rows": _rows,
    "strings": _each(_text),
    "options": _options,
    "predictions": _each(_string),
    "scores": _each(_score),
    "levels": _each(_level),
    "chance": _each(_number(0, 1, "a number from 0 to 1")),
    "label": _label,
    "threshold": _threshold,
    "value": _value,
    "published": _any_table,
    "suites": _flag,
}


# --- what the parts are together --------------------------------------------------------------


def _benchmark(table: Mapping[str, Any], name: str) -> Benchmark:
    parts = _table(_PARTS)(table, "")
    about = {key: parts.pop(key) for key in _ABOUT if key in parts}
    if parts.get("suites"):
        if other := next((key for key in parts if key not in ("files", "published", "suites")), None):
            _refuse(f"a benchmark of suites has no {other!r}")
        return Benchmark(name=name, about=about, **parts)
    strings, options = parts.setdefault("strings", {}), parts.get("options")
    if not strings and options is None:
        _refuse('no strings: [strings] has templates such as good = "{sentence_good}", or options')
    for string in strings:
        if string in (RIGHT, OTHERS, "max", "min") or string.startswith(option_name(0)[:-1]):
            reason = "a string cannot be called that, which formulas have in another sense"
            _refuse(f"strings.{string}: {reason}")
        _check_name(string, f"strings.{string}: a string")
    if len(parts.get("form", {}).get("delimiter", ",")) != 1:
        _refuse("form.delimiter has to be one character")
    parts["label"] = _labelled(parts)
    parts["predictions"] = predictions = _predictions(parts)
    for key in ("scores", "chance"):
        if other := next((name for name in parts.get(key, ()) if name not in predictions), None):
            _refuse(f"{key}: of predictions has no {other!r} (known: {', '.join(predictions)})")
    parts["scores"] = {each: parts.get("scores", {}).get(each, Score()) for each in predictions}
    levels = parts.pop("levels", {})
    for level in levels:
        _check_name(level, f"levels.{level}: a level")
        if level in _TAKEN:
            reason = "a level cannot be called that, as a column of the results is"
            _refuse(f"levels.{level}: {reason}: another name is needed, such as my_{level}")
    flags = {level: of for level, of in levels.items() if isinstance(of, tuple)}
    named = {level: of for level, of in levels.items() if level not in flags}
    kept = {key: each for key, each in table.items() if key not in (*_ABOUT, "published")}
    return Benchmark(
        name=name,
        about=about,
        levels=named or {"file": Template.parse("{file}")},
        flags=flags,
        digest=_digest(kept),
        **parts,
    )


def _labelled(parts: dict[str, Any]) -> Label | None:
    label: Label | None = parts.get("label")
    threshold = parts.pop("threshold", None)
    if (label is None) != (threshold is None):
        _refuse(
            'label and threshold go together: a number, or {from = "*train*"}, files that it is chosen on'
        )
    if label is None:
        return None
    if len(parts["strings"]) != 1 or label.good == label.bad:
        _refuse("label is of one string, and has a value, one for good and one for bad")
    return replace(label, **threshold)


def _predictions(parts: Mapping[str, Any]) -> dict[str, str]:
    """The formulas, the main one first; of labels or numbers one number."""
    strings, options = tuple(parts["strings"]), parts.get("options")
    label, value = parts["label"], parts.get("value")
    if label is not None or value is not None:
        if label is not None and value is not None:
            _refuse("either label or value")
        if {"predictions", "options", "chance"} & parts.keys():
            _refuse("label and value go without predictions, options and chance")
        formula = strings[0] if value is None else value.against
        _check_formula(formula, strings, 0, "value.against", number=True)
        return {"main": formula}
    given = parts.get("predictions")
    if not given and options is not None:
        given = {"main": RIGHT_IS_HIGHEST}
    elif not given and {*strings} >= {"good", "bad"}:
        given = {"main": "good > bad"}
    if not given:
        _refuse('no predictions: [predictions] has formulas such as main = "good > bad"')
    several = 0 if options is None else len(options.texts)
    for name, formula in given.items():
        for n in (2, 3) if several == 1 else (several,):  # the number of options in a list is not known
            _check_formula(formula, strings, n, f"predictions.{name}")
    return {name: given[name] for name in sorted(given, key=lambda name: name != "main")}  # a stable order


def _check_formula(
    formula: str, strings: tuple[str, ...], options: int, where: str, *, number: bool = False
) -> None:
    try:
        formula_of(formula, strings, 0 if options else None, options, number=number)
    except PdtoolsError as error:
        _refuse(f"{where}: {error}")


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        _refuse(f"{what} is called by a letter, and letters, digits and _ after it")


def _digest(table: Mapping[str, Any]) -> str:
    text = json.dumps(table, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _refuse(reason: str) -> NoReturn:
    raise PdtoolsError(reason)
