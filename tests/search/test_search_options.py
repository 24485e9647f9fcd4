"""What is asked of a search: what goes together, and what it is to each kind of derivation and to jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.options import RunOptions
from pdtools.errors import PdtoolsError
from pdtools.search.options import (
    AUTO,
    AUTO_SEARCH,
    DEFAULT_SEARCH,
    NO_SEARCH,
    SearchOptions,
    TreesFile,
)

TREES = TreesFile("some.trees", "0123")


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"trees": TREES, "beam": 5}, "with --trees there is no search: leave out --beam$"),
        ({"trees": TREES, "beam": AUTO}, "leave out --beam$"),
        ({"trees": TREES, "margin": 0.0, "fast_track": 0}, "leave out --margin, --search fast_track$"),
        ({"beam": AUTO, "margin": 3.0}, "--beam auto chooses margins itself"),
        ({"beam": AUTO, "word_beam": 3}, "--beam auto is not for action models"),
        ({"beam": AUTO, "fast_track": 0}, "--beam auto is not for action models"),
        ({"beam": 5, "word_beam": 6}, "a word beam of 6 is more than the action beam of 5"),
    ],
)
def test_what_does_not_go_together(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        SearchOptions(**asked)


def test_what_it_is_to_each_kind() -> None:
    asked = SearchOptions(beam=40, margin=2.0)
    of_all = {"beam": 40, "margin": 2.0}
    assert asked.described(has_widths=False) == of_all
    assert asked.described(has_widths=True) == {**of_all, "word_beam": 4, "fast_track": 2}
    wide = SearchOptions(beam=40, word_beam=30, fast_track=0)
    of_actions = {"beam": 40, "margin": None, "word_beam": 30, "fast_track": 0}
    assert wide.described(has_widths=True) == of_actions
    for no_beam in (NO_SEARCH, replace(wide, beam=None)):
        assert no_beam.described(has_widths=True) == {"beam": None, "margin": None}
    with pytest.raises(PdtoolsError, match="are for action models: leave them out"):
        wide.check_one_width()
    with pytest.raises(PdtoolsError, match="works only for eval-blimp"):
        AUTO_SEARCH.check_number()


@pytest.mark.parametrize("beam", [1, 9, 10, 19, 20, 47, 100, 300])
@pytest.mark.parametrize("word_beam", [None, 1])
@pytest.mark.parametrize("fast_track", [None, 0, 3])
def test_any_width_that_is_not_given_is_a_share_of_the_beam(
    beam: int, word_beam: int | None, fast_track: int | None
) -> None:
    """A tenth, one at least, and a twentieth, whatever the other is."""
    found = SearchOptions(beam=beam, word_beam=word_beam, fast_track=fast_track).described(has_widths=True)
    words = word_beam or max(1, len(range(10, beam + 1, 10)))
    fast = len(range(20, beam + 1, 20)) if fast_track is None else fast_track
    assert found == {"beam": beam, "margin": None, "word_beam": words, "fast_track": fast}


def test_widths_and_margins_that_no_search_has() -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(PdtoolsError, match="margin must be at least 0"):
            SearchOptions(beam=3, margin=wrong)
    with pytest.raises(PdtoolsError, match="at least 1, not 0"):
        SearchOptions(beam=0)


def test_what_is_given() -> None:
    assert (
        DEFAULT_SEARCH.given
        == NO_SEARCH.given
        == SearchOptions(trees=TREES, cky=True, max_batch=2).given
        == []
    )
    assert SearchOptions(beam=99, margin=0.0, word_beam=9, fast_track=0).given == [
        *("--beam", "--margin", "--search word_beam", "--search fast_track")
    ]


def test_jobs_have_flat_names() -> None:
    asked = {"beam": 5, "margin": 2.0, "word_beam": 3, "fast_track": None, "cky": True}
    assert SearchOptions(**asked, max_batch=7).for_job() == asked  # type: ignore[arg-type]
    assert SearchOptions(trees=TREES).for_job() == {
        **{"beam": 100, "margin": None, "word_beam": None, "fast_track": None, "cky": False},
        "trees": TREES.sha256,
    }


def test_what_the_command_line_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.trees").write_text("(S (X a))\n")
    monkeypatch.chdir(tmp_path)
    run = RunOptions(trees="some.trees", search_settings=["max_batch=3"])
    assert run.search == SearchOptions(trees=TreesFile.of("some.trees"), max_batch=3)
    assert run.search is run.search  # the file is read once
    # Workers of a cluster are in other folders.
    elsewhere = replace(run, scheduler="tcp://somewhere:1").search.trees
    assert elsewhere is not None
    assert elsewhere.path == str(tmp_path / "some.trees")
    wide = RunOptions(beam=7, margin=1.0, search_settings=["word_beam=3", "fast_track=2"])
    assert wide.search == SearchOptions(beam=7, margin=1.0, word_beam=3, fast_track=2)
