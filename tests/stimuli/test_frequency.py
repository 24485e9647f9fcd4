"""Tables of counts: shares, spellings that are one word, and what is no count."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pdtools.errors import InputError, PdtoolsError
from pdtools.stimuli.frequency import frequencies_of_file, frequencies_of_wordfreq


def write(folder: Path, *rows: str) -> str:
    (folder / "f.tsv").write_text("".join(f"{row}\n" for row in rows))
    return str(folder / "f.tsv")


def test_shares_of_counts(tmp_path: Path) -> None:
    """Capitals and punctuation at the edges do not count; a header is passed over."""
    share = frequencies_of_file(write(tmp_path, "word\tcount", "The\t3", "the\t1", '"Dogs!"\t4', "don't\t8"))
    assert [share(word) for word in ("the", "THE,", "dogs", "Don't.", "cats")] == [-2, -2, -2, -1, None]


def test_words_of_punctuation_alone_are_themselves(tmp_path: Path) -> None:
    share = frequencies_of_file(write(tmp_path, "--\t1", "&\t2", "...\t4", "a\t1"))
    assert [share(word) for word in ("--", "&", "...", "-", "!")] == [-3, -2, -1, None, None]


def test_counts_may_be_shares_and_far_apart(tmp_path: Path) -> None:
    share = frequencies_of_file(write(tmp_path, "a\t0.75", "b\t0.25", "rare\t5e-324"))
    assert [share(word) for word in ("b", "rare")] == [-2, -1074]
    share = frequencies_of_file(write(tmp_path, *["a\t1e30"] * 3, "b\t1e30", "c\t1e-300"))
    assert share("b") == pytest.approx(-2)
    assert share("c") == pytest.approx(-2 - 330 / 0.30102999566)


@pytest.mark.parametrize(
    "count", ["1e308", "1e31", "inf", "1" + 400 * "0", "0", "-1", "nan", "-1e308", "many", "1e-400"]
)
def test_what_is_no_count(tmp_path: Path, count: str) -> None:
    with pytest.raises(InputError, match=r"f.tsv:2: .* is not a count"):
        frequencies_of_file(write(tmp_path, "a\t1", f"b\t{count}", "c\t1e308"))


def test_lines_without_cells_are_none_and_a_table_has_counts(tmp_path: Path) -> None:
    share = frequencies_of_file(write(tmp_path, "word\tcount", "", "a\t3", "\t", "b\t1"))
    assert share("b") == -2
    for rows in ((), ("word\tcount",), ("", "")):
        with pytest.raises(InputError, match="there is no count in it"):
            frequencies_of_file(write(tmp_path, *rows))
    with pytest.raises(InputError, match=r"f.tsv:2: 3 columns"):
        frequencies_of_file(write(tmp_path, "a\t1", "b\t2\t3"))


def test_words_of_punctuation_are_looked_up_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {"dogs": 0.25, "--": 0.125}
    wordfreq = SimpleNamespace(
        available_languages=lambda: {"en": ""},
        word_frequency=lambda word, language: shares.get(word, 0.0) if language == "en" else 1.0,
    )
    monkeypatch.setitem(sys.modules, "wordfreq", wordfreq)
    share = frequencies_of_wordfreq("en")
    assert [share(word) for word in ("Dogs,", "--", "cats")] == [-2, -3, None]
    with pytest.raises(PdtoolsError, match="--wordfreq xx: wordfreq has no list"):
        frequencies_of_wordfreq("xx")
