"""Hugging Face masked language models: pseudo-log-likelihoods, which are no probabilities of sentences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import widest_float
from pdtools.search.batches import in_batches
from pdtools.search.families.huggingface import EncodedText, HuggingFaceFamily
from pdtools.search.options import Context, Pll
from pdtools.search.scores import Measure, SentenceScore, Unscorable

PSEUDO = "scores are pseudo-log-likelihoods ({}): sums of them are no log-probabilities"
Mask = NDArray[np.bool_]
# Tokens of a batch on the CPU, which is slower with more, and needs memory for all.
TOKENS_CPU = 2048

# For each way, the tokens (m) that are masked for the score of token t, given each token's word.
MASKED: dict[Pll, Callable[[NDArray[np.int64], int], Mask]] = {
    "original": lambda words, t: np.arange(len(words)) == t,
    "within-word": lambda words, t: (words == words[t]) & (np.arange(len(words)) >= t),
    "whole-word": lambda words, t: words == words[t],
}


class MaskedFamily(HuggingFaceFamily):
    """The family of a masked language model: a token's score is log p of it where it is masked.

    ``original``: it alone is masked (Salazar et al. 2020); ``within-word``: the later tokens of its word too
    (Kauf and Ivanova 2023); ``whole-word``: all tokens of its word. Words are the tokenizer's. Texts longer
    than the model have no score.
    """

    def __init__(
        self,
        folder: str,
        tokenizer: Any,
        model: Any,
        *,
        pll: Pll,
        max_batch: int | None,
        context: Context,
        measures: Collection[Measure],
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise PdtoolsError(
                f"{folder}: its tokenizer has no mask token: it gives no pseudo-log-likelihoods"
            )
        if {*measures} - {"structure"}:
            raise PdtoolsError(f"{folder}: a masked language model has no next-token distributions")
        if context.stride is not None:
            raise PdtoolsError(
                f"{folder}: a masked language model reads no text in windows: leave out --stride"
            )
        example = tokenizer("a", return_special_tokens_mask=True)
        own = np.flatnonzero(np.asarray(example["special_tokens_mask"]) == 0)
        ids: list[int] = example["input_ids"]
        pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer if tokenizer.is_fast else True
        if pll != "original" and pre_tokenizer is None:
            raise PdtoolsError(f"{folder}: its tokenizer knows no words: --pll original masks tokens")
        super().__init__(
            folder,
            tokenizer,
            model,
            before=ids[: own[0]],
            after=ids[own[-1] + 1 :],
            longest=_longest(model),
            max_batch=max_batch,
            context=context,
            measures=(),
        )
        self._masked = MASKED[pll]
        self.settings |= {"kind": "masked", "pll": pll, "warning": PSEUDO.format(pll)}

    def encode(self, sentence: Any, *, any_length: bool = False) -> Any:
        """See :meth:`Family.encode`. A longer text is never scored in windows, nor one with a mask in it."""
        found = super().encode(sentence)
        if isinstance(found, EncodedText) and self._tokenizer.mask_token_id in found.ids:
            return Unscorable(
                found.text, f"{self._tokenizer.mask_token} in it is a mask to the model, not text"
            )
        return found

    def score(self, window: Sequence[EncodedText]) -> Iterator[SentenceScore]:
        """See :meth:`Family.score`."""
        values = iter(self._logprobs([(item, t) for item in window for t in range(len(item.ids))]))
        for item in window:
            logprobs = np.array([next(values) for _ in item.ids])
            yield self._result(item, logprobs, np.zeros(len(item.ids), np.int32))

    @torch.inference_mode()
    def _logprobs(self, places: Sequence[tuple[EncodedText, int]]) -> list[float]:
        """The log-probability, nats, of token t of each text. A batch makes its own masked copies."""

        def work(group: list[int]) -> list[float]:
            own = [places[i] for i in group]
            padded, mask = self._padded([self._copy(item, t) for item, t in own])
            columns = [len(self._before) + len(item.before) + t for item, t in own]
            tokens = torch.tensor([item.ids[t] for item, t in own], device=self._device)
            logits = self._model(input_ids=padded, attention_mask=mask).logits
            logits = logits[torch.arange(len(group)), columns]  # (B, V)
            logprobs = logits.to(widest_float(logits.device)).log_softmax(1)
            found: list[float] = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
            return found

        around = len(self._before) + len(self._after)
        lengths = [around + len(item.before) + len(item.ids) for item, _ in places]
        return in_batches(lengths, self._fits, work)

    def _fits(self, length: int) -> int:
        most = super()._fits(length)
        on_cpu = torch.device(self._device).type == "cpu" and self._max_batch is None
        return max(1, min(most, TOKENS_CPU // length)) if on_cpu else most

    def _copy(self, item: EncodedText, t: int) -> NDArray[np.int32]:
        """A text as the model reads it, int32 (n), masked for the score of its token t."""
        own = np.array(item.ids, np.int32)
        own[self._masked(np.array(item.pieces), t)] = self._tokenizer.mask_token_id
        return np.array([*self._before, *item.before, *own, *self._after], np.int32)


def _longest(model: Any) -> int | None:
    """The most tokens of a text; RoBERTa's positions begin after its padding token's."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    longest = getattr(model.config, "max_position_embeddings", None)
    return longest if longest and longest > 0 else None
