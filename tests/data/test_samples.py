"""The bundled samples: well-formed, disjoint, reproducible, and grammatical where that can be checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
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


def test_another_seed_gives_another_sample(tmp_path: Path) -> None:
    main(["--seed", "2", "--sentences", "3000", "-o", str(tmp_path)])
    first = (tmp_path / "treebank" / "train.mrg").read_text(encoding="utf-8").splitlines()[:50]
    assert first != data.treebank("train").read_text(encoding="utf-8").splitlines()[:50]
    assert len(list((tmp_path / "blimp").iterdir())) == len(PARADIGMS)


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


def test_the_treebank_exercises_a_reader() -> None:
    text = data.treebank("train").read_text(encoding="utf-8")
    for mark in (
        "(-NONE- *T*-1)",
        "(-NONE- *PRO*-1)",
        "(-NONE- *ICH*-1)",
        "(-NONE- 0)",
        "-LRB-",
        "(`` ``)",
        "(POS 's)",
    ):
        assert mark in text
    assert "\n  " in text
    labels = {label for tree in trees("train") for label in (node.label() for node in tree.subtrees())}
    assert {"", "S", "NP-SBJ", "SBAR-TMP", "WHNP-1", "SQ", "SBARQ", "PRN", "FRAG", "NP-SBJ-1"} <= labels
    for tree in trees("train"):
        indices = [
            label.rsplit("-", 1)[1] for label in (n.label() for n in tree.subtrees()) if label[-1:].isdigit()
        ]
        traced = {
            word.rsplit("-", 1)[1]
            for word, tag in tree.pos()
            if tag == "-NONE-" and word[-1].isdigit() and word != "0"
        }
        assert set(indices) == traced


def test_lengths() -> None:
    lengths = [len(sentence) for sentence in words("train")]
    assert 10 <= sum(lengths) / len(lengths) <= 14
    assert sum(length <= 20 for length in lengths) > 0.8 * len(lengths)


def heads(phrase: NltkTree) -> list[NltkTree]:
    """The noun tags of the head of a noun phrase: those of its first noun phrase, or its own."""
    inner = [child for child in phrase if isinstance(child, NltkTree) and child.label().startswith("NP")]
    if inner and phrase[-1].label()[:2] != "NN":
        return heads(inner[0])
    return [
        child for child in phrase if isinstance(child, NltkTree) and child.label() in {"NN", "NNS", "NNP"}
    ][-1:]


def test_simple_subjects_agree_with_their_verbs() -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for tree in trees("train"):
        for clause in tree.subtrees(lambda node: node.label().split("-")[0] == "S"):
            children = [child for child in clause if isinstance(child, NltkTree)]
            for subject, predicate in pairwise(children):
                if subject.label().startswith("NP-SBJ") and predicate.label() == "VP":
                    conjoined = any(child.label() == "CC" for child in subject if isinstance(child, NltkTree))
                    head = heads(subject)
                    verb = predicate
                    while verb.label() == "VP":
                        verb = verb[0]
                    if head and verb.label() in {"VBZ", "VBP"}:
                        seen["NNS" if conjoined else head[0].label(), verb.label()] += 1
    assert seen["NN", "VBZ"] > 200
    assert seen["NNS", "VBP"] > 200
    assert seen["NNP", "VBZ"] > 20
    assert not set(seen) - {("NN", "VBZ"), ("NNP", "VBZ"), ("NNS", "VBP")}


def test_ever_and_any_need_a_licensor_before_them() -> None:
    licensors = {"no", "n't", "not", "never", "nobody", "if", "has", "have", "did", "does", "do"}
    for sentence in words("train"):
        lower = [word.lower() for word in sentence]
        for item in ("ever", "any", "anyone", "anything"):
            if item in lower:
                before = set(lower[: lower.index(item)])
                assert before & licensors, sentence
                if "?" not in lower:
                    assert before & {"no", "n't", "not", "never", "nobody", "if"}, sentence


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


PLURALS = {"children", "men", "women", "geese", "mice"}


def is_plural(noun: str) -> bool:
    return noun in PLURALS or noun.endswith("s")


def test_agreement_pairs_differ_in_number_and_have_a_distractor() -> None:
    for record in pairs()["mini_subject_verb_agreement_pp"]:
        _, subject, _, _, distractor, verb, *_ = split_raw(record["sentence_good"])
        assert is_plural(subject) != is_plural(distractor)
        assert verb == ("are" if is_plural(subject) else "is")
        assert {verb, record["one_prefix_word_bad"]} == {"is", "are"}
    for record in pairs()["mini_subject_verb_agreement_relative"]:
        _, subject, _, _, distractor, _, verb, *_ = split_raw(record["sentence_good"])
        assert is_plural(subject) != is_plural(distractor)
        assert verb.endswith("s") != is_plural(subject)
        assert record["one_prefix_word_bad"].endswith("s") == is_plural(subject)


def test_determiner_pairs() -> None:
    for record in pairs()["mini_determiner_noun_agreement"]:
        *_, determiner, noun = split_raw(record["sentence_good"])
        assert determiner in {"this", "that", "these", "those"}
        assert is_plural(noun) == (determiner in {"these", "those"})
        assert is_plural(record["one_prefix_word_bad"]) != is_plural(noun)


def test_reflexive_pairs() -> None:
    masculine = {
        "Adam",
        "David",
        "Henry",
        "Martin",
        "Peter",
        "man",
        "boy",
        "king",
        "uncle",
        "father",
        "brother",
    }
    for record in pairs()["mini_anaphor_gender"]:
        name, _, _, distractor, _, reflexive = split_raw(record["sentence_good"])
        assert reflexive == ("himself" if name in masculine else "herself")
        assert (distractor in masculine) != (name in masculine)
        assert {reflexive, record["one_prefix_word_bad"]} == {"himself", "herself"}
    for record in pairs()["mini_principle_a_domain"]:
        _, outer, _, _, inner, _, reflexive = split_raw(record["sentence_good"])
        assert reflexive == ("himself" if inner in masculine else "herself")
        assert (outer in masculine) != (inner in masculine)
    for record in pairs()["mini_anaphor_number"]:
        sentence = split_raw(record["sentence_good"])
        assert is_plural(sentence[1])
        assert sentence[-1] == "themselves"


def test_licensing_pairs() -> None:
    for record in pairs()["mini_npi_licensor"]:
        assert record["sentence_good"].split()[1:] == record["sentence_bad"].split()[1:]
        assert (record["sentence_good"].split()[0], record["sentence_bad"].split()[0]) == ("No", "The")
    for record in pairs()["mini_npi_scope"]:
        assert record["lexically_identical"]
        good, bad = record["sentence_good"].split(), record["sentence_bad"].split()
        assert [(a, b) for a, b in zip(good, bad, strict=True) if a != b] == [("No", "The"), ("the", "no")]


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


def test_conditions_differ_where_they_should() -> None:
    for item in suites()["mini_number_orc"]["items"]:
        by_name = {
            condition["condition_name"]: [region["content"] for region in condition["regions"]]
            for condition in item["conditions"]
        }
        assert by_name["match_sing"][6] == by_name["mismatch_plural"][6] == "is"
        assert by_name["match_plural"][6] == by_name["mismatch_sing"][6] == "are"
        for match, mismatch in (("match_sing", "mismatch_sing"), ("match_plural", "mismatch_plural")):
            assert by_name[match][:6] == by_name[mismatch][:6]
            assert is_plural(by_name[match][1]) != is_plural(by_name[match][4])
    for item in suites()["mini_center_embed"]["items"]:
        plaus, implaus = (
            [region["content"] for region in condition["regions"]] for condition in item["conditions"]
        )
        assert plaus[:5] == implaus[:5]
        assert plaus[5:7] == implaus[6:4:-1]
