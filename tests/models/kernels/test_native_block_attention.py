"""Attention in C: in single precision, where numbers get extreme, and where the compiler is missing or wrong.

``test_model_layers.py`` holds it, and attention by torch's operations, to the paper's figure 7.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import random
import shutil

import pytest
import torch
from torch import Tensor

import pdtools.models.kernels.block_attention as module
from pdtools.models.kernels.block_attention import IN_C, block_attention, native_block_attention
from pdtools.models.kernels.native import COMPILERS
from pdtools.models.kernels.terms import Terms

HEADS = 3


class Layer:
    """Queries, keys and values, and all terms that attention may have."""

    def __init__(
        self,
        n: int,
        d_head: int,
        dtype: torch.dtype,
        *,
        shared_table: bool = False,
        depths: int = 5,
        sentences: int = 2,
    ) -> None:
        random = torch.Generator().manual_seed(n)

        def normal(*shape: int) -> Tensor:
            drawn = torch.randn(shape, generator=random, dtype=torch.float64)
            return drawn.to(dtype).requires_grad_()

        self.qkv = normal(sentences, n, 3, HEADS, d_head)
        content, position, distance = (normal(HEADS, length, d_head) for length in (1, 1, n))
        table = normal(1 if shared_table else HEADS, depths, d_head)
        tape = torch.randint(depths, (sentences, n, n), generator=random, dtype=torch.uint8)
        tape[:1, 0, 0] = depths - 1  # the deepest is there
        number = torch.randint(4, (sentences, n, n), generator=random, dtype=torch.int16)
        slopes, bias = normal(HEADS), normal(HEADS, n, n).detach()
        self.terms = Terms(content, position, distance, table, tape, slopes, number, bias)
        self.weight = normal(sentences, HEADS, n, d_head).detach()

    def learned(self) -> list[Tensor]:
        """What has a gradient."""
        return [self.qkv, *(x for x in self.terms if x is not None and x.requires_grad)]

    def mixed(self, dropout: float = 0.0) -> Tensor:
        """Of the whole layer."""
        q, k, v = self.qkv.permute(2, 0, 3, 1, 4)
        return block_attention(q, k, v, self.terms, dropout=dropout)

    def mixed_and_gradients(self, dropout: float = 0.0) -> list[Tensor]:
        """Its output, and the gradients of what is learned."""
        torch.manual_seed(0)
        mixed = self.mixed(dropout)
        return [mixed.detach(), *torch.autograd.grad((mixed * self.weight).sum(), self.learned())]


def by_torch(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The same without C."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "native_takes", lambda *_: False)
        return layer.mixed_and_gradients()


@pytest.fixture
def compiler() -> str:
    """A C compiler that works."""
    if IN_C.library(torch.float32) is None:
        pytest.skip("no C compiler")
    return next(filter(None, map(shutil.which, COMPILERS)))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("n", [1, 16, 33, 100])
@pytest.mark.parametrize(("d_head", "shared_table"), [(1, False), (20, True), (64, False)])
def test_single_precision_equals_double(
    n: int, d_head: int, shared_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Layer(n, d_head, torch.float32, shared_table=shared_table).mixed_and_gradients()
    plain = by_torch(Layer(n, d_head, torch.float64, shared_table=shared_table), monkeypatch)
    for one, other in zip(ours, plain, strict=True):
        assert one.dtype == torch.float32
        # Gradients are sums of up to n² numbers.
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5 * math.sqrt(n))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("names", [("table", "tape"), ("content_bias", "table", "tape")])
@pytest.mark.parametrize("depths", [9, 60, 256])
def test_only_depths_that_are_there_are_computed(
    names: tuple[str, ...], depths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They grow from tile to tile; keys that a row does not see may have any."""
    layer = Layer(70, 8, torch.float64, depths=depths)
    row, key = torch.arange(70)[:, None], torch.arange(70)
    tape = (row * 31 + key * 17) % (1 + row * min(depths, 33) // 70)
    for unseen in (0, tape.max()):
        layer.terms = layer.terms._replace(tape=tape.where(key <= row, unseen).byte().repeat(2, 1, 1))
        layer.terms = Terms(**{name: getattr(layer.terms, name) for name in names})
        for one, other in zip(layer.mixed_and_gradients(), by_torch(layer, monkeypatch), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("names", [(), ("content_bias", "table", "tape")])
def test_constituents_that_were_opened_far_before(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, last = Layer(100, 8, torch.float64), (torch.arange(100) // 7) * 7 - 1
    innermost = torch.where(torch.arange(100) % 3 > 0, last, last // 4).int().expand(2, -1)
    layer.terms = Terms(**{name: getattr(layer.terms, name) for name in names}, innermost=innermost)
    for one, other in zip(layer.mixed_and_gradients(), by_torch(layer, monkeypatch), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def before_a_wall(tensor: Tensor) -> Tensor:
    """A copy at the end of its memory: after it lies a page whose use ends the process."""
    size = tensor.numel() * tensor.element_size()
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
    wall = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + whole
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(wall), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    numbers = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=whole - size)
    return numbers.view(tensor.shape).copy_(tensor)


@pytest.mark.linux
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "d_head"), [(1, 1), (9, 13), (33, 8), (32, 22)])
@pytest.mark.parametrize("tapes", [1, 3])
def test_nothing_is_touched_beyond_tensors(
    n: int, d_head: int, tapes: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    layer = Layer(n, d_head, dtype)
    given = {name: term.detach() for name, term in layer.terms.given().items()}
    given["innermost"] = (torch.arange(n) // 7 * 7 - 1).int().expand(2, -1)
    if tapes == 3:
        given["tape"] = given["tape"][:, None].expand(-1, 3, -1, -1)
    q, k, v = layer.qkv.detach().permute(2, 0, 3, 1, 4)
    mixed, softmax = v.transpose(1, 2), q.new_zeros(*q.shape[:3], 2)
    given |= {"q": q, "k": k, "v": v, "mixed": mixed, "softmax": softmax, "grad": mixed}
    given |= {f"grad_{name}": given[name] * 0 for name in IN_C.learned}
    given["grad_qkv"] = q.new_zeros(layer.qkv.shape)
    tensors = {name: before_a_wall(tensor) for name, tensor in given.items()}
    assert IN_C.library(dtype) is not None
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            for function in ("forward", "backward"):
                IN_C.call(function, tensors, 0.1, 1)
            os._exit(0)
        os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_c_computes_what_torch_does(dtype: torch.dtype) -> None:
    """Else torch computes it all, and the other tests compare torch to itself."""
    assert module._native_works(dtype)


@pytest.mark.usefixtures("compiler")
def test_scores_that_are_large() -> None:
    layer = Layer(40, 8, torch.float32)
    layer.terms.bias.add_(1e6)
    gradients = layer.mixed_and_gradients()[1]
    # Each row's weights sum to 1 in the backward pass too.
    by_values = gradients[:, :, 2].sum(1)  # (B, H, d_head)
    torch.testing.assert_close(by_values, layer.weight.sum(2), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("compiler")
def test_what_c_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(20, 8, torch.float32)
    expected, terms = layer.mixed(), layer.terms
    used = []
    monkeypatch.setattr(module, "native_block_attention", lambda *_: used.append(1))
    assert layer.mixed() is None
    assert used == [1]
    other = torch.float64
    for name, value in (
        ("bias", terms.bias.to(other)),
        ("slopes", terms.slopes.to(other)),
        ("open", terms.open.long()),
        ("tape", terms.tape.long()),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(layer, "terms", terms._replace(**{name: value}))
            torch.testing.assert_close(layer.mixed(), expected, check_dtype=False)
    wide = terms.bias[:1, :1].expand_as(terms.bias)
    with monkeypatch.context() as patch:
        patch.setattr(layer, "terms", terms._replace(bias=wide))
        of_all = layer.mixed
        patch.setattr(module, "native_block_attention", native_block_attention)
        same = of_all()
        patch.setattr(layer, "terms", terms._replace(bias=terms.bias[:1, :1]))
        torch.testing.assert_close(layer.mixed(), same)
    # Scoring doesn't even ask whether it works, which would compile it.
    monkeypatch.setattr(module, "_native_works", lambda dtype: pytest.fail("asked for"))
    with torch.no_grad():
        torch.testing.assert_close(layer.mixed(), expected)
    assert used == [1]


@pytest.mark.parametrize("missing", ["distance", "position_bias"])
def test_relative_positions_have_both_their_terms(missing: str) -> None:
    layer = Layer(20, 8, torch.float32)
    layer.terms = layer.terms._replace(**{missing: None})
    with pytest.raises(ValueError, match="are given together"):
        layer.mixed()


def test_depths_that_are_not_in_the_table() -> None:
    layer = Layer(20, 8, torch.float32)
    layer.terms.tape[1, 3, 2] = 200
    with pytest.raises(IndexError, match="a depth of 200 is not in a table of 5 rows"):
        layer.mixed()


@pytest.mark.usefixtures("compiler")
def test_weights_that_are_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for dtype in (torch.float32, torch.float64):
        layer = Layer(40, 8, dtype)
        layer.terms.bias.copy_(-1000.0 * torch.arange(40).expand(40, 40).flip(1))
        found.append(layer.mixed_and_gradients())
    layer.terms.bias[:, 3, 1] = 1e30
    found.append(layer.mixed_and_gradients())
    for one, other in zip(*found[:2], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)
    for one, other in zip(found[2], by_torch(layer, monkeypatch), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("what", [math.nan, math.inf])
def test_what_is_not_a_number_stays_so(what: float) -> None:
    layer = Layer(20, 8, torch.float32)
    with torch.no_grad():
        layer.qkv[0, 7, 1] = what  # a key
    mixed, *gradients = layer.mixed_and_gradients()
    assert bool(mixed[0, :, :7].isfinite().all())
    assert not bool(mixed[0, :, 7:].isfinite().any())
    assert bool(mixed[1].isfinite().all())
    assert not bool(gradients[0][0].isfinite().all())


@pytest.mark.usefixtures("compiler")
def test_no_sentences() -> None:
    layer = Layer(4, 8, torch.float32, sentences=0, depths=1)
    mixed, *gradients = layer.mixed_and_gradients()
    assert mixed.shape == (0, HEADS, 4, 8)
    assert [gradient.shape for gradient in gradients] == [each.shape for each in layer.learned()]
    assert not any(bool(gradient.any()) for gradient in gradients)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("threads", [2, HEADS, 50])
@pytest.mark.parametrize(("dropout", "shared_table"), [(0.0, True), (0.25, False)])
def test_heads_and_sentences_are_divided_among_threads(
    threads: int, dropout: float, shared_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is dropped depends on the seed alone, in both passes."""
    layer = Layer(40, 8, torch.float64, sentences=5, shared_table=shared_table)
    if dropout:  # and of each query the keys of one constituent
        layer.terms = layer.terms._replace(innermost=(torch.arange(40) // 7 * 7 - 1).int().expand(5, -1))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    expected = layer.mixed_and_gradients(dropout)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for one, other in zip(layer.mixed_and_gradients(dropout), expected, strict=True):
        if threads == HEADS and not shared_table:
            assert torch.equal(one, other)
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("compiler")
def test_dropout_drops_each_cell_as_often() -> None:
    n, dropout, times = 12, 0.3, 400
    torch.manual_seed(0)
    q = torch.zeros(times, 1, n, n, requires_grad=True)
    values = torch.eye(n).expand(times, 1, n, n)
    weights = block_attention(q, q, values, Terms(), dropout=dropout).detach()
    below = torch.ones(n, n, dtype=torch.bool).tril()
    kept = (weights > 0).double()[..., below]  # (times, 1, cells)
    within = 4.5 * math.sqrt(dropout * (1 - dropout) / times)
    assert float((kept.mean(0) - (1 - dropout)).abs().max()) < within
    # Neither neighbours nor the same cells of two sentences go together.
    for one, other in ((kept[..., 1:], kept[..., :-1]), (kept[1:], kept[:-1])):
        together = (one * other).mean() - (1 - dropout) ** 2
        assert abs(float(together)) < 0.01
    whole = (weights * torch.arange(1, n + 1)[:, None])[..., below]
    torch.testing.assert_close(whole[whole > 0], torch.full((int(kept.sum()),), 1 / (1 - dropout)))


def by_formula(layer: Layer, terms: Terms) -> Tensor:
    """The output by the formula of :class:`Terms`, all scores of all keys at once."""
    q, k, v = layer.qkv.permute(2, 0, 3, 1, 4)
    n, d_head = q.shape[2:]
    scores = q @ k.mT
    if terms.content_bias is not None:
        scores = scores + terms.content_bias @ k.mT
    back = torch.arange(n)[:, None] - torch.arange(n)  # i - j
    if terms.distance is not None:
        products = (q + terms.position_bias) @ terms.distance.mT  # the farthest first
        scores = scores + products.gather(3, (n - 1 - back).clamp(0, n - 1).expand_as(products))
    if terms.table is not None and terms.tape is not None:
        products = q @ terms.table.mT
        scores = scores + products.gather(3, terms.tape.long()[:, None].expand_as(scores))
    if terms.slopes is not None and terms.open is not None:
        scores = scores - terms.slopes[:, None, None] * terms.open[:, None]
    if terms.bias is not None:
        scores = scores + terms.bias
    scores = scores / math.sqrt(d_head)
    if terms.alibi is not None:
        scores = scores - terms.alibi[:, None, None] * back.abs()
    counts = (back >= 0).expand_as(scores).clone()
    if terms.seen is not None:
        counts &= terms.seen[:, None]
    if terms.innermost is not None:
        is_open, before = terms.innermost[:, :, None] > 0, torch.arange(n) < terms.innermost[:, :, None]
        counts[:, 0] &= ~is_open | before
        counts[:, 1] &= ~is_open | ~before
    return scores.masked_fill(~counts, -math.inf).softmax(-1) @ v


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("seed", range(40))
def test_any_terms(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All terms, and the masks, crossed: in C, and in blocks of any size by torch, it is the formula."""
    rng = random.Random(seed)
    n, d_head = rng.choice([1, 2, 7, 16, 17, 33, 70]), rng.choice([1, 3, 8, 20])
    layer = Layer(n, d_head, torch.float64, shared_table=seed % 3 == 0, depths=rng.choice([1, 5, 40]))
    every = layer.terms._asdict()
    groups = [
        ("content_bias",),
        ("distance", "position_bias"),
        ("table", "tape"),
        ("slopes", "open"),
        ("bias",),
    ]
    given = {name: every[name] for group in groups if rng.random() < 0.5 for name in group}
    torch.manual_seed(seed)
    if "bias" not in given and rng.random() < 0.5:
        given["alibi"] = torch.rand(HEADS, dtype=torch.float64)
    mask = rng.choice(["none", "seen", "innermost", "both"])
    if mask in ("innermost", "both"):
        at = torch.arange(n)
        given["innermost"] = torch.stack([(at * torch.rand(n)).int(), torch.full((n,), -1).int()])
    if mask in ("seen", "both"):
        seen = torch.rand(2, n, n) < 0.7
        if mask == "both":  # both heads see a key
            seen[:] = True
            seen[:, :, n // 3] = torch.arange(n) == n // 3
            given["innermost"] = torch.full((2, n), -1).int()
        given["seen"] = seen | torch.eye(n, dtype=torch.bool)
    layer.terms = Terms(**given)
    if rng.random() < 0.5:
        monkeypatch.setattr(module, "BLOCK_CELLS", rng.choice([1, 64, 500]))
    learned = [layer.qkv, *(x for x in given.values() if x.requires_grad)]
    wanted = by_formula(layer, layer.terms)
    gradients = torch.autograd.grad((wanted * layer.weight).sum(), learned)
    found = layer.mixed_and_gradients()
    plain = by_torch(layer, monkeypatch)
    named = {id(x): gradient for x, gradient in zip(learned, gradients, strict=True)}
    expected = [wanted.detach(), *(named[id(x)] for x in layer.learned())]
    for of in (found, plain):
        for one, other in zip(of, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        torch.testing.assert_close(layer.mixed(), wanted, rtol=1e-9, atol=1e-9)
