"""Parses by models trained with TreeReg: from hidden states of the whole sentence, unlabeled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel, TransformerLM
from pdtools.models.treereg import Node, SentenceScores, best_tree, greedy_tree, residual_norms
from pdtools.search.encoding import Encoded, score_windows
from pdtools.search.memory import budget, explained_memory_errors, length_groups, strings_that_fit
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import Unscorable
from pdtools.search.strings.scorer import StringScorer
from pdtools.tokenization import Sentence
from pdtools.trees import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, sentence_problem

# Bytes per pair of tokens: products, norms, and intermediate values.
_PAIR_BYTES = 64


class TreeRegParser(StringScorer):
    """The family (:class:`pdtools.search.family.Family`) of models with TreeReg: one tree, without scores.

    p(x) is the language model's, exactly (:class:`StringScorer`).

    Args:
        loaded: a checkpoint with TreeReg.
        cky: give the tree with the largest sum of split scores; else each node, from the top down, takes its
            best split.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.

    Attributes:
        nodes: gives the tree's nodes, in pre-order, from a sentence's scores.
    """

    def __init__(self, loaded: LoadedModel, *, cky: bool = False, max_batch: int | None = None) -> None:
        super().__init__(loaded, max_batch=max_batch)
        self.settings |= {"kind": "treereg", "cky": cky}
        self.nodes = best_tree if cky else greedy_tree

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`.

        Raises:
            PdtoolsError: if more than one tree is requested.
        """
        if k_best > 1:
            raise PdtoolsError("a model trained with TreeReg gives one tree a sentence: leave out --k-best")
        return score_windows(sentences, self.encode, self._parse, self.look_ahead)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """Refuse: the trees are not incremental.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError(
            "a model trained with TreeReg parses only whole sentences: leave out --parses, or use pdtools"
            " decode"
        )

    def encode(self, sentence: str | Sentence) -> Encoded | Unscorable:
        """Encode a sentence that can be parsed; otherwise give the reason."""
        found = self._encode(sentence)
        if isinstance(found, Encoded) and (problem := sentence_problem(found.sentence.words)):
            return Unscorable(found.sentence.text, problem)
        return found

    def _parse(self, window: list[Encoded]) -> list[Parsed]:
        return [
            Parsed(((None, self.tree(item, self.nodes(scores))),), None, None)
            for item, scores in zip(window, self.split_scores(window), strict=True)
        ]

    @torch.inference_mode()
    def split_scores(self, items: Sequence[Encoded]) -> list[SentenceScores]:
        """The scores of all splits between words, for each sentence."""
        model = self.loaded.model
        assert isinstance(model, TransformerLM)
        ids = [item.encoding.ids[:-1] for item in items]  # no state depends on end-of-sentence
        scores: dict[int, SentenceScores] = {}
        for places in length_groups([len(row) for row in ids], self._sentences_that_fit):
            rows = [(ids[i], model.no_derivation(ids[i])) for i in places]
            with explained_memory_errors():
                states = model.treereg_states(model.pack(rows).to(model.device))  # (B, N, d)
                norms = residual_norms(states).cpu().numpy()  # (B, N, N)
            for i, of_row in zip(places, norms, strict=True):
                word = items[i].encoding.word  # (n + 2), -1 for ROOT and end-of-sentence
                ends = np.flatnonzero(word[:-1] != word[1:])[1:]  # last token of each; the first one is ROOT
                scores[i] = SentenceScores(of_row, ends)
        return [scores[i] for i in range(len(items))]

    def _sentences_that_fit(self, length: int) -> int:
        model = self.loaded.model
        pairs = max(1, budget(model) // (_PAIR_BYTES * length**2))
        return self.max_batch or min(pairs, strings_that_fit(length, model.vocab_size))

    @staticmethod
    def tree(encoded: Encoded, nodes: Sequence[Node]) -> Tree:
        """The tree of a sentence with these nodes, in pre-order."""
        words = tuple(escape(each) for each in encoded.sentence.words)
        return Tree(
            words=words,
            tags=(UNKNOWN_TAG,) * len(words),
            labels=(UNKNOWN_LABEL,) * len(nodes),
            starts=np.array([first for first, _, _ in nodes], np.int32),
            ends=np.array([past for _, past, _ in nodes], np.int32),
        )
