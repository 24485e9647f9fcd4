"""``eval-attention`` on random suites, models and seeds, against another computation of all that it gives."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from printed_tables import percent, tables

from pdtools.cli.main import run
from pdtools.inspection import region_attention
from pdtools.inspection.region_attention import mean_and_interval
from pdtools.search.scores import Unscorable

Weights = NDArray[np.float64]
LAYERS, HEADS = 2, 3
# Numbers and names of regions: two have one name, one has none.
NAMES = {1: "det", 2: "noun", 3: "rest", 4: "rest", 6: "verb"}


def drawn(folder: str, text: str, start: int) -> tuple[Weights, Weights]:
    """What a model pays to ROOT and the words before a character, and to structure: (L, H, n), (L, H)."""
    rng = np.random.default_rng(zlib.crc32(f"{Path(folder).name} {text} {start}".encode()))
    weights = rng.random((LAYERS, HEADS, 1 + len(text[:start].split())))
    has_structure = "plain" not in folder and "b" in text
    return weights, rng.random((LAYERS, HEADS)) * has_structure


class Drawn:
    """Predictions with weights drawn at random; a sentence with zebras has none, of one of the models."""

    def __init__(self, loaded: Any, search: Any) -> None:
        self.folder, self.settings = loaded.folder, {"kind": "drawn", "beam": search.beam}

    def at(self, sentences: Iterable[tuple[Any, int]]) -> Iterator[Any]:
        for sentence, start in sentences:
            if "zebra" in sentence.text and "plain" in self.folder:
                yield Unscorable(sentence.text, "a zebra")
                continue
            weights, rest = drawn(self.folder, sentence.text, start)
            words = sentence.text[:start].split()
            starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1].tolist()
            yield SimpleNamespace(weights=weights, rest=rest, starts=starts)


class Case:
    """Suites, models and a question."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.folder = folder
        self.suites = {name: self.suite() for name in ("one", "two", "three")}
        runs = [["ours-1", "ours-2", "ours-3"], ["plain"], ["other-1", "other-2"]]
        self.runs = rng.sample(runs, rng.randint(1, 3))
        self.at = rng.choice(["verb", "6", "5"])
        self.regions = rng.choice([[], ["noun"], ["rest", "1"], ["3", "noun", "det"]])
        self.only = rng.choice([[], ["two"], ["three", "one"]])
        (folder / "suites").mkdir()
        for name, items in self.suites.items():
            self.write(name, items)
        for of_recipe in self.runs:
            for number, run_name in enumerate(of_recipe):
                (folder / run_name).mkdir()
                recipe = {"recipe": {"name": of_recipe[0], "train": {"seed": number}}, "data": {}}
                (folder / run_name / "training.json").write_text(json.dumps(recipe))

    def suite(self) -> dict[int, dict[str, dict[int, str]]]:
        """For each item and condition the contents of regions, by number."""
        rng = self.rng
        items = {}
        for number in rng.sample(range(1, 40), rng.randint(12, 15)):
            numbers = [n for n in range(1, 7) if n == 6 or rng.random() < 0.9]
            items[number] = {
                condition: {
                    n: " ".join(rng.choice("abc") * rng.randint(1, 3) for _ in range(rng.randint(n < 5, 2)))
                    for n in numbers
                }
                for condition in ("x", "y")
            }
            if rng.random() < 0.15:
                items[number]["y"][6] = "zebra"
        return items

    def write(self, name: str, items: dict[int, dict[str, dict[int, str]]]) -> None:
        document = {
            "meta": {"name": name, "metric": "sum"},
            "region_meta": {str(number): region for number, region in NAMES.items()},
            "predictions": [{"type": "formula", "formula": "(6;%x%) < (6;%y%)"}],
            "items": [
                {
                    "item_number": number,
                    "conditions": [
                        {
                            "condition_name": condition,
                            "regions": [{"region_number": n, "content": text} for n, text in of.items()],
                        }
                        for condition, of in conditions.items()
                    ],
                }
                for number, conditions in items.items()
            ],
        }
        (self.folder / "suites" / f"{name}.json").write_text(json.dumps(document))

    def asked(self, contents: dict[int, str]) -> tuple[list[str], str] | None:
        """The regions before the predicted one that are asked for, and the text before it."""
        numbers = [*contents]
        named = {n: NAMES.get(n, str(n)) for n in numbers}
        if len({3, 4} & {*numbers}) == 2:
            named |= {3: "3", 4: "4"}
        at = next((n for n in numbers if self.at in (named[n], str(n))), 0)
        wanted = [n for n in numbers if n < at]
        wanted = [n for n in wanted if not self.regions or {named[n], str(n)} & {*self.regions}]
        if not wanted or not contents[at]:
            return None
        return [named[n] if n in wanted else "" for n in numbers if n < at], named[at]

    def found(self, run_name: str, contents: dict[int, str]) -> dict[str, Weights] | str:
        """What regions get from a run, or why nothing."""
        texts = [text for text in contents.values() if text]
        if "zebra" in texts and run_name == "plain":
            return "a zebra"
        names, _ = self.asked(contents) or ([], "")
        before = [*contents.values()][: len(names)]
        start = len(" ".join(filter(None, before))) + any(before)
        weights, rest = drawn(f"{self.folder}/{run_name}", " ".join(texts), start)
        found, place = {}, 1
        for name, text in zip(names, before, strict=True):
            n = len(text.split())
            if n and name:
                found[name] = weights[:, :, place : place + n].sum(2)
            place += n
        if not self.regions:
            found["(root)"] = weights[:, :, 0]
            found |= {"(structure)": rest} if rest.any() else {}
        return found


