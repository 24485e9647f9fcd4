"""Parses by models trained with TreeReg: from hidden states of the whole sentence, unlabeled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel, TransformerLM
from pdtools.models.treereg import Node, SentenceScores, best_tree, greedy_tree, residual_norms
from pdtools.search.batches import budget, in_batches, strings_that_fit
from pdtools.search.checkpoints import Encoded
from pdtools.search.families.unsearched import StringFamily
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import Unscorable
from pdtools.trees import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, escape, sentence_problem

# Bytes per pair of tokens: products, norms, and intermediate values.
_PAIR_BYTES = 64


class TreeRegFamily(StringFamily):
    """The family (:class:`pdtools.search.family.Family`) of models with TreeReg: one tree, without scores.

    p(x) is the language model's, exactly (:class:`StringFamily`).

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

    def parse(self, window: Sequence[Encoded], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Family.parse`.

        Raises:
            PdtoolsError: if more than one tree is requested.
        """
        if k_best > 1:
            raise PdtoolsError("a model trained with TreeReg gives one tree a sentence: leave out --k-best")
        for item, scores in zip(window, self.split_scores(window), strict=True):
            if problem := sentence_problem(item.sentence.words):
                yield Unscorable(item.sentence.text, problem)
            else:
                yield Parsed(((None, self.tree(item, self.nodes(scores))),), None, None)

    def score_with_parses(self, window: Sequence[Encoded]) -> Iterator[ParsedScore | Unscorable]:
        """Refuse: the trees are not incremental.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError(
            "a model trained with TreeReg parses only whole sentences: leave out --parses, or use pdtools"
            " decode"
        )

    @torch.inference_mode()
    def split_scores(self, items: Sequence[Encoded]) -> list[SentenceScores]:
        """The scores of all splits between words, for each sentence."""
        model = self.loaded.model
        assert isinstance(model, TransformerLM)
        ids = [item.encoding.ids[:-1] for item in items]  # no state depends on end-of-sentence

        def work(places: list[int]) -> Iterator[SentenceScores]:
            rows = [(ids[i], model.no_derivation(ids[i])) for i in places]
            states = model.treereg_states(model.pack(rows).to(model.device))  # (B, N, d)
            norms = residual_norms(states).cpu().numpy()  # (B, N, N)
            for i, of_row in zip(places, norms, strict=True):
                word = items[i].encoding.word  # (n + 2), -1 for ROOT and end-of-sentence
                ends = np.flatnonzero(word[:-1] != word[1:])[1:]  # last token of each; the first one is ROOT
                yield SentenceScores(of_row, ends)

        return in_batches(list(map(len, ids)), self._sentences_that_fit, work)

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
