"""Hugging Face causal language models: baselines for the models of this toolkit."""

from __future__ import annotations

import contextlib
import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import MissingDependencyError, PdtoolsError, is_lack_of_memory
from pdtools.files import check_no_pointers, read_json
from pdtools.jobs.devices import torch_dtype, widest_float
from pdtools.search.batches import SortedStrings, explained_memory_errors, in_batches, strings_that_fit
from pdtools.search.contexts import read_in_windows
from pdtools.search.families.causality import check_causal, check_causal_config
from pdtools.search.family import Family
from pdtools.search.next_tokens import as_measures, summaries
from pdtools.search.options import DOCUMENT, NO_CONTEXT, NOT_SEARCHED, Context
from pdtools.search.scores import (
    Asked,
    Beginning,
    Dtype,
    Measure,
    NextTokens,
    SentenceScore,
    Unscorable,
    asks_for_distributions,
)
from pdtools.tokenization import Sentence, split_text_words

# Architectures tested to take positions and a mask of their own, so that strings with common beginnings
# can share a row, their common tokens once; and the most tokens of a row.
PACKED_MODELS = frozenset({"gpt2", "gpt_neox", "llama"})
PACKED_TOKENS, PACKED_TOKENS_CPU = 2048, 256
_PACKED_SINCE = (4, 57)  # the version of transformers; GPT-2 of 4.51 takes no such mask
# A single space in byte-level and SentencePiece vocabularies.
_BLANKS = ("Ġ", "▁")
_DIGITS = re.compile(r"\d+")


@contextlib.contextmanager
def _explained_errors(folder: str, part: str) -> Iterator[None]:
    """Turn transformers' errors on a damaged part of a folder into an error of one line."""
    try:
        yield
    except PdtoolsError:
        raise
    except Exception as error:  # transformers and tokenizers raise all kinds of errors for unreadable files
        if is_lack_of_memory(error):
            raise
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        _check_version(folder, f"{part}: {first_line}")
        raise PdtoolsError(
            f"{folder}: not a causal language model that can be loaded: {part}: {first_line}"
        ) from error


def _check_version(folder: str, unread: str) -> None:
    """Report a folder saved by a newer transformers than the installed one, with the unread part.

    Raises:
        PdtoolsError: in that case.
    """
    from transformers import __version__ as installed

    version = str(read_json(Path(folder, "config.json")).get("transformers_version"))
    release = re.compile(r"(\d+)\.(\d+)")
    saved, here = release.match(version), release.match(installed)
    if saved and here and (*map(int, saved.groups()),) > (*map(int, here.groups()),):
        raise PdtoolsError(
            f"{folder}: it was saved by transformers {version}, newer than the installed {installed},"
            f" which cannot read all of it (pip install --upgrade transformers): {unread}"
        )


def _takes_masks() -> bool:
    from transformers import __version__ as installed

    return (*map(int, installed.split(".")[:2]),) >= _PACKED_SINCE


