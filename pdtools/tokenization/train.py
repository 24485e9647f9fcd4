"""Training tokenizers on a corpus of words. The same corpus gives the same tokenizer, file for file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.tokenization.tokenizer import EOS, PAD, ROOT, UNK, Tokenizer
from pdtools.tokenization.words import Sentence, check_style

_N_BYTES = 256
_TYPED = {"'": "‘’‚‛", '"': "“”„‟", "-": "‐‑‒–", "--": "—⸺⸻", "...": "…"}
_REPEATED_AT_ONCE = 1000


def train_word_tokenizer(
    words: Iterable[str] | Mapping[str, int],
    *,
    min_count: int = 1,
    size: int | None = None,
    unk: bool = True,
    text_style: str = "ptb",
    lower_case: bool = False,
) -> Tokenizer:
    """Make a vocabulary of whole words.

    Special tokens come first, then words by falling count, words of equal count by code points.

    Args:
        words: every word of the corpus, repetitions included; or the number of occurrences of each.
        min_count: rarer words are excluded.
        size: the largest vocabulary, special tokens included; None: no limit.
        unk: whether words outside the vocabulary become ``<unk>``. Without it, a sentence with such a word
            cannot be encoded. (With ``min_count=1`` no training word ever is ``<unk>``.)
        text_style: how words become text, see :mod:`pdtools.tokenization.words`.
        lower_case: whether words are lowercased first, here and whenever the tokenizer is used.

    Raises:
        PdtoolsError: if no word is left.
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, normalizers, pre_tokenizers

    check_style(text_style)
    special = [PAD, ROOT, EOS, *([UNK] if unk else [])]
    counts = Counter(words)
    if lower_case:
        normalizer = normalizers.Lowercase()
        lowered: Counter[str] = Counter()
        for word, n in counts.items():
            lowered[normalizer.normalize_str(word)] += n
        counts = lowered
    for token in special:
        del counts[token]
    kept = sorted((word for word, n in counts.items() if n >= min_count), key=lambda w: (-counts[w], w))
    if size is not None:
        kept = kept[: max(0, size - len(special))]
    if not kept:
        limit = "" if size is None else f" and --vocab-size {size}, which special tokens count in"
        raise PdtoolsError(
            f"no word is left in the vocabulary with --min-count {min_count}{limit}: change that"
        )
    vocabulary = {word: index for index, word in enumerate([*special, *kept])}
    backend = Backend(models.WordLevel(vocabulary, unk_token=UNK))
    if lower_case:
        backend.normalizer = normalizer
    # Only ASCII spaces: a no-break space belongs to its word.
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    backend.add_special_tokens(special)
    return _finish(backend, text_style)


def train_bpe_tokenizer(
    sentences: Iterable[Sentence] | Mapping[str, int],
    *,
    size: int = 10_000,
    min_count: int = 2,
    text_style: str = "ptb",
    typed: bool = False,
) -> Tokenizer:
    """Train byte-level byte-pair encoding (as in GPT-2) on the words of a corpus.

    No word is unknown to it, so it has no ``<unk>``.

    Args:
        sentences: the corpus; in ``raw`` style they tell whether a space precedes a word. In
            ``ptb`` style also its words and their counts, which give the same tokenizer.
        size: vocabulary size, special tokens and the 256 bytes included.
        min_count: pairs seen more rarely are not merged.
        text_style: how words become text, see :mod:`pdtools.tokenization.words`.
        typed: whether typographic quotes, dashes and ellipses are read as typed ones, here and
            whenever the tokenizer is used: ``don’t`` has the tokens of ``don't``.

    Raises:
        PdtoolsError: if ``size`` has no room for special tokens and bytes.
    """
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers import Tokenizer as Backend

    check_style(text_style)
    special = [PAD, ROOT, EOS]
    if size < len(special) + _N_BYTES:
        raise PdtoolsError(f"a byte-level vocabulary needs at least {len(special) + _N_BYTES} entries")
    backend = Backend(models.BPE())
    if typed:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Replace(Regex(f"[{signs}]"), typed_as) for typed_as, signs in _TYPED.items()]
        )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=text_style == "ptb")
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    if isinstance(sentences, Mapping):
        if text_style != "ptb":
            raise PdtoolsError("counted words do not say where spaces are: raw text has to be given whole")
        backend.train_from_iterator(_repeated(sentences), trainer)
    else:
        spaced = (_with_spaces(sentence, text_style) for sentence in sentences)
        backend.train_from_iterator(spaced, trainer)
    return _finish(backend, text_style)


def _with_spaces(sentence: Sentence, text_style: str) -> list[str]:
    spaces = sentence.space_before
    return [
        " " + word if text_style == "ptb" or space else word
        for word, space in zip(sentence.words, spaces, strict=True)
    ]


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """Texts in which each word occurs as often as counted, a space before it."""
    for word, count in counts.items():
        # At a word's end the pre-tokenizer joins white space with the space of the next word.
        at_once = 1 if any(map(str.isspace, word)) else _REPEATED_AT_ONCE
        whole, rest = divmod(count, at_once)
        yield from repeat(f" {word}" * at_once, whole)
        if rest:
            yield f" {word}" * rest


def _finish(backend: Any, text_style: str) -> Tokenizer:
    """Let the plain backend (and so AutoTokenizer) add ``<root>`` and ``<eos>``, as our own encoding does."""
    from tokenizers import processors

    backend.post_processor = processors.TemplateProcessing(
        single=f"{ROOT} $A {EOS}", special_tokens=[(name, backend.token_to_id(name)) for name in (ROOT, EOS)]
    )
    return Tokenizer(backend.to_str(), text_style)
