import sys

import pytest

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.parsers import load_parser
from pdtools.trees import sentence_problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no words"),
        (["a", ""], "without visible"),
        (["a", " "], "without visible"),
        (["\u00a0"], "without visible"),
        (["\u200b", "a"], "without visible"),
        (["a", "\ud800"], "surrogate"),
        (["a b"], "white space"),
    ],
)
def test_words_that_no_parser_can_do(words: list[str], problem: str) -> None:
    assert problem in (sentence_problem(words) or "")


def test_ordinary_words_are_no_problem() -> None:
    assert sentence_problem(["(", "naïve", "1\u00a0000", "🙂", "a\u200bb", "-"]) is None


def test_unknown_parser_is_named() -> None:
    with pytest.raises(PdtoolsError, match=r"no parser named 'collins': use benepar, stanza"):
        load_parser("collins")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "benepar"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "benepar", None)
    with pytest.raises(
        MissingDependencyError, match=r"pip install '\.\[parse\]' in a checkout, .* \(or --parser RUN "
    ):
        load_parser("benepar")
