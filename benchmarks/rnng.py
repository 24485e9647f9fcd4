"""RNNGs beside the released code (Noji and Oseki 2021): numbers with the same weights, and times.

    git clone https://github.com/aistairc/rnng-pytorch
    python benchmarks/rnng.py rnng-pytorch            # largest differences
    python benchmarks/rnng.py rnng-pytorch --times    # processor time of a training step and of a search

The released code is that of the fixed stack, on the CPU. Its training loss is over all actions, padding
included (``config.normalize = "all"``). Its search is given our sets of allowed actions, and room for all
hypotheses.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pdtools.models import build_model, make_config
from pdtools.models.rnng.model import RnngLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.options import SearchOptions
from pdtools.trees import Constituents

MODELS = ("rnng", "rnng-in-order")
COMPOSITIONS = ("lstm", "attention")
PAD, ROOT, EOS = 0, 1, 2


class Pair(NamedTuple):
    """A model of ours and the released one with its weights."""

    ours: RnngLM
    theirs: Any


def random_tree(rng: np.random.Generator, n: int, labels: int) -> Constituents:
    """A random tree over n tokens, with chains of unary constituents."""
    opens, closes = np.zeros((2, n), np.int32)
    found: list[int] = []

    def constituent(first: int, past: int, *, always: bool) -> None:
        if past - first == 1 and not always and rng.random() < 0.6:
            return
        for _ in range(1 + (rng.random() < 0.3) + (rng.random() < 0.1)):
            found.append(int(rng.integers(labels)))
            opens[first] += 1
            closes[past - 1] += 1
        if past - first > 1:
            number = int(rng.integers(2, min(4, past - first) + 1))
            cuts = np.sort(rng.choice(np.arange(first + 1, past), number - 1, replace=False))
            bounds = [first, *cuts.tolist(), past]
            for a, b in pairwise(bounds):
                constituent(a, b, always=False)

    constituent(0, n, always=True)
    return Constituents(np.array(found, np.int32), opens, closes)


def random_rows(
    number: int, lengths: Sequence[int], words: int, labels: int, seed: int = 0
) -> list[tuple[np.ndarray, Constituents]]:
    """Rows of shards: tokens with special ones, and trees."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(number):
        n = lengths[i % len(lengths)]
        tokens = np.array([ROOT, *rng.integers(3, 3 + words, n), EOS], np.int32)
        rows.append((tokens, random_tree(rng, n, labels)))
    return rows


def pair_of(
    released: Path,
    name: str,
    composition: str,
    *,
    words: int,
    labels: int,
    deviation: float = 0.3,
    seed: int = 0,
    **settings: Any,
) -> Pair:
    """Two models with the same random weights."""
    if str(released) not in sys.path:
        sys.path.insert(0, str(released))
    from action_dict import InOrderActionDict, TopDownActionDict
    from fixed_stack_in_order_models import FixedStackInOrderRNNG
    from fixed_stack_models import FixedStackRNNG

    torch.manual_seed(seed)
    special = {"vocab_size": 3 + words, "pad_id": PAD, "root_id": ROOT, "eos_id": EOS, "n_labels": labels}
    config = make_config(name, {**special, "composition": composition, **settings})
    ours = build_model(name, config)
    assert isinstance(ours, RnngLM)
    with torch.no_grad():  # with torch's own, much would hardly matter, such as the state in attention
        for parameter in ours.parameters():
            parameter.normal_(std=deviation)
    in_order = name == "rnng-in-order"
    actions = (InOrderActionDict if in_order else TopDownActionDict)([str(i) for i in range(labels)])
    theirs = (FixedStackInOrderRNNG if in_order else FixedStackRNNG)(
        actions,
        vocab=3 + words,
        padding_idx=PAD,
        w_dim=config.d_model,
        h_dim=config.d_model,
        num_layers=config.layers,
        dropout=config.dropout,
        attention_composition=composition == "attention",
        max_open_nts=config.max_open,
        max_cons_nts=config.max_chain,
    )
    theirs.load_state_dict(released_weights(ours.state_dict(), theirs.state_dict(), labels))
    return Pair(ours, theirs)


