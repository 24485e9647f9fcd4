"""The computation of recurrent language models from their parameters: one model, or several together."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.batch import Batch
from pdtools.models.recurrent.config import RecurrentConfig
from pdtools.models.recurrent.products import look_up, times
from pdtools.models.recurrent.recurrence import Carry, SequenceRun, Weights, run_sequence
from pdtools.models.recurrent.stacks import Stack


class RecurrentReader:
    """The controller, stack and output layer (section 2.1 of the nondeterministic-stacks paper).

    For M models all parameters have one more dimension in front, of size M; rows are in the order of the
    models, equally many of each.

    Args:
        config: the configuration of the model, or of every one of them.
        stack: the stack that it names.
        parameters: by their names in :class:`pdtools.models.RecurrentLM`.
    """

    def __init__(
        self, config: RecurrentConfig, stack: Stack | None, parameters: Mapping[str, Tensor]
    ) -> None:
        self.config = config
        self.stack = stack
        self._parameters = parameters

    def empty(self, rows: int) -> Carry:
        """Return the state before the first token."""
        hidden = self._parameters["hidden_weight"].new_zeros(rows, self.config.hidden_size)
        return Carry(hidden, torch.zeros_like(hidden))

    def run(self, rows: int, steps: int) -> SequenceRun:
        """Start rows that are read step by step, without gradients."""
        return SequenceRun(
            self.config.controller, self.stack, self._weights(), self.empty(rows), steps, keep=False
        )

    def read(
        self, tokens: Tensor, carry: Carry | None = None, *, carries: bool = False
    ) -> tuple[Tensor, Carry | None]:
        """Return hidden states (B, T, H) after each token (B, T), and the state for the next sequence.

        Args:
            tokens: the tokens to read.
            carry: the state to go on from; None for the empty one.
            carries: whether there is a next sequence.
        """
        carry = carry or self.empty(len(tokens))
        if tokens.shape[1] == 0:
            return carry.hidden.new_zeros(len(tokens), 0, self.config.hidden_size), carry
        # Mixed precision is for large products: here it would lose more than it gains.
        with torch.autocast(tokens.device.type, enabled=False):
            hidden, carry_out = run_sequence(
                self.config.controller,
                self.stack,
                self._weights(),
                self.inputs(tokens).transpose(0, 1),
                carry,
                carries=carries,
            )
        return hidden.transpose(0, 1), carry_out

    def fed(self, tokens: Tensor) -> Tensor:
        """Return the inputs for rows (B, N): the token before the first prediction, if there is one, and the
        tokens after ROOT; (B, N) or (B, N - 1)."""
        if self.config.first_input == "none":
            return tokens[:, 1:]
        return torch.cat([self.first_input(tokens[:, :1]), tokens[:, 1:]], 1)

    def first_input(self, like: Tensor) -> Tensor:
        """The token read before the first prediction."""
        first = self.config.root_id if self.config.first_input == "root" else self.config.eos_id
        return torch.full_like(like, first)

    def at_positions(self, hidden: Tensor) -> Tensor:
        """Hidden states after the inputs of :meth:`fed`, by position of the row: (B, N, H)."""
        return F.pad(hidden, (0, 0, 1, 0)) if self.config.first_input == "none" else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (B, T, V) from hidden states (B, T, H)."""
        weight, bias = self._parameters["output.weight"], self._bias(self._parameters["output.bias"])
        return times(hidden.flatten(0, 1), weight.mT, bias).unflatten(0, hidden.shape[:2])

    def target_logprobs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The log p of targets (B, T) from hidden states (B, T, H)."""
        logits = self.logits(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return -nll.view_as(targets)

    def token_logprobs(self, batch: Batch, hidden: Tensor) -> Tensor:
        """The log p of a batch's targets (B, N), 0 for positions that are not scored.

        Args:
            batch: rows of N positions.
            hidden: (B, N, H), or (B, N - 1, H): see :meth:`scored_part`.
        """
        targets = batch.tokens if batch.targets is None else batch.targets
        shift = targets.shape[1] - hidden.shape[1]
        logprobs = self.target_logprobs(hidden, targets[:, shift:])
        return F.pad(logprobs, (shift, 0)).masked_fill(~batch.predicted(), 0)

    def scored_part(self, batch: Batch) -> Tensor:
        """The tokens that predictions are made after: all but the last if the next one is predicted."""
        return batch.tokens[:, :-1] if self.config.objective == "causal" else batch.tokens

    def inputs(self, tokens: Tensor) -> Tensor:
        """The part of tokens (B, T) in the gates: (B, T, G)."""
        weight = self._parameters["input_weight"]
        bias = self._bias(self._parameters["input_bias"] + self._parameters["hidden_bias"])
        if "embedding.weight" not in self._parameters:
            return look_up(tokens, weight.mT, bias)
        embedded = look_up(tokens, self._parameters["embedding.weight"])  # (B, T, E)
        return times(embedded.flatten(0, 1), weight.mT, bias).unflatten(0, tokens.shape)

    def _weights(self) -> Weights:
        recurrent = self._parameters["hidden_weight"]
        if self.stack is None:
            return Weights(recurrent)
        recurrent = torch.cat([recurrent, self._parameters["reading_weight"]], -1)
        return Weights(
            recurrent, self._parameters["actions.weight"], self._bias(self._parameters["actions.bias"])
        )

    @staticmethod
    def _bias(bias: Tensor) -> Tensor:
        """Return a bias (Y,) as it is, (M, Y) as (M, 1, Y)."""
        return bias if bias.ndim == 1 else bias[:, None]
