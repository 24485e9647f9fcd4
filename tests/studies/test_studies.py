"""The studies, end to end on a few strings: every stage runs, and a second run does nothing twice."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shell import Shell, script

from pdtools.evaluation.intervals import wilson
from pdtools.formal.bracket_prefixes import BracketPrefix, read_prefixes
from pdtools.formal.language import strings
from pdtools.models import load_checkpoint

REPOSITORY = Path(__file__).resolve().parents[2]
DYCK = REPOSITORY / "studies" / "dyck"


SMALL = {"SEEDS": "1", "JOBS": "1", "STEPS": "2", "STRINGS": "200", "PREFIXES": "2", "BEAM": "2"}
SMALL |= {"HELD_OUT": "20"}


def study(name: str, folder: Path, out: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return Shell(folder, **settings).run("sh", REPOSITORY / "studies" / name / "study.sh", out)


def first_cells(table: str) -> list[str]:
    return [line.split(" | ")[0].strip("| ") for line in table.splitlines() if line.startswith("| ")]


def test_dyck(tmp_path: Path) -> None:
    out = tmp_path / "a study"
    settings = {**SMALL, "DEPENDENCIES": "50", "PUSHDOWN_PREFIXES": "1"}
    models = ("base", "base-attachment", "pushdown", "pushdown-distances")
    done = study("dyck", tmp_path, out.name, **settings)
    assert done.returncode == 0, done.stderr
    table = (out / "table.md").read_text()
    assert table.strip() in done.stdout
    by_set, _ = table.split("\nSeeds: ")
    shallow, deep = by_set.split("\nPrefixes of strings with at most 40 brackets open")
    assert first_cells(shallow) == first_cells(deep)
    assert "— right attachments more probable than all in the beam" in first_cells(deep)
    assert {path.name for path in out.glob("*.svg")} == {
        "by-dependency-depth-10.svg",
        "by-dependency-depth-40.svg",
        "by-depth.svg",
    }
    deepest = [prefix.depth for prefix in read_prefixes(out / "prefixes" / "dependency-50-depth-10.tsv")]
    assert max(deepest) <= 10
    results = json.loads((out / "results.json").read_text())
    assert set(results["scores"]) == set(models)
    assert results["scores"]["pushdown-distances"]["dependency-50-depth-40"]["1"]["prefixes"] == 2
    assert results["scores"]["pushdown"]["depth"]["1"]["prefixes"] == 1
    assert list(dict.fromkeys(row["series"] for row in results["figures"]["depth"])) == [
        "base LM",
        "base LM + attachment loss",
        "Pushdown LM",
        "Pushdown LM + stack distances",
    ]

    # A stop between two stages: what is missing is made again, the rest is left alone.
    kept = out / "results" / "base-1" / "depth" / "results.json"
    lost = out / "results" / "pushdown-distances-1" / "depth" / "results.json"
    before = kept.stat().st_mtime_ns
    for path in lost.parent.iterdir():
        path.unlink()
    lost.parent.rmdir()
    # And a run that fails, its record damaged: the others go on, the exit status says so.
    record = out / "runs" / "base-1" / "run.json"
    record.write_text(record.read_text().replace('"train": "', '"train": "not '))
    again = study("dyck", tmp_path, out.name, **settings)
    assert again.returncode == 1
    assert f"pdtools: {out.name}/runs/base-1/run.json: " in again.stderr
    assert "Not all runs are done" in again.stderr
    assert lost.exists()
    assert kept.stat().st_mtime_ns == before
    assert (out / "table.md").read_text() == table

    # Other settings would mix with what is there.
    other = study("dyck", tmp_path, out.name, **{**settings, "BEAM": "3"})
    assert other.returncode == 1
    assert (
        "begun with SETTING=released-like POSITIONS=alibi BATCHES=1 STEPS=2 STRINGS=200 PREFIXES=2 BEAM=2"
        " MARGIN=8, not" in other.stderr
    )


def test_dyck_on_free_strings_with_other_positions_and_batches(tmp_path: Path) -> None:
    settings = {**SMALL, "DEPENDENCIES": "50", "MODELS": "base pushdown", "PUSHDOWN_PREFIXES": "1"}
    settings |= {"SETTING": "free", "POSITIONS": "relative", "BATCHES": "4", "STEPS": "1"}
    done = study("dyck", tmp_path, "free", **settings)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "free" / "train" / "manifest.json").read_text())
    assert (manifest["language"]["max_length"], manifest["language"]["max_dependency"]) == (598, None)
    model = json.loads((tmp_path / "free" / "runs" / "base-1" / "best" / "config.json").read_text())
    assert model["config"]["positions"] == "relative"
    record = json.loads((tmp_path / "free" / "runs" / "base-1" / "run.json").read_text())
    training = record["recipe"]["train"]
    assert (training["batch_sentences"], training["accumulate"]) == (16, 4)
    # The plain Pushdown LM is slow on deeper strings, and is tested on fewer of them.
    scores = json.loads((tmp_path / "free" / "results.json").read_text())["scores"]["pushdown"]
    tested = {name: scores[f"dependency-50-{name}"]["1"]["prefixes"] for name in ("depth-10", "depth-40")}
    assert tested == {"depth-10": 2, "depth-40": 1}


def test_dyck_as_released(tmp_path: Path) -> None:
    settings = {**SMALL, "DEPENDENCIES": "50", "MODELS": "released-base released", "PUSHDOWN_PREFIXES": "1"}
    done = study("dyck", tmp_path, "released", **settings | {"SETTING": "as-released", "STEPS": "1"})
    assert done.returncode == 0, done.stderr
    out = tmp_path / "released"
    language = json.loads((out / "train" / "manifest.json").read_text())["language"]
    assert (language["min_length"], language["max_length"], language["max_dependency"]) == (4, 600, None)
    recipe = json.loads((out / "runs" / "released-1" / "run.json").read_text())["recipe"]
    training = recipe["train"]
    assert (training["batch_sentences"], training["accumulate"], training["learning_rate"]) == (8, 8, 1e-4)
    assert (recipe["config"]["positions"], recipe["config"]["initialization"]) == ("relative", "released")
    copies = {"released": "open", "released-all": "all", "released-allowed": "allowed"}
    for name, normalize in copies.items():
        checkpoint = load_checkpoint(out / "runs" / f"{name}-1", "cpu")
        assert checkpoint.model.config.normalize == normalize
        weights, own = (load_checkpoint(out / "runs" / f"{each}-1", "cpu") for each in (name, "released"))
        for part, values in weights.model.state_dict().items():
            assert values.equal(own.model.state_dict()[part]), part
    scores = json.loads((out / "results.json").read_text())["scores"]
    assert set(scores) == {"released-base", *copies}
    # The authors' nests are closed whole by the released search, and slow tests of the others are cut short.
    names = ("dependency-50-depth-10", "dependency-50-depth-40", "depth", "nests-as-released")
    tested = {
        model: [of[name]["1"]["prefixes"] if name in of else 0 for name in names]
        for model, of in scores.items()
    }
    assert tested == {
        "released-base": [2, 2, 2, 2],
        "released": [2, 1, 1, 2],
        "released-all": [0, 0, 1, 1],
        "released-allowed": [0, 0, 1, 1],
    }
    table = (out / "table.md").read_text()
    best = [line for line in table.splitlines() if line.startswith("| — by the best hypothesis | ")]
    assert [line.count("**") // 2 for line in best] == [1, 3, 2, 2]


def test_fillers_of_the_authors_nests_are_unlike_training() -> None:
    nests = script(DYCK / "authors_nests.py")
    language = nests.Unlike(brackets=2, depth=4, min_length=4, max_length=12, training=40)

    def shapes(tokens: Sequence[str]) -> set[str]:
        text, depth, found = "", 0, set()
        for token in tokens:
            text, depth = text + token[0], depth + (1 if token[0] == "(" else -1)
            if depth == 0:
                found, text = found | {text}, ""
        return found

    like = nests.Dyck(brackets=2, depth=4, min_length=4)
    of_training = [shapes(string.tokens) for string in strings(like, 40, seed=nests._TRAINING_SEED)]
    seen = set().union(*of_training)
    of_fillers = [shapes(string.tokens) for string in strings(language, 30, seed=5)]
    assert all(each - seen for each in of_fillers)
    assert any(each & seen for each in of_fillers)  # one pair is enough
    # The others are left out, in their order.
    plain = nests.Dyck(brackets=2, depth=4, min_length=4, max_length=12)
    kept = [string.tokens for string in strings(plain, 400, seed=5) if shapes(string.tokens) - seen]
    assert [string.tokens for string in strings(language, len(kept), seed=5)] == kept


def test_batches_that_do_not_divide_a_step_are_refused(tmp_path: Path) -> None:
    for batches in ("3", "0", "128", "x"):
        done = study("dyck", tmp_path, "none", **{**SMALL, "BATCHES": batches})
        assert done.returncode == 1
        assert done.stderr == f"BATCHES={batches}: must divide 64, the strings of a step\n"
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(DYCK / "report.py")


def test_seeds_that_close_the_same_prefixes_do_not_narrow_the_interval(report: ModuleType) -> None:
    seeds = [{"accuracy": accuracy, "prefixes": 100} for accuracy in (0.5, 0.7)]
    low, high = wilson(60, 100)
    assert report.cell(seeds) == f"**60.0** [{100 * low:.1f}, {100 * high:.1f}] (50.0, 70.0)"
    seeds.insert(0, {"accuracy": 0.6, "prefixes": 200})  # one that was begun before the test was made smaller
    assert f"[{100 * low:.1f}, {100 * high:.1f}]" in report.cell(seeds)
    assert report.cell([]) == "-"
    low, high = wilson(30, 100)
    by_best = {"accuracy": 0.5, "accuracy_by_best": 0.3, "prefixes": 100}
    assert (
        report.cell([by_best], "accuracy_by_best") == f"**30.0** [{100 * low:.1f}, {100 * high:.1f}] (30.0)"
    )


def test_lines_of_the_figures(report: ModuleType) -> None:
    def item(number: int, depth: int, chosen: str) -> dict[str, Any]:
        return {"set": "depth", "number": number, "depth": depth, "closer": ")1", "chosen": chosen}

    one = [item(1, 15, ")1"), item(2, 20, ")1"), item(3, 21, ")2")]
    other = [item(1, 15, ")1"), item(2, 20, ")2"), item(3, 21, ")2")]
    elsewhere = {**item(1, 16, ")2"), "set": "dependency-50-depth-40"}
    rows = list(report.accuracy_line("a model", [*one, *other, elsewhere], "depth", "depth", 15, 6))
    assert [(row["x"], row["y"]) for row in rows] == [(17.5, 75), (21, 0)]
    ends = [100 * end for end in wilson(1.5, 2)]
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx(ends)
    assert rows[1]["high"] == pytest.approx(100 * wilson(0, 1)[1])


def test_closers_by_the_brackets_that_are_open(report: ModuleType) -> None:
    def prefix(openers: int) -> BracketPrefix:
        return BracketPrefix(tokens=("(1",) * openers, closer=")1", dependency=1, depth=1)

    def item(number: int, chosen: str, given: str) -> dict[str, Any]:
        where = {"set": "dependency-50-depth-40", "number": number, "closer": ")1"}
        return {**where, "chosen": chosen, "chosen_given_attachments": given}

    items = [item(1, ")1", ")1"), item(2, ")2", ")1"), item(3, ")2", ")2"), item(1, ")2", ")1")]
    counts = report.open_brackets(items, {"dependency-50-depth-40": [prefix(10), prefix(11), prefix(12)]})
    assert counts == {
        "dependency-50-depth-40": {
            "few": {"prefixes": 2, "right": 1, "right_given_attachments": 2},
            "many": {"prefixes": 2, "right": 0, "right_given_attachments": 1},
        }
    }
    rows = report.open_table({"base": counts, "pushdown": counts}).splitlines()[2:]
    assert rows == [
        "| base LM | at most 10 | 50 | - | - | - |",
        "| base LM | more | 0 | - | - | - |",
        "| Pushdown LM | at most 10 | 50 | - | - | - |",
        "| Pushdown LM | more | 0 | - | - | - |",
        "| — attachments given | at most 10 | 100 | - | - | - |",
        "| — attachments given | more | 50 | - | - | - |",
    ]


def test_closers_by_the_most_brackets_that_are_open(report: ModuleType) -> None:
    def prefix(deepest: int) -> BracketPrefix:
        tokens = ("(1", *deepest * ("(2",), *deepest * (")2",), *("(2",), *(")2",))
        return BracketPrefix(tokens=tokens, closer=")1", dependency=1, depth=1)

    where = {"set": "dependency-50-depth-40", "closer": ")1"}
    items = [
        {**where, "number": number, "chosen": chosen}
        for number, chosen in [(1, ")1"), (2, ")2"), (3, ")1"), (4, ")1"), (5, ")2"), (1, ")2")]
    ]
    prefixes = {"dependency-50-depth-40": [prefix(deepest) for deepest in (9, 10, 13, 14, 39)]}
    counts = report.deepest_brackets(items, prefixes)
    assert counts == {
        "dependency-50-depth-40": {
            "at most 10": {"prefixes": 2, "right": 1},
            "11 to 14": {"prefixes": 2, "right": 1},
            "15 to 20": {"prefixes": 1, "right": 1},
            "more": {"prefixes": 1, "right": 0},
        }
    }
    rows = report.deepest_table({"base": counts}).splitlines()[2:]
    assert rows == [
        "| base LM | at most 10 | 50 (2) | - | - | - |",
        "| base LM | 11 to 14 | 50 (2) | - | - | - |",
        "| base LM | 15 to 20 | 100 (1) | - | - | - |",
        "| base LM | more | 0 (1) | - | - | - |",
    ]


def test_prefixes_as_the_authors_draw_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authors = script(DYCK / "authors_prefixes.py")
    for name, value in (("LONGEST_STRING", 6), ("PREFIXES", 2), ("DEPENDENCIES", (3,)), ("SAMPLES", 2)):
        monkeypatch.setattr(authors, name, value)
    inner = "(1 (2 )2 )1"  # one closer is 3 tokens after its opener
    text = [inner, f"(3 {inner} )3", f"(3 (4 {inner} )4 )3", inner, inner, inner]
    (tmp_path / "strings.txt").write_text("\n".join(text) + "\n")
    authors.main(tmp_path / "strings.txt", tmp_path / "out")
    # The third string is too long; of the last two only one sample can be made, with the string before them.
    first, second = (read_prefixes(path) for path in sorted((tmp_path / "out").iterdir()))
    found = [
        [(" ".join(each.tokens), each.closer, each.dependency, each.depth) for each in sample]
        for sample in (first, second)
    ]
    one = ("(1 (2 )2", ")1", 3, 2)
    assert found[0] == [one, ("(3 (1 (2 )2", ")1", 3, 3), ("(3 (1 (2 )2 )1", ")3", 5, 3)]
    assert found[1] == [one, one]


def test_what_is_not_known_of_a_seed_is_excluded_from_the_mean(report: ModuleType) -> None:
    assert report.mean_percent([{"share": None}, {"share": 0.5}, {"share": 1.0}], "share") == "75.0"
    assert report.mean_percent([{"share": None}], "share") == "-"


def test_perplexities_are_those_of_the_same_strings(report: ModuleType) -> None:
    found: Any = report.defaultdict(lambda: report.defaultdict(dict))
    entropy = {
        "base": {
            seed: {"ppl_model": model, "automaton": math.log(7.0), "ppl_entropy": 6.5}
            for seed, model in (("1", 7.4), ("2", 7.6))
        }
    }
    lines = report.markdown(found, entropy, {}).splitlines()
    assert next(line for line in lines if line.startswith("| base LM |")).endswith("| 7.500 |")
    assert next(line for line in lines if line.startswith("| the automaton")).endswith("| 7.000 |")


def test_guesses_without_a_model(report: ModuleType) -> None:
    def prefix(text: str, closer: str) -> BracketPrefix:
        return BracketPrefix(tokens=tuple(text.split()), closer=closer, dependency=1, depth=1)

    # The right type is two of three openers, and open twice; then two of four, and the last that is open.
    assert report.guess([prefix("(1 (2 (1", ")1")]) == {"any": pytest.approx(2 / 3), "most": 1}
    assert report.guess([prefix("(1 (2 (3 )3 (3", ")3")]) == {"any": 0.5, "most": 1}
    assert report.guess([prefix("(2 (2 (1", ")1")]) == {"any": pytest.approx(1 / 3), "most": 0}


def test_a_model_tested_on_fewer_prefixes_says_so(report: ModuleType) -> None:
    found: Any = report.defaultdict(lambda: report.defaultdict(dict))
    for model, prefixes in (("base", 100), ("pushdown", 20)):
        for name in [name for sets in report.TABLES.values() for name in sets]:
            score = {"accuracy": 0.5, "prefixes": prefixes, **dict.fromkeys(report.PARTS, 0.5)}
            found[model][name]["1"] = score
    table = report.markdown(found, {}, {})
    assert "| base LM | **50.0**" in table
    assert "| Pushdown LM, 20 prefixes | **50.0**" in table
    # A set of which more were closed is named, too; answers of the best hypothesis are shown as answers are.
    found["pushdown"]["depth"]["1"] |= {"prefixes": 100, "accuracy_by_best": 0.25}
    table = report.markdown(found, {}, {})
    assert "| Pushdown LM, 20 or 100 prefixes | **50.0**" in table
    best = [line.split(" | ") for line in table.splitlines() if line.startswith("| — by the best hypothesis")]
    assert [cell.split(" ")[0] for cell in best[1][1:-1]] == ["**50.0**"] * 4 + ["**25.0**"]
