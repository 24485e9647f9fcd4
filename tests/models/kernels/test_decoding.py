"""A step of decoding in C: as by torch's operations, in both precisions, whatever else is decoded."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from model_oracle import small_model
from torch import Tensor, nn

import pdtools.models.kernels.decoding as module
from pdtools.models.grammar.state import StepCache
from pdtools.models.kernels.decoding import attend_to_entries, library_for, logsumexp, multiply_by_entries
from pdtools.models.kernels.native import COMPILERS
from pdtools.models.kernels.terms import Terms
from pdtools.models.transformer.block import Attention, TiltedLinearPositions
from pdtools.models.transformer.cache import Cache, Past
from pdtools.models.transformer.score_terms import (
    DepthPositions,
    DepthScores,
    LinearPositions,
    RelativePositions,
    ScoreInputs,
    ScoreTerm,
    StackDistances,
)
from pdtools.search import beam_search
from pdtools.search.options import SearchOptions

HEADS, D_HEAD, DEPTHS = 2, 20, 4  # heads of whole vectors and a rest, on most processors
D = HEADS * D_HEAD
ROWS = 6
# As a share of the largest number; torch's own are off by as much.
TOLERANCES = {torch.float32: 2e-6, torch.float64: 4e-15}


@pytest.fixture
def compiler() -> str:
    """A C compiler that works."""
    if library_for(torch.float32) is None:
        pytest.skip("no C compiler")
    return next(filter(None, map(shutil.which, COMPILERS)))


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of torch's threads, each of which is worth it for a single row."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)


COMBINATIONS = [
    list(itertools.chain(*parts))
    for parts in itertools.product(
        [[], [lambda: RelativePositions(D, HEADS)]],
        [[], [lambda: LinearPositions(HEADS)]],
        [[], *([lambda space=space: DepthScores(D, HEADS, DEPTHS, space)] for space in ("key", "hidden"))],
        [[], [lambda: StackDistances(HEADS)]],
    )
]


def layer_of(terms: list[Callable[[], ScoreTerm]], dtype: torch.dtype) -> Attention:
    layer = Attention(D, HEADS, 0.0, 0.0, [term() for term in terms])
    torch.manual_seed(1)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return layer.to(dtype).eval()


def caches_of(past: str, n: int, dtype: torch.dtype) -> Cache:
    """After n tokens: what hypotheses share with others, and where it lies in memory."""
    torch.manual_seed(n)
    room = Past(ROWS, ROWS * (n + 1), torch.zeros(1, dtype=dtype))
    cache = room.cache(2 * D)
    for _ in range(n):
        room.feed()
        cache.write(torch.randn(ROWS, 2 * D, dtype=dtype))
        if past == "shared":
            room.select(torch.randint(ROWS, (ROWS,)).sort().values)
        elif past == "reordered":
            room.select(torch.randperm(ROWS))
    if past == "reordered":
        room._forget()
    room.feed()
    return cache


def step_inputs(n: int) -> ScoreInputs:
    tape = torch.randint(DEPTHS, (ROWS, 1, 1, n), dtype=torch.uint8)
    return ScoreInputs(causal=None, tape=tape, stack_distance=torch.randint(5, tape.shape, dtype=torch.int16))


def both_ways(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """In C, and by torch."""
    used = []

    def counted(*given: Tensor | Terms) -> Tensor:
        used.append(1)
        return attend_to_entries(*given)  # type: ignore[arg-type]

    with torch.no_grad(), monkeypatch.context() as patch:
        patch.setattr(module, "attend_to_entries", counted)
        ours = run()
        assert used
        patch.setattr(module, "_works", lambda dtype: False)
        number = len(used)
        plain = run()
        assert len(used) == number
    return ours, plain


def assert_same(ours: Tensor, plain: Tensor, dtype: torch.dtype) -> None:
    assert ours.dtype == dtype
    largest = float(plain.abs().max())
    assert float((ours.double() - plain.double()).abs().max()) <= TOLERANCES[dtype] * largest


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("past", ["unshared", "shared", "reordered"])
def test_every_combination_of_terms(past: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    for terms, n in itertools.product(COMBINATIONS, (0, 1, 3, 20)):
        layer, cache, inputs = layer_of(terms, dtype), caches_of(past, n, dtype), step_inputs(n + 1)
        x = torch.randn(ROWS, 1, D, dtype=dtype)
        # The output layer adds up a token's numbers, which may cancel out.
        layer.output = nn.Identity()
        assert_same(*both_ways(monkeypatch, lambda: layer(x, inputs, cache)), dtype)  # noqa: B023


def random_step(dtype: torch.dtype, n: int = 37) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """Queries, a cache, entries and terms of all kinds."""
    torch.manual_seed(n)
    entries = torch.randint(30, (ROWS, n))
    terms = Terms(
        content_bias=torch.randn(HEADS, 1, D_HEAD, dtype=dtype),
        position_bias=torch.randn(HEADS, 1, D_HEAD, dtype=dtype),
        distance=torch.randn(HEADS, n, D_HEAD, dtype=dtype),
        table=torch.randn(HEADS, DEPTHS, D_HEAD, dtype=dtype),
        tape=torch.randint(DEPTHS, (ROWS, 1, n), dtype=torch.uint8),
        slopes=torch.rand(HEADS, dtype=dtype),
        open=torch.randint(5, (ROWS, 1, n), dtype=torch.int16),
        alibi=torch.rand(HEADS, dtype=dtype),
    )
    return torch.randn(ROWS, HEADS, D_HEAD, dtype=dtype), torch.randn(30, 2 * D, dtype=dtype), entries, terms


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_row_depends_on_no_other_nor_on_threads(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    q, values, entries, terms = random_step(dtype)
    mixed = attend_to_entries(q, values, entries, terms)
    x, logits = torch.randn(ROWS, 2 * D, dtype=dtype), torch.randn(ROWS, 3000, dtype=dtype)
    products, sums = multiply_by_entries(x, values, entries), logsumexp(logits)
    for row in range(ROWS):
        some = slice(row, row + 1)
        of_row = terms._replace(tape=terms.tape[some], open=terms.open[some])
        assert torch.equal(attend_to_entries(q[some], values, entries[some], of_row), mixed[some])
        assert torch.equal(multiply_by_entries(x[some], values, entries[some]), products[some])
        assert torch.equal(logsumexp(logits[some]), sums[some])
    moved = torch.randperm(30)
    lying_elsewhere = torch.empty_like(values)
    lying_elsewhere[moved] = values
    assert torch.equal(attend_to_entries(q, lying_elsewhere, moved[entries], terms), mixed)
    request.getfixturevalue("two_threads")
    assert torch.equal(attend_to_entries(q, values, entries, terms), mixed)
    assert torch.equal(multiply_by_entries(x, values, entries), products)
    assert torch.equal(logsumexp(logits), sums)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("n", [1, 4, 5, 64])
def test_products_and_normalisers(dtype: torch.dtype, n: int) -> None:
    _, values, entries, _ = random_step(dtype, n)
    x = torch.randn(ROWS, 2 * D + 3, dtype=dtype)[:, 3:]  # its rows lie apart
    exact = torch.einsum("rd,rnd->rn", x.double(), values.double()[entries])
    assert_same(multiply_by_entries(x, values, entries), exact, dtype)
    logits = 5 * torch.randn(ROWS, 1000 * n + 1, dtype=dtype)
    logits[:, -1] = -math.inf
    logits[:, 0] = 200
    torch.testing.assert_close(
        logsumexp(logits).double(), logits.double().logsumexp(1), rtol=TOLERANCES[dtype], atol=0
    )


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "tile"), [(0, 8), (1, 8), (7, 8), (7, 1000), (7, 1 << 20)])
def test_normalisers_in_tiles(
    rows: int, tile: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypotheses and classes in several tiles; some classes have p 0, and tiles that have no others."""
    monkeypatch.setattr(module, "TILE_ROWS", 3)
    monkeypatch.setattr(module, "TILE_CELLS", tile)
    random = torch.Generator().manual_seed(2)
    hidden, weight, bias = (
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
        for shape in ((rows, 5), (3000, 5), (3000,))
    )
    bias[:1500:3] = bias[1500:2900] = -math.inf
    assert module.normalises_in_c(hidden)
    for given in (None, bias):
        found = module.log_normalisers(hidden, weight, given)
        assert found.dtype == torch.promote_types(dtype, torch.float32)
        exact = nn.functional.linear(hidden, weight, given).double().logsumexp(1)
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-3}[dtype]
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("compiler")
def test_scores_that_are_large_and_what_is_not_a_number() -> None:
    q, values, entries, _ = random_step(torch.float32)
    large = attend_to_entries(1e4 * q, values, entries, Terms())
    exact = attend_to_entries(1e4 * q.double(), values.double(), entries, Terms())
    torch.testing.assert_close(large.double(), exact, rtol=1e-4, atol=1e-4)
    q[:, 0, 0] = 1
    for what in (math.nan, math.inf):
        values[entries[2, 5], 0] = what  # a key of the first head
        found = attend_to_entries(q, values, entries, Terms())
        reads_it = (entries == entries[2, 5]).any(1)
        assert bool(found[2, 0].isnan().all())
        assert bool(found[:, 1].isfinite().all())
        assert bool(found[~reads_it].isfinite().all())
    logits = torch.zeros(2, 40)
    logits[0, 3] = math.nan
    assert logsumexp(logits).isnan().tolist() == [True, False]


