"""Two copies of pdtools on the same commands: a guard for changes that have to keep every number.

    python benchmarks/same.py 643ce33d .                      # a commit, and the checkout that stands here
    python benchmarks/same.py main . --only 'sg*' --jobs 1    # some of the commands
    python benchmarks/same.py main /opt/env/bin/python -o same.json

A copy is a commit of this repository, a checkout (a folder), or the Python of an environment with pdtools.
Commits and checkouts are laid out as an installation is, in ``--work``, and use this Python's other packages.
Both copies run the commands of ``same.toml`` on the same inputs and models, which the first copy makes. Their
outputs are compared by meaning:

- numbers: within 10⁻⁵, and 4·10⁻⁷ of their size, as float32 gives for sums; counts, words, p of exact tests,
  and training curves are equal;
- ends of bootstrap intervals and p of random tests: within three Monte-Carlo errors;
- changed verdicts and parses are listed with their margins, and have to be near-ties; means that follow from
  them are listed too.

``same.toml`` lists the names that a change gave to columns, files and commands. A line for each group of
commands says what was compared, and the largest difference; what was run is kept in ``--work``, and not run
again unless the copy or the commands change. Exit status 1 if a difference is not explained.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import fnmatch
import gzip
import hashlib
import inspect
import json
import math
import os
import random
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

REPOSITORY = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")

TOLERANCE, RELATIVE = 1e-5, 4e-7
ERRORS = 3.0  # Monte-Carlo errors
# Names of ends of intervals (low, human_low, ...), of intervals, and of p; p of an exact test is exact.
ENDS = ("low", "high")
INTERVALS = ("over_items", "over_seeds", "intervals")
P_VALUES = {"p", "p_holm", "p_observations"}
VERDICTS = ("correct", "outcome", "predicted", "chosen", "chosen_by_best", "chosen_given_attachments")
PARSES = ("tree", "arcs", "parse")
# Keys that say when, where and how fast; files that hold nothing else, or whose scores are compared.
NO_RESULTS = {"provenance", "seconds", "tokens_per_second", "loading_share"}
NO_TABLES = {
    "pdtools.json",
    "run.json",
    "training.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "state.json",
}
ROWS = {".jsonl", ".parquet", ".tsv", ".csv", ".trees", ".conllu"}
KINDS = {*ROWS, ".json", ".html", ".tex", ".txt"}


# Values


class Printed(float):
    """A number read from text, which may have been rounded to ``unit``."""

    unit: float

    def __new__(cls, text: str, most: float = 1e-3) -> Printed:
        number = super().__new__(cls, text)
        digits = re.match(r"[-+]?\d*\.?(\d*)(?:[eE]([-+]?\d+))?", text)
        assert digits is not None
        unit = 10.0 ** (int(digits[2] or 0) - len(digits[1]))
        number.unit = unit if unit <= most else 0.0
        return number


@dataclass
class Report:
    """The outcome of a comparison.

    Attributes:
        compared: how many values.
        largest: the largest difference of two numbers.
        ties: verdicts and parses that changed in a near-tie.
        follows: differences of means and pages, which are made from such verdicts.
        differences: all others, none of which is explained.
    """

    compared: int = 0
    largest: float = 0.0
    ties: list[str] = field(default_factory=list)
    follows: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Names that the second copy changed, and how numbers of a document are compared.

    Attributes:
        renamed: names of columns and keys in the first copy, with those in the second.
        left_out: columns and keys that one copy alone has.
        samples: the number of samples of the document's bootstraps and random tests.
        is_exact: whether its test is an exact one, so that p is.
        curves: whether numbers have to be equal to the bit.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    samples: int = 1000
    is_exact: bool = False
    curves: bool = False


def compare_values(
    report: Report, where: str, one: Any, two: Any, rules: Rules, allowed: float = 0.0
) -> None:
    """Compare two documents of JSON, row by row and key by key.

    Args:
        where: the place of the values, for messages.
        allowed: a difference of numbers that is allowed in any case.
    """
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        compare_mappings(report, where, one, two, rules)
    elif isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            report.differences.append(f"{where}: {len(one)} entries, then {len(two)}")
        is_interval = bool({*re.split(r"[.:]", where)[-2:]} & {*INTERVALS})
        if is_interval and len(one) == len(two) == 2 and all(map(_is_number, [*one, *two])):
            allowed = _error_of_ends(one[1] - one[0], rules.samples)
        for index, (a, b) in enumerate(zip(one, two, strict=False)):
            compare_values(report, f"{where}[{index}]", a, b, rules, allowed)
    elif _is_number(one) and _is_number(two) and (isinstance(one, float) or isinstance(two, float)):
        compare_numbers(report, where, float(one), float(two), rules, allowed, _unit(one, two))
    else:
        report.compared += 1
        missing = [value is None or value != value for value in (one, two)]
        if one != two and not all(missing):
            report.differences.append(f"{where}: {one!r}, then {two!r}")


def compare_mappings(
    report: Report, where: str, one: Mapping[str, Any], two: Mapping[str, Any], rules: Rules
) -> None:
    """Compare rows and objects: the same keys, under the names that the second copy has for them."""
    out = NO_RESULTS | rules.left_out
    pairs = {key: rules.renamed.get(key, key) for key in one if key not in out}
    missing = [f"{key} is missing" for key in pairs.values() if key not in two]
    added = [f"{key} is new" for key in two if key not in {*pairs.values(), *out}]
    rows = re.sub(r"\[\d+\]", "[*]", where)  # named once for all rows of a table
    said = [f"{rows}: {each}" for each in missing + added]
    report.differences += [each for each in said if each not in report.differences]
    renamed_two = {key: two[name] for key, name in pairs.items() if name in two}
    changed = [key for key in VERDICTS if key in renamed_two and one[key] != renamed_two[key]]
    if changed:
        margins = [margin_of(row) for row in (one, renamed_two)]
        before, after = (f"{row[changed[0]]!r}" for row in (one, renamed_two))
        line = f"{where}: {changed[0]} {before}, then {after}; margin {margins[0]}, then {margins[1]}"
        # Equal scores stay equal: with the same margin in both copies, a verdict has no reason to change.
        near = [abs(each) <= 2 * _limit(one) for each in margins if each is not None]
        is_explained = near == [True, True] and margins[0] != margins[1]
        (report.ties if is_explained else report.differences).append(line)
    for key, value in renamed_two.items():
        if key in changed:
            continue
        allowed = 0.0
        low, high = (re.sub("(low|high)$", end, key) for end in ENDS)
        if low != high and _is_number(one.get(low)) and _is_number(one.get(high)):
            allowed = _error_of_ends(one[high] - one[low], rules.samples)
        is_exact = rules.is_exact or "exact" in str(one.get("test", ""))
        if key in P_VALUES and not is_exact and _is_number(one[key]):
            p = min(max(one[key], 1 / rules.samples), 1 - 1 / rules.samples)
            allowed = ERRORS * math.sqrt(2 * p * (1 - p) / rules.samples)
        compare_values(report, f"{where}.{key}" if where else key, one[key], value, rules, allowed)


def compare_numbers(
    report: Report, where: str, one: float, two: float, rules: Rules, allowed: float, unit: float
) -> None:
    """Compare two numbers; NaN and infinities have to be the same."""
    report.compared += 1
    if one == two or (one != one and two != two):
        return
    difference = abs(one - two)
    limit = 0.0 if rules.curves else max(TOLERANCE + RELATIVE * abs(one), allowed, 1.01 * unit)
    if not allowed and math.isfinite(difference):
        report.largest = max(report.largest, difference)
    if not difference <= limit:
        report.differences.append(f"{where}: {one:.10g}, then {two:.10g}")


def margin_of(row: Mapping[str, Any]) -> float | None:
    """A verdict's distance from the other one, by the scores of its row; None if these do not give it."""
    for name in ("margin_bits", "lead"):
        if _is_number(row.get(name)):
            return float(row[name])
    scores = _scores(row)
    if {"logprob_good", "logprob_bad"} <= scores.keys():
        per = [
            row[f"tokens_{each}"] if row.get("prediction") == "per_token" else 1 for each in ("good", "bad")
        ]
        return scores["logprob_good"] / per[0] - scores["logprob_bad"] / per[1]
    highest = sorted(scores.values(), reverse=True)
    return highest[0] - highest[1] if len(highest) > 1 else None


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    return {key: row[key] for key in row if key.startswith("logprob_") and _is_number(row[key])}


