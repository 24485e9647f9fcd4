"""What a paper has to say of scores, and the foot of a page: of results that were made in different ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from node_pages import MADE, evaluate, needs_node
from view_pages import random_trace

from pdtools.report.view.loaded import Loaded, short_names
from pdtools.report.view.methods import methods, methods_of_traces
from pdtools.report.view.page import Page, render
from pdtools.report.view.sentences import sentences_page


def loaded(model: str, task: str, settings: dict[str, Any], inputs: dict[str, Any], **made: Any) -> Loaded:
    document = {"settings": {"task": task, **settings}, "provenance": {"inputs": inputs, **made}}
    return Loaded(model=model, task=task, folder=Path("x"), document=document, items=pa.table({}))


def digest(begins: str) -> str:
    return begins.ljust(64, "f")


NEW = {
    "code": {"version": "0.3", "commit": "0123456789abcdef", "modified": True},
    "versions": {"torch": "2.13.0", "pdtools": "0.2"},
}
OLD = {"code": {"version": "0.2", "commit": "fedcba9876543210", "modified": False}}


def test_methods_of_results() -> None:
    weights = {"config.json": digest("99"), "model.safetensors": digest("abcdef0123456789")}
    some = [
        loaded(
            "big",
            "blimp",
            {"kind": "derivation", "beam": 10, "margin": 2.5},
            {
                "model": {"path": "runs/big", "sha256": weights},
                "data": {"sha256": digest("0d0e0f010203dead")},
                "trees": {"path": "no digest"},
            },
            **NEW,
        ),
        loaded("base", "blimp", {}, {"model": {"sha256": digest("123456789abc")}}, **OLD),
        loaded("big", "parse", {"beam": 300}, {"model": {"sha256": {"config.json": digest("77")}}}, **NEW),
        loaded(
            "both",
            "reading",
            {"models": {"m1": {"beam": 10, "margin": 2.5}, "m2": {}}},
            {
                "model m1": {"sha256": digest("aaaa00001111")},
                "model m2": {"sha256": digest("bbbb22223333")},
                "times": {"sha256": digest("cccc44445555")},
            },
            **OLD,
        ),
    ]
    assert methods(some[:2]) == (
        "Scores were computed with pdtools 0.3 (commit 0123456789ab, modified), torch 2.13.0 and"
        " pdtools 0.2 (commit fedcba987654)."
        " Marginal log-probabilities by a beam of 10, margin 2.5 nats: big (BLiMP);"
        " log-probabilities of strings, without search: base (BLiMP)."
        " Model weights (SHA-256): big abcdef012345, base 123456789abc."
        " Data (SHA-256): BLiMP 0d0e0f010203."
    )
    assert methods(some[2:]) == (
        "Scores were computed with pdtools 0.3 (commit 0123456789ab, modified), torch 2.13.0 and"
        " pdtools 0.2 (commit fedcba987654)."
        " Marginal log-probabilities by a beam of 300: big (parsing);"
        " marginal log-probabilities by a beam of 10, margin 2.5 nats: m1 (reading times);"
        " log-probabilities of strings, without search: m2 (reading times)."
        " Model weights (SHA-256): m1 aaaa00001111, m2 bbbb22223333."
        " Data (SHA-256): reading times cccc44445555."
    )


def test_methods_of_traces() -> None:
    made = {
        **OLD,
        "inputs": {"one": {"sha256": digest("1111aaaa2222")}, "two": {}, "text": {"sha256": digest("ff")}},
    }
    found = methods_of_traces(["one", "two"], [{"beam": 4}, {}], made)
    assert found == (
        "Sentences were read by pdtools 0.2 (commit fedcba987654)."
        " Marginal log-probabilities by a beam of 4: one; log-probabilities of strings, without search: two."
        " Model weights (SHA-256): one 1111aaaa2222."
    )


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/runs/a/blimp", "/runs/b/sg"], ["blimp", "sg"]),
        (["/runs/a/7/best", "/runs/b/7/best", "/runs/b/8/best"], ["a/7", "b/7", "b/8"]),
        (["/x/a/best", "/x/b/c/best"], ["a", "b/c"]),
        (["/x/best", "/x/y/best"], ["best", "y"]),
        (["/a/m", "/a/m", "/b/m"], ["a", "a", "b"]),
        (["/a/b", "/a/a/b"], ["b", "a"]),
    ],
)
def test_names_of_folders(paths: list[str], names: list[str]) -> None:
    found = short_names([Path(path) for path in paths])
    assert [found[Path(path)] for path in paths] == names


@needs_node
def test_the_foot_of_a_page(tmp_path: Path) -> None:
    page = replace(sentences_page([[random_trace(["a"], 0)]], ["A"], MADE), notes=("left out: 3",))

    def opened(page: Page, made: dict[str, Any], program: str) -> Any:
        with patch("pdtools.report.view.page.javascript", return_value=""):
            (tmp_path / "page.html").write_text(render(page, made), "utf-8")
        return evaluate(tmp_path / "page.html", program)

    foot = "return [one('footer p').textContent, all('header p').map((each) => each.textContent)];"
    for made, said in ((NEW, "0.3, commit 0123456789ab (modified)"), (OLD, "0.2, commit fedcba987654")):
        expected = f"Made by pdtools {said}, today. This file needs no network."
        assert opened(page, {**made, "time": "today"}, foot) == [expected, ["left out: 3"]]
