"""Comparisons of random results, as they are printed, against a plain model of their numbers."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from printed_tables import latex_tables, tables

from pdtools.cli.main import run

HEADER = ["sentence_id", "token_id", "token", "start", "end", "surprisal"]


def table_of(printed: str, *beginning: str) -> dict[str, list[str]]:
    """The rows of the only table whose header begins so, by their first cells."""
    (rows,) = (rows for header, rows in tables(printed) if header[: len(beginning)] == [*beginning])
    return {row[0]: row[1:] for row in rows}


def mcnemar(only_a: int, only_b: int) -> float:
    n = only_a + only_b
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(min(only_a, only_b) + 1)) / 2**n)


def holm(ps: list[float]) -> list[float]:
    """Each p times the number of those not smaller before it in order, and never below an earlier one."""
    order = sorted(ps)
    return [min(1.0, max(q * (len(ps) - i) for i, q in enumerate(order) if q <= p)) for p in ps]


def columns_of(printed: str) -> dict[tuple[str, bool], dict[str, list[str]]]:
    """The tables of two results as columns: rows by level, and whether they are of margins."""
    found: dict[tuple[str, bool], dict[str, list[str]]] = {}
    for header, rows in tables(printed):
        if header[1:4] != ["a", "b", "b - a"]:
            continue
        level = header[0].removesuffix(", margin (bits)")
        if level == "score" or level.endswith(("(percent)", "(bits)")):
            for row in rows:
                found["overall", "(bits)" in header[0] + row[0]] = {"overall": row[1:]}
        else:  # accuracies before margins
            found[level, (level, False) in found] = {row[0]: row[1:] for row in rows}
    return found


@dataclass
class Study:
    """Items in units and levels, and what some runs make of them."""

    seed: int
    names: tuple[str, ...]
    items: list[dict[str, str]] = field(default_factory=list)
    right: dict[str, list[bool | None]] = field(default_factory=dict)
    margins: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.is_blimp = self.seed % 2 == 0
        self.crossing = not self.is_blimp and self.seed % 4 == 1
        units = ["u1", "u2", "u3", "u4"]
        above = {unit: rng.choice(["f1", "f2"]) for unit in units}
        middle = {unit: rng.choice(["t1", "t2"]) for unit in units}
        for unit in units:
            for _ in range(rng.randint(4, 16)):
                of = {"unit": unit, "field": above[unit], "term": middle[unit]}
                if self.crossing:
                    of["field"] = rng.choice(["f1", "f2"])
                self.items.append(of)
        if not self.is_blimp:
            rng.shuffle(self.items)

    @property
    def levels(self) -> list[str]:
        """Levels above the units, as they are printed."""
        if self.is_blimp:
            return ["field", "phenomenon"]
        return ["field", "unit"] if self.crossing else ["field"]

    def unit(self, item: dict[str, str]) -> str:
        return f"{item['field']} / {item['unit']}" if self.crossing else item["unit"]

    def write(self, folder: Path) -> None:
        """Data, and the results of every run."""
        if self.is_blimp:
            lines = [
                {
                    "UID": of["unit"],
                    "field": of["field"],
                    "linguistics_term": of["term"],
                    "pairID": str(i),
                    "sentence_good": f"g{i}",
                    "sentence_bad": f"b{i}",
                }
                for i, of in enumerate(self.items)
            ]
            (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            evaluate = ["eval-blimp", str(folder / "data.jsonl")]
        else:
            rows = [f"g{i},b{i},{of['field']},{of['unit']}" for i, of in enumerate(self.items)]
            (folder / "data.csv").write_text("good,bad,field,unit\n" + "\n".join(rows) + "\n")
            evaluate = ["eval-benchmark", str(folder / "data.csv"), "--good", "good", "--bad", "bad"]
            evaluate += ["--level", "field", "--level", "unit"]
        for name in self.names:
            self.run(folder, name, evaluate)

    def run(self, folder: Path, name: str, evaluate: list[str]) -> None:
        rng, rows = self.rng, [HEADER]
        self.right[name], self.margins[name] = [], []
        skill = rng.choice([0, 2, 4])
        for i in range(len(self.items)):
            good, bad = rng.randint(1, 8), rng.randint(1, 8) + rng.randint(0, skill)
            for place, (text, value) in enumerate(((f"g{i}", good), (f"b{i}", bad)), start=2 * i + 1):
                rows.append([str(cell) for cell in (place, 1, text, 0, len(text), value)])
            gone = rng.random() < 0.05
            if gone:
                rows.pop()
            self.right[name].append(None if gone else good < bad)
            self.margins[name].append(float(bad - good))
        path = folder / f"{name}.tsv"
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
        given = ["--surprisals", str(path), "--on-error", "skip", "-q"]
        assert run([*evaluate, *given, "-o", str(folder / name)]) == 0

    # --- the model ---

    def kept(self) -> list[int]:
        return [i for i in range(len(self.items)) if None not in (of[i] for of in self.right.values())]

    def groups(self, level: str) -> dict[str, list[int]]:
        """Kept items by group."""
        key = {"phenomenon": "term", "paradigm": "unit"}.get(level, level)
        found: dict[str, list[int]] = {"overall": self.kept()} if level == "overall" else {}
        for i in self.kept() if level != "overall" else []:
            name = self.unit(self.items[i]) if level == self.finest else self.items[i][key]
            found.setdefault(name, []).append(i)
        return dict(sorted(found.items()))

    @property
    def finest(self) -> str:
        return "paradigm" if self.is_blimp else "group" if self.crossing else "unit"

    def values(self, run_name: str, *, margin: bool) -> NDArray[np.float64]:
        if margin:
            return np.array(self.margins[run_name])
        return np.array([100.0 * bool(each) for each in self.right[run_name]])

    def mean(self, values: NDArray[np.float64], items: list[int], *, by_items: bool) -> float:
        """The mean of the units' means, or of all items."""
        if by_items:
            return float(values[items].mean())
        units: dict[str, list[int]] = {}
        for i in items:
            units.setdefault(self.unit(self.items[i]), []).append(i)
        return float(np.mean([values[of].mean() for of in units.values()]))

    def interval(self, values: NDArray[np.float64], items: list[int], *, by_items: bool) -> Any:
        """A bootstrap over the items of each unit; None of too few."""
        units: dict[str, list[int]] = {}
        for i in items:
            units.setdefault(self.unit(self.items[i]), []).append(i)
        if len(items) - len(units) < 9:
            return None
        rng = np.random.default_rng(self.seed)
        drawn = [values[rng.choice(of, (4000, len(of)))].mean(1) for of in units.values()]
        sizes = [len(of) for of in units.values()] if by_items else None
        return np.quantile(np.average(drawn, axis=0, weights=sizes), [0.025, 0.975])

    def over_items(self, level: str) -> bool:
        return self.crossing and level in self.levels


