from __future__ import annotations

import pickle

import nltk
import numpy as np
import pytest
from hypothesis import given

from pdtools.errors import InputError
from pdtools.trees import (
    Tree,
    attachments,
    binarize,
    collapse_unaries,
    escape,
    is_placeholder,
    normalize,
    placeholder,
    unescape,
)

from . import oracles


@pytest.mark.parametrize(
    "text",
    [
        "(NN dog)",
        "(X (NN dog))",
        "( (S (NP (DT the) (NN dog)) (VP (VBZ barks))))",
        "(S a (NP (NN b)) c)",
        "(S a (NP b) (X (Y (Z (NN c)))))",
        "(X a b)",
        "(NP (-LRB- -LRB-) (JJ non\u00a0breaking) (NN thin\u2009space))",
    ],
)
def test_brackets_round_trip(text):
    assert Tree.from_brackets(text).to_brackets() == text
    assert str(Tree.from_brackets(text.replace(" ", "\r\n \t"))) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", "dog", "(", ")", "(S (NN dog)", "(S (NN dog)))", "(NN a) (NN b)", "(NN a) b", "a (NN b)"],
)
def test_not_one_tree(text):
    with pytest.raises(InputError):
        Tree.from_brackets(text)


@pytest.mark.parametrize(
    "text", ["()", "(NN)", "(( ))", "(S (NP) (NN dog))", "(S (NN dog) (NP (X)))", "(S dog (NP))"]
)
def test_constituent_without_words(text):
    with pytest.raises(InputError, match="without words"):
        Tree.from_brackets(text)
    with pytest.raises(InputError, match="without words"):
        Tree.from_nltk(nltk.Tree.fromstring(text))


@given(tree=oracles.treebank_trees())
def test_round_trips(tree):
    text = tree.to_brackets()
    assert Tree.from_brackets(text) == tree
    assert "\n" not in text
    as_nltk = tree.to_nltk()
    assert as_nltk == nltk.Tree.fromstring(text)
    assert Tree.from_nltk(as_nltk) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_equality():
    tree = Tree.from_brackets("(S (NN a) (NN b))")
    same = Tree.from_brackets("(S (NN a) (NN b))")
    assert tree == same
    assert hash(tree) == hash(same)
    for other in ["(S (NN a) (NN c))", "(S (NN a) (X b))", "(X (NN a) (NN b))", "(S (S (NN a) (NN b)))"]:
        assert tree != Tree.from_brackets(other)
    assert tree != "(S (NN a) (NN b))"


def test_backslash_before_a_bracket_is_safe_for_nltk():
    tree = Tree.from_brackets("(S (SYM \\ ) (NN a\\/b))")
    assert tree.words == ("\\", "a\\/b")
    assert nltk.Tree.fromstring(str(tree)).leaves() == ["\\", "a\\/b"]
    assert Tree.from_brackets(str(tree)) == tree


def test_first_word_of_a_constituent_without_a_label_gets_a_tag():
    """Where a trace before it was taken out; as ``( c)`` it would be read as the label."""
    starts, ends = np.array([0, 1], np.int32), np.array([3, 3], np.int32)
    tree = Tree(("a", "c", "d"), ("NN", "", ""), ("S", ""), starts, ends)
    assert str(tree) == "(S (NN a) ( (XX c) d))"
    assert Tree.from_brackets(str(tree)).words == tree.words


def test_lone_word_without_a_tag_gets_a_label():
    empty = np.zeros(0, np.int32)
    tree = Tree(words=("dog",), tags=("",), labels=(), starts=empty, ends=empty)
    assert str(tree) == "(X dog)"
    assert tree.to_nltk() == nltk.Tree("X", ["dog"])


def test_depth_does_not_matter():
    depth = 100_000
    tree = Tree.from_brackets("(X " * depth + "(NN dog) (NN cat)" + ")" * depth)
    assert len(tree.labels) == depth
    assert Tree.from_brackets(str(tree)) == tree
    assert Tree.from_nltk(tree.to_nltk()) == tree
    assert normalize(tree) == tree
    assert len(collapse_unaries(tree).labels) == 1
    assert binarize(tree) == tree
    assert attachments(tree).tolist() == [0, 0]


def test_escapes():
    assert escape("f(x){y}[z]") == "f-LRB-x-RRB--LCB-y-RCB-[z]"
    assert unescape("-LRB-a-RRB-") == "(a)"
    assert unescape(r"1\/2\*") == "1/2*"
    assert unescape("-LSB- -RSB- -LCB- -RCB-") == "[ ] { }"
    assert unescape("-LAB- \\ \\n --") == "-LAB- \\ \\n --"
    for word in ["(", "a)b", "{}", "plain", "[1]"]:
        assert unescape(escape(word)) == word


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
