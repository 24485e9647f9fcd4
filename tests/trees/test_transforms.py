from __future__ import annotations

from collections import Counter

import nltk
import pytest
from hypothesis import given
from nltk.tree.transforms import chomsky_normal_form, collapse_unary, un_chomsky_normal_form

from pdtools.trees import (
    TransformCounts,
    Tree,
    attachments,
    binarize,
    collapse_unaries,
    expand_unaries,
    normalize,
    unbinarize,
)

from . import oracles

FACTORS = ["right", "left"]


def normalized(text: str, **options) -> str | None:
    tree = normalize(Tree.from_brackets(text), **options)
    return None if tree is None else str(tree)


# --- binarization and unaries -----------------------------------------------------------------


@pytest.mark.parametrize("factor", FACTORS)
@given(tree=oracles.treebank_trees(bare_words=False))  # nltk takes any node before a bare word for a tag
def test_same_as_nltk(factor, tree):
    reference = tree.to_nltk()
    collapse_unary(reference, collapsePOS=False, collapseRoot=True, joinChar="+")
    collapsed = collapse_unaries(tree)
    assert collapsed.to_nltk() == reference
    chomsky_normal_form(reference, factor=factor)
    assert binarize(collapsed, factor).to_nltk() == reference


@pytest.mark.parametrize("factor", FACTORS)
@given(tree=oracles.treebank_trees())
def test_undoing(factor, tree):
    collapsed = collapse_unaries(tree)
    assert unbinarize(binarize(collapsed, factor)) == collapsed
    assert expand_unaries(collapsed) == tree
    binarized = binarize(tree, factor)
    assert unbinarize(binarized) == tree
    # nltk undoes ours as well, once the labels hold nothing that nltk takes for its own signs.
    reference = nltk.Tree.fromstring(str(binarize(collapsed, factor)))
    un_chomsky_normal_form(reference)
    assert reference == tree.to_nltk()


@pytest.mark.parametrize("factor", FACTORS)
@given(tree=oracles.treebank_trees())
def test_binary_and_the_same_attachments(factor, tree):
    binarized = binarize(collapse_unaries(tree), factor)
    wide = binarized.ends - binarized.starts > 1
    assert wide.sum() == len(tree) - 1
    assert attachments(binarized, "right").tolist() == attachments(tree, factor).tolist()
    assert attachments(binarized, "left").tolist() == attachments(tree, factor).tolist()


def test_labels_by_eye():
    tree = Tree.from_brackets("(S (NP (DT a) (NN b)) , (VP (VP (VB c) (PP d) (RB e))) (. f))")
    assert str(binarize(collapse_unaries(tree))) == (
        "(S (NP (DT a) (NN b)) (S|<,-VP+VP-.> , (S|<VP+VP-.> "
        "(VP+VP (VB c) (VP+VP|<PP-RB> (PP d) (RB e))) (. f))))"
    )
    assert str(binarize(collapse_unaries(tree), "left")) == (
        "(S (S|<NP-,-VP+VP> (S|<NP-,> (NP (DT a) (NN b)) ,) "
        "(VP+VP (VP+VP|<VB-PP> (VB c) (PP d)) (RB e))) (. f))"
    )


def test_a_label_with_a_bar_is_no_binarization():
    tree = Tree.from_brackets("(S (ADVP|PRT (RB up) (RB there)) (VB go))")
    assert unbinarize(binarize(tree)) == tree


def test_the_top_node_stays_whatever_its_label():
    tree = Tree.from_brackets("(S|<NP-VP> (NP a) (VP b))")
    assert unbinarize(tree) == tree


def test_unknown_factor_is_refused():
    with pytest.raises(ValueError, match="right or left"):
        binarize(Tree.from_brackets("(NN dog)"), "none")


@pytest.mark.parametrize("tag", ["Q+N", "N+N+N", "+", "$+", "V+|<N>"])
def test_tags_with_a_plus_stay_whole(tag):
    """nltk divides them too, unless it leaves chains as they are."""
    text = f"(S (NP+QP ({tag} all) (ADJ good)) (VP (VB a) (NN b) (NN c)))"
    done = binarize(collapse_unaries(Tree.from_brackets(text)))
    assert str(unbinarize(done)) == text
    assert (
        str(expand_unaries(unbinarize(done)))
        == f"(S (NP (QP ({tag} all) (ADJ good))) (VP (VB a) (NN b) (NN c)))"
    )
    theirs = nltk.Tree.fromstring(str(done))
    un_chomsky_normal_form(theirs, expandUnary=False)
    if "|" not in tag:
        assert theirs == nltk.Tree.fromstring(text)


# --- normalize --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (NP (NN a)) (VP (VB b))))", "(S (NP (NN a)) (VP (VB b)))"),
        ("(ROOT (S (NN a) (NN b)))", "(S (NN a) (NN b))"),
        ("(TOP (S1 ( (S (NN a) (NN b)))))", "(S (NN a) (NN b))"),
        ("(VROOT (S (NE a) (VVFIN b)))", "(S (NE a) (VVFIN b))"),
        ("(VROOT (S (NE a)) ($. .))", "(VROOT (S (NE a)) ($. .))"),
        ("(ROOT (NN dog))", "(NN dog)"),
        ("(NN dog)", "(NN dog)"),
        ("(X (NN dog))", "(X (NN dog))"),
        ("(ROOT dog)", "(ROOT dog)"),  # a preterminal, no wrapper
        ("(ROOT (NP (NN a)) (VP (VB b)))", "(ROOT (NP (NN a)) (VP (VB b)))"),  # two children
        ("(ROOT (NN a) (VP (VB b) (NN c)))", "(ROOT (NN a) (VP (VB b) (NN c)))"),  # the second one to the end
        ("( (S (NN a) (NN b)) (-NONE- *))", "(S (NN a) (NN b))"),  # one child once the trace is gone
        ("(S (ROOT (NN a) (NN b)))", "(S (ROOT (NN a) (NN b)))"),  # not on top
    ],
)
def test_wrappers(text, expected):
    assert normalized(text) == expected


