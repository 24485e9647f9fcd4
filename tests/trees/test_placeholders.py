"""The trees that stand for sentences without a parse are known as such, and no parse is taken for one."""

from __future__ import annotations

import pytest

from pdtools.trees import Tree, is_placeholder, placeholder


@pytest.mark.parametrize("words", [["a", "b", "c"], ["a", "\ud800"], [" "], ["(", ")", "x"]])
def test_placeholders(words: list[str]) -> None:
    tree = placeholder(words)
    assert len(tree) == len(words)
    assert is_placeholder(tree)
    assert is_placeholder(Tree.from_brackets(str(tree)))


@pytest.mark.parametrize(
    "tree",
    [
        "(X (XX a))",  # of one word or two there is no other tree
        "(X (XX a) (XX b))",
        "(X (X (XX a) (XX b)) (XX c))",
        "(S (XX a) (XX b) (XX c))",
        "(X (XX a) (XX b) (NN c))",
        "(X (-NONE- *))",  # a blank line's
    ],
)
def test_other_trees(tree: str) -> None:
    assert not is_placeholder(Tree.from_brackets(tree))
