"""Tree files that would fill the memory: what is given up, where reading goes on, what stays in memory."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_mib
from odd_treebanks import FILES, SOUP, read_arrays

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.trees import Tree, arrays, binarize, chunks, read_trees, reader, transforms
from pdtools.trees.chunks import CHUNK_BYTES, last_tree
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, form, read_block, tiger
from pdtools.trees.reader import MAX_TREE_CHARS, PART_BYTES, read_tree_lines

A, B = "(S (NN a))", "(S (NN b) (NN c))"
XML = '<s id="x"><graph><terminals><t{} pos="T"/></terminals><nonterminals></nonterminals></graph></s>'
SMALLER = 8
LIMIT = MAX_TREE_CHARS // SMALLER


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.mrg"


def found(file: Path) -> tuple[list[str], list[tuple[int, str]]]:
    rejects = Rejects("skip")
    trees = [str(sourced.tree) for sourced in read_trees([str(file)], rejects)]
    assert all(len(record["text"]) <= 1 << 16 for record in rejects)
    return trees, [(record["line"], record["reason"]) for record in rejects]


@pytest.mark.parametrize(
    ("content", "trees", "rejected"),
    [
        ("(" * 2 * LIMIT, [], [(1, reader.TOO_LONG)]),
        (f"{A}\n(NN {'a' * 2 * LIMIT})\n{B}\n", [A, B], [(2, reader.TOO_LONG)]),
        (f"(NN {'a' * LIMIT}) {A}\n{B}", [A, B], [(1, reader.TOO_LONG)]),
        (f"{A}\n(S (NN x)\n" + f"{B}\n" * (LIMIT // 17), None, [(2, reader.TOO_LONG)]),
        ("x" * 5 * LIMIT + f"\n{A}", [A], [(1, "text between trees")]),
        (" " * 5 * LIMIT + A, [A], []),
    ],
    ids=["brackets", "word", "in one part", "unclosed", "text", "blank"],
)
def test_long_trees_are_given_up(
    content: str,
    trees: list[str] | None,
    rejected: list[tuple[int, str]],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a lower limit, and parts and chunks that are as much smaller."""
    for module in (arrays, reader):
        monkeypatch.setattr(module, "MAX_TREE_CHARS", LIMIT)
    monkeypatch.setattr(reader, "_LONGEST_TREE_BYTES", 4 * LIMIT)
    monkeypatch.setattr(reader, "read_tree_lines", lambda name: read_tree_lines(name, PART_BYTES // SMALLER))
    file.write_text(content)
    good, records = found(file)
    assert records == rejected
    assert good == ([A] + [B] * (LIMIT // 17) if trees is None else trees)
    if rejected:
        with pytest.raises(InputError, match=r"x.mrg:\d+: ") as caught:
            list(read_arrays([str(file)], Rejects(), chunk_bytes=CHUNK_BYTES // SMALLER))
        assert caught.value.reason == rejected[0][1]


@pytest.mark.parametrize(
    ("name", "good", "long"),
    [
        ("discbracket", "(S (A 0=a))\n", "(S (A 0=a)\n" + "  (B 1=b)\n" * 99),
        ("discbracket", "(S (A 0=a))\n", "(S (A 0=a)\n" + "  (B 1=b)\n" * 99 + ")\n"),
        ("export", "#BOS 1\na\tA\t--\t--\t0\n#EOS 1\n", "#BOS 2\n" + "a\tA\t--\t--\t0\n" * 99 + "#EOS 2\n"),
        (
            "tiger-xml",
            XML.format(' id="a" word="a"') + "\n",
            XML.format(f' id="{"a" * 400}" word="a"') + "\n",
        ),
    ],
    ids=["unclosed", "closed", "export", "xml"],
)
def test_long_trees_of_other_forms_are_given_up(
    name: str, good: str, long: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (form, tiger):
        monkeypatch.setattr(module, "MAX_TREE_CHARS", 300)
    file.write_text(good + long + good)
    blocks = list(FORMS[name].blocks(str(file)))
    counts = Counter[str]()
    read = [one for block in blocks for one in read_block(FORMS[name], block, ReadOptions(), counts)]
    assert [isinstance(one, ReadTree) for one in read] == [True, False, True]
    assert read[1].reason == form.TOO_LONG  # type: ignore[union-attr]
    assert [block.line for block in blocks] == [1, good.count("\n") + 1, (good + long).count("\n") + 1]
    assert all(len(block.text) <= 300 for block in blocks)


def test_a_tree_at_the_limit_is_read_by_both_readers(file: Path) -> None:
    file.write_text(f"(NN {'a' * (MAX_TREE_CHARS - 5)})")
    assert len(found(file)[0][0]) == MAX_TREE_CHARS
    arrays = [len(item) for item in read_arrays([str(file)], Rejects())]
    assert arrays == [1]


@settings(max_examples=300)
@given(content=st.one_of(FILES, SOUP, st.builds(bytes.__add__, FILES, SOUP)), size=st.integers(1, 40))
def test_lines_in_parts_are_the_lines(
    content: bytes, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Parts, put together, are the lines; and what is read does not depend on where they are cut."""
    file = tmp_path_factory.getbasetemp() / "parts.mrg"
    file.write_bytes(content)
    whole = list(read_tree_lines(str(file)))
    parts = list(read_tree_lines(str(file), size))
    grouped = [list(group) for _, group in itertools.groupby(parts, key=lambda part: part.number)]
    assert [(group[0].number, group[0].follows_blank) for group in grouped] == [
        (line.number, line.follows_blank) for line in whole
    ]
    assert all(part.goes_on == (i > 0) for group in grouped for i, part in enumerate(group))
    for line, group in zip(whole, grouped, strict=True):
        if all(part.fault is None for part in group):
            assert line.fault is None
            assert "".join(part.text for part in group) == line.text
    if all(line.fault is None for line in whole):
        expected = found(file)
        with mock.patch.object(reader, "read_tree_lines", lambda name: read_tree_lines(name, size)):
            assert found(file) == expected


@given(content=st.one_of(FILES, SOUP))
def test_the_last_tree_however_it_is_found(content: bytes) -> None:
    with mock.patch.object(chunks, "_TRIED_ONE_BY_ONE", 0):
        at_once = last_tree(content)
    assert at_once == last_tree(content)


def test_labels_of_binarization_are_bounded(file: Path) -> None:
    wide = Tree.from_brackets("(S" + " (NN a)" * 1000 + ")")
    assert len(binarize(wide).labels) == 999
    with (
        mock.patch.object(transforms, "MAX_LABEL_CHARS", 10_000),
        pytest.raises(InputError, match="too many"),
    ):
        binarize(wide)


def test_one_endless_line_takes_bounded_memory(file: Path) -> None:
    with file.open("wb") as stream:
        for _ in range(64):
            stream.write(b"(X a" * (1 << 18))  # 64 MiB
    peak = peak_mib(["parse", str(file), "--from", "treebank", "-o", str(file.with_name("out"))], 1)
    file.write_text(A)
    usual = peak_mib(["parse", str(file), "--from", "treebank", "-o", str(file.with_name("out"))])
    assert peak < usual + 250  # of which a million open brackets take most


@pytest.mark.parametrize(
    ("command", "n_bytes", "times", "more"),
    # tapes waits for 8,192 sentences
    [(["parse", "--from", "treebank"], 2 << 20, 4, 18), (["tapes"], 8 << 20, 8, 28)],
    ids=["parse", "tapes"],
)
def test_memory_does_not_grow_with_the_corpus(
    command: list[str], n_bytes: int, times: int, more: int, file: Path
) -> None:
    from pdtools import data

    bank = Path(data.treebank("train")).read_bytes()
    peaks = []
    for size in (1, times):
        file.write_bytes(bank * (1 + size * n_bytes // len(bank)))
        output = str(file.with_name(f"out{size}"))
        peaks.append(peak_mib([command[0], str(file), *command[1:], "-o", output]))
    # Twice as much and more, were the text kept (tapes), or the trees made of it (parse).
    assert peaks[1] < peaks[0] + more
