"""RNNGs, action by action of one row, with lists for stacks and formulas written out; random trees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdtools.models import build_model, make_config
from pdtools.models.rnng.model import RnngLM
from pdtools.trees import Constituents

NAMES = ("rnng", "rnng-in-order")
COMPOSITIONS = ("lstm", "attention")
EACH = list(itertools.product(NAMES, COMPOSITIONS))


def rnng(
    name: str = "rnng",
    composition: str = "lstm",
    *,
    words: int = 3,
    labels: int = 2,
    seed: int = 0,
    **settings: Any,
) -> RnngLM:
    """A model whose tokens are 3, 4, …, after the special ones."""
    torch.manual_seed(seed)
    special = {"vocab_size": 3 + words, "pad_id": 0, "root_id": 1, "eos_id": 2, "n_labels": labels}
    shape = {"d_model": 8, "layers": 2, "max_open": 2, "max_chain": 2, "composition": composition}
    model = build_model(name, make_config(name, {**special, **shape, **settings})).eval()
    assert isinstance(model, RnngLM)
    with torch.no_grad():  # with torch's own, much would hardly matter, such as the state in attention
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model


def random_rows(number: int, seed: int = 0, labels: int = 2) -> list[tuple[np.ndarray, Constituents]]:
    """Rows of tokens 3, 4 and 5 with trees of up to three levels, unary chains among them."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(number):
        n = 1 + i % 6
        nodes: list[tuple[int, int]] = [(0, n)]
        for _ in range(int(rng.integers(0, 4))):
            first, past = nodes[int(rng.integers(len(nodes)))]
            a, b = sorted(rng.choice(np.arange(first, past + 1), 2, replace=False).tolist())
            if all(b <= x or y <= a or (x <= a and b <= y) or (a <= x and y <= b) for x, y in nodes):
                nodes.append((a, b))
        nodes.sort(key=lambda node: (node[0], -node[1]))
        opens, closes = (
            np.bincount([each(node) for node in nodes], minlength=n).astype(np.int32)
            for each in (lambda node: node[0], lambda node: node[1] - 1)
        )
        tokens = np.array([1, *rng.integers(3, 6, n), 2], np.int32)
        rows.append(
            (tokens, Constituents(rng.integers(0, labels, len(nodes)).astype(np.int32), opens, closes))
        )
    return rows


def plain_actions(tokens: Sequence[int], tree: Constituents, model: RnngLM) -> list[str | int]:
    """Actions by names: a label's number with a parenthesis opens, ``)`` closes, ``.`` ends; by recursion."""
    n, nodes, labels = len(tokens), list[Any](), iter(tree.labels.tolist())
    path: list[Any] = []
    root: list[Any] = []
    for k in range(n):
        for _ in range(int(tree.opens[k])):
            node: list[Any] = [f"({next(labels)}"]
            (path[-1] if path else root).append(node)
            path.append(node)
        path[-1].append(tokens[k])
        for _ in range(int(tree.closes[k])):
            path.pop()
    del nodes

    def written(node: Any) -> Iterator[str | int]:
        if not isinstance(node, list):
            yield node
            return
        opener, *children = node
        first = 1
        while (
            first < len(children)
            and not isinstance(children[first], list)
            and model.continuing[children[first]]
        ):
            first += 1
        if model.actions.in_order:
            for child in children[:first]:
                yield from written(child)
            yield opener
            rest = children[first:]
        else:
            yield opener
            rest = children
        for child in rest:
            yield from written(child)
        yield ")"

    found = list(written(root[0]))
    return [*found, "."] if model.actions.in_order else found


def legal(before: Sequence[str | int], model: RnngLM) -> set[str]:
    """Actions that may follow a prefix: "(", ")", ".", a word and the rest of one, by names."""
    config, in_order = model.config, model.actions.in_order
    opened = [isinstance(action, str) and action.startswith("(") for action in before]
    n_open = sum(opened) - before.count(")")
    chain = 0
    for i, action in enumerate(before):
        if opened[i]:
            chain += 1
        elif not (in_order and action == ")" and opened[i - 1]):
            chain = 0
    last_opens = bool(before) and opened[-1]
    found = set()
    if n_open < config.max_open and chain < config.max_chain:
        if in_order:
            found |= {"("} if before and not last_opens else set()
        elif n_open or not before:
            found.add("(")
    if n_open and (in_order or not last_opens):
        found.add(")")
    if in_order and n_open == 0 and before and before[-1] == ")":
        found.add(".")
    if n_open or (in_order and not before):
        found.add("word")
    if before and isinstance(before[-1], int):
        found.add("rest")
    return found


