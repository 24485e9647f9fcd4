"""Parses of models that were trained with TreeReg: from hidden states of the whole sentence, unlabeled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel, TransformerLM
from pdtools.models.treereg import SentenceScores, best_tree, greedy_tree, residual_norms
from pdtools.search.checkpoint_scorer import Parsed, ParsedScore
from pdtools.search.encoding import Encoded, score_windows
from pdtools.search.memory import budget, explained_memory_errors, length_groups, strings_that_fit
from pdtools.search.scores import Unscorable
from pdtools.search.string_scorer import StringScorer
from pdtools.tokenization import Sentence
from pdtools.trees import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, sentence_problem

# Bytes of a pair of tokens: products, norms, and what is computed between them.
_PAIR_BYTES = 64


class TreeRegParser(StringScorer):
    """A :class:`~pdtools.search.checkpoint_scorer.Searcher` that searches nothing: one tree, without scores.

    p(x) is the language model's, exactly (:class:`StringScorer`).

    Args:
        loaded: a checkpoint with TreeReg.
        cky: give the tree with the largest sum of split scores; else each node, from the top down, takes its
            best split.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
    """

    def __init__(self, loaded: LoadedModel, *, cky: bool = False, max_batch: int | None = None) -> None:
        super().__init__(loaded, max_batch=max_batch)
        self.settings |= {"kind": "treereg", "cky": cky}
        self._parse_scores = best_tree if cky else greedy_tree

    def parse(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, derivations: bool = False
    ) -> Iterator[Parsed | Unscorable]:
        """See :meth:`~pdtools.search.checkpoint_scorer.Searcher.parse`.

        Raises:
            PdtoolsError: if more than one tree is asked for.
        """
        if k_best > 1:
            raise PdtoolsError("a model trained with TreeReg gives one tree a sentence: leave out --k-best")
        return score_windows(sentences, self._encode_for_tree, self._parse, self.look_ahead)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """Refused.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError(
            "a model trained with TreeReg parses whole sentences alone: leave out --parses, or use decode"
        )

    def _encode_for_tree(self, sentence: str | Sentence) -> Encoded | Unscorable:
        found = self._encode(sentence)
        if isinstance(found, Encoded) and (problem := sentence_problem(found.sentence.words)):
            return Unscorable(found.sentence.text, problem)
        return found

    @torch.inference_mode()
    def _parse(self, window: list[Encoded]) -> list[Parsed]:
        model = self.loaded.model
        assert isinstance(model, TransformerLM)
        ids = [item.encoding.ids[:-1] for item in window]  # no state depends on end-of-sentence
        trees: dict[int, Tree] = {}
        for places in length_groups([len(row) for row in ids], self._sentences_that_fit):
            rows = [(ids[i], model.no_derivation(ids[i])) for i in places]
            with explained_memory_errors():
                states = model.treereg_states(model.pack(rows).to(model.device))  # (B, N, d)
                norms = residual_norms(states).cpu().numpy()  # (B, N, N)
            trees.update((i, self._tree(window[i], found)) for i, found in zip(places, norms, strict=True))
        return [Parsed(((None, trees[i]),), None, None) for i in range(len(window))]

    def _sentences_that_fit(self, length: int) -> int:
        model = self.loaded.model
        pairs = max(1, budget(model) // (_PAIR_BYTES * length**2))
        return self.max_batch or min(pairs, strings_that_fit(length, model.vocab_size))

    def _tree(self, encoded: Encoded, norms: np.ndarray) -> Tree:
        """The tree over a sentence's words, from O of its row."""
        word = encoded.encoding.word  # (n + 2), -1 for ROOT and end-of-sentence
        ends = np.flatnonzero(word[:-1] != word[1:])[1:]  # last token of each word; the first one is ROOT
        nodes = self._parse_scores(SentenceScores(norms, ends))
        words = tuple(escape(each) for each in encoded.sentence.words)
        return Tree(
            words=words,
            tags=(UNKNOWN_TAG,) * len(words),
            labels=(UNKNOWN_LABEL,) * len(nodes),
            starts=np.array([first for first, _, _ in nodes], np.int32),
            ends=np.array([past for _, past, _ in nodes], np.int32),
        )
