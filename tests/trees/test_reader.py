from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.trees import Tree, read_proposals, read_trees

A, B, C = "(S (NN a))", "(S (NN b))", "(S (NN c))"


def read(path, content: str | bytes, on_error: str = "fail"):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rejects = Rejects(on_error)
    return list(read_trees([str(path)], rejects)), list(rejects)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.mrg"


def good(file, content):
    trees, _ = read(file, content)
    return [(str(t.tree), t.line) for t in trees]


# --- what is no error -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"{A}\n{B}\n", [(A, 1), (B, 2)]),
        (f"{A}\n{B}", [(A, 1), (B, 2)]),  # no final newline
        (f"{A} {B}{C}", [(A, 1), (B, 1), (C, 1)]),
        ("( (S\n    (NP (DT the)\n\n\n (NN dog))\n  (VP (VBZ barks))) )\n\n" + A, [(
            "( (S (NP (DT the) (NN dog)) (VP (VBZ barks))))", 1), (A, 8)]),
        ("(ROOT\n  (S (NN a))\n)(ROOT\n(S (NN b))\n)", [("(ROOT (S (NN a)))", 1), ("(ROOT (S (NN b)))", 3)]),
        (f"{A}\r\n\r\n{B}\r\n", [(A, 1), (B, 3)]),
        (b"\xef\xbb\xbf(S (NN a))\n\xef\xbb\xbf(S (NN b))\n", [(A, 1), (B, 2)]),  # two files with BOM, joined
        ("(\nS\n(\nNN\na\n)\n)", [(A, 1)]),
        ("(S\n\t(NN\x0c\x0b a ) )", [(A, 1)]),
        ("(S(NN a))", [(A, 1)]),
        ("( S ( NN a ) )", [(A, 1)]),
        (f"\n\n \t\n{A}", [(A, 4)]),
        (f"{A}\n\u00a0\n{B}", [(A, 1), (B, 3)]),  # white space of any kind between trees
        ("(S\n(NP (NN a))\n(VP b))\n" + A, [("(S (NP (NN a)) (VP b))", 1), (A, 4)]),  # no indentation
    ],
)  # fmt: skip
def test_layouts(file, content, expected):
    assert good(file, content) == expected


def test_only_ascii_space_splits(file):
    words = ["a\u00a0b", "\u2009c", "d\u200a", "e\u3000f", "g\u2028h", "i\x85j", "k\x1cl"]
    trees, _ = read(file, "(S " + " ".join(f"(NN {word})" for word in words) + ")")
    assert list(trees[0].tree.words) == words


def test_escapes_stay(file):
    trees, _ = read(file, r"(S (-LRB- -LRB-) (CD 1\/2) (NN -LRB-a-RRB-) (SYM <) (SYM []))")
    assert trees[0].tree.words == ("-LRB-", r"1\/2", "-LRB-a-RRB-", "<", "[]")
    assert trees[0].tree.tags[0] == "-LRB-"


def test_source(file):
    content = "( (S\n   (NN a)) ) (S (NN b))\n\n(S (NN c))\n"
    trees, _ = read(file, content)
    assert [t.text for t in trees] == ["( (S\n   (NN a)) )", "(S (NN b))", "(S (NN c))"]
    assert [t.line for t in trees] == [1, 2, 4]
    assert {t.file for t in trees} == {str(file)}


def test_several_files_and_compression(tmp_path):
    plain, packed = tmp_path / "a.mrg", tmp_path / "b.mrg.gz"
    plain.write_text(A)
    packed.write_bytes(gzip.compress(B.encode()))
    trees = list(read_trees([str(plain), str(packed)], Rejects()))
    assert [(str(t.tree), t.file) for t in trees] == [(A, str(plain)), (B, str(packed))]


def test_a_stream_is_read_as_it_comes(file):
    file.write_text(f"{A}\n{B}\n{C}\n" + "(broken\n")
    trees = read_trees([str(file)], Rejects())
    assert [str(next(trees).tree) for _ in range(3)] == [A, B, C]
    with pytest.raises(InputError):
        next(trees)


