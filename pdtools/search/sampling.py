"""Strings with their derivations, drawn from the joint distribution of a model (ancestral sampling)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.jobs.devices import widest_float
from pdtools.models import LanguageModel
from pdtools.models.derivations import AnyDerivation
from pdtools.search.batches import hypotheses_that_fit
from pdtools.tokenization import Tokenizer
from pdtools.trees import Tree, escape, placeholder, word_problem

# Number of strings drawn together.
BATCH = 256


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: one string drawn, with its derivation.

    Attributes:
        derivation: its tokens, and the choices among them.
        logprob: log p of the draw, nats: all choices, including end-of-sentence if complete.
        complete: whether the string ended by itself, and was not cut at the greatest length.
    """

    derivation: AnyDerivation
    logprob: float
    complete: bool

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The token ids without ROOT and end-of-sentence: int32[n]."""
        return self.derivation.tokens

    def words(self, tokenizer: Tokenizer) -> tuple[str, ...]:
        """The string as words."""
        return tokenizer.decode(self.tokens.tolist())[0]

    def tree(self, tokenizer: Tokenizer) -> Tree | None:
        """The derivation as a tree over words, with brackets escaped; None for the empty string.

        A word that no tree can hold (nothing visible in it) becomes U+FFFD.
        """
        if not len(self.tokens):
            return None
        words, word_of_token = tokenizer.decode(self.tokens.tolist())
        leaves = ["\ufffd" if word_problem(word) else escape(word) for word in words]
        return self.derivation.tree(leaves, word_of_token, tokenizer.labels)


def sample(model: LanguageModel, *, number: int, seed: int = 0, max_tokens: int = 200) -> Iterator[Sample]:
    """Draw strings with their derivations from p(x, y).

    Padding, ROOT and a token that only follows end-of-sentence (``final_id``) are never drawn: their small
    probability is shared among the other tokens. Log-probabilities end with end-of-sentence.
    Draw i depends only on the seed and on i, so a larger number extends a smaller one's draws.

    Args:
        model: in evaluation mode. Without an attachment head only strings are drawn.
        number: number of strings.
        seed: the seed of the random numbers.
        max_tokens: length at which an unfinished string is cut; less if the model is shorter.
    """
    if model.max_length is not None:
        max_tokens = min(max_tokens, model.max_length - 2)
    size = min(BATCH, hypotheses_that_fit(model, max_tokens + 2))
    for first in range(0, number, size):
        yield from _draw(model, range(first, min(first + size, number)), seed, max_tokens)


@torch.inference_mode()
def _draw(model: LanguageModel, draws: range, seed: int, max_tokens: int) -> list[Sample]:
    rows, device = len(draws), model.device
    derivations = model.derive(rows, max_tokens + 2)
    numbers = np.stack([np.random.default_rng([seed, i]).random(derivations.most_steps) for i in draws])
    uniform = torch.from_numpy(numbers).to(widest_float(device)).to(device)  # (R, steps)
    made = torch.full(uniform.shape, -1, dtype=torch.int32, device=device)  # (R, steps), the choices
    logprob = torch.zeros(rows, dtype=uniform.dtype, device=device)  # (R,)
    n_tokens = torch.zeros(rows, dtype=torch.int64, device=device)  # (R,)
    complete = torch.zeros(rows, dtype=torch.bool, device=device)  # (R,)

    live = torch.arange(rows, device=device)  # (r,) unfinished draws: the derivations' rows
    while len(live):
        step, logprobs = derivations.step, derivations.logprobs()  # (r, C)
        choice = _pick(logprobs.exp(), uniform[live, step])  # (r,)
        token = derivations.generated(choice)  # (r,)
        ends = token == model.eos_id  # (r,)
        continues = ~ends & ((token < 0) | (n_tokens[live] < max_tokens))  # (r,) others are cut
        if (full := derivations.full()) is not None:
            ends, continues = ends & ~full, continues & ~full
        made[live, step] = torch.where(ends | continues, choice, -1).int()
        gained = logprobs.gather(1, choice[:, None])[:, 0]  # (r,)
        logprob[live] += gained.masked_fill(~(ends | continues), 0)
        n_tokens[live] += continues & (token >= 0)
        complete[live] = ends
        if not bool(continues.all()):
            kept = torch.nonzero(continues)[:, 0]  # (r',)
            live, choice = live[kept], choice[kept]
            if len(live):
                derivations.select(kept)
        if len(live):
            derivations.push(choice)
    return [
        Sample(derivations.derivation(choices[choices >= 0]), float(logprob[row]), bool(complete[row]))
        for row, choices in enumerate(made.cpu().numpy())
    ]


def _pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw one column per row of (r, C) in proportion to its weight, by inverting the distribution: (r,)."""
    cumulative = weights.cumsum(1)
    place = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
    return place.clamp(max=weights.shape[1] - 1)


@dataclass(kw_only=True)
class SampleCounts:
    """Counts of draws so far; ``cut`` strings had not ended at the greatest length."""

    strings: int = 0
    tokens: int = 0
    empty: int = 0
    cut: int = 0


def sample_lines(
    draws: Iterable[Sample], tokenizer: Tokenizer, *, counts: SampleCounts, strings: bool = False
) -> Iterator[str]:
    """Convert draws to lines: bracketed trees, or words between spaces. An empty string is a placeholder."""
    for draw in draws:
        counts.strings += 1
        counts.tokens += len(draw.tokens)
        counts.empty += not len(draw.tokens)
        counts.cut += not draw.complete
        yield " ".join(draw.words(tokenizer)) if strings else str(draw.tree(tokenizer) or placeholder(()))
