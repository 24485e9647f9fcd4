"""Whether two results may stand side by side."""

from __future__ import annotations

from typing import Any

import pytest

from pdtools.evaluation.comparability import comparability

SCORER = {
    "kind": "derivation",
    "model": "pushdown",
    "bos": True,
    "eos": True,
    "text_style": "ptb",
    "dtype": "float32",
    "beam": 10,
}


def document(task: str = "blimp", **changes: Any) -> dict[str, Any]:
    """Results of a task, with other settings, of the scorer or of the evaluation."""
    scorer = {name: changes.pop(name, value) for name, value in SCORER.items()}
    settings = {"task": task, "limit": None, "log_base": "nats", "scorer": scorer, **changes}
    return {"settings": settings, "provenance": {}}


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"beam": 300}, "beam: 10 and 300"),
        ({"text_style": "raw"}, "text style: ptb and raw"),
        ({"text_style": None}, "text style: ptb and as given"),
        ({"eos": False}, "end-of-sentence counted: yes and no"),
        ({"bos": False}, "beginning-of-sentence read first: yes and no"),
        ({"dtype": "bfloat16"}, "type of the weights: float32 and bfloat16"),
        ({"limit": 50}, "most pairs or prefixes: all and 50"),
        ({"log_base": "bits"}, "log base: nats and bits"),
        ({"streams": 4}, "streams: each row by itself and 4"),
    ],
)
def test_settings_that_change_the_scores_are_named(changes: dict[str, Any], note: str) -> None:
    found = comparability(document(), document(**changes))
    assert (found.refused, found.notes) == (None, [note])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (document(), document()),
        (document(), document(kind="string", model="transformer", beam=None)),  # exact: needs no beam
        (document("sg"), document("sg", eos=False)),  # end-of-sentence is in no region
        (document("ppl"), document("ppl", eos=False)),  # has scores with and without it
        (document(), {"settings": {"task": "blimp"}}),  # of an earlier version
        # Earlier versions named the base of what the scorer hands over.
        (
            document("sg", log_base="bits"),
            {"settings": {"task": "sg", "surprisals": "bits", "scorer": {**SCORER, "log_base": "nats"}}},
        ),
    ],
)
def test_what_makes_no_difference_is_not_named(a: dict[str, Any], b: dict[str, Any]) -> None:
    for one, other in ((a, b), (b, a)):
        found = comparability(one, other)
        assert (found.refused, found.notes) == (None, [])


def of_trees(sha256: str | None) -> dict[str, Any]:
    gold = {"path": f"{sha256}.trees"} | ({"sha256": sha256} if sha256 else {})
    inputs = {"gold": gold, "predicted": {"path": "p", "sha256": f"of {sha256}"}}
    return {"settings": {"task": "parse"}, "provenance": {"inputs": inputs}}


def test_results_of_other_data_are_refused() -> None:
    assert comparability(document(), document("sg")).refused == "another evaluation"
    one, two = (document("ppl", text_sha256=name) for name in "12")
    assert comparability(one, two).refused == "other sentences"
    assert comparability(one, one).refused is None
    assert comparability(one, document("ppl")).refused is None  # not known
    assert comparability(of_trees("a"), of_trees("b")).refused == "other data (b.trees, not a.trees)"
    for same in ("a", None):
        assert comparability(of_trees("a"), of_trees(same)).refused is None
