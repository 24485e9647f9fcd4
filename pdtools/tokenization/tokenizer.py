"""Conversion of words to tokens and back, with a Hugging Face ``tokenizers`` tokenizer.

Words are encoded one by one, so a token never straddles two words. A tokenizer is stored as
``tokenizer.json`` and ``tokenizer_config.json``, which transformers' ``AutoTokenizer`` loads too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import read_json, recover_directory, write_json
from pdtools.provenance.hub import check_no_hub_name
from pdtools.tokenization.description import (
    EOS,
    PAD,
    ROOT,
    SPLIT_AT_SPACES,
    UNK,
    adapt,
    check_numbers,
    marks_spaces,
    splits_bytes,
    vocabulary_of,
)
from pdtools.tokenization.words import Sentence, check_style, split_words

if TYPE_CHECKING:
    import tokenizers

Int32 = NDArray[np.int32]

TOKENIZER_FILE, CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
DEFAULT_STYLE = "ptb"

MASKS = ("<mask>", "[MASK]")
_KINDS = {"WordLevel": "word", "BPE": "bpe"}
# Settings of a BPE model that change a word beyond its merges.
_BEYOND_MERGES = (
    "dropout",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)
_WORDS_TOGETHER = 64
_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"  # the decoding of a part of a character
_SPACE_LETTER = "Ġ"  # a space in byte-level vocabularies
_WORD_MARKS = (
    _SPACE_LETTER,
    "▁",
)  # how byte-level and SentencePiece vocabularies write the space before a word


class UnknownWordError(PdtoolsError):
    """A sentence has words that the vocabulary lacks, and the tokenizer has no ``<unk>``."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        super().__init__("unknown words, and the vocabulary has no <unk>: " + " ".join(words))


@dataclass(frozen=True, slots=True)
class Encoding:
    """A sentence of n tokens between ``<root>`` and ``<eos>``.

    Attributes:
        ids: int32 (n + 2,), vocabulary indices.
        word: int32 (n + 2,), the word that each token belongs to; -1 for ``<root>`` and ``<eos>``.
        starts: int32 (n + 2,), the beginning of each token in the sentence's text, in characters. Tokens
            that are parts of one character (byte-level vocabularies) all span it, tokens of a word that
            is spelled otherwise than the text all span the word.
        ends: int32 (n + 2,), the end of each token, exclusive.
        n_unknown: number of words that became ``<unk>``.
    """

    ids: NDArray[np.int32]
    word: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    n_unknown: int


