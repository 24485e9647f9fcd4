"""The interface of families of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.search.adaptive_beam import Compared, Comparison
    from pdtools.search.parses import Parsed, ParsedScore
    from pdtools.search.scores import (
        Continuation,
        GivenRow,
        Measure,
        NextTokens,
        RowScore,
        SentenceScore,
        Unscorable,
    )
    from pdtools.tokenization import Sentence


class Family:
    """A family of models, as :class:`pdtools.search.model.Model` asks it; it begins at text.

    A family answers what it can, and refuses the rest. Results come in input order, lazily.

    Attributes:
        settings: for results, JSON-ready: ``kind`` (string, treereg, derivation, huggingface), ``model``,
            ``beam`` and the like (:data:`pdtools.search.options.NOT_SEARCHED`), ``bos``, ``eos``,
            ``text_style`` (None: text as given), ``dtype``; ``warning``, if there is one. Scores are in nats.
        measures: the measures added to log-probabilities, if any.
        marginal: the kind of its marginals; None if it gives none.
        has_arcs: whether parses have dependency arcs.
        look_ahead: number of sentences that should be given at once, to be batched by length.
    """

    settings: dict[str, Any]
    measures: frozenset[Measure] = frozenset()
    marginal: str | None = None

    @property
    def has_arcs(self) -> bool:
        """See the class."""
        return False

    @property
    def look_ahead(self) -> int:
        """See the class."""
        return 1024

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, by number."""
        raise PdtoolsError("this model has no vocabulary")

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """Score sentences, with the measures that are asked for."""
        raise PdtoolsError("--beam auto works only for eval-blimp, eval-sg and eval-benchmark: give a number")

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """Score sentences as :meth:`score` does, and add the best incremental parses."""
        raise PdtoolsError("incremental parses need a checkpoint with an attachment head")

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`pdtools.search.model.Model.parse`."""
        raise PdtoolsError("this model cannot parse")

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """Score sentences as far as comparisons need it: one result for each."""
        raise PdtoolsError("only --beam auto searches as far as comparisons need it")

    def next_tokens(self, sentences: Iterable[str | Sentence]) -> Iterator[NextTokens | Unscorable]:
        """Next-token distributions at every place of sentences."""
        raise PdtoolsError("this model gives no distribution of the next token")

    def following(self, text: str) -> NDArray[np.float64]:
        """See :meth:`pdtools.search.model.Model.following`."""
        raise PdtoolsError("this model gives no distribution of the next token")

    def score_rows(self, rows: Sequence[GivenRow]) -> list[RowScore]:
        """Score rows of shards with their derivations."""
        raise PdtoolsError("only checkpoints of pdtools score rows of shards")

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """Next-token distributions after prefixes, int32 (n + 1) with ROOT, over all derivations of them."""
        raise PdtoolsError("only checkpoints of pdtools continue rows of tokens")
