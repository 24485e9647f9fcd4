"""The kernels for CUDA against torch's operations: on a GPU, or in Triton's interpreter without one.

Without a GPU a test of test_fused_attention.py runs these in the interpreter, in a process of its own. That
runs one thread: what threads do to each other it does not show.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import Any

import pytest
import torch

from pdtools.models.transformer import stack_attention as module
from pdtools.models.transformer.stack_attention import stack_attention, stepwise_stack_attention

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

HAS_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if HAS_GPU else "cpu"
runs_kernels = pytest.mark.skipif(not (HAS_GPU or INTERPRETED), reason="run by the test of the interpreter")


@runs_kernels
@pytest.mark.parametrize("cells", [32, 8192])
@pytest.mark.parametrize("n", [1, 2, 8, 21])
def test_it_equals_the_operations_of_torch(n: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdtools.models.kernels import fused_stack_attention as fused

    monkeypatch.setattr(fused, "TILE_CELLS", cells)
    torch.manual_seed(0)
    scores = (2 * torch.randn(2, n, 3, dtype=torch.float64)).to(DEVICE)
    weight = torch.randn(2, n, n, dtype=torch.float64).to(DEVICE)
    found = []
    for recurrence in (stepwise_stack_attention, fused.fused_stack_attention):
        actions = scores.softmax(-1).requires_grad_()
        rows = recurrence(actions)
        found.append((rows.detach(), *torch.autograd.grad((rows * weight).sum(), actions)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.skipif(HAS_GPU or INTERPRETED, reason="a GPU compiles them; the interpreter does not")
@pytest.mark.parametrize("kernel", ["_forward_kernel", "_backward_kernel"])
@pytest.mark.parametrize(("n", "numbers"), [(21, "*fp64"), (128, "*fp32"), (1024, "*fp32")])
def test_kernels_compile_for_a_gpu(kernel: str, n: int, numbers: str) -> None:
    """To the machine code of an H100; rows are stored before the threads wait for each other."""
    import triton
    from triton.backends.compiler import GPUTarget

    from pdtools.models.kernels import fused_stack_attention as fused

    function = getattr(fused, kernel)
    constants: dict[str, Any] = fused._tiles(n)
    types = dict.fromkeys(("actions", "alpha", "rows"), numbers) | dict.fromkeys(constants, "constexpr")
    signature = {name: types.get(name, "i32") for name in function.arg_names}
    source = triton.compiler.ASTSource(function, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= 227 * 1024
    code = compiled.asm["ptx"]
    stored = code.rindex("st.global")
    assert "bar.sync" in code[stored:]


@pytest.mark.skipif(HAS_GPU or INTERPRETED, reason="they work there")
def test_where_kernels_do_not_work_a_warning_says_so() -> None:
    module._fused_works.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            works = module.fused_takes(torch.device("cpu"), 20)
        assert not works
        assert len(caught) == 1
    finally:
        module._fused_works.cache_clear()
    assert not module.fused_takes(torch.device("cpu"), module.MOST_FUSED + 1)
    assert stack_attention(torch.rand(1, 5, 3)).shape == (1, 5, 5)