@dataclass(frozen=True, slots=True)
class _WordTokens:
    """A word's tokens and their character spans within the word; no tokens: not in the vocabulary."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    unknown: bool


class Tokenizer:
    """A tokenizer that encodes sentences word by word.

    Attributes:
        text_style: how words become text for this tokenizer, ``ptb`` or ``raw``.
        kind: ``word``, ``bpe`` or ``other``.
        vocabulary: the number of each token as stored, special ones included.
        vocab_size: the number of vocabulary entries, special tokens included.
        pad_id, root_id, eos_id: special tokens.
        unk_id: the unknown word's token, or None if there is none.
        mask_id: the token that hides others from masked models: a mask token if there is one, else the
            padding, which occurs nowhere else.
        fingerprint: SHA-256 of ``tokenizer.json`` and the text style; equal fingerprints, equal tokens.
        labels: the vocabulary of constituents' labels that goes with the tokens, for models that write the
            tree into the string; empty if there is none.
        n_labels: the number of labels.
        text_tokens: the number of tokens that the model of a text tokenizer has; tokens with greater numbers
            are unknown to it. Such a tokenizer, an imported model's, reads a text as a whole: in ``ptb``
            style no space stands before its first word; in ``raw`` style tokens may reach across words
            without a space between them (``didn't``), unless a word (``gon na``) had none then, and there is
            always one before a final question mark. None: an ordinary tokenizer.
    """

    def __init__(
        self, backend_json: str, text_style: str, labels: Sequence[str] = (), text_tokens: int | None = None
    ) -> None:
        """Make a tokenizer from the contents of a ``tokenizer.json`` that holds our special tokens.

        :meth:`load` reads one from disk, and adapts one made elsewhere.
        """
        from tokenizers import Tokenizer as Backend

        check_style(text_style)
        self.text_tokens = text_tokens
        self.text_style = text_style
        self.labels = tuple(labels)
        self.n_labels = len(self.labels)
        self._json = backend_json
        self._backend: tokenizers.Tokenizer = Backend.from_str(backend_json)
        self._backend.encode_special_tokens = True  # the word "<eos>" of a text is text
        description = json.loads(backend_json)
        model = description["model"]
        self.kind = _KINDS.get(model["type"], "other")
        vocabulary = vocabulary_of(description) or self._backend.get_vocab(with_added_tokens=True)
        if text_tokens is not None:
            vocabulary = {token: number for token, number in vocabulary.items() if number < text_tokens}
        self.vocabulary: dict[str, int] = vocabulary
        self.vocab_size = 1 + max(vocabulary.values())
        for name in (PAD, ROOT, EOS):
            if self._backend.token_to_id(name) is None:
                raise PdtoolsError(f"the tokenizer lacks the special token {name}")
        self.pad_id, self.root_id, self.eos_id = map(self._backend.token_to_id, (PAD, ROOT, EOS))
        unknown = UNK if self._backend.token_to_id(UNK) is not None else model.get("unk_token")
        self.unk_id: int | None = None if unknown is None else self._backend.token_to_id(unknown)
        self.mask_id: int = next((vocabulary[name] for name in MASKS if name in vocabulary), self.pad_id)
        named = text_style if text_tokens is None else f"{text_style} {text_tokens}"
        self.fingerprint = hashlib.sha256(f"{named}\n{backend_json}".encode()).hexdigest()
        self._marks_spaces = marks_spaces(description)
        # Tokenizers trained here: a word's tokens depend on nothing else, and are known beforehand. Special
        # tokens are not found in text; other added ones are.
        added = description.get("added_tokens") or []
        trained_here = not description.get("normalizer") and all(token.get("special") for token in added)
        trained_here = trained_here and text_tokens is None
        before = description.get("pre_tokenizer")
        self._is_vocabulary = trained_here and self.kind == "word" and before == SPLIT_AT_SPACES
        self._takes_words_apart = trained_here and self.kind == "bpe" and splits_bytes(before)
        self._only_merges = not any(map(model.get, _BEYOND_MERGES))
        self._reserved = frozenset((self.pad_id, self.root_id, self.eos_id))
        self._tokens_of_word: dict[tuple[str, bool], _WordTokens] = {}

    # --- storage ------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, text_style: str | None = None) -> Tokenizer:
        """Read a tokenizer.

        Args:
            path: a ``tokenizer.json``, or a folder that holds one: a tokenizer's, a set of shards, a
                checkpoint, or a Hugging Face model's. Missing special tokens are added at the end of its
                vocabulary, and padding and truncation are removed.
            text_style: needed only for a tokenizer that doesn't record its own (``ptb`` then, if None).

        Raises:
            InputError: if there is no readable tokenizer.
            PdtoolsError: if ``text_style`` contradicts the tokenizer's own.
        """
        check_no_hub_name(path)
        file = Path(path)
        recover_directory(file)
        if file.is_dir():
            file = file / TOKENIZER_FILE
        if not file.is_file():
            hint = "give a folder or file saved by pdtools or by transformers' fast tokenizers"
            raise InputError("no such tokenizer", file=file, hint=hint)
        config_file = file.with_name(CONFIG_FILE)
        config = read_json(config_file) if config_file.is_file() else {}
        stored = config.get("text_style") if isinstance(config, dict) else None
        if stored is not None and text_style is not None and stored != text_style:
            reason = f"this tokenizer was made for {stored} text, not {text_style}"
            raise InputError(reason, file=path, hint="drop --text-style, or train another tokenizer")
        style = stored or text_style or DEFAULT_STYLE
        description = read_json(file)
        try:
            check_numbers(description)
            if stored is None:
                return cls(adapt(description, style), style)
            labels, text_tokens = _checked_labels(config, config_file), config.get("text_tokens")
            if text_tokens is not None and (type(text_tokens) is not int or text_tokens < 1):
                raise InputError("text_tokens has to be a number of tokens", file=config_file)
            return cls(file.read_text(encoding="utf-8"), style, labels, text_tokens)
        except PdtoolsError:
            raise
        except Exception as error:  # tokenizers raises bare Exception for everything unreadable
            raise InputError(f"not a tokenizer: {str(error).splitlines()[0]}", file=file) from error

    def save(
        self,
        folder: str | Path,
        for_transformers: Mapping[str, Any] = MappingProxyType(
            {"tokenizer_class": "PreTrainedTokenizerFast"}
        ),
    ) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json`` into an existing folder.

        Args:
            folder: an existing folder.
            for_transformers: entries of ``tokenizer_config.json`` that tell ``AutoTokenizer`` what to load;
                by default a tokenizer that splits words otherwise than ours.
        """
        folder = Path(folder)
        (folder / TOKENIZER_FILE).write_text(self._json, encoding="utf-8")
        unknown = {} if self.unk_id is None else {"unk_token": self._backend.id_to_token(self.unk_id)}
        config = {
            **for_transformers,
            "pad_token": PAD,
            "bos_token": ROOT,
            "eos_token": EOS,
            **unknown,
            # transformers overrules tokenizer.json if this is missing.
            "add_prefix_space": self.text_style == "ptb" and self._marks_spaces,
            "clean_up_tokenization_spaces": False,
            "text_style": self.text_style,
            **({"labels": list(self.labels)} if self.labels else {}),
            **({} if self.text_tokens is None else {"text_tokens": self.text_tokens}),
        }
        write_json(folder / CONFIG_FILE, config)

    def with_labels(self, labels: Sequence[str]) -> Tokenizer:
        """Return the tokenizer with another vocabulary of labels."""
        return Tokenizer(self._json, self.text_style, labels, self.text_tokens)

    @property
    def takes_single_words(self) -> bool:
        """Return whether a word's tokens depend on no other word."""
        return self.text_style == "ptb" and self.text_tokens is None

    @cached_property
    def label_ids(self) -> dict[str, int]:
        """The place of each label in ``labels``."""
        return {label: i for i, label in enumerate(self.labels)}

    def differs_from(self, earlier: Tokenizer) -> str | None:
        """A token whose number an earlier tokenizer had otherwise, or that is missing here; None if none."""
        numbers = self.vocabulary
        return next((t for t, number in earlier.vocabulary.items() if numbers.get(t) != number), None)

    # --- words to tokens ----------------------------------------------------------------------

    def encode(self, sentence: Sentence, *, space_before: bool = False) -> Encoding:
        """Encode a sentence, ``<root>`` before it and ``<eos>`` after.

        In ``ptb`` style every word counts as preceded by a space, in ``raw`` style as in the text.

        Args:
            sentence: the sentence to be encoded.
            space_before: whether a space stands before its first word (in ``raw`` style).

        Raises:
            UnknownWordError: if a word has no tokens and there is no ``<unk>``.
        """
        pieces = self._pieces(sentence, space_before)
        encoded = [self.encode_word(text, space) for _, text, space in pieces]
        missing = [text for (_, text, _), tokens in zip(pieces, encoded, strict=True) if not tokens.ids]
        if missing:
            raise UnknownWordError(missing)
        ids, word, starts, ends = [self.root_id], [-1], [0], [0]
        for (number, text, _), tokens in zip(pieces, encoded, strict=True):
            if text != sentence.words[number]:  # several words
                first = sentence.starts[number]
                ids += tokens.ids
                word += [sentence.word_at(first + start) for start, _ in tokens.spans]
                starts += [first + start for start, _ in tokens.spans]
                ends += [first + end for _, end in tokens.spans]
                continue
            first, last = sentence.starts[number], sentence.ends[number]
            # A word spelled longer than its stretch of the text (`` for "): its tokens all span the stretch.
            respelled = last - first != len(sentence.words[number])
            for index, (start, end) in zip(tokens.ids, tokens.spans, strict=True):
                ids.append(index)
                word.append(number)
                starts.append(first if respelled else first + start)
                ends.append(last if respelled else first + end)
        length = len(sentence.text)
        return Encoding(
            ids=np.array([*ids, self.eos_id], dtype=np.int32),  # (n + 2,)
            word=np.array([*word, -1], dtype=np.int32),  # (n + 2,)
            starts=np.array([*starts, length], dtype=np.int32),  # (n + 2,)
            ends=np.array([*ends, length], dtype=np.int32),  # (n + 2,)
            n_unknown=sum(tokens.unknown for tokens in encoded),
        )

    def _pieces(self, sentence: Sentence, space_before: bool) -> list[tuple[int, str, bool]]:
        """The texts that are encoded one by one: the first word, the text, whether a space is before it."""
        words = sentence.words
        spaces = [space_before, *sentence.space_before[1:]][: len(words)]
        if self.text_style == "ptb":
            begins_spaced = True if self.text_tokens is None else space_before
            return [(number, word, bool(number) or begins_spaced) for number, word in enumerate(words)]
        if self.text_tokens is None:
            return [(number, word, spaces[number]) for number, word in enumerate(words)]
        if words[-1:] == ("?",):
            spaces[-1] = True
        begins = [number for number in range(len(words)) if number == 0 or spaces[number]]
        spans = zip(begins, [*begins[1:], len(words)], strict=True)
        pieces: list[tuple[int, str, bool]] = []
        for first, last in spans:
            start = sentence.starts[first]
            text = sentence.text[start : sentence.ends[last - 1]]
            tokens = self.encode_word(text, spaces[first])
            if {sentence.word_at(start + at) for at, _ in tokens.spans} >= set(range(first, last)):
                pieces.append((first, text, spaces[first]))
            else:  # a token that holds several words
                pieces += [(number, words[number], spaces[number]) for number in range(first, last)]
        return pieces

    def word_tokens(self, word: str, *, space_before: bool = True) -> tuple[int, ...]:
        """The tokens of one word; empty if it is unknown and there is no ``<unk>``."""
        return self.encode_word(word, space_before).ids

    def tokens_of_words(self, words: Sequence[str]) -> tuple[Int32, Int32]:
        """The tokens of many words (:meth:`word_tokens` of each, a space before it), faster.

        Returns:
            ids: int32 (t), the words' tokens, concatenated.
            counts: int32 (words), the number of each word's tokens.
        """
        if self._is_vocabulary:
            ids = np.fromiter(map(self.vocabulary.get, words, repeat(-1)), np.int32, len(words))
            missing = np.isin(ids, [-1, *self._reserved])
            if self.unk_id is None:
                return ids[~missing], (~missing).astype(np.int32)
            ids[missing] = self.unk_id
            return ids, np.ones(len(words), dtype=np.int32)
        apart = self._taken_apart(words) if self._takes_words_apart else None
        if apart is not None:
            return apart
        found = [self.word_tokens(word) for word in words]
        counts = np.fromiter(map(len, found), np.int32, len(found))
        return np.fromiter(chain.from_iterable(found), np.int32, counts.sum()), counts

    def _taken_apart(self, words: Sequence[str]) -> tuple[Int32, Int32] | None:
        """:meth:`tokens_of_words` for byte-level BPE; None if a word's tokens do not tell where it begins."""
        # The pre-tokenizer leaves ASCII letters alone, so the model can take them directly.
        simple = np.fromiter((word.isascii() and word.isalpha() for word in words), bool, len(words))
        tokenize = self._backend.model.tokenize
        letters = [_SPACE_LETTER + word for word in compress(words, simple)]
        # Merges across two words would show: a word would not begin with a token.
        step = _WORDS_TOGETHER if self._only_merges else 1
        together = ("".join(letters[i : i + step]) for i in range(0, len(letters), step))
        first = [token.id for some in together for token in tokenize(some)]
        text = "".join(" " + word for word in compress(words, ~simple))
        rest = self._backend.encode(text, add_special_tokens=False).ids
        ids = np.array(first + rest, dtype=np.int32)
        begins = np.flatnonzero(self._begin_words[ids])
        if len(begins) != len(words) or np.isin(ids, list(self._reserved)).any():
            return None
        counts = np.diff(begins, append=len(ids)).astype(np.int32)  # for simple words, then for others
        place = np.empty(len(words), dtype=np.intp)
        place[simple] = np.arange(np.count_nonzero(simple))
        place[~simple] = np.arange(np.count_nonzero(simple), len(words))
        counts, begins = counts[place], begins[place]
        ends = np.cumsum(counts)
        return ids[np.arange(len(ids)) + np.repeat(begins - ends + counts, counts)], counts

    @cached_property
    def _begin_words(self) -> NDArray[np.bool_]:
        """Bool (vocabulary), true for tokens with a space before them."""
        begin = np.zeros(self.vocab_size, dtype=bool)
        begin[[index for token, index in self.vocabulary.items() if token.startswith(_SPACE_LETTER)]] = True
        return begin

    @cached_property
    def continue_words(self) -> NDArray[np.bool_]:
        """Bool (vocabulary), tokens that are never a word's first. In ``raw`` style no token shows it."""
        continues = np.zeros(self.vocab_size, dtype=bool)
        if self.text_style != "raw":
            special = {*self._reserved, self.unk_id}
            continues[[i for i in self.vocabulary.values() if not (i in special or self._begins_word(i))]] = (
                True
            )
        return continues

    @cached_property
    def begin_words(self) -> NDArray[np.bool_]:
        """Bool (vocabulary), tokens that begin a word; in ``raw`` style, a word after a space."""
        if self.text_style != "raw":
            return ~self.continue_words
        begins = np.zeros(self.vocab_size, dtype=bool)
        begins[[index for index in self.vocabulary.values() if self._begins_word(index)]] = True
        return begins

    def encode_word(self, word: str, space_before: bool) -> _WordTokens:
        """A word's tokens and their spans, looked up once."""
        key = (word, space_before)
        tokens = self._tokens_of_word.get(key)
        if tokens is None:
            tokens = self._tokens_of_word[key] = self._encoded_word(word, space_before)
        return tokens

    def _encoded_word(self, word: str, space_before: bool) -> _WordTokens:
        prefix = " " if space_before and self._marks_spaces else ""
        try:
            encoding = self._backend.encode(prefix + word, add_special_tokens=False)
            ids, offsets = tuple(encoding.ids), encoding.offsets
        except Exception:  # WordLevel without <unk> raises a bare Exception for an unknown word
            ids, offsets = (), []
        is_known = not ids or max(ids) < self.vocab_size
        if not ids or not is_known or not self._reserved.isdisjoint(ids):
            if self.unk_id is None:
                return _WordTokens((), (), True)
            return _WordTokens((self.unk_id,), ((0, len(word)),), True)
        shift = len(prefix)
        spans = tuple((max(start - shift, 0), max(end - shift, 0)) for start, end in offsets)
        return _WordTokens(ids, spans, self.unk_id in ids)

    # --- tokens to words ----------------------------------------------------------------------

    def token_text(self, token: int) -> str:
        """A token as text, without the space before it; for a part of a character, the vocabulary's form."""
        stored = self._backend.id_to_token(token)
        if stored is None:
            raise PdtoolsError(f"token {token} is not in the vocabulary of {self.vocab_size}")
        text = str(self._backend.decode([token], skip_special_tokens=False)).strip()
        return stored if not text or _INCOMPLETE in text else text

    def decode(self, ids: Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
        """Convert tokens to words.

        Args:
            ids: tokens without ``<root>``, ``<eos>`` and padding.

        Returns:
            The words, and for each token the word that it belongs to. A word begins where the
            vocabulary marks a space; in ``raw`` style also where :func:`split_words` would begin one,
            provided that a token begins there.
        """
        text = self.text(ids)
        # A character that is not complete yet begins at its future place.
        prefixes = (self.text(ids[:k]).rstrip(_INCOMPLETE) for k in range(len(ids)))
        starts = [_skip_spaces(text, len(prefix)) for prefix in prefixes]
        splits: set[int] = set()
        if self.text_style == "raw" and self._marks_spaces:
            splits.update(split_words(text, "raw").starts)
        groups: list[list[int]] = []
        begun: set[int] = set()  # a space may be a token of its own: its word begins once
        for index, start in zip(ids, starts, strict=True):
            begins = (self._begins_word(index) or start in splits) and start not in begun
            if not groups or (begins and start < len(text)):
                groups.append([])
                begun.add(start)
            groups[-1].append(index)
        words = tuple(self.text(group).strip() or self.token_text(group[0]) for group in groups)
        return words, [number for number, group in enumerate(groups) for _ in group]

    def text(self, ids: Sequence[int]) -> str:
        """Tokens as text, with the spaces that they include."""
        return str(self._backend.decode(list(ids), skip_special_tokens=False))

    def _begins_word(self, index: int) -> bool:
        token = str(self._backend.id_to_token(index))
        if self._marks_spaces:
            return token.startswith(_WORD_MARKS)
        return self.kind == "word" or not token.startswith("##")  # WordPiece's mark of continuation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        given = {"backend_json": self._json, "text_style": self.text_style, "labels": self.labels}
        return {**given, "text_tokens": self.text_tokens}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _checked_labels(config: Mapping[str, Any], file: Path) -> Sequence[str]:
    labels = config.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise InputError("labels have to be a list of names", file=file)
    if len(set(labels)) < len(labels):
        raise InputError("a label is there twice", file=file)
    return labels


def _skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