def _limit(row: Mapping[str, Any]) -> float:
    """The largest difference that is allowed for the scores of a row."""
    return TOLERANCE + RELATIVE * max(map(abs, _scores(row).values()), default=0.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unit(one: Any, two: Any) -> float:
    return max(value.unit if isinstance(value, Printed) else 0.0 for value in (one, two))


def _error_of_ends(width: float, samples: int) -> float:
    """Three errors of the difference of two bootstraps' 2.5% quantiles, if these are those of a normal."""
    deviation = abs(width) / (2 * 1.96)
    density = math.exp(-(1.96**2) / 2) / math.sqrt(2 * math.pi)
    return ERRORS * math.sqrt(2 * 0.025 * 0.975 / samples) / density * deviation


# Files


def read(path: Path) -> Any:
    """A file's contents, as JSON has them: rows of a table, lines of text, the document of a page."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    if path.suffix in {".tsv", ".csv"}:
        dialect: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
        header, *rows = csv.reader(text.splitlines(), **dialect)
        return [dict(zip(header, map(_cell, row), strict=False)) for row in rows]
    if path.suffix == ".html":
        return dict(_documents(text))
    return [[_cell(part, 0.01) for part in re.split(r"(-?\d+\.\d+)", line)] for line in text.splitlines()]


def _cell(text: str, most: float = 1e-3) -> Any:
    return Printed(text, most) if re.fullmatch(r"[-+]?\d+\.\d*(e[-+]?\d+)?", text) else text


def _documents(page: str) -> Iterator[tuple[str, Any]]:
    """The JSON that a page of ``pdtools view`` shows."""
    for kind, name, text in re.findall(
        r'<script type="application/(json|gzip)" id="([^"]+)">(.*?)</script>', page
    ):
        data = gzip.decompress(base64.b64decode(text)).decode() if kind == "gzip" else text
        yield name, json.loads(data, parse_float=Printed)


def compare_trees(report: Report, where: str, one: list[Any], two: list[Any], scores: Any) -> None:
    """Compare lines of trees; a change of a line is a near-tie if the scores of its two best trees say so.

    Args:
        scores: rows of ``pdtools decode --k-best K --scores``, or None.
    """
    if len(one) != len(two):
        report.differences.append(f"{where}: {len(one)} lines, then {len(two)}")
    for number, (a, b) in enumerate(zip(one, two, strict=False), 1):
        report.compared += 1
        if a != b:
            joints = [float(row["joint"]) for row in scores or [] if int(row["id"]) == number]
            _changed_parse(report, f"{where}:{number}", joints, 0)


def compare_ranked(report: Report, where: str, one: list[Any], two: list[Any], rules: Rules) -> None:
    """Compare the rows of ``--scores``: a tree may change its rank with one of the same score."""
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        changed = [key for key in PARSES if a.get(key) != b.get(key)]
        if changed:
            rows = [row for row in one if row["id"] == a["id"]]
            _changed_parse(report, f"{where}[{index}]", [float(row["joint"]) for row in rows], rows.index(a))
        kept_a, kept_b = ({key: row[key] for key in row if key not in changed} for row in (a, b))
        compare_values(report, f"{where}[{index}]", kept_a, kept_b, rules)
    if len(one) != len(two):
        report.differences.append(f"{where}: {len(one)} rows, then {len(two)}")


def _changed_parse(report: Report, where: str, joints: Sequence[float], rank: int) -> None:
    """Record a parse that changed, with its distance to the next in rank."""
    apart = [abs(joints[rank] - joints[i]) for i in (rank - 1, rank + 1) if 0 <= i < len(joints)]
    margin = min(apart, default=None)
    size = abs(joints[rank]) if joints else 0.0
    is_near = margin is not None and margin <= 2 * (TOLERANCE + RELATIVE * size)
    (report.ties if is_near else report.differences).append(f"{where}: another parse, margin {margin}")


class Names(NamedTuple):
    """The lists of ``same.toml``."""

    renamed: Mapping[str, str]
    files: Mapping[str, str]
    commands: Mapping[str, str]
    left_out: Mapping[str, str]
    sorted: Mapping[str, Sequence[str]]


def tables_of(folder: Path) -> dict[str, Path]:
    """The files in a folder of outputs that have results, by their names in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_input = name.startswith("in/") or ".job/" in name or "/." in f"/{name}"
        if path.is_file() and path.suffix in KINDS and path.name not in NO_TABLES and not is_input:
            found[name] = path
    return found


def compare_folders(first: Path, second: Path, names: Names) -> Report:
    """Compare what a group of commands has written with each copy."""
    report = Report()
    one, two = tables_of(first), tables_of(second)
    pairs = {}
    for name in one:
        head, _, last = name.rpartition("/")
        pairs[name] = f"{head}/" * bool(head) + names.files.get(last, last)
    out = names.left_out
    report.differences += [
        f"{name} is missing" for name in pairs.values() if not {name, Path(name).name} & {*two, *out}
    ]
    report.differences += [
        f"{name} is new" for name in two if not {name, Path(name).name} & {*pairs.values(), *out}
    ]
    of_rows = [name for name in pairs if Path(name).suffix in ROWS]
    for name in [*of_rows, *(each for each in pairs if each not in of_rows)]:
        if pairs[name] not in two or Path(name).name in out:
            continue
        before = len(report.differences)
        try:
            compare_files(report, name, one[name], two[pairs[name]], names)
        except (ValueError, KeyError) as error:
            report.differences.append(f"{name}: {type(error).__name__}: {error}")
        if report.ties and name not in of_rows:
            report.follows += report.differences[before:]
            del report.differences[before:]
    return report


def _for_file(names: Mapping[str, str], file: str) -> dict[str, str]:
    """The entries of a list that hold for a file: names, or ``file:name`` for one file alone."""
    every = {name: value for name, value in names.items() if ":" not in name}
    own = {name.partition(":")[2]: names[name] for name in names if name.startswith(f"{file}:")}
    return {**every, **own}


def compare_files(report: Report, name: str, first: Path, second: Path, names: Names) -> None:
    """Compare two files of the same kind."""
    one, two = read(first), read(second)
    settings = one.get("settings", {}) if isinstance(one, Mapping) else {}
    rules = Rules(
        renamed=_for_file(names.renamed, first.name),
        left_out=frozenset(_for_file(names.left_out, first.name)),
        samples=int(settings.get("bootstrap_samples", settings.get("samples", 1000))),
        is_exact="exact" in str(settings.get("test", "")),
        curves=first.name == "metrics.jsonl",
    )
    columns = names.sorted.get(first.name)
    if columns:
        one = sorted(one, key=lambda row: [str(row[each]) for each in columns])
        two = sorted(two, key=lambda row: [str(row[names.renamed.get(each, each)]) for each in columns])
    scores = first.with_name(f"{first.name}.tsv")
    if first.suffix in {".trees", ".conllu"} and (scores.exists() or first.suffix == ".trees"):
        blank = "\n\n" if first.suffix == ".conllu" else "\n"
        trees, others = (path.read_text().rstrip("\n").split(blank) for path in (first, second))
        compare_trees(report, name, trees, others, read(scores) if scores.exists() else None)
    elif isinstance(one, list) and one and isinstance(one[0], Mapping) and {"rank", "joint"} <= one[0].keys():
        compare_ranked(report, name, one, two, rules)
    else:
        compare_values(report, f"{name}:", one, two, rules)


# Commands


class Group(NamedTuple):
    """Commands that run one after the other in a folder of their own.

    Attributes:
        run: a command a line; after ``>`` the file for its standard output.
        data: whether it reads the folder of real data.
    """

    name: str
    run: str
    data: bool = False

    def lines(self, macros: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> list[str]:
        """The commands, with macros replaced, and under the second copy's names if these are given."""
        found = []
        for line in self.run.strip().splitlines():
            for old, new in (renamed or {}).items():
                line = re.sub(rf"{re.escape(old)}\b", new, line)
            words = [macros.get(word, word) for word in re.split(r"\b([A-Z]{3,})\b", line)]
            found.append(re.sub(r"\s+", " ", "".join(words)))
        return found

    @property
    def folder(self) -> str:
        """A name for its folder."""
        return re.sub(r"\W+", "-", self.name)


@dataclass(frozen=True)
class Copy:
    """An installed copy of pdtools: a Python, and the folder of the package, if its environment has none."""

    python: str
    path: Path | None
    digest: str

    def has_run(self, lines: Sequence[str], folder: Path) -> bool:
        """Look whether the same code has run the same commands in a folder, to their end."""
        done = folder / "done"
        return done.exists() and done.read_text() == self._key(lines)

    def _key(self, lines: Sequence[str]) -> str:
        return json.dumps({"code": self.digest, "commands": list(lines)})

    def run(self, lines: Sequence[str], folder: Path) -> str | None:
        """Run commands in a folder.

        Returns:
            The end of what the first failing command said, or None.
        """
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        if self.path:
            environment["PYTHONPATH"] = str(self.path)
        called = [self.python, str(Path(__file__).resolve()), "--drive", *lines]
        log = folder / ".log"
        with log.open("w") as file:
            ended = subprocess.run(called, cwd=folder, env=environment, stdout=file, stderr=file, check=False)
        if ended.returncode:
            return " | ".join(log.read_text().splitlines()[-3:])
        (folder / "done").write_text(self._key(lines))
        return None


def drive(lines: Sequence[str]) -> int:
    """Run commands in this process, with the pdtools that it imports; stop at the first that fails."""
    sys.path.pop(0)  # this folder, whose scripts have names of other modules
    for line in lines:
        command, _, output = (part.strip() for part in line.partition(" > "))
        words = shlex.split(command)
        with contextlib.ExitStack() as stack:
            if output:
                file = stack.enter_context(Path(output).open("w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(file))
            status: Any = 0
            try:
                if words[0] == "python":
                    sys.argv = words[1:]
                    runpy.run_path(words[1], run_name="__main__")
                else:
                    sys.argv = ["pdtools", *words]
                    runpy.run_module("pdtools", run_name="__main__", alter_sys=False)
            except SystemExit as error:
                status = error.code
        if status:
            print(f"status {status}: {command}", file=sys.stderr)
            return 1
    return 0


def copy_of(name: str, work: Path) -> Copy:
    """A copy by its name: a commit, a checkout, or a Python executable.

    Raises:
        SystemExit: if it is none of these.
    """
    if Path(name).is_file():
        script = "import pdtools.cli; print(pdtools.__path__[0]); print(pdtools.cli.__path__[0])"
        python = str(Path(name).absolute())
        found = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True, cwd=work)
        return Copy(python, None, _digest(map(Path, found.stdout.splitlines())))
    if Path(name).is_dir():
        source, path = Path(name).resolve(), work / "copies" / f"checkout-{_digest([Path(name).resolve()])}"
    else:
        try:
            commit = _git("rev-parse", "--verify", f"{name}^{{commit}}").decode().strip()
        except subprocess.CalledProcessError:
            raise SystemExit(f"{name}: no commit, checkout or Python executable") from None
        source, path = None, work / "copies" / commit
    if not path.exists():
        made = path.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        if source is None:
            source = made / "source"
            with tarfile.open(
                fileobj=BytesIO(_git("archive", commit, "pdtools", "cli", "configs", "data"))
            ) as archive:
                archive.extractall(source, filter="data")
        ignored = shutil.ignore_patterns("__pycache__")
        for folder, inside in (("pdtools", "."), ("cli", "cli"), ("configs", "configs"), ("data", "data")):
            shutil.copytree(source / folder, made / "pdtools" / inside, ignore=ignored, dirs_exist_ok=True)
        shutil.rmtree(made / "source", ignore_errors=True)
        made.rename(path)
    return Copy(sys.executable, path, _digest([path]))


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, check=True).stdout


def _digest(folders: Iterator[Path] | Sequence[Path] | map[Path]) -> str:
    """A digest of the sources in folders."""
    found = hashlib.sha256()
    for folder in folders:
        parts = [folder / name for name in ("pdtools", "cli", "configs")]
        for part in [each for each in parts if each.is_dir()] or [folder]:
            for path in sorted(part.rglob("*")):
                if path.suffix in {".py", ".c", ".h", ".toml", ".js"}:
                    found.update(path.relative_to(part).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:16]


# Inputs


def write_inputs(folder: Path, texts: Mapping[str, str], data: Path, real: Path | None) -> None:
    """Write the inputs of the commands: texts, tables, parts of the bundled data, a tiny GPT-2.

    Args:
        data: the bundled data of the first copy.
        real: the folder of real data, if it is there.
    """
    for name, text in texts.items():
        (folder / name).write_text(text.lstrip("\n"), encoding="utf-8")
    for name in ("blimp", "sg", "text"):
        shutil.copytree(data / name, folder / "data" / name)
    shutil.copytree(data / "models", folder / "models")
    (folder / "sg").mkdir()
    for name in ("mini_number_orc", "mini_npz"):
        _few_items(json.loads((data / "sg" / f"{name}.json").read_text()), folder / "sg" / f"{name}.json")
    for split, least, most, number in (("train", 4, 12, 300), ("valid", 4, 9, 12)):
        bank = (data / "treebank" / f"{split}.mrg").read_text().splitlines()
        trees = [line for line in bank if line.startswith("( ") and line.endswith(")")]
        chosen = [tree for tree in trees if least <= len(_words(tree)) <= most][:number]
        (folder / f"{split}.mrg").write_text("".join(f"{tree}\n" for tree in chosen))
    sentences = [_words(line) for line in (folder / "train.mrg").read_text().splitlines()]
    _write_reading_times(folder, [words for words in sentences if len(words) > 5])
    _write_task(folder, [" ".join(words) for words in sentences[:40]])
    if real is not None:
        import zipfile

        (folder / "real-sg").mkdir()
        with zipfile.ZipFile(real / "sg" / "sg_suites.zip") as suites:
            for name in ("number_orc", "npz_ambig", "fgd_object", "reflexive_src_fem"):
                suite = json.loads(suites.read(f"test_suites/json/{name}.json"))
                _few_items(suite, folder / "real-sg" / f"{name}.json")
    sys.path.insert(0, str(REPOSITORY / "tests" / "helpers"))
    from toy_gpt2 import save_gpt2

    save_gpt2(folder / "gpt2", (data / "text" / "sample.txt").read_text().splitlines())
    import pandas

    pandas.read_csv(folder / "stimuli.csv").to_excel(folder / "stimuli.xlsx", index=False)


def _few_items(suite: dict[str, Any], path: Path, most: int = 6) -> None:
    path.write_text(json.dumps({**suite, "items": suite["items"][:most]}))


def _words(tree: str) -> list[str]:
    """The words of a tree of a treebank, without its traces."""
    return [word for label, word in re.findall(r"\((\S+) ([^\s()]+)\)", tree) if label != "-NONE-"]


def _write_reading_times(folder: Path, sentences: Sequence[Sequence[str]]) -> None:
    """Write made-up times of texts, counts of their words, and times of two conditions and of fillers."""
    rng = random.Random(1)
    rows = ["item\tword_number\tword\tsubject\ttime"]
    effects = ["item\tword_number\tword\tsubject\ttime\tcondition\troi"]
    counts: dict[str, int] = {}
    for item in range(12):
        words = [
            word for sentence in sentences[3 * item : 3 * item + 3] for word in sentence if word.isalpha()
        ]
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        for subject in range(3):
            for number, word in enumerate(words, 1):
                rows.append(f"{item}\t{number}\t{word}\ts{subject}\t{rng.gauss(350, 40):.1f}")
                effects.append(f"f{item}\t{number}\t{word}\ts{subject}\t{rng.gauss(350, 40):.1f}\tfiller\t")
    orders = {
        "object": ["that", "the", "poets", "love"],
        "subject": ["that", "loves", "the", "poets"],
    }
    for item, noun in enumerate(("queen", "mother", "poet", "dog", "painter", "boy", "king", "doctor")):
        for (condition, order), subject in ((each, s) for each in orders.items() for s in range(3)):
            for number, word in enumerate(["The", noun, *order, "smiles", "near", "them"], 1):
                roi = max(number - 7, -1)
                read = f"{rng.gauss(350, 40):.1f}\t{condition}\t{roi if roi >= 0 else ''}"
                effects.append(f"{item}\t{number}\t{word}\ts{subject}\t{read}")
    (folder / "times.tsv").write_text("\n".join(rows) + "\n")
    (folder / "effects.tsv").write_text("\n".join(effects) + "\n")
    (folder / "counts.tsv").write_text(
        "word\tcount\n" + "".join(f"{word}\t{n}\n" for word, n in counts.items())
    )


def _write_task(folder: Path, sentences: Sequence[str]) -> None:
    """Write pairs of sentences with labels and with scores, in the form of GLUE's RTE and STS-B."""
    rows = ["index\tsentence1\tsentence2\tlabel"]
    for index in range(16):
        label = "not_entailment" if index % 3 else "entailment"
        rows.append(f"{index}\t{sentences[index]}\t{sentences[2 * index]}\t{label}")
    (folder / "rte.tsv").write_text("\n".join(rows) + "\n")
    scores = [f"{row.rpartition(chr(9))[0]}\t{index * 7 % 11 / 2}" for index, row in enumerate(rows[1:])]
    (folder / "stsb.tsv").write_text("\n".join([rows[0].replace("label", "score"), *scores]) + "\n")


# The whole


def main() -> int:
    """Run, compare, print, and say by the exit status whether all differences are explained."""
    if sys.argv[1:2] == ["--drive"]:
        return drive(sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("first", help="a commit, a checkout, or a Python executable; makes the models")
    parser.add_argument("second", help="likewise")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="groups of commands by name: 'sg*'")
    parser.add_argument("--jobs", type=int, default=2, help="how many groups run at a time")
    parser.add_argument(
        "--work", type=Path, default=REPOSITORY / ".same", help="a folder for copies and outputs"
    )
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for all that was found")
    options = parser.parse_args()
    work: Path = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    names = Names(*(listed.get(name, {}) for name in Names._fields))
    real: Path | None = Path(os.environ.get("PDTOOLS_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    real = real if real is not None and real.is_dir() else None
    macros = {**listed["macros"], "DATA": str(real)}
    first, second = (copy_of(name, work) for name in (options.first, options.second))
    make_inputs(work, first, listed, macros, real)
    groups = [Group(**each) for each in listed["case"] if fnmatch.fnmatch(each["name"], options.only)]

    def run(group: Group) -> dict[str, Any]:
        return run_group(group, work, (first, second), macros, names)

    found = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(run, [group for group in groups if real is not None or not group.data]):
            found.append(line)
            print(table_row(line), flush=True)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return int(any(line["differences"] for line in found))


def make_inputs(
    work: Path, first: Copy, listed: Mapping[str, Any], macros: Mapping[str, str], real: Path | None
) -> None:
    """Make the folder ``inputs`` with the first copy, unless another run has made it.

    Raises:
        SystemExit: if a command fails.
    """
    inputs = work / "inputs"
    steps = [(group.name, group.lines(macros)) for group in (Group(**each) for each in listed["make"])]
    writers = [
        inspect.getsource(each) for each in (write_inputs, _few_items, _write_reading_times, _write_task)
    ]
    key = json.dumps([first.digest, listed["inputs"], steps, writers])
    if inputs.exists() and (inputs / ".key").exists() and (inputs / ".key").read_text() == key:
        return
    for name in ("inputs", "first", "second"):
        shutil.rmtree(work / name, ignore_errors=True)
    inputs.mkdir()
    script = "import pdtools.data; print(pdtools.data.__path__[0])"
    environment = {**os.environ, **({"PYTHONPATH": str(first.path)} if first.path else {})}
    data = subprocess.run(
        [first.python, "-c", script], env=environment, capture_output=True, check=True, cwd=work
    )
    write_inputs(inputs, listed["inputs"], Path(data.stdout.decode().strip()), real)
    for name, lines in steps:
        if said := first.run(lines, inputs):
            raise SystemExit(f"{name}: {said}")
    (inputs / ".key").write_text(key)


def run_group(
    group: Group, work: Path, copies: Sequence[Copy], macros: Mapping[str, str], names: Names
) -> dict[str, Any]:
    """Run a group of commands with both copies, and compare."""
    began, folders, failures = time.monotonic(), [], []
    for side, copy in zip(("first", "second"), copies, strict=True):
        folder = work / side / group.folder
        lines = group.lines(macros, names.commands if side == "second" else None)
        folders.append(folder)
        if copy.has_run(lines, folder):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "in").symlink_to(work / "inputs")
        if said := copy.run(lines, folder):
            failures.append(f"the {side} copy failed: {said}")
    report = Report(differences=failures) if failures else compare_folders(folders[0], folders[1], names)
    if not report.compared and not failures:
        report.differences.append("nothing was compared")
    seconds = round(time.monotonic() - began, 1)
    return {"name": group.name, "commands": len(group.lines(macros)), "seconds": seconds, **asdict(report)}


def table_row(line: Mapping[str, Any], most: int = 12) -> str:
    """A line of the table, and beneath it what changed."""
    verdict = f"{len(line['differences'])} unexplained" if line["differences"] else "same"
    verdict += f", {len(line['ties'])} near-ties changed" if line["ties"] else ""
    head = f"{line['name']:<52} {line['commands']:>3} commands {line['compared']:>8} values"
    rows = [f"{head}  {line['largest']:8.1e}  {verdict}"]
    for kind in ("ties", "follows", "differences"):
        rows += [f"    {each}" for each in line[kind][:most]]
        rows += [f"    and {len(line[kind]) - most} more"] * (len(line[kind]) > most)
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