@pytest.mark.usefixtures("compiler")
def test_depths_and_distances_that_are_not_in_a_table() -> None:
    q, values, entries, terms = random_step(torch.float32)
    for distance in (-1, 64):
        apart = torch.zeros(ROWS, 1, entries.shape[1], dtype=torch.int16)
        apart[-1, 0, -1] = distance
        far = terms._replace(distance=torch.zeros(HEADS, 64, D_HEAD), apart=apart)
        with pytest.raises(IndexError, match="not in a table of 64 rows"):
            attend_to_entries(q, values, entries, far)
    terms.tape[1, 0, 3] = DEPTHS
    with pytest.raises(IndexError, match="a depth of 4 is not in a table of 4 rows"):
        attend_to_entries(q, values, entries, terms)


@pytest.mark.usefixtures("compiler")
def test_no_rows() -> None:
    q, values, entries, terms = random_step(torch.float32)
    none = terms._replace(tape=terms.tape[:0], open=terms.open[:0])
    assert attend_to_entries(q[:0], values, entries[:0], none).shape == (0, HEADS, D_HEAD)
    assert multiply_by_entries(torch.empty(0, 2 * D), values, entries[:0]).shape == (0, entries.shape[1])


@pytest.mark.usefixtures("compiler")
def test_what_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bool] = []
    monkeypatch.setattr(module, "attend_to_entries", lambda q, *_: used.append(True) or q)
    inputs, depths = step_inputs(4), [lambda: DepthScores(D, HEADS, DEPTHS, "key")]

    def is_used(layer: Attention, inputs: ScoreInputs = inputs, dtype: torch.dtype = torch.float32) -> bool:
        used.clear()
        layer(torch.randn(ROWS, 1, D, dtype=dtype), inputs, caches_of("shared", 3, dtype))
        return bool(used)

    layer = layer_of(depths, torch.float32)
    assert not module.decodes_in_c(torch.zeros(2, requires_grad=True))
    with torch.no_grad():
        assert is_used(layer)
        assert not is_used(layer_of([lambda: TiltedLinearPositions(HEADS)], torch.float32))
        assert inputs.tape is not None
        assert not is_used(layer, ScoreInputs(causal=None, tape=inputs.tape.to(torch.int16)))
        assert not is_used(layer_of(depths, torch.bfloat16), dtype=torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            assert not is_used(layer)
        layer.dropout = 0.1
        assert is_used(layer)
        assert not is_used(layer.train())


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("n", [1, 2, 21])
def test_what_models_of_actions_see(
    n: int, heads: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = caches_of("shared", 25, dtype)
    cache = StepCache(past.values, past.past.newest(), torch.randint(ROWS * 25, (ROWS, n)))
    visible = torch.rand(ROWS, heads, 1, n) < 0.5  # of rows any, with gaps
    visible[..., torch.randint(n, (1,))] = True
    inputs = ScoreInputs(causal=None, tape=None, visible=visible)
    x = torch.randn(ROWS, 1, D, dtype=dtype)
    cases: list[tuple[list[Callable[[], ScoreTerm]], ScoreInputs]] = [
        ([], inputs),
        ([lambda: LinearPositions(HEADS)], inputs),
        ([lambda: RelativePositions(D, HEADS)], inputs),  # as a PLM's
    ]
    if heads == 1:
        apart = torch.randint(64, (ROWS, 1, 1, n), dtype=torch.int16)
        cases.append(([lambda: DepthPositions(D, HEADS)], replace(inputs, depth_difference=apart)))
    for terms, given in cases:
        layer = layer_of(terms, dtype)
        layer.output = nn.Identity()
        assert_same(*both_ways(monkeypatch, lambda: layer(x, given, cache)), dtype)  # noqa: B023


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("stack_distances", [False, True])
def test_a_beam_search_finds_the_same(stack_distances: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model("pushdown", depths=3, stack_distances=stack_distances)
    strings = [np.array([1, *tokens, 2], np.int32) for tokens in ([5, 6, 7, 8, 9], [5, 6, 3], [10])]
    ours, plain = both_ways(
        monkeypatch,
        lambda: torch.cat(
            [
                torch.from_numpy(x.prefix_logprobs)
                for x in beam_search(model, strings, search=SearchOptions(beam=9))
            ]
        ),
    )
    torch.testing.assert_close(ours, plain, rtol=1e-6, atol=0)
