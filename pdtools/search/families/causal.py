"""Hugging Face causal language models: baselines for the models of this toolkit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import widest_float
from pdtools.search.batches import SortedStrings, explained_memory_errors, in_batches
from pdtools.search.contexts import read_in_windows
from pdtools.search.families.huggingface import SURROGATES, EncodedText, HuggingFaceFamily, explained_errors
from pdtools.search.next_tokens import as_measures, summaries
from pdtools.search.options import Context
from pdtools.search.scores import Measure, NextTokens, SentenceScore, asks_for_distributions
from pdtools.tokenization import split_text_words

# Architectures tested to take positions and a mask of their own, so that strings with common beginnings
# can share a row, their common tokens once; and the most tokens of a row.
PACKED_MODELS = frozenset({"gpt2", "gpt_neox", "llama"})
PACKED_TOKENS, PACKED_TOKENS_CPU = 2048, 256
_PACKED_SINCE = (4, 57)  # the version of transformers; GPT-2 of 4.51 takes no such mask
_PROBE_LENGTH = 8
# Relative tolerances for log-probabilities: mixtures of experts batch tokens, and round differently with
# other batches.
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


class CausalFamily(HuggingFaceFamily):
    """The family of a causal language model.

    The beginning-of-sentence token (or the end-of-sentence token if there is no other, as in GPT-2) is read
    first. With ``bos=False`` nothing comes before the first token: it has no score and no row.

    Texts longer than the model are read in windows (:func:`pdtools.search.contexts.read_in_windows`).
    """

    def __init__(
        self,
        folder: str,
        tokenizer: Any,
        model: Any,
        *,
        bos: bool,
        max_batch: int | None,
        context: Context,
        measures: Collection[Measure],
    ) -> None:
        bos_id = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        if bos and bos_id is None:
            raise PdtoolsError(f"{folder}: no beginning-of-sentence token: --no-bos scores without one")
        longest = getattr(model.config, "max_position_embeddings", None)
        with explained_errors(folder, "a first text"):
            # -1: none is the longest
            longest = longest if longest and longest > 0 else None
            check_causal(folder, model, longest)
        super().__init__(
            folder,
            tokenizer,
            model,
            before=[bos_id] if bos else [],
            after=[],
            longest=longest,
            max_batch=max_batch,
            context=context,
            measures=measures,
        )
        self.settings["bos"] = bos
        self._packs = _takes_masks() and model.config.model_type in PACKED_MODELS
        self._begins: torch.Tensor | None = None
        if asks_for_distributions(measures):
            begins = _word_beginnings(tokenizer, model.config.vocab_size)
            if "spaces" in measures and not begins.any():
                raise PdtoolsError(
                    f"{folder}: no token of its vocabulary begins with a space: nothing to correct"
                )
            self._begins = torch.from_numpy(begins).to(self._device)

    def next_tokens(self, window: Sequence[EncodedText]) -> Iterator[NextTokens]:
        """See :meth:`Family.next_tokens`. Not for texts longer than the model."""
        rows = [np.array([*self._before, *item.before, *item.ids], dtype=np.int32) for item in window]
        for item, row, table in zip(window, rows, self._tables(rows), strict=True):
            own = min(len(item.ids), len(row) - 1)
            logprobs, ids = table[-1 - own : -1], row[-own:]
            seen = np.arange(len(row), dtype=np.int32)[-own:] - len(self._before)
            chosen = logprobs[np.arange(own), ids]
            yield NextTokens(self._result(item, chosen, seen), ids, logprobs, table[-1])

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`Family.following`."""
        if SURROGATES.search(text):
            raise PdtoolsError("half of a surrogate pair in it is no text")
        _, ids, *_ = self._tokens(split_text_words(text))
        row = np.array([*self._before, *ids], dtype=np.int32)
        if not len(row):
            raise PdtoolsError("without BOS the model gives no distribution of the first token")
        (logprobs,) = self._tables([row])
        return logprobs[-1]

    @torch.inference_mode()
    def _tables(self, rows: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
        """Next-token log-probabilities of each string of m tokens: float64 (m, V), nats."""

        def work(group: list[int]) -> Iterator[NDArray[np.float64]]:
            padded, mask = self._padded([rows[i] for i in group])
            logits = self._model(input_ids=padded, attention_mask=mask, use_cache=False).logits
            logprobs = logits.to(widest_float(logits.device)).log_softmax(2).cpu().double().numpy()
            return (values[: len(rows[i])] for values, i in zip(logprobs, group, strict=True))

        return in_batches(list(map(len, rows)), self._fits, work)

    def score(self, window: Sequence[EncodedText]) -> list[SentenceScore]:
        """See :meth:`Family.score`."""
        # The distribution after the last token is the one before any further token.
        after = [] if self._begins is None else [0]
        found = read_in_windows(
            [np.array([*self._before, *item.before, *item.ids, *after], dtype=np.int32) for item in window],
            self._packed if self._packs else self._apart,
            window=self._window,
            stride=self.context.stride_of(self._window),
            bos=bool(self._before),
        )
        return [self._measured(item, *of_item) for item, of_item in zip(window, found, strict=True)]

    @torch.inference_mode()
    def _packed(self, rows: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
        """Compute log p of all tokens after the first, for each string of m tokens, nats: float64[m − 1].

        With summaries of distributions float64[m − 1, 3] (:func:`pdtools.search.next_tokens.summaries`).
        Shared prefixes are computed once: a batch is one row that holds every prefix once, each
        token at its own position and seeing its own prefix.
        """
        most = PACKED_TOKENS_CPU if torch.device(self._device).type == "cpu" else PACKED_TOKENS
        widths = [1] * max(map(len, rows), default=0)
        found: dict[int, NDArray[np.float64]] = {}
        for group in SortedStrings.of(rows).groups(widths, most, self._max_batch or len(rows)):
            packed = group.packed()
            sees = torch.from_numpy(packed.sees())[None, None].to(self._device)  # (1, 1, T, T)
            mask = torch.zeros(sees.shape, dtype=self._model.dtype, device=self._device)
            with explained_memory_errors():
                logits = self._model(
                    input_ids=torch.from_numpy(packed.tokens)[None].to(self._device),
                    position_ids=torch.from_numpy(packed.depths)[None].to(self._device),
                    attention_mask=mask.masked_fill(~sees, torch.finfo(mask.dtype).min),
                    use_cache=False,
                ).logits[0]  # (T, V)
                every = logits.float().log_softmax(1)
                before = torch.from_numpy(np.concatenate(packed.paths)).to(self._device)
                after = torch.from_numpy(np.concatenate([ids[1:] for ids in group.ids])).to(self._device)
                chosen = self._values(every[before, after.long()], every, before)
            ends = np.cumsum([len(path) for path in packed.paths])[:-1]
            found.update(zip(group.order, np.split(chosen, ends), strict=True))
        return [found[i] for i in range(len(rows))]

    @torch.inference_mode()
    def _apart(self, rows: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
        """Compute the same as :meth:`_packed`, with a row for each string."""

        def work(group: list[int]) -> Iterator[NDArray[np.float64]]:
            padded, mask = self._padded([rows[i] for i in group])
            logits = self._model(input_ids=padded, attention_mask=mask, use_cache=False).logits
            logits = logits[:, :-1].float()  # (B, N − 1, V)
            chosen = logits.gather(2, padded[:, 1:, None])[:, :, 0]  # (B, N − 1)
            total = torch.logsumexp(logits, dim=2)
            logprobs = self._values(chosen - total, logits - total[:, :, None])
            return (values[: len(rows[i]) - 1] for values, i in zip(logprobs, group, strict=True))

        return in_batches(list(map(len, rows)), self._fits, work)

    def _values(
        self, chosen: torch.Tensor, every: torch.Tensor, rows: torch.Tensor | None = None
    ) -> NDArray[np.float64]:
        """Log-probabilities of tokens, and the requested summaries of the distributions before them.

        The tokens are in these ``rows`` of all.
        """
        logprobs = chosen.to(widest_float(chosen.device))
        if self._begins is not None:
            found = summaries(every, self._begins)
            found = found if rows is None else found[rows]
            logprobs = torch.cat([logprobs[..., None], found], -1)
        return logprobs.cpu().double().numpy()

    def _measured(
        self, item: EncodedText, values: NDArray[np.float64], seen: NDArray[np.int32]
    ) -> SentenceScore:
        if self._begins is None:
            return self._result(item, values, seen)
        n = min(len(values) - 1, len(item.ids))
        tokens = np.array(item.ids[-n:], np.int32)
        measures = as_measures(values[-n - 1 :, 1:], tokens, self._begins.cpu().numpy(), self.measures)
        return self._result(item, values[:-1, 0], seen[:-1], measures)


def _takes_masks() -> bool:
    from transformers import __version__ as installed

    return (*map(int, installed.split(".")[:2]),) >= _PACKED_SINCE


def _word_beginnings(tokenizer: Any, vocab_size: int) -> NDArray[np.bool_]:
    """Bool (V,), the tokens that begin with white space, as text shows it after a letter.

    Special tokens, which end a text, are included if there are any.
    """
    decode = tokenizer.backend_tokenizer.decoder.decode if tokenizer.backend_tokenizer.decoder else "".join
    names = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), vocab_size))))
    begins = np.zeros(vocab_size, bool)
    begins[: len(names)] = [name is not None and decode(["a", name])[1:2].isspace() for name in names]
    if begins.any():
        begins[[i for i in tokenizer.all_special_ids if i < vocab_size]] = True
    return begins


