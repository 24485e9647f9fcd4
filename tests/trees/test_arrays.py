"""Whole files as arrays: equal to the plain reader, transforms and attachments, tree by tree."""

from __future__ import annotations

import gzip
import zipfile
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd_treebanks import FILES, SOUP, read_arrays

from pdtools.errors import InputError
from pdtools.files import Rejects, expand_inputs
from pdtools.trees import SourcedTree, arrays, attachments, binarize, collapse_unaries, normalize, read_trees
from pdtools.trees.arrays import TreeArrays

A, B, C = "(S (NN a))", "(S (NN b) (NN c))", "(S (NP (DT d) (NN e)) (VP (VB f) (-NONE- *)))"


def described(source, tree, factor="right"):
    """A tree with its normal form as (file, line, text, words, attachments)."""
    words, r = ([], []) if tree is None else (list(tree.words), attachments(tree, factor).tolist())
    return source.file, source.line, source.text, words, r


def unpacked(some):
    """The trees of arrays as (file, line, text, words, attachments)."""
    found = some.words().to_pylist()
    for i in range(len(some)):
        inside = slice(some.sentences[i], some.sentences[i + 1])
        spans = zip(some.word_starts[inside], some.word_ends[inside], strict=True)
        words = [some.data[start:end].decode() for start, end in spans]
        assert words == found[inside]
        source = some.source(i)
        yield source.file, source.line, source.text, words, some.attachments[inside].tolist()


def run(read, on_error):
    """All that a reader yields until it fails, its error, and its rejects."""
    rejects, found, error = Rejects(on_error), [], None
    try:
        for item in read(rejects):
            found.append(item)
    except InputError as raised:
        error = str(raised)
    return found, error, list(rejects)


def plainly(files):
    """What the plain reader yields, by what is done about errors and by factor."""
    expected = {}
    for on_error in ("skip", "fail"):
        sources, error, rejects = run(partial(read_trees, files), on_error)
        clean = [normalize(source.tree) for source in sources]
        for factor in ("left", "right"):
            trees = [described(*pair, factor) for pair in zip(sources, clean, strict=True)]
            expected[on_error, factor] = trees, error, rejects
    return expected


def at_once(files, factor, options, rejects):
    """What arrays hold, tree by tree, with the trees that were left to the plain reader."""
    for item in read_arrays(files, rejects, factor, **options):
        if isinstance(item, SourcedTree):
            yield described(item, normalize(item.tree), factor)
        else:
            yield from unpacked(item)


def assert_same(files, **options):
    names = [str(file) for file in files]
    plain = plainly(names)
    assert_expected(names, plain, **options)
    return plain["fail", "right"]


def assert_expected(names, plain, **options):
    for (on_error, factor), expected in plain.items():
        assert run(partial(at_once, names, factor, options), on_error) == expected


def all_arrays(files, **options):
    return all(isinstance(item, TreeArrays) for item in read_arrays(files, Rejects(), **options))


# --- random treebanks -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@settings(max_examples=300)
@given(contents=st.lists(FILES, min_size=1, max_size=3), block=st.sampled_from([8, 40, 200, 10**6]))
@example(contents=[b"(- a)"], block=10**6)
@example(contents=[b"( (S (-NONE- *)) )", b"(X|<Y> (NN a) (NN b) (X|<Y> (NN c)))"], block=10**6)
def test_random_treebanks(contents, block, folder):
    names = written(contents, folder)
    plain = plainly(names)
    assert_expected(names, plain, chunk_bytes=block)
    with mock.patch.object(arrays, "_STRETCH_BYTES", block):
        assert_expected(names, plain)
        assert all_arrays(names)  # with the default block, nothing is left to the plain reader


@settings(max_examples=300)
@given(
    contents=st.lists(st.one_of(SOUP, st.builds(bytes.__add__, FILES, SOUP), FILES), min_size=1, max_size=3),
    block=st.sampled_from([8, 40, 10**6]),
)
@example(contents=[b"(NN a)(\x85"], block=8)
def test_random_bytes(contents, block, folder):
    names = written(contents, folder)
    plain = plainly(names)
    assert_expected(names, plain, chunk_bytes=block)
    with mock.patch.object(arrays, "_STRETCH_BYTES", block):
        assert_expected(names, plain)