def test_depth_and_length_do_not_matter(file):
    deep = "(X " * 100_000 + "(NN a)" + ")" * 100_000
    long = "(S " + " ".join(f"(NN w{i})" for i in range(5000)) + ")"
    trees, _ = read(file, f"{deep}\n{long}\n")
    assert [len(t.tree.labels) for t in trees] == [100_000, 1]
    assert len(trees[1].tree) == 5000


# --- what is an error -------------------------------------------------------------------------

LATIN_1 = "not UTF-8 (byte 0xe9) (iconv -f latin1 -t utf-8 converts it, if that is what it is in)"
UNCLOSED, CLOSED, TEXT, NUMBER = (
    "unbalanced brackets: not closed",
    "unbalanced brackets: closed too often",
    "text between trees",
    "a number before the tree: cut -f 2- takes it off",
)


@pytest.mark.parametrize(
    ("content", "line", "noticed", "reason"),
    [
        (f"{A}\n(S (NN b)\n{C}\n", 2, 3, UNCLOSED),
        (f"{A}\n(S (NN b)\n  (NN c)\n", 2, 3, UNCLOSED),
        (f"{A}\n(S (NN b)))\n{C}\n", 2, None, CLOSED),
        (f"{A}\n(S\n (NN b)\n))\n{C}\n", 2, 4, CLOSED),
        (f"{A}\nwords here\n{B}\n", 2, None, TEXT),
        ("The dog (barks).\n", 1, None, TEXT),
        (f"1\t{A}\n2\t{B}\n", 1, None, NUMBER),
        (f"{A}\n 17 {B}\n", 2, None, NUMBER),
        (f"{A} ()\n{B}\n", 1, None, "tree without words"),
        ("(S\n  (NP\n  )\n  (NN a))\n", 1, 3, "constituent without words"),
        (A.encode() + b"\n(S\n (NN caf\xe9))\n", 2, 3, LATIN_1),
        ("", 1, None, "no trees in this file"),
        ("\n \n", 1, None, "no trees in this file"),
    ],
)
def test_fail_says_where(file, content, line, noticed, reason):
    with pytest.raises(InputError) as caught:
        read(file, content)
    assert caught.value.line == line
    assert caught.value.reason == reason
    assert caught.value.file == str(file)
    assert str(caught.value).startswith(f"{file}:{line}: {reason}")
    assert ("noticed" in str(caught.value)) == (noticed is not None)
    if noticed is not None:
        assert f"noticed in line {noticed};" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "kept", "rejected"),
    [
        (f"{A}\n(S (NN x)\n{B}\n{C}\n", [A, B, C], [(2, UNCLOSED, "(S (NN x)")]),
        (f"(S (NN x)\n(S (NN y)\n{B}\n(S\n", [B], [
            (1, UNCLOSED, "(S (NN x)"), (2, UNCLOSED, "(S (NN y)"), (4, UNCLOSED, "(S")]),
        ("( (S\n  (NN x) )\n\n( (S\n  (NN b)) )\n", ["( (S (NN b)))"], [(1, UNCLOSED, "( (S\n  (NN x) )\n")]),
        (f"{A}\n(S (NN x)))\n{C}\n", [A, C], [(2, CLOSED, "(S (NN x)))")]),
        (f"(S (NN x)) (S (NN y))) {B}\n{C}\n", ["(S (NN x))", C], [(1, CLOSED, f"(S (NN y))) {B}")]),
        (f")\n{C}\n", [C], [(1, CLOSED, ")")]),
        (f"{A}\n# see (X (Y z))\n  more\n{C}\n", [A, C], [(2, TEXT, "# see (X (Y z))\n  more")]),
        (f"{A} x\n{C}\n", [A, C], [(1, TEXT, "x")]),
        (f"()\n{A}\n(S (NP) (NN x)) {B}\n", [A, B], [
            (1, "tree without words", "()"), (3, "constituent without words", "(S (NP) (NN x))")]),
        (A.encode() + b"\n(NN caf\xe9)\n(S (NN c))\n", [A, C], [
            (2, LATIN_1, "(NN caf\ufffd)")]),
        # Indented from the first tree on: the next tree is the next bracket in that column.
        (f"  {A}\n  (S (NN x)\n     (NN y)\n  {B}\n", [A, B], [(2, UNCLOSED, "(S (NN x)\n     (NN y)")]),
        # Good trees without indentation: only a blank line shows where the next tree begins.
        ("(S\n(NN a))\n\n(S\n(NN x)\n\n(S\n(NN c))\n", [A, C], [(4, UNCLOSED, "(S\n(NN x)\n")]),
    ],
)  # fmt: skip
def test_skip_goes_on_at_the_next_tree(file, content, kept, rejected):
    trees, records = read(file, content, "skip")
    assert [str(t.tree) for t in trees] == kept
    assert [(r["line"], r["reason"], r["text"]) for r in records] == rejected


