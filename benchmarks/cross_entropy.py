"""Cross-entropy over a vocabulary, forward and backward, block by block and of all logits at once.

    python benchmarks/cross_entropy.py [--device cuda]

In bf16 as in training: in mixed precision. On a GPU both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from measure import Figure, Options, Run, main, peak_memory, seconds
from torch import Tensor

from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy

POSITIONS = 512
WIDTH = 256
VOCABULARIES = (8_000, 50_257)
Loss = Callable[[Tensor, Tensor, None, Tensor], Tensor]


def of_all_logits(hidden: Tensor, weight: Tensor, bias: None, targets: Tensor) -> Tensor:
    """Cross-entropy by the plain formulation, of all logits at once."""
    return F.cross_entropy(F.linear(hidden, weight, bias).float(), targets, reduction="none")


def step(loss: Loss, given: tuple[Tensor, Tensor, Tensor], *, narrow: bool) -> Run:
    """Return a run of forward and backward."""
    hidden, weight, targets = given

    def run() -> None:
        with torch.autocast(hidden.device.type, torch.bfloat16, enabled=narrow):
            found = loss(hidden, weight, None, targets)
        found.mean().backward()
        hidden.grad = weight.grad = None

    return run


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by vocabulary and precision."""
    for vocabulary in VOCABULARIES:
        for precision in ("float32", "bf16"):
            hidden = torch.randn(POSITIONS, WIDTH, requires_grad=True, device=options.device)
            # Logits as of a model: where they lie further apart, probabilities below the normal numbers are
            # what takes the time of all logits at once (0.62 × on an Intel Xeon, 1.27 × on an AMD EPYC).
            weight = torch.randn(vocabulary, WIDTH, device=options.device).div_(WIDTH**0.5).requires_grad_()
            targets = torch.randint(vocabulary, (POSITIONS,), device=options.device)

            runs = {
                name: step(loss, (hidden, weight, targets), narrow=precision == "bf16")
                for name, loss in (("all logits", of_all_logits), ("in blocks", linear_cross_entropy))
            }
            settings = {
                "positions": POSITIONS,
                "d_model": WIDTH,
                "vocabulary": vocabulary,
                **options.settings,
            }
            times = seconds(runs, options)
            memory = {name: peak_memory(run, options.device) for name, run in runs.items()}
            for what, values, unit, bar in (("time", times, "s", 1.1), ("peak memory", memory, "MiB", 1.0)):
                yield Figure(
                    name=f"cross-entropy, {vocabulary} classes, {precision}, {what}",
                    value=values["in blocks"],
                    unit=unit,
                    ratio=values["in blocks"] / values["all logits"],
                    against="all logits",
                    bar=bar,
                    settings=settings,
                )


if __name__ == "__main__":
    main(__doc__, figures, repeats=7)