def released_weights(ours: dict[str, Tensor], theirs: dict[str, Tensor], labels: int) -> dict[str, Tensor]:
    """Our weights, or their gradients, by the released names."""
    named = {
        "emb.0.weight": "embedding.weight",
        "vocab_mlp.weight": "embedding.weight",
        "vocab_mlp.bias": "token_bias",
        "rnng.nt_emb.0": "label_embedding",
        "rnng.stack_rnn.lstm": "cells",
        "rnng.output.1": "output",
        "rnng.composition.V": "composition.keys",
        "rnng.composition.nt_emb2.0": "composition.label",
        "rnng.composition.nt_emb": "composition.query",
        "rnng.composition.gate.0": "composition.gate",
        "rnng.composition.output.0": "composition.output",
        "rnng.composition.output.1": "composition.output",
    }
    found = {}
    for name in theirs:
        if name == "rnng.initial_emb.0.weight":
            found[name] = ours["begin"][None]
        elif name.startswith("action_mlp"):
            mine = ours[name.replace("action_mlp", "action_head")]
            closers = len(mine) - labels - 2 + (len(mine) < len(theirs[name]))
            order = [*range(labels, labels + closers), *range(labels)]
            padding = mine[-1:] if len(mine) == len(theirs[name]) else torch.zeros_like(mine[:1])
            found[name] = torch.cat([padding, mine[labels + closers][None], mine[order]])
        elif ".rnn." in name:
            reverse = name.endswith("_reverse")
            part = name.split(".")[-1]
            lstm = f"composition.lstm.{part}"
            one_way = f"composition.{'backwards' if reverse else 'forwards'}.{part.removesuffix('_reverse')}"
            found[name] = ours[lstm if lstm in ours else one_way]
        else:
            prefix = next(p for p in named if name.startswith(p))
            mine = ours[named[prefix] + name[len(prefix) :]]
            # In-order there is one more label, which is never used.
            more = torch.zeros(len(theirs[name]) - len(mine), *mine.shape[1:])
            found[name] = torch.cat([mine, more])
    return found


def released_actions(pair: Pair, rows: Sequence[tuple[np.ndarray, Constituents]]) -> tuple[Tensor, Tensor]:
    """Words and actions as the released model takes them, padded."""
    ids, first = pair.ours.actions, pair.theirs.action_dict.nt_begin_id()
    x = torch.nn.utils.rnn.pad_sequence([torch.tensor(t[1:-1]).long() for t, _ in rows], batch_first=True)
    made = []
    for tokens, tree in rows:
        row = torch.tensor(pair.ours._actions_of(tokens[1:-1], tree)[1:])
        structure = torch.where(row < ids.first_closer, row - ids.tokens + first, 2 + row - ids.first_closer)
        made.append(structure.where(row >= ids.tokens, 1))
    return x, torch.nn.utils.rnn.pad_sequence(made, batch_first=True)


def difference_of_losses(pair: Pair, rows: Sequence[tuple[np.ndarray, Constituents]]) -> tuple[float, float]:
    """The largest differences of log p of actions, and of gradients, relative to the largest of a weight."""
    pair.ours.eval(), pair.theirs.eval()
    batch = pair.ours.pack(rows)
    x, actions = released_actions(pair, rows)
    ends = torch.ones_like(x, dtype=torch.bool)
    _, by_action, by_word, _ = pair.theirs(x, actions, subword_end_mask=ends)
    theirs = torch.zeros(actions.shape).masked_scatter(actions > 0, by_action)
    theirs = theirs.masked_scatter(actions == 1, theirs[actions == 1] + by_word)
    parts = pair.ours.forward_parts(batch)
    ours = -(parts.token_logprobs + parts.attach_logprobs)[:, 1:]
    theirs.sum().backward()
    ours.sum().backward()
    gradients = {name: p.grad for name, p in pair.ours.named_parameters()}
    wanted = {name: p.grad for name, p in pair.theirs.named_parameters()}
    mine = released_weights(gradients, wanted, pair.ours.config.n_labels)
    apart = max(float((mine[name] - grad).abs().max() / grad.abs().max()) for name, grad in wanted.items())
    return float((ours - theirs).abs().max().detach()), apart


