"""The transformer language model; pushdown layers, stack attention and an attachment head are optional."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.models.base import (
    DecoderState,
    LanguageModel,
    TokenParts,
    initialize,
    initialize_as_released,
    initialize_by_depth,
    initialize_by_fan_in,
)
from pdtools.models.batch import Batch
from pdtools.models.derivations import Derivations
from pdtools.models.kernels.decoding import log_normalisers
from pdtools.models.kernels.dropout import Dropout
from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy
from pdtools.models.tokenwise import AttachmentDerivations, StringDerivations
from pdtools.models.transformer.attachment import AttachmentHead, ReleasedHead
from pdtools.models.transformer.block import Block, position_terms, sincos_positions
from pdtools.models.transformer.cache import Cache, Past
from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.score_terms import ScoreInputs, ScoreTerm, StackDistances
from pdtools.models.transformer.stack_attention import StackCache
from pdtools.models.transformer.view import View
from pdtools.models.treereg import treereg

if TYPE_CHECKING:
    from pdtools.shards import ShardSet

# If few positions are scored, a GPU computes the logits of those alone from this vocabulary size on.
SELECTING_VOCABULARY = 1 << 10

# A layer, and its caches: keys and values (2D wide); its stack attention's, if it has any.
Layer = tuple[Block, Cache, StackCache | None]


class TransformerLM(LanguageModel):
    """A transformer language model.

    Args:
        config: its configuration.
        extra_terms: score terms of single layers (from 0), besides those for positions.
        depths: rows of the depth tables of those terms and of the attachment head; None: no tape is used.
        head_distances: whether the attachment head uses distances in the stack.
        head_reads_prefix: whether the attachment head represents a token by the output of the layers below
            those terms, not by its embedding.
    """

    config: TransformerConfig
    _never: Tensor | None  # (V,): -inf for tokens that have no share of the probability

    def __init__(
        self,
        config: TransformerConfig,
        *,
        extra_terms: Mapping[int, Sequence[ScoreTerm]] | None = None,
        depths: int | None = None,
        head_distances: bool = False,
        head_reads_prefix: bool = False,
    ) -> None:
        super().__init__(config)
        extra_terms = extra_terms or {}
        self.depths = depths
        # Functions of the tape besides depths, for terms and the head.
        self.reads = dict(StackDistances.reads) if head_distances else {}
        for term in itertools.chain(*extra_terms.values()):
            self.reads |= term.reads
        self.head_reads_prefix = head_reads_prefix
        # The first layers, which know tokens only: no tape.
        self.plain_layers = min(extra_terms, default=config.layers)
        self.max_length = config.max_length if config.positions == "learned" else None
        self.has_treereg = config.treereg_layer > 0
        self.embedding = nn.Embedding(config.n_inputs, config.d_model)
        self.position_embedding = (
            nn.Embedding(config.max_length, config.d_model) if config.positions == "learned" else None
        )
        self.embedding_norm = (
            nn.LayerNorm(config.d_model, eps=config.norm_eps) if config.embedding_norm else None
        )
        self.input_dropout = Dropout(config.input_dropout)
        self.blocks = nn.ModuleList(
            Block(
                config,
                [*position_terms(config), *extra_terms.get(layer, ())],
                has_stack=layer >= config.first_stack_layer,
            )
            for layer in range(config.layers)
        )
        # Post-LN layers end in a norm of their own.
        self.final_norm = (
            nn.LayerNorm(config.d_model, eps=config.norm_eps) if config.norm == "pre" else nn.Identity()
        )
        self.output_transform = (
            nn.Sequential(
                nn.Linear(config.d_model, config.d_model),
                nn.GELU(),
                nn.LayerNorm(config.d_model, eps=config.norm_eps),
            )
            if config.output_transform
            else None
        )
        self.output = (
            None if config.tie_embeddings else nn.Linear(config.d_model, config.n_inputs, bias=False)
        )
        self.output_bias = nn.Parameter(torch.zeros(config.n_inputs)) if config.output_bias else None
        never = None
        if config.layout == "window":
            if config.predicts_roots:
                self.end_id = config.root_id
            else:
                never = torch.zeros(config.n_inputs)
                never[[config.pad_id, config.root_id, config.eos_id]] = -torch.inf
        self.register_buffer("_never", never, persistent=False)
        self.head: AttachmentHead | ReleasedHead | None = None
        if config.attachment_head and config.head_form == "released":
            self.head = ReleasedHead(
                config.d_model,
                depths,
                depth_width=max(1, config.d_model * config.d_model // config.d_ff),
                dropout=config.feed_forward_dropout,
                normalize=config.normalize,
            )
        elif config.attachment_head:
            self.head = AttachmentHead(
                config.d_model,
                depths,
                stack_distances=head_distances,
                next_norm=nn.LayerNorm(config.d_model, eps=config.norm_eps) if head_reads_prefix else None,
            )

        self.regression = nn.Linear(config.d_model, 1) if config.regression else None

        self.apply(self.initializer)
        if config.initialization == "released":
            nn.init.xavier_uniform_(self.embedding.weight)
            for name, parameter in self.named_parameters():
                if name.endswith(("feed_forward.0.weight", "feed_forward.2.weight")):
                    gain = nn.init.calculate_gain("relu") if ".0.weight" in name else 1.0
                    nn.init.xavier_uniform_(parameter, gain=gain)
        if config.initialization != "gpt2":
            return
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.2.weight")):
                # GPT-2: the residual stream's variance does not grow with the number of layers.
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers))

    @property
    def initializer(self) -> Callable[[nn.Module], None]:
        """The function that gives a module its first weights."""
        known: dict[str, Callable[[nn.Module], None]] = {
            "fan-in": initialize_by_fan_in,
            "depth-scaled": partial(initialize_by_depth, layers=self.config.layers),
            "released": initialize_as_released,
        }
        return known.get(self.config.initialization, initialize)

    def head_parameters(self) -> Iterator[nn.Parameter]:
        """See :meth:`LanguageModel.head_parameters`."""
        return iter(()) if self.head is None else self.head.parameters()

    # --- whole sentences ----------------------------------------------------------------------

    def hidden_states(self, embedding: Tensor, lengths: Tensor, view: View) -> Tensor:
        """Final hidden states of embedded rows.

        Args:
            embedding: (B, N, D), of the tokens.
            lengths: int64 (B,), positions that are not padding.
            view: the tape of the rows.

        Returns:
            float (B, N, D).
        """
        return self._final(self._residual_stream(embedding, lengths, view).last)

    def treereg_states(self, batch: Batch) -> Tensor:
        """The states that TreeReg trains: a part of its layer's output, float (B, N, treereg_width)."""
        self.check_length(batch.tokens.shape[1])
        layers = self.config.treereg_layer
        states = self._residual_stream(self.embedding(batch.tokens), batch.lengths, View(), layers).treereg
        assert states is not None
        return states

    def _residual_stream(
        self, embedding: Tensor, lengths: Tensor, view: View, layers: int | None = None
    ) -> _Stream:
        """Run all layers, or the first few, and return their outputs."""
        n = embedding.shape[1]
        causal = real = None
        if self.objective == "causal":
            causal = torch.ones(n, n, dtype=torch.bool, device=embedding.device).tril()
        else:
            real = (torch.arange(n, device=embedding.device) < lengths[:, None])[:, None, None]
        inputs = view.inputs(causal=causal, visible=real)
        x = self._input(embedding, first=0, lengths=lengths)  # (B, N, D)
        treereg_states, plain = None, x
        for layer, block in enumerate(self.blocks[:layers], start=1):
            x = block(x, inputs)
            if layer == self.config.treereg_layer:
                treereg_states = x[:, :, : self.config.treereg_width]
            if layer == self.plain_layers:
                plain = x
        return _Stream(x, plain, treereg_states)

    def derive(self, rows: int, length: int, entries: int | None = None) -> Derivations:
        """See :meth:`LanguageModel.derive`."""
        if not self.derivation_kind.exist:
            return StringDerivations(self, rows, length)
        return AttachmentDerivations(self, rows, length, entries)

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack`. If ROOT is predicted, one more follows each window."""
        if self.config.layout != "window" or not rows:
            return super().pack(rows)
        if self.config.predicts_roots:
            return super().pack([self._with_root(*row) for row in rows])
        batch = super().pack(rows)
        return dataclasses.replace(batch, roots=batch.tokens == self.root_id)

    def pack_prompts(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack_prompts`."""
        if self.config.layout != "window" or not rows:
            return super().pack_prompts(rows) if rows else super().pack(rows)
        batch = super().pack(rows)
        return dataclasses.replace(
            batch, roots=None if self.config.predicts_roots else batch.tokens == self.root_id
        )

    def _with_root(self, tokens: NDArray[np.int32], attach: NDArray[np.int32]) -> tuple[Any, Any]:
        return np.append(tokens, self.root_id), np.append(attach, len(attach))

    def row_lengths(self, shards: ShardSet) -> NDArray[np.int64]:
        """See :meth:`LanguageModel.row_lengths`."""
        return super().row_lengths(shards) + self.config.predicts_roots

    def row_length(self, tokens: Any, derivation: Any) -> int:
        """See :meth:`LanguageModel.row_length`."""
        return super().row_length(tokens, derivation) + self.config.predicts_roots

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`: the factors of eq. 7 (Murty et al. 2023)."""
        self.check_length(batch.tokens.shape[1])
        view, n_clamped = View(), batch.tokens.new_zeros(())
        if self.depths is not None or self.head is not None:
            view = self._view(batch)
        if self.depths is not None:
            assert view.tape is not None
            # Nothing is predicted from EOS or padding, so their rows do not count.
            position = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
            used = position < batch.lengths[:, None] - 1  # (B, N)
            n_clamped = ((view.tape >= self.depths) & used[:, :, None]).sum()
        tokens, lengths = self.as_read(batch)
        embedding = self.embedding(tokens)  # (B, N, D): once, so that it has one gradient
        stream = self._residual_stream(embedding, lengths, view)
        hidden = self._final(stream.last)  # (B, N, D)
        # Masked models that do not read ROOT predict nothing there.
        hidden = F.pad(hidden, (0, 0, batch.tokens.shape[1] - tokens.shape[1], 0))

        targets = batch.tokens if batch.targets is None else batch.targets  # (B, N)
        shift = 1 if self.objective == "causal" else 0
        hidden_before = hidden[:, : hidden.shape[1] - shift]  # (B, N - shift, D)
        if not self._selects(batch):
            token_logprobs = -self._nll(hidden_before.flatten(0, 1), targets[:, shift:].flatten())
            token_logprobs = F.pad(token_logprobs.view(len(batch.tokens), -1), (shift, 0))  # (B, N)
            token_logprobs = token_logprobs.masked_fill(~batch.predicted(), 0)
        else:
            # Logits, the largest tensor, are made where something is scored, which may be few positions.
            scored = batch.predicted()[:, shift:]  # (B, N - shift)
            found = -self._nll(hidden_before[scored], targets[:, shift:][scored])  # (S,)
            token_logprobs = found.new_zeros(scored.shape).masked_scatter(scored, found)
            token_logprobs = F.pad(token_logprobs, (shift, 0))  # (B, N)

        attach_logprobs = torch.zeros_like(token_logprobs)
        attach_best = torch.arange(batch.tokens.shape[1], device=hidden.device).expand_as(batch.tokens)
        if self.head is not None:
            legal, ends = view.legal(batch.roots), batch.ends(self.eos_id)  # ends: (B, N)
            if self.final_id >= 0:
                to_root = torch.arange(legal.shape[2], device=legal.device) == 0
                legal = torch.where(ends[:, :, None], to_root, legal)
            seen = stream.plain if self.head_reads_prefix else embedding  # (B, N, D)
            every = self.head.logprobs(hidden, view.arrival, seen, legal, self._head_tape(view))
            chosen = every.gather(2, batch.attach[:, :, None])[:, :, 0]  # (B, N)
            # EOS always attaches to ROOT, which is no candidate in a sentence: probability 1.
            attach_logprobs = chosen.masked_fill(~batch.attached(), 0)
            if (
                self.final_id >= 0
            ):  # the next token counts as EOS; so does its attachment, if words depend on it
                final = torch.full_like(lengths, self.final_id)
                last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]  # (B, D)
                token_logprobs = token_logprobs - self._nll(last, final)[:, None] * ends
                attached = every[:, :, 0].masked_fill(~ends, 0)
                if self.derivation_kind.conditions_tokens:
                    token_logprobs = token_logprobs + attached
                else:
                    attach_logprobs = attach_logprobs + attached
            attach_best = every.argmax(2)
        return TokenParts(
            token_logprobs=token_logprobs,
            attach_logprobs=attach_logprobs,
            attach_best=attach_best,
            n_clamped=n_clamped,
            numbers=None if self.regression is None else self._numbers(hidden, lengths),
            treereg=None
            if stream.treereg is None or batch.edges is None
            else treereg(stream.treereg, batch.attach, batch.lengths, batch.edges, batch.places),
        )

    def _numbers(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return w · h_T + b for each row's last token T that is no padding: (B, N, D) to float32 (B,)."""
        assert self.regression is not None
        last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]  # (B, D)
        return self.regression(last)[:, 0].float()

    def final_states(self, batch: Batch) -> Tensor:
        """See :meth:`LanguageModel.final_states`."""
        self.check_length(batch.tokens.shape[1])
        tokens, lengths = self.as_read(batch)
        view = View() if self.depths is None else self._view(batch)
        return self.hidden_states(self.embedding(tokens), lengths, view)

    def _head_tape(self, view: View) -> Tensor | None:
        """The head's reading of the tape besides depths on arrival."""
        return view.depths if isinstance(self.head, ReleasedHead) else view.read.get("stack_distance")

    def _view(self, batch: Batch) -> View:
        return View.of_rows(batch.attach, self.depths, self.reads)

    # --- token by token -----------------------------------------------------------------------

    def start(self, rows: int, length: int, entries: int | None = None) -> TransformerState:
        """See :meth:`LanguageModel.start`."""
        self.check_causal()
        self.check_length(length)
        config, weight = self.config, self.embedding.weight
        entries = rows * length if entries is None else entries
        past = Past(rows, entries, like=weight)
        # Without attachments no two hypotheses have the same tokens: no layer is computed once for several.
        shared = 0 if self.head is None else self.plain_layers
        blocks = cast(list[Block], list(self.blocks))
        prefixes = None
        if shared:
            below = Past(1, entries, like=weight)
            prefixes = Prefixes(
                past=below,
                layers=[self._layer(block, below, length) for block in blocks[:shared]],
                of=torch.zeros(rows, dtype=torch.int64, device=weight.device),
                output=weight.new_zeros(1, 1, config.d_model),
            )
        return TransformerState(
            position=-1,
            past=past,
            lengths=torch.tensor([length], device=weight.device),
            prefixes=prefixes,
            layers=[self._layer(block, past, length) for block in blocks[shared:]],
            hidden=weight.new_zeros(rows, config.d_model),
            head_keys=None if self.head is None else past.cache(self.head.key_width),
            head_query=None if self.head is None else weight.new_zeros(rows, self.head.query_width),
            head_tape=None,
            held=None,
            n_clamped=torch.zeros((), dtype=torch.int64, device=weight.device),
        )

    def _layer(self, block: Block, past: Past, length: int) -> Layer:
        stack = None if block.stack is None else StackCache(past, length, self.embedding.weight)
        return block, past.cache(2 * self.config.d_model), stack

    @torch.no_grad()
    def advance(self, state: TransformerState, tokens: Tensor, tape_row: Tensor) -> None:
        """See :meth:`LanguageModel.advance`."""
        x = self._plain(state, tokens)  # (R, 1, D)
        state.position += 1
        state.past.feed()
        k = state.position
        view = View.of_tape(tape_row, self.depths, self.reads)
        state.head_tape = self._head_tape(view)
        if self.depths is not None:
            state.n_clamped = state.n_clamped + (tape_row >= self.depths).sum()
        inputs = view.inputs()
        for block, cache, stack in state.layers:
            x = block(x, inputs, cache, stack)
        state.hidden = self._final(x)[:, 0]  # (R, D)
        if self.head is not None:
            assert state.head_keys is not None
            arrival = None if view.depths is None else view.depths[:, k]  # (R,)
            state.head_query, keys = self.head.queries_and_keys(state.hidden, arrival)  # (R, D)
            state.head_keys.write(keys)

    def _plain(self, state: TransformerState, tokens: Tensor) -> Tensor:
        """The input of the first layer that is computed for each hypothesis, at its next token: (R, 1, D).

        The layers below, if there are any, are computed once for each prefix, at the first call.
        """
        k, prefixes = state.position + 1, state.prefixes
        if self.config.as_released:
            tokens, state.held = tokens if state.held is None else state.held, tokens
        if prefixes is None:
            return self._input(self.embedding(tokens[:, None]), first=k, lengths=state.lengths)
        if not prefixes.has_read(k, tokens):
            new = prefixes.read(k, tokens, self.config.n_inputs)  # (P,)
            x = self._input(self.embedding(new[:, None]), first=k, lengths=state.lengths)  # (P, 1, D)
            for block, cache, stack in prefixes.layers:
                x = block(x, ScoreInputs(causal=None, tape=None), cache, stack)
            prefixes.output = x
        return prefixes.output[prefixes.of]

    @torch.no_grad()
    def next_token_logprobs(self, state: TransformerState) -> Tensor:
        """See :meth:`LanguageModel.next_token_logprobs`."""
        return self.logits(state.hidden).log_softmax(-1, dtype=torch.float32)

    @torch.no_grad()
    def token_logprobs(
        self, state: TransformerState, next_tokens: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """See :meth:`LanguageModel.token_logprobs`."""
        hidden, bias = state.hidden, self._output_bias  # (R, D), (V,)
        total = log_normalisers(hidden, self._output_weight, bias).float()  # (R,)
        if rows is not None:
            hidden, total = hidden[rows], total[rows]
        chosen = (hidden.float() * self._output_weight[next_tokens].float()).sum(1)  # (M,)
        if bias is not None:
            chosen = chosen + bias[next_tokens].float()
        # Rounded as the logits in the total are: else in bfloat16 near certainty would be above 1.
        return chosen.to(hidden.dtype).float() - total

    @torch.no_grad()
    def attach_logprobs(self, state: TransformerState, next_tokens: Tensor, legal: Tensor) -> Tensor:
        """See :meth:`LanguageModel.attach_logprobs`."""
        if self.head is None or state.head_query is None or state.head_keys is None:
            return super().attach_logprobs(state, next_tokens, legal)
        prefix = self.head_reads_prefix
        seen = self._plain(state, next_tokens)[:, 0] if prefix else self.embedding(next_tokens)  # (R, D)
        return self.head.next_logprobs(state.head_query, state.head_keys, seen, legal, state.head_tape)

    # --- shared -------------------------------------------------------------------------------

    def as_read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Tokens (B, N) and lengths (B,) as the layers read them: see ``as_released``."""
        if not self.config.as_released:
            return batch.tokens, batch.lengths
        if self.objective == "masked":
            return batch.tokens[:, 1:], (batch.lengths - 1).clamp(min=1)
        return torch.cat([batch.tokens[:, :1], batch.tokens[:, :-1]], dim=1), batch.lengths

    def _input(self, embedding: Tensor, first: int, lengths: Tensor) -> Tensor:
        """The input of the first layer, for tokens at positions ``first``, first + 1, …: (B, n, D)."""
        config, n = self.config, embedding.shape[1]
        x = self._scaled(embedding)
        if self.position_embedding is not None:
            x = x + self.position_embedding.weight[first : first + n]
        if config.positions == "sincos":
            x = x + sincos_positions(config, first, n, lengths).to(x.dtype)
        return self.input_dropout(x if self.embedding_norm is None else self.embedding_norm(x))

    def _scaled(self, embedding: Tensor) -> Tensor:
        return embedding * math.sqrt(self.config.d_model) if self.config.scale_embeddings else embedding

    def _final(self, x: Tensor) -> Tensor:
        """The input of the output layer and the attachment head: (…, D) to (…, D)."""
        x = self.final_norm(x)
        return x if self.output_transform is None else self.output_transform(x)

    def _selects(self, batch: Batch) -> bool:
        """Return whether it is worth it to select the scored positions; a GPU has to be waited for."""
        few = batch.scored is not None and self.vocab_size >= SELECTING_VOCABULARY
        return few or self.device.type == "cpu"

    def _nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The -log p of targets (S,) given hidden states (S, D), in single precision: (S,)."""
        return linear_cross_entropy(hidden, self._output_weight, self._output_bias, targets)

    def logits(self, states: Tensor) -> Tensor:
        """See :meth:`LanguageModel.logits`."""
        return F.linear(states, self._output_weight, self._output_bias)

    @property
    def _output_bias(self) -> Tensor | None:
        """The output layer's bias (V,), with -inf for tokens that have no share of the probability."""
        if self._never is None or self.output_bias is None:
            return self.output_bias if self._never is None else self._never
        return self.output_bias + self._never

    @property
    def _output_weight(self) -> Tensor:
        """The output layer's weight (V, D)."""
        return self.embedding.weight if self.output is None else self.output.weight


class _Stream(NamedTuple):
    """The outputs of the layers.

    Attributes:
        last: (B, N, D), the output of the last layer that was computed.
        plain: (B, N, D), the output of the last layer without a tape.
        treereg: (B, N, treereg_width), the part of TreeReg's layer that it trains; None if it was not
            computed.
    """

    last: Tensor
    plain: Tensor
    treereg: Tensor | None


# --- the state while it reads token by token; layers without a tape share their memory ---------


@dataclass
class Prefixes:
    """The first layers' memory of the P different strings of tokens that R hypotheses have read.

    They may be a token ahead of the other layers: a token's attachment is scored before it is fed.

    Attributes:
        past: the past of the prefixes.
        layers: these layers, with their caches.
        of: int64 (R,), the prefix of each hypothesis.
        output: (P, 1, D), the last layer's output for the last token that was read.
        tokens: int64 (R,), that token; None before the first.
    """

    past: Past
    layers: list[Layer]
    of: Tensor
    output: Tensor
    tokens: Tensor | None = None

    def has_read(self, position: int, tokens: Tensor) -> bool:
        """Return whether these tokens (R,) were read at a position, the next one of the hypotheses."""
        return self.tokens is not None and self.past.position == position and torch.equal(self.tokens, tokens)

    def read(self, position: int, tokens: Tensor, n_tokens: int) -> Tensor:
        """Go on to the prefixes that are a token longer; others read there are forgotten.

        Args:
            position: the position of the next token of the hypotheses.
            tokens: int64 (R,), these next tokens.
            n_tokens: the number of different tokens that there may be.

        Returns:
            int64 (P,), the last token of each prefix, for which :attr:`output` is to be computed.

        Raises:
            NoRoomError: if there is no room for them.
        """
        if self.past.position == position:
            self.past.unfeed()
        longer, self.of = torch.unique(self.of * n_tokens + tokens, return_inverse=True)  # (P,), (R,)
        self.past.select(longer // n_tokens)
        self.past.feed()
        self.tokens = tokens
        return longer % n_tokens

    def select(self, rows: Tensor) -> None:
        """Go on with the given hypotheses: int64 (R',), in any order, repeats allowed."""
        self.of = self.of[rows]
        self.tokens = None if self.tokens is None else self.tokens[rows]


@dataclass
class TransformerState(DecoderState):
    """The state of a transformer for R hypotheses.

    Attributes:
        position: the last position fed; -1 at the start.
        past: the tokens that each hypothesis has read.
        lengths: int64 (1,), the maximal number of tokens of one hypothesis.
        prefixes: the memory of the layers below that know tokens only; None if these are not computed
            apart.
        layers: the other layers, with their caches.
        hidden: (R, D), final hidden state of the last token.
        head_keys: the attachment head's keys, one for each token; None without a head.
        head_query: (R, its ``query_width``), the attachment head's q of the last token; None without a head.
        head_tape: int (R, position + 1), the tape as the head reads it after the last token: distances in
            the stack, or depths; None for a head that uses neither.
        held: int64 (R,), the last token, for models that read with a delay of one; None for others.
        n_clamped: cells of tape rows fed so far that were deeper than the depth table.
    """

    position: int
    past: Past
    lengths: Tensor
    prefixes: Prefixes | None
    layers: list[Layer]
    hidden: Tensor
    head_keys: Cache | None
    head_query: Tensor | None
    head_tape: Tensor | None
    held: Tensor | None
    n_clamped: Tensor

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        self.past.select(rows)
        if self.prefixes is not None:
            self.prefixes.select(rows)
        self.hidden = self.hidden[rows]
        if self.head_query is not None:
            self.head_query = self.head_query[rows]
        if self.head_tape is not None:
            self.head_tape = self.head_tape[rows]
        if self.held is not None:
            self.held = self.held[rows]

    @property
    def nbytes(self) -> int:
        """The memory of the caches, in bytes."""
        return self.past.nbytes + (0 if self.prefixes is None else self.prefixes.past.nbytes)
