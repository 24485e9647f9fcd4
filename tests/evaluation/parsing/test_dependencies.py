"""Attachment scores and arc F1: ten sentences worked by hand, a plain search, and what the command says."""

from __future__ import annotations

import json
import random
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.parsing.dependencies import (
    NOWHERE,
    Words,
    _align_forms,
    align,
    evaluate_dependencies,
    read_words,
)
from pdtools.evaluation.results import ITEMS


def conllu(*lines: str) -> str:
    """A sentence of lines "form head [deps]"; of multi-word tokens "1-2 form"."""
    rows, k = [], 0
    for line in lines:
        place, form, *rest = line.split(" ")
        if "-" in place:
            rows.append([place, form, *"________"])
            continue
        k += 1
        rows.append([str(k), place, "_", "X", "_", "_", form, "_", rest[0] if rest else "_", "_"])
    return "".join("\t".join(row) + "\n" for row in rows) + "\n"


# Gold, predicted, and by the rules: predicted words, aligned words, correct heads.
BY_HAND = [
    # One head is wrong, another the root on one side alone.
    (conllu("the 2", "cat 3", "sat 0"), conllu("the 2", "cat 0", "sat 2"), (3, 3, 1)),
    # "cannot" is one word: "can" and "not" are not aligned, nor is anything whose head they are.
    (conllu("I 2", "can 0", "not 2", "go 2"), conllu("I 2", "cannot 0", "go 2"), (3, 2, 0)),
    # The other way round; "dogs" hangs on "gonna", which is aligned with nothing.
    (conllu("dogs 2", "gonna 0", "bark 2"), conllu("dogs 2", "gon 0", "na 2", "bark 2"), (4, 2, 0)),
    # A token of two words on both sides, of the same forms but for their case.
    (
        conllu("1-2 du", "de 3", "le 3", "chat 0"),
        conllu("1-2 du", "De 3", "le 1", "chat 0"),
        (3, 3, 2),
    ),
    # In gold alone: "du" is no form of its words.
    (conllu("1-2 du", "de 3", "le 3", "chat 0"), conllu("du 2", "chat 0"), (2, 1, 1)),
    # In gold alone: "it" is a form of one word of "its", and the only one that is aligned.
    (conllu("1-2 its", "it 2", "is 0", "ok 2"), conllu("it 3", "s 1", "ok 0"), (3, 2, 0)),
    # Predicted alone, over two tokens of gold, which then are aligned by their forms.
    (conllu("go 0", "there 1", "now 1"), conllu("1-2 gothere", "go 0", "there 3", "now 1"), (3, 3, 2)),
    # Longest common subsequence: of "a b a" and "b a a" there are two words, "b a" or "a a".
    (
        conllu("1-3 aba", "a 2", "b 0", "a 2"),
        conllu("1-3 aba", "b 0", "a 1", "a 1"),
        (3, 2, 2),
    ),
    # The script's own way: after "bc" one word before the token "de" is passed over, "c" is taken into it.
    (
        conllu("bc 2", "1-2 de", "c 0", "e 2").replace("1-2\t", "2-3\t"),
        conllu("b 2", "c 0", "de 2"),
        (3, 1, 1),
    ),
    # Blanks in words do not count.
    (conllu("10\u00a0000 2", "cats 0"), conllu("10000 2", "cats 0"), (2, 2, 2)),
]


def write(folder: Path, gold: str, predicted: str) -> tuple[Path, Path]:
    files = folder / "gold.conllu", folder / "predicted.conllu"
    for file, text in zip(files, (gold, predicted), strict=True):
        file.write_text(text)
    return files


def test_ten_sentences_by_hand(tmp_path: Path) -> None:
    files = write(tmp_path, *("".join(case[side] for case in BY_HAND) for side in (0, 1)))
    results = evaluate_dependencies(*files, "conllu")
    rows = results.table(ITEMS).to_pylist()
    found = [(row["predicted_words"], row["aligned"], row["correct_heads"]) for row in rows]
    assert found == [case[2] for case in BY_HAND]
    assert [row["words"] for row in rows] == [case[0].count("X") for case in BY_HAND]
    assert [row["sentence"] for row in rows] == list(range(1, 11))
    correct, words, predicted = sum(c for _, _, c in found), 30, 29
    assert (results.counts["words"], results.counts["predicted_words"]) == (words, predicted)
    assert results.scores["uas_precision"] == pytest.approx(100 * correct / predicted)
    assert results.scores["uas_recall"] == pytest.approx(100 * correct / words)
    assert results.scores["uas_f1"] == pytest.approx(200 * correct / (words + predicted))
    assert results.scores["arc_f1"] == results.scores["uas_f1"]
    assert results.scores["enhanced_arc_f1"] is None


