"""Training steps (forward and backward) with TreeReg's loss at every step, and at every tenth, and without.

    python benchmarks/treereg.py [--device cuda --dtype bf16]

The model is the base transformer of ``train_step.py``; the loss is on the output of three quarters of its
layers, as in the paper. The training loop's counts before such a step are part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from measure import Figure, Options, Run, main, peak_memory, seconds, treebank_batch
from torch import Tensor
from train_step import CPU, GPU

from pdtools.models import Batch, TransformerLM, build_model, make_config
from pdtools.models.treereg import count_trees

LENGTH = 128
EVERY = 10
# The loss at every step, and at every tenth.
BARS = {1: 1.15, EVERY: 1.03}


def with_edges(batch: Batch) -> Batch:
    """A batch whose tokens are words."""
    edges = batch.attached()
    last = (batch.lengths - 2)[:, None]
    return replace(batch, edges=edges & (torch.arange(edges.shape[1], device=edges.device) < last))


def loss(model: TransformerLM, batch: Batch) -> Tensor:
    """The loss that training minimizes."""
    parts = model.loss(batch)
    if "treereg" not in parts.sums:
        return parts.sums["token_nll"]
    trees = count_trees(batch.attach, batch.lengths, batch.edges)
    return parts.sums["token_nll"] + (parts.counts["tokens"] / trees * parts.sums["treereg"]).float()


def steps(model: TransformerLM, batches: list[Batch]) -> Run:
    """Forward and backward passes, one after the other."""

    def run() -> None:
        for batch in batches:
            loss(model, batch).backward()
            model.zero_grad(set_to_none=True)

    return run


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory."""
    setting = GPU if options.device.startswith("cuda") else CPU
    layers = setting.trunk["layers"]
    trunk = {**setting.trunk, "treereg_layer": max(1, 3 * layers // 4)}
    model = build_model("transformer", make_config("transformer", trunk))
    assert isinstance(model, TransformerLM)
    model = model.to(options.device, options.dtype).train()
    plain = treebank_batch(setting.sentences, LENGTH, trunk["vocab_size"]).to(options.device)
    parsed = with_edges(plain)
    settings = {
        "sentences": setting.sentences,
        "positions_per_sentence": LENGTH,
        **trunk,
        **options.settings,
    }
    for every, bar in BARS.items():
        runs = {
            "without": steps(model, [plain] * every),
            "with": steps(model, [plain] * (every - 1) + [parsed]),
        }
        times = seconds(runs, options)
        at = "every step" if every == 1 else f"every {every}th step"
        yield Figure(
            name=f"TreeReg, n {LENGTH}, at {at}, time of {every}",
            value=times["with"],
            unit="s",
            ratio=times["with"] / times["without"],
            against="without",
            bar=bar,
            settings=settings,
        )
    memory = [peak_memory(steps(model, [batch]), options.device) for batch in (plain, parsed)]
    yield Figure(
        name=f"TreeReg, n {LENGTH}, peak memory",
        value=memory[1],
        unit="MiB",
        ratio=memory[1] / memory[0],
        against="without",
        settings=settings,
    )


if __name__ == "__main__":
    main(__doc__, figures, repeats=5)
