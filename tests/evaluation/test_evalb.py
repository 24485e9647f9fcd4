"""EVALB's rules, against what EVALB printed and against small cases worked out by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import InputError
from pdtools.evaluation.evalb import BracketScore, compare_sentence
from pdtools.evaluation.prm import COMMON, Parameters, read_parameters
from pdtools.files import read_lines
from pdtools.report.evalb import TooManyErrors, evalb_lines


def evalb_output(gold: Path, predicted: Path, prm: Path) -> tuple[str, str, int]:
    """Standard output, standard error and exit status of EVALB, from our own scores."""
    parameters = read_parameters(prm)
    rows = (
        compare_sentence(a, b, parameters, line)
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


@pytest.mark.parametrize(
    ("name", "gold", "predicted"),
    [
        ("nk", "gold.trees", "test.trees"),
        ("unlabeled", "gold.trees", "test.trees"),
        ("COLLINS", "gold.trees", "test.trees"),
        ("sample", "sample.gld", "sample.tst"),
    ],
)
def test_the_table_is_evalbs_own(test_data: Path, name: str, gold: str, predicted: str) -> None:
    folder = test_data / "evalb"
    out, err, status = evalb_output(folder / gold, folder / predicted, folder / f"{name}.prm")
    assert out == (folder / f"expected.{name}.txt").read_text()
    expected_err = (folder / f"expected.{name}.stderr").read_text()
    assert err == "".join(x for x in expected_err.splitlines(True) if not x.startswith("exit "))
    assert status == (1 if "exit 1" in expected_err else 0)
