"""Labelled constituents: of a chunk at once as of each tree, and of a tree as by recursion."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd_treebanks import FILES

from pdtools.trees import (
    Tree,
    arrays,
    bare_tree,
    chunk_constituents,
    cut_chunks,
    expand_constituents,
    labelled,
    normalize,
    opens_and_closes,
    parse_chunk,
    tree_from_constituents,
)


def described(tree):
    """Labels, openers, closers, whether wrapped, and rewritten labels of a tree as it was read."""
    clean = normalize(tree)
    if clean is None:
        return [], [], [], False, 0
    whole = labelled(clean)
    opens, closes = opens_and_closes(whole)
    n_rewritten = sum("|" in label for label in bare_tree(tree).labels)
    return list(whole.labels), opens.tolist(), closes.tolist(), not clean.labels, n_rewritten


def unpacked(some):
    """The same of arrays, tree by tree."""
    found = chunk_constituents(some)
    for i in range(len(some)):
        inside, words = slice(*found.bounds[i : i + 2]), slice(*some.sentences[i : i + 2])
        yield (
            [found.names[k] for k in found.flat.labels[inside]],
            found.flat.opens[words].tolist(),
            found.flat.closes[words].tolist(),
            bool(found.wrapped[i]),
            int(found.rewritten[i]),
        )


def assert_same(files):
    for chunk in cut_chunks(files):
        some = parse_chunk(chunk, with_nodes=True)
        assert some is not None
        for i, found in enumerate(unpacked(some)):
            assert found == described(some.source(i).tree), some.source(i).text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@settings(max_examples=300)
@given(contents=st.lists(FILES, min_size=1, max_size=3), block=st.sampled_from([8, 40, 10**6]))
@example(contents=[b"(NN a) (- b) ((- c)) (X|<Y> (X|<Y> (NN a)))"], block=10**6)
@example(contents=[b"(ROOT (TOP (+ (NN a)) (S+VP|Q+ (NN b))))"], block=10**6)
@example(
    contents=[b"(S (A (-NONE- x) (B (-NONE- x))) (A (B (NN b)) (-NONE- *)) (C (-NONE- *)))"], block=10**6
)
def test_random_treebanks(contents, block, folder):
    files = [folder / f"{i}.mrg" for i in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    with mock.patch.object(arrays, "_STRETCH_BYTES", block):
        assert_same(map(str, files))


def test_deep_trees(tmp_path):
    n = 40_000
    file = tmp_path / "deep.mrg"
    chain = "(S (VP+NP " * n + "(N a) (N b)" + "))" * n
    file.write_text(chain + "\n" + "(ROOT " * n + "(N a)" + ")" * n + "\n(S (N a)" + " (-NONE- *)" * n + ")")
    assert_same([str(file)])
    # Less deep, but deeper than a byte counts; chains of two and one that no power of two meets again.
    file.write_text("(S+VP (S (NP " * 200 + "(N b)" + " (N a)) (N a)) (N a))" * 200)
    assert_same([str(file)])


# --- one tree ---------------------------------------------------------------------------------


def recursively(node):
    """Labels in pre-order, and what opens and closes around each word, of an nltk tree without tags."""
    if isinstance(node, str):
        return [], [0], [0]
    parts = [recursively(child) for child in node]
    labels, opens, closes = ([x for part in parts for x in part[i]] for i in range(3))
    opens[0] += 1
    closes[-1] += 1
    return [node.label() or "X", *labels], opens, closes


@given(FILES)
def test_one_tree_by_recursion(content):
    for text in content.decode().replace("-NONE-", "NONE").split("\n"):
        try:
            tree = normalize(Tree.from_brackets(text))
        except Exception:
            continue
        assert tree is not None
        whole = labelled(tree)
        nested = Tree(whole.words, ("",) * len(whole), whole.labels, whole.starts, whole.ends).to_nltk()
        opens, closes = opens_and_closes(whole)
        assert recursively(nested) == (list(whole.labels), opens.tolist(), closes.tolist())
        again = tree_from_constituents(whole.labels, opens, closes, whole.words)
        assert (again.labels, again.words) == (whole.labels, whole.words)
        assert again.starts.tolist() == whole.starts.tolist()
        assert again.ends.tolist() == whole.ends.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks) (NP (-NONE- *)))))", "(S (NP the dog) (VP barks))"),
        ("(S+VP (S+VP|<NP-.> (VB go) (NP (NN home))) (. .))", "(S (VP go (NP home) .))"),
        ("(ROOT (NN a))", "(X a)"),
        ("(NN a)", "(X a)"),
        ("(S ( (ADVP|PRT (RB up)) (UH ah)))", "(S (X (ADVP up) ah))"),
    ],
)
def test_what_constituents_are(text, expected):
    whole = labelled(normalize(Tree.from_brackets(text)))
    bare = Tree(whole.words, ("",) * len(whole), whole.labels, whole.starts, whole.ends)
    assert str(bare) == expected


def test_subwords():
    opens, closes = np.array([2, 0, 1], np.int32), np.array([1, 0, 2], np.int32)
    found = expand_constituents(opens, closes, [1, 2, 3])
    assert [some.tolist() for some in found] == [[2, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 2]]


@pytest.mark.parametrize(
    ("labels", "opens", "closes"),
    [(["S"], [1, 0], [2, 0]), (["S"], [1, 0], [0, 0]), (["S"], [2, 0], [0, 2]), (["S", "S"], [1, 0], [0, 1])],
)
def test_brackets_that_do_not_match(labels, opens, closes):
    with pytest.raises(ValueError, match="than"):
        tree_from_constituents(labels, opens, closes, ["a", "b"])
