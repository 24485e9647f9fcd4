"""Files that earlier code wrote stay readable, comparable, viewable, resumable and mergeable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run

EARLIER = Path(__file__).parents[1] / "earlier"
INPUTS = Path(__file__).parents[1] / "goldens" / "scores"
CPU = ("--device", "cpu", "--threads", "1", "--quiet")


@pytest.fixture(params=sorted(path.name for path in EARLIER.glob("v*")))
def earlier(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a version wrote, as the working folder."""
    folder = shutil.copytree(INPUTS, tmp_path / "earlier")
    shutil.copytree(EARLIER / request.param, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


def expected(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "expected.json").read_text()))


def assert_same(found: Any, stored: Any) -> None:
    """Equal but for provenance, margins, which came later, and for what other machines round otherwise."""
    if isinstance(stored, dict):
        left_out = {"provenance", "margins", "margin_bits"}
        found, stored = ({k: v for k, v in d.items() if k not in left_out} for d in (found, stored))
        assert found.keys() == stored.keys()
        for key, value in stored.items():
            assert_same(found[key], value)
    elif isinstance(stored, list):
        assert len(found) == len(stored)
        for one, other in zip(found, stored, strict=True):
            assert_same(one, other)
    elif isinstance(stored, float):
        assert found == pytest.approx(stored, rel=1e-5, abs=1e-7)
    else:
        assert found == stored


def test_comparisons(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, stored in expected(earlier)["compare"].items():
        assert run(["compare", f"results/a/{kind}", f"results/b/{kind}", "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]
        found = {
            (score["level"], score["name"], score["score"] if not kind else ""): [
                group["mean"] for group in score["groups"]
            ]
            for score in scores
            if not score["is_margin"] and (kind or score["level"] == "overall")
        }
        main = [each for each in stored.get("scores", []) if each["a"] is not None]
        overall = {("overall", "", each["score"]): [each["a"], each["b"]] for each in main}
        groups = stored.get("groups", [])
        levels = {(each["level"], each["name"], ""): [100 * each["a"], 100 * each["b"]] for each in groups}
        assert_same(found, {**overall, **levels})


def test_pages(earlier: Path) -> None:
    assert run(["view", "trainings/finished", "trainings/stopped", "-o", "runs.html", "--quiet"]) == 0
    for kind in sorted(path.name for path in Path("results/a").iterdir()):
        page = f"{kind}.html"
        assert run(["view", f"results/a/{kind}", f"results/b/{kind}", "-o", page, "--quiet"]) == 0, kind


def test_shards(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "shards/valid", "0"]) == 0
    assert capsys.readouterr().out == expected(earlier)["shown"]