def test_skipping_is_linear_in_the_file(file):
    """Many trees that never close: each is left out alone, and none is read again and again."""
    trees, records = read(file, "(S (NN x)\n" * 20_000 + A, "skip")
    assert [str(t.tree) for t in trees] == [A]
    assert [r["line"] for r in records] == list(range(1, 20_001))


def test_a_file_without_trees_does_not_hide_the_next(tmp_path):
    empty, full = tmp_path / "a.mrg", tmp_path / "b.mrg"
    empty.write_text("\n")
    full.write_text(A)
    rejects = Rejects("skip")
    assert len(list(read_trees([str(empty), str(full)], rejects))) == 1
    assert rejects.by_reason() == {"no trees in this file": 1}


def test_damaged_compression_is_never_skipped(tmp_path):
    path = tmp_path / "a.mrg.gz"
    path.write_bytes(gzip.compress(b"(S (NN a))\n" * 5000)[:-20])
    with pytest.raises(InputError, match="damaged"):
        list(read_trees([str(path)], Rejects("skip")))


# --- several trees for each sentence ------------------------------------------------------------

AB, AB_TOO, BC = "(S (X a) (X b))", "(NP (NN a) (NN b))", "(S (X b) (X c))"


def proposals(path: Path, *lines: str) -> list[str]:
    path.write_text("".join(line + "\n" for line in lines))
    return [str(tree) for tree in read_proposals(str(path))]


def test_blocks_of_lines(tmp_path: Path) -> None:
    assert proposals(tmp_path / "blocks", "", AB, AB_TOO, "", " ", BC, "", AB) == [AB, AB_TOO, BC, AB]


def test_lines_with_ids_in_any_order(tmp_path: Path) -> None:
    lines = [f"one\t{AB}", f"2\t{BC}", "", f"one\t{AB_TOO}"]
    assert proposals(tmp_path / "ids", *lines) == [AB, BC, AB_TOO]


def test_a_tab_in_a_tree_is_white_space(tmp_path: Path) -> None:
    assert proposals(tmp_path / "tabs", AB.replace(" ", "\t")) == [AB]


def test_compressed_files(tmp_path: Path) -> None:
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(f"{AB}\n".encode()))
    assert list(read_proposals(str(path))) == [Tree.from_brackets(AB)]


def test_traces_and_escapes_make_no_other_words(tmp_path: Path) -> None:
    lines = [r"(S (-NONE- *) (X 1\/2))", "(S (X 1/2))"]
    assert len(proposals(tmp_path / "words", *lines)) == 2


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ([AB, "the dog"], 2, "not one bracketed tree"),
        ([AB, "(S (X a)"], 2, "unbalanced brackets"),
        ([AB, f"{AB} {AB}"], 2, "not one bracketed tree"),
        ([f"1\t{AB}", "2\t"], 2, "no tree at all"),
        ([AB, BC], 2, "other words than another tree of this block has, in line 1 (blank lines separate"),
        ([f"1\t{AB}", f"2\t{BC}", f"1\t{BC}"], 3, "other words than another tree of the id 1 has, in line 1"),
        ([f"1\t{AB}", AB], 2, "a tree without an id, unlike those before it"),
        ([AB, "", f"1\t{AB}"], 3, "a tree with an id, unlike those before it"),
    ],
)
def test_what_is_refused(tmp_path: Path, lines: list[str], line: int, problem: str) -> None:
    with pytest.raises(InputError) as error:
        proposals(tmp_path / "broken", *lines)
    assert str(error.value).startswith(f"{tmp_path / 'broken'}:{line}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_without_trees(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trees in this file"):
        proposals(tmp_path / "empty", "", "")
