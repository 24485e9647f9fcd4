"""A model's attention when it predicts a token: under its best derivation there, or a given one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.inspection.attention import attention_weights, has_attention
from pdtools.inspection.derivation_views import view_of
from pdtools.models import LoadedModel
from pdtools.search.checkpoints import Encoded
from pdtools.search.families.proposal_trees import read_proposal_trees
from pdtools.search.model import Model
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.tokenization import Sentence

# Sentences inspected together: all their weights are in memory.
_TOGETHER = 16


@dataclass(frozen=True)
class Prediction:
    """A model's attention when it predicts a token.

    Attributes:
        encoded: the sentence.
        token: the predicted one, from 1; before it are 0 (ROOT) to ``token - 1``.
        weights: float64 (L, H, token), of each layer and head how much goes to each of those before.
        rest: float64 (L, H), to what is no token: of action models what opens and closes; else 0.
    """

    encoded: Encoded
    token: int
    weights: NDArray[np.float64]
    rest: NDArray[np.float64]

    @property
    def starts(self) -> list[int]:
        """The first character of each token before it, without ROOT."""
        starts: list[int] = self.encoded.encoding.starts[1 : self.token].tolist()
        return starts


class Predictions:
    """Predictions of one model on sentences.

    Args:
        loaded: a causal transformer.
        search: for derivations, for models whose words depend on them; with trees, the first of each sentence
            is read.

    Attributes:
        settings: the model's settings, see :class:`pdtools.search.Family`.

    Raises:
        PdtoolsError: if the model has no attention to inspect, or no use for trees.
    """

    def __init__(self, loaded: LoadedModel, search: SearchOptions) -> None:
        if not has_attention(loaded.model):
            raise PdtoolsError(
                f"{loaded.folder}: not a transformer that reads from left to right: it has no such attention"
            )
        self._loaded = loaded
        self._trees = search.trees
        is_searched = search.trees is not None or loaded.model.derivation_kind.conditions_tokens
        self._model = Model.of(loaded, search if is_searched else NO_SEARCH)
        self.settings = self._model.settings

    def at(self, sentences: Iterable[tuple[Sentence, int]]) -> Iterator[Prediction | Unscorable]:
        """Inspect sentences: one result each, in order, lazily.

        Args:
            sentences: each with a character: the predicted token is the first that begins there or later.
        """
        stream = iter(sentences)
        while together := list(islice(stream, _TOGETHER)):
            found = list(self._derived([sentence for sentence, _ in together]))
            known = [
                (encoded, _token_at(encoded, start), derivations)
                for (encoded, derivations), (_, start) in zip(found, together, strict=True)
                if isinstance(encoded, Encoded)
            ]
            predictions = iter(self._look(known) if known else [])
            for encoded, _ in found:
                yield next(predictions) if isinstance(encoded, Encoded) else encoded

    def _derived(self, sentences: list[Sentence]) -> Iterator[tuple[Encoded | Unscorable, Any]]:
        """Encoded sentences, each with its derivations.

        These are the best one after each token from 0 (actions: from 1) on, or the whole sentence's.
        """
        loaded, trees = self._loaded, self._trees
        if trees is None and loaded.model.derivation_kind.conditions_tokens:
            for found in self._model.trace(sentences, hypotheses=0):
                if isinstance(found, Unscorable):
                    yield found, None
                else:
                    yield found.encoded, found.result.incremental
            return
        given = {} if trees is None else read_proposal_trees(loaded, trees).by_ids
        for encoded in map(self._model.family.encode, sentences):
            is_known = trees is not None and isinstance(encoded, Encoded)
            yield encoded, given[encoded.ids.tobytes()][0] if is_known else None

    def _look(self, known: list[tuple[Encoded, int, Any]]) -> Iterator[Prediction]:
        model = self._loaded.model
        view = view_of(model)
        rows = [self._row(*each) for each in known]
        batch = model.pack(rows).to(model.device)
        weights = attention_weights(model, batch).weights.cpu().double().numpy()  # (B, L, H, N, N)
        for (encoded, token, _), read, row in zip(known, batch.tokens.cpu().numpy(), weights, strict=True):
            places = view.places(read, model.vocab_size)[: token + 1]
            query = row[:, :, places[token] - 1]  # (L, H, N)
            own = query[:, :, places[:token]]
            # Summed, not subtracted from 1, which would seldom give 0.
            rest = np.delete(query, places[:token], axis=2).sum(2)
            yield Prediction(encoded, token, own, rest)

    def _row(self, encoded: Encoded, token: int, derivations: Any) -> tuple[Any, Any]:
        """The tokens before the predicted one (with actions, including it), and their derivation."""
        model, ids = self._loaded.model, encoded.ids
        if derivations is None:
            return ids[:token], model.no_derivation(ids[:token])
        return view_of(model).beginning(ids, token, derivations)


def _token_at(encoded: Encoded, start: int) -> int:
    """The first token, from 1, that begins at a character or later."""
    return 1 + int(np.searchsorted(encoded.encoding.starts[1:-1], start))
