"""A training step of GiLT beside one of the base transformer, trunk alike; attention with three tapes or one.

    python benchmarks/gilt_step.py

Both have relative positions. Every token is a word, the most that the scorer can have to do: its cost grows
with the square of the words, and of its width. Graphs are trees whose arcs are mostly short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, seconds
from train_step import TRUNK

from pdtools.models import Batch, LanguageModel, build_model, make_config
from pdtools.models.dependency.batch import ArcBatch
from pdtools.models.dependency.model import GraphScores
from pdtools.models.dependency.scorer import VALUES
from pdtools.models.transformer.backends import attend
from pdtools.models.transformer.score_terms import DepthScores, RelativePositions, ScoreInputs, ScoreTerm
from pdtools.trees.graphs import Graph

SENTENCES, N = 8, 128
WIDTHS = {0: None, 32: None, 16: 1.6}  # bars
TAPES_BAR = 1.3
HEADS, D_HEAD = 4, 64


def random_tree(m: int, random: np.random.Generator) -> Graph:
    """Arcs to words nearby, to the right or to the left, and no cycles."""
    heads = np.zeros(m, dtype=np.int64)
    order = random.permutation(m)
    rank = np.argsort(order)
    for word in order[1:]:
        higher = np.flatnonzero(rank < rank[word])
        heads[word] = higher[np.abs(higher - word).argmin()] + 1
    return Graph.of_heads(heads)


def batches(options: Options) -> tuple[ArcBatch, Batch]:
    """The same tokens with graphs, and without."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(SENTENCES):
        tokens = random.integers(3, TRUNK["vocab_size"], N - 2)
        row = np.concatenate([[ROOT], tokens, [EOS]]).astype(np.int32)
        rows.append((row, random_tree(N - 2, random)))
    graphs = ArcBatch.of_rows(rows, np.ones(TRUNK["vocab_size"], dtype=bool), ROOT, PAD).to(options.device)
    names = ("tokens", "attach", "lengths")
    return graphs, Batch(**{name: getattr(graphs, name) for name in names})


def step(model: LanguageModel, batch: Batch) -> Run:
    """Forward and backward."""

    def run() -> None:
        torch.stack([each.float() for each in model.loss(batch).sums.values()]).sum().backward()
        model.zero_grad(set_to_none=True)

    return run


def figures(options: Options) -> Iterator[Figure]:
    """Times of steps, and of attention."""
    graphs, plain = batches(options)
    trunk = {**TRUNK, "positions": "relative"}
    settings: dict[str, Any] = {
        "sentences": SENTENCES,
        "positions_per_sentence": N,
        **trunk,
        **options.settings,
    }

    def model_of(name: str, **more: Any) -> LanguageModel:
        model = build_model(name, make_config(name, {**trunk, **more}))
        return model.to(options.device, options.dtype).train()

    runs = {"base": step(model_of("transformer"), plain)}
    for width in WIDTHS:
        runs[f"scorer_width {width or 'd_model'}"] = step(model_of("gilt", scorer_width=width), graphs)
    times = seconds(runs, options)
    for (name, value), bar in zip(times.items(), (None, *WIDTHS.values()), strict=True):
        yield Figure(
            name=f"training step of GiLT, n {N}, {name}",
            value=value,
            unit="s",
            ratio=None if name == "base" else value / times["base"],
            against=None if name == "base" else "base",
            bar=bar,
            settings=settings,
        )
    times = seconds(attention(graphs, options), options)
    for name, value in times.items():
        yield Figure(
            name=f"attention, n {N}, {name}",
            value=1000 * value,
            unit="ms",
            ratio=value / times["one tape"] if name == "three tapes" else None,
            against="one tape" if name == "three tapes" else None,
            bar=TAPES_BAR if name == "three tapes" else None,
            settings={"heads": HEADS, "d_head": D_HEAD, **options.settings},
        )


def attention(batch: ArcBatch, options: Options) -> dict[str, Run]:
    """Attention with relative positions and the tapes of graphs, or the first tape alone."""
    torch.manual_seed(0)
    made: dict[str, Any] = {"device": options.device, "dtype": options.dtype}
    q, k, v, grad = (torch.randn(SENTENCES, HEADS, N, D_HEAD, **made, requires_grad=True) for _ in range(4))
    d_model = HEADS * D_HEAD
    positions = RelativePositions(d_model, HEADS).to(**made)
    graph = GraphScores(d_model, HEADS, torch.nn.Embedding(3 * VALUES, 256).to(**made)).to(**made)
    graph.share_bias(positions)
    places, rows = batch.at_tokens()
    before = int((rows < 2 * VALUES).sum())  # the rows of distances, the most, are last
    one = DepthScores(d_model, HEADS, len(rows) - before, "hidden").to(**made)
    key_map = torch.randn(d_model, d_model, **made)
    causal = torch.ones(N, N, dtype=torch.bool, device=options.device).tril()
    distances = places[:, 2:].masked_fill(places[:, 2:] < before, before) - before
    inputs = ScoreInputs(causal=causal, tape=distances, graph=places, graph_rows=rows)

    def run_of(term: ScoreTerm) -> Run:
        learned = [*positions.parameters(), *term.parameters()]

        def run() -> None:
            mixed = attend(q, k, v, [positions, term], key_map, inputs)
            torch.autograd.grad(mixed, (q, k, v, *learned), grad.detach())

        return run

    return {"one tape": run_of(one), "three tapes": run_of(graph)}


if __name__ == "__main__":
    main(__doc__, figures, repeats=7)
