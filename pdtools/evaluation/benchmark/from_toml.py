"""Benchmarks from TOML files: the keys of each part, and their checks.

Keys:
    files: patterns of file names (``"*/data.tsv"``), in a folder or zip.
    path: a regular expression for paths (RE2: no lookaround), whose groups are columns, in place of a row's
        own of that name: ``"(?P<language>[a-z]+)_evalset/"``.
    form: odd forms: ``kind``, ``delimiter``, ``quote``, ``header``, ``skip`` (lines). Without ``quote``,
        quotes that R or Excel put around cells of TSV are undone, and those of the text stay.
    rows: rows that make one item: ``{ every = 2, as = ["bad", "good"] }``; ``{ every = 2, role = "{1}",
        good = "True", bad = "False" }``; or ``by = "{item}"`` instead of ``every``.
    [strings]: templates over columns, and ``file``, ``dir``, ``row`` unless a column has that name:
        ``"{good.text}"`` of the row ``good``;
        in JSON and Parquet also a key after a dot, ``"{choices.text}"``, of each object if there is a list;
        filters after a bar: ``replace:_: ``, ``split:,``, a number, ``lower``, ``upper``, ``capitalize``,
        ``strip``. Or ``{ context = "{prefix}", text = "{form}" }``: only the text is scored, given the
        context.
    options: ``{ texts = "{options}", right = 0 }``, or ``right = "{label}"``, with ``context``: one of
        several is right. A number is an index, from 0; else ``right`` is the text, or one of ``labels``:
        ``["A", "B"]``, or a row's own, ``"{choices.label}"``. With ``missing = true``, options with an empty
        or missing column are left out.
    [predictions]: formulas: ``main = "t1_c1 > t1_c2 & t2_c2 > t2_c1"``, ``"right > max(others)"``; the one
        called ``main`` counts; without any, ``good > bad``.
    [scores]: the scores that predictions compare: ``sum``, ``per_token``, ``per_character``, ``per_byte``,
        ``per_word``, ``{ slln = 0.5 }`` (a power from 0 to 10).
    [levels]: groups of items, the finest last; the overall score is the mean of the finest. If one level's
        groups lie across another's, the finest are the combinations, and the scores of these levels are over
        their items. ``{ flags = ["binding", "NPI"] }``: true-or-false columns; an item may be in several.
    [chance]: the score of guessing, by prediction.
    label, threshold: instead of predictions: acceptability, ``threshold = { from = "*train*" }``.
    value: instead of predictions: ``{ column = "ratio", against = "a - b", correlation = "spearman" }``.
    suites: ``true``: SyntaxGym files, which hold items and predictions themselves (``--as sg`` is
        ``eval-sg``).
    reader: for files that are no tables (``pdtools/evaluation/benchmark/readers.py``).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
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
    Label,
    Options,
    Rows,
    Text,
    Value,
    formula_of,
    option_name,
)
from pdtools.evaluation.benchmark.item_set import Score
from pdtools.evaluation.benchmark.readers import READERS
from pdtools.evaluation.benchmark.templates import Template
from pdtools.evaluation.record import MARGIN
from pdtools.evaluation.sg.formula import Formula
from pdtools.files import decode_utf8, read_bytes
from pdtools.search.adaptive_beam import Width

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Columns of the tables of results, whose names no level may have.
_TAKEN = {
    *("item", "prediction", "group", "formula", "outcome", "correct", MARGIN, "reason", *Width._fields),
    *("string", "region", "name", "context", "text", "read", "tokens", "bits", "surprisals", "dropped"),
    *("overall", "score", "acceptable", "value"),
}
_LARGEST = sys.float_info.max
_LARGEST_POWER = 10  # papers take powers below 1
_MOST_SKIPPED = 1_000_000
_NAME = re.compile(r"[A-Za-z]\w*")
_ABOUT = ("title", "right", "cite", "url", "licence", "get")


def bundled() -> list[str]:
    """Names of the benchmarks that come with pdtools (``configs/benchmarks/*.toml``)."""
    return sorted(Path(each.name).stem for each in _folder().iterdir() if each.name.endswith(".toml"))


def text_of(source: str) -> str:
    """The TOML of a benchmark, by its bundled name or its path.

    Raises:
        InputError: if there is no such benchmark.
    """
    if source in bundled() and not Path(source).is_file():
        return str(_folder().joinpath(f"{source}.toml").read_text("utf-8"))
    if not Path(source).is_file():
        hint = f"benchmarks: {', '.join(bundled())}, or a TOML file"
        raise InputError("no such file, nor a benchmark of this name", file=source, hint=hint)
    return decode_utf8(read_bytes(source), source)


def read_benchmark(source: str) -> Benchmark:
    """A benchmark by its bundled name, or from a TOML file.

    Raises:
        InputError: if there is no such benchmark, or the file defines none.
    """
    text = text_of(source)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a whole number of thousands of digits
        raise InputError(f"not TOML: {error}", file=source) from error
    return benchmark_from(table, source, Path(source).stem)


def benchmark_from(table: Mapping[str, Any], place: str, name: str) -> Benchmark:
    """A benchmark from the content of a TOML file.

    Args:
        place: the name for messages.
        name: the benchmark's name.

    Raises:
        InputError: naming the place and the fault.
    """
    try:
        return _Reading(table).benchmark(name)
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


def _folder() -> Any:
    return resources.files("pdtools.configs").joinpath("benchmarks")


_KEYS = (*_ABOUT, "files", "path", "form", "reader", "rows", "strings", "options", "predictions", "scores")
_ALL_KEYS = (*_KEYS, "levels", "chance", "label", "threshold", "value", "published", "suites")


class _Reading:
    """Reads the parts of a benchmark's TOML, and checks each."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table

    def benchmark(self, name: str) -> Benchmark:
        _check_keys(self.table, _ALL_KEYS, "a benchmark")
        if self.table.get("suites", False) is not False:
            return self.of_suites(name)
        strings, options = self.strings(), self.options()
        if not strings and options is None:
            _refuse('no strings: [strings] has templates such as good = "{sentence_good}", or options')
        label, value = self.label(strings), self.value(strings)
        levels, flags = self.levels(), self.flags()
        if label is not None or value is not None:
            if label is not None and value is not None:
                _refuse("either label or value")
            if {"predictions", "options", "chance"} & self.table.keys():
                _refuse("label and value go without predictions, options and chance")
            predictions = {"main": next(iter(strings)) if value is None else value.against}
        else:
            predictions = self.predictions(strings, options)
        return Benchmark(
            name=name,
            about=self.about(),
            files=self.files(),
            path=self.path(),
            form=self.form(),
            reader=self.reader(),
            rows=self.rows(),
            strings=strings,
            options=options,
            predictions=predictions,
            scores=self.scores(predictions),
            levels=levels,
            flags=flags,
            chance=self.chance(predictions),
            label=label,
            value=value,
            published=self.part("published"),
            digest=_digest(
                {key: each for key, each in self.table.items() if key not in (*_ABOUT, "published")}
            ),
        )

    def of_suites(self, name: str) -> Benchmark:
        if self.table["suites"] is not True:
            _refuse("suites has to be true or false")
        _check_keys(self.table, (*_ABOUT, "files", "published", "suites"), "a benchmark of suites")
        return Benchmark(
            name=name,
            about=self.about(),
            files=self.files(),
            path=None,
            form={},
            reader=None,
            rows=None,
            strings={},
            options=None,
            predictions={},
            scores={},
            levels={},
            chance={},
            published=self.part("published"),
            suites=True,
        )

    def about(self) -> Mapping[str, str]:
        return {key: _string(self.table[key], key) for key in _ABOUT if key in self.table}

    def files(self) -> tuple[str, ...]:
        found = self.table.get("files", ())
        return (found,) if isinstance(found, str) else _strings(found, "files")

    def part(self, name: str) -> Mapping[str, Any]:
        found = self.table.get(name, {})
        if not isinstance(found, dict):
            _refuse(f"{name} has to be a table")
        return found

    def path(self) -> str | None:
        if "path" not in self.table:
            return None
        path = _string(self.table["path"], "path")
        try:
            re.compile(path)
        except (re.error, OverflowError, RecursionError) as error:
            _refuse(f"path is no regular expression: {error}")
        return path

    def form(self) -> Mapping[str, Any]:
        found = self.part("form")
        kinds = {"kind": str, "delimiter": str, "quote": bool, "header": bool, "skip": int}
        _check_keys(found, tuple(kinds), "form")
        for key, value in found.items():
            if type(value) is not kinds[key]:
                named = {str: "a string", bool: "true or false", int: "a number of lines"}
                _refuse(f"form.{key} has to be {named[kinds[key]]}")
        if not 0 <= found.get("skip", 0) <= _MOST_SKIPPED:
            _refuse(f"form.skip has to be a number of lines, from 0 to {_MOST_SKIPPED:,}")
        if found.get("kind", "tsv") not in KINDS:
            _refuse(f"form.kind has to be one of {', '.join(KINDS)}")
        if len(found.get("delimiter", ",")) != 1:
            _refuse("form.delimiter has to be one character")
        return found

    def reader(self) -> str | None:
        if "reader" not in self.table:
            return None
        if (name := _string(self.table["reader"], "reader")) not in READERS:
            _refuse(f"unknown reader {name!r} (known: {', '.join(READERS)})")
        return name

    def rows(self) -> Rows | None:
        if "rows" not in self.table:
            return None
        found = dict(self.part("rows"))
        every, by, role, names = (found.pop(key, None) for key in ("every", "by", "role", "as"))
        if (every is None) == (by is None):
            _refuse("rows has either every, a number of rows, or by, a template of what they share")
        if every is not None and (type(every) is not int or every < 2):
            _refuse("rows.every has to be a number from 2 on")
        if (role is None) == (names is None):
            _refuse(
                "rows has either as, the rows' names in their order, or role, a template of what a row is"
            )
        if names is not None:
            if found or every is None or len({*_strings(names, "rows.as")}) != every:
                _refuse("rows.as has a name for each of rows.every rows, and nothing beside it")
            return Rows(every, None, None, dict.fromkeys(names, ""))
        roles = {key: _string(value, f"rows.{key}") for key, value in found.items()}
        if len({*roles.values()}) < max(2, len(roles), every or 0):
            _refuse('rows.role goes with a name for each value of it: good = "True", bad = "False"')
        return Rows(
            every, None if by is None else _template(by, "rows.by"), _template(role, "rows.role"), roles
        )

    def strings(self) -> dict[str, Text]:
        found: dict[str, Text] = {}
        for name, given in self.part("strings").items():
            where = f"strings.{name}"
            if name in (RIGHT, OTHERS, "max", "min") or name.startswith(option_name(0)[:-1]):
                _refuse(f"{where}: a string cannot be called that, which formulas have in another sense")
            _check_name(name, where, "a string")
            if isinstance(given, str):
                found[name] = Text(_template(given, where))
                continue
            if not isinstance(given, dict):
                _refuse(f"{where} has to be a template, or a table of context and text")
            _check_keys(given, ("context", "text", "blank"), where)
            if not {"context", "text"} <= given.keys():
                _refuse(f"{where} has context and text")
            text, context = (_template(given[key], f"{where}.{key}") for key in ("text", "context"))
            found[name] = Text(text, context, _string(given.get("blank", " "), f"{where}.blank"))
        return found

    def options(self) -> Options | None:
        if "options" not in self.table:
            return None
        given = self.part("options")
        _check_keys(given, ("texts", "right", "context", "blank", "labels", "missing"), "options")
        if not {"texts", "right"} <= given.keys():
            _refuse("options has texts, and right, which of them is")
        right = given["right"]
        if type(given.get("missing", False)) is not bool:
            _refuse("options.missing has to be true or false")
        if type(right) is not int:
            right = _template(right, "options.right")
        context = _template(given["context"], "options.context") if "context" in given else None
        return Options(
            _templates(given["texts"], "options.texts"),
            right,
            context,
            _string(given.get("blank", " "), "options.blank"),
            _templates(given.get("labels", ()), "options.labels"),
            given.get("missing", False),
        )

    def predictions(self, strings: Mapping[str, Text], options: Options | None) -> dict[str, str]:
        given = self.part("predictions")
        if not given and options is not None:
            given = {"main": RIGHT_IS_HIGHEST}
        elif not given and {*strings} >= {"good", "bad"}:
            given = {"main": "good > bad"}
        if not given:
            _refuse('no predictions: [predictions] has formulas such as main = "good > bad"')
        found: dict[str, str] = {}
        for name in sorted(given, key=lambda name: name != "main"):  # a stable order: main first
            found[name] = _string(given[name], f"predictions.{name}")
            several = 0 if options is None else len(options.texts)
            try:
                # The number of options in a list is not known.
                for n in (2, 3) if several == 1 else (several,):
                    formula_of(found[name], tuple(strings), 0 if n else None, n)
            except PdtoolsError as error:
                _refuse(f"predictions.{name}: {error}")
        return found

    def label(self, strings: Mapping[str, Text]) -> Label | None:
        threshold = self.table.get("threshold")
        if (given := self.table.get("label")) is None:
            return None if threshold is None else _refuse("threshold goes with label")
        given = given if isinstance(given, dict) else {"value": given}
        _check_keys(given, ("value", "good", "bad"), "label")
        good, bad = (
            _string(given.get(key, one), f"label.{key}") for key, one in (("good", "1"), ("bad", "0"))
        )
        if len(strings) != 1 or good == bad or "value" not in given:
            _refuse("label is of one string, and has a value, one for good and one for bad")
        number, source = threshold, None
        if isinstance(threshold, dict):
            _check_keys(threshold, ("from",), "threshold")
            number, source = None, _string(threshold.get("from"), "threshold.from")
        elif not _is_number(threshold):
            _refuse('threshold has to be a number, or {from = "*train*"}, files that it is chosen on')
        return Label(_template(given["value"], "label.value"), good, bad, number, source)

    def value(self, strings: Mapping[str, Text]) -> Value | None:
        if "value" not in self.table:
            return None
        given = self.part("value")
        _check_keys(given, ("column", "against", "correlation"), "value")
        if not {"column", "against"} <= given.keys():
            _refuse("value has column, the number of an item, and against, a formula of scores")
        correlation = given.get("correlation", "spearman")
        if correlation not in ("spearman", "pearson"):
            _refuse("value.correlation has to be spearman or pearson")
        against = _string(given["against"], "value.against")
        try:
            Formula.parse(against, tuple(strings), number=True)
        except PdtoolsError as error:
            _refuse(f"value.against: {error}")
        column = _string(given["column"], "value.column")
        return Value(_template(_column(column), "value.column"), against, correlation)

    def scores(self, predictions: Mapping[str, str]) -> dict[str, Score]:
        given = self.part("scores")
        _check_keys(given, tuple(predictions), "scores: of predictions")
        return {name: _score(given.get(name, "sum"), f"scores.{name}") for name in predictions}

    def levels(self) -> dict[str, Template]:
        given = self.part("levels")
        for name in given:
            _check_name(name, f"levels.{name}", "a level")
            if name in _TAKEN:
                reason = "a level cannot be called that, as a column of the results is"
                _refuse(f"levels.{name}: {reason}: another name is needed, such as my_{name}")
        plain = {name: each for name, each in given.items() if not isinstance(each, dict)} or {
            "file": "{file}"
        }
        return {name: _template(each, f"levels.{name}") for name, each in plain.items()}

    def flags(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for name, given in self.part("levels").items():
            if isinstance(given, dict):
                _check_keys(given, ("flags",), f"levels.{name}")
                found[name] = _strings(given.get("flags"), f"levels.{name}.flags")
        return found

    def chance(self, predictions: Mapping[str, str]) -> dict[str, float]:
        given = self.part("chance")
        _check_keys(given, tuple(predictions), "chance: of predictions")
        for name, share in given.items():
            if type(share) not in (int, float) or not 0 <= share <= 1:
                _refuse(f"chance.{name} has to be a number from 0 to 1")
        return {name: float(share) for name, share in given.items()}


def _score(given: Any, where: str) -> Score:
    if isinstance(given, dict) and [*given] == ["slln"] and _is_number(given["slln"], 0, _LARGEST_POWER):
        return Score("slln", float(given["slln"]))
    if given not in SCORES or given == "slln":
        known = ", ".join(SCORES[:-1])
        power = f"tokens to this power, from 0 to {_LARGEST_POWER}"
        _refuse(f"{where} has to be one of {known}, or {{slln = 0.8}}, {power}")
    return Score(given)


def _check_name(name: str, where: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        _refuse(f"{where}: {what} is called by a letter, and letters, digits and _ after it")


def _is_number(given: Any, low: float = -_LARGEST, high: float = _LARGEST) -> bool:
    return type(given) in (int, float) and low <= given <= high


def _template(given: Any, where: str) -> Template:
    try:
        return Template.parse(_string(given, where))
    except PdtoolsError as error:
        _refuse(f"{where}: {error}" if not str(error).startswith(where) else str(error))


def _templates(given: Any, where: str) -> tuple[Template, ...]:
    several = (given,) if isinstance(given, str) else _strings(given, where)
    return tuple(_template(each, where) for each in several)


def _check_keys(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := next((key for key in given if key not in known), None):
        _refuse(f"{what} has no {unknown!r} (known: {', '.join(known)})")


def _string(given: Any, where: str) -> str:
    if not isinstance(given, str):
        _refuse(f"{where} has to be a string")
    return given


def _strings(given: Any, where: str) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) for each in given):
        _refuse(f"{where} has to be a list of strings")
    return tuple(given)


def _digest(table: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(table, sort_keys=True, default=str).encode(errors="surrogatepass")
    ).hexdigest()


def _refuse(reason: str) -> NoReturn:
    raise PdtoolsError(reason)
