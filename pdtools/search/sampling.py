"""Strings with their derivations, drawn from the joint distribution of a model (ancestral sampling)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models import LanguageModel, StackState
from pdtools.search.memory import hypotheses_that_fit
from pdtools.tokenization import Tokenizer
from pdtools.trees import Tree, escape, merge_subwords, placeholder, tree_from_attachments, word_problem

# Strings drawn side by side.
BATCH = 256


@dataclass(frozen=True, slots=True)
class Sample:
    """One draw: n tokens with their attachments.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
        attach: int32[n], positions counted from 0, attach[k] == k for a shift; all shifts for a model
            without an attachment head.
        logprob: log p of what was drawn, nats: tokens, attachments, and end-of-sentence if complete.
        complete: whether the string ended by itself, and was not cut at the greatest length.
    """

    tokens: NDArray[np.int32]
    attach: NDArray[np.int32]
    logprob: float
    complete: bool

    def words(self, tokenizer: Tokenizer) -> tuple[str, ...]:
        """The string as words."""
        return tokenizer.decode(self.tokens.tolist())[0]

    def tree(self, tokenizer: Tokenizer) -> Tree | None:
        """The derivation as a binary tree over words, escaped as brackets need; None for the empty string.

        A word that no tree can hold (nothing visible in it) becomes U+FFFD.
        """
        if not len(self.tokens):
            return None
        words, word_of_token = tokenizer.decode(self.tokens.tolist())
        leaves = ["\ufffd" if word_problem(word) else escape(word) for word in words]
        return merge_subwords(
            tree_from_attachments(self.attach, [""] * len(self.tokens)), word_of_token, leaves
        )


def sample(model: LanguageModel, *, number: int, seed: int = 0, max_tokens: int = 200) -> Iterator[Sample]:
    """Draw strings with their derivations from p(x, y).

    Padding and ROOT are never drawn: what little probability a model gives them is shared among the rest.
    Draw i depends on the seed and on i alone, so more draws begin with the same ones.

    Args:
        model: in evaluation mode. Without an attachment head only strings are drawn.
        number: how many.
        seed: of the random numbers.
        max_tokens: where a string is cut that has not ended; less if the model is shorter.
    """
    if model.max_length is not None:
        max_tokens = min(max_tokens, model.max_length - 2)
    size = min(BATCH, hypotheses_that_fit(model, max_tokens + 2))
    for first in range(0, number, size):
        yield from _draw(model, range(first, min(first + size, number)), seed, max_tokens)


@torch.inference_mode()
def _draw(model: LanguageModel, draws: range, seed: int, max_tokens: int) -> list[Sample]:
    rows, length, device = len(draws), max_tokens + 2, model.device
    # Two random numbers per position: for its token and for its attachment.
    numbers = np.stack([np.random.default_rng([seed, i]).random((length, 2)) for i in draws])
    uniform = torch.from_numpy(numbers).to(device)  # (R, N, 2)
    tokens = torch.zeros(rows, length, dtype=torch.int32, device=device)  # (R, N)
    attach = torch.zeros(rows, length, dtype=torch.int32, device=device)  # (R, N)
    logprob = torch.zeros(rows, dtype=torch.float64, device=device)  # (R,)
    lengths = torch.full((rows,), max_tokens, device=device)  # (R,)
    complete = torch.zeros(rows, dtype=torch.bool, device=device)  # (R,)

    state, stack = model.start(rows, length), StackState.start(rows, length, device)
    model.advance(state, torch.full((rows,), model.root_id, device=device), stack.tape_row())
    live = torch.arange(rows, device=device)  # (r,) the draws that go on, one row of the state each
    for k in range(1, length):
        logprobs = model.next_token_logprobs(state).double()  # (r, V)
        allowed = logprobs.exp()
        allowed[:, [model.pad_id, model.root_id]] = 0
        token = _pick(allowed, uniform[live, k, 0])  # (r,)
        gained = logprobs.gather(1, token[:, None])[:, 0]  # (r,)
        ends = token == model.eos_id  # (r,)
        logprob[live[ends]] += gained[ends]
        lengths[live[ends]] = k - 1
        complete[live[ends]] = True
        goes_on = torch.nonzero(~ends)[:, 0]  # (r',)
        if k == length - 1 or not len(goes_on):
            break
        if len(goes_on) < len(live):
            live, token, gained = live[goes_on], token[goes_on], gained[goes_on]
            state.select(goes_on)
            stack = stack.select(goes_on)
        logprob[live] += gained
        tokens[live, k] = token.int()

        target = torch.full_like(token, k)
        if model.has_attachment_head:
            logprobs = model.attach_logprobs(state, token, stack.legal()).double()  # (r, k + 1)
            target = _pick(logprobs.exp(), uniform[live, k, 1])  # (r,)
            logprob[live] += logprobs.gather(1, target[:, None])[:, 0]
        attach[live, k] = target.int()
        stack.push(target)
        model.advance(state, token, stack.tape_row())
    return [
        Sample(
            tokens=tokens[row, 1 : n + 1].cpu().numpy(),
            attach=attach[row, 1 : n + 1].cpu().numpy() - 1,
            logprob=float(logprob[row]),
            complete=bool(complete[row]),
        )
        for row, n in enumerate(lengths.tolist())
    ]


def _pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw one column per row of (r, C) in proportion to its weight, by inverting the distribution: (r,)."""
    cumulative = weights.cumsum(1)
    place = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
    return place.clamp(max=weights.shape[1] - 1)


@dataclass(kw_only=True)
class SampleCounts:
    """What was drawn so far; ``cut`` strings had not ended at the greatest length."""

    strings: int = 0
    tokens: int = 0
    empty: int = 0
    cut: int = 0


def sample_lines(
    draws: Iterable[Sample], tokenizer: Tokenizer, *, counts: SampleCounts, strings: bool = False
) -> Iterator[str]:
    """Draws as lines: bracketed trees, or words between spaces. An empty string is a placeholder tree."""
    for draw in draws:
        counts.strings += 1
        counts.tokens += len(draw.tokens)
        counts.empty += not len(draw.tokens)
        counts.cut += not draw.complete
        yield " ".join(draw.words(tokenizer)) if strings else str(draw.tree(tokenizer) or placeholder(()))
