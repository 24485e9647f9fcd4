"""Between numpy and Arrow: the same as by pyarrow's own conversions, and without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools import data
from pdtools.files.arrow import arrow_array, join_lists, list_of_words, numpy_array, string_array

NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)
WORDS = st.lists(st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1))


@given(values=NUMBERS, dtype=st.sampled_from([np.int32, np.int64]), cut=st.integers(0, 20))
def test_numbers(values: list[int], dtype: type[np.signedinteger], cut: int) -> None:
    ours = arrow_array(np.array(values, dtype))
    assert ours.equals(pa.array(np.array(values, dtype)))
    assert numpy_array(ours[cut:], dtype).tolist() == values[cut:]
    both = pa.chunked_array([ours[cut:], ours[:cut]])
    assert numpy_array(both, dtype).tolist() == values[cut:] + values[:cut]


@pytest.mark.parametrize("every", [1, 2])
def test_numbers_that_are_apart(every: int) -> None:
    assert arrow_array(np.arange(10, dtype=np.int32)[::every]).to_pylist() == list(range(0, 10, every))


@given(values=st.lists(st.booleans(), max_size=20))
def test_bools(values: list[bool]) -> None:
    assert arrow_array(np.array(values, dtype=bool)).to_pylist() == values


@given(words=WORDS, cut=st.integers(0, 9))
def test_words(words: list[str], cut: int) -> None:
    ours = string_array(words)
    assert ours.equals(pa.array(words, pa.string()))
    assert list_of_words(ours[cut:]) == words[cut:]
    cut = min(cut, len(words))
    joined = join_lists(ours, np.array([0, cut, len(words)], np.int32))
    assert joined.to_pylist() == [" ".join(words[:cut]), " ".join(words[cut:])]


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_tapes_load_no_pandas(tokenizer: str, tmp_path: Path) -> None:
    program = (
        "import sys; from pdtools.cli.main import run; code = run(sys.argv[1:]);"
        "sys.exit(code or ', '.join({'pandas', 'torch', 'nltk'} & set(sys.modules)) or 0)"
    )
    arguments = ["tapes", str(data.treebank("test")), "-o", str(tmp_path / "s"), "--tokenizer", tokenizer]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--quiet"], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
