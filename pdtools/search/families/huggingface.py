"""Hugging Face language models: their folders, and text as they read it."""

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
from pdtools.search.batches import strings_that_fit
from pdtools.search.family import Family
from pdtools.search.options import DOCUMENT, NOT_SEARCHED, Context
from pdtools.search.scores import Asked, Beginning, Measure, SentenceScore, Unscorable
from pdtools.tokenization import Sentence, split_text_words

# A single space in byte-level and SentencePiece vocabularies.
_BLANKS = ("Ġ", "▁")
# Without the second option transformers may ask on the terminal whether to run a folder's code.
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_DIGITS = re.compile(r"\d+")
SURROGATES = re.compile("[\ud800-\udfff]")


@contextlib.contextmanager
def explained_errors(folder: str, part: str) -> Iterator[None]:
    """Turn transformers' errors on a damaged part of a folder into an error of one line."""
    try:
        yield
    except PdtoolsError:
        raise
    except Exception as error:  # transformers and tokenizers raise all kinds of errors for unreadable files
        if is_lack_of_memory(error):
            raise
        if "trust_remote_code" in str(error):
            raise PdtoolsError(
                f"{folder}: {part} needs Python code of the folder's own (auto_map), which is never run here:"
                " only architectures that come with transformers can be loaded"
            ) from error
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        _check_version(folder, f"{part}: {first_line}")
        raise PdtoolsError(
            f"{folder}: not a language model that can be loaded: {part}: {first_line}"
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


def load_pretrained(folder: str) -> tuple[Any, Any, bool]:
    """Load the tokenizer and the model in a folder, and say whether it is a masked language model.

    Raises:
        PdtoolsError: if they cannot be loaded, or are neither a causal nor a masked language model.
        MissingDependencyError: if transformers is not installed.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    check_no_pointers(folder)
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # its warnings become errors here
    logging.disable_progress_bar()
    try:
        config = load_config(folder)
        masked = is_masked(folder, config)
        # Transformers 5 moved the bases of rotary positions there, and 4 would use its defaults for them.
        if hasattr(config, "rope_parameters") and not hasattr(type(config)(), "rope_parameters"):
            _check_version(folder, "rope_parameters")
        has_file = Path(folder, "tokenizer.json").is_file()
        with explained_errors(folder, "its tokenizer" + " (no tokenizer.json)" * (not has_file)):
            tokenizer = AutoTokenizer.from_pretrained(folder, **_LOCAL)
            tokenizer("a")  # settings of wrong types would show only here
        with explained_errors(folder, "its weights"):
            kind: Any = AutoModelForMaskedLM if masked else AutoModelForCausalLM
            loaded = kind.from_pretrained(folder, output_loading_info=True, **_LOCAL)
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
    return tokenizer, model, masked


def load_config(folder: str) -> Any:
    """Read the configuration in a folder.

    Raises:
        PdtoolsError: if it cannot be read.
        MissingDependencyError: if transformers is not installed.
    """
    try:
        from transformers import AutoConfig
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    with explained_errors(folder, "config.json"):
        return AutoConfig.from_pretrained(folder, **_LOCAL)


def is_masked(folder: str, config: Any) -> bool:
    """Return whether an architecture, as it is configured, sees what comes after a token.

    Raises:
        PdtoolsError: for encoder-decoders.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    if getattr(config, "is_encoder_decoder", False):
        raise PdtoolsError(
            f"{folder}: {config.model_type} is an encoder-decoder: only causal and masked language models"
            " give scores of sentences"
        )
    is_decoder = any(getattr(config, name, False) for name in ("is_decoder", "causal"))  # XLM's name for it
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and not is_decoder


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text as the model reads it.

    int[c] of the context before it, ids int[m], and each one's place in the text; and ``pieces``, the word
    that the tokenizer made each from.
    """

    text: str
    before: list[int]
    ids: list[int]
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    pieces: list[int]


class HuggingFaceFamily(Family):
    """Base of the families (:class:`pdtools.search.family.Family`) of Hugging Face language models.

    Text is read as given, and end-of-sentence is not scored. Words are text words, or the words of a
    :class:`Sentence`; a token belongs to the word of its first visible character, so that sums over words
    count every token once. A line feed in a document belongs to no word; one follows each sentence of the
    context.

    Args:
        folder: the model's.
        tokenizer, model: from :func:`load_pretrained`.
        before, after: the tokens around a text.
        longest: the tokens that it can read; None: no limit.
    """

    def __init__(
        self,
        folder: str,
        tokenizer: Any,
        model: Any,
        *,
        before: Sequence[int],
        after: Sequence[int],
        longest: int | None,
        max_batch: int | None,
        context: Context,
        measures: Collection[Measure],
    ) -> None:
        self._folder, self._tokenizer, self._model = folder, tokenizer, model
        self._device = model.device
        if not tokenizer.is_fast:
            raise PdtoolsError(f"{folder}: its tokenizer gives no character offsets (no tokenizer.json)")
        # Its special tokens are not needed, and offsets would lose their spaces.
        tokenizer.backend_tokenizer.post_processor = None
        # GPT-2 also names its end-of-text token as the unknown one, and never produces it.
        unk_id: int | None = tokenizer.unk_token_id
        self._unk_id = None if unk_id == tokenizer.eos_token_id else unk_id
        self._max_batch = max_batch
        self._n_tokens: int = model.get_input_embeddings().num_embeddings
        self._before, self._after = [*before], [*after]
        self._check_tokens([*before, *after])
        self.context = context
        self.measures = frozenset(measures)
        self._window = context.window_of(longest)
        self.settings: dict[str, Any] = {
            "kind": "huggingface",
            "model": model.config.model_type,
            **NOT_SEARCHED,
            "eos": False,
            "text_style": None,
            "dtype": str(model.dtype).removeprefix("torch."),
            **context.described(self._window, has_trees=False),
        }

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """See :attr:`Family.vocabulary`."""
        every = range(self._model.config.vocab_size)
        return tuple(self._tokenizer.decode([token]).strip() for token in every)

    @property
    def vocab_size(self) -> int:
        """See :class:`Family`."""
        return int(self._model.config.vocab_size)

    def encode(self, sentence: Asked, *, any_length: bool = False) -> EncodedText | Unscorable:
        """See :meth:`Family.encode`."""
        assert not isinstance(sentence, Beginning)
        if isinstance(sentence, str):
            sentence = split_text_words(sentence)
        text = sentence.text
        if not sentence.words:
            return Unscorable(text, "no words")
        if SURROGATES.search(text):
            return Unscorable(text, "half of a surrogate pair in it is no text")
        before, ids, spans, pieces = self._tokens(sentence)
        length = len(self._before) + len(before) + len(ids) + len(self._after)
        if not ids:
            return Unscorable(text, "the tokenizer finds no tokens in it")
        if length < 2:
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
        return EncodedText(text, before, ids, tuple(tokens), tuple(words), tuple(starts), tuple(ends), pieces)

    def _check_tokens(self, ids: Sequence[int]) -> None:
        """Refuse tokens that the model does not have."""
        if ids and max(ids) >= self._n_tokens:
            name = self._tokenizer.convert_ids_to_tokens(max(ids))
            raise PdtoolsError(
                f"{self._folder}: token {max(ids)} of its tokenizer ({name!r}) is none of the model's"
                f" {self._n_tokens}: they do not belong together"
            )

    def _tokens(self, sentence: Sentence) -> tuple[list[int], list[int], list[tuple[int, int]], list[int]]:
        """The context before a sentence, its tokens, their characters in it, and the tokenizer's words."""
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
            room = math.inf if self._window is None else self._window - len(self._before) - len(self._after)
            if not before or len(ids) <= room:
                return ids[:first], ids[first:], spans[first:], found.word_ids()[first:]
            # At least the tokens over the limit, found by their characters.
            start = found["offset_mapping"][len(ids) - int(room)][0]
            lengths = np.cumsum([len(each) + 1 for each in before])
            before = before[max(1, int(np.searchsorted(lengths, start))) :]

    def _fits(self, length: int) -> int:
        return self._max_batch or strings_that_fit(length, self.vocab_size)

    def _padded(self, rows: Sequence[NDArray[np.int32]]) -> tuple[Tensor, Tensor]:
        """Tokens of strings, and which are no padding, int64 (B, N)."""
        # Padding is on the right, out of sight; any token does, but that RoBERTa tells positions by it.
        filling = self._tokenizer.pad_token_id or 0
        padded = torch.full((len(rows), max(map(len, rows))), filling, dtype=torch.int64)
        mask = torch.zeros_like(padded)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = torch.from_numpy(row)
            mask[place, : len(row)] = 1
        return padded.to(self._device), mask.to(self._device)

    def _result(
        self,
        item: EncodedText,
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
