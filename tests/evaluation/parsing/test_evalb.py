"""EVALB's rules, against what EVALB printed and against small cases worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import InputError
from pdtools.evaluation.parsing.evalb import BracketScore, compare_sentence
from pdtools.evaluation.parsing.prm import COMMON, Parameters, read_parameters
from pdtools.files import read_lines
from pdtools.report.evalb import TooManyErrors, evalb_lines


def evalb_output(
    gold: Path, predicted: Path, prm: Path, suffixes: tuple[str, str] = ("", "")
) -> tuple[str, str, int]:
    """Standard output, standard error and exit status of EVALB, from our own scores.

    Args:
        suffixes: what is put after the label of every phrase but TOP, on either side.
    """
    parameters = read_parameters(prm)
    rows = (
        compare_sentence(with_suffix(a, suffixes[0]), with_suffix(b, suffixes[1]), parameters, line)
        for (line, a), (_, b) in zip(read_lines(gold), read_lines(predicted), strict=True)
    )
    printed: dict[bool, list[str]] = {False: [], True: []}
    status = 0
    try:
        for line, is_error in evalb_lines(rows, parameters):
            printed[is_error].append(line + "\n")
    except TooManyErrors:
        status = 1
    return "".join(printed[False]), "".join(printed[True]), status


def with_suffix(line: str, suffix: str) -> str:
    """A tree with something after the label of every phrase but TOP."""
    return re.sub(r"\((?!TOP[\s(])([^()\s]+)(?=\s*\()", rf"(\g<1>{suffix}", line)


@pytest.mark.parametrize("suffixes", [("", ""), ("=1", ""), ("", "-SBJ"), ("-SBJ=2", "=3-TMP")])
@pytest.mark.parametrize(
    ("name", "gold", "predicted"),
    [
        ("nk", "gold.trees", "test.trees"),
        ("unlabeled", "gold.trees", "test.trees"),
        ("COLLINS", "gold.trees", "test.trees"),
        ("sample", "sample.gld", "sample.tst"),
    ],
)
def test_the_table_is_evalbs_own(
    test_data: Path, name: str, gold: str, predicted: str, suffixes: tuple[str, str]
) -> None:
    """Also with functions and indices: EVALB cuts the labels of phrases at the first "-" or "="."""
    folder = test_data / "evalb"
    out, err, status = evalb_output(folder / gold, folder / predicted, folder / f"{name}.prm", suffixes)
    assert out == (folder / f"expected.{name}.txt").read_text()
    expected_err = (folder / f"expected.{name}.stderr").read_text()
    assert err == "".join(x for x in expected_err.splitlines(True) if not x.startswith("exit "))
    assert status == (1 if "exit 1" in expected_err else 0)


# --- small cases ------------------------------------------------------------------------------

DOG = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))"


trees = st.recursive(
    st.tuples(st.sampled_from(["NN", "DT", ",", "."]), st.sampled_from(["dog", "a", ","])).map(
        lambda leaf: f"({leaf[0]} {leaf[1]})"
    ),
    lambda children: st.tuples(
        st.sampled_from(["S", "NP", "VP-SBJ", "TOP", "NP=2"]), st.lists(children, min_size=1, max_size=4)
    ).map(lambda node: f"({node[0]} {' '.join(node[1])})"),
    max_leaves=12,
).filter(lambda text: text.startswith(("(S", "(NP ", "(VP", "(TOP")))


@given(st.lists(st.tuples(trees, trees), max_size=6), st.integers(0, 6))
def test_scores_add_up(pairs: list[tuple[str, str]], cut: int) -> None:
    rows = [BracketScore.of(compare_sentence(a, b, COMMON)) for a, b in pairs]
    whole = sum(rows, BracketScore())
    assert whole == sum(rows[:cut], BracketScore()) + sum(rows[cut:], BracketScore())
    assert whole.sentences == whole.scored + whole.errors + whole.skipped == len(pairs)


@pytest.mark.parametrize(
    ("predicted", "status", "says"),
    [
        ("", "skipped", None),
        ("(. .)", "skipped", None),
        ("(S (NN dog) (. .))", "error", "Length unmatch (3|1)"),
        ("(S (DT the) (NN cat) (VBZ barks))", "error", "Words unmatch (dog|cat)"),
        ("(S (DT the)", "error", "too many open"),
        ("(S (DT the)))", "error", "too many close"),
        ("(S the dog)", "error", "More than two elements"),
        ("(S (DT the) dog)", "error", "Reading sentence"),
    ],
)
def test_errors_and_skips(predicted: str, status: str, says: str | None) -> None:
    row = compare_sentence(DOG, predicted, COMMON)
    assert row.status == status
    assert (says is None and row.reason is None) or (says or "") in (row.reason or "")
    assert BracketScore.of(row).gold == 0


def test_a_quote_taken_for_a_possessive_is_put_back() -> None:
    parameters = Parameters(
        delete_labels=frozenset({"''"}), quote_labels=frozenset({"''", "POS"}), equal_labels=frozenset()
    )
    gold = "(S (NP (NP (NNS dogs) (POS ')) (NN food)) (VP (VBZ smells)))"
    predicted = "(S (NP (NP (NNS dogs)) ('' ') (NN food)) (VP (VBZ smells)))"
    row = compare_sentence(gold, predicted, parameters)
    assert (row.status, row.words, row.correct_tags) == ("scored", 4, 3)
    assert (row.matched, row.gold, row.predicted) == (3, 4, 4)
    # With another mark in its place the lengths differ, and that is an error.
    other = compare_sentence(gold.replace("'", "x"), predicted.replace("('' ')", "('' x)"), parameters)
    assert other.status == "error"
    # Each side left another mark out: the lengths are equal, and EVALB looks for no marks.
    one, two = (f"(S ({a} ') (NN a) ({b} '))" for a, b in (("POS", "''"), ("''", "POS")))
    row = compare_sentence(one, two, parameters)
    assert (row.status, row.reason) == ("error", "Words unmatch ('|a)")


def test_no_break_spaces_belong_to_words() -> None:
    tree = "(S (A a\u00a0b) (B c))"
    assert compare_sentence(tree, tree, COMMON).words == 2


def test_nothing_matched_prints_nan_as_c_does() -> None:
    row = compare_sentence("(A (X a))", "(B (X a))", Parameters())
    printed = [line for line, _ in evalb_lines([row], Parameters())]
    assert "Bracketing FMeasure       =   -nan" in printed


# --- parameter files --------------------------------------------------------------------------


def test_parameter_file(tmp_path: Path) -> None:
    path = tmp_path / "my.prm"
    path.write_text(
        "# a comment\n\nDEBUG 0\nMAX_ERROR 3\nCUTOFF_LEN\t70\nLABELED 0   \nDISC_ONLY 0\nDELETE_LABEL TOP\n"
        "DELETE_LABEL_FOR_LENGTH -NONE-\nQUOTE_LABEL POS\nEQ_LABEL ADVP PRT\nEQ_WORD  Example example\n"
    )
    assert read_parameters(path) == Parameters(
        max_error=3,
        cutoff_len=70,
        labeled=False,
        delete_labels=frozenset({"TOP"}),
        delete_labels_for_length=frozenset({"-NONE-"}),
        quote_labels=frozenset({"POS"}),
        equal_labels=frozenset({("ADVP", "PRT")}),
        equal_words=frozenset({("Example", "example")}),
    )


@pytest.mark.parametrize(
    "line", ["NOVEL 1", "MAX_ERROR", "MAX_ERROR ten", "EQ_LABEL one", "EQ_WORD a b c", "DISC_ONLY 1"]
)
def test_bad_parameters_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "my.prm"
    path.write_text(f"LABELED 1\n{line}\n")
    with pytest.raises(InputError, match=r"my\.prm:2: "):
        read_parameters(path)
