"""The interface of families of models, and the windows in which they are given sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.search.options import NO_CONTEXT, Context
from pdtools.search.scores import Unscorable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.search.parses import Parsed, ParsedScore
    from pdtools.search.scores import (
        Asked,
        Continuation,
        GivenRow,
        Measure,
        NextTokens,
        RowScore,
        SentenceScore,
    )

# Number of sentences in a window, to be batched by length: fewer if each takes long, so that results keep
# coming.
LOOK_AHEAD = 1024
SEARCH_LOOK_AHEAD = 128
DOCUMENTS_LOOK_AHEAD = 16

_NO_NEXT_TOKENS = "this model gives no distribution of the next token"


class Family:
    """A family of models, as :class:`pdtools.search.model.Model` asks it.

    It encodes sentences, and answers for windows of encoded ones: one answer each, in order. It answers
    what it can, and refuses the rest.

    Attributes:
        settings: for results, JSON-ready: ``kind`` (string, treereg, derivation, huggingface), ``model``,
            ``beam`` and the like (:data:`pdtools.search.options.NOT_SEARCHED`), ``bos``, ``eos``,
            ``text_style`` (None: text as given), ``dtype``; ``warning``, if there is one. Scores are in nats.
        context: the text read before sentences.
        measures: the measures added to log-probabilities, if any.
        marginal: the kind of its marginals; None if it gives none.
        has_arcs: whether parses have dependency arcs.
        look_ahead: number of sentences in a window; 0: all of them, as they come.
        keeps_tables: whether the measures that are asked for need whole next-token distributions.
    """

    settings: dict[str, Any]
    context: Context = NO_CONTEXT
    measures: frozenset[Measure] = frozenset()
    marginal: str | None = None

    @property
    def has_arcs(self) -> bool:
        """See the class."""
        return False

    @property
    def look_ahead(self) -> int:
        """See the class."""
        if self.context.stride is not None:
            return DOCUMENTS_LOOK_AHEAD
        return LOOK_AHEAD if self.settings.get("beam") is None else SEARCH_LOOK_AHEAD

    @property
    def keeps_tables(self) -> bool:
        """See the class."""
        return "rank" in self.measures

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, by number."""
        raise PdtoolsError("this model has no vocabulary")

    @property
    def vocab_size(self) -> int:
        """The number of tokens in next-token distributions."""
        raise PdtoolsError(_NO_NEXT_TOKENS)

    def answers(
        self, verb: str, sentences: Iterable[Asked], most: int | None = None, **arguments: Any
    ) -> Iterator[Any]:
        """Ask one of the methods below about sentences, window by window: an answer each, in order, lazily.

        Args:
            verb: the method.
            sentences: running text, words already split, or beginnings.
            most: number of sentences in a window; None: :attr:`look_ahead`.
            arguments: the method's further arguments.
        """
        encoded = (self.encode(sentence, any_length=verb == "score") for sentence in sentences)
        answer = getattr(self, verb)
        if not self.look_ahead:
            yield from answer(encoded, **arguments)
            return
        while window := list(islice(encoded, most or self.look_ahead)):
            found = iter(answer([each for each in window if not isinstance(each, Unscorable)], **arguments))
            for each in window:
                yield each if isinstance(each, Unscorable) else next(found)

    def encode(self, sentence: Asked, *, any_length: bool = False) -> Any:
        """Encode a sentence, or give the reason why the model cannot read it; by default it stays text.

        Args:
            sentence: see :meth:`answers`.
            any_length: whether one that is longer than the model is encoded too, if the family scores it in
                windows.
        """
        return sentence

    def score(self, window: Sequence[Any]) -> Iterable[SentenceScore | Unscorable]:
        """Score sentences, with the measures that are asked for."""
        raise PdtoolsError("--beam auto works only for eval-blimp, eval-sg and eval-benchmark: give a number")

    def score_with_parses(self, window: Sequence[Any]) -> Iterable[ParsedScore | Unscorable]:
        """Score sentences as :meth:`score` does, and add the best incremental parses."""
        raise PdtoolsError("incremental parses need a checkpoint with an attachment head")

    def parse(self, window: Sequence[Any], *, k_best: int = 1) -> Iterable[Parsed | Unscorable]:
        """See :meth:`pdtools.search.model.Model.parse`."""
        raise PdtoolsError("this model cannot parse")

    def trace(self, window: Sequence[Any], *, hypotheses: int) -> Iterable[Any]:
        """See :meth:`pdtools.search.model.Model.trace`."""
        raise PdtoolsError("this model searches nothing, and has no beam to show")

    def next_tokens(self, window: Sequence[Any]) -> Iterable[NextTokens | Unscorable]:
        """Next-token distributions at every place of sentences."""
        raise PdtoolsError(_NO_NEXT_TOKENS)

    def compare(self, comparisons: Iterable[Any]) -> Iterator[Any]:
        """See :meth:`pdtools.search.model.Model.compare`; one result for each, in order, lazily."""
        raise PdtoolsError("only --beam auto searches as far as comparisons need it")

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`pdtools.search.model.Model.following`."""
        raise PdtoolsError(_NO_NEXT_TOKENS)

    def problem(self, ids: NDArray[np.int32]) -> str | None:
        """The reason why a row of shards, int32 (n + 2), cannot be scored; None: it can."""
        return None

    def score_rows(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """Score rows of shards with their derivations."""
        raise PdtoolsError("only checkpoints of pdtools score rows of shards")

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """Next-token distributions after prefixes, int32 (n + 1) with ROOT, over all derivations of them."""
        raise PdtoolsError("only checkpoints of pdtools continue rows of tokens")