def plain_logprobs(
    model: RnngLM, actions: Sequence[str | int], weighed: list[Tensor] | None = None
) -> Tensor:
    """Log-probabilities of a row's actions, those of tokens with GEN's: (N,).

    Weights of children, by attention, are appended to ``weighed`` as constituents close.
    """
    w, config, ids = dict(model.named_parameters()), model.config, model.actions
    zeros = torch.zeros(config.layers, config.d_model)
    stack: list[Any] = [(w["begin"], *_cells(w, w["begin"], zeros, zeros))]
    open_: list[tuple[int, int]] = []  # places of the first element and of the opener
    found, before = [], list[str | int]()
    names = [*(f"({i}" for i in range(config.n_labels)), ")", *("." if ids.in_order else ""), "word"]
    for action in actions:
        top = stack[-1][1][-1]
        out = (w["output.weight"] @ top + w["output.bias"]).clamp(min=0)
        may = legal(before, model)
        scores = w["action_head.weight"] @ out + w["action_head.bias"]
        if config.normalize == "allowed":
            generates = "word" in may or ("rest" in may and bool(model.continuing.any()))
            kept = [(generates if name == "word" else name[0] in may) for name in names]
            scores = torch.where(torch.tensor(kept), scores, -torch.inf)
        scores = scores.log_softmax(0)
        if isinstance(action, int):
            words = w["embedding.weight"] @ out + w["token_bias"]
            if config.normalize == "allowed":
                kept = [
                    token > 2 and ("rest" if model.continuing[token] else "word") in may
                    for token in range(config.vocab_size)
                ]
                words = torch.where(torch.tensor(kept), words, -torch.inf)
            found.append(scores[names.index("word")] + words.log_softmax(0)[action])
            _push(w, stack, len(stack), w["embedding.weight"][action])
        elif action == ".":
            found.append(scores[names.index(".")])
        elif action == ")":
            found.append(scores[names.index(")")])
            place, opener = open_.pop()
            children = [v for i, (v, *_) in enumerate(stack) if i >= place and i != opener]
            label = int(str(opened_label(before)))
            vector = _compose(w, config.composition, children, stack[opener][0], label, out, weighed)
            _push(w, stack, place, vector)
        else:
            found.append(scores[names.index(str(action))])
            place = len(stack)
            if ids.in_order:
                place -= 1
                while isinstance(before[-1], int) and model.continuing[before[place - len(stack)]]:
                    place -= 1
            open_.append((place, len(stack)))
            _push(w, stack, len(stack), w["label_embedding.weight"][int(str(action)[1:])])
        before.append(action)
    return torch.stack(found)


def opened_label(before: Sequence[str | int]) -> int:
    """The label of the innermost open constituent."""
    closed = 0
    for action in reversed(before):
        closed += action == ")"
        if isinstance(action, str) and action.startswith("("):
            if not closed:
                return int(action[1:])
            closed -= 1
    raise ValueError("nothing is open")


def _push(w: dict[str, Tensor], stack: list[Any], place: int, vector: Tensor) -> None:
    _, hidden, memory = stack[place - 1]
    stack[place:] = [(vector, *_cells(w, vector, hidden, memory))]


def _cells(w: dict[str, Tensor], x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    new = []
    for layer in range(len(hidden)):
        x, c = _lstm(w, f"cells.{layer}.", "", x, hidden[layer], memory[layer])
        new.append((x, c))
    return torch.stack([h for h, _ in new]), torch.stack([c for _, c in new])


def _lstm(
    w: dict[str, Tensor], name: str, suffix: str, x: Tensor, h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    gates = w[f"{name}weight_ih{suffix}"] @ x + w[f"{name}bias_ih{suffix}"]
    gates = gates + w[f"{name}weight_hh{suffix}"] @ h + w[f"{name}bias_hh{suffix}"]
    i, f, g, o = gates.chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _run(w: dict[str, Tensor], name: str, suffix: str, read: Sequence[Tensor]) -> list[Tensor]:
    h = c = torch.zeros_like(read[0])
    found = []
    for x in read:
        h, c = _lstm(w, name, suffix, x, h, c)
        found.append(h)
    return found


def _compose(
    w: dict[str, Tensor],
    form: str,
    children: list[Tensor],
    opener: Tensor,
    label: int,
    out: Tensor,
    weighed: list[Tensor] | None,
) -> Tensor:
    if form == "lstm":
        both = [
            _run(w, "composition.forwards.", "_l0", [opener, *children])[-1],
            _run(w, "composition.backwards.", "_l0", [opener, *children[::-1]])[-1],
        ]
        read = torch.cat(both)
    else:
        there = _run(w, "composition.lstm.", "_l0", children)
        back = _run(w, "composition.lstm.", "_l0_reverse", children[::-1])[::-1]
        states = [torch.cat(each) for each in zip(there, back, strict=True)]
        query = torch.cat([w["composition.query.weight"][label], out])
        weights = torch.stack([(w["composition.keys.weight"] @ h) @ query for h in states]).softmax(0)
        if weighed is not None:
            weighed.append(weights)
        mixed = sum((a * h for a, h in zip(weights, states, strict=True)), torch.zeros_like(states[0]))
        t = w["composition.label.weight"][label]
        gate = (w["composition.gate.weight"] @ torch.cat([t, mixed]) + w["composition.gate.bias"]).sigmoid()
        read = gate * t + (1 - gate) * mixed
    return (w["composition.output.weight"] @ read + w["composition.output.bias"]).clamp(min=0)
