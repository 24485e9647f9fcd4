"""Traces of models of arc-standard actions: arcs of the beam, and attention to the best derivation."""

from __future__ import annotations

import numpy as np
import pytest
from arc_oracle import arc_model
from toy_models import loaded

from pdtools.inspection.attention import attention_weights
from pdtools.inspection.derivation_views import view_of
from pdtools.inspection.trace import Trace
from pdtools.inspection.tracing import trace, unpack_weights
from pdtools.models import LoadedModel
from pdtools.search.model import Model
from pdtools.search.options import SearchOptions

TEXT = "a b c a"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded("dtg", arc_model(words=3))


@pytest.fixture(scope="module")
def found(model: LoadedModel) -> Trace:
    return trace(model, TEXT, SearchOptions(beam=100), hypotheses=4)


def test_arcs_of_the_beam(found: Trace, model: LoadedModel) -> None:
    (result,) = Model.of(model, SearchOptions(beam=100)).trace([TEXT], hypotheses=4)
    steps = result.result.steps  # type: ignore[union-attr]
    assert found.derivations == "arcs"
    assert len(found.steps) == len(steps) == 5
    for position, (step, own) in enumerate(zip(found.steps, steps, strict=True), start=1):
        assert sum(each.share for each in step.hypotheses) + step.rest == pytest.approx(1, rel=2e-6, abs=1e-6)
        for hypothesis, derivation in zip(step.hypotheses, own.derivations, strict=True):
            arcs = [each for each in hypothesis.derivation if not str(each).startswith("0-")]
            assert len(arcs) == derivation.arcs.sum()
            assert all(max(map(int, str(each).split("-"))) <= position for each in arcs)
            assert len(hypothesis.derivation) - len(arcs) == (position >= 4 and len(arcs) == 3)
    assert found.best is not None
    made = [str(each).split("-") for each in found.best.derivation or ()]
    assert sorted(dependent for _, dependent in made) == ["1", "2", "3", "4"]
    assert [head for head, _ in made].count("0") == 1


def test_attention_to_the_best_derivation(found: Trace, model: LoadedModel) -> None:
    attention = found.attention
    assert attention is not None
    names = [each for each in attention.positions if isinstance(each, str)]
    assert [each for each in attention.positions if not isinstance(each, str)] == [0, 1, 2, 3, 4]
    assert len(names) == 2 * 3 + 1
    assert all(first + "'" == second for first, second in zip(names[:-1:2], names[1::2], strict=True))
    (result,) = Model.of(model, SearchOptions(beam=100)).trace([TEXT], hypotheses=0)
    batch = model.model.pack([(result.encoded.ids, result.result.derivations[0][1])])  # type: ignore[union-attr]
    wanted = attention_weights(model.model, batch).weights[0].detach().numpy()
    weights = unpack_weights(attention.weights, attention.layers, attention.heads)
    np.testing.assert_allclose(weights, wanted, atol=0.01)


def test_what_is_read_before_a_token(model: LoadedModel) -> None:
    """The last token is read with no arc after it; the rows before it are those of the best hypothesis."""
    (result,) = Model.of(model, SearchOptions(beam=100)).trace([TEXT], hypotheses=0)
    ids, incremental = result.encoded.ids, result.result.incremental  # type: ignore[union-attr]
    view = view_of(model.model)
    whole = result.result.derivations[0][1]  # type: ignore[union-attr]
    assert view.beginning(ids, 2, whole) == (ids, whole)  # of a whole sentence: what comes later is not seen
    for token in range(1, 5):
        row = view.beginning(ids, token, incremental)
        batch = model.model.pack([row])
        places = view.places(batch.tokens[0].numpy(), model.model.vocab_size)
        assert batch.tokens[0, places].tolist() == ids[: token + 1].tolist()
        assert int(batch.lengths[0]) == 2 + token + 2 * int(row[1].arcs.sum())
