"""N-gram models: ARPA files, as KenLM and SRILM write them, and KenLM's binary ones, through KenLM.

KenLM unpacks gzip, bzip2 and xz, if it was compiled with them. A binary file is checked by its header alone.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from pdtools.errors import InputError, MissingDependencyError, PdtoolsError
from pdtools.files.inputs import utf8_name
from pdtools.files.packed import ZSTANDARD, open_packed
from pdtools.search.family import Family
from pdtools.search.options import NOT_SEARCHED, Context
from pdtools.search.scores import Asked, Beginning, Measure, SentenceScore, Unscorable
from pdtools.tokenization import Sentence, split_text_words

# log10 p of unknown words where a file has none for them: KenLM's choice.
_NO_UNKNOWN = -100.0
_MARKS = frozenset({"<s>", "</s>"})
# Characters that KenLM cannot be given; words with them are unknown.
_UNREAD = re.compile("[\0\ud800-\udfff]")
# KenLM's message: its place in KenLM's source, which nobody needs; what is wrong; the byte.
_MESSAGE = re.compile(
    r"Cannot read model '.*?' \((?:.* threw \w+(?: because `.*?'?`?)?\. )?(.*?)(?: Byte: (\d+))?\)?$",
    re.DOTALL,
)


def _load(path: str) -> Any:
    """Read a file of n-grams.

    Raises:
        InputError: if KenLM cannot read it, with the line.
        MissingDependencyError: if KenLM is not installed.
    """
    try:
        import kenlm
    except ImportError as error:
        raise MissingDependencyError("kenlm", "ngrams") from error
    with open(path, "rb") as file:
        if file.read(4) == ZSTANDARD:
            raise InputError("KenLM reads no Zstandard", file=path, hint="unpack it with zstd -d")
    config = kenlm.Config()
    config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    try:
        with utf8_name(path) as name:
            return kenlm.Model(str(name), config)
    except (OSError, UnicodeDecodeError) as error:
        said = _MESSAGE.match(str(error))
        reason, byte = said.groups() if said else (str(error), None)
        line = None
        if byte is not None:
            with contextlib.suppress(Exception), open_packed(path) as file:  # a damaged packing has no lines
                line = file.read(int(byte)).count(b"\n") + 1
        raise InputError(
            f"KenLM cannot read it: {reason.split('.  ')[0].strip()}", file=path, line=line
        ) from error


class NgramFamily(Family):
    """The family of an n-gram model: log p of words, and of the sentence's end.

    Words are the stretches between white space, as they are written; a sentence is read after ``<s>``.

    Args:
        path: a file of n-grams.
        context, measures: see :class:`Family`; the model has none of them.

    Raises:
        PdtoolsError: if the file cannot be read, or the model cannot do what is asked.
    """

    def __init__(self, path: str, *, context: Context, measures: Collection[Measure]) -> None:
        if context.of is not None or context.stride is not None:
            raise PdtoolsError(f"{path}: n-grams read single sentences: leave out --context and --stride")
        if {*measures} - {"structure"}:
            raise PdtoolsError(f"{path}: an n-gram model gives no whole distributions here")
        self._model = _load(path)
        self.settings: dict[str, Any] = {
            "kind": "ngrams",
            "model": f"{self._model.order}-grams",
            **NOT_SEARCHED,
            "bos": True,
            "eos": True,
            "text_style": None,
            "dtype": "float32",
        }
        [(of_unknown, *_)] = self._scores(["<unk>"], begins=False)
        if of_unknown <= _NO_UNKNOWN:
            self.settings["warning"] = f"{path}: no <unk>: log10 p of an unknown word is -100, as in KenLM"

    def encode(self, sentence: Asked, *, any_length: bool = False) -> Sentence | Unscorable:
        """See :meth:`Family.encode`."""
        assert not isinstance(sentence, Beginning)
        if isinstance(sentence, str):
            sentence = split_text_words(sentence)
        if marks := sorted(_MARKS.intersection(sentence.words)):
            return Unscorable(sentence.text, f"{marks[0]} is the model's own mark, not a word: leave it out")
        return sentence if sentence.words else Unscorable(sentence.text, "no words")

    def score(self, window: Sequence[Sentence]) -> Iterator[SentenceScore]:
        """See :meth:`Family.score`."""
        for sentence in window:
            found = self._scores([*sentence.words, "</s>"], begins=True)
            end = len(sentence.text)
            yield SentenceScore(
                text=sentence.text,
                tokens=(*sentence.words, "</s>"),
                words=(*range(len(sentence.words)), -1),
                starts=(*sentence.starts, end),
                ends=(*sentence.ends, end),
                logprobs=np.array([logprob for logprob, _, _ in found]) * math.log(10),
                n_unknown=sum(unknown for *_, unknown in found),
                eos=True,
            )

    def _scores(self, words: Sequence[str], *, begins: bool) -> list[tuple[float, int, bool]]:
        """For each word log10 p, the order of the n-gram that it is from, and whether it is unknown."""
        import kenlm

        before, after = kenlm.State(), kenlm.State()
        (self._model.BeginSentenceWrite if begins else self._model.NullContextWrite)(before)
        found = []
        for word in words:
            is_read = not _UNREAD.search(word)
            score = self._model.BaseFullScore(before, word if is_read else "<unk>", after)
            found.append((score.log_prob, score.ngram_length, score.oov))
            before, after = after, before
        return found
