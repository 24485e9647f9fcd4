"""GiLT's network from its specification, query by query and key by key, with a model's weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MOST = 150
Features = dict[int, tuple[int, int, int]]


def sinusoid(distance: int, width: int) -> Tensor:
    """Sines, then cosines."""
    rates = [10000 ** (-2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(distance * r) for r in rates] + [math.cos(distance * r) for r in rates])


class PlainNetwork:
    """The functions that :mod:`benchmarks.plain.gilt` needs; for a pre-norm model in double precision."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.w = {name: each.detach() for name, each in model.state_dict().items()}
        self._kept: dict[Any, list[list[Tensor]]] = {}

    def tokens(self, read: Sequence[Any]) -> list[float]:
        """The log p of all tokens but the root and padding."""
        x = self._norm("final_norm", self._layers(read)[-1][-1])
        logits = self.w["embedding.weight"] @ x
        logits[[self.config.pad_id, self.config.root_id]] = -math.inf
        return logits.log_softmax(0).tolist()

    def counts(self, read: Sequence[Any], token: int, features: Features) -> list[float]:
        """The log p of 0, 1, … arcs, the numbers that the word may have, or all."""
        t = read[-1].word + 1
        heads, dependents = self._vectors(read, token, features)
        w = self.w["scorer.count_weight"]
        pairs = [(j, t) for j in range(t)] + [(t, j) for j in range(1, t)] + [(t, t)]
        mixed = sum(heads[h] * w * dependents[d] for h, d in pairs) / math.sqrt(2 * t)
        logits = self.w["scorer.count.weight"] @ mixed + self.w["scorer.count.bias"]
        legal = min(29, 2 * t - 1) + 1 if self.config.counts == "masked" else None
        return logits[:legal].log_softmax(0).tolist()

    def scores(self, read: Sequence[Any], token: int, features: Features) -> Mapping[tuple[int, int], float]:
        """Scores of candidates, and of the word with itself."""
        t = read[-1].word + 1
        heads, dependents = self._vectors(read, token, features)
        w = self.w["scorer.arc_weight"]
        pairs = [(j, t) for j in range(t)] + [(t, j) for j in range(1, t)] + [(t, t)]
        return {(h, d): float((heads[h] * w * dependents[d]).sum()) for h, d in pairs}

    def _vectors(
        self, read: Sequence[Any], token: int, features: Features
    ) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """H and C of nodes 0 to t."""
        t = read[-1].word + 1
        z = {0: self.w["scorer.root"]}
        for k, each in enumerate(read):
            if k and each.word != read[k - 1].word:
                z[each.word] = self._z(read[:k], each.token)
        z[t] = self._z(read, token)
        table = self.w["scorer.embedding.weight"].view(3, MOST + 1, -1)
        found = []
        for role in ("head", "dependent"):
            name, vectors = f"scorer.{role}", {}
            for j in range(t + 1):
                values = (0, 0, 0) if j == t else features[j]
                phi = torch.cat([table[f][min(MOST, value)] for f, value in enumerate(values)])
                pi = sinusoid(t - j, self.config.d_model).to(phi.dtype)
                x = self._network(f"{name}.word", z[j])
                x = x + self.w[f"{name}.distance.weight"] @ pi + self.w[f"{name}.features.weight"] @ phi
                vectors[j] = self._network(f"{name}.pair", x)
            found.append(vectors)
        return found[0], found[1]

    def _z(self, read: Sequence[Any], token: int) -> Tensor:
        """The features of a word whose first token follows the tokens read."""
        layers, n = self._layers(read), self.config.layers
        lower, upper = min(n, n // 2 + 1), max(1, n - 1)
        return torch.cat([layers[lower][-1], layers[upper][-1], self.w["embedding.weight"][token]])

    def _layers(self, read: Sequence[Any]) -> list[list[Tensor]]:
        """The input of the first layer and the outputs of all, at each position."""
        key = tuple((each.token, each.word, tuple(sorted(each.features.items()))) for each in read)
        if key not in self._kept:
            x = [self.w["embedding.weight"][each.token] for each in read]
            self._kept[key] = [x]
            for layer in range(self.config.layers):
                x = self._block(f"blocks.{layer}", x, read)
                self._kept[key].append(x)
        return self._kept[key]

    def _block(self, name: str, x: list[Tensor], read: Sequence[Any]) -> list[Tensor]:
        y = self._attend(
            f"{name}.attention", [self._norm(f"{name}.attention_norm", each) for each in x], read
        )
        x = [a + b for a, b in zip(x, y, strict=True)]
        return [each + self._feed_forward(name, each) for each in x]

    def _feed_forward(self, name: str, x: Tensor) -> Tensor:
        x = self._linear(f"{name}.feed_forward.0", self._norm(f"{name}.feed_forward_norm", x))
        return self._linear(f"{name}.feed_forward.2", F.gelu(x, approximate="tanh"))

    def _attend(self, name: str, x: list[Tensor], read: Sequence[Any]) -> list[Tensor]:
        d, heads = self.config.d_model, self.config.heads
        size = d // heads
        q, k, v = (
            [
                self.w[f"{name}.qkv.weight"][i * d : (i + 1) * d] @ each
                + self.w[f"{name}.qkv.bias"][i * d : (i + 1) * d]
                for each in x
            ]
            for i in range(3)
        )
        key_map = self.w[f"{name}.qkv.weight"][d : 2 * d]
        u, bias = self.w[f"{name}.terms.0.content_bias"], self.w[f"{name}.terms.0.position_bias"]
        table = self.w["feature_embedding.weight"].view(3, MOST + 1, -1)
        found = []
        for i in range(len(x)):
            mixed = []
            for h in range(heads):
                own = slice(h * size, (h + 1) * size)
                scores = []
                for j in range(i + 1):
                    r = self.w[f"{name}.terms.0.distance_map.weight"] @ sinusoid(i - j, d).to(x[0].dtype)
                    score = (q[i][own] + u[h, 0]) @ k[j][own] + (q[i][own] + bias[h, 0]) @ r[own]
                    is_root = not (i and j)
                    values = (0, 0, 0) if is_root else read[i].features[read[j].word]
                    for f, value in enumerate(values):
                        added = self.w[f"{name}.terms.1.maps.{f}.weight"] @ table[f][min(MOST, value)]
                        score = score + (q[i][own] + u[h, 0]) @ (key_map @ added)[own]
                    scores.append(score / math.sqrt(size))
                weights = torch.stack(scores).softmax(0)
                mixed.append(sum(weight * v[j][own] for j, weight in enumerate(weights)))
            found.append(self._linear(f"{name}.output", torch.cat(mixed)))
        return found

    def _network(self, name: str, x: Tensor) -> Tensor:
        x = self._linear(f"{name}.1", self._norm(f"{name}.0", x))
        return self._linear(f"{name}.3", x.relu())

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return self.w[f"{name}.weight"] @ x + self.w[f"{name}.bias"]

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(
            x, x.shape, self.w[f"{name}.weight"], self.w[f"{name}.bias"], self.config.norm_eps
        )
