"""Files of trees as they should not be, but are, by hypothesis; and their trees, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from pdtools.files import Rejects
from pdtools.trees import SourcedTree, TreeArrays, cut_chunks, in_order, parse_chunk
from pdtools.trees.chunks import CHUNK_BYTES, FileChunk
from pdtools.trees.tree import Factor

SPACES = st.sampled_from([" ", " ", " ", "  ", "\n", "\n  ", "\r\n", "\t", "\n\n", "\x0c"])
WORDS = st.sampled_from(
    ["a", "*T*-1", "-NONE-", "|<", "é|<x>", "a\u00a0b", "\u2009", "-LRB-", "\\/", "0", "\ufffd", "a-RSB-\\*"]
)
# X and XX: labels that pdtools parse writes for sentences without a parse.
LABELS = st.sampled_from(
    [
        "S",
        "NP-SBJ-1",
        "ADVP|PRT",
        "S+VP-TPC",
        "A|B+",
        "VP|<NP-PP>",
        "|<>",
        "X|<a",
        "X|<Y>b",
        "ROOT",
        "-NONE-",
        "-NONE-x",
        "é",
        "X",
        "X",
    ]
)
TAGS = st.sampled_from(
    ["NN", "-", "-NONE-", "-NONE-", "-NONE-1", "-NON", "-NONE", "X|<Y>", "XX", "XX", "XX-1", "|XX", "é"]
)
LEAVES = st.builds("({}{}{}{})".format, TAGS, SPACES, WORDS, st.sampled_from(["", "", " ", "\n "]))


def constituent(label: str, space: str, children: list[str]) -> str:
    """Children in brackets."""
    return f"({label}{space}" + space.join(children) + ")"


TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        constituent, st.one_of(st.just(""), LABELS, LABELS), SPACES, st.lists(inner, min_size=1, max_size=4)
    ),
    max_leaves=14,
)
FILES = st.builds(
    lambda trees, gap, end: (gap.join(trees) + end).encode(),
    st.lists(TREES, min_size=1, max_size=5),
    SPACES,
    st.sampled_from(["", "\n"]),
)
BRACKETS = [b"(", b"(", b"(", b")", b")", b")", b" ", b"\n", b"\r\n", b"(NN a)", b"\n(S (NN a))\n"]
BRACKETS += [b"(NP *", b"(C 0)", b"(-DFL- ", b"\n( ID a)", b"(CODE\n"]
TEXTS = [b"\xc3", b"\xa9", b"\xef\xbb\xbf", b"-NONE-", b"S", b"w", b"|<", b">", b"\x85", b"\x00", b"\xc2\xa0"]
CHUNKS = st.sampled_from([*BRACKETS, *BRACKETS, *TEXTS])
SOUP = st.lists(CHUNKS, max_size=30).map(b"".join)


def read_arrays(
    files: Iterable[str], rejects: Rejects, factor: Factor = "right", *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[TreeArrays | SourcedTree]:
    """The trees of files in order, as arrays; those of a file's rest that is not ordinary, one by one."""

    def parse(chunk: FileChunk) -> TreeArrays | None:
        return parse_chunk(chunk, factor)

    chunks = cut_chunks(files, chunk_bytes)
    yield from in_order(((chunk, parse(chunk)) for chunk in chunks), parse, rejects)
