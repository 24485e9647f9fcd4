"""Dependency Transformer Grammars (Zhao et al. 2024): the memory of many prefixes, and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.errors import PdtoolsError
from pdtools.models.batch import Batch
from pdtools.models.derivations import OTHER_WORDS
from pdtools.models.grammar.batch import ActionBatch, TransitionBatch
from pdtools.models.grammar.model import ActionDerivations, GrammarLM
from pdtools.models.grammar.output import (
    Allowed,
    Linear,
    OutputLayer,
    Prefix,
    allowed_transitions,
    rule_out_tokens,
)
from pdtools.models.grammar.state import ActionState, ActionStep, aligned
from pdtools.models.grammar.transition_derivations import (
    TransitionDerivation,
    TransitionKind,
    read_transitions,
)
from pdtools.models.kernels.decoding import logsumexp
from pdtools.models.kernels.grammar_attention import Visible, visible_keys
from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy
from pdtools.models.transformer.block import activation
from pdtools.tokenization import Tokenizer
from pdtools.trees.arc_standard import ArcActions, ArcIds

if TYPE_CHECKING:
    from typing_extensions import Self

    from pdtools.models.grammar.config import DependencyGrammarConfig
    from pdtools.shards import ShardSet


# Columns of the action's distribution: left_arc and right_arc in the order of their numbers, then GEN.
_GEN = 2


@dataclass
class TransitionState(ActionState):
    """R prefixes of arc-standard actions, with words on the stack in place of open constituents.

    Attributes:
        n_open: int64 (R,), words on the stack; the start lies beneath them.
        labels: int64 (R, max_open + 1), the last token of each item's head, the start's first.
        places: int64 (R, max_open + 1), the index of each item's beginning among the entries, which are the
            stack's, all tokens of a word.
        depths: int16 (R, W), number of items beneath each entry's.
    """

    @classmethod
    def empty(cls, rows: int, *, max_open: int, **model: Any) -> Self:
        """See :meth:`ActionState.empty`."""
        return super().empty(rows, max_open=max_open + 1, **model)

    def push_transition(self, actions: Tensor, ids: ArcIds, continuing: Tensor) -> ActionStep:
        """Note the next action of every prefix, as :meth:`ActionState.push`; return the positions to read.

        Args:
            actions: int64 (R,).
            ids: numbers of actions.
            continuing: bool (V,), tokens that continue a word.
        """
        assert self.depths is not None
        composes = actions >= ids.first_closer
        begins = ~composes & (self.last >= 0) & ~continuing[actions.clamp(max=ids.tokens - 1)]
        top = self.n_open  # (R,), the index of the top item on the stack, the start's is 0
        second = torch.where(composes, top - 1, 0)
        # An arc sees both top items, and replaces them; a token sees all.
        first = torch.where(composes, self._at(self.places, second), 0)
        put_at = torch.where(composes, first, self.count)
        head = torch.where(actions == ids.left, self._at(self.labels, top), self._at(self.labels, second))
        own = self.memory.used + torch.arange(len(actions), device=actions.device)
        entries, real, place = aligned(self.entries, first, self.count - first)  # (R, K) each
        depths = self.depths.gather(1, place.clamp(min=0))
        self.n_open = self.n_open + begins.long() - composes.long()
        depth = self.n_open.short()
        item = self.n_open[:, None]
        self._put(put_at, own, depth)
        self.labels = self.labels.scatter(1, item, torch.where(composes, head, actions)[:, None])
        here = torch.where(begins | composes, put_at, self._at(self.places, self.n_open))
        self.places = self.places.scatter(1, item, here[:, None])

        # The dependent of an arc is at -1, its head and itself at 0: mirrored if the top is the head.
        distance = depth[:, None] - depths
        distance = torch.where((actions == ids.left)[:, None], -1 - distance, distance)
        visible = F.pad(real, (0, 1), value=True)[:, None]
        again = torch.nonzero(composes & (actions != ids.pop_root))[:, 0]
        step = self._step(actions, entries, visible, distance, again, depth)
        heads = torch.where(composes, head, -1)
        return step._replace(head=torch.cat([heads, heads[again]]))

    @staticmethod
    def _at(table: Tensor, item: Tensor) -> Tensor:
        """The value of an item (R,) in each row (R, I)."""
        return table.gather(1, item[:, None])[:, 0]


class DependencyGrammarLM(GrammarLM):
    """A model of arc-standard actions: p(action) p(token | GEN), each over the allowed ones.

    The second pop_root is one more token. After it the end has probability 1. The released model has a
    fourth action, for padding, and does not exclude illegal actions: neither is copied.
    """

    config: DependencyGrammarConfig  # type: ignore[assignment]
    state_class = TransitionState

    def __init__(self, config: DependencyGrammarConfig) -> None:
        super().__init__(cast(Any, config))
        d = config.d_model
        self.action_head = nn.Sequential(nn.Linear(d, d), activation(config.activation), nn.Linear(d, 3))
        self.action_head.apply(self.initializer)

    @property
    def actions(self) -> ArcIds:
        """See :attr:`GrammarLM.actions`."""
        return self.config.actions

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """See :meth:`LanguageModel.use_tokenizer`.

        Raises:
            PdtoolsError: if tokens do not show where words begin.
        """
        if tokenizer.text_style == "raw":
            raise PdtoolsError(
                "tokens of text style raw do not show where words begin, on which arcs of model dtg depend"
                " (make the shards with pdtools tapes --text-style ptb)"
            )
        super().use_tokenizer(tokenizer)

    @property
    def continues(self) -> NDArray[np.bool_]:
        """Bool (V,), tokens that continue a word."""
        found: NDArray[np.bool_] = self.continuing.cpu().numpy()
        return found

    def read_derivation(self, actions: NDArray[np.integer]) -> TransitionDerivation:
        """See :meth:`GrammarLM.read_derivation`."""
        return read_transitions(actions, self.actions, self.continues)

    # --- input --------------------------------------------------------------------------------

    def _embedded(self, read: ActionBatch | ActionStep) -> Tensor:
        """See :meth:`GrammarLM._embedded`; an arc's includes the embedding of the head's last token."""
        assert isinstance(read, TransitionBatch | ActionStep)
        head = read.head
        assert head is not None
        of_head = self.embedding(head.clamp(min=0)).masked_fill((head < 0)[..., None], 0)
        return super()._embedded(read) + of_head

    def _visible(self, batch: ActionBatch, is_compose: Tensor) -> Visible:
        """See :meth:`GrammarLM._visible`."""
        mirrored = is_compose & (batch.tokens == self.actions.left)
        return visible_keys(batch.pop, is_compose, batch.depth, mirrored)

    def _pushed(self, state: ActionState, actions: Tensor) -> ActionStep:
        """See :meth:`GrammarLM._pushed`."""
        return cast(TransitionState, state).push_transition(actions, self.actions, self.continuing)

    def _prefix(self, batch: ActionBatch, scored: Tensor) -> Prefix:
        """See :meth:`GrammarLM._prefix`; arcs have no labels."""
        last = batch.tokens[:, :-1][scored]
        return Prefix(last=last, n_open=batch.n_open[:, :-1][scored], label=last)

    # --- output -------------------------------------------------------------------------------

    def _score(self, hidden: Tensor, targets: Tensor, prefix: Prefix) -> tuple[Tensor, Tensor]:
        """See :meth:`GrammarLM._score`; log-probabilities are summed over tokens only where one follows."""
        may = self._allowed(prefix)
        actions = self._action_logprobs(hidden, may)  # (S, 3)
        generated = torch.nonzero(targets <= self.actions.pop_root)[:, 0]
        words = Allowed(*(each[generated] for each in may))

        def rule_out(logits: Tensor, rows: slice) -> None:
            self._rule_out_tokens(logits, Allowed(*(each[rows] for each in words)))

        nll = linear_cross_entropy(hidden[generated], *self._token_output, targets[generated], rule_out)
        column = (targets - self.actions.left).where(targets > self.actions.pop_root, _GEN)
        found = actions.gather(1, column[:, None])[:, 0].index_add(0, generated, -nll)
        return found, actions[:, :_GEN].argmax(1) + self.actions.left

    def _next(self, hidden: Tensor, prefix: Prefix, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """See :meth:`GrammarLM._next`; of all tokens."""
        v, may = self.vocab_size, self._allowed(prefix)
        actions = self._action_logprobs(hidden, may)  # (r, 3)
        logits = F.linear(hidden, *self._token_output).float()  # (r, V + 1)
        self._rule_out_tokens(logits, may)
        gen = actions[:, _GEN]
        # Without GEN all logits may be -inf, whose sum is no number.
        gen = gen - logsumexp(logits).where(gen > -torch.inf, 0)  # (r,)
        structure = torch.cat([(logits[:, v] + gen)[:, None], actions[:, :_GEN]], 1)
        return structure, logits[:, :v] + gen[:, None]

    def _next_of(
        self, hidden: Tensor, prefix: Prefix, tokens: Tensor, output: OutputLayer
    ) -> tuple[Tensor, Tensor]:
        """See :meth:`GrammarLM._next_of`; pop_root is the structure of the output layer."""
        may = self._allowed(prefix)
        actions = self._action_logprobs(hidden, may)  # (R, 3)
        gen = actions[:, _GEN]
        of_tokens = may._replace(structure=may.structure[:, :1])
        pop_root, token = output.logprobs(hidden, of_tokens, tokens)
        # Without GEN no token may be allowed: the sum over none is no number.
        never = gen == -torch.inf
        pop_root = (pop_root[:, 0] + gen).masked_fill(never, -torch.inf)
        token = (token + gen).masked_fill(never, -torch.inf)
        return torch.cat([pop_root[:, None], actions[:, :_GEN]], 1), token

    def _output_parts(self) -> OutputLayer:
        """See :meth:`GrammarLM._output_parts`."""
        return self._parts_of(Linear(*self._token_output))

    @property
    def _token_output(self) -> tuple[Tensor, Tensor | None]:
        """Weight (V + 1, D) and bias of the tokens and pop_root."""
        n, bias = self.actions.pop_root + 1, self._output_bias
        return self._output_weight[:n], None if bias is None else bias[:n]

    def _allowed(self, prefix: Prefix) -> Allowed:
        return allowed_transitions(prefix, self.actions, self.root_id, self.config.max_open)

    def _action_logprobs(self, hidden: Tensor, may: Allowed) -> Tensor:
        """Log-probabilities of left_arc, right_arc and GEN, over the allowed ones: float (S, 3)."""
        logits = self.action_head(hidden).float()
        generates = may.tokens | may.structure[:, 0]
        if bool(self.continuing.any()):
            generates = generates | may.continuing
        ruled_out = ~torch.cat([may.structure[:, 1:], generates[:, None]], 1)
        return logits.masked_fill(ruled_out, -torch.inf).log_softmax(1)

    @torch.no_grad()
    def _rule_out_tokens(self, logits: Tensor, may: Allowed) -> None:
        """Make logits (S, V + 1) -inf for tokens, or pop_root, that are not allowed.

        See :meth:`GrammarLM._rule_out`.
        """
        logits.detach()[:, self.vocab_size].masked_fill_(~may.structure[:, 0], -torch.inf)
        rule_out_tokens(logits, may, self.continuing, [self.pad_id, self.root_id, self.eos_id])

    def derive(self, rows: int, length: int, entries: int | None = None) -> ActionDerivations:
        """See :meth:`LanguageModel.derive`."""
        found = super().derive(rows, length)
        found.most_steps = 2 * length  # n tokens, n - 1 arcs, and pop_root
        return found

    def derivation_of(self, shards: ShardSet, row: int) -> ArcActions:
        """See :meth:`LanguageModel.derivation_of`: the actions of its dependency tree."""
        found = self._actions_of(shards, row)
        if isinstance(found, str):
            raise PdtoolsError(found)
        return found

    def _actions_of(self, shards: ShardSet, row: int) -> ArcActions | str:
        return cast(TransitionKind, self.derivation_kind).of_graph(shards.graph(row), shards.word(row))

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack`: (tokens, :class:`~pdtools.trees.arc_standard.ArcActions`)."""
        return TransitionBatch.of_transitions(rows, self.config.actions, self.root_id, self.pad_id)

    def row_lengths(self, shards: ShardSet) -> NDArray[np.int64]:
        """See :meth:`LanguageModel.row_lengths`: actions, arcs twice."""
        words = np.array([shards.word(row).max(initial=-1) + 1 for row in range(len(shards))], np.int64)
        return self.config.actions.positions(np.asarray(shards.lengths) - 2, words)

    def row_length(self, tokens: Any, derivation: Any) -> int:
        """See :meth:`LanguageModel.row_length`: actions, arcs twice."""
        return int(self.config.actions.positions(len(tokens) - 2, derivation.begins.sum()))

    def unfit_rows(self, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`LanguageModel.unfit_rows`: trees without actions, and words that tokens do not show."""

        def why(row: int) -> str:
            found = self._actions_of(shards, row)
            if isinstance(found, str):
                return found
            if not np.array_equal(found.begins, ~self.continues[shards.tokens(row)[1:-1]]):
                return OTHER_WORDS
            return self.problem(found) or ""

        reasons = np.array([why(row) for row in range(len(shards))])
        return [(reasons == reason, reason) for reason in sorted({*reasons.tolist()} - {""})]

    def problem(self, derivation: Any) -> str | None:
        """See :meth:`LanguageModel.problem`."""
        if derivation.most_words > (most := self.config.max_open):
            return f"more than {most} words on the stack at once (config.max_open)"
        return None
