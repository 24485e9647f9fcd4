"""Windows written out plainly: their derivations, by trying, and the probabilities of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from search_oracle import EOS, ROOT

from pdtools.models import LanguageModel


def window_attachments(lengths: Sequence[int], *, open_end: bool = False) -> Iterator[list[int]]:
    """Every derivation of sentences of these numbers of tokens, in one window, each with its ROOT.

    Args:
        lengths: the sentences' lengths, at least 1 each.
        open_end: whether the last sentence goes on, so that its last token does not attach to ROOT.
    """

    def extend(
        attach: list[int], stack: list[int], root: int, left: int, more: list[int]
    ) -> Iterator[list[int]]:
        k = len(attach)
        if left == 0 and not more:
            yield attach
        elif left == 0:
            yield from extend([*attach, k], [k], k, more[0], more[1:])
        elif left == 1 and (more or not open_end):
            yield from extend([*attach, root], [], root, 0, more)
        else:
            yield from extend([*attach, k], [*stack, k], root, left - 1, more)
            for slot, last in enumerate(stack):
                if last != root:
                    yield from extend([*attach, last], [*stack[:slot], k], root, left - 1, more)

    yield from extend([0], [0], 0, lengths[0], list(lengths[1:]))


def window_tokens(sentences: Sequence[Sequence[int]]) -> list[int]:
    """The tokens of sentences, with ROOT before each."""
    return [token for sentence in sentences for token in (ROOT, *sentence)]


def searched_row(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """The tokens of a window as a search takes them, with end-of-sentence at the end."""
    return np.array([*window_tokens(sentences), EOS], dtype=np.int32)


def window_joints(
    model: LanguageModel, tokens: Sequence[int], derivations: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of tokens and of attachments, float64 (derivations, N) each, by teacher forcing."""
    with torch.no_grad():
        found = model.forward_parts(model.pack([(np.array(tokens), np.array(d)) for d in derivations]))
    n = len(tokens)
    return found.token_logprobs.double().numpy()[:, :n], found.attach_logprobs.double().numpy()[:, :n]
