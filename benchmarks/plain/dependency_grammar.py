"""A Dependency Transformer Grammar as one would write it down: one prefix at a time, read from its start.

The stack is a list of items, each with its positions and the last token of its head. A dictionary has the
relative position of each visible key. Nothing is kept from one action to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

Actions = Sequence[int]


@dataclass
class Item:
    """An item on the stack: its positions, and the last token of its head."""

    positions: list[int]
    head: int


@dataclass
class Prefix:
    """The positions of a prefix.

    Attributes:
        inputs: the numbers whose embeddings are added up at each.
        seen: for each the relative positions of what it sees, by position.
        stack: the items there after the last one, the start at the bottom.
        after_token: whether the last one is a token.
    """

    inputs: list[list[int]] = field(default_factory=list)
    seen: list[dict[int, int]] = field(default_factory=list)
    stack: list[Item] = field(default_factory=list)
    after_token: bool = False

    def _add(self, inputs: list[int], seen: dict[int, int]) -> None:
        self.seen.append({**seen, len(self.inputs): 0})
        self.inputs.append(inputs)

    def _on_stack(self) -> dict[int, int]:
        top = len(self.stack) - 1
        return {j: top - k for k, item in enumerate(self.stack) for j in item.positions}

    def generate(self, token: int, *, continues: bool) -> None:
        """Read a token, or the start."""
        if not continues:
            self.stack.append(Item([], token))
        top = self.stack[-1]
        top.positions.append(len(self.inputs))
        top.head = token
        self._add([token], self._on_stack())
        self.after_token = True

    def arc(self, action: int, *, left: bool) -> None:
        """Read left_arc or right_arc: COMPOSE, then STACK."""
        top, second = self.stack.pop(), self.stack.pop()
        head, dependent = (top, second) if left else (second, top)
        seen = dict.fromkeys(head.positions, 0) | dict.fromkeys(dependent.positions, -1)
        self.stack.append(Item([len(self.inputs)], head.head))
        self._add([action, head.head], seen)
        self._add([action, head.head], self._on_stack())
        self.after_token = False


class Network:
    """log p of the next action, from the weights of a model with norms before its layers.

    Actions are numbered: V tokens, pop_root, left_arc, right_arc.
    """

    def __init__(
        self, weights: dict[str, Tensor], *, heads: int, continues: Sequence[bool], special: Sequence[int]
    ) -> None:
        self.weights = {name: weight.double() for name, weight in weights.items()}
        self.heads, self.continues, self.special = heads, continues, special
        self.layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))

    def _linear(self, name: str, x: Tensor) -> Tensor:
        found = self.weights[f"{name}.weight"] @ x
        return found + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else found

    def _norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean()
        scaled = centred / (centred.square().mean() + 1e-5).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @staticmethod
    def _gelu(x: Tensor) -> Tensor:
        return x / 2 * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())

    def _distance(self, layer: str, distance: int, d: int) -> Tensor:
        distance = min(max(distance, -1), 62)
        angles = [distance * 10000.0 ** (-i / d) for i in range(0, d, 2)]
        waves = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        return self._linear(f"{layer}.distance_map", torch.tensor(waves, dtype=torch.float64))

    def _attention(self, layer: int, i: int, xs: list[Tensor], seen: dict[int, int]) -> Tensor:
        name = f"blocks.{layer}.attention"
        d = len(xs[i])
        size = d // self.heads
        of = {j: self._linear(f"{name}.qkv", xs[j]).split(d) for j in seen}
        r = {j: self._distance(f"{name}.terms.0", distance, d) for j, distance in seen.items()}
        mixed = []
        for h in range(self.heads):
            part = slice(h * size, (h + 1) * size)
            u, v = (self.weights[f"{name}.terms.0.{kind}_bias"][h, 0] for kind in ("content", "position"))
            q = of[i][0][part]
            scores = [((q + u) @ of[j][1][part] + (q + v) @ r[j][part]) / math.sqrt(size) for j in seen]
            shares = torch.stack(scores).softmax(0)
            mixed.append(sum(share * of[j][2][part] for share, j in zip(shares, seen, strict=True)))
        return self._linear(f"{name}.output", torch.cat(mixed))

    def hidden(self, prefix: Prefix) -> Tensor:
        """The final state of the last position."""
        table = self.weights["embedding.weight"]
        xs = [table[inputs].sum(0) for inputs in prefix.inputs]
        for layer in range(self.layers):
            normed = [self._norm(f"blocks.{layer}.attention_norm", x) for x in xs]
            xs = [x + self._attention(layer, i, normed, prefix.seen[i]) for i, x in enumerate(xs)]
            for i, x in enumerate(xs):
                inner = self._linear(
                    f"blocks.{layer}.feed_forward.0", self._norm(f"blocks.{layer}.feed_forward_norm", x)
                )
                xs[i] = x + self._linear(f"blocks.{layer}.feed_forward.2", self._gelu(inner))
        return self._norm("final_norm", xs[-1])

    def read(self, actions: Actions, start: int) -> Prefix:
        """The prefix of actions without the start, arcs once."""
        prefix, n = Prefix(), len(self.continues)
        prefix.generate(start, continues=False)
        for action in actions:
            if action < n:
                prefix.generate(action, continues=self.continues[action])
            else:
                prefix.arc(action, left=action == n + 1)
        return prefix

    def next_logprobs(self, actions: Actions, start: int) -> list[float]:
        """log p of every action after others; -inf of what is not allowed."""
        prefix, n = self.read(actions, start), len(self.continues)
        hidden, words = self.hidden(prefix), len(prefix.stack) - 1
        logits = self._linear("action_head.2", self._gelu(self._linear("action_head.0", hidden)))
        arcs = {1: logits[0], 2: logits[1]} if words > 1 else {}
        total = torch.stack([*arcs.values(), logits[2]]).logsumexp(0)
        tokens = [t for t in range(n) if t not in self.special]
        after_token = prefix.after_token and words > 0
        tokens = [t for t in tokens if after_token or not self.continues[t]]
        if words == 1:
            tokens.append(n)  # pop_root
        every = self.weights["embedding.weight"][: n + 1] @ hidden
        found = [-math.inf] * (n + 3)
        for t in tokens:
            found[t] = float(logits[2] - total + every[t] - every[tokens].logsumexp(0))
        for place, logit in arcs.items():
            found[n + place] = float(logit - total)
        return found

    def opened(self, action: int) -> int:
        """How an action changes the number of words on the stack."""
        return -1 if action >= len(self.continues) else int(not self.continues[action])
