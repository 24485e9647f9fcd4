"""Fuzz target: bracketed trees. Both readers refuse in the same words, or read the same trees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_treebanks import FILES, SOUP
from trees.test_arrays import assert_same

from fuzz.hostile import broken, fuzz, refusing
from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.jobs import Plan
from pdtools.parsers.in_chunks import convert_in_chunks
from pdtools.parsers.pipeline import ParseCounts, TreeForm
from pdtools.trees import Tree, arrays, reader

CONTENTS = st.one_of(
    FILES.flatmap(broken),
    st.binary(max_size=60),
    st.builds(bytes.__add__, FILES, SOUP),
    st.text(max_size=40).map(lambda text: text.encode("utf-16")),
    st.builds(lambda n, tail: b"(X " * n + b"(NN a)" + tail, st.integers(0, 400), SOUP),
)


@contextmanager
def longest_tree(n_chars: int) -> Iterator[None]:
    """With another limit on the length of a tree."""
    with ExitStack() as stack:
        for module in (arrays, reader):
            stack.enter_context(mock.patch.object(module, "MAX_TREE_CHARS", n_chars))
        yield


@fuzz
@given(
    contents=st.lists(CONTENTS, min_size=1, max_size=2),
    block=st.sampled_from([8, 40, 10**6]),
    limit=st.sampled_from([12, 40, 10**6]),
)
def test_both_readers_agree_on_anything(
    contents: list[bytes], block: int, limit: int, tmp_path: Path
) -> None:
    files = [tmp_path / f"{i}.mrg" for i in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    with longest_tree(limit):
        assert_same(files, chunk_bytes=block)


@fuzz
@given(
    content=CONTENTS, functions=st.sampled_from(["strip", "keep"]), factor=st.sampled_from(["right", "left"])
)
def test_what_parse_writes_is_read_again(content: bytes, functions: str, factor: str, tmp_path: Path) -> None:
    file = tmp_path / "x.mrg"
    file.write_bytes(content)
    form = TreeForm(binarize=factor, functions=functions)  # type: ignore[arg-type]
    with refusing():  # a file that is no text, whatever --on-error says
        rejects, counts = Rejects("skip"), ParseCounts()
        for line in convert_in_chunks([str(file)], form, Plan(), None, rejects=rejects, counts=counts):
            assert len(Tree.from_brackets(line.brackets)) == line.n_words


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.mrg").write_bytes(("0" * 33).encode("utf-16"))
    with pytest.raises(InputError, match="not UTF-8"):
        list(reader.read_trees([str(tmp_path / "x.mrg")], Rejects("skip")))


@fuzz
@given(text=st.one_of(st.text(max_size=60), SOUP.map(lambda data: data.decode("latin-1"))))
def test_one_tree_of_any_text(text: str) -> None:
    with refusing():
        Tree.from_brackets(text)


@pytest.mark.parametrize("data", [b"\x1f\x8b garbage", b"(\xb5/\xfd garbage", b""])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_garbage(data: bytes, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"x.mrg{suffix}"
    file.write_bytes(data)
    with pytest.raises(InputError):
        list(reader.read_trees([str(file)], Rejects()))
