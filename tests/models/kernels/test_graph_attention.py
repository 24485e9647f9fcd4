"""Attention with the three tapes of graphs, in C, against its formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pdtools.models.dependency.model import GraphScores
from pdtools.models.dependency.scorer import VALUES
from pdtools.models.kernels.block_attention import IN_C
from pdtools.models.transformer.backends import BY_TORCH, AttentionWork, backend_of
from pdtools.models.transformer.score_terms import RelativePositions, ScoreInputs

HEADS, D_HEAD, N = 2, 8, 21


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_in_c_it_is_what_the_formula_gives(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, HEADS, N, D_HEAD, dtype=dtype, requires_grad=True) for _ in range(3))
    d_model = HEADS * D_HEAD
    tables = nn.Embedding(3 * VALUES, 5).to(dtype)
    positions, graph = (
        RelativePositions(d_model, HEADS).to(dtype),
        GraphScores(d_model, HEADS, tables).to(dtype),
    )
    nn.init.normal_(positions.content_bias)
    graph.share_bias(positions)
    rows = torch.tensor([0, 1, 10, 11, VALUES, VALUES + 3, 2 * VALUES, 3 * VALUES - 1])  # 4, 2 and 2
    tapes = [torch.randint(low, high, (3, N, N)) for low, high in ((0, 4), (4, 6), (6, 8))]
    inputs = ScoreInputs(
        causal=torch.ones(N, N, dtype=torch.bool).tril(),
        tape=None,
        graph=torch.stack(tapes, 1).to(torch.uint8),
        graph_rows=rows,
    )
    key_map = torch.randn(d_model, d_model, dtype=dtype, requires_grad=True)
    work = AttentionWork(q, k, v, [positions, graph], key_map, inputs)
    backend = backend_of(work)
    if IN_C.library(dtype) is None:
        pytest.skip("no C compiler")
    assert backend.name == "C"
    learned = [q, k, v, key_map, tables.weight, *positions.parameters(), *graph.parameters()]
    weight = torch.randn(3, HEADS, N, D_HEAD, dtype=dtype)

    def both(mixed: Tensor) -> list[Tensor]:
        return [mixed, *torch.autograd.grad((mixed * weight).sum(), learned)]

    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    for one, other in zip(both(backend.attend(work)), both(BY_TORCH.attend(work)), strict=True):
        torch.testing.assert_close(one, other, **tolerance)