@torch.inference_mode()
def check_causal(folder: str, model: Any, longest: int | None) -> None:
    """Refuse a model whose log-probabilities depend on later tokens, whatever its configuration says.

    It reads a text, and the same text with other endings from each of its tokens on.

    Args:
        folder: the name in errors.
        model: the model, ready for use.
        longest: number of tokens that it can read; None: any number.

    Raises:
        PdtoolsError: if the log-probabilities before an ending depend on it.
    """
    n = min(_PROBE_LENGTH, longest or _PROBE_LENGTH)
    vocab_size = model.get_input_embeddings().num_embeddings
    draw = torch.Generator().manual_seed(0)
    texts = torch.randint(vocab_size, (n, n), generator=draw)  # row 0: the text; row k: another end from k on
    others = (texts[0] + 1 + texts[1:] % max(1, vocab_size - 1)) % vocab_size
    texts = torch.cat([texts[:1], torch.where(torch.ones(n - 1, n).triu(1).bool(), others, texts[0])])
    tokens = texts.to(model.device)
    logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits
    logprobs = logits.float().log_softmax(2).cpu()  # (n, n, V)
    before = torch.ones(n, n).tril(-1).bool()  # row k: the positions before k
    differences = (logprobs - logprobs[0])[before].nan_to_num(0).abs()  # impossible tokens: -inf both times
    largest = logprobs.abs().where(logprobs.isfinite(), 0).max()
    if (differences > _ROUNDING[model.dtype] * (1 + largest)).any():
        reason = (
            f"log-probabilities of its tokens depend on what follows them (by {differences.max():.2g} nats)"
        )
        raise _not_causal(folder, model.config.model_type, reason)


def _not_causal(folder: str, kind: str, reason: str) -> PdtoolsError:
    return PdtoolsError(f"{folder}: {kind} is not causal, so it has no surprisals: {reason}")