def written(contents, folder):
    """Names of the files with these contents, where an earlier example may have left its own."""
    files = [folder / f"{i}.mrg" for i in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return [str(file) for file in files]


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        b"(S (NN a)",
        b")",
        b"x",
        b"(S)",
        b"(S a b)",
        b"(S (NN \xff))",
        b"",
        b"\n",
        b"\xef\xbb\xbf",
        b"(S (A)(B b))",
        b"(S (NP-SBJ *pro*) (B b))",
        b"(S (A a) (B b) (ID 7))",
    ],
)
@pytest.mark.parametrize("block", [16, 10**6])
def test_what_is_odd_is_left_to_the_plain_reader(odd, block, tmp_path):
    files = [tmp_path / f"{i}.mrg" for i in range(4)]
    good = f"{A}\n{B}\n{C}\n".encode()
    for file, content in zip(
        files, [good, good + odd, odd + b"\n" + good, b"\xef\xbb\xbf" + good], strict=True
    ):
        file.write_bytes(content)
    assert_same(files, chunk_bytes=block)


def test_no_tree_runs_from_one_file_into_the_next(tmp_path):
    files = [tmp_path / "a.mrg", tmp_path / "b.mrg"]
    files[0].write_text(f"{A}\n(S (NN b)")
    files[1].write_text(f" (NN c))\n{A}")
    assert len(assert_same(files)[2]) == 0
    assert assert_same(files)[1] is not None


def test_missing_and_damaged_files_fail_in_their_turn(tmp_path):
    good, damaged = tmp_path / "good.mrg", tmp_path / "damaged.mrg.gz"
    good.write_text(f"{A}\n{B}\n" * 50)
    damaged.write_bytes(gzip.compress(np.random.default_rng(0).bytes(2000).hex().encode())[:-400])
    for bad in (damaged, tmp_path / "missing.mrg"):
        found, error, _ = assert_same([good, bad, good])
        assert len(found) == 100
        assert bad.name in error
    whole = gzip.compress((f"{A}\n{B}\n" * 5000).encode(), 0)
    damaged.write_bytes(whole[: len(whole) // 2])
    found, error, _ = assert_same([damaged], chunk_bytes=1000)
    assert len(found) > 1000
    assert "damaged" in error


def test_deep_and_long_trees(tmp_path):
    """Deeper than 127 and 32,767 brackets, branching left, right and not at all."""
    file = tmp_path / "deep.mrg"
    n = 40_000
    right = "(S (N a) " * 300 + "(N b)" + ")" * 300
    left = "(S " * 300 + "(N b)" + " (N a))" * 300
    chain = "(X|<Y> " * n + "(N a) (N b)" + ")" * n
    file.write_text("\n".join([right, left, chain, "(S" + " (N a)" * n + ")"]))
    assert all_arrays([str(file)])
    assert_same([file])


# --- real treebanks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix", "every"),
    [("nltk_treebank", ".mrg", 1), ("gum_const", ".ptb", 5), ("craft_penn", ".tree", 8)],
)
def test_real_treebanks(name, suffix, every, test_data, tmp_path):
    """Files from a whole treebank, of all genres; ``pdtools parse`` reads all of them in its tests."""
    with zipfile.ZipFile(test_data / "treebanks" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    files = expand_inputs([str(tmp_path)], [suffix])[::every]
    plain = list(read_trees(files, Rejects()))
    clean = [normalize(source.tree) for source in plain]
    for form in ("left", "right") if name == "nltk_treebank" else ("right",):
        expected = [described(*pair, form) for pair in zip(plain, clean, strict=True)]
        found = [tree for arrays in read_arrays(files, Rejects(), form) for tree in unpacked(arrays)]
        assert found == expected
    # And what pdtools parse writes, in blocks.
    for factor in ("right", "left"):
        file = tmp_path / f"{factor}.trees"
        file.write_text("".join(f"{binarize(collapse_unaries(tree), factor)}\n" for tree in clean))
        start = 0
        for some in read_arrays([str(file)], Rejects(), chunk_bytes=100_000):
            assert isinstance(some, TreeArrays)
            for i in range(len(some)):
                r = some.attachments[some.sentences[i] : some.sentences[i + 1]]
                assert r.tolist() == expected[start + i][4]
                assert some.place(i)[1] == start + i + 1
            start += len(some)
        assert start == len(clean)
