"""The Pushdown LM of Murty et al. (2023) as its paper prints it: one derivation, one token, one head at once.

Nothing of pdtools computes here: weights are read by name, and all else is written out in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from model_oracle import PlainStack
from numpy.typing import NDArray

from pdtools.models import PushdownConfig, TransformerLM

Vector = NDArray[np.float64]


class PlainPushdown:
    """Equations 5 and 6, figures 7 and 8, and Algorithm 1, on the weights of a model."""

    def __init__(self, model: TransformerLM) -> None:
        assert isinstance(model.config, PushdownConfig)
        self.config = model.config
        self.weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
        self.first_pushdown = self.config.first_pushdown_layer
        self.start()

    def start(self) -> None:
        """Begin with nothing read."""
        self.inputs: list[list[Vector]] = [[] for _ in range(self.config.layers)]  # by attention layer
        self.below: list[Vector] = []  # the output for each token before the first pushdown layer

    def logprobs(self, tokens: Sequence[int], attach: Sequence[int]) -> tuple[list[float], list[float]]:
        """The log p of every token, and every attachment but ROOT's and EOS's, nats; 0 for unscored ones."""
        seen = self.seen(tokens)
        self.start()
        stack = PlainStack()
        final = [self.read(tokens[0], stack)]
        arrival = [0]  # W_j[j]
        of_tokens, of_attachments = [0.0], [0.0]
        for k in range(1, len(tokens)):
            of_tokens.append(float(log_softmax(self.logits(final[-1]))[tokens[k]]))
            if k == len(tokens) - 1:  # EOS attaches to ROOT, and nothing is read after it
                return of_tokens, [*of_attachments, 0.0]
            legal = stack.legal()
            scores = [self.attachment_score(j, k, seen[k], final, arrival, stack) for j in legal]
            of_attachments.append(float(log_softmax(np.array(scores))[legal.index(attach[k])]))
            stack.push(attach[k])
            arrival.append(stack.tape[k])
            final.append(self.read(tokens[k], stack))
        raise AssertionError

    def seen(self, tokens: Sequence[int]) -> list[Vector]:
        """The attachment head's representation of each token when it attaches."""
        if self.config.head_reads == "embedding":
            return [self.weights["embedding.weight"][token] for token in tokens]
        # The layers below give the same for every derivation: here all tokens shift.
        self.start()
        stack = PlainStack()
        for k, token in enumerate(tokens):
            if k > 0:
                stack.push(k)
            self.read(token, stack)
        return [self.norm(x, "head.next_norm") for x in self.below]

    def read(self, token: int, stack: PlainStack) -> Vector:
        """The final hidden state of the next token, given the tape after its own reduces."""
        k = len(self.inputs[0])
        x = self.weights["embedding.weight"][token]
        if self.config.positions == "learned":
            x = x + self.weights["position_embedding.weight"][k]
        for layer in range(self.config.layers):
            if layer == self.first_pushdown:
                self.below.append(x)
            self.inputs[layer].append(self.norm(x, f"blocks.{layer}.attention_norm"))
            x = x + self.attention(layer, stack.tape)
            hidden = self.linear(
                self.norm(x, f"blocks.{layer}.feed_forward_norm"), f"blocks.{layer}.feed_forward.0"
            )
            x = x + self.linear(gelu_of_gpt2(hidden), f"blocks.{layer}.feed_forward.2")
        return self.norm(x, "final_norm")

    def attention(self, layer: int, tape: list[int]) -> Vector:
        """Figure 7 for the last token: to every token, with the depth that the tape gives it now."""
        config, name = self.config, f"blocks.{layer}.attention"
        heads, size = config.heads, config.d_model // config.heads
        w_query, w_key, w_value = np.split(self.weights[f"{name}.qkv.weight"], 3)
        b_query, b_key, b_value = np.split(self.weights[f"{name}.qkv.bias"], 3)
        inputs = self.inputs[layer]
        k = len(inputs) - 1
        in_attention = config.stack_distances and config.distances_in != "head"
        terms = ["positions"] if config.positions in ("relative", "alibi") else []
        if layer >= self.first_pushdown:
            terms = [*terms, "depths", *(["distances"] if in_attention else [])]
        mixed = []
        for h in range(heads):
            of_head = slice(h * size, (h + 1) * size)
            query = (w_query @ inputs[k] + b_query)[of_head]
            scores = []
            for j, state in enumerate(inputs):
                plain_key = (w_key @ state + b_key)[of_head]
                key, score = plain_key, 0.0
                for index, term in enumerate(terms):
                    if term == "depths":
                        e = self.of_depth(f"{name}.terms.{index}.embedding", tape[j])
                        in_keys = config.depth_space == "key"
                        key = plain_key + e if in_keys else (w_key @ (state + e) + b_key)[of_head]
                    elif term == "distances":
                        slope = np.exp(self.weights[f"{name}.terms.{index}.log_slopes"][h, 0, 0])
                        score -= slope * open_after(tape, j)
                    elif config.positions == "alibi":
                        score -= 2 ** (-8 * (h + 1) / heads) * (k - j)
                    else:
                        score += self.relative(f"{name}.terms.{index}", h, query, plain_key, k - j)
                scores.append(score + query @ key / math.sqrt(size))
            weights = np.exp(log_softmax(np.array(scores)))
            values = np.array([(w_value @ state + b_value)[of_head] for state in inputs])
            mixed.append(weights @ values)
        return self.linear(np.concatenate(mixed), f"{name}.output")

    def relative(self, name: str, head: int, query: Vector, key: Vector, distance: int) -> float:
        """Terms b, c and d of Transformer-XL (Dai et al. 2019, section 3.3), scaled."""
        size = len(query)
        angles = [distance * 10000 ** (-2 * m / self.config.d_model) for m in range(self.config.d_model // 2)]
        wave = np.array([*map(math.sin, angles), *map(math.cos, angles)])
        r = (self.weights[f"{name}.distance_map.weight"] @ wave)[head * size : (head + 1) * size]
        u, v = (self.weights[f"{name}.{part}_bias"][head, 0] for part in ("content", "position"))
        return float(u @ key + query @ r + v @ r) / math.sqrt(size)

    def attachment_score(
        self, j: int, k: int, seen: Vector, final: list[Vector], arrival: list[int], stack: PlainStack
    ) -> float:
        """Equation 5 by figure 8: the score of token k for attaching to j, or for the shift if j is k."""
        d = self.config.d_model
        query, _ = np.split(self.linear(final[k - 1], "head.query_and_key"), 2)
        both = np.concatenate([query, seen])
        if j == k:
            key, penalty = self.network(both, "head.next_key"), 0.0
        else:
            assert stack.tape[j] == arrival[j]  # a candidate's depth is still the depth at its arrival
            _, key = np.split(self.linear(final[j], "head.query_and_key"), 2)
            key = np.concatenate([key, self.of_depth("head.depth_embedding", stack.tape[j])])
            key = self.network(key, "head.key")
            penalty = 0.0
            if self.config.stack_distances and self.config.distances_in != "attention":
                penalty = np.exp(self.weights["head.log_slope"]) * open_after(stack.tape, j)
        return float(self.network(both, "head.next_query") @ key / math.sqrt(d) - penalty)

    def of_depth(self, name: str, depth: int) -> Vector:
        """The row of a depth table: the last one for deeper tokens."""
        table = self.weights[f"{name}.weight"]
        return table[depth] if depth < len(table) else table[-1]

    def logits(self, hidden: Vector) -> Vector:
        """Logits of the next token."""
        tied = self.config.tie_embeddings
        return self.weights["embedding.weight" if tied else "output.weight"] @ hidden

    def linear(self, x: Vector, name: str) -> Vector:
        """A map with its bias."""
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def network(self, x: Vector, name: str) -> Vector:
        """Two maps with a GELU between them."""
        hidden = self.linear(x, f"{name}.0")
        hidden = np.array([value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in hidden])
        return self.linear(hidden, f"{name}.2")

    def norm(self, x: Vector, name: str) -> Vector:
        """A layer norm."""
        centered = x - x.mean()
        scaled = centered / math.sqrt((centered**2).mean() + self.config.norm_eps)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def open_after(tape: list[int], j: int) -> int:
    """The number of tokens after j that are in no constituent yet."""
    return sum(depth == 0 for depth in tape[j + 1 :])


def gelu_of_gpt2(x: Vector) -> Vector:
    """GELU, approximated with tanh."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def log_softmax(scores: Vector) -> Vector:
    """Log-probabilities in proportion to the exponentials of scores."""
    scores = scores - scores.max()
    return scores - math.log(np.exp(scores).sum())
