"""The benchmark of stack attention: what it runs and prints (tests/models: that its forms agree)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_figures_are_of_each_form_of_the_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import stack_attention
    from measure import Options

    called: dict[str, int] = {}

    def counted(kind: str, form: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def recurrence(actions: Tensor) -> Tensor:
            called[kind] = called.get(kind, 0) + 1
            return form(actions)

        return recurrence

    for kind, form in stack_attention.RECURRENCES.items():
        monkeypatch.setitem(stack_attention.RECURRENCES, kind, counted(kind, form))
    monkeypatch.setattr(stack_attention, "LENGTHS", (3,))
    monkeypatch.setattr(stack_attention, "VANILLA_BARS", {"torch": {3: 1.6}})
    monkeypatch.setattr(stack_attention, "PLAIN_BARS", {3: 1.7})
    figures = list(stack_attention.figures(Options(device="cpu", dtype=torch.float32, threads=1, repeats=1)))
    kinds = (
        ["torch", "plain loop"]
        if stack_attention.stack_library(torch.float32) is None
        else ["torch", "native", "plain loop"]
    )
    assert sorted(called) == sorted(kinds)
    assert len(set(called.values())) == 1  # in all layers, as often
    objectives = [figure.settings["objective"] for figure in figures]
    assert objectives == sorted(objectives, reverse=True)
    masked = [figure for figure in figures if figure.settings["objective"] == "masked"]
    assert len(figures) == 2 * len(masked)
    names = [figure.name.rpartition(", ")[2] for figure in masked]
    assert names == ["vanilla", *kinds, *kinds[:-1]]
    times = dict(zip(names, (figure.value for figure in masked), strict=False))
    for kind, figure in zip(names, masked, strict=True):
        line = json.loads(figure.line())
        if figure.at_least:
            assert (figure.bar, line["ratio"]) == (
                1.7,
                pytest.approx(times["plain loop"] / times[kind], rel=0.01),
            )
        elif kind != "vanilla":
            assert figure.bar == (1.6 if kind == "torch" else None)
            assert line["ratio"] == pytest.approx(times[kind] / times["vanilla"], rel=0.01)
