"""The kernels for CUDA against the plain formulation: on a GPU, or in Triton's interpreter without one.

Triton decides when it is first imported whether it interprets, so without a GPU one test runs the others in a
process of its own. The interpreter has no arithmetic for bfloat16: float16 stands for it.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from model_oracle import random_attach, random_row, small_model
from torch import Tensor

from pdtools.models import collate, tape_from_attachments
from pdtools.models.kernels.fused_works import kernels_work
from pdtools.models.transformer import backends

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

import triton

HAS_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if HAS_GPU else "cpu"
BATCH, HEADS, DEPTHS = 2, 2, 9
DEPTH_TERMS = ("by_depth", "tape", "grad_by_depth")
DISTANCE_TERMS = ("p", "r", "grad_p")
runs_kernels = pytest.mark.skipif(not (HAS_GPU or INTERPRETED), reason="run by the test of the interpreter")


def sentences(n: int, d_head: int) -> int:
    """How many: in the interpreter one where they are large, whose programs take seconds each."""
    return 1 if INTERPRETED and n * d_head > 65 * 64 else BATCH


def random_tape(n: int, batch: int = BATCH) -> Tensor:
    rng = random.Random(n)
    attach = [[0, *random_attach(n - 1, rng)[1:-1]][:n] for _ in range(batch)]
    return tape_from_attachments(torch.tensor(attach)).clamp(max=DEPTHS - 1).to(DEVICE, torch.int64)


def plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    by_depth: Tensor | None,
    tape: Tensor,
    kept: Tensor | None = None,
    slopes: Tensor | None = None,
    p: Tensor | None = None,
    r: Tensor | None = None,
) -> Tensor:
    """Figure 7 with all scores at once; ``kept`` (B, H, N, N) is what dropout multiplies the weights by."""
    n, d_head = q.shape[2:]
    scores = q @ k.transpose(2, 3)
    if p is not None and r is not None:
        distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0).to(q.device)
        scores = scores + torch.einsum("bhqd,hqkd->bhqk", p, r[:, distance])
    if by_depth is not None:
        scores = scores + by_depth.gather(3, tape[:, None].expand(-1, HEADS, -1, -1))
    scores = scores / math.sqrt(d_head)
    if slopes is not None:
        position = torch.arange(n, device=q.device)
        scores = scores - slopes[:, None, None] * (position[:, None] - position)
    causal = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    weights = scores.masked_fill(~causal, -math.inf).softmax(-1)
    return (weights if kept is None else weights * kept) @ v


def random_inputs(n: int, d_head: int, dtype: torch.dtype, like_a_layer: bool) -> list[Tensor]:
    made, batch = {"dtype": dtype, "device": DEVICE}, sentences(n, d_head)
    if like_a_layer:  # heads are strided, and q, k and v side by side
        q, k, v = torch.randn(batch, n, 3, HEADS, d_head, **made).permute(2, 0, 3, 1, 4)
    else:
        q, k, v = (torch.randn(batch, HEADS, d_head, n, **made).transpose(2, 3) for _ in range(3))
    inputs = [q, k, v, torch.randn(batch, HEADS, n, DEPTHS, **made)]
    return [tensor.detach().requires_grad_() for tensor in inputs]


def with_gradients(mixed: Tensor, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    gradients = torch.autograd.grad(mixed, inputs, grad.to(mixed.dtype))
    return [t.float() for t in (mixed, *gradients)]


ON_A_GPU = pytest.mark.skipif(not HAS_GPU, reason="the interpreter has no bfloat16")


@runs_kernels
@pytest.mark.parametrize(
    ("terms", "n", "d_head", "dtype", "tolerance"),
    [
        ("depths", 1, 16, torch.float32, 2e-6),
        ("depths", 31, 32, torch.float32, 2e-6),
        ("depths", 65, 64, torch.float32, 5e-6),
        ("depths", 70, 128, torch.float32, 1e-5),
        ("depths, not like a layer", 33, 16, torch.float32, 2e-6),
        ("depths", 64, 32, torch.float16, 4e-3),
        ("depths", 97, 64, torch.float16, 4e-3),
        pytest.param("depths", 130, 128, torch.bfloat16, 6e-2, marks=ON_A_GPU),
        ("slopes", 1, 16, torch.float32, 2e-6),
        ("slopes", 70, 32, torch.float32, 1e-5),
        ("depths, slopes", 97, 64, torch.float16, 4e-3),
        ("distances", 1, 16, torch.float32, 2e-6),
        ("depths, distances", 33, 64, torch.float32, 5e-6),
        ("distances", 70, 128, torch.float32, 1e-5),
        ("depths, distances", 97, 64, torch.float16, 4e-3),
        pytest.param("depths, distances", 130, 64, torch.bfloat16, 6e-2, marks=ON_A_GPU),
    ],
)
def test_kernels_equal_figure_7(
    terms: str, n: int, d_head: int, dtype: torch.dtype, tolerance: float
) -> None:
    from pdtools.models.kernels.fused_attention import fused_attention

    torch.manual_seed(n)
    q, k, v, by_depth = random_inputs(n, d_head, dtype, "not like a layer" not in terms)
    made = {"dtype": dtype, "device": DEVICE, "requires_grad": True}
    inputs, tape = {"q": q, "k": k, "v": v}, random_tape(n, len(q))
    if "depths" in terms:
        inputs["by_depth"] = by_depth
    if "distances" in terms:
        inputs |= {"p": torch.randn(*q.shape, **made), "r": torch.randn(HEADS, n, d_head, **made)}
    slopes = torch.tensor([0.3, 0.02], device=DEVICE) if "slopes" in terms else None
    grad = torch.randn(*q.shape, device=DEVICE)

    def ours() -> list[Tensor]:
        given = {"by_depth": None, "tape": tape.to(torch.uint8) if "depths" in terms else None} | inputs
        return with_gradients(fused_attention(**given, slopes=slopes), [*inputs.values()], grad)

    found = ours()
    again = ours() if n < 64 or HAS_GPU else found  # in the interpreter programs run one after another
    precise = {name: tensor.detach().double().requires_grad_() for name, tensor in inputs.items()}
    theirs = plain(
        **{"by_depth": None} | precise, tape=tape, slopes=None if slopes is None else slopes.double()
    )
    wanted = with_gradients(theirs, [*precise.values()], grad.double())
    for one, same, other in zip(found, again, wanted, strict=True):
        torch.testing.assert_close(
            one, other, atol=tolerance * max(1, float(other.detach().abs().max())), rtol=0
        )
        assert torch.equal(one, same)


@runs_kernels
@pytest.mark.parametrize("has_distances", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, *([torch.bfloat16] if HAS_GPU else [])])
def test_they_pass_the_test_before_they_are_used(dtype: torch.dtype, has_distances: bool) -> None:
    assert kernels_work(torch.device(DEVICE), dtype, 32, has_distances)


@runs_kernels
@pytest.mark.parametrize("positions", ["relative", "alibi"])
def test_mixed_precision(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As training on a GPU has it: the weights are float32, products are not."""
    rng = random.Random(5)
    batch = collate([random_row(length, 11, rng) for length in (9, 4)], 0).to(DEVICE)
    model = small_model("pushdown", d_model=32, heads=2, positions=positions, depths=4).to(DEVICE)
    results = []
    for backend in (backends.BY_TORCH, backends.IN_TRITON._replace(takes=lambda work: True)):
        monkeypatch.setattr(backends, "BACKENDS", (backend,))
        with torch.autocast(DEVICE, dtype=torch.bfloat16 if HAS_GPU else torch.float16):
            parts = model.forward_parts(batch)
            loss = parts.token_logprobs.sum() + parts.attach_logprobs.sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        results.append([parts.token_logprobs, parts.attach_logprobs, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=5e-2, rtol=5e-2)


@pytest.mark.skipif(not HAS_GPU, reason="the interpreter has no limit on programs")
def test_more_heads_of_sentences_than_cuda_counts_across() -> None:
    from pdtools.models.kernels.fused_attention import fused_attention

    sentences = 2**16 // HEADS + 1
    q, k, v = (torch.randn(sentences, HEADS, 2, 16, device=DEVICE).requires_grad_() for _ in range(3))
    by_depth = torch.zeros(sentences, HEADS, 2, 1, device=DEVICE)
    tape = torch.zeros(sentences, 2, 2, dtype=torch.uint8, device=DEVICE)
    ours = fused_attention(q, k, v, by_depth, tape)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    inputs, grad = [q, k, v], torch.randn_like(ours)
    for one, other in zip(
        with_gradients(ours, inputs, grad), with_gradients(theirs, inputs, grad), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=2e-6)


@runs_kernels
@pytest.mark.parametrize("has_distances", [False, True])
def test_dropout(has_distances: bool) -> None:
    from pdtools.models.kernels.fused_attention import fused_attention

    n, d_head, dropout = 60, 64, 0.3
    inputs, tape = random_inputs(n, d_head, torch.float32, True), random_tape(n)
    q, k, v, by_depth = inputs
    distances: dict[str, Tensor] = {}
    if has_distances:
        made = {"device": DEVICE, "requires_grad": True}
        p, r = torch.randn(BATCH, HEADS, n, d_head, **made), torch.randn(HEADS, n, d_head, **made)
        distances = {"p": p, "r": r}
    weights = plain(q, k, torch.eye(n, device=DEVICE), by_depth, tape, **distances)  # (B, H, N, N)

    def ours(values: Tensor) -> Tensor:
        torch.manual_seed(3)
        return fused_attention(q, k, values, by_depth, tape.to(torch.uint8), dropout=dropout, **distances)

    unit = torch.eye(n, d_head, device=DEVICE).expand(BATCH, HEADS, n, d_head)
    kept = (ours(unit)[..., :n] / weights.clamp(min=1e-30)).detach()
    below = torch.ones(n, n, dtype=torch.bool, device=DEVICE).tril()
    is_kept = kept[..., below] > 0.5
    torch.testing.assert_close(kept[..., below], is_kept / (1 - dropout), atol=1e-3, rtol=0)
    assert abs(float(is_kept.float().mean()) - (1 - dropout)) < 0.02
    assert not torch.equal(kept[0, 0], kept[0, 1])  # each head and sentence has its own
    assert not torch.equal(kept[0, 0], kept[1, 0])

    everything = [*inputs, *distances.values()]
    kept = torch.zeros_like(kept).masked_scatter(below.expand_as(kept), is_kept / (1 - dropout))
    grad = torch.randn(BATCH, HEADS, n, d_head, device=DEVICE)
    for one, other in zip(
        with_gradients(ours(v), everything, grad),
        with_gradients(plain(*inputs, tape, kept, **distances), everything, grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@runs_kernels
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("pushdown", {"positions": "learned", "depths": 4, "depth_space": "key"}),
        ("pushdown", {"positions": "learned", "depths": 4, "depth_space": "hidden"}),
        ("pushdown", {"positions": "alibi", "depths": 4}),
        ("pushdown", {"positions": "relative", "depths": 4}),
        ("transformer", {"positions": "relative"}),
        ("transformer", {"positions": "alibi"}),
    ],
)
def test_a_model_computes_the_same_with_kernels(
    name: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    batch = collate([random_row(length, 11, rng) for length in (9, 4)], 0).to(DEVICE)
    model = small_model(name, d_model=32, heads=2, **more).to(DEVICE)
    results = []
    for backend in (backends.BY_TORCH, backends.IN_TRITON._replace(takes=lambda work: True)):
        monkeypatch.setattr(backends, "BACKENDS", (backend,))
        parts = model.forward_parts(batch)
        loss = parts.token_logprobs.sum() + parts.attach_logprobs.sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        results.append([parts.token_logprobs, parts.attach_logprobs, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(HAS_GPU or INTERPRETED, reason="the tests above run by themselves")
def test_kernels_in_the_interpreter() -> None:
    """Of this file, and of attention over superpositions of stacks."""
    files = (__file__, Path(__file__).with_name("test_fused_stack_attention.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    result = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout


def stack_bytes(machine_code: bytes) -> int:
    """What a thread keeps outside of its registers, as NVIDIA's tool says."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        pytest.skip("Triton came without cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(machine_code)
        file.flush()
        said = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    return int(re.search(r"STACK:(\d+)", said)[1])


@pytest.mark.skipif(HAS_GPU or INTERPRETED, reason="a GPU compiles them; the interpreter does not")
@pytest.mark.parametrize(
    "terms",
    [DEPTH_TERMS, ("slopes",), (*DEPTH_TERMS, "slopes"), DISTANCE_TERMS, (*DEPTH_TERMS, *DISTANCE_TERMS)],
)
@pytest.mark.parametrize("kernel", ["forward_kernel", "rows_kernel", "keys_kernel", "distances_kernel"])
def test_kernels_compile_for_a_gpu(kernel: str, terms: tuple[str, ...]) -> None:
    """To the machine code of an H100, with registers and shared memory as its assembler counts them."""
    from triton.backends.compiler import GPUTarget

    from pdtools.models.kernels import fused_attention

    if kernel == "distances_kernel" and "r" not in terms:
        pytest.skip("no distances")
    function = getattr(fused_attention, kernel)
    d_head = 128
    options = fused_attention._block(torch.empty(1, 1, 1, d_head, dtype=torch.bfloat16), "r" in terms)
    constants = {"D_HEAD": d_head, "dropout": 0.0, "seed": None}
    absent = {*DEPTH_TERMS, *DISTANCE_TERMS, "slopes"} - set(terms)
    constants |= dict.fromkeys(absent.intersection(function.arg_names))
    constants |= {name: options.pop(name) for name in ("BLOCK", "STEP")}
    types = {"tape": "*u8", "scale": "fp32"}
    types |= dict.fromkeys(("slopes", "log_sums", "mean", "grad_by_depth", "grad_r"), "*fp32")
    pointers = ("q", "k", "v", "p", "r", "by_depth", "mixed", "grad", "grad_q", "grad_k", "grad_v", "grad_p")
    types |= dict.fromkeys(pointers, "*bf16") | dict.fromkeys(constants, "constexpr")
    signature = {name: types.get(name, "i32") for name in function.arg_names}
    source = triton.compiler.ASTSource(function, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= 99 * 1024  # of all GPUs since Ampere
    assert stack_bytes(compiled.asm["cubin"]) <= 512  # numbers of a thread that did not fit its registers
