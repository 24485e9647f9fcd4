"""Sentences into trees, line for line, with the scores of their derivations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee

from pdtools.files import Rejects
from pdtools.parsers import placeholder
from pdtools.parsers.base import sentence_problem
from pdtools.search.inputs import SourcedLine
from pdtools.search.scorer import DerivationScorer
from pdtools.search.scores import Unscorable
from pdtools.trees import Tree


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of one sentence.

    Attributes:
        tree: the best derivation over words, or the flat placeholder of a sentence without one.
        k_best: the best derivations, best first: log joint (nats) and tree. Empty for a placeholder.
            Derivations that differ only within words give the same tree.
        marginal: log p(x) in nats; None for a placeholder.
    """

    tree: Tree
    k_best: tuple[tuple[float, Tree], ...]
    marginal: float | None


def decode(
    lines: Iterable[SourcedLine], searcher: DerivationScorer, *, rejects: Rejects, k_best: int = 1
) -> Iterator[Decoded]:
    """Parse sentences: one result for each line, in order, lazily.

    Args:
        lines: from :func:`pdtools.search.inputs.read_inputs`.
        searcher: from :func:`pdtools.search.load_searcher`.
        rejects: takes the sentences that have no parse, with the reason.
        k_best: how many derivations to keep.

    Raises:
        InputError: at the first sentence without a parse, if ``rejects`` says so.
    """
    lines, again = tee(lines)
    found_trees = searcher.search((line.sentence for line in again), k_best=k_best)
    for line, found in zip(lines, found_trees, strict=True):
        sentence = line.sentence
        problem = found.reason if isinstance(found, Unscorable) else sentence_problem(sentence.words)
        if isinstance(found, Unscorable) or problem is not None:
            rejects.add(str(problem), file=line.file, line=line.line, text=sentence.text)
            yield Decoded(tree=placeholder(sentence.words), k_best=(), marginal=None)
            continue
        derivations = found.result.derivations
        best = tuple((joint, found.tree(rank)) for rank, (joint, _) in enumerate(derivations))
        yield Decoded(tree=best[0][1], k_best=best, marginal=found.marginal)
