"""Action models: a PLM, one with masked heads, or a Transformer Grammar, by configuration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models.base import LanguageModel, LossParts, TokenParts
from pdtools.models.batch import Batch
from pdtools.models.derivations import Derivations
from pdtools.models.grammar.batch import ActionBatch
from pdtools.models.grammar.config import PlmConfig, PlmMaskConfig
from pdtools.models.grammar.derivations import ActionDerivation, read_actions
from pdtools.models.grammar.output import (
    Linear,
    OutputLayer,
    Prefix,
    allowed,
    ending,
    fitting,
    rule_out_tokens,
)
from pdtools.models.grammar.state import ActionState, ActionStep
from pdtools.models.kernels.decoding import blocks_of, logsumexp
from pdtools.models.kernels.grammar_attention import Visible, visible_keys
from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.score_terms import ScoreInputs
from pdtools.tokenization import Tokenizer
from pdtools.trees.actions import ActionIds

if TYPE_CHECKING:
    from pdtools.shards import ShardSet

# Why a model cannot take a derivation.
_UNKNOWN = "labels unknown to the model"
OPEN = "more than {} constituents open at once (config.max_open)"
# Entries that are kept for each that is still seen, and positions that are reckoned with for each token.
_KEPT = 4


class ActionLM(LanguageModel):
    """A model of actions, whatever reads them: p(x, y) is the product of their probabilities.

    Attributes:
        continuing: bool (V,), tokens that are only allowed after another token; see :meth:`use_tokenizer`.
    """

    continuing: Tensor

    @property
    def actions(self) -> ActionIds:
        """Numbers of the model's actions."""
        return cast(ActionIds, self.config.actions)

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """See :meth:`LanguageModel.use_tokenizer`: tokens that are only allowed after another token."""
        continuing = torch.from_numpy(tokenizer.continue_words)
        self.continuing.copy_(F.pad(continuing, (0, self.vocab_size - len(continuing))))

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`; the end is a token, other structure the derivation."""
        assert batch.scored is not None
        self.check_length(batch.tokens.shape[1])
        found, structure = self._score_batch(batch)
        scored = batch.scored[:, 1:]  # (B, N - 1)
        logprobs = F.pad(found.new_zeros(scored.shape).masked_scatter(scored, found), (1, 0))  # (B, N)
        best = F.pad(torch.zeros_like(scored, dtype=torch.int64).masked_scatter(scored, structure), (1, 0))
        is_token = (batch.tokens < self.vocab_size) | batch.ends(self.eos_id)
        return TokenParts(
            token_logprobs=logprobs.masked_fill(~is_token, 0),
            attach_logprobs=logprobs.masked_fill(is_token, 0),
            attach_best=best,
            n_clamped=batch.lengths.new_zeros(()),
        )

    @abstractmethod
    def _score_batch(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the S scored actions, and the likeliest of openers and closers: (S,) each."""

    def loss(self, batch: Batch) -> LossParts:
        """See :meth:`LanguageModel.loss`; the likeliest of openers and closers counts as right."""
        assert batch.scored is not None
        parts = self.forward_parts(batch)
        ends = batch.ends(self.eos_id)
        structure = batch.scored & (batch.tokens >= self.vocab_size) & ~ends
        return LossParts(
            sums={"token_nll": -parts.token_logprobs.sum(), "attachment_nll": -parts.attach_logprobs.sum()},
            counts={
                "tokens": (batch.scored & ~structure).sum(),
                "attachments": structure.sum(),
                "attachments_right": ((parts.attach_best == batch.tokens) & structure).sum(),
                "clamped": parts.n_clamped,
            },
        )

    def following_logprobs(self, batch: Batch) -> Tensor:
        """Refuse: actions come between tokens.

        Raises:
            PdtoolsError: always.
        """
        raise _not_by_token()

    def position_logprobs(self, batch: Batch) -> Tensor:
        """Refuse: some actions are no tokens.

        Raises:
            PdtoolsError: always.
        """
        raise _not_by_token()

    @abstractmethod
    def start(self, rows: int, length: int = 1, entries: int | None = None) -> ActionState:
        """See :meth:`LanguageModel.start`; there is room for all that comes."""

    @abstractmethod
    def advance(self, state: Any, tokens: Tensor, tape_row: Tensor | None = None) -> None:
        """See :meth:`LanguageModel.advance`: the next action of every prefix, the start first.

        Actions are allowed ones, and none of the prefixes has ended; there are no tapes.
        """

    @abstractmethod
    def action_logprobs(self, state: Any, tokens: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the next action.

        Args:
            state: R prefixes.
            tokens: int64 (R,), the requested token of each; None: all.

        Returns:
            For openers and closers float (R, labels + closers), and for the tokens float (R,) or (R, V),
            nats; -inf if one is not allowed, or there is no room for more positions.
        """

    def read_derivation(self, actions: NDArray[np.integer]) -> Any:
        """The derivation of a sequence of actions without the start."""
        return read_actions(actions, self.actions)

    def derive(self, rows: int, length: int, entries: int | None = None) -> ActionDerivations:
        """See :meth:`LanguageModel.derive`."""
        return ActionDerivations(self, rows, length)

    def derivation_of(self, shards: ShardSet, row: int) -> Any:
        """See :meth:`LanguageModel.derivation_of`: the constituents."""
        return shards.constituents(row)

    def row_lengths(self, shards: ShardSet) -> NDArray[np.int64]:
        """See :meth:`LanguageModel.row_lengths`: actions."""
        return self.actions.positions(np.asarray(shards.lengths) - 2, shards.n_constituents)

    def row_length(self, tokens: Any, derivation: Any) -> int:
        """See :meth:`LanguageModel.row_length`: actions."""
        return int(self.actions.positions(len(tokens) - 2, len(derivation.labels)))

    def unfit_rows(self, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`LanguageModel.unfit_rows`."""
        most = self.config.max_open
        return [(shards.has_unknown_labels, _UNKNOWN), (shards.most_open > most, OPEN.format(most))]

    def problem(self, derivation: Any) -> str | None:
        """See :meth:`LanguageModel.problem`."""
        if derivation.labels.min() < 0:
            return _UNKNOWN
        opened = derivation.opens.cumsum() - derivation.closes.cumsum() + derivation.closes  # (n)
        return OPEN.format(self.config.max_open) if opened.max() > self.config.max_open else None


class GrammarLM(ActionLM, TransformerLM):
    """The decoder over actions: p(x, y) is the product of their probabilities, over the allowed ones."""

    config: PlmConfig
    state_class: type[ActionState] = ActionState

    def __init__(self, config: PlmConfig) -> None:
        super().__init__(config)
        self.register_buffer("continuing", torch.zeros(config.vocab_size, dtype=torch.bool), persistent=False)

    @property
    def sees_stack(self) -> bool:
        """Return whether positions see only the stack (a Transformer Grammar)."""
        return self.actions.doubled

    # --- given derivations --------------------------------------------------------------------

    def _score_batch(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """See :meth:`ActionLM._score_batch`."""
        assert isinstance(batch, ActionBatch)
        assert batch.scored is not None
        hidden = self._read_actions(batch)[:, :-1]  # (B, N - 1, D)
        scored = batch.scored[:, 1:]  # (B, N - 1)
        targets = batch.tokens[:, 1:][scored]  # (S,)
        return self._score(hidden[scored], targets, self._prefix(batch, scored))

    def _score(self, hidden: Tensor, targets: Tensor, prefix: Prefix) -> tuple[Tensor, Tensor]:
        """Log-probabilities of given actions, and the likeliest of openers and closers: (S,) each.

        Args:
            hidden: (S, D), final hidden states before them.
            targets: int64 (S,).
            prefix: before each.
        """
        output = hidden, self._output_weight, self._output_bias
        ruled = prefix if self.config.normalize == "allowed" else None

        def rule_out(logits: Tensor, rows: slice) -> None:
            if ruled is not None:
                self._rule_out(logits, Prefix(*(each[rows] for each in ruled)))

        return -linear_cross_entropy(*output, targets, rule_out), self._best_structure(*output, ruled)

    def _read_actions(self, batch: ActionBatch) -> Tensor:
        """Final hidden states (B, N, D)."""
        inputs = ScoreInputs(causal=None, tape=None)
        if self.sees_stack:
            position = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
            is_compose = (batch.tokens >= self.actions.first_closer) & (batch.pop != position)
            inputs = replace(inputs, on_stack=self._visible(batch, is_compose))
        elif isinstance(self.config, PlmMaskConfig):
            inputs = replace(inputs, innermost=batch.innermost)
        else:
            n = batch.tokens.shape[1]
            causal = torch.ones(n, n, dtype=torch.bool, device=batch.tokens.device).tril()
            inputs = replace(inputs, causal=causal)
        x = self._input(self._embedded(batch), first=0, lengths=batch.lengths)  # (B, N, D)
        for block in self.blocks:
            x = block(x, inputs)
        return self._final(x)

    def _embedded(self, read: ActionBatch | ActionStep) -> Tensor:
        """Embeddings of the input: (B, N, D), or of a step (M, D)."""
        return self.embedding(read.actions if isinstance(read, ActionStep) else read.tokens)

    def _visible(self, batch: ActionBatch, is_compose: Tensor) -> Visible:
        """The visible part of the stack at each position."""
        return visible_keys(batch.pop, is_compose, batch.depth)

    def _prefix(self, batch: ActionBatch, scored: Tensor) -> Prefix:
        """The prefixes before scored actions, bool (B, N - 1)."""
        opener = batch.tokens.gather(1, batch.innermost.clamp(min=0).long())  # (B, N)
        return Prefix(
            last=batch.tokens[:, :-1][scored],
            n_open=batch.n_open[:, :-1][scored],
            label=(opener - self.vocab_size)[:, :-1][scored],
        )

    @torch.no_grad()
    def _best_structure(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, prefix: Prefix | None
    ) -> Tensor:
        """The likeliest of openers and closers, (S,), after hidden states (S, D)."""
        v = self.vocab_size
        logits = F.linear(hidden, weight[v:], None if bias is None else bias[v:])
        if prefix is not None:
            may = allowed(prefix, self.actions, self.root_id, self.config.max_open)
            logits.masked_fill_(~may.structure, -torch.inf)
        return logits.argmax(1) + v

    @torch.no_grad()
    def _rule_out(self, logits: Tensor, prefix: Prefix) -> None:
        """Make logits (S, A) -inf where an action is not allowed, in place.

        They are fresh, and too large for copies; no gradient comes back from impossible actions.
        """
        may = allowed(prefix, self.actions, self.root_id, self.config.max_open)
        logits.detach()[:, self.vocab_size :].masked_fill_(~may.structure, -torch.inf)
        rule_out_tokens(logits, may, self.continuing, [self.pad_id, self.root_id, self.eos_id])

    # --- action by action ---------------------------------------------------------------------

    def start(self, rows: int, length: int = 1, entries: int | None = None) -> ActionState:  # type: ignore[override]
        """See :meth:`ActionLM.start`."""
        config = self.config
        return self.state_class.empty(
            rows,
            layers=config.layers,
            d_model=config.d_model,
            max_open=config.max_open,
            like=self.embedding.weight,
            has_stack=self.sees_stack,
            output=self._output_parts(),
        )

    @torch.no_grad()
    def advance(self, state: ActionState, tokens: Tensor, tape_row: Tensor | None = None) -> None:  # type: ignore[override]
        """See :meth:`ActionLM.advance`."""
        step = self._pushed(state, tokens)
        x = self._scaled(self._embedded(step))[:, None]  # (M, 1, D)
        if self.position_embedding is not None:
            x = x + self.position_embedding(step.positions.clamp(max=self.config.max_length - 1))[:, None]
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        inputs = ScoreInputs(
            causal=None,
            tape=None,
            visible=step.visible,
            depth_difference=step.depth_difference,
            constants=state.memory.constants,
        )
        for block, cache in zip(self.blocks, step.caches, strict=True):
            x = block(x, inputs, cast(Any, cache))
        state.take(self._final(x)[:, 0])

    def _pushed(self, state: ActionState, actions: Tensor) -> ActionStep:
        """Note the next action of every prefix, int64 (R,), and return the positions to be read."""
        n_heads = self.config.heads if isinstance(self.config, PlmMaskConfig) else None
        return state.push(actions, self.actions, n_heads)

    @torch.no_grad()
    def action_logprobs(self, state: ActionState, tokens: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See :meth:`ActionLM.action_logprobs`."""
        prefix = state.prefix()
        if tokens is None or state.output is None:
            parts = blocks_of(len(state.hidden), self.actions.number, self.device)
            every = [
                self._next(
                    state.hidden[part],
                    Prefix(*(each[part] for each in prefix)),
                    None if tokens is None else tokens[part],
                )
                for part in parts
            ]
            structure, chosen = zip(*every, strict=True)
            found = torch.cat(structure), torch.cat(chosen)
        else:
            found = self._next_of(state.hidden, prefix, tokens, state.output)
        if self.max_length is not None:
            full = state.read >= self.max_length  # (R,)
            found[0].masked_fill_(full[:, None], -torch.inf)
            found[1].masked_fill_(full if tokens is not None else full[:, None], -torch.inf)
        return found

    def _next_of(
        self, hidden: Tensor, prefix: Prefix, tokens: Tensor, output: OutputLayer
    ) -> tuple[Tensor, Tensor]:
        """Scores of openers and closers and of one token each, as in :meth:`action_logprobs`."""
        may = allowed(prefix, self.actions, self.root_id, self.config.max_open)
        return output.logprobs(hidden, may, tokens)

    def _output_parts(self) -> OutputLayer | None:
        """The output layer for searches; None if its probabilities are not over all allowed actions."""
        if self.config.normalize == "all":
            return None
        return self._parts_of(Linear(self._output_weight, self._output_bias))

    def _parts_of(self, whole: Linear) -> OutputLayer:
        """The parts of an output layer whose first rows are those of tokens."""
        real = torch.ones_like(self.continuing)
        real[[self.pad_id, self.root_id, self.eos_id]] = False
        return OutputLayer.of(whole, real & ~self.continuing, real & self.continuing)

    def _next(self, hidden: Tensor, prefix: Prefix, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """Scores as in :meth:`action_logprobs`, for prefixes with room, from hidden states (r, D)."""
        v = self.vocab_size
        logits = self.logits(hidden).float()
        over_all = self.config.normalize == "all"
        total = logsumexp(logits) if over_all else None
        self._rule_out(logits, prefix)
        total = logsumexp(logits) if total is None else total  # (r,)
        of_tokens = logits[:, :v] if tokens is None else logits.gather(1, tokens[:, None])
        chosen = of_tokens - total[:, None]
        return logits[:, v:] - total[:, None], chosen if tokens is None else chosen[:, 0]

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack`: (tokens, constituents)."""
        return ActionBatch.of_rows(rows, self.actions, self.root_id, self.pad_id)


def _not_by_token() -> PdtoolsError:
    return PdtoolsError("a model that writes the tree into the string is not read token by token")


class ActionDerivations(Derivations):
    """Prefixes of actions: tokens, then openers, then closers are the columns of choices.

    Attributes:
        state: the model's state after all choices.
    """

    def __init__(self, model: ActionLM, rows: int, length: int) -> None:
        """Read the start; choices and memory are reckoned for ``length`` tokens."""
        self._model = model
        self._ids = model.actions
        self.state = model.start(rows)
        self._length = length
        self._alone = True  # no others have the same memory
        model.advance(self.state, torch.full((rows,), model.root_id, device=model.device))
        # Between two tokens at most all open constituents close, and as many open.
        self.step, self.most_steps = 0, length * (2 * model.config.max_open + 1)

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        structure, tokens = self._model.action_logprobs(self.state)
        return torch.cat([tokens, structure], 1).double()  # (R, A)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        n_open, v = self.state.n_open, self._ids.tokens
        ends = torch.tensor([token == self._model.eos_id], device=n_open.device)
        is_token = torch.arange(v, device=n_open.device) == token
        return torch.cat([is_token.expand(len(n_open), -1), fitting(n_open, ends, self._ids)], 1)

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        v = self._ids.tokens
        column = (choices - v).clamp(min=0)[:, None]
        ends = (choices >= v) & ending(self.state.n_open, self._ids).gather(1, column)[:, 0]
        return choices.where(choices < v, -1).masked_fill(ends, self._model.eos_id)

    def full(self) -> Tensor | None:
        """See :meth:`Derivations.full`."""
        most = self._model.max_length
        return None if most is None else self.state.read >= most

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        self._model.advance(self.state, choices)
        if self._alone and self.state.memory.used > _KEPT * self.state.entries.numel():
            self.state.compact()

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self.state.select(rows)

    def taken(self, rows: Tensor) -> ActionDerivations:
        """Copies of the given derivations beside these, with the same memory."""
        return self._beside(self.state.taken(rows))

    @staticmethod
    def join(parts: Sequence[ActionDerivations]) -> ActionDerivations:
        """Derivations of one memory, one after the other."""
        return parts[0]._beside(ActionState.join([part.state for part in parts]))

    def _beside(self, state: ActionState) -> ActionDerivations:
        beside = object.__new__(type(self))
        vars(beside).update(vars(self), state=state, _alone=False)  # a search makes many
        return beside

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return self.state.nbytes * self._length * _KEPT

    def derivation(self, choices: NDArray[np.int32]) -> ActionDerivation:
        """See :meth:`Derivations.derivation`; constituents open at a cut are closed after the last token."""
        return cast("ActionDerivation", self._model.read_derivation(choices))
