"""Whether two results may stand side by side."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.parsing.evaluate import evaluate_parse
from pdtools.evaluation.parsing.prm import COMMON, Parameters

OF_MODEL = {
    "kind": "derivation",
    "model": "pushdown",
    "bos": True,
    "eos": True,
    "text_style": "ptb",
    "dtype": "float32",
    "beam": 10,
}


def document(task: str = "blimp", **changes: Any) -> dict[str, Any]:
    """Results of a task, with other settings, of the model or of the evaluation."""
    of_model = {name: changes.pop(name, value) for name, value in OF_MODEL.items()}
    return {
        "settings": {"task": task, "limit": None, "log_base": "nats", **of_model, **changes},
        "provenance": {},
    }


def notes(a: Any, b: Any) -> list[str]:
    """How the settings of two results differ."""
    return list(comparability(a, b)[1].values())


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
        ({"warning": "never trained"}, "warning: none and never trained"),
        # If only one has them, these differ.
        ({"streams": 4}, "streams: each row by itself and 4"),
        *(({name: 4}, f"{name.replace('_', ' ')}: none and 4") for name in ("given_trees", "context")),
        *(({name: 4}, f"{name.replace('_', ' ')}: none and 4") for name in ("context_parses", "window")),
        ({"stride": 4}, "stride: none and 4"),
    ],
)
def test_settings_that_change_the_scores_are_named(changes: dict[str, Any], note: str) -> None:
    assert comparability(document(), document(**changes))[0] is None
    assert notes(document(), document(**changes)) == [note]
    assert len(notes(document(**changes), document())) == 1


SAME = [
    (document(), document()),
    (document(), document(kind="string", model="transformer", beam=None)),  # exact: needs no beam
    (document("sg"), document("sg", eos=False)),  # end-of-sentence is in no region
    (document("ppl"), document("ppl", eos=False)),  # has scores with and without it
    (document(), {"settings": {"task": "blimp"}}),  # which are not known
    (document(other=4), document()),
    (document(margin=1), document(margin=2, beam=None)),  # margins are of models that are searched
    (document(eos=None), document()),
    *(
        (document(**{name: "a"}), document(**{name: "b"}))
        for name in (
            *("model", "models", "kind", "words", "marginal", "given_trees_used", "alignment", "objective"),
            *("unit_of_file", "max_error", "bootstrap_samples", "seed"),
        )
    ),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_makes_no_difference_is_not_named(a: dict[str, Any], b: dict[str, Any]) -> None:
    for one, other in ((a, b), (b, a)):
        assert comparability(one, other) == (None, {})


def of_trees(sha256: str | None) -> dict[str, Any]:
    gold = {"path": f"{sha256}.trees"} | ({"sha256": sha256} if sha256 else {})
    inputs = {"gold": gold, "predicted": {"path": "p", "sha256": f"of {sha256}"}}
    return {"settings": {"task": "parse"}, "provenance": {"inputs": inputs}}


def of_sets(**others: str) -> dict[str, Any]:
    hashes = {"model": "any", "first": "1", "second": "2", "third": "3", **others}
    inputs = {name: {"path": name, "sha256": found} for name, found in hashes.items()}
    return {"settings": {"task": "dyck"}, "provenance": {"inputs": inputs}}


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (document(), document("sg"), "another evaluation"),
        (document("ppl", text_sha256="1"), document("sg", text_sha256="2"), "another evaluation"),
        (document("ppl", text_sha256="1"), document("ppl", text_sha256="2"), "other sentences"),
        (document("ppl", text_sha256="1"), document("ppl", text_sha256="1"), None),
        (document("ppl", text_sha256="1"), document("ppl"), None),  # not known
        (document("cfl", language={"grammar": "a"}), document("cfl"), "another language"),  # one has none
        (document("cfl"), document("cfl", language={"grammar": "a"}), "another language"),
        (of_trees("a"), of_trees("b"), "other data (b.trees, not a.trees)"),
        (of_trees("a"), of_trees("a"), None),
        (of_trees("a"), of_trees(None), None),
        (of_sets(), of_sets(model="another"), None),
        *(
            (of_sets(), of_sets(**{n: "x"}), f"other data ({n}, not {n})")
            for n in ("first", "second", "third")
        ),
    ],
)
def test_results_of_other_data_are_refused(a: Any, b: Any, reason: str | None) -> None:
    assert comparability(a, b)[0] == reason


def parsed(parameters: Parameters) -> dict[str, Any]:
    """Results of eval-parse on one tree."""
    with tempfile.TemporaryDirectory() as folder:
        trees = Path(folder) / "some.trees"
        trees.write_text("(TOP (S (NP (D the) (N dog)) (VP (V barks))))\n")
        return evaluate_parse(trees, trees, parameters).document({})


def test_other_parameter_files_are_named_by_what_differs_in_them() -> None:
    default = parsed(COMMON)
    assert notes(default, parsed(replace(COMMON, max_error=500))) == []  # of EVALB's table only
    other = replace(
        COMMON,
        cutoff_len=10,
        delete_labels=COMMON.delete_labels - {"TOP"} | {"NP"},
        quote_labels=frozenset({"POS"}),
        equal_labels=frozenset({("ADVP", "PRT"), ("A", "B")}),
    )
    assert sorted(notes(default, parsed(other))) == [
        "delete labels, besides those of both: TOP and NP",
        "equal labels, besides those of both: none and A=B",
        "length limit: 40 and 10",
        "quote labels, besides those of both: none and POS",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["inputs", "gold", "sha256", "path", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
SETTINGS = st.dictionaries(st.sampled_from(["beam", "limit", "delete_labels", "language", "x"]), JSON)


@given(SETTINGS, SETTINGS, JSON, JSON)
@settings(max_examples=80, deadline=None)
def test_settings_and_provenance_may_have_any_shape(one: Any, other: Any, made: Any, made_too: Any) -> None:
    a = {"settings": {**one, "task": "parse"}, "provenance": made}
    b = {"settings": {**other, "task": "parse"}, "provenance": made_too}
    assert notes(a, a) == []
    assert len(notes(a, b)) == len(notes(b, a))