def search_released(pair: Pair, row: np.ndarray, beam: int, word_beam: int) -> list[float]:
    """A_t of a string by the released word-synchronous search, with our sets of allowed actions."""
    theirs, ours = pair.theirs.eval(), pair.ours.eval()
    ids, first = ours.actions, theirs.action_dict.nt_begin_id()
    in_order, sums = ids.in_order, list[float]()
    n, order = len(row) - 2, [*range(ids.labels, ids.labels + ids.closers), *range(ids.labels)]

    def log_probs(stack: Any, beam_items: Any, next_x: Tensor | None) -> Tensor:
        previous, n_open = beam_items.prev_actions(), beam_items.nopen_parens
        read = stack.pointer  # tokens so far
        last = torch.where(previous >= first, ids.tokens + previous - first, ids.first_closer - 2 + previous)
        last = torch.where(previous == 1, 3, last)
        last = torch.where(beam_items.actions_pos == 0, ROOT, last)
        flat = (last.flatten(), n_open.flatten(), beam_items.ncons_nts.flatten())
        may = ours._allowed(*flat)
        mask = torch.cat(
            [torch.zeros_like(may.tokens)[:, None], may.tokens[:, None], may.structure[:, order]], 1
        )
        hidden = theirs.rnng.output(stack.hidden_head()[:, :, -1])
        logits = theirs.action_mlp(hidden).masked_fill(~mask, -torch.inf)
        found = logits.log_softmax(1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        over = (read == n).flatten()
        if in_order:
            found[~over, 3] = -torch.inf
        else:
            found[~over & (flat[1] == 1), 2] = -torch.inf
            found[over, first:] = -torch.inf
        found[over, 1] = -torch.inf
        if next_x is not None:
            words = theirs.vocab_mlp(hidden)
            words[:, [PAD, ROOT, EOS]] = -torch.inf
            found[:, 1] += words.log_softmax(1)[:, int(next_x)]
        active = beam_items.active_idx_mask().flatten()
        return found.masked_fill(~active[:, None], -torch.inf).view(*previous.shape, -1)

    def successors(x, ends, lengths, pointer, items, size, shift_size):  # type: ignore[no-untyped-def]
        found = log_probs(items.stack, items, x[:, pointer] if pointer < x.shape[1] else None)
        scores = found + items.gen_ll[..., None]
        return theirs.scores_to_successors(x, lengths, pointer, items, scores, size, shift_size)

    theirs.get_successors = successors
    make = type(theirs).build_beam_items

    def build(x, size, shift_size, **_: Any):  # type: ignore[no-untyped-def]
        items, _ = make(theirs, x, size, shift_size, stack_size_bound=0)
        _, done = make(theirs, x, 20 * size, shift_size, stack_size_bound=0)
        return items, done

    theirs.build_beam_items = build
    from fixed_stack_models import BeamItems

    plain = BeamItems.marginal_probs

    def noted(self: Any) -> Tensor:
        found: Tensor = plain(self)
        sums.append(float(found[0]))
        return found

    BeamItems.marginal_probs = noted
    x = torch.tensor(row[1:-1]).long()[None]
    try:
        with torch.no_grad():
            theirs.word_sync_beam_search(x, torch.ones_like(x, dtype=torch.bool), beam, word_beam, 0)
    finally:
        BeamItems.marginal_probs = plain
        del theirs.get_successors, theirs.build_beam_items
    return sums


def difference_of_searches(pair: Pair, rows: Sequence[np.ndarray], beam: int, word_beam: int) -> float:
    """The largest difference of log p of prefixes and strings that a search finds."""
    options = SearchOptions(beam=beam, word_beam=word_beam, fast_track=0)
    found = word_synchronous_search(pair.ours.eval(), rows, search=options)
    assert all(np.isfinite(one.prefix_logprobs).all() for one in found), "too narrow: a search finds no tree"
    return max(
        float(np.abs(one.prefix_logprobs[1:] - search_released(pair, row, beam, word_beam)).max())
        for one, row in zip(found, rows, strict=True)
    )


def main() -> None:
    """Print a JSON line for each comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("released", type=Path)
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    for name in MODELS:
        for composition in COMPOSITIONS:
            for line in (times if options.times else differences)(options.released, name, composition):
                print(json.dumps({"model": name, "composition": composition, **line}), flush=True)


def differences(released: Path, name: str, composition: str) -> Iterator[dict[str, Any]]:
    """Log p of 60 random trees, gradients, and searches of five strings."""
    rows = random_rows(60, (1, 1, 2, 3, 5, 8, 13, 21), words=50, labels=5)
    pair = pair_of(released, name, composition, words=50, labels=5, d_model=24, normalize="all")
    losses, gradients = difference_of_losses(pair, rows)
    pair = pair_of(released, name, composition, words=50, labels=5, d_model=24, max_open=6)
    searches = difference_of_searches(pair, [row for row, _ in rows[1:6]], 100, 10)
    yield {"log p": losses, "gradients": gradients, "search": searches}


def times(released: Path, name: str, composition: str) -> Iterator[dict[str, Any]]:
    """Processor time of a step on 64 sentences of 24 words, and of a search at 100/10/5, alternating."""
    torch.set_num_threads(1)
    words, labels = 10_000, 26
    settings = {"words": words, "labels": labels, "d_model": 256, "layers": 2, "deviation": 0.05}
    pair = pair_of(released, name, composition, normalize="all", **settings)
    rows = random_rows(64, (24,), words, labels)

    def ours() -> None:
        pair.ours.zero_grad()
        loss = pair.ours.train().loss(pair.ours.pack(rows))
        (loss.sums["token_nll"] + loss.sums["attachment_nll"]).backward()

    x, actions = released_actions(pair, rows)

    def theirs() -> None:
        pair.theirs.zero_grad()
        pair.theirs.train()(x, actions, subword_end_mask=torch.ones_like(x, dtype=torch.bool))[0].backward()

    yield {"step": _alternate(ours, theirs, 3)}
    pair = pair_of(released, name, composition, **settings)
    ids = rows[0][0]
    widths = SearchOptions(beam=100, word_beam=10, fast_track=5)
    x = x[:1]

    def search() -> None:
        word_synchronous_search(pair.ours.eval(), [ids], search=widths)

    def released_search() -> None:
        with torch.no_grad():
            pair.theirs.word_sync_beam_search(x, torch.ones_like(x, dtype=torch.bool), 100, 10, 5)

    yield {"search": _alternate(search, released_search, 2)}


def _alternate(ours: Callable[[], None], theirs: Callable[[], None], rounds: int) -> dict[str, float]:
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for name, work in (("ours", ours), ("theirs", theirs)):
            begin = time.process_time()
            work()
            spent[name].append(time.process_time() - begin)
    best = {name: min(values) for name, values in spent.items()}
    return {**{k: round(v, 3) for k, v in best.items()}, "ratio": round(best["ours"] / best["theirs"], 3)}


if __name__ == "__main__":
    main()
