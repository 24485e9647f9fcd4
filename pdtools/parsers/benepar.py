"""benepar, the Berkeley neural parser (Kitaev & Klein 2018; Kitaev, Cao & Klein 2019), as a backend.

benepar's own ``Parser`` picks its device itself, pads in corpus order and loses a whole batch to one
bad sentence; so this module loads its chart parser and does the batching.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.parsers.backends import BatchedParser, first_line, typed_quotes
from pdtools.trees import UNKNOWN_TAG, Tree, escape

DEFAULT_MODEL = "benepar_en3"
_INSTEAD = "--parser RUN parses with a model of pdtools train, --from treebank reads trees"
MAX_TOKENS = 1000
# A chart cell costs a large model some 8 kB: the scores of all labels and the hidden layers before them.
MAX_CELLS = 50_000

# Typographic signs in treebank form: the networks were trained on treebanks.
_TREEBANK_SIGNS = str.maketrans({"“": "``", "”": "''", "‘": "`", "’": "'", "—": "--", "…": "..."})
_START_AND_STOP = 2  # benepar's own two tokens around a sentence


class BeneparParser(BatchedParser):
    """A loaded benepar ``ChartParser``."""

    def __init__(
        self, chart_parser: Any, *, max_tokens: int = MAX_TOKENS, max_cells: int = MAX_CELLS
    ) -> None:
        from benepar.integrations.nltk_plugin import guess_language

        super().__init__(max_tokens=max_tokens, max_cells=max_cells, added_tokens=_START_AND_STOP)
        self._chart_parser = chart_parser
        self._language = guess_language(chart_parser.label_vocab)

    @property
    def max_words(self) -> int | None:
        """The longest sentence that the model can take, in words; ``None`` if only subwords bound it."""
        timing = self._chart_parser.add_timing
        return None if timing is None else timing.timing_table.shape[0] - _START_AND_STOP

    def problem(self, words: Sequence[str]) -> str | None:
        """See :meth:`BatchedParser.problem`."""
        reason = super().problem(words)
        if reason is None and self.max_words is not None and len(words) > self.max_words:
            reason = f"longer than the parser's {self.max_words} words"
        return reason

    def failure(self, error: Exception) -> str:
        """See :meth:`BatchedParser.failure`."""
        if "exceeds the maximum supported length" in str(error):
            return "longer than the parser's pretrained model takes"
        return super().failure(error)

    def parse_batch(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree]:
        """See :meth:`BatchedParser.parse_batch`."""
        examples = [self._example(words) for words in sentences]
        with warnings.catch_warnings():
            # torch-struct does not say which parameters its distributions take, and torch minds.
            warnings.filterwarnings("ignore", message=".*does not define `arg_constraints`")
            outputs = self._chart_parser.parse(examples, return_compressed=True)
        for words, output in zip(sentences, outputs, strict=True):
            yield self._tree(words, output)

    def _example(self, words: Sequence[str]) -> Any:
        from benepar import InputSentence
        from benepar.ptb_unescape import guess_space_after

        spelled = [word.translate(_TREEBANK_SIGNS) for word in words]
        escaped = [escape(word) for word in spelled]
        if self._chart_parser.pretrained_model is None:
            space_after = None  # a character LSTM reads one word at a time
        elif self._language == "zh":
            space_after = [False] * len(words)
        elif self._language in ("ar", "he"):
            space_after = [True] * len(words)
        else:
            space_after = guess_space_after(escaped)
        typed = [as_typed(word) for word in words]
        return InputSentence(words=typed, escaped_words=escaped, space_after=space_after)

    def _tree(self, words: Sequence[str], output: Any) -> Tree:
        nodes: list[tuple[str, int, int]] = []
        for start, end, label_index in zip(
            output.starts.tolist(), output.ends.tolist(), output.labels.tolist(), strict=True
        ):
            label = self._chart_parser.decoder.label_from_index[label_index]
            if not label and end - start == len(words) > 1:
                label = "TOP"  # several top constituents need one node above them
            nodes += [(part, start, end) for part in label.split("::") if part]
        if output.tags is None:
            tags = [UNKNOWN_TAG] * len(words)
        else:
            tags = [self._chart_parser.tag_from_index[index] for index in output.tags.tolist()]
        labels, starts, ends = zip(*nodes, strict=True) if nodes else ((), (), ())
        return Tree.of(map(escape, words), tags, labels, starts, ends)


def as_typed(word: str) -> str:
    """A word as the networks read it: typed quotes and dashes, without typographic signs."""
    return typed_quotes(word.translate(_TREEBANK_SIGNS))


def load(model: str | None, device: str) -> BeneparParser:
    """Load a benepar model.

    Args:
        model: a ``.pt`` file, a folder in the form of benepar's releases, or the name of a model that
            ``benepar.download`` installed (default: :data:`DEFAULT_MODEL`).
        device: a torch device.

    Raises:
        MissingDependencyError: if benepar is not installed.
        PdtoolsError: if there is no such model, or it cannot be loaded.
    """
    try:
        from benepar.parse_chart import ChartParser
    except ImportError as error:
        raise MissingDependencyError("benepar", "parse", _INSTEAD) from error

    class LenientChartParser(ChartParser):
        """Drops position indices from old checkpoints, which newer transformers no longer store."""

        def load_state_dict(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            known = self.state_dict()
            kept = {k: v for k, v in state_dict.items() if k in known or not k.endswith("position_ids")}
            return super().load_state_dict(kept, *args, **kwargs)

    name, path = model or DEFAULT_MODEL, model_path(model)
    try:
        with special_tokens_asked_for():
            chart_parser = LenientChartParser.from_trained(path)
    except Exception as error:
        raise PdtoolsError(f"{name}: {_why_not_loaded(error)}") from error
    if chart_parser.pretrained_model is not None:
        # transformers would advise on standard error to pad otherwise, which is benepar's affair.
        chart_parser.retokenizer.tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
    return BeneparParser(chart_parser.to(device).eval())


@contextmanager
def special_tokens_asked_for() -> Iterator[None]:
    """Restore for benepar the tokenizer method that transformers 5 removed, which locates special tokens.

    benepar calls it to make a model with a pretrained encoder (self-attentive-parser, issue 111).
    """
    from transformers import PreTrainedTokenizerFast

    name = "build_inputs_with_special_tokens"
    if hasattr(PreTrainedTokenizerFast, name):
        yield
        return
    setattr(PreTrainedTokenizerFast, name, _between_special_tokens)
    try:
        yield
    finally:
        delattr(PreTrainedTokenizerFast, name)


def _between_special_tokens(tokenizer: Any, ids: list[int]) -> list[int]:
    """Put tokens between the special tokens that the tokenizer adds to any text."""
    some = tokenizer("a", return_special_tokens_mask=True)
    own = [index for index, special in enumerate(some["special_tokens_mask"]) if not special]
    return [*some["input_ids"][: own[0]], *ids, *some["input_ids"][own[-1] + 1 :]]


def model_files(model: str | None) -> list[str]:
    """The file or folder of a model; see :func:`load`."""
    return [model_path(model)]


def model_path(model: str | None) -> str:
    """The path of a model; see :func:`load`.

    Raises:
        PdtoolsError: if there is none.
    """
    name = model or DEFAULT_MODEL
    if os.path.exists(name):
        return name
    if "/" in name or "." in name:
        raise PdtoolsError(
            f"{name}: no such benepar model (a .pt file, a folder, or a name such as {DEFAULT_MODEL})"
        )
    import nltk.data

    try:
        return os.fspath(nltk.data.find(f"models/{name}").path)
    except (LookupError, AttributeError) as error:  # the latter: only its zip file is there
        download = f"python -c \"import benepar; benepar.download('{name}')\""
        raise PdtoolsError(
            f"the benepar model {name} is not installed: {download} fetches it; "
            f"without a network, unpack it as nltk_data/models/{name}, or give its path with --model"
            f" ({_INSTEAD})"
        ) from error


def _why_not_loaded(error: Exception) -> str:
    if "build_inputs_with_special_tokens" in str(error):
        return "benepar cannot run this model with the installed transformers: pip install 'transformers<5'"
    return f"not a benepar model that can be loaded ({first_line(error)})"
