"""Sums over proposal trees, such as a parser's, without a search.

Transformer Grammars' authors score strings this way (Sartran et al. 2022): log p(x) is at least the log of
the sum of p(x, y) over some of the trees y of x, each counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.files import Kind, Rejects
from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.derivations import AnyDerivation
from pdtools.search.batches import in_batches
from pdtools.search.checkpoints import CheckpointFamily, Encoded, Expected
from pdtools.search.family import SEARCH_LOOK_AHEAD
from pdtools.search.options import NOT_SEARCHED, TreesFile
from pdtools.search.scores import (
    Asked,
    Continuation,
    GivenRow,
    RowScore,
    SentenceScore,
    Unscorable,
    increments,
)
from pdtools.shards import ShardSettings
from pdtools.shards.plain import row_of_tree
from pdtools.shards.rows import ShardRow
from pdtools.trees import Graph, Tree, read_proposals
from pdtools.trees.forms import read_treebank, refuse_for

IMPOSSIBLE = "its trees have probability 0"


@dataclass(frozen=True, eq=False)
class ProposalDerivations:
    """The derivations that a model reads from a file of proposal trees.

    Sentences are identified by their token ids, int32 (n + 2), as bytes.

    Attributes:
        by_ids: the different derivations of each sentence that has any, in the model's form.
        unusable: for other sentences, the reason against the first of their trees.
        n_trees: number of trees in the file.
        excluded: numbers of unusable trees, by reason.
    """

    by_ids: dict[bytes, list[Any]]
    unusable: dict[bytes, str]
    n_trees: int
    excluded: dict[str, int]


class ProposalTreesFamily(CheckpointFamily):
    """The family (:class:`pdtools.search.family.Family`) that sums over the derivations of proposal trees.

    Args:
        loaded: a checkpoint whose words depend on derivations.
        trees: trees of the sentences to be scored, and perhaps of others.
        max_batch: derivations per batch; by default as many as fit a fixed amount of memory.

    Raises:
        PdtoolsError: if the model's p(x) needs no trees, or the file has changed.
        InputError: see :func:`pdtools.trees.read_proposals`.
    """

    marginal = "sum over given trees: a lower bound of log p(x)"

    def __init__(self, loaded: LoadedModel, *, trees: TreesFile, max_batch: int | None = None) -> None:
        super().__init__(loaded, kind="given trees", searched=NOT_SEARCHED, max_batch=max_batch)
        if not loaded.model.derivation_kind.conditions_tokens:
            raise PdtoolsError(f"{loaded.folder}: p(x) of this model needs no trees: leave out --trees")
        if loaded.model.layout == "window":
            raise PdtoolsError(f"{loaded.folder}: --trees is not for models of windows")
        if not loaded.model.derivation_kind.scores_given:
            raise PdtoolsError(
                f"{loaded.folder}: its scores choose arcs, so that given graphs have no probability: leave"
                " out --trees (config.arcs set has one)"
            )
        self._file = trees.path
        self._proposals = given = read_proposal_trees(loaded, trees)
        self.settings |= {
            "given_trees": trees.sha256,
            "given_trees_used": {
                "trees": given.n_trees,
                "left_out": given.excluded,
                "derivations": sum(map(len, given.by_ids.values())),
                "sentences": len(given.by_ids),
            },
        }

    @property
    def look_ahead(self) -> int:
        """See :class:`Family`."""
        return SEARCH_LOOK_AHEAD

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """Refuse: proposal trees are trees of whole sentences.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError(
            "proposal trees belong to whole sentences, and give no distribution after a prefix"
        )

    def next_logprobs(
        self, token_ids: Sequence[NDArray[np.int32]], words: Sequence[NDArray[np.int32]] | None = None
    ) -> Iterable[Expected]:
        """Refuse, see :meth:`continuations`.

        Raises:
            PdtoolsError: always.
        """
        raise PdtoolsError(
            "proposal trees belong to whole sentences, and give no distribution of the next token"
        )

    def problem(self, ids: NDArray[np.int32]) -> str | None:
        """See :meth:`Family.problem`: it has no derivations."""
        key = ids.tobytes()
        if key in self._proposals.by_ids:
            return None
        if key in self._proposals.unusable:
            return f"no tree of it in {self._file} can be used: {self._proposals.unusable[key]}"
        return f"no tree of it is in {self._file}"

    def score(self, window: Sequence[Encoded]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Family.score`."""
        sums = self._prefix_logprobs([item.encoding.ids for item in window])
        for item, values in zip(window, sums, strict=True):
            if values[-1] > -np.inf:
                yield self.scored(item, increments(values))
            else:
                yield Unscorable(item.sentence.text, IMPOSSIBLE)

    def encode(self, sentence: Asked, *, any_length: bool = False) -> Encoded | Unscorable:
        """See :meth:`Family.encode`; without a tree that can be used, a sentence has no score."""
        found = super().encode(sentence, any_length=any_length)
        if isinstance(found, Encoded) and (problem := self.problem(found.encoding.ids)):
            return Unscorable(found.sentence.text, problem)
        return found

    def _with_marginals(self, rows: Sequence[GivenRow], given: list[RowScore]) -> list[RowScore]:
        known = [i for i, row in enumerate(rows) if self.problem(row.tokens) is None]
        found = list(given)
        sums = self._prefix_logprobs([rows[i].tokens for i in known])
        for i, values in zip(known, sums, strict=True):
            end = float(increments(values)[-1])
            found[i] = given[i]._replace(marginal=float(values[-1]), end_marginal=end)
        return found

    def _prefix_logprobs(self, ids: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float64]]:
        """Log p of all beginnings of each sentence, float64 (n + 2); see :func:`prefix_logprobs`."""
        model = self.loaded.model
        rows = [(tokens, given) for tokens in ids for given in self._proposals.by_ids[tokens.tobytes()]]
        lengths = [model.row_length(*row) for row in rows]
        read = iter(
            in_batches(
                lengths, self.rows_that_fit, lambda places: _read(model, [rows[place] for place in places])
            )
        )
        return [
            prefix_logprobs([next(read) for _ in self._proposals.by_ids[tokens.tobytes()]]) for tokens in ids
        ]


@lru_cache(maxsize=1)
def read_proposal_trees(loaded: LoadedModel, trees: TreesFile) -> ProposalDerivations:
    """Read trees as ``pdtools tapes`` does, with equal derivations once; cached in each process.

    Raises:
        PdtoolsError: if the file has changed.
        InputError: see :func:`pdtools.trees.read_proposals`.
    """
    if TreesFile.of(trees.path) != trees:
        raise PdtoolsError(f"{trees.path} is not the file that the command was started with")
    by_ids: dict[bytes, dict[bytes, Any]] = {}
    unusable: dict[bytes, str] = {}
    excluded: Counter[str] = Counter()
    n_trees = 0
    kind = loaded.model.derivation_kind
    for tree, graph in _proposals(trees.path, has_arcs=kind.has_arcs):
        n_trees += 1
        found = ProposalTree.of(loaded, tree, graph)
        if isinstance(found, str):
            excluded[found] += 1
        elif found.problem is not None:
            excluded[found.problem] += 1
            unusable.setdefault(found.tokens.tobytes(), found.problem)
        else:
            by_ids.setdefault(found.tokens.tobytes(), {})[kind.content(found.given)] = found.given
    different = {ids: list(derivations.values()) for ids, derivations in by_ids.items()}
    return ProposalDerivations(different, unusable, n_trees, dict(excluded))


def _proposals(path: str, *, has_arcs: bool) -> Iterator[tuple[Tree, Graph | None]]:
    """The trees of a file; for models of dependency arcs one in CoNLL-U, a block for each tree."""
    if has_arcs:
        for found in read_treebank([path], "conllu", Rejects("fail")):
            yield found.tree, found.graph
        return
    refuse_for(Kind.TREES, [path])
    for tree in read_proposals(path):
        yield tree, None


@dataclass(frozen=True, slots=True)
class ProposalTree:
    """A tree of a sentence in a model's form.

    Attributes:
        row: the row that shards would have.
        tokens, given: tokens and derivation, as :meth:`pdtools.models.LanguageModel.pack` takes them.
        derivation: the derivation of the sentence; None if the model's kind has none for this tree.
        problem: the reason why the model cannot score it, if there is one.
    """

    row: ShardRow
    tokens: NDArray[np.int32]
    given: Any
    derivation: AnyDerivation | None
    problem: str | None

    @classmethod
    def of(cls, loaded: LoadedModel, tree: Tree, graph: Graph | None = None) -> ProposalTree | str:
        """Read a tree as ``pdtools tapes`` does, or say why it is no row of shards.

        Args:
            graph: its dependency arcs, for kinds that have arcs.
        """
        model, kind = loaded.model, loaded.model.derivation_kind
        settings = ShardSettings(
            factor=loaded.config["shards"].get("factor", "right"),
            tape="none",
            constituents="labelled" if kind.labelled else "none",
        )
        row = row_of_tree(tree, loaded.tokenizer, settings)
        if isinstance(row, str):
            return row
        row = replace(row, graph=graph)
        tokens, given = row.encoding.ids, kind.of_sentence(row)
        if isinstance(given, str):
            return cls(row, tokens, None, None, given)
        derivation = kind.read(tokens, given)
        if model.layout == "window":  # the last token attaches to ROOT
            tokens, given = tokens[:-1], np.append(row.attach[: len(tokens) - 2], np.int32(0))
        positions, problem = model.row_length(tokens, given), model.problem(given)
        if model.max_length is not None and positions > model.max_length:
            problem = (
                f"longer than the model, with its tree: {positions} positions, at most {model.max_length}"
            )
        return cls(row, tokens, given, derivation, problem)


class _Reading(NamedTuple):
    """A model's scores of a sentence with a derivation.

    Attributes:
        choices: int64 (c), its attachments, or its actions, including tokens.
        made: int64 (n + 1), number of choices made before each token, and the end, is generated.
        logprobs: float64 (n + 1), nats, for each token, or the end, with everything before it.
    """

    choices: NDArray[np.int64]
    made: NDArray[np.int64]
    logprobs: NDArray[np.float64]


@torch.inference_mode()
def _read(model: LanguageModel, rows: Sequence[tuple[NDArray[np.int32], Any]]) -> Iterator[_Reading]:
    """Read a batch in one teacher-forced pass."""
    batch = model.pack(rows).to(model.device)
    parts = model.forward_parts(batch)
    derived = parts.attach_logprobs.double()
    # A token comes before its own attachment, as in the beam search.
    logprobs = ((parts.token_logprobs.double() + derived).cumsum(1) - derived).cpu().numpy()  # (B, N)
    generates = batch.predicted() & ((batch.tokens < model.vocab_size) | batch.ends(model.eos_id))
    written = model.derivation_kind.written
    choices = (batch.tokens if written else batch.attach).cpu().numpy()  # (B, N)
    lengths = batch.lengths.tolist()
    for row, generated in enumerate(generates.cpu().numpy()):
        positions = np.flatnonzero(generated)  # (n + 1)
        # A choice written at a position is made there; the choice after a token is not.
        yield _Reading(choices[row, : lengths[row]], positions + written, logprobs[row, positions])


def prefix_logprobs(derivations: Sequence[_Reading]) -> NDArray[np.float64]:
    """Log p of all beginnings of a sentence, summed over its derivations, float64 (n + 2), nats.

    They are A_0, …, A_n, A_end: A_t is the log of the sum, over the different beginnings of its derivations
    up to token t, of the beginning's probability.

    Args:
        derivations: different derivations, at least one.
    """
    made = np.stack([each.made for each in derivations])  # (D, n + 1)
    logprobs = np.stack([each.logprobs for each in derivations])  # (D, n + 1)
    choices = np.full((len(derivations), max(len(each.choices) for each in derivations)), -1)  # (D, c)
    for row, each in zip(choices, derivations, strict=True):
        row[: len(each.choices)] = each.choices
    # In lexicographic order, derivations with a common beginning are neighbours: the first of them counts.
    order = np.lexsort(choices.T[::-1])
    differs = choices[order[1:]] != choices[order[:-1]]  # (D - 1, c)
    first = np.concatenate([[-1], differs.argmax(1)])  # (D) the first different choice
    is_new = first[:, None] < made[order]  # (D, n + 1)
    sums = np.logaddexp.reduce(np.where(is_new, logprobs[order], -np.inf), axis=0)  # (n + 1)
    return np.concatenate([[0.0], sums])
