"""RNNGs: an LSTM reads the stack, and predicts the next action from its top (Kuncoro et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.errors import PdtoolsError
from pdtools.models.batch import Batch
from pdtools.models.grammar.derivations import read_in_order
from pdtools.models.grammar.model import OPEN, ActionDerivations, ActionLM
from pdtools.models.grammar.output import Allowed, Linear, OutputLayer, Prefix, allowed, rule_out_tokens
from pdtools.models.grammar.state import ActionState, Memory
from pdtools.models.kernels.decoding import blocks_of, multiplies_by_onednn, product
from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy
from pdtools.models.rnng.composition import composition_of, lstm_states
from pdtools.models.rnng.config import RnngConfig
from pdtools.models.rnng.stacks import StackBatch
from pdtools.trees.actions import (
    IN_ORDER_NEEDS_WORDS,
    ActionStack,
    InOrderIds,
    action_rows,
    in_order_actions,
)

if TYPE_CHECKING:
    from pdtools.shards import ShardSet
    from pdtools.tokenization import Tokenizer

_CHAIN = "more than {} constituents opened in a row (config.max_chain)"


@dataclass(kw_only=True)
class RnngState(ActionState):
    """R prefixes of actions; their entries are the elements of their stacks.

    Attributes:
        hidden: (R, D), outputs.
        places: int64 (R, max_open), the index of each open constituent's first element among the entries.
        openers: int64 (R, max_open), the index of its opener.
        corner: int64 (R,), the index of the last word or constituent.
        chain: int64 (R,), see :class:`pdtools.trees.actions.ActionStack`.
        memory: vectors (entries, D), and states (entries, 2 layers D).
    """

    openers: Tensor
    corner: Tensor
    chain: Tensor


class RnngLM(ActionLM):
    """An RNNG: p(action) p(token | GEN), each over the allowed ones, from the top of the stack alone."""

    config: RnngConfig
    max_length = None

    def __init__(self, config: RnngConfig) -> None:
        super().__init__(config)
        d, ids = config.d_model, config.actions
        self.begin = nn.Parameter(torch.randn(d))
        self.embedding = nn.Embedding(config.vocab_size, d)
        self.label_embedding = nn.Embedding(config.n_labels, d)
        self.cells = nn.ModuleList(nn.LSTMCell(d, d) for _ in range(config.layers))
        self.composition = composition_of(config)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d, d)
        # Openers, closers, GEN; with "all" padding too, as released.
        self.action_head = nn.Linear(d, ids.labels + ids.closers + (1 if self._masks else 2))
        self.token_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.register_buffer("continuing", torch.zeros(config.vocab_size, dtype=torch.bool), persistent=False)

    @property
    def _masks(self) -> bool:
        """Return whether probability is shared by allowed actions alone."""
        return self.config.normalize == "allowed"

    @property
    def _special(self) -> list[int]:
        """Tokens that are never generated."""
        return [self.pad_id, self.root_id, self.eos_id]

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """See :meth:`LanguageModel.use_tokenizer`.

        Raises:
            PdtoolsError: in-order, if tokens do not show where words begin.
        """
        if self.actions.in_order and tokenizer.text_style == "raw":
            raise PdtoolsError(IN_ORDER_NEEDS_WORDS)
        super().use_tokenizer(tokenizer)

    # --- given derivations --------------------------------------------------------------------

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack`: (tokens, constituents)."""
        by_action = self.composition.sees_state
        if not rows:
            return StackBatch.of_nothing(self.actions, self.root_id, self.pad_id, by_action=by_action)
        return StackBatch.of_actions(
            [self._actions_of(tokens[1:-1], tree) for tokens, tree in rows],
            self.actions,
            self.pad_id,
            self._continues,
            by_action=by_action,
        )

    @property
    def _continues(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.continuing.cpu().numpy()
        return found

    def _actions_of(self, tokens: NDArray[np.integer], tree: Any) -> list[int]:
        """The actions of a tree, the start first."""
        ids = self.actions
        if isinstance(ids, InOrderIds):
            return in_order_actions(tokens, tree, ids, self.root_id, self._continues)
        found: list[int] = action_rows([(tokens, tree)], ids, self.root_id).actions.tolist()
        return found

    def _score_batch(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """See :meth:`ActionLM._score_batch`; the likeliest may be illegal if none is ruled out."""
        assert isinstance(batch, StackBatch)
        assert batch.scored is not None
        v, scored = self.vocab_size, batch.scored[:, 1:]  # (B, N - 1)
        with torch.autocast(self.device.type, enabled=False):  # for large products
            tops = self._read(batch)[batch.state[:, :-1][scored]]  # (S, D)
            hidden = self._output(tops)
        before = (each[:, :-1][scored] for each in (batch.tokens, batch.n_open, batch.chain))
        may = self._allowed(*before)
        targets = batch.tokens[:, 1:][scored]  # (S,)
        actions = self._action_logprobs(hidden, may)  # (S, labels + closers + 1)
        generated = torch.nonzero(targets < v)[:, 0]
        words = Allowed(*(each[generated] for each in may))

        def rule_out(logits: Tensor, rows: slice) -> None:
            if self._masks:
                some = Allowed(*(each[rows] for each in words))
                rule_out_tokens(logits, some, self.continuing, self._special)

        output = hidden[generated], self.embedding.weight, self.token_bias
        nll = linear_cross_entropy(*output, targets[generated], rule_out)
        n = actions.shape[1] - 1
        found = actions.gather(1, (targets - v).where(targets >= v, n)[:, None])[:, 0]
        return found.index_add(0, generated, -nll), actions[:, :n].argmax(1) + v

    def _read(self, batch: StackBatch) -> Tensor:
        """The top layer's hidden states (M, D)."""
        leaves, labels = self._leaves(batch.leaves), batch.leaves[batch.openers] - self.vocab_size
        if not len(labels):  # ranks that train together add gradients, of which none may be missing
            leaves = leaves + sum(0 * weight.sum() for weight in self.composition.parameters())
        read = self._read_by_action if self.composition.sees_state else self._read_by_height
        return read(batch, leaves, labels)[:, 0, -1]

    @torch.no_grad()
    def composition_weights(self, tokens: NDArray[np.integer], tree: Any) -> list[Tensor]:
        """Weights of the children of each constituent of a tree, as they close; attention composes them."""
        ids = self.actions
        actions = [each for each in self._actions_of(tokens[1:-1], tree) if each <= ids.first_closer]
        actions.append(self.pad_id)  # the last action is not read
        batch = StackBatch.of_actions([actions], ids, self.pad_id, self._continues, by_action=True)
        found: list[Tensor] = []

        def keep(module: Any, given: tuple[Any, ...]) -> None:
            vectors, _, *others = given
            found.append(module.weights(vectors, *others)[0])

        with self.composition.register_forward_pre_hook(keep):
            self._read(batch.to(self.device))
        return found

    def _read_by_height(self, batch: StackBatch, leaves: Tensor, labels: Tensor) -> Tensor:
        """States (M, 2, layers, D): constituents of one height at once, then states of one height."""
        vectors = [leaves]
        for first, end in pairwise(batch.composed):
            rows = slice(first, end)
            longest = int(batch.counts[rows].max())
            given = batch.openers[rows], batch.children[rows, :longest], batch.counts[rows], labels[rows]
            vectors.append(self.composition(torch.cat(vectors), *given))
        table, states = torch.cat(vectors), list[Tensor]()
        for first, end in pairwise(batch.read):
            if states:
                previous = states[-1][batch.below[first:end] - (first - len(states[-1]))]
            else:
                previous = table.new_zeros(end, 2, len(self.cells), table.shape[1])
            states.append(self._step(table[batch.vector[first:end]], previous))
        return torch.cat(states)

    def _read_by_action(self, batch: StackBatch, leaves: Tensor, labels: Tensor) -> Tensor:
        """States (M, 2, layers, D): an action of each row at once.

        Vectors and states are lists: tables that grow would be copied at each step.
        """
        vectors, states = [*leaves.unbind()], list[Tensor]()
        below, vector, before = (each.tolist() for each in (batch.below, batch.vector, batch.before))
        for k, (first, end) in enumerate(pairwise(batch.read)):
            rows = slice(batch.composed[k], batch.composed[k + 1])
            if rows.start < rows.stop:
                counts = batch.counts[rows]
                children = batch.children[rows, : int(counts.max())]
                table = torch.stack([vectors[v] for v in children.flatten().tolist()])
                own = torch.arange(len(table), device=table.device).view_as(children)
                output = self._output(torch.stack([states[s] for s in before[rows]])[:, 0, -1])
                vectors += self.composition(table, own[:, 0], own, counts, labels[rows], output).unbind()
            x = torch.stack([vectors[v] for v in vector[first:end]])
            previous = x.new_zeros(len(x), 2, len(self.cells), x.shape[1])
            if states:
                previous = torch.stack([states[s] for s in below[first:end]])
            states += self._step(x, previous).unbind()
        return torch.stack(states)

    def _leaves(self, actions: Tensor) -> Tensor:
        """Embeddings (any, D) of the start, tokens and openers."""
        v = self.vocab_size
        tokens = self.embedding(actions.clamp(max=v - 1))
        labels = self.label_embedding((actions - v).clamp(min=0))
        found = torch.where((actions < v)[:, None], tokens, labels)
        return self.dropout(torch.where((actions == self.root_id)[:, None], self.begin, found))

    def _step(self, x: Tensor, previous: Tensor) -> Tensor:
        """States (R, 2, layers, D), hidden and cells, after inputs (R, D); lower hidden ones have dropout."""
        hidden, cells = [], []
        for layer, cell in enumerate(cast(Sequence[nn.LSTMCell], self.cells)):
            before = previous[:, 0, layer], previous[:, 1, layer]
            if multiplies_by_onednn(x):
                gates = product(x, cell.weight_ih, cell.bias_ih)
                gates += product(before[0], cell.weight_hh, cell.bias_hh)
                x, memory = lstm_states(gates, before[1])
            else:
                x, memory = cell(x, before)
            if layer < len(self.cells) - 1:
                x = self.dropout(x)
            hidden.append(x)
            cells.append(memory)
        return torch.stack([torch.stack(hidden, 1), torch.stack(cells, 1)], 1)

    def _output(self, top: Tensor) -> Tensor:
        """Outputs (S, D), which predictions are made of, from the top layer's hidden states."""
        return F.relu(product(self.dropout(top), self.output.weight, self.output.bias))

    def _allowed(self, last: Tensor, n_open: Tensor, chain: Tensor) -> Allowed:
        ids, config = self.actions, self.config
        may = allowed(Prefix(last, n_open, last), ids, self.root_id, config.max_open)
        is_closer = torch.arange(may.structure.shape[1], device=last.device) >= ids.labels
        return may._replace(structure=may.structure & (is_closer | (chain < config.max_chain)[:, None]))

    def _action_logprobs(self, hidden: Tensor, may: Allowed) -> Tensor:
        """Log-probabilities of openers, closers and GEN: float (S, labels + closers + 1)."""
        logits = product(hidden, self.action_head.weight, self.action_head.bias).float()
        if self._masks:
            generates = may.tokens | (may.continuing & self.continuing.any())
            logits = logits.masked_fill(~torch.cat([may.structure, generates[:, None]], 1), -torch.inf)
        return logits.log_softmax(1)[:, : may.structure.shape[1] + 1]

    # --- action by action ---------------------------------------------------------------------

    def start(self, rows: int, length: int = 1, entries: int | None = None) -> RnngState:
        """See :meth:`ActionLM.start`."""
        config, like = self.config, self.begin
        zeros = torch.zeros(rows, dtype=torch.int64, device=self.device)
        table = zeros[:, None].repeat(1, config.max_open)
        widths = config.d_model, 2 * config.layers * config.d_model
        real = torch.ones_like(self.continuing)
        real[self._special] = False
        whole = Linear(self.embedding.weight, self.token_bias)
        return RnngState(
            hidden=like.new_zeros(rows, config.d_model),
            last=zeros - 1,
            read=zeros,
            n_open=zeros,
            labels=table,
            places=table,
            openers=table,
            corner=zeros,
            chain=zeros,
            entries=zeros[:, None],
            count=zeros,
            depths=None,
            memory=Memory([like.new_empty(rows, width) for width in widths]),
            output=OutputLayer.of(whole, real & ~self.continuing, real & self.continuing),
        )

    @torch.no_grad()
    def advance(self, state: ActionState, tokens: Tensor, tape_row: Tensor | None = None) -> None:
        """See :meth:`ActionLM.advance`."""
        assert isinstance(state, RnngState)
        ids, rows = self.actions, len(tokens)
        opens = (tokens >= ids.tokens) & (tokens < ids.first_closer)
        closes, begins = tokens >= ids.first_closer, state.last < 0
        innermost = (state.n_open - 1).clamp(min=0)[:, None]
        place = torch.where(closes, state.places.gather(1, innermost)[:, 0], state.count)
        x = self._leaves(tokens.masked_fill(closes, self.root_id))
        if len(closing := torch.nonzero(closes)[:, 0]):
            x = x.index_copy(0, closing, self._composed(state, closing, innermost[closing]))
        below = state.entries.gather(1, (place - 1).clamp(min=0)[:, None])[:, 0]
        previous = state.memory.values[1][below].masked_fill(begins[:, None], 0)
        new = self._step(x, previous.view(rows, 2, len(self.cells), -1))
        state.hidden = self._output(new[:, 0, -1])

        first = state.memory.used
        state.memory.take(rows)
        for values, each in zip(state.memory.values, (x, new.flatten(1)), strict=True):
            values[first : first + rows] = each
        size = state.count
        state._put(place, first + torch.arange(rows, device=tokens.device), place)
        state.n_open = state.n_open + opens.long() - closes.long()
        if bool(opens.any()):
            level = (state.n_open - 1).clamp(min=0)[:, None]
            noted = {
                "labels": tokens - ids.tokens,
                "places": state.corner if ids.in_order else size,
                "openers": size,
            }
            for name, value in noted.items():
                table = getattr(state, name)
                value = torch.where(opens[:, None], value[:, None], table.gather(1, level))
                setattr(state, name, table.scatter(1, level, value))
        inside = ~opens & ~closes & self.continuing[tokens.clamp(max=ids.tokens - 1)]
        state.corner = torch.where(opens | inside, state.corner, place)
        opened = (state.last >= ids.tokens) & (state.last < ids.first_closer)
        goes_on = closes & opened & ids.in_order
        state.chain = torch.where(opens, state.chain + 1, state.chain.where(goes_on, 0))
        state.last, state.read = tokens, state.read + 1

    def _composed(self, state: RnngState, rows: Tensor, innermost: Tensor) -> Tensor:
        """The vectors (C, D) of the constituents that close in some rows (C,), open ones (C, 1)."""
        place, opener = (each[rows].gather(1, innermost) for each in (state.places, state.openers))
        counts = state.count[rows, None] - place - 1  # (C, 1)
        column = torch.arange(int(counts.max()), device=rows.device)
        at = place + column  # the children, but the opener may be among them
        at = at + (at >= opener)
        children = state.entries[rows].gather(1, at.clamp(max=state.entries.shape[1] - 1))
        openers = state.entries[rows].gather(1, opener)[:, 0]
        labels = state.labels[rows].gather(1, innermost)[:, 0]
        # Openers of a label have one vector.
        openers = openers.new_zeros(self.config.n_labels).scatter(0, labels, openers)[labels]
        vectors = state.memory.values[0]
        return cast(
            Tensor, self.composition(vectors, openers, children, counts[:, 0], labels, state.hidden[rows])
        )

    @torch.no_grad()
    def action_logprobs(self, state: ActionState, tokens: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See :meth:`ActionLM.action_logprobs`."""
        assert isinstance(state, RnngState)
        assert state.output is not None
        may = self._allowed(state.last, state.n_open, state.chain)
        actions = self._action_logprobs(state.hidden, may)
        structure = actions[:, :-1].masked_fill(~may.structure, -torch.inf)
        gen = actions[:, -1]
        if tokens is not None and self._masks:
            none = may._replace(structure=may.structure[:, :0])
            _, found = state.output.logprobs(state.hidden, none, tokens)
            # If no token is allowed, the sum over none is no number.
            return structure, (found + gen).masked_fill(gen == -torch.inf, -torch.inf)
        parts = blocks_of(len(gen), self.vocab_size, self.device)
        every = [
            self._tokens(state.hidden[part], Allowed(*(each[part] for each in may)), gen[part])
            for part in parts
        ]
        found = torch.cat(every)
        return structure, found if tokens is None else found.gather(1, tokens[:, None])[:, 0]

    def _tokens(self, hidden: Tensor, may: Allowed, gen: Tensor) -> Tensor:
        """Log-probabilities of all tokens (R, V), by those of GEN (R,)."""
        logits = F.linear(hidden, self.embedding.weight, self.token_bias).float()
        ruled = logits.clone()
        rule_out_tokens(ruled, may, self.continuing, self._special)
        total = (ruled if self._masks else logits).logsumexp(1)
        return ruled + (gen - total).masked_fill(gen == -torch.inf, -torch.inf)[:, None]

    def read_derivation(self, actions: NDArray[np.integer]) -> Any:
        """See :meth:`ActionLM.read_derivation`."""
        if isinstance(self.actions, InOrderIds):
            return read_in_order(actions, self.actions, self._continues)
        return super().read_derivation(actions)

    def derive(self, rows: int, length: int, entries: int | None = None) -> ActionDerivations:
        """See :meth:`LanguageModel.derive`."""
        found = super().derive(rows, length)
        # At most a chain of unary constituents around every word and constituent of several children.
        found.most_steps = 2 * self.config.max_open + length * (3 + 4 * self.config.max_chain)
        return found

    # --- rows of shards -----------------------------------------------------------------------

    def unfit_rows(self, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`LanguageModel.unfit_rows`."""
        rows = range(len(shards))
        reasons = np.array(
            [self._problem(shards.tokens(row)[1:-1], shards.constituents(row)) or "" for row in rows]
        )
        return [(reasons == reason, reason) for reason in sorted({*reasons.tolist()} - {""})]

    def problem(self, derivation: Any) -> str | None:
        """See :meth:`LanguageModel.problem`."""
        # A token for each word, for all that is known.
        return self._problem(np.full(len(derivation.opens), self.root_id), derivation)

    def _problem(self, tokens: NDArray[np.integer], tree: Any) -> str | None:
        config, ids = self.config, self.actions
        found = super().problem(tree)
        if found is None and tree.opens.max() > config.max_chain:
            found = _CHAIN.format(config.max_chain)
        if found is None or not ids.in_order or tree.labels.min() < 0:
            return found
        stack = ActionStack(ids, self._continues)  # in-order both numbers are at most those of top-down
        sizes = []
        for action in self._actions_of(tokens, tree)[:-1]:
            stack.push(action)
            sizes.append((stack.n_open, stack.chain))
        most_open, chain = np.max(sizes, axis=0)
        if most_open > config.max_open:
            return OPEN.format(config.max_open)
        return _CHAIN.format(config.max_chain) if chain > config.max_chain else None