def same_interval(printed: str, wanted: Any) -> bool:
    """Equal as far as two bootstraps of thousands of samples are."""
    if wanted is None or printed == "-":
        return wanted is None and printed == "-"
    low, high = (float(end) for end in printed.strip("[]").split(", "))
    allowed = 0.12 * (wanted[1] - wanted[0]) + 0.02
    return bool(abs(low - wanted[0]) <= allowed and abs(high - wanted[1]) <= allowed)


def check_other_forms(command: list[str], printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """LaTeX has the cells of plain text, and JSON the numbers, of which plain text has two decimals."""
    assert run([*command, "--latex"]) == 0
    in_latex = latex_tables(capsys.readouterr().out)
    assert [rows for _, rows in in_latex] == [rows for _, rows in tables(printed)]
    assert run([*command, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    wanted: list[list[Any]] = []
    for score in (each for each in scores if each["level"] == "overall"):
        for each in score["groups"]:
            wanted.append([each["mean"], each["deviation"], each["over_seeds"] or each["over_items"]])
        for each in score["pairs"]:
            both = each["over_seeds"] or each["over_items"]
            wanted.append([each["difference"], both, each["p"], each["p_holm"]])
    shown: list[list[str]] = []
    for header, rows in tables(printed):
        if "95%" in header and header[0] in ("group", "pair"):
            shown += [row[2 if header[0] == "group" else 1 :] for row in rows]
    for row, own in zip(shown, wanted if shown else [], strict=True):
        for cell, number in zip(row, own, strict=True):
            found = [float(part) for part in cell.strip("[]").split(", ")] if cell != "-" else []
            there = [] if number is None else number if isinstance(number, list) else [number]
            assert found == pytest.approx(there, abs=0.0051, rel=0.06)


@pytest.mark.parametrize("seed", range(16))
def test_any_two_results(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(seed, ("one", "two"))
    study.write(tmp_path)
    capsys.readouterr()
    command = ["compare", str(tmp_path / "one"), str(tmp_path / "two"), "--details", "--samples", "4000"]
    assert run(command) == 0
    printed = capsys.readouterr().out
    check_other_forms(command, printed, capsys)
    shown = columns_of(printed)
    for margin in (False, True):
        a, b = (study.values(name, margin=margin) for name in study.names)
        for level in ("overall", *study.levels, study.finest):
            rows, groups = shown.pop((level, margin)), study.groups(level)
            assert [*rows] == [*groups]
            for name, items in groups.items():
                by_items = study.over_items(level)
                means = [study.mean(each, items, by_items=by_items) for each in (a, b, b - a)]
                assert [float(cell) for cell in rows[name][:3]] == pytest.approx(means, abs=0.0051)
                if level != study.finest:
                    wanted = study.interval(b - a, items, by_items=by_items)
                    assert same_interval(rows[name][3], wanted), (name, rows[name], wanted)
                if not margin:
                    only_a, only_b = int((a > b)[items].sum()), int((b > a)[items].sum())
                    assert float(rows[name][-1]) == pytest.approx(mcnemar(only_a, only_b), rel=0.06)
                    if level == "overall":
                        said = f"{len(items)} items: right in only a {only_a}, in only b {only_b}\n"
                        assert said in printed
    assert not shown
    n, kept = len(study.items), len(study.kept())
    said = f"only the {kept} of {n} items that both could score"
    assert (said in printed.replace("\n  ", " ")) == (kept < n)


@pytest.mark.parametrize("seed", range(12))
def test_any_groups_of_results(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_groups = {"B": ["b1", "b2", "b3"], "A": ["a1"], "C": ["c1", "c2"][: 1 + seed % 3 // 2], "D": ["d1"]}
    study = Study(seed, tuple(name for names in of_groups.values() for name in names))
    study.write(tmp_path)
    capsys.readouterr()
    given = [f"{name}={','.join(str(tmp_path / each) for each in of)}" for name, of in of_groups.items()]
    baseline = ["--baseline", "C"] if seed % 4 < 2 else []
    more = [part for each in given for part in ("--group", each)]
    command = ["compare", *more, *baseline, "--details", "--samples", "1000"]
    assert run(command) == 0
    printed = capsys.readouterr().out
    check_other_forms(command, printed, capsys)
    names = [*of_groups]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    if baseline:
        pairs = [("C", name) for name in names if name != "C"]
    found = [table for table in tables(printed) if table[0][0] in ("group", "pair") and "95%" in table[0]]
    kinds = (False, True)
    assert len(found) == 2 * len(kinds)
    kept = study.kept()
    for margin, (_, rows), (_, differences) in zip(kinds, found[::2], found[1::2], strict=True):
        values = {name: study.values(name, margin=margin) for of in of_groups.values() for name in of}
        means = {
            group: [study.mean(values[name], kept, by_items=False) for name in of]
            for group, of in of_groups.items()
        }
        assert [row[0] for row in rows] == names
        for group, runs, mean, deviation, interval in rows:
            scores = means[group]
            assert int(runs) == len(scores)
            assert float(mean) == pytest.approx(np.mean(scores), abs=0.0051)
            if len(scores) == 1:
                assert deviation == "-"
                wanted = study.interval(values[of_groups[group][0]], kept, by_items=False)
                assert same_interval(interval, wanted)
            else:
                assert float(deviation) == pytest.approx(np.std(scores, ddof=1), abs=0.0051)
        assert [row[0] for row in differences] == [f"{b} - {a}" for a, b in pairs]
        ps = [float(row[3]) for row in differences]
        assert [float(row[4]) for row in differences] == pytest.approx(holm(ps), rel=0.15)
        for (a, b), row in zip(pairs, differences, strict=True):
            assert float(row[1]) == pytest.approx(np.mean(means[b]) - np.mean(means[a]), abs=0.0051)
            if len(means[a]) == len(means[b]) == 1:
                one, other = values[of_groups[a][0]][kept], values[of_groups[b][0]][kept]
                both = [int((one > other).sum()), int((other > one).sum())]
                if not margin:
                    assert float(row[3]) == pytest.approx(mcnemar(*both), rel=0.06)
                wanted = study.interval(
                    values[of_groups[b][0]] - values[of_groups[a][0]], kept, by_items=False
                )
                assert same_interval(row[2], wanted)
    levels = [table for table in tables(printed) if table[0][1:5] == ["a", "b", "b - a", "p"]]
    shown = [
        (margin, level, a, b) for margin in kinds for level in (*study.levels, study.finest) for a, b in pairs
    ]
    assert len(levels) == len(shown)
    for (margin, level, a, b), (header, rows) in zip(shown, levels, strict=True):
        assert header[0] == level
        groups = study.groups(level)
        assert [row[0] for row in rows] == [*groups]
        for row in rows:
            one, other = (
                np.mean(
                    [
                        study.mean(
                            study.values(name, margin=margin),
                            groups[row[0]],
                            by_items=study.over_items(level),
                        )
                        for name in of_groups[group]
                    ]
                )
                for group in (a, b)
            )
            shown_means = [float(cell) for cell in row[1:4]]
            assert shown_means == pytest.approx([one, other, other - one], abs=0.0051)
    overview = ["compare", *more, "--overview"]
    assert run(overview) == 0
    rows_of = capsys.readouterr().out
    label = "BLiMP accuracy (%)" if study.is_blimp else "data, accuracy (%)"
    header = [f"{name} ({len(of)} runs)" if len(of) > 1 else name for name, of in of_groups.items()]
    cells = table_of(rows_of, "score", *header)[label]
    for cell, of in zip(cells, of_groups.values(), strict=True):
        own = [
            study.mean(
                study.values(name, margin=False),
                [i for i in range(len(study.items)) if study.right[name][i] is not None],
                by_items=False,
            )
            for name in of
        ]
        mean, *deviation = cell.split(" ± ")
        assert float(mean) == pytest.approx(np.mean(own), abs=0.0051)
        assert [*map(float, deviation)] == pytest.approx(
            [np.std(own, ddof=1)] if len(own) > 1 else [], abs=0.0051
        )
