"""Derivations of arcs: a token, then the number of arcs of the word it begins, and perhaps the arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models.dependency.batch import ArcBatch, word_numbers
from pdtools.models.dependency.scorer import COUNTS, best_sets, log_polynomials, log_set_sums
from pdtools.models.derivations import NO_ARCS, OTHER_WORDS
from pdtools.models.tokenwise import TokenwiseDerivations, TokenwiseKind
from pdtools.trees import Tree
from pdtools.trees.graphs import Graph, graph_tree

if TYPE_CHECKING:
    from pdtools.models.base import LanguageModel
    from pdtools.models.dependency.model import GiltLM
    from pdtools.models.dependency.state import ArcState, WordChoice
    from pdtools.shards import ShardSet
    from pdtools.shards.rows import ShardRow

# Number of sets of each size that a beam search considers for each hypothesis.
MOST_SETS = 16

TOO_MANY = f"{COUNTS} or more arcs at a word"


@dataclass(frozen=True, slots=True)
class ArcDerivation:
    """A string with a graph of its words.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
        graph: the graph of the tokens' words.
    """

    tokens: NDArray[np.int32]
    graph: Graph

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`~pdtools.models.derivations.AnyDerivation`: a head spans its descendants."""
        return graph_tree(self.graph, words)


class ArcKind(TokenwiseKind):
    """Arcs between words, any: several heads of a word or none, several roots, cycles, crossings."""

    name = "arcs"
    has_arcs = True
    has_counts = True
    unit = "arc"

    def derive(
        self, model: LanguageModel, rows: int, length: int, entries: int | None = None
    ) -> ArcDerivations:
        """See :meth:`TokenwiseKind.derive`."""
        gilt = cast("GiltLM", model)
        made = SetDerivations if gilt.config.arcs == "set" else ArcDerivations
        return made(gilt, rows, length, entries)

    # --- rows of shards -----------------------------------------------------------------------

    def of_row(self, shards: ShardSet, row: int) -> Graph:
        """See :meth:`DerivationKind.of_row`: the dependencies of its words."""
        return shards.graph(row)

    def pack(self, model: LanguageModel, rows: Sequence[tuple[Any, Any]]) -> ArcBatch:
        """See :meth:`DerivationKind.pack`: (tokens, graph)."""
        return ArcBatch.of_rows(rows, cast("GiltLM", model).beginnings, model.root_id, model.pad_id)

    def unfit_rows(self, model: LanguageModel, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`DerivationKind.unfit_rows`: too many arcs, and words that tokens do not show."""
        begins, rows = cast("GiltLM", model).beginnings, range(len(shards))
        too_many = [self.problem(model, shards.graph(row)) is not None for row in rows]
        others = [
            not np.array_equal(word_numbers(shards.tokens(row), begins)[1:-1], shards.word(row)[1:-1] + 1)
            for row in rows
        ]
        return [(np.array(too_many), TOO_MANY), (np.array(others), OTHER_WORDS)]

    # --- graphs that are given ----------------------------------------------------------------

    def of_sentence(self, row: ShardRow) -> Graph | str:
        """See :meth:`DerivationKind.of_sentence`: constituents do not determine dependencies."""
        return NO_ARCS if row.graph is None else row.graph

    def problem(self, model: LanguageModel, given: Graph) -> str | None:
        """See :meth:`DerivationKind.problem`."""
        return TOO_MANY if len(given) and given.counts.max() >= COUNTS else None

    def content(self, given: Graph) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return str(given).encode()

    def read(self, tokens: NDArray[np.int32], given: Graph) -> ArcDerivation:
        """See :meth:`DerivationKind.read`."""
        return ArcDerivation(tokens[1:-1], given)


class ArcDerivations(TokenwiseDerivations):
    """Strings with arcs: a choice is the number of arcs of the word that a token begins, 0 if it begins none.

    For each token that begins a word, the history has 1 + the number of its arcs, and the indices of these
    candidates (:func:`graph_of_history`).
    """

    model: GiltLM
    state: ArcState

    def __init__(self, model: GiltLM, rows: int, length: int, entries: int | None = None) -> None:
        """Read ROOT."""
        super().__init__(model, rows, length, entries)
        self.history = self.history[:, :, None].repeat(1, 1, COUNTS)
        self._length = length
        self._word: WordChoice | None = None  # for the next tokens
        # Choice by choice: int32 (R, choices), the choices, and the histories of those that ended.
        self._made: Tensor | None = None
        self._ended: dict[bytes, NDArray[np.int32]] = {}
        model.advance(self.state, torch.full((rows,), model.root_id, device=model.device))

    def word_choice(self, tokens: Tensor) -> WordChoice:
        """The possible choices for the words that the next tokens, int64 (R,), begin; computed once."""
        if self._word is None or not torch.equal(self._word.tokens, tokens):
            self._word = self.model.word_choice(self.state, tokens)
        return self._word

    def legal(self, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.legal`."""
        return self.choice_logprobs(tokens) > -torch.inf

    def choice_logprobs(self, tokens: Tensor, legal: Tensor | None = None) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`."""
        return self.word_choice(tokens).counts

    def followed(self, legal: Tensor, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.followed`: the best counts (``config.best_counts``)."""
        counts = self.word_choice(tokens).followed
        return legal & counts.repeat_interleave(legal.shape[1] // counts.shape[1], 1)

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`: the best-scored candidates become arcs."""
        self.read(tokens, self.word_choice(tokens).best(choices))

    def read(self, tokens: Tensor, chosen: Tensor) -> None:
        """Let the model read tokens with the arcs of their words, bool (R, 2W)."""
        word, self._word = self.word_choice(tokens), None
        self.model.read(self.state, tokens, word, chosen)
        self.history[:, self.state.position] = _noted(word.starts, chosen, self.state.graphs.words)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        made = self.history.new_zeros(len(choices), 0) if self._made is None else self._made
        self._made = torch.cat([made, choices[:, None].to(torch.int32)], 1)
        super().push(choices)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        if self._made is not None:
            ends = torch.ones(len(self._made), dtype=torch.bool, device=rows.device)
            ends[rows] = False
            self._note(ends)
            self._made = self._made[rows]
        super().select(rows)
        self._word = None if self._word is None else self._word.of(rows)

    def _note(self, ends: Tensor) -> None:
        """Keep the histories of some derivations, bool (R,), for :meth:`derivation`."""
        assert self._made is not None
        histories = self.history[ends, : self.state.position + 1].cpu().numpy()
        for made, history in zip(self._made[ends].cpu().numpy(), histories, strict=True):
            self._ended[made.tobytes()] = history

    def derivation(self, choices: NDArray[np.int32]) -> ArcDerivation:
        """See :meth:`Derivations.derivation`; for choices made here, or else made once more."""
        tokens = choices[::2][: len(choices) // 2]
        made = choices[: 2 * len(tokens)].astype(np.int32)
        if made.tobytes() not in self._ended and self._made is not None:
            self._note(torch.ones(len(self._made), dtype=torch.bool, device=self._made.device))
        if (history := self._ended.get(made.tobytes())) is None:
            again = type(self)(self.model, 1, self._length)
            for choice in made.tolist():
                again.push(torch.tensor([choice], device=self.model.device))
            history = again.history[0].cpu().numpy()
        return ArcDerivation(tokens, graph_of_history(history))


class SetDerivations(ArcDerivations):
    """Strings with arcs where sets of arcs have probabilities.

    In a beam search, a choice is a size and one of the :data:`MOST_SETS` best sets of it. Choice by choice
    a token is followed by the size, then by the members in canonical order: any of them. They are the columns
    behind the vocabulary, of which the first says that there are no more.
    """

    def __init__(self, model: GiltLM, rows: int, length: int, entries: int | None = None) -> None:
        super().__init__(model, rows, length, entries)
        self._sets: tuple[Tensor, Tensor] | None = None  # log p (R, C) and members (R, C, 2W) of choices
        self._left: Tensor | None = None  # int64 (R,), members that are still to be chosen
        self._chosen = torch.zeros(0)  # bool (R, 2W)
        self._last = torch.zeros(0)  # int64 (R,), the candidate that was chosen last; -1 for none
        self._block = COUNTS + 1  # choices of a token, at most
        self.step, self.most_steps = 0, self._block * length

    # --- at once ------------------------------------------------------------------------------

    def choice_logprobs(self, tokens: Tensor, legal: Tensor | None = None) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`; the probability of other sets is lost."""
        word = self.word_choice(tokens)
        if legal is None or self._sets is None:
            sums, members = best_sets(word.scores, MOST_SETS)  # (R, COUNTS, K), (R, COUNTS, K, 2W)
            logprobs = word.counts[:, :, None] + sums - log_set_sums(word.scores)[:, :, None]
            logprobs = logprobs.masked_fill(sums == -torch.inf, -torch.inf)
            self._sets = logprobs.flatten(1), members.flatten(1, 2)
        return self._sets[0]

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`."""
        assert self._sets is not None
        row = torch.arange(len(choices), device=choices.device)
        chosen, self._sets = self._sets[1][row, choices], None
        self.read(tokens, chosen)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        super().select(rows)
        if self._sets is not None:
            self._sets = self._sets[0][rows], self._sets[1][rows]
        if self._left is not None:
            self._left, self._chosen, self._last = self._left[rows], self._chosen[rows], self._last[rows]

    # --- choice by choice ---------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        if self._next is None:
            return super().logprobs()
        word = self.word_choice(self._next)
        return word.counts if self._left is None else self._members(word.scores.double(), self._left)

    def _members(self, scores: Tensor, left: Tensor) -> Tensor:
        """Compute log p of sets' next member, s_j e_{k-1}(after j) / e_k(after the last): (R, V + 1 + 2W).

        Args:
            scores: (R, 2W).
            left: int64 (R,), k.
        """
        after = log_polynomials(scores.flip(1)).flip(1)  # (R, 2W + 1, COUNTS), of candidates from c on
        row = torch.arange(len(scores), device=scores.device)
        one_less = (left - 1).clamp(min=0)[:, None, None].expand(-1, scores.shape[1], 1)
        found = scores + after[:, 1:].gather(2, one_less)[:, :, 0] - after[row, self._last + 1, left][:, None]
        is_before = torch.arange(scores.shape[1], device=scores.device) <= self._last[:, None]
        found = found.masked_fill(is_before | (left == 0)[:, None], -torch.inf)
        tokens = found.new_full((len(found), self.model.vocab_size + 1), -torch.inf)
        tokens[left == 0, -1] = 0  # no more
        return torch.cat([tokens, found], 1)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._next is None:
            return super().fits(token)
        number = COUNTS
        if self._left is not None:
            number = self.model.vocab_size + 1 + self._chosen.shape[1]
        return torch.ones(1, number, dtype=torch.bool, device=self.model.device)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        if self._next is None:
            self._next = choices
            return
        if self._left is None:
            self._left, self._last = choices, torch.full_like(choices, -1)
            self._chosen = torch.zeros_like(self.word_choice(self._next).scores, dtype=torch.bool)
        else:
            place = choices - self.model.vocab_size - 1  # (R,), -1 for none
            (row,) = torch.nonzero(place >= 0, as_tuple=True)
            self._chosen[row, place[row]] = True
            self._last, self._left = (
                torch.where(place >= 0, place, self._last),
                self._left - (place >= 0).long(),
            )
        if not bool(self._left.any()):
            self.read(self._next, self._chosen)
            self._next = self._left = None
            self.step += -self.step % self._block  # the same for all tokens

    def derivation(self, choices: NDArray[np.int32]) -> ArcDerivation:
        """See :meth:`Derivations.derivation`."""
        over = self.model.vocab_size
        tokens, history, made = [], np.zeros((self._length, COUNTS), np.int32), choices.tolist()
        begins, words, place = self.model.begins.cpu().numpy(), 0, 0
        nodes = self.state.networks.shape[1]
        while place + 1 < len(made):
            token = made[place]
            tokens.append(token)
            members, place = [], place + 2
            while place < len(made) and made[place] >= over:
                members += [made[place] - over - 1] if made[place] > over else []
                place += 1
            if begins[token] or not words:
                words += 1
                which = [column if column < nodes else words + column - nodes - 1 for column in members]
                history[len(tokens), : 1 + len(which)] = [1 + len(which), *which]
        return ArcDerivation(np.array(tokens, dtype=np.int32), graph_of_history(history))


def _noted(starts: Tensor, chosen: Tensor, words: Tensor) -> Tensor:
    """A token's entry in a history: int32 (R, COUNTS).

    Args:
        starts: bool (R,), tokens that begin words.
        chosen: bool (R, 2W).
        words: int64 (R,), indices of the words.
    """
    nodes = chosen.shape[1] // 2
    column = torch.arange(2 * nodes, device=chosen.device)
    candidate = torch.where(column < nodes, column, words[:, None] + column - nodes - 1)  # (R, 2W)
    first = candidate.masked_fill(~chosen, 2 * nodes).sort(dim=1).values[:, : COUNTS - 1]
    first = first.masked_fill(first == 2 * nodes, 0)
    found = torch.zeros(len(chosen), COUNTS, dtype=torch.int32, device=chosen.device)
    found[:, 0] = (1 + chosen.sum(1)) * starts
    found[:, 1 : 1 + first.shape[1]] = first
    return found


def graph_of_history(history: NDArray[np.int32]) -> Graph:
    """The graph of a history, int32 (N, COUNTS); see :class:`ArcDerivations`."""
    heads, dependents, t = [], [], 0
    for number, *candidates in history[history[:, 0] > 0].tolist():
        t += 1
        for candidate in candidates[: number - 1]:
            heads.append(candidate if candidate < t else t)
            dependents.append(t if candidate < t else candidate - t + 1)
    return Graph.of(t, heads, dependents)
