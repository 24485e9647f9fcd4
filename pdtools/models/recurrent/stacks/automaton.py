"""A pushdown automaton with weighted transitions: its sizes, and its weights from a controller's actions."""

from __future__ import annotations

from torch import Tensor


class Automaton:
    """A pushdown automaton whose transitions the controller weights (DuSell and Chiang 2022).

    The actions of a configuration c are weights of S · Q pushes (of symbol y, to state r, at y · Q + r), of
    S · Q replacements, and of Q pops.

    Args:
        states: Q.
        symbols: S, the bottom one included.
        unnormalized: the weights are exponentials of the controller's outputs (section 3.1); else their
            softmax for each configuration (eq. 1).
        states_in_reading: the reading is a distribution over configurations (section 3.2); else over the
            symbols on top (eq. 5).
        window: D, the farthest that a symbol is remembered after it was pushed (section 5.1); 0 for no limit.
    """

    def __init__(
        self, states: int, symbols: int, *, unnormalized: bool, states_in_reading: bool, window: int
    ) -> None:
        self.states = states
        self.symbols = symbols
        self.unnormalized = unnormalized
        self.states_in_reading = states_in_reading
        self.window = window
        self.configurations = states * symbols
        self.action_size = self.configurations * (2 * self.configurations + states)
        self.reading_size = self.configurations if states_in_reading else symbols

    def log_weights(self, actions: Tensor) -> Tensor:
        """Logarithms of the transitions' weights: (B, action_size) to (B, S·Q, 2·S·Q + Q), float64.

        They are normalised by eq. 1 (NS), or as they are by section 3.1 (RNS).
        """
        logits = actions.unflatten(1, (self.configurations, -1)).double()
        return logits if self.unnormalized else logits.log_softmax(2)

    def d_actions(self, log_weights: Tensor, weighted: Tensor) -> Tensor:
        """The gradient of the actions, (B, action_size), from the gradient of the weights' logarithms."""
        if not self.unnormalized:
            weighted = weighted - log_weights.exp() * weighted.sum(2, keepdim=True)
        return weighted.flatten(1)

    def read(self, alpha: Tensor) -> Tensor:
        """The reading, from α whose sum is 1: (B, S · Q), float64; eq. 5, with states section 3.2."""
        return alpha if self.states_in_reading else alpha.unflatten(1, (self.symbols, self.states)).sum(2)

    def d_alpha(self, d_reading: Tensor, alpha: Tensor) -> Tensor:
        """The product α ⊙ dα of a normalised α, from its reading's gradient: (B, S · Q)."""
        d = d_reading.double()
        if not self.states_in_reading:
            d = d.repeat_interleave(self.states, 1)
        return alpha * (d - (alpha * d).sum(1, keepdim=True))
