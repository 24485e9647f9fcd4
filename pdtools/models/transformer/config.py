"""The shape of a transformer language model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from pdtools.models.base import Layout, Objective, bad_config, check_at_least, check_fields
from pdtools.models.derivations import DerivationKind, StringKind
from pdtools.models.tokenwise import AttachmentKind

Positions = Literal["learned", "sincos", "relative", "rotary", "alibi", "none"]
Norm = Literal["pre", "post"]
Activation = Literal["gelu", "gelu-exact", "relu"]
Initialization = Literal["gpt2", "normal", "fan-in", "depth-scaled", "released"]
HeadForm = Literal["paper", "released"]
Normalize = Literal["allowed", "all", "open"]
Roots = Literal["default", "predicted", "given"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Shape of a transformer language model.

    Attributes:
        vocab_size, pad_id, root_id, eos_id: the tokenizer's.
        layers: number of layers.
        d_model: width of the states.
        heads: heads of attention.
        d_ff: width of feed-forward networks.
        positions: the kind of positions ("relative" is Transformer-XL's).
        max_length: number of "learned" positions.
        input_dropout: on embeddings.
        attention_dropout: on attention weights.
        output_dropout: on every sub-layer's output.
        feed_forward_dropout: on activations in feed-forward networks and a "released" head.
        tie_embeddings: the output layer is the token embedding.
        attachment_head: score attachments too.
        head_form: the attachment head's networks, as in the paper or its code.
        normalize: candidates that share an attachment's probability; others than "allowed" need the
            "released" head, and lose probability.
        final_id: for imported models: the token after end-of-sentence; -1: none.
        layout: rows of the training data.
        window_roots: ROOT after a sentence is "predicted" like any token, or "given" with probability 1.
            Default: given if an attachment ends the sentence.
        objective: tokens are predicted from those before, or from the whole row.
        norm: layer norms on a sub-layer's input, or on the sum of input and output ("post").
        norm_eps: added to variances by layer norms.
        activation: "gelu" is GPT-2's, approximated with tanh.
        position_biases: "relative" has the biases u and v.
        attention_bias: the maps to queries, keys, values and from the heads have biases.
        output_bias: the output layer has one.
        scale_embeddings: token embeddings are multiplied by the root of d_model.
        embedding_norm: a layer norm on the input.
        output_transform: a feed-forward layer with a norm before the output layer (RoBERTa).
        initialization: normal, deviation 0.02 ("normal"), less for maps that add to the residual stream
            ("gpt2"); truncated normal, 1 / sqrt(inputs), embeddings 0.02 ("fan-in"), or sqrt(2 / layers /
            inputs), embeddings uniform within sqrt(3 / d_model) ("depth-scaled"); Xavier's for token
            embeddings and feed-forward maps, else torch's ("released").
        sincos_timescale: the longest wavelength of "sincos" is nearly 2π times this.
        stack_layers: layers with stack attention: "none", "all", or "last N".
        treereg_layer: the layer, from 1, whose output TreeReg trains; 0: none.
        treereg_share: the share of that output, its first values, at least two.
        regression: predict a number for each row. Set by prompts that ask for numbers.
        as_released: stack attention does as the released code where that differs from the paper.
    """

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    layers: int = 6
    d_model: int = 256
    heads: int = 8
    d_ff: int = 1024
    positions: Positions = "relative"
    max_length: int = 1024
    input_dropout: float = 0.1
    attention_dropout: float = 0.1
    output_dropout: float = 0.1
    feed_forward_dropout: float = 0.0
    tie_embeddings: bool = True
    attachment_head: bool = False
    head_form: HeadForm = "paper"
    normalize: Normalize = "allowed"
    final_id: int = -1
    layout: Layout = "sentence"
    window_roots: Roots = "default"
    objective: Objective = "causal"
    norm: Norm = "pre"
    norm_eps: float = 1e-5
    activation: Activation = "gelu"
    position_biases: bool = True
    attention_bias: bool = True
    output_bias: bool = False
    scale_embeddings: bool = False
    embedding_norm: bool = False
    output_transform: bool = False
    initialization: Initialization = "gpt2"
    sincos_timescale: float = 256.0
    stack_layers: str = "none"
    treereg_layer: int = 0
    treereg_share: float = 0.25
    regression: bool = False
    as_released: bool = False

    relative_to: ClassVar[Literal["places", "depths"]] = "places"
    """The quantity that relative positions are differences of."""
    drops_positions: ClassVar[bool] = False
    """True: ``input_dropout`` is on the sinusoids of relative positions too."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "vocab_size", "layers", "d_model", "heads", "d_ff", "max_length")
        check_fields(self)
        for name in ("input_dropout", "attention_dropout", "output_dropout", "feed_forward_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise bad_config(f"{name} must be from 0 to below 1, not {getattr(self, name)}")
        if self.d_model % self.heads:
            raise bad_config(f"d_model ({self.d_model}) must be a multiple of heads ({self.heads})")
        if self.positions in ("relative", "sincos") and self.d_model % 2:
            raise bad_config(f"{self.positions} positions need an even d_model, not {self.d_model}")
        if self.positions == "rotary" and self.d_model // self.heads % 2:
            raise bad_config(
                f"rotary positions need an even d_model / heads, not {self.d_model // self.heads}"
            )
        for name in ("norm_eps", "sincos_timescale"):
            if not 0 < getattr(self, name) < math.inf:
                raise bad_config(f"{name} must be above 0, not {getattr(self, name)}")
        if self.attachment_head and (self.objective == "masked" or self.as_released):
            raise bad_config("an attachment head needs the causal objective, and no as_released")
        if self.normalize != "allowed" and self.head_form != "released" and self.attachment_head:
            raise bad_config(f'normalize {self.normalize!r} needs head_form "released"')
        if self.head_form == "released" and self.d_ff % self.d_model:
            raise bad_config(f"the released head needs d_ff to be a multiple of d_model ({self.d_model})")
        if (self.head_form == "released" or self.final_id >= 0) and self.layout == "window":
            raise bad_config("a released head, or a token after end-of-sentence, does not go with windows")
        if not -1 <= self.final_id < self.vocab_size or (self.final_id >= 0 and not self.attachment_head):
            raise bad_config("final_id must be a token, or -1, and needs an attachment head")
        if self.layout == "window" and (self.objective == "masked" or self.as_released):
            raise bad_config("windows need the causal objective, and no as_released")
        if self.window_roots == "predicted" and self.attachment_head:
            raise bad_config(
                'window_roots must not be "predicted" with an attachment head: there a sentence is ended by'
                " the attachment of its last token to ROOT"
            )
        if self.first_stack_layer < 0:
            raise bad_config(
                f'stack_layers must be "none", "all" or "last N", N from 1 to {self.layers}, '
                f"not {self.stack_layers!r}"
            )
        if not 0 <= self.treereg_layer <= self.layers:
            raise bad_config(f"treereg_layer must be from 0 (off) to {self.layers}, not {self.treereg_layer}")
        if not 0 < self.treereg_share <= 1 or (self.treereg_layer and self.treereg_width < 2):
            raise bad_config(
                "treereg_share must be above 0, at most 1, and two values of d_model or more,"
                f" not {self.treereg_share}"
            )
        if self.treereg_layer and (
            self.objective == "masked" or self.as_released or self.derivation_kind.conditions_tokens
        ):
            raise bad_config("treereg_layer is for causal models without tapes or actions, nor as_released")
        if self.regression and self.layout != "window":
            raise bad_config("regression is for models of windows, which prompts are")

    @property
    def n_inputs(self) -> int:
        """The number of symbols that can be read at a position: the tokens."""
        return self.vocab_size

    @property
    def derivation_kind(self) -> DerivationKind:
        """The kind of attachments if there is a head for them.

        They do not reach the tokens, but in windows they end sentences, and so decide the tokens that may
        follow.
        """
        return (
            AttachmentKind(conditions_tokens=self.layout == "window", open_only=self.normalize == "open")
            if self.attachment_head
            else StringKind()
        )

    @property
    def predicts_roots(self) -> bool:
        """Return whether, in windows, the ROOT after a sentence is predicted like other tokens."""
        default = not self.attachment_head
        return self.layout == "window" and (
            default if self.window_roots == "default" else self.window_roots == "predicted"
        )

    @property
    def treereg_width(self) -> int:
        """The number of values of each state that TreeReg uses."""
        return round(self.treereg_share * self.d_model)

    @property
    def first_stack_layer(self) -> int:
        """The first layer with stack attention, from 0 (all after it have it too); -1 for a bad setting."""
        return self.layers if self.stack_layers == "none" else first_of_layers(self.stack_layers, self.layers)


def first_of_layers(setting: str, layers: int) -> int:
    """The first layer, from 0, that "all" or "last N" means; -1 if the setting makes no sense."""
    if setting == "all":
        return 0
    last = re.fullmatch(r"last (\d+)", setting, re.ASCII)
    return layers - int(last[1]) if last and 1 <= int(last[1]) <= layers else -1
