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
    return {
        "settings": {"task": task, "limit": None, "log_base": "nats", "scorer": scorer, **changes},
        "provenance": {},
    }


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
        ({"warning": "never trained"}, "warning: none and never trained"),
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
        (document(), {"settings": {"task": "blimp"}}),  # which are not known
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
    english = document("cfl", language={"grammar": "a"})
    assert comparability(english, document("cfl")).refused == "another language"  # one has none
    assert comparability(document("cfl"), english).refused == "another language"
    assert comparability(of_trees("a"), of_trees("b")).refused == "other data (b.trees, not a.trees)"
    for same in ("a", None):
        assert comparability(of_trees("a"), of_trees(same)).refused is None


def parsed(parameters: Parameters) -> dict[str, Any]:
    """Results of eval-parse on one tree."""
    with tempfile.TemporaryDirectory() as folder:
        trees = Path(folder) / "some.trees"
        trees.write_text("(TOP (S (NP (D the) (N dog)) (VP (V barks))))\n")
        return evaluate_parse(trees, trees, parameters).document({})


def test_other_parameter_files_are_named_by_what_differs_in_them() -> None:
    default = parsed(COMMON)
    assert comparability(default, parsed(replace(COMMON, max_error=500))).notes == []  # of EVALB's table only
    other = replace(
        COMMON,
        cutoff_len=10,
        delete_labels=COMMON.delete_labels - {"TOP"} | {"NP"},
        quote_labels=frozenset({"POS"}),
        equal_labels=frozenset({("ADVP", "PRT"), ("A", "B")}),
    )
    assert sorted(comparability(default, parsed(other)).notes) == [
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
SETTINGS = st.dictionaries(st.sampled_from(["scorer", "limit", "delete_labels", "language", "x"]), JSON)


@given(SETTINGS, SETTINGS, JSON, JSON)
@settings(max_examples=200, deadline=None)
def test_settings_and_provenance_may_have_any_shape(one: Any, other: Any, made: Any, made_too: Any) -> None:
    a = {"settings": {**one, "task": "parse"}, "provenance": made}
    b = {"settings": {**other, "task": "parse"}, "provenance": made_too}
    assert comparability(a, a).notes == []
    assert len(comparability(a, b).notes) == len(comparability(b, a).notes)


@pytest.mark.parametrize("role", ["first", "second", "third"])
def test_one_of_several_inputs_that_differs_is_enough(role: str) -> None:
    def of_sets(**others: str) -> dict[str, Any]:
        hashes = {"model": "any", "first": "1", "second": "2", "third": "3", **others}
        inputs = {name: {"path": name, "sha256": found} for name, found in hashes.items()}
        return {"settings": {"task": "dyck"}, "provenance": {"inputs": inputs}}

    assert comparability(of_sets(), of_sets(model="another")).refused is None
    assert comparability(of_sets(), of_sets(**{role: "x"})).refused == f"other data ({role}, not {role})"


@pytest.mark.parametrize(
    "name", ["streams", "warning", "given_trees", "context", "context_parses", "window", "stride"]
)
def test_settings_that_some_results_have_are_named_where_one_has_them(name: str) -> None:
    for one, other in ((document(), document(**{name: 4})), (document(**{name: 4}), document())):
        (note,) = comparability(one, other).notes
        assert note.startswith(f"{name.replace('_', ' ')}: ")
    assert comparability(document(other=4), document()).notes == []
    assert comparability(document(an_other=4), document(an_other=5)).notes == ["an other: 4 and 5"]


@pytest.mark.parametrize(
    "name",
    [
        *("model", "models", "kind", "words", "marginal", "given_trees_used", "alignment", "objective"),
        *("unit_of_file", "max_error", "bootstrap_samples", "seed"),
    ],
)
def test_descriptions_are_no_differences(name: str) -> None:
    assert comparability(document(**{name: "a"}), document(**{name: "b"})).notes == []


def test_margins_are_of_models_that_are_searched() -> None:
    assert comparability(document(margin=1), document(margin=None)).notes == ["margin: 1 and none"]
    assert comparability(document(margin=1), document(margin=2, beam=None)).notes == []
    assert comparability(document(eos=None), document()).notes == []  # not known


def test_the_first_reason_is_given() -> None:
    one, other = document("ppl", text_sha256="1"), document("sg", text_sha256="2")
    assert comparability(one, other).refused == "another evaluation"