@pytest.mark.parametrize("seed", range(16))
def test_any_attention(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(folder: str, device: str) -> Any:
        return SimpleNamespace(folder=folder, tokenizer=SimpleNamespace(text_style="ptb"))

    monkeypatch.setattr(region_attention, "load_checkpoint", load)
    monkeypatch.setattr(region_attention, "Predictions", Drawn)
    case = Case(seed, tmp_path)
    details = seed % 2 == 0
    given = [x for of in case.runs for name in of for x in ("--model", str(tmp_path / name))]
    given += [x for name in case.regions for x in ("--region", name)]
    given += [x for name in case.only for x in ("--suite", name)]
    given += ["--details"] if details else []
    command = ["eval-attention", str(tmp_path / "suites"), "--at", case.at, *given, "--device", "cpu"]
    command += ["--samples", "200", "--seed", str(seed), "--beam", "7", "-o", str(tmp_path / "out")]
    assert run(command) == 0
    printed = capsys.readouterr()
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    models = {of[0].removesuffix("-1"): of for of in case.runs}
    assert {name: len(about["folders"]) for name, about in results["settings"]["models"].items()} == {
        name: len(of) for name, of in models.items()
    }
    assert all(about["beam"] == 7 for about in results["settings"]["models"].values())

    # Every value: by suite, region, item, and run, one for each condition.
    values: dict[Any, dict[str, dict[int, dict[Any, list[Weights]]]]] = {}
    rows, without, items = [], set(), set()
    for name, of in models.items():
        for number, run_name in enumerate(of):
            for suite in sorted(case.suites):
                if case.only and suite not in case.only:
                    continue
                for item, conditions in case.suites[suite].items():
                    for condition, contents in conditions.items():
                        if (asked := case.asked(contents)) is None:
                            continue
                        found = case.found(run_name, contents)
                        items.add((suite, item))
                        place = (name, number, suite, item, condition)
                        if isinstance(found, str):
                            without.add((suite, item))
                            rows += [(*place, region, None, None, found) for region in asked[0] if region]
                            continue
                        for region, weights in found.items():
                            rows.append((*place, region, weights.mean(), weights.tolist(), None))
                            of_item = values.setdefault(suite, {}).setdefault(region, {}).setdefault(item, {})
                            of_item.setdefault((name, number), []).append(weights)
    table = pq.read_table(tmp_path / "out" / "items.parquet").to_pylist()
    assert len(table) == len(rows)
    for row, wanted in zip(table, rows, strict=True):
        own = [*row.values()]
        assert (own[:6], own[8]) == ([*wanted[:6]], wanted[8])
        assert own[6] == pytest.approx(wanted[6])
        assert own[7] == wanted[7]

    by_suite, differences, kept_items = results["scores"]["by_suite"], results["scores"]["differences"], {}
    expected: dict[str, dict[str, dict[str, Any]]] = {}
    for suite, regions in values.items():
        for region, by_item in regions.items():
            runs = {run for of_item in by_item.values() for run in of_item}
            kept = [i for i, of in by_item.items() if {*of} == runs and (suite, i) not in without]
            if not kept:
                continue
            kept_items[suite] = max(kept_items.get(suite, 0), len(kept))
            first: Weights | None = None
            for name in (each for each in models if (each, 0) in runs):
                each = np.array(
                    [
                        [np.mean(by_item[i][name, seed], axis=0) for i in kept]
                        for seed in range(len(models[name]))
                    ]
                )
                mine = expected.setdefault(suite, {}).setdefault(region, {})[name] = {
                    **mean_and_interval(each.mean((2, 3)), seed=seed, samples=200),
                    "by_layer": each.mean((0, 1, 3)).tolist(),
                    "by_head": each.mean((0, 1)).tolist(),
                }
                less = None
                if first is not None:
                    less = mean_and_interval(each.mean((2, 3)), less=first, seed=seed, samples=200)
                    assert differences[suite][region][name] == pytest.approx(less)
                else:
                    assert name not in differences.get(suite, {}).get(region, {})
                    first = each.mean((2, 3))
                mine["less"] = less
                same = by_suite[suite][region][name]
                assert [same[x] for x in ("mean", "low", "high")] == pytest.approx(
                    [mine[x] for x in ("mean", "low", "high")]
                )
                np.testing.assert_allclose(same["by_layer"], mine["by_layer"])
                np.testing.assert_allclose(same["by_head"], mine["by_head"])
    assert {s: {r: [*m] for r, m in of.items()} for s, of in by_suite.items()} == {
        s: {r: [*m] for r, m in of.items()} for s, of in expected.items()
    }
    assert results["counts"] == {
        "items": len(items),
        "items_left_out": len(without),
        "items_by_suite": kept_items,
        "seeds": {name: len(of) for name, of in models.items()},
    }
    said = f"{len(without)} items were excluded (items.parquet says why)"
    assert (said in printed.err) == bool(without)
    check_printed(printed.out, expected, kept_items, case.at, details=details)


def check_printed(
    printed: str, expected: dict[str, Any], items: dict[str, int], at: str, *, details: bool
) -> None:
    """The tables say the same, a suite each."""
    shown = tables(printed)
    titles = [line for line in printed.splitlines() if "attention when" in line]
    assert titles == [
        f"{suite}: attention when {at} is predicted (percent; items: {items[suite]})" for suite in expected
    ]

    def ends(of: Any) -> list[str]:
        low, high = (f"{100 * of[name]:.2f}" for name in ("low", "high"))
        return [percent(of["mean"]), f"[{low}, {high}]"]

    wanted = []
    for regions in expected.values():
        cells: list[list[str]] = []
        for region, models in regions.items():
            for model, of in models.items():
                cells.append(
                    [region, model, *ends(of), *(["-", "-"] if of["less"] is None else ends(of["less"]))]
                )
                layers = enumerate(of["by_layer"], start=1) if details else ()
                cells += [[f"layer {layer}", percent(share), "-"] for layer, share in layers]
        wanted.append((["region", "model", "mean", "95%", "less 1st", "95%"], cells))
    lines = [line.split() for line in printed.splitlines()]
    for header, cells in wanted:
        assert header in [each for each, _ in shown]
        for row in cells:
            assert " ".join(row).split() in lines, row
