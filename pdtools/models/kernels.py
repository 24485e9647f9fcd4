"""Whether the fused kernels for CUDA work on this machine."""

from __future__ import annotations

import warnings
from functools import cache

import torch


@cache
def kernels_work(device: torch.device, dtype: torch.dtype, d_head: int, has_distances: bool) -> bool:
    """Whether the kernels compile and run, forward and backward: tried once, on zeros.

    They may not: Triton may be missing, or a C compiler for it, or the GPU may be too old. Then a warning
    says so, and attention is computed without them.

    Raises:
        torch.OutOfMemoryError: if there is no memory even for that.
    """
    try:
        from pdtools.models.fused_attention import fused_attention

        # Whoever asks may be computing without gradients, in another precision.
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            q, k, v, by_depth = (
                torch.zeros(1, 1, 16, size, dtype=dtype, device=device, requires_grad=True)
                for size in (d_head, d_head, d_head, 2)
            )
            tape = torch.zeros(1, 16, 16, dtype=torch.uint8, device=device)
            slopes = torch.zeros(1, device=device)
            p, r = (q, k[0]) if has_distances else (None, None)
            fused_attention(q, k, v, by_depth, tape, slopes, p=p, r=r).sum().backward()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(
            f"attention is computed without the fused kernels, which do not work here ({reason}):"
            " it takes more time and memory, and gives the same results up to rounding",
            stacklevel=2,
        )
        return False
    return True