def _load(folder: str) -> tuple[Any, Any]:
    """Load the tokenizer and the model in a folder.

    Raises:
        PdtoolsError: if they cannot be loaded, or are no causal language model.
        MissingDependencyError: if transformers is not installed.
    """
    try:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    check_no_pointers(folder)
    # Without the second option transformers may ask on the terminal whether to run a folder's code.
    options = {"local_files_only": True, "trust_remote_code": False}
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # its warnings become errors here
    logging.disable_progress_bar()
    try:
        with _explained_errors(folder, "config.json"):
            config = AutoConfig.from_pretrained(folder, **options)
            check_causal_config(folder, config)
        # Transformers 5 moved the bases of rotary positions there, and 4 would use its defaults for them.
        if hasattr(config, "rope_parameters") and not hasattr(type(config)(), "rope_parameters"):
            _check_version(folder, "rope_parameters")
        has_file = Path(folder, "tokenizer.json").is_file()
        with _explained_errors(folder, "its tokenizer" + " (no tokenizer.json)" * (not has_file)):
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            tokenizer("a")  # settings of wrong types would show only here
        with _explained_errors(folder, "its weights"):
            loaded: Any = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()
    model, loading = loaded
    if missing := sorted({*loading["missing_keys"]} & {name for name, _ in model.named_parameters()}):
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise PdtoolsError(
            f"{folder}: it lacks {len(missing)} of the model's weights, which would be random: {some}"
            " (the folder is not whole, or of another kind of model)"
        )
    layers = {_DIGITS.sub("", name) for name, _ in model.named_parameters()}
    if unread := sorted(name for name in loading["unexpected_keys"] if _DIGITS.sub("", name) in layers):
        raise PdtoolsError(f"{folder}: config.json has fewer layers than the weights, such as {unread[0]}")
    return tokenizer, model


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A text as the model reads it.

    int[c] of the context before it, ids int[m], and each one's place in the text.
    """

    text: str
    before: list[int]
    ids: list[int]
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class HuggingFaceFamily(Family):
    """The family (:class:`pdtools.search.family.Family`) of a causal language model in a local folder.

    Text is read as given. The beginning-of-sentence token (or the end-of-sentence token if there is no other,
    as in GPT-2) is read first; end-of-sentence is not scored. With ``bos=False`` nothing comes before the
    first token: it has no score and no row. Words are text words, or the words of a :class:`Sentence`; a
    token belongs to the word of its first visible character, so that sums over words count every token once.
    A line feed in a document belongs to no word.

    Texts longer than the model are read in windows (:func:`pdtools.search.contexts.read_in_windows`).
    A line feed follows each sentence of the context.
    """

    def __init__(
        self,
        model_dir: str | Path,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        bos: bool = True,
        max_batch: int | None = None,
        context: Context = NO_CONTEXT,
        measures: Collection[Measure] = (),
    ) -> None:
        self._folder = folder = str(model_dir)
        self._tokenizer, model = _load(folder)
        if not self._tokenizer.is_fast:
            raise PdtoolsError(f"{folder}: its tokenizer gives no character offsets (no tokenizer.json)")
        # Its special tokens are not needed, and offsets would lose their spaces.
        self._tokenizer.backend_tokenizer.post_processor = None
        self._bos_id: int | None = None
        if bos:
            tokenizer = self._tokenizer
            self._bos_id = (
                tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
            )
            if self._bos_id is None:
                raise PdtoolsError(f"{folder}: no beginning-of-sentence token: --no-bos scores without one")
        # GPT-2 also names its end-of-text token as the unknown one, and never produces it.
        unk_id: int | None = self._tokenizer.unk_token_id
        self._unk_id = None if unk_id == self._tokenizer.eos_token_id else unk_id
        self._model = model.to(device, torch_dtype(dtype, device)).eval()
        self._device = device
        self._max_batch = max_batch
        self._packs = _takes_masks() and model.config.model_type in PACKED_MODELS
        self._n_tokens: int = model.get_input_embeddings().num_embeddings
        self._check_tokens([] if self._bos_id is None else [self._bos_id])
        longest = getattr(model.config, "max_position_embeddings", None)
        with _explained_errors(folder, "a first text"):
            # -1: none is the longest
            self._max_length: int | None = longest if longest and longest > 0 else None
            check_causal(folder, self._model, self._max_length)
        self.context = context
        self.measures = frozenset(measures)
        self._begins: torch.Tensor | None = None
        if asks_for_distributions(measures):
            begins = _word_beginnings(self._tokenizer, self._model.config.vocab_size)
            if "spaces" in measures and not begins.any():
                raise PdtoolsError(
                    f"{folder}: no token of its vocabulary begins with a space: nothing to correct"
                )
            self._begins = torch.from_numpy(begins).to(device)
        self._window = context.window_of(self._max_length)
        self.settings: dict[str, Any] = {
            "kind": "huggingface",
            "model": model.config.model_type,
            **NOT_SEARCHED,
            "bos": bos,
            "eos": False,
            "text_style": None,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            **context.described(self._window, has_trees=False),
        }

    def next_tokens(self, window: Sequence[_Encoded]) -> Iterator[NextTokens]:
        """See :meth:`Family.next_tokens`. Not for texts longer than the model."""
        prefix = [] if self._bos_id is None else [self._bos_id]
        rows = [np.array([*prefix, *item.before, *item.ids], dtype=np.int32) for item in window]
        for item, row, table in zip(window, rows, self._tables(rows), strict=True):
            own = min(len(item.ids), len(row) - 1)
            logprobs, ids = table[-1 - own : -1], row[-own:]
            seen = np.arange(len(row), dtype=np.int32)[-own:] - len(prefix)
            chosen = logprobs[np.arange(own), ids]
            yield NextTokens(self._result(item, chosen, seen), ids, logprobs, table[-1])

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`Family.following`."""
        _, ids, _ = self._tokens(split_text_words(text))
        row = np.array([*([] if self._bos_id is None else [self._bos_id]), *ids], dtype=np.int32)
        if not len(row):
            raise PdtoolsError("without BOS the model gives no distribution of the first token")
        (logprobs,) = self._tables([row])
        return logprobs[-1]

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """See :attr:`Family.vocabulary`."""
        every = range(self._model.config.vocab_size)
        return tuple(self._tokenizer.decode([token]).strip() for token in every)

    @property
    def vocab_size(self) -> int:
        """See :class:`Family`."""
        return int(self._model.config.vocab_size)

    @torch.inference_mode()
    def _tables(self, rows: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
        """Next-token log-probabilities of each string of m tokens: float64 (m, V), nats."""

        def work(group: list[int]) -> Iterator[NDArray[np.float64]]:
            padded, mask = self._padded([rows[i] for i in group])
            logits = self._model(input_ids=padded, attention_mask=mask, use_cache=False).logits
            logprobs = logits.to(widest_float(logits.device)).log_softmax(2).cpu().double().numpy()
            return (values[: len(rows[i])] for values, i in zip(logprobs, group, strict=True))

        return in_batches(list(map(len, rows)), self._fits, work)

    def encode(self, sentence: Asked, *, any_length: bool = False) -> _Encoded | Unscorable:
        """See :meth:`Family.encode`."""
        assert not isinstance(sentence, Beginning)
        if isinstance(sentence, str):
            sentence = split_text_words(sentence)
        text = sentence.text
        if not sentence.words:
            return Unscorable(text, "no words")
        before, ids, spans = self._tokens(sentence)
        length = (self._bos_id is not None) + len(before) + len(ids)
        if not ids or length < 2:
            return Unscorable(text, "one token, and no BOS before it")
        if not any_length and self._window is not None and length > self._window:
            return Unscorable(text, f"longer than the model: {length} tokens, at most {self._window}")
        names = self._tokenizer.convert_ids_to_tokens(ids)
        tokens, words, starts, ends = [], [], [], []
        for token, name, (first, stop) in zip(ids, names, spans, strict=True):
            start, end, word = _place(sentence, name, first, stop)
            tokens.append((token != self._unk_id and text[start:end]) or name)
            words.append(word)
            starts.append(start)
            ends.append(end)
        return _Encoded(text, before, ids, tuple(tokens), tuple(words), tuple(starts), tuple(ends))

    def _check_tokens(self, ids: Sequence[int]) -> None:
        """Refuse tokens that the model does not have."""
        if ids and max(ids) >= self._n_tokens:
            name = self._tokenizer.convert_ids_to_tokens(max(ids))
            raise PdtoolsError(
                f"{self._folder}: token {max(ids)} of its tokenizer ({name!r}) is none of the model's"
                f" {self._n_tokens}: they do not belong together"
            )

    def _tokens(self, sentence: Sentence) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The context before a sentence, its tokens, and their characters in it."""
        before = (
            [each.text for each in sentence.before] if self.context.of == DOCUMENT else self.context.sentences
        )
        while True:
            text = "".join(f"{each}\n" for each in before)
            base = len(text)
            found = self._tokenizer(
                text + sentence.text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                return_attention_mask=False,
                verbose=False,
            )
            ids: list[int] = found["input_ids"]
            self._check_tokens(ids)
            # Tokens before the sentence have only characters of the context (including the line feed's),
            # never none: such as a blank that the tokenizer puts before a word.
            spans = [(start - base, end - base) for start, end in found["offset_mapping"]]
            first = sum(start < 0 and end <= 0 for start, end in spans)
            spans = [(max(0, start), max(0, end)) for start, end in spans]
            room = math.inf if self._window is None else self._window - (self._bos_id is not None)
            if not before or len(ids) <= room:
                return ids[:first], ids[first:], spans[first:]
            # At least the tokens over the limit, found by their characters.
            start = found["offset_mapping"][len(ids) - int(room)][0]
            lengths = np.cumsum([len(each) + 1 for each in before])
            before = before[max(1, int(np.searchsorted(lengths, start))) :]

    def score(self, window: Sequence[_Encoded]) -> list[SentenceScore]:
        """See :meth:`Family.score`."""
        prefix = [] if self._bos_id is None else [self._bos_id]
        # The distribution after the last token is the one before any further token.
        after = [] if self._begins is None else [0]
        found = read_in_windows(
            [np.array([*prefix, *item.before, *item.ids, *after], dtype=np.int32) for item in window],
            self._packed if self._packs else self._apart,
            window=self._window,
            stride=self.context.stride_of(self._window),
            bos=self._bos_id is not None,
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

    def _fits(self, length: int) -> int:
        return self._max_batch or strings_that_fit(length, self.vocab_size)

    def _padded(self, rows: Sequence[NDArray[np.int32]]) -> tuple[Tensor, Tensor]:
        """Tokens of strings, and which are no padding, int64 (B, N)."""
        # Padding is on the right, out of sight of a causal model; any id does.
        padded = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
        mask = torch.zeros_like(padded)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = torch.from_numpy(row)
            mask[place, : len(row)] = 1
        return padded.to(self._device), mask.to(self._device)

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
        self, item: _Encoded, values: NDArray[np.float64], seen: NDArray[np.int32]
    ) -> SentenceScore:
        if self._begins is None:
            return self._result(item, values, seen)
        n = min(len(values) - 1, len(item.ids))
        tokens = np.array(item.ids[-n:], np.int32)
        measures = as_measures(values[-n - 1 :, 1:], tokens, self._begins.cpu().numpy(), self.measures)
        return self._result(item, values[:-1, 0], seen[:-1], measures)

    def _result(
        self,
        item: _Encoded,
        values: NDArray[np.float64],
        seen: NDArray[np.int32],
        measures: dict[str, NDArray[np.float64]] | None = None,
    ) -> SentenceScore:
        n = min(len(values), len(item.ids))
        is_said = self.context.is_asked_for or (self._window is not None and len(values) >= self._window)
        logprobs, seen = values[-n:], seen[-n:]
        skip = len(item.ids) - n
        return SentenceScore(
            text=item.text,
            tokens=item.tokens[skip:],
            words=item.words[skip:],
            starts=item.starts[skip:],
            ends=item.ends[skip:],
            logprobs=logprobs,
            n_unknown=0 if self._unk_id is None else item.ids.count(self._unk_id),
            eos=False,
            first_token=1 + skip,
            seen=tuple(seen.tolist()) if is_said else None,
            measures=measures or {},
        )


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


def _place(sentence: Sentence, name: str, start: int, end: int) -> tuple[int, int, int]:
    """The place of a token with a sentence's characters ``start`` to ``end``.

    It consists of its characters without the white space around them (byte-level tokens begin with it), and
    its word, -1 for a line feed.

    A token of white space stands, without characters, before the word after it; at the end of a line
    after the word before it.
    """
    text = sentence.text
    own = text[start:end]
    if own.isspace() and "\n" in own:
        return start, start, -1
    if own.isspace() or (name in _BLANKS and name != own):
        while start < len(text) and text[start].isspace() and text[start] != "\n":
            start += 1
        if text[start : start + 1] in ("", "\n"):
            start = len(text[:start].rstrip())
        return start, start, max(0, bisect_right(sentence.starts, start) - 1)
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return start, end, sentence.word_at(start)