def test_traces_go_by_tag_and_take_their_phrases_with_them():
    counts = TransformCounts()
    text = (
        "( (S (NP-SBJ (-NONE- *)) (VP (VB see) (SBAR (-NONE- 0) (S (NP (-NONE- *T*-1)) "
        "(VP (-NONE- *?*)))) (NP (SYM *) (CD 0) (NN *PRO*)))))"
    )
    assert normalized(text, counts=counts) == "(S (VP (VB see) (NP (SYM *) (CD 0) (NN *PRO*))))"
    assert (counts.traces, counts.emptied, counts.empty_trees) == (4, 5, 0)


def test_marks_of_disfluency_are_no_words():
    text = (
        r"( (S (EDITED (RM (-DFL- \[)) (NP (PRP I)) (, ,) (IP (-DFL- \+))) (NP (PRP I)) (RS (-DFL- \])) "
        "(VP (VBP go) (. .) (-DFL- E_S))))"
    )
    counts = TransformCounts()
    clean = "(S (EDITED (NP (PRP I)) (, ,)) (NP (PRP I)) (VP (VBP go) (. .)))"
    assert normalized(text, counts=counts) == clean
    assert (counts.traces, counts.emptied) == (4, 3)


def test_nothing_left():
    counts = TransformCounts()
    assert normalized("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))", counts=counts) is None
    assert normalized("(-NONE- *)", counts=counts) is None
    assert (counts.traces, counts.empty_trees) == (3, 2)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-LOC=2", "NP"),
        ("NP-SBJ#3", "NP"),
        ("PRP$#2", "PRP$"),
        ("#", "#"),
        ("-LRB-", "-LRB-"),
        ("-RRB-", "-RRB-"),
        ("-", "-"),
        ("=", "="),
        ("PRP$", "PRP$"),
        ("ADVP|PRT", "ADVP"),
        ("ADVP-TMP|PRT", "ADVP"),
        ("|", "X"),
        ("S-ADV+VP-2", "S+VP"),
        ("", ""),
    ],
)
def test_labels(label, expected):
    assert normalized(f"(Q (NN a) ({label} (NN b) (NN c)))") == f"(Q (NN a) ({expected} (NN b) (NN c)))"
    if label:
        assert normalized(f"(Q (NN a) ({label} b))") == f"(Q (NN a) ({expected} b))"


def test_function_tags_can_stay():
    text = "(S (NP-SBJ-1 (NN a) (NN b)) (ADVP|PRT-2 (RB c)))"
    assert normalized(text, functions="keep") == "(S (NP-SBJ-1 (NN a) (NN b)) (ADVP (RB c)))"


def test_bars_are_counted():
    counts = TransformCounts()
    normalized("(S (ADVP|PRT (RB a) (RB b)) (ADVP|PRT (RB c)))", counts=counts)
    normalized("(S (NN|VB a) (RB b))", counts=counts)
    assert counts.rewritten == {"ADVP|PRT": 2, "NN|VB": 1}
    assert (counts + counts).rewritten["ADVP|PRT"] == 4


@pytest.mark.parametrize("factor", FACTORS)
@given(tree=oracles.treebank_trees())
def test_binarized_input_is_the_same_tree(factor, tree):
    plain = normalize(tree)
    binarized = binarize(collapse_unaries(tree), factor)
    again = normalize(binarized)
    assert (plain is None) == (again is None)
    if plain is not None and again is not None:
        assert again.words == plain.words
        assert attachments(again, factor).tolist() == attachments(plain, factor).tolist()


@given(tree=oracles.treebank_trees())
def test_normalize_is_idempotent(tree):
    once = normalize(tree)
    if once is not None:
        assert normalize(once) == once
        assert "-NONE-" not in once.tags
        assert (once.starts < once.ends).all()


def test_counts_add_up() -> None:
    one = TransformCounts(traces=1, emptied=2, rewritten=Counter(a=3), empty_trees=4, kinds=Counter(a=5))
    other = TransformCounts(
        traces=10, emptied=20, rewritten=Counter(a=30, b=1), empty_trees=40, kinds=Counter(a=50, b=1)
    )
    assert one + other == TransformCounts(
        traces=11, emptied=22, rewritten=Counter(a=33, b=1), empty_trees=44, kinds=Counter(a=55, b=1)
    )


def test_kinds_of_traces():
    leaves = "(NP (-NONE- *T*-1)) (-NONE- *-2) (-NONE- *) (-NONE- 0) (-NONE- *U*) (-NONE- EXP) (-DFL- E_S)"
    counts = TransformCounts()
    assert normalized(f"(S {leaves} (-NONE- *T*-12) (NN *T*-1))", counts=counts) == "(S (NN *T*-1))"
    assert counts.kinds == {"*T*": 2, "*": 2, "0": 1, "*U*": 1, "others": 1, "-DFL-": 1}
    assert counts.traces == counts.kinds.total()


def test_labels_of_binarization_are_no_chains() -> None:
    """They name children, of which one may be a chain itself: what is taken apart is that child alone."""
    tree = Tree.from_brackets("(S (NP+N (A a) (B b)) (C c) (NP+N (A d) (B e)))")
    binary = binarize(tree)
    assert "S|<C-NP+N>" in binary.labels
    expanded = expand_unaries(binary)
    assert "S|<C-NP+N>" in expanded.labels
    assert unbinarize(expanded) == expand_unaries(tree)