@pytest.mark.parametrize("heads", ["2 0", "_ _"])
def test_graphs(tmp_path: Path, heads: str) -> None:
    # Gold has 0-1 2-1 0-2 1-2, the self-loop and the empty node aside; predicted are 0-1 0-2 1-2.
    gold = conllu("a 2 0:root|2:x|1:self", "b 0 0:root|1:y|1:z|1.1:w")
    gold = gold.replace("\n2\t", "\n1.1\tc" + "\t_" * 8 + "\n2\t")
    first, second = heads.split()
    graph = conllu(f"a {first} 0:root", f"b {second} 0:root|1:y")
    # In the second sentence the tree is the graph, in both files.
    files = write(tmp_path, gold + conllu("c 2", "d 0"), graph + conllu("c 0", "d 1"))
    results = evaluate_dependencies(*files, "conllu")
    counts = results.counts
    # Of the gold trees 2-1 0-2 and 2-1 0-2, the predicted graph has 0-2 alone.
    assert (counts["arcs"], counts["predicted_arcs"], counts["correct_arcs"]) == (4, 5, 1)
    assert (counts["enhanced_arcs"], counts["correct_enhanced_arcs"]) == (6, 3)
    assert results.scores["arc_f1"] == pytest.approx(200 * 1 / 9)
    assert results.scores["enhanced_arc_f1"] == pytest.approx(200 * 3 / 11)
    assert counts["correct_heads"] == (2 if heads == "2 0" else 0)
    assert counts["no_trees"] == (heads == "_ _")


@st.composite
def split_words(draw: st.DrawFn, text: str, multi: bool) -> Words:
    """A text as tokens, some of which are words of any forms if they may be."""
    words = Words()
    cuts = draw(st.sets(st.integers(1, len(text) - 1)))
    for begin, end in pairwise([0, *sorted(cuts), len(text)]):
        is_multi = multi and draw(st.booleans())
        parts = (
            draw(st.lists(st.sampled_from("ab"), min_size=2, max_size=3)) if is_multi else [text[begin:end]]
        )
        words.forms += parts
        words.starts += [begin] * len(parts)
        words.ends += [end] * len(parts)
        words.is_part += [is_multi] * len(parts)
    return words


