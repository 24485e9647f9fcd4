"""The bundled samples: well-formed, disjoint, reproducible, and grammatical where that can be checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from nltk import Tree as NltkTree

from pdtools import data
from pdtools.data.generate import MIN_COUNT, main
from pdtools.data.minimal_pairs import PARADIGMS
from pdtools.data.suites import SUITES
from pdtools.evaluation.sg.formula import Formula
from pdtools.files import Rejects
from pdtools.tokenization import split_words
from pdtools.trees import normalize, read_trees

HELD_OUT = 500


@cache
def trees(split: str) -> list[NltkTree]:
    """The trees as nltk reads them, their traces included."""
    depth, start, text, found = 0, 0, data.treebank(split).read_text(encoding="utf-8"), []
    for position, character in enumerate(text):
        if character == "(":
            start = position if depth == 0 else start
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                found.append(NltkTree.fromstring(text[start : position + 1]))
    assert depth == 0
    return found


@cache
def words(split: str) -> list[tuple[str, ...]]:
    return [tuple(word for word, tag in tree.pos() if tag != "-NONE-") for tree in trees(split)]


@cache
def counts() -> Counter[str]:
    return Counter(word for sentence in words("train") for word in sentence)


@cache
def pairs() -> dict[str, list[dict[str, Any]]]:
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(data.blimp().glob("*.jsonl"))
    }


@cache
def suites() -> dict[str, dict[str, Any]]:
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(data.sg().glob("*.json"))
    }


def suite_sentences() -> Iterator[tuple[str, ...]]:
    for suite in suites().values():
        for item in suite["items"]:
            for condition in item["conditions"]:
                yield tuple(" ".join(region["content"] for region in condition["regions"]).split())


def pair_sentences() -> Iterator[tuple[str, ...]]:
    for records in pairs().values():
        for record in records:
            for side in ("sentence_good", "sentence_bad"):
                yield split_words(record[side], "ptb").words


def split_raw(text: str) -> list[str]:
    return text.rstrip(".").split()


# ------------------------------------------------------------------ all of it


def test_generating_again_gives_the_same_bytes(tmp_path: Path) -> None:
    main(["-o", str(tmp_path)])
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 3 + 1 + len(PARADIGMS) + len(SUITES)
    for path in made:
        assert (data.blimp().parent / path).read_bytes() == (tmp_path / path).read_bytes(), path
    bundled = {
        path.relative_to(data.blimp().parent)
        for folder in ("treebank", "text", "blimp", "sg")
        for path in (data.blimp().parent / folder).iterdir()
    }
    assert bundled == set(made)


def test_no_sentence_stands_in_two_places() -> None:
    places: Counter[tuple[str, ...]] = Counter()
    for split in data.SPLITS:
        places.update(words(split))
    places.update(suite_sentences())
    places.update(pair_sentences())
    lines = data.sample_text().read_text(encoding="utf-8").splitlines()
    places.update(split_words(line, "ptb").words for line in lines)
    assert len(lines) == 200
    assert [" ".join(sentence) for sentence, count in places.items() if count > 1] == []


def test_every_word_is_known_from_the_training_split() -> None:
    elsewhere = Counter(word for split in ("valid", "test") for sentence in words(split) for word in sentence)
    elsewhere.update(word for sentence in suite_sentences() for word in sentence)
    elsewhere.update(word for sentence in pair_sentences() for word in sentence)
    assert [word for word in elsewhere if counts()[word] < MIN_COUNT] == []
    assert 600 <= len(counts()) <= 1000


def test_the_whole_stays_small() -> None:
    sizes = {path: path.stat().st_size for path in data.blimp().parent.rglob("*") if path.suffix != ".pyc"}
    folder = data.model("demo").parent
    models = {path: size for path, size in sizes.items() if folder in path.parents}
    assert (
        0
        < sum(size for path, size in models.items() if "demo" in path.relative_to(folder).parts[0])
        < 2_000_000
    )
    assert sum(models.values()) < 25_000_000
    assert sum(sizes.values()) - sum(models.values()) < 3_000_000


def test_what_models_to_try_were_trained_on_has_no_held_out_sentence(tmp_path: Path) -> None:
    from pdtools.data import more_trees

    more_trees.main(["-o", str(tmp_path / "a.mrg"), "--sentences", "50"])
    more_trees.main(["-o", str(tmp_path / "b.mrg"), "--sentences", "60"])
    first, more = ((tmp_path / f"{name}.mrg").read_text("utf-8") for name in "ab")
    assert more.startswith(first)
    made = {
        " ".join(normalize(found.tree).words) for found in read_trees([str(tmp_path / "b.mrg")], Rejects())
    }
    assert len(made) == 60
    held_out = set(more_trees.held_out())
    assert len(held_out) > 2000
    assert not made & held_out


# ------------------------------------------------------------------ treebank


@pytest.mark.parametrize(("split", "size"), [("train", 6000), ("valid", HELD_OUT), ("test", HELD_OUT)])
def test_trees_are_read_alike_by_nltk_and_by_us(split: str, size: int) -> None:
    ours = [normalize(found.tree) for found in read_trees([str(data.treebank(split))], Rejects())]
    assert len(ours) == len(trees(split)) == size
    for tree, expected in zip(ours, words(split), strict=True):
        assert tree is not None
        assert tree.words == expected
        assert 3 <= len(tree) <= 40


# ------------------------------------------------------------------ mini BLiMP


def test_paradigms_have_the_official_keys() -> None:
    assert len(pairs()) == len(PARADIGMS) >= 8
    assert len({records[0]["field"] for records in pairs().values()}) >= 4
    for uid, records in pairs().items():
        assert uid.startswith("mini_")
        assert 50 <= len(records) <= 100
        for number, record in enumerate(records):
            assert record["UID"] == uid
            assert record["pairID"] == str(number)
            assert record["simple_LM_method"] is True
            assert record["sentence_good"] != record["sentence_bad"]
            assert record["sentence_good"][0].isupper()
            assert record["sentence_good"].endswith(".")
            good, bad = split_raw(record["sentence_good"]), split_raw(record["sentence_bad"])
            if record["one_prefix_method"]:
                prefix = record["one_prefix_prefix"].split()
                cut = len(prefix)
                assert good[:cut] == bad[:cut] == prefix
                assert good[cut + 1 :] == bad[cut + 1 :]
                assert [good[cut], bad[cut]] == [
                    record["one_prefix_word_good"],
                    record["one_prefix_word_bad"],
                ]
                assert good[cut] != bad[cut]
            if record["two_prefix_method"]:
                for side, sentence in (("good", good), ("bad", bad)):
                    prefix = record[f"two_prefix_prefix_{side}"].split()
                    assert sentence[: len(prefix) + 1] == [*prefix, record["two_prefix_word"]]
            assert record["lexically_identical"] == (
                sorted(map(str.lower, good)) == sorted(map(str.lower, bad))
            )


# ------------------------------------------------------------------ mini SG


def test_suites_have_the_official_shape() -> None:
    circuits = {suite["meta"]["circuit"] for suite in suites().values()}
    assert circuits == {
        "Agreement",
        "Licensing",
        "Center Embedding",
        "Long-Distance Dependencies",
        "Garden-Path Effects",
        "Gross Syntactic State",
    }
    for name, suite in suites().items():
        assert suite["meta"]["name"] == name
        assert suite["meta"]["metric"] == "sum"
        assert len(suite["items"]) == 20
        regions = list(suite["region_meta"])
        assert regions == [str(number) for number in range(1, len(regions) + 1)]
        conditions = [condition["condition_name"] for condition in suite["items"][0]["conditions"]]
        for number, item in enumerate(suite["items"], start=1):
            assert item["item_number"] == number
            assert [condition["condition_name"] for condition in item["conditions"]] == conditions
            for condition in item["conditions"]:
                assert [str(region["region_number"]) for region in condition["regions"]] == regions


def test_formulas_refer_to_regions_that_have_words() -> None:
    for suite in suites().values():
        (prediction,) = suite["predictions"]
        assert prediction["type"] == "formula"
        formula = Formula.parse(prediction["formula"])
        for item in suite["items"]:
            content = {
                (region["region_number"], condition["condition_name"]): region["content"]
                for condition in item["conditions"]
                for region in condition["regions"]
            }
            used = [content[number, condition] for number, condition in formula.regions if number is not None]
            assert all(used)
            assert len(formula.regions) == len(used)
