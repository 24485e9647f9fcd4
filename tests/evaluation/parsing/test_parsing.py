"""Files of trees against files of trees."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.parsing.evalb import compare_sentence
from pdtools.evaluation.parsing.evaluate import (
    compare_files,
    evaluate_parse,
    read_excluded,
    read_pairs,
)
from pdtools.evaluation.parsing.prm import COMMON, read_parameters
from pdtools.trees import TRACE_TAGS, WRAPPERS

UNLABELED = dataclasses.replace(COMMON, labeled=False)
GOLD = (
    "(TOP (S (NP-SBJ (PRP She)) (VP (VBD ate) (NP (CD 1\\/2) (NN cake)) (NP-TMP (NN today))) (. .)))",
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
    "(TOP (NP (NN dog)))",
)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_trees_without_tags_get_the_gold_ones(tmp_path: Path) -> None:
    predicted = (
        "(X (XX She) (X (X (XX ate) (X (X (XX 1/2) (XX cake)) (XX today))) (XX .)))",
        "(X (X (XX the) (XX dog)) (X (XX barks) (XX .)))",
        "(X (XX dog))",
    )
    results = evaluate_parse(write(tmp_path / "g", *GOLD), write(tmp_path / "p", *predicted), UNLABELED)
    assert (results.counts["retagged"], results.counts["errors"]) == (3, 0)
    assert results.counts["words"] == 9  # full stops are gone from both sides
    assert results.scores["tagging_accuracy"] is None
    assert results.scores["up_to_cutoff"]["tagging_accuracy"] is None
    assert results.scores["unlabeled_f1"] > 50
    with pytest.raises(InputError, match="no labeled F1"):  # no X in the treebank
        evaluate_parse(tmp_path / "g", tmp_path / "p")


@pytest.mark.parametrize(
    ("gold", "predicted"), [("(X (A a) (B b))", "(X (XX a) (XX b))"), ("(S (A a) (B b))", "")]
)
def test_no_labels_are_missing_where_there_are_none_to_find(
    gold: str, predicted: str, tmp_path: Path
) -> None:
    found = evaluate_parse(write(tmp_path / "g", gold), write(tmp_path / "p", predicted))
    assert found.counts["sentences"] == 1


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
def test_wrappers_do_not_count(wrapper: str, tmp_path: Path) -> None:
    """With other parameters the file alone decides."""
    gold = write(tmp_path / "g", f"({wrapper} (S (NP (NE a)) (VVFIN b) (NP (NN c))) ($. .))")
    mine = write(tmp_path / "p", f"({wrapper} (S (NP (NE a)) (VP (VVFIN b) (NP (NN c)))) ($. .))")
    results = evaluate_parse(gold, mine, COMMON)
    assert results.scores["f1"] == results.scores["unlabeled_f1"] == pytest.approx(600 / 7)
    (tmp_path / "a.prm").write_text("DELETE_LABEL TOP\n")
    by_file = evaluate_parse(gold, mine, read_parameters(tmp_path / "a.prm")).scores["f1"]
    assert by_file == pytest.approx(600 / 7 if wrapper == "TOP" else 800 / 9)


@pytest.mark.parametrize("tag", sorted(TRACE_TAGS))
def test_what_is_no_word_is_not_compared(tag: str, tmp_path: Path) -> None:
    gold = write(tmp_path / "g", f"(S (NP (NN a)) (RM ({tag} x)) (VP (VB b) ({tag} y)))")
    mine = write(tmp_path / "p", "(S (NP (NN a)) (VP (VB b)))")
    results = evaluate_parse(gold, mine, COMMON)
    assert results.counts["errors"] == 0
    assert results.scores["f1"] == 100.0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("(TOP (S (NP (NN dog))\n  (VP (VBZ barks))))\n\n(TOP (S (NP (NN cat))\n  (VP (VBZ sleeps))))\n", 1),
        ("(ROOT\n(S (NN dog)\n)\n)\n", 2),
        ("(S (NN dog))\n\n( (S (NP (NN dog))\n\t(VP (VBZ barks))) )\n", 3),
        ("  (S (NN dog)\n    (NN cat))\n", 1),
    ],
)
def test_trees_over_several_lines_are_named(text: str, line: int, tmp_path: Path) -> None:
    several, one = tmp_path / "several", write(tmp_path / "one", "(S (NN dog))")
    several.write_text(text)
    for gold, mine in ((several, one), (one, several), (several, several)):
        if line > 1 and gold != mine:
            continue  # the other one ends before
        with pytest.raises(
            InputError, match=f"several:{line}: a tree goes on in the next line.*--from treebank"
        ):
            evaluate_parse(gold, mine)


@pytest.mark.parametrize("after", ["(S (NN cat))", "  (S (NN cat))", ""])
def test_one_broken_line_is_an_error_among_others(after: str, tmp_path: Path) -> None:
    gold = write(tmp_path / "g", "  (S (NN dog)", after, "(S (NN a) (NN b)))", "(S (NN a) (NN b))")
    counts = evaluate_parse(gold, gold).counts
    assert (counts["errors"], counts["sentences"]) == (2, 4)


def test_excluded_sentences_are_counted_apart(tmp_path: Path) -> None:
    flat = "(X (XX the) (XX dog) (XX barks) (XX .))"
    gold, predicted = write(tmp_path / "g", *GOLD), write(tmp_path / "p", GOLD[0], flat, "")
    record = {
        "file": "in.txt",
        "line": 2,
        "reason": "words unknown to the model: dog",
        "text": "the dog barks .",
    }
    rejects = write(tmp_path / "rejects.jsonl", json.dumps(record))
    with_flat = evaluate_parse(gold, predicted)
    assert (with_flat.counts["placeholders"], with_flat.counts["scored"], with_flat.counts["skipped"]) == (
        1,
        2,
        1,
    )
    results = evaluate_parse(gold, predicted, excluded=read_excluded(rejects))
    counts = results.counts
    assert (counts["sentences"], counts["scored"], counts["skipped"], counts["left_out"]) == (3, 1, 1, 1)
    assert results.scores["f1"] == 100.0
    assert results.tables["items"].column("reason").to_pylist()[1] == f"excluded: {record['reason']}"
    with pytest.raises(InputError, match="ends after line 3, but line 4 is to be excluded"):
        evaluate_parse(gold, predicted, excluded={2: "unknown", 4: "unknown"})


def test_records_about_several_files_are_refused(tmp_path: Path) -> None:
    records = [json.dumps({"line": n, "reason": "long", "file": file}) for n, file in ((1, "a"), (2, "b"))]
    assert read_excluded(write(tmp_path / "one", records[0])) == {1: "long"}
    with pytest.raises(InputError, match="several files"):
        read_excluded(write(tmp_path / "two", *records))


def test_factored_trees_are_compared_by_evalb_too(tmp_path: Path) -> None:
    gold, predicted = (write(tmp_path / name, "(S (NP (N a)) (V b) (N c))") for name in "gp")
    for binarize, brackets in (("none", 2), ("right", 2), ("left", 2)):
        (row,) = compare_files(gold, predicted, COMMON, binarize=binarize, verbatim=True)  # type: ignore[arg-type]
        assert (row.matched, row.gold) == (brackets, brackets)
        assert ("|<" in str(row.gold_tree)) == (binarize != "none")


def test_damaged_lines_are_errors_of_their_sentence(tmp_path: Path) -> None:
    gold, predicted = write(tmp_path / "g", *GOLD), write(tmp_path / "p", GOLD[0], "(S (NP", GOLD[2])
    for binarize in ("none", "right"):
        results = evaluate_parse(gold, predicted, binarize=binarize)  # type: ignore[arg-type]
        assert (results.counts["errors"], results.counts["scored"]) == (1, 2)


@pytest.mark.parametrize("binarize", ["none", "right"])
def test_the_trees_of_items_are_those_that_were_compared(tmp_path: Path, binarize: str) -> None:
    predicted = (
        "(X (XX She) (X (X (XX ate) (X (X (XX 1/2) (XX cake)) (XX today))) (XX .)))",
        "",
        "(X (XX dog))",
    )
    gold, mine = write(tmp_path / "g", *GOLD), write(tmp_path / "p", *predicted)
    excluded = {3: "no parse"}
    results = evaluate_parse(gold, mine, UNLABELED, binarize=binarize, excluded=excluded)  # type: ignore[arg-type]
    rows = results.table("items").to_pylist()
    for row in rows[:2]:
        again = dataclasses.asdict(compare_sentence(row["gold_tree"], row["predicted_tree"], UNLABELED))
        counts = ("status", "matched", "gold", "predicted", "crossing", "words", "correct_tags", "length")
        assert {name: again[name] for name in counts} == {name: row[name] for name in counts}
    assert all("(CD 1/2)" in rows[0][name] for name in ("gold_tree", "predicted_tree"))
    assert (rows[1]["predicted_tree"], rows[2]["predicted_tree"]) == ("", predicted[2])


def test_files_of_different_lengths(tmp_path: Path) -> None:
    gold, predicted = write(tmp_path / "g", *GOLD), write(tmp_path / "p", *GOLD[:2])
    for one, other in ((gold, predicted), (predicted, gold)):
        with pytest.raises(InputError, match=r"p: ends after line 2, but .*g has more"):
            evaluate_parse(one, other)
    with pytest.raises(InputError, match="no trees"):
        evaluate_parse(write(tmp_path / "e1"), write(tmp_path / "e2"))


@pytest.mark.parametrize("line", ["{", '{"line": 1}', "[]", '{"line": "x", "reason": "r", "file": "f"}'])
def test_bad_rejects(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"r\.jsonl:1"):
        read_excluded(write(tmp_path / "r.jsonl", line))


@pytest.mark.parametrize("binarize", ["none", "right", "left"])
def test_spans_are_compared_under_tags_of_any_tagset(
    binarize: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """UD's tags and no tags at all give one score: punctuation is what the gold tags say, in both trees."""
    gold = ("(S (NP (DT The) (NN cat)) (VP (VBZ sits) (NP (-NONE- *T*))) (. .))", "(S (`` ``) (NN a) (. ;))")
    shown = "(S (S (A ({} The) ({} cat)) ({} sits)) ({} .))", "(S (A ({} ``) ({} a)) ({} ;))"
    # The second line's last word is a comma to the parser, and its second one a full stop.
    tags = (["DET", "NOUN", "VERB", "PUNCT"], ["PUNCT", ".", ","])
    trees = write(tmp_path / "g", *gold)
    foreign, none = (
        write(tmp_path / name, *(text.format(*of) for text, of in zip(shown, given, strict=True)))
        for name, given in {"f": tags, "n": [["XX"] * len(of) for of in tags]}.items()
    )
    found, untagged = (
        evaluate_parse(trees, predicted, UNLABELED, binarize=binarize) for predicted in (foreign, none)
    )
    assert found.counts["errors"] == 0
    assert found.counts["words"] == 4
    assert found.scores == untagged.scores
    assert found.scores["tagging_accuracy"] is None
    assert run(["eval-parse", str(trees), str(foreign), "--binarize", binarize]) == 0
    assert capsys.readouterr().err == (
        "2 sentences differ in their words and were not scored"
        " (words are deleted by their tags; with --unlabeled, by the gold ones)\n"
    )


def test_words_with_hyphens_are_no_historical_trees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nearly all words have hyphens, as where lemmas follow them, but nothing says that these are lemmas."""
    trees = str(write(tmp_path / "a", *["(S (NP well-being) (VP check-in))"] * 30))
    assert run(["eval-parse", trees, trees, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["sentences"] == 30


def test_verbatim_lines_are_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("(S (X a)\n  (X b))\n")
    (tmp_path / "found").write_text("(S (X a)\n\n")
    pairs = list(read_pairs(tmp_path / "gold", tmp_path / "found", verbatim=True))
    assert pairs == [(1, "(S (X a)", "(S (X a)"), (2, "  (X b))", "")]
    with pytest.raises(InputError, match="gold:1: a tree goes on in the next line"):
        list(read_pairs(tmp_path / "gold", tmp_path / "found"))
    (tmp_path / "found").write_text("\n")
    with pytest.raises(InputError, match="found: ends after line 1, but .*gold has more"):
        list(read_pairs(tmp_path / "gold", tmp_path / "found", verbatim=True))