@given(st.data(), st.booleans())
def test_alignment_by_definition(data: st.DataObject, multi: bool) -> None:
    text = data.draw(st.text("ab", min_size=2, max_size=8))
    gold, predicted = (data.draw(split_words(text, multi)) for _ in range(2))
    found = align(gold, predicted)
    pairs = [(g, p) for p, g in enumerate(found) if g != NOWHERE]
    assert pairs == sorted(pairs)
    assert len({g for g, _ in pairs}) == len(pairs)
    spans = [list(zip(words.starts, words.ends, strict=True)) for words in (gold, predicted)]
    if not multi:  # a word is aligned just if there is one that spans the same
        assert [spans[0][g] for g, _ in pairs] == sorted(set(spans[0]) & set(spans[1]))
        assert all(spans[0][g] == spans[1][p] for g, p in pairs)
    for g, p in pairs:
        assert spans[0][g] == spans[1][p] or gold.forms[g] == predicted.forms[p]
    assert align(gold, gold) == list(range(len(gold)))


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_the_longest_common_subsequence(a: str, b: str) -> None:
    def longest(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        both = 1 + longest(i + 1, j + 1) if a[i] == b[j] else 0
        return max(both, longest(i + 1, j), longest(i, j + 1))

    found = [NOWHERE] * len(b)
    _align_forms(a, b, 0, 0, found)
    pairs = [(g, p) for p, g in enumerate(found) if g != NOWHERE]
    assert pairs == sorted(pairs)
    assert all(a[g] == b[p] for g, p in pairs)
    assert len(pairs) == longest(0, 0)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, predicted = map(str, write(tmp_path, *("".join(case[side] for case in BY_HAND) for side in (0, 1))))
    assert run(["eval-parse", gold, predicted, "-o", str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    assert "UAS (%)" in printed
    assert "30 words" in printed
    assert run(["eval-parse", gold, gold, "-o", str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["uas_f1"] == 100
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    printed = capsys.readouterr().out
    assert "UAS (%)" in printed
    assert "10 items" in printed
    assert run(["eval-parse", gold, gold, "--format", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10
    assert run(["eval-parse", gold, gold, "--unlabeled"]) == 2
    assert "are for trees in brackets" in capsys.readouterr().err


def test_semantic_dependencies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, predicted = tmp_path / "gold.sdp", tmp_path / "predicted.sdp"
    gold.write_text("1\ta\ta\tA\t+\t+\t_\n2\tb\tb\tB\t-\t-\tx\n")
    predicted.write_text("1\ta\ta\tA\t-\t+\t_\n2\tb\tb\tB\t+\t-\tx\n")
    results = evaluate_dependencies(gold, predicted, "sdp")
    assert results.scores["arc_f1"] == 50  # 1-2 of 0-1, 1-2 and 0-2, 1-2
    assert results.scores["uas_f1"] is None
    assert run(["eval-parse", str(gold), str(predicted)]) == 0
    assert "UAS" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gold", "predicted", "said"),
    [
        (conllu("a 0"), conllu("b 0"), "predicted.conllu:1: the words are others than in "),
        (conllu("a 0") * 2, conllu("a 0") + conllu("ab 0"), "predicted.conllu:3: the words are others than"),
        (conllu("a 0") * 2, conllu("a 0") + conllu("b 0"), "predicted.conllu:3: the words are others than"),
        (conllu("a 0") * 2, conllu("a 0"), "predicted.conllu:1: the words are others than"),
        (conllu("a 2", "b 1"), conllu("a 0", "b 1"), "gold.conllu:1: the heads form a cycle"),
        (conllu("a 0", "b 2"), conllu("a 0", "b 1"), "gold.conllu:1: word 2 is its own head"),
        (conllu("a 0", "b _"), conllu("a 0", "b 1"), "gold.conllu:2: the head of word 2 is '_', no number"),
        (conllu("a 0", "b 1"), conllu("a 0", "b 7"), "predicted.conllu:1: the head of word 2 is 7, but"),
        (conllu("a 0"), "# none\n", "predicted.conllu: no words in it"),
    ],
)
def test_bad_files(tmp_path: Path, gold: str, predicted: str, said: str) -> None:
    files = write(tmp_path, gold, predicted)
    with pytest.raises(InputError) as caught:
        evaluate_dependencies(*files, "conllu")
    assert str(caught.value).startswith(str(tmp_path / said.split(":")[0]))
    assert said.partition(":")[2] in str(caught.value)


def test_predicted_heads_that_form_no_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, predicted = write(tmp_path, conllu("a 0", "b 1"), conllu("a 2", "b 1"))
    assert run(["eval-parse", str(gold), str(predicted)]) == 0
    captured = capsys.readouterr()
    assert "50.00" in captured.out
    assert captured.err.endswith("1 predicted sentences have heads that form no tree\n")
    assert len(read_words(predicted, "conllu", is_gold=False)) == 2


# Sentences of gold and predicted words that are the same, tokens that are not; aligned words, correct heads.
DU = conllu("1-2 Du", "de 3", "le 3", "chat 0")
OTHER_TOKENS = [
    (DU, conllu("de 3", "le 1", "chat 0"), (3, 2)),  # gold alone has the token
    (conllu("de 3", "le 3", "chat 0"), DU, (3, 3)),  # the prediction alone
    (DU, conllu("2-3 lechat", "de 3", "le 1", "chat 0"), (3, 2)),  # both have one
    (conllu("a 0") + DU, conllu("a 0") + conllu("De 3", "le 3", "Chat 0"), (4, 4)),  # in another case
    (DU, conllu("de 2", "lechat 0"), (1, 0)),  # words are split differently, too
    (DU + DU, conllu("de 3", "le 3", "chat 0", "de 6", "le 6", "chat 3"), (6, 5)),  # and sentences
    (conllu("aa 0", "2-3 Ah", "a 1", "a 1"), conllu("a 0", "a 1", "aa 1"), (0, 0)),  # at other characters
]


@pytest.mark.parametrize(("gold", "predicted", "wanted"), OTHER_TOKENS)
def test_words_of_other_tokens(
    gold: str, predicted: str, wanted: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, gold, predicted)
    assert run(["eval-parse", *map(str, files), "--json"]) == 0
    captured = capsys.readouterr()
    results = json.loads(captured.out)
    n, m = gold.count("X"), predicted.count("X")
    assert results["counts"]["correct_heads"] == wanted[1]
    assert results["scores"]["uas_f1"] == pytest.approx(200 * wanted[1] / (n + m))
    assert results["settings"]["aligned_by"] == "words"
    assert captured.err == "the characters differ: words are aligned by lower-cased forms, not by tokens\n"
    rows = evaluate_dependencies(*files, "conllu").table(ITEMS).to_pylist()
    assert sum(row["aligned"] for row in rows) == wanted[0]


def test_relations(tmp_path: Path) -> None:
    """Worked by hand: subtypes do not count, nor does a relation to a wrong head."""
    gold = "1 a 2 nsubj:pass; 2 b 0 root; 3 c 2 obj; 4 d 3 case"
    predicted = "1 a 2 nsubj; 2 b 0 root; 3 c 1 obj; 4 d 3 det"

    def written(sentence: str) -> str:
        rows = [word.split() for word in sentence.split("; ")]
        return (
            "".join(f"{k}\t{form}\t_\tX\t_\t_\t{head}\t{rel}\t_\t_\n" for k, form, head, rel in rows) + "\n"
        )

    files = write(tmp_path, written(gold), written(predicted))
    results = evaluate_dependencies(*files, "conllu")
    assert (results.counts["correct_heads"], results.counts["correct_relations"]) == (3, 2)
    assert (results.scores["uas_f1"], results.scores["las_f1"]) == (75, 50)
    for none in ("_", "dep"):  # as decode writes them
        plain = " ".join(
            none if word in ("nsubj;", "obj;", "root;", "det") else word for word in predicted.split()
        )
        files[1].write_text(written(plain.replace(f"{none} ", f"{none}; ")))
        assert evaluate_dependencies(*files, "conllu").scores["las_f1"] is None


def test_attachment_scores_are_those_of_udtools(test_data: Path, tmp_path: Path) -> None:
    """On a treebank whose heads and relations were changed at random, with its multi-word tokens."""
    udeval = pytest.importorskip("udtools.udeval", reason="udtools is not installed")
    archive = test_data / "benchmarks" / "treebanks" / "ud_french_sequoia.zip"
    if not archive.is_file():
        pytest.skip(f"no {archive}")
    gold = tmp_path / "gold.conllu"
    with zipfile.ZipFile(archive) as found:
        name = next(each for each in found.namelist() if each.endswith("test.conllu"))
        gold.write_bytes(found.read(name))
    draw, lines = random.Random(0), []
    for line in gold.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 10 and fields[0].isdecimal() and draw.random() < 0.2:
            fields[7] = draw.choice(["nsubj", "obj", "det:x"])
        lines.append("\t".join(fields))
    predicted = tmp_path / "predicted.conllu"
    predicted.write_text("\n".join(lines) + "\n", encoding="utf-8")
    theirs = udeval.evaluate(*(udeval.load_conllu_file(str(file)) for file in (gold, predicted)))
    ours = evaluate_dependencies(gold, predicted, "conllu").scores
    for name in ("UAS", "LAS"):
        assert ours[f"{name.lower()}_f1"] == pytest.approx(100 * theirs[name].f1, abs=1e-9)


def test_several_roots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As CoNLL-X has them: each is a head like others."""
    files = write(tmp_path, conllu("a 0", "b 0", "c 1"), conllu("a 0", "b 1", "c 1"))
    assert run(["eval-parse", *map(str, files), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["counts"]["correct_heads"] == 2
    assert captured.err == "1 gold sentences have several roots\n"


def test_columns_of_conllu_plus(tmp_path: Path) -> None:
    gold, predicted = write(tmp_path, conllu("a 2", "b 0"), "")
    predicted.write_text("# global.columns = FORM ID A:B HEAD\na\t1\t*\t2\nb\t2\t*\t1\n")
    assert evaluate_dependencies(gold, predicted, "conllu").scores["uas_f1"] == 50


def test_tokens_of_gold_alone(test_data: Path) -> None:
    files = [test_data.parent / "cases" / "4" / f"e1_{name}.conllu" for name in ("gold", "sys")]
    if not files[0].is_file():
        pytest.skip(f"no {files[0]}")
    results = evaluate_dependencies(*files, "conllu")
    assert (results.scores["uas_f1"], results.counts["words"], results.counts["correct_heads"]) == (50, 8, 4)
