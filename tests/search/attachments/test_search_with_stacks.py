"""Search over models with stack attention: their states are copied, shared and dropped on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from search_oracle import all_attachments, logsumexp, parts, row, tiny_model

from pdtools.models import LoadedModel
from pdtools.search import batches, beam_search
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.options import SearchOptions

STRINGS = [[3, 4, 5, 3], [3, 4, 3], [3, 4, 5], [5], [], [3, 4, 5, 3, 4, 4, 5]]


@pytest.mark.parametrize("settings", [{}, {"norm": "post", "positions": "sincos"}], ids=["pre", "post"])
def test_a_beam_with_all_derivations_is_exact(settings: dict[str, str]) -> None:
    model = tiny_model("pushdown", stack_layers="all", **settings)
    tokens = STRINGS[0]
    derivations = list(all_attachments(len(tokens)))
    joints = sum(part.sum(1) for part in parts(model, tokens, derivations))
    (found,) = beam_search(model, [row(tokens)], search=SearchOptions(beam=len(derivations)))
    assert found.marginal == pytest.approx(logsumexp(joints), rel=2e-6, abs=1e-5)
    assert found.derivations[0][0] == pytest.approx(max(joints), rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("as_released", [False, True])
def test_strings_read_token_by_token_are_those_of_one_pass(as_released: bool) -> None:
    model = tiny_model("transformer", stack_layers="all", as_released=as_released)
    loaded = LoadedModel(model, None, {}, Path())  # type: ignore[arg-type]
    rows = [row(tokens) for tokens in STRINGS]
    shared, alone = (string_logprobs(loaded, rows, share_prefixes=share) for share in (True, False))
    for one, other in zip(shared, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-5)


def test_what_a_state_takes_grows_with_the_length_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("pushdown", stack_layers="all")
    monkeypatch.setattr(batches, "CPU_BUDGET", 1 << 20)
    few, many = batches.entries_that_fit(model, 1000), batches.entries_that_fit(model, 10)
    assert few < many / 5
    assert model.start(1, 1000, entries=few).nbytes <= 1 << 20
