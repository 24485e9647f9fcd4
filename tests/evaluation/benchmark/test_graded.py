"""Labels of acceptability, which a threshold has to say, and numbers that scores are correlated with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.benchmark.definition import Benchmark
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.from_toml import benchmark_from, read_benchmark
from pdtools.evaluation.benchmark.graded import best_threshold, roc_auc
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.prompts.tasks import pearson
from pdtools.report.evaluations import print_benchmark

SCORED = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12)


def by_hand(labels: list[bool], predicted: list[bool]) -> float | None:
    pairs = list(zip(labels, predicted, strict=True))
    tp, tn, fp, fn = (
        pairs.count(pair) for pair in ((True, True), (False, False), (False, True), (True, False))
    )
    scale = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / scale**0.5 if scale else None


@given(SCORED)
def test_the_threshold_is_the_best_there_is(rows: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([float(score) for score, _ in rows]), np.array([label for _, label in rows])
    threshold = best_threshold(labels, scores)
    found = pearson(labels * 1.0, (scores > threshold) * 1.0)
    assert found == pytest.approx(by_hand(labels.tolist(), (scores > threshold).tolist()))
    others = [by_hand(labels.tolist(), (scores > cut + 0.5).tolist()) for cut in range(-1, 6)]
    known = [each for each in others if each is not None]
    assert not known or found == pytest.approx(max(known))


def test_of_equally_good_thresholds_it_is_the_lowest() -> None:
    assert best_threshold(np.array([False, True, False, True]), np.arange(4.0)) == 0.5


@given(SCORED)
def test_the_area_is_a_share_of_pairs(rows: list[tuple[int, bool]]) -> None:
    good, bad = ([score for score, label in rows if label == wanted] for wanted in (True, False))
    found = roc_auc(np.array([label for _, label in rows]), np.array([float(score) for score, _ in rows]))
    pairs = [(a > b) + (a == b) / 2 for a in good for b in bad]
    assert found == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)


def labelled(**parts: Any) -> Benchmark:
    table = {
        "files": "*.tsv",
        "strings": {"s": "{s}"},
        "label": {"value": "{l}", "good": "yes", "bad": "no"},
        "threshold": {"from": "train*"},
        "levels": {"kind": "{k}"},
    }
    return benchmark_from({**table, **parts}, "toy.toml", "toy")


def write(folder: Path, name: str, *rows: str) -> None:
    (folder / name).write_text("s\tl\tk\n" + "".join(row + "\n" for row in rows))


def test_a_threshold_that_is_chosen_on_other_files(tmp_path: Path, word_scorer: type[Any]) -> None:
    write(tmp_path, "a.tsv", "a\tyes\tx", "aaa\tno\tx", "aaaa\tyes\ty", "aaaaaa\tno\ty", "zebra\tno\ty")
    write(tmp_path, "train.tsv", "aa\tyes\tx", "aaaa\tno\tx", "zebra\tyes\tx")
    scorer = word_scorer(unknown=frozenset({"zebra"}))
    results = evaluate_items(Items(tmp_path, labelled()), scorer)
    assert results.settings["threshold"] == -4.0  # of aa and its end -3, of aaaa -5
    assert results.counts["items_for_threshold"] == 2
    assert (results.counts["items"], results.counts["items_scored"]) == (5, 4)
    table = results.table("items").to_pydict()
    assert table["correct"] == [True, True, False, True, None]
    assert table["score"] == [-2.0, -4.0, -5.0, -7.0, None]
    assert results.scores["by_kind"] == {"x": 1.0, "y": 0.5}
    assert results.scores["mcc"] == pytest.approx(
        by_hand([True, False, True, False], [True, False, False, False])
    )
    # The score of aaa is at the threshold, not above it.
    assert results.scores["mcc_by_kind"] == {"x": pytest.approx(1.0), "y": None}
    assert (results.scores["auc"], results.scores["auc_by_kind"]) == (0.75, {"x": 1.0, "y": 1.0})
    assert results.counts["items_for_threshold_unscorable"] == 1
    limited = evaluate_items(Items(tmp_path, labelled(), limit=1), scorer)
    assert (limited.settings["threshold"], limited.counts["items_for_threshold"]) == (-4.0, 2)
    assert limited.table("strings")["text"].to_pylist() == ["a", "aaaa"]
    no_train = word_scorer(unknown=frozenset({"aa", "aaaa", "zebra"}))
    with pytest.raises(InputError, match="no item that a threshold could be chosen on has a score"):
        evaluate_items(Items(tmp_path, labelled()), no_train)
    given_one = evaluate_items(Items(tmp_path / "a.tsv", labelled(threshold=-6)), scorer)
    assert given_one.scores["by_kind"] == {"x": 0.5, "y": 1.0}


@pytest.mark.parametrize(
    ("score", "values"),
    [("sum", [-4, -3]), ("per_token", [-2, -3]), ("per_character", [-4 / 5, -1]), ("per_word", [-2, -3])],
)
def test_labels_of_texts_after_a_context(
    tmp_path: Path, word_scorer: type[Any], score: str, values: list[float]
) -> None:
    """Scores are divided by what is scored, which the context is not."""
    write(tmp_path, "a.tsv", "bb cc\tyes\tx y z", "ddd\tno\tx")
    parts = {"strings": {"s": {"text": "{s}", "context": "{k}"}}, "scores": {"main": score}, "levels": {}}
    items = Items(tmp_path, labelled(**parts, threshold=-2.5))
    found = evaluate_items(items, word_scorer()).table("items").to_pydict()
    assert found["score"] == pytest.approx(values)


def test_groups_that_an_item_may_be_in_several_of(
    tmp_path: Path, word_scorer: type[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("a,b,NPI,binding\nx,xx,True,1.0\nxx,x,0.0,T\nx,y,,NO\n")
    table = {
        "strings": {"good": "{a}", "bad": "{b}"},
        "levels": {"phenomenon": {"flags": ["NPI", "binding"]}},
    }
    results = evaluate_items(Items(tmp_path, benchmark_from(table, "toy.toml", "toy")), word_scorer())
    assert results.scores["by_phenomenon"] == {"NPI": 1.0, "binding": 0.5}
    assert results.scores["by_file"] == {"a": pytest.approx(1 / 3)}
    assert results.table("items")["phenomenon"].to_pylist() == [["NPI", "binding"], ["binding"], []]
    counted = {"NPI": {"items": 1, "scored": 1, "ties": 0}, "binding": {"items": 2, "scored": 2, "ties": 0}}
    assert results.counts["by_phenomenon"] == counted
    print_benchmark(results)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["binding", "50.00", "2", "2", "0"] in lines
    rows = [("x", "xx", True, 1.0), ("xx", "x", 0, "T"), ("x", "y", None, "NO")]  # of types that CSV lacks
    twin = tmp_path / "twin.jsonl"
    objects = (dict(zip(("a", "b", "NPI", "binding"), row, strict=True)) for row in rows)
    twin.write_text("".join(json.dumps(each) + "\n" for each in objects))
    items = Items(twin, benchmark_from(table, "toy.toml", "toy"))
    assert [item.flags for item in items] == [(("NPI", "binding"),), (("binding",),), ((),)]
    twin.unlink()
    table["levels"] = {"phenomenon": {"flags": ["island"]}}
    with pytest.raises(InputError, match="a.csv:2: no column 'island'"):
        Items(tmp_path, benchmark_from(table, "toy.toml", "toy"))


def test_numbers_of_people(tmp_path: Path, word_scorer: type[Any]) -> None:
    (tmp_path / "a.csv").write_text("a,b,n\nx,xx,3\nx,xxx,1\nxx,x,-2\nx,x,1.5\nzebra,x,1\n")
    table = {
        "strings": {"a": "{a}", "b": "{b}"},
        "value": {"column": "n", "against": "a - b", "correlation": "pearson"},
    }
    scorer = word_scorer(unknown=frozenset({"zebra"}))
    results = evaluate_items(Items(tmp_path, benchmark_from(table, "toy.toml", "toy")), scorer)
    expected = np.corrcoef([1, 2, -1, 0], [3, 1, -2, 1.5])[0, 1]
    assert results.scores["overall"] == pytest.approx(expected)
    ranked = {**table, "value": {"column": "n", "against": "a - b"}}
    results = evaluate_items(Items(tmp_path, benchmark_from(ranked, "toy.toml", "toy")), scorer)
    assert results.scores["overall"] == pytest.approx(np.corrcoef([3, 4, 1, 2], [4, 2, 1, 3])[0, 1])
    items = results.table("items").to_pydict()
    assert items["score"] == [1.0, 2.0, -1.0, 0.0, None]
    assert items["reason"][-1] == "a: words unknown to the model: zebra"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"threshold": "best"}, "threshold has to be a number, or"),
        ({"label": {"value": "{l}", "good": "x", "bad": "x"}}, "label is of one string"),
        ({"label": {"values": "{l}"}}, "label has no 'values'"),
        ({"chance": {"main": 0.5}}, "label and value go without predictions, options and chance"),
        ({"value": {"column": "n", "against": "s"}}, "either label or value"),
        (
            {"label": None, "value": {"column": "n", "against": "s > s"}},
            "value.against: column 1: a comparison",
        ),
        (
            {"label": None, "value": {"column": "n", "against": "s", "correlation": "r"}},
            "value.correlation has to be",
        ),
    ],
)
def test_files_that_are_no_benchmarks(parts: dict[str, Any], reason: str) -> None:
    table = {"strings": {"s": "{s}"}, "label": "{l}", "threshold": 0, **parts}
    if table["label"] is None:
        del table["label"], table["threshold"]
    with pytest.raises(InputError, match="toy.toml: ") as error:
        benchmark_from(table, "toy.toml", "toy")
    assert reason in str(error.value)


def test_labels_and_numbers_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "aa\tyes\tx")
    with pytest.raises(InputError, match="no items of toy"):
        Items(tmp_path, labelled())
    write(tmp_path, "a.tsv", "a\tmaybe\tx")
    with pytest.raises(InputError, match="a.tsv:2: the label is 'maybe', not yes or no"):
        Items(tmp_path, labelled())
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(InputError, match="no files to choose a threshold on"):
        Items(tmp_path, labelled())
    of_numbers = {"strings": {"s": "{s}"}, "value": {"column": "l", "against": "s"}}
    with pytest.raises(InputError, match="a.tsv:2: the value is 'maybe', no number"):
        Items(tmp_path, benchmark_from(of_numbers, "toy.toml", "toy"))


def test_as_commands_run_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "wug_adj"
    folder.mkdir()
    rows = [
        ("the dog barks", "the dog bark", 0.5),
        ("the cat barks", "the cats barks", 0.7),
        ("a dog", "dog", 0.2),
    ]
    text = "".join(json.dumps({"sentences": f"{a}\t{b}", "ratio": r}) + "\n" for a, b, r in rows)
    (folder / "wug.jsonl").write_text(text)
    command = ["eval-benchmark", str(tmp_path), "--as", "wug", "--model", "demo-base"]
    for name in ("a", "b"):
        assert run([*command, "-o", str(tmp_path / "results" / name)]) == 0
    assert "Wug test of adjective nominalisation, Spearman's ρ (%)" in capsys.readouterr().out
    assert run(["compare", str(tmp_path / "results" / "a"), str(tmp_path / "results" / "b")]) == 0
    assert "Spearman's ρ" in capsys.readouterr().out
    assert run(["view", str(tmp_path / "results" / "a"), "-o", str(tmp_path / "page.html")]) == 0
    wide = [*command, "-o", str(tmp_path / "c"), "--beam", "auto"]
    assert run(["demo" if word == "demo-base" else word for word in wide]) == 1
    assert "--beam auto needs predictions, and it has none" in capsys.readouterr().err


def test_jcola_as_published(test_data: Path) -> None:
    source = test_data / "benchmarks" / "acceptability" / "jcola.zip"
    if not source.is_file():
        pytest.skip("no published benchmarks there")
    items = Items(source, read_benchmark("jcola"))
    found = {
        file.rpartition("/")[2].partition("-")[0]: counts["items"] for file, counts in items.by_file.items()
    }
    assert found == {"in_domain_train": 6919, "in_domain_valid": 865, "out_of_domain_valid": 685}
    of_valid = [item for item in items if not item.trains]
    assert sum(item.label is True for item in of_valid) == 726 + 502
    assert {item.levels for item in of_valid} == {("in_domain",), ("out_of_domain",)}
