"""benchmarks/agreement.py: what it prints, what it skips, and that it can fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def agreement() -> Any:
    import agreement

    return agreement


def test_sums_over_derivations_agree_and_are_in_the_notebook(agreement: Any) -> None:
    lines = list(agreement.exhaustive())
    documented = (REPOSITORY / "benchmarks" / "measured.md").read_text()
    for line in lines:
        assert line["difference"] <= line["allowed"]
        assert f"| {line['name']} | {line['peer']} |" in documented
    assert len(lines) == 4


def test_the_perplexity_without_a_tape_is_the_exponential_of_the_loss(agreement: Any, tmp_path: Path) -> None:
    from peers import base_perplexity

    lines = list(base_perplexity(tmp_path))
    assert [line["difference"] <= line["allowed"] for line in lines] == [True, True]
    assert lines[0]["ours"] > 1


def test_published_scores_agree_and_are_in_the_notebook(agreement: Any, test_data: Path) -> None:
    lines = [*agreement.evalb(), *agreement.sg_published()]
    documented = (REPOSITORY / "benchmarks" / "measured.md").read_text()
    for line in lines:
        assert line["difference"] <= line["allowed"], line
        assert agreement.table_row(line) in documented
    assert {line["compared"] for line in lines} >= {640, 496, 96, 16}


@pytest.mark.parametrize(("difference", "status"), [(0.5, 0), (1.5, 1)])
def test_the_exit_status_says_whether_all_agree(
    agreement: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    difference: float,
    status: int,
) -> None:
    def comparison(folder: Path) -> Iterator[dict[str, Any]]:
        yield {"name": "one", "difference": difference, "allowed": 1.0}
        yield {"name": "two", "skipped": "not here"}

    monkeypatch.setattr(agreement, "COMPARISONS", (("it", comparison),))
    monkeypatch.setattr(sys, "argv", ["agreement.py"])
    assert agreement.main() == status
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == ["one", "two"]
