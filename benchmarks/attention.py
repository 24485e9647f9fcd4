"""Pushdown attention alone beside torch's fused attention without a tape: forward and backward.

    python benchmarks/attention.py [--device cuda --dtype bf16]

The plain formulation, figure 7 of the paper as printed, is measured once, at the smaller length.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from measure import Figure, Options, Run, main, peak_memory, seconds, treebank_batch
from plain import pushdown as plain_pushdown
from torch import Tensor

from pdtools.models import tape_from_attachments
from pdtools.models.transformer.backends import attend
from pdtools.models.transformer.score_terms import DepthScores, ScoreInputs

SENTENCES, HEADS, D_HEAD, DEPTHS = 8, 4, 64, 64
TIME_BARS = {128: 1.0, 512: 1.0}
PLAIN_LENGTHS = (128,)


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by length."""
    for n in TIME_BARS:
        batch = treebank_batch(SENTENCES, n, vocab_size=10).to(options.device)
        runs = candidates(tape_from_attachments(batch.attach).clamp(max=DEPTHS - 1).long(), options)
        plain = runs.pop("plain")
        times = seconds(runs, options)
        if n in PLAIN_LENGTHS:
            runs["plain"] = plain
            once = Options(**{**vars(options), "repeats": 1})
            times["plain"] = seconds({"plain": plain}, once)["plain"]
        settings = {
            "sentences": SENTENCES,
            "heads": HEADS,
            "d_head": D_HEAD,
            "depths": DEPTHS,
            "positions_per_sentence": n,
            **options.settings,
        }
        for name, run in runs.items():
            peak = peak_memory(run, options.device)
            is_base = name == "no tape"
            if is_base:
                base_peak = peak
            for what, value, unit, base, bar in (
                ("time", times[name] * 1000, "ms", times["no tape"] * 1000, TIME_BARS[n]),
                ("peak memory", peak, "MiB", base_peak, None),
            ):
                yield Figure(
                    name=f"attention, n {n}, {what}, {name}",
                    value=value,
                    unit=unit,
                    ratio=None if is_base else value / base,
                    against=None if is_base else "no tape",
                    bar=bar if name == "pushdown" else None,
                    settings=settings,
                )


def candidates(tape: Tensor, options: Options) -> dict[str, Run]:
    """Forward and backward passes over the same random tensors; tape: int64 (B, N, N)."""
    torch.manual_seed(0)
    n = tape.shape[1]
    made = {"device": options.device, "dtype": options.dtype}
    q, k, v = (torch.randn(SENTENCES, HEADS, n, D_HEAD, **made, requires_grad=True) for _ in range(3))
    grad = torch.randn(SENTENCES, HEADS, n, D_HEAD, **made)
    term = DepthScores(HEADS * D_HEAD, HEADS, DEPTHS, "key").to(**made)
    causal = torch.ones(n, n, dtype=torch.bool, device=options.device).tril()
    inputs = ScoreInputs(causal=causal, tape=tape[:, None].to(torch.uint8))  # as the model makes it
    key_map = torch.empty(0, **made)  # only terms in the hidden space look at it
    table = term.embedding.weight

    def no_tape() -> None:
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(mixed, (q, k, v), grad)

    def pushdown() -> None:
        mixed = attend(q, k, v, [term], key_map, inputs)
        torch.autograd.grad(mixed, (q, k, v, table), grad)

    def plain() -> None:
        mixed = plain_pushdown.attend(q, k, v, table, tape)
        torch.autograd.grad(mixed, (q, k, v, table), grad)

    return {"no tape": no_tape, "pushdown": pushdown, "plain": plain}


if __name__ == "__main__":
    main(__doc__, figures, repeats=15)
