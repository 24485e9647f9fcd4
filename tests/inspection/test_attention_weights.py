"""Attention weights: what the models compute with, with every kernel; and without a term, a zero of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from action_oracle import action_model
from search_oracle import row, tiny_model
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.inspection.attention import attention_weights, score_terms
from pdtools.models import Batch, LanguageModel
from pdtools.models.transformer.block import Attention
from pdtools.models.transformer.score_terms import DepthScores
from pdtools.trees import Constituents

TOKENS, ATTACH = [3, 4, 5, 3, 4], [0, 1, 1, 3, 3, 1, 0]
STRINGS: dict[str, dict[str, Any]] = {
    "figure 7": {"name": "pushdown"},
    "equation 6": {"name": "pushdown", "depth_space": "hidden", "positions": "learned"},
    "last layer": {"name": "pushdown", "depths": 2, "pushdown_layers": "last 1"},
    "stack distances": {"name": "pushdown", "positions": "alibi", "stack_distances": True},
    "base": {"name": "transformer"},
    "rotary": {"name": "transformer", "positions": "rotary"},
    "windows": {"name": "pushdown", "layout": "window"},
}
ACTIONS = [("tg", "relative"), ("plm", "alibi"), ("plm-mask", "learned")]
TREE = Constituents(*(np.array(each, np.int32) for each in ([0, 1, 0], [2, 0, 0, 1, 0], [0, 1, 0, 0, 2])))


def string_batch(model: LanguageModel) -> Batch:
    """Two rows, so that there is padding."""
    return model.pack([(row(TOKENS), np.array(ATTACH)), (row([5, 5]), np.array([0, 1, 2, 0]))])


def cases() -> list[tuple[LanguageModel, Batch]]:
    strings = [tiny_model(**settings) for settings in STRINGS.values()]
    actions = [action_model(name, positions) for name, positions in ACTIONS]
    found = [(model, string_batch(model)) for model in strings]
    return found + [(model, model.pack([(row(TOKENS), TREE)])) for model in actions]


@pytest.fixture(scope="module", params=range(len(STRINGS) + len(ACTIONS)))
def case(request: pytest.FixtureRequest) -> tuple[LanguageModel, Batch]:
    return cases()[request.param]


def test_a_models_outputs_are_made_of_its_weights(case: tuple[LanguageModel, Batch]) -> None:
    model, batch = case
    seen: list[tuple[Attention, Tensor, Tensor]] = []

    def keep(module: Any, given: tuple[Any, ...], made: Tensor) -> None:
        seen.append((module, given[0], made))

    layers = [block.attention for block in model.blocks]  # type: ignore[union-attr, attr-defined]
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    found = attention_weights(model, batch).weights.detach()  # (B, L, H, N, N)
    for hook in hooks:
        hook.remove()

    b, n = batch.tokens.shape
    assert found.shape == (b, len(layers), layers[0].heads, n, n)
    torch.testing.assert_close(found.sum(4), torch.ones(found.shape[:4]))
    assert (found.triu(1) == 0).all()
    for layer, (module, x, made) in enumerate(seen):
        v = module.qkv(x).chunk(3, dim=2)[2].view(b, n, module.heads, -1).transpose(1, 2)
        again = module.output((found[:, layer] @ v).transpose(1, 2).reshape(x.shape))
        for at, length in enumerate(batch.lengths.tolist()):
            torch.testing.assert_close(again[at, :length], made[at, :length], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["figure 7", "equation 6", "last layer", "stack distances"])
def test_without_depths_is_with_a_table_of_zeros(name: str) -> None:
    """Layer by layer: what a layer reads is still what the whole model makes."""
    model = tiny_model(**STRINGS[name])
    batch = string_batch(model)
    found = attention_weights(model, batch, ["depth"])
    assert score_terms(model)[-1 if "distances" not in name else -2] == "depth"
    for layer, block in enumerate(model.blocks):  # type: ignore[arg-type]
        tables = [term.embedding.weight for term in block.attention.terms if isinstance(term, DepthScores)]
        kept = [table.detach().clone() for table in tables]
        with torch.no_grad():
            for table in tables:
                table.zero_()
            zeroed = attention_weights(model, batch).weights[:, layer]
            for table, values in zip(tables, kept, strict=True):
                table.copy_(values)
        torch.testing.assert_close(found.without["depth"][:, layer], zeroed)
        changes = (found.weights[:, layer] - zeroed).abs().max() > 1e-3
        assert changes == bool(tables)


def test_grammars_see_what_their_masks_let_them() -> None:
    """A Transformer Grammar's relative depths are a term too; without it the mask is the same."""
    model = action_model("tg", "relative")
    batch = model.pack([(row(TOKENS), TREE)])
    found = attention_weights(model, batch, ["depth-difference"])
    without = found.without["depth-difference"]
    assert ((found.weights == 0) == (without == 0)).all()
    assert (found.weights - without).abs().max() > 1e-3


def test_what_is_not_there_is_refused() -> None:
    model = tiny_model("transformer")
    with pytest.raises(PdtoolsError, match="no score term 'depth'; its terms: distance"):
        attention_weights(model, string_batch(model), ["depth"])
