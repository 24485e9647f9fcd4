"""Suites, region surprisals and SG scores."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
import threading
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_sets import condition as of
from toy_sets import suite_of

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.evaluate import ItemComparison, evaluate_items
from pdtools.evaluation.benchmark.outcomes import Part, Tally, part_of
from pdtools.evaluation.comparison.compare import compare
from pdtools.evaluation.comparison.groups import each_alone
from pdtools.evaluation.results import write_results
from pdtools.evaluation.sg.item_results import aggregate_items, read_item_results, sg_scores
from pdtools.evaluation.sg.record import CIRCUITS, EXCLUDED, SCORED_31, SCORED_33
from pdtools.evaluation.sg.suites import Condition, SuiteFiles, SuiteItems, present
from pdtools.search.scores import Unscorable


def suite(name: str = "toy", formula: str = "(2;%a%) < (2;%b-1%)", **meta: Any) -> dict[str, Any]:
    """A suite of two items: in the first, condition a has the shorter region 2; in the second, b has."""

    items = [
        [
            of("a", "The dog", "ran", "", "home ."),
            of("b-1", "The dog", " runs fast", "", "home ."),
        ],
        [of("b-1", "A cat", "sat", "", " ."), of("a", "A cat", "slept", "", " .")],
    ]
    made = suite_of(*items, formula=formula, name=name, **meta)
    return {**made, "region_meta": {"1": "subject", "2": "verb"}}


def write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content))
    return path


# --- reading ----------------------------------------------------------------------------------


def test_text_and_regions(tmp_path: Path) -> None:
    (found,) = SuiteFiles(write(tmp_path / "toy.json", suite()))
    first = found.items[0].conditions[1]
    assert first.text == "The dog runs fast home ."
    assert [first.text[a:b] for a, b in first.spans] == ["The dog", "runs fast", "", "home ."]
    assert found.circuit == "other"


def test_folder_and_zip_are_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "suites"
    folder.mkdir()
    write(folder / "b.json", suite("b", circuit="Agreement"))
    write(folder / "a.json", suite("a"))
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"deep/json/{path.name}")
        archive.writestr("__MACOSX/deep/json/._a.json", b"\x00\x05")
    assert [s.name for s in SuiteFiles(folder)] == ["a", "b"]
    assert list(SuiteFiles(folder)) == list(SuiteFiles(tmp_path / "s.zip"))
    assert list(SuiteFiles(folder))[1].circuit == "Agreement"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["predictions"][0].update(formula="(2;%a%) <"), "column 10"),
        (lambda d: d["predictions"][0].update(formula="(2;%c%) < 1"), "no condition 'c'"),
        (lambda d: d["predictions"][0].update(formula="(9;%a%) < 1"), "no region 9"),
        (lambda d: d.pop("items"), "not a test suite: no 'items'"),
        (lambda d: d["meta"].update(metric="mean"), "only sums"),
        (lambda d: d["items"][1].update(item_number=1), "two items of one number"),
        (
            lambda d: d["items"][0]["conditions"][0]["regions"][0].update(region_number=2),
            "condition 'a' has two regions of one number",
        ),
        *(
            (
                lambda d, n=n: d["items"][0]["conditions"][0]["regions"][0].update(region_number=n),
                f"condition 'a' has a region {n}: numbers go from 0 to 1,000",
            )
            for n in (-1, 1001)
        ),
        (lambda d: d.update(items=[]), "without items"),
        (lambda d: d.update(region_meta=["subject"]), "not a test suite"),
        (lambda d: d["region_meta"].update(x="subject"), "not a test suite"),
    ],
)
def test_bad_suites_are_named(tmp_path: Path, change: Any, says: str) -> None:
    data = suite()
    change(data)
    with pytest.raises(InputError, match=r"toy\.json") as caught:
        SuiteFiles(write(tmp_path / "toy.json", data))
    assert says in str(caught.value)


def test_missing_and_empty_sources(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no test suites"):
        SuiteFiles(tmp_path)
    for name in ("none.json", "none.zip"):
        with pytest.raises(InputError, match=r"[Nn]o such file"):
            SuiteFiles(tmp_path / name)
    (tmp_path / "bad.zip").write_bytes(b"not a zip")
    with pytest.raises(InputError, match="damaged zip"):
        SuiteFiles(tmp_path / "bad.zip")


def test_the_official_suites(test_data: Path) -> None:
    suites = {s.name: s for s in SuiteFiles(test_data / "sg" / "sg_suites.zip")}
    with (test_data / "sg" / "suites.csv").open() as stream:
        expected = list(csv.DictReader(stream))
    assert len(suites) == len(expected) == 34
    for row in expected:
        found = suites[row["suite"]]
        assert found.circuit == (row["circuit"] or "other")
        assert len(found.items) == int(row["n_items"])
        assert len(found.formulas) == int(row["n_predictions"])
        assert {len(item.conditions) for item in found.items} == {int(row["n_conditions"])}
        assert (found.name in SCORED_31) == bool(int(row["scored"]))
    every = [
        (found, item, condition)
        for found in suites.values()
        for item in found.items
        for condition in item.conditions
    ]
    assert len(every) == 3304
    with zipfile.ZipFile(test_data / "sg" / "sg_suites.zip") as archive:
        raw = {
            (name.split("/")[-1].removesuffix(".json"), item["item_number"], c["condition_name"]): c[
                "regions"
            ]
            for name in archive.namelist()
            if name.endswith(".json")
            for item in json.loads(archive.read(name))["items"]
            for c in item["conditions"]
        }
    for found, item, condition in every:
        contents = [region["content"] for region in raw[found.name, item.number, condition.name]]
        assert condition.text.split() == " ".join(contents).split()
        assert "  " not in condition.text
        assert condition.text == condition.text.strip()
        assert [condition.text[a:b].split() for a, b in condition.spans] == [
            text.split() for text in contents
        ]


# --- region surprisals ------------------------------------------------------------------------

contents = st.lists(
    st.sampled_from(["", "the dog", "did n't", ",", "company 's", "(", "a b c ."]), min_size=1, max_size=6
)


@given(contents.filter(any), st.sampled_from(["ptb", "raw", None]), st.integers(1, 3), st.booleans())
def test_regions_add_up_to_the_sentence(
    word_scorer: Any, regions: list[str], style: str | None, subwords: int, eos: bool
) -> None:
    condition = Condition(name="c", regions=tuple(regions), numbers=tuple(range(1, len(regions) + 1)))
    presented = present(condition, style)
    scorer = word_scorer(text_style=style, subwords=subwords, eos=-1.5 if eos else None)
    (score,) = scorer.score([presented.asked])
    found = part_of(presented, score)
    assert isinstance(found, Part)
    assert sum(span.bits or 0.0 for span in found.spans) * math.log(2) == pytest.approx(-score.total)
    # A word's log-probability is minus its length, however many subwords it is in.
    lengths = [sum(len(word) for word in region.split()) for region in regions]
    surprisals = [span.bits or 0.0 for span in found.spans[: len(regions)]]
    assert [bits * math.log(2) for bits in surprisals] == pytest.approx(lengths)


def test_sentences_are_written_in_the_models_style() -> None:
    condition = Condition(name="c", regions=("She did n't", "", ", he said ,", "go ."), numbers=(1, 2, 3, 4))
    raw = present(condition, "raw")
    assert raw.text == "She didn't, he said, go."
    assert [raw.text[a:b] for a, b in raw.spans] == ["She didn't", "", ", he said,", "go."]
    assert present(condition, "ptb").text == "She did n't , he said , go ."
    joined = Condition(name="c", regions=("He", "can't"), numbers=(1, 2))
    for style, words in (("ptb", ("He", "ca", "n't")), (None, ("He", "can't"))):
        sentence = present(joined, style).words
        assert sentence is not None
        assert sentence.words == words


def test_what_is_needed_of_a_sentence_is_what_formulas_ask_for(tmp_path: Path) -> None:
    for formula, needed in (
        ("(2;%a%) < 3", [2, 0]),
        ("(2;%a%) < (3;%b-1%) + (1;%b-1%)", [2, 3]),
        ("(*;%b-1%) > 1", [0, 4]),
    ):
        items = SuiteItems(SuiteFiles(write(tmp_path / "toy.json", suite(formula=formula))))
        assert [each.needed for each in next(iter(items)).needed.values()] == needed


# --- evaluation -------------------------------------------------------------------------------


def test_an_empty_sentence_has_no_words_in_any_style() -> None:
    empty = Condition(name="x", regions=("", ""), numbers=(1, 2))
    for style in ("ptb", "raw", None):
        presented = present(empty, style)
        assert presented.words is not None
        assert presented.words.words == ()
        assert presented.spans == ((0, 0), (0, 0))


def test_evaluation_of_a_toy_suite(word_scorer: Any, tmp_path: Path) -> None:
    results = evaluate_items(SuiteItems(SuiteFiles(write(tmp_path / "toy.json", suite()))), word_scorer())
    assert results.scores["by_suite"] == {"toy": 0.5}
    assert results.scores["overall"] == 0.5
    assert results.scores["sg_31"] is None
    assert results.table("items").column("correct").to_pylist() == [True, False]
    # "ran" against "runs fast", then "slept" against "sat": letters, nats and bits.
    assert results.table("items").column("margin_bits").to_pylist() == pytest.approx(
        [(8 - 3) / math.log(2), (3 - 5) / math.log(2)]
    )
    assert results.scores["margin_bits"] == {
        "overall": pytest.approx(1.5 / math.log(2)),
        "by_circuit": {"other": pytest.approx(1.5 / math.log(2))},
        "by_suite": {"toy": pytest.approx(1.5 / math.log(2))},
    }
    regions = results.table("strings").to_pylist()
    first = [row for row in regions if (row["item"], row["string"]) == ("1", "a")]
    assert regions[: len(first)] == first
    assert [row["text"] for row in first] == ["The dog", "ran", "", "home .", ""]
    assert [row["region"] for row in first] == [1, 2, 3, 4, None]  # end-of-sentence is in none
    assert [row["name"] for row in first] == ["subject", "verb", None, None, None]
    assert [row["tokens"] for row in first] == [2, 1, 0, 2, 1]
    assert [row["bits"] for row in first] == pytest.approx([x / math.log(2) for x in (6, 3, 0, 5, 1)])
    assert {row["read"] for row in first} == {"The dog ran home ."}
    assert {row["suite"] for row in regions} == {"toy"}
    places = {(row["item"], row["string"], row["region"]) for row in regions}
    assert len(places) == len(regions) == results.counts["strings"] * 5
    assert results.counts["items_scored"] == 2


def test_regions_of_sentences_without_a_score_or_an_end(word_scorer: Any, tmp_path: Path) -> None:
    suites = list(SuiteFiles(write(tmp_path / "toy.json", suite())))
    scorer = word_scorer(eos=None, unknown=frozenset({"slept"}))
    regions = evaluate_items(SuiteItems(suites), scorer).table("strings").to_pylist()
    assert all(row["region"] is not None for row in regions)
    without = [row for row in regions if (row["item"], row["string"]) == ("2", "a")]
    assert without
    assert all(row["bits"] is row["tokens"] is row["read"] is None for row in without)
    assert {row["reason"] for row in without} == {"words unknown to the model: slept"}
    assert all((row["bits"] is None) == (row in without) for row in regions)


def test_an_item_is_decided_when_its_predictions_are(word_scorer: Any, tmp_path: Path) -> None:
    """Region 2 has one word in condition a, two in b-1: surprisals differ by one nat, 1.44 bits."""
    items = SuiteItems(SuiteFiles(write(tmp_path / "toy.json", suite()))).written("ptb")
    item = next(iter(items))
    comparison = ItemComparison.of(item, items)
    assert comparison.sums == "regions"
    scores = list(word_scorer(lambda word: -1.0).score([each.asked for each in item.strings.values()]))
    assert comparison.decided(scores, 0.99)
    assert not comparison.decided(scores, 1.01)
    assert comparison.decided([scores[0], Unscorable("", "unknown")], 1.01)  # there is nothing to decide


def test_blocks_change_nothing(word_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for name in ("c", "a", "b"):
            archive.writestr(f"deep/{name}.json", json.dumps(suite(name)))
    files = SuiteFiles(tmp_path / "s.zip")
    assert [found.name for found in files] == ["a", "b", "c"]
    scorer = word_scorer(unknown=frozenset({"slept"}))
    whole = evaluate_items(SuiteItems(files), scorer)
    monkeypatch.setattr("pdtools.evaluation.benchmark.evaluate.BLOCK", 4)  # two suites, then one
    divided = evaluate_items(SuiteItems(files), scorer)
    assert divided.scores == whole.scores
    strings = ("strings", "strings_unscorable")  # each is counted once in each block
    assert [divided.counts.pop(name) for name in strings] == [2 * whole.counts.pop(name) for name in strings]
    assert divided.counts == whole.counts
    assert divided.settings == whole.settings
    for name in ("items", "strings"):
        assert divided.table(name).equals(whole.table(name))
        assert divided.table(name).column(0).num_chunks == 2


def test_members_of_one_name_and_pipes(word_scorer: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        warnings.simplefilter("ignore")
        for name in ("b", "a"):
            archive.writestr("same.json", json.dumps(suite(name)))
    assert [found.name for found in SuiteFiles(tmp_path / "s.zip")] == ["a", "b"]

    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=write, args=(tmp_path / "pipe", suite()))
    writing.start()
    results = evaluate_items(SuiteItems(SuiteFiles(tmp_path / "pipe")), word_scorer())
    writing.join()
    assert results.scores["by_suite"] == {"toy": 0.5}


def test_a_document_that_is_no_suite_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.evaluation.sg.suites.MAX_SUITE_BYTES", 1 << 10)
    with zipfile.ZipFile(tmp_path / "s.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("s.json", "[" + "{}," * 1000 + "{}]")
    (tmp_path / "s.json").write_text("[" + "{}," * 1000 + "{}]")
    for name in ("s.zip", "s.json"):
        with pytest.raises(InputError, match="longer than"):
            SuiteFiles(tmp_path / name)


def test_suites_with_other_sentences_are_not_compared(word_scorer: Any, tmp_path: Path) -> None:
    """Their items have the same names and formulas."""
    other = suite()
    other["items"][0]["conditions"][0]["regions"][0]["content"] += "x"
    twice = suite()
    twice["predictions"] *= 2
    for name, contents in (("one", suite()), ("other", other), ("twice", twice), ("again", twice)):
        found = evaluate_items(
            SuiteItems(SuiteFiles(write(tmp_path / f"{name}.json", contents))), word_scorer()
        )
        write_results(tmp_path / name, found, {})
    # Second predictions are no items that are left out.
    assert compare(each_alone([tmp_path / "twice", tmp_path / "again"])).notes == {}
    with pytest.raises(PdtoolsError, match="one and .*other: item toy 1 1 is not the same in both"):
        compare(each_alone([tmp_path / "one", tmp_path / "other"]))


def test_strings_have_lost_what_their_search_lost(word_scorer: Any, tmp_path: Path) -> None:
    lost = {"ran home": 0.25, "runs": 0.125, "slept": None, "sat": 0.5}

    class Losing(word_scorer):  # type: ignore[misc]
        def score(self, sentences: Any) -> Any:
            for score in super().score(sentences):
                (dropped,) = (
                    share for words, share in lost.items() if words in score.text.replace("  ", " ")
                )
                yield dataclasses.replace(score, dropped=dropped)

    results = evaluate_items(SuiteItems(SuiteFiles(write(tmp_path / "toy.json", suite()))), Losing())
    rows = results.table("strings").to_pylist()
    of_strings = {(row["item"], row["string"]): row["dropped"] for row in rows}
    assert of_strings == {("1", "a"): 0.25, ("1", "b-1"): 0.125, ("2", "b-1"): 0.5, ("2", "a"): None}
    assert results.counts["dropped"] == {"mean": pytest.approx(0.875 / 3), "max": 0.5}


def tallies_of(rows: list[tuple[str, str, int, bool | None]]) -> dict[str, dict[Any, Tally]]:
    """The counts of (suite, circuit, prediction, whether it is right; None: not scored)."""
    found: dict[str, dict[Any, Tally]] = {}
    for name, circuit, prediction, right in rows:
        tally = found.setdefault(str(prediction), {}).setdefault((circuit, name), Tally())
        tally.add("unscorable" if right is None else "right" if right else "wrong")
    return found


def test_conventions_differ_as_named() -> None:
    rows: list[Any] = [
        (name, circuit, 1, name != "cleft")
        for circuit, names in CIRCUITS.items()
        for name in names
        if name != "fgd-embed3"
    ]
    long_distance = "Long-Distance Dependencies"
    rows += [("nn-nv-rpl", "other", 1, False), ("fgd_hierarchy", long_distance, 2, False)]
    rows += [("fgd-embed3", long_distance, 1, False)]
    scores = sg_scores(tallies_of(rows))
    assert scores["sg_31"] == scores["overall"] == pytest.approx(30 / 31)
    assert scores["sg_33"] == pytest.approx(31 / 33)
    assert scores["mean_of_circuits"] == pytest.approx((5 + 5 / 6) / 6)
    assert scores["mean_of_items"] == pytest.approx(30 / 31)  # of the suites that overall counts
    longer = sg_scores(tallies_of([*rows, *[("mvrr", "Garden-Path Effects", 1, False)] * 8]))
    assert longer["mean_of_items"] == pytest.approx(30 / 39)
    # Where one of the suites is missing, so is the score that is named after their number.
    fewer = sg_scores(tallies_of([row for row in rows if row[0] != "mvrr"]))
    assert (fewer["overall"], fewer["sg_31"], fewer["sg_33"]) == (pytest.approx(29 / 30), None, None)
    assert scores["by_suite"]["nn-nv-rpl"] == 0.0
    assert scores["by_prediction"] == {"fgd_hierarchy": {"1": 1.0, "2": 0.0}}
    assert len(SCORED_31) == 31
    assert len(SCORED_33) == 33
    assert not EXCLUDED & SCORED_31


def test_regions_are_numbered_from_0_to_1000(tmp_path: Path) -> None:
    data = suite(formula="(0;%a%) < (1000;%b-1%)")
    for item in data["items"]:
        for condition in item["conditions"]:
            for region, number in zip(condition["regions"], (1000, 0, 2, 3), strict=True):
                region["region_number"] = number
    (found,) = SuiteFiles(write(tmp_path / "toy.json", data))
    assert found.items[0].conditions[0].numbers == (0, 2, 3, 1000)
    assert found.items[0].conditions[0].regions == ("ran", "", "home .", "The dog")


def test_a_mean_over_seeds_is_of_what_all_of_them_have(tmp_path: Path) -> None:
    rows = ["model,suite,item,correct", "m_c_1,cleft,0,1", "m_c_2,cleft,0,0", "m_c_2,mvrr,0,1"]
    for order in (rows, [rows[0], *(row.replace("m_c_2", "m_c_0") for row in rows[1:])]):
        (tmp_path / "items.csv").write_text("\n".join(order) + "\n")
        mean = aggregate_items([tmp_path / "items.csv"]).scores["runs"][-1]
        assert (mean["seed"], mean["by_suite"]) == ("mean", {"cleft": 0.5, "mvrr": None})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model,suite,item\na,b,1\n", "no column correct"),
        ("model,suite,item,correct\na,b,1,maybe\n", "truth value"),
        ("model,suite,item,correct\na,b,x,True\n", "no number"),
        ("model,suite,item,correct\na,b,1\n", "3 columns, the header has 4"),
        ("model,suite,item,correct\na,b,1234567890,True\n", "no number"),
        ("model,suite,item,correct\na,b,1,True\na,b,1,True\n", "second result"),
        pytest.param(f"model,suite,item,correct\n{'a' * 200_000},b,1,True\n", "not CSV", id="a long cell"),
    ],
)
def test_bad_item_tables(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(InputError, match=says):
        read_item_results([tmp_path / "items.csv"])
