"""The shapes of models that write the tree into the string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pdtools.models.base import bad_config, check_at_least
from pdtools.models.derivations import DerivationKind
from pdtools.models.grammar.derivations import ActionKind
from pdtools.models.grammar.transition_derivations import TransitionKind
from pdtools.models.transformer.config import Positions, TransformerConfig
from pdtools.trees.actions import ActionIds
from pdtools.trees.arc_standard import ArcIds

Normalize = Literal["allowed", "all"]


@dataclass(frozen=True, kw_only=True)
class ActionModelConfig(TransformerConfig):
    """Shape of an action model; subclasses define the actions."""

    drops_positions: ClassVar[bool] = True  # as in Sartran et al. (2022)
    takes_positions: ClassVar[tuple[Positions, ...]] = ("relative",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "max_open")
        if self.objective != "causal" or self.attachment_head or self.as_released:
            raise bad_config("an action model is causal, without attachment_head and as_released")
        if self.layout == "window":
            raise bad_config("action models read sentences: layout window is for others")
        if self.stack_layers != "none":
            raise bad_config("an action model has no stack_layers")
        if self.positions not in self.takes_positions:
            raise bad_config(
                f"positions must be one of {', '.join(self.takes_positions)}, not {self.positions!r}"
            )

    @property
    def actions(self) -> ActionIds:
        """Numbers of the model's actions."""
        raise NotImplementedError

    @property
    def n_inputs(self) -> int:
        """See :attr:`TransformerConfig.n_inputs`: every action."""
        return self.actions.number


@dataclass(frozen=True, kw_only=True)
class PlmConfig(ActionModelConfig):
    """Shape of a PLM (Qian et al. 2021): an action model, one closer for all labels.

    Attributes:
        n_labels: number of constituents' labels: the tokenizer's.
        max_open: most constituents open at once.
        normalize: the actions that share probability; with "all", as released, some is lost.
    """

    n_labels: int
    max_open: int = 50
    normalize: Normalize = "allowed"

    takes_positions: ClassVar[tuple[Positions, ...]] = ("learned", "relative", "alibi", "none")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "n_labels")

    @property
    def actions(self) -> ActionIds:
        """Numbers of the model's actions."""
        return ActionIds(self.vocab_size, self.n_labels, typed=False, doubled=False)

    @property
    def derivation_kind(self) -> DerivationKind:
        """Actions, on which tokens depend."""
        return ActionKind(conditions_tokens=True)


@dataclass(frozen=True, kw_only=True)
class PlmMaskConfig(PlmConfig):
    """Shape of a PLM-mask (Qian et al. 2021).

    In each layer, one of two heads sees the innermost open constituent, the other everything before it.
    """

    takes_positions: ClassVar[tuple[Positions, ...]] = ("learned", "none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 2:
            raise bad_config(f"two heads look at constituents: heads must be at least 2, not {self.heads}")


@dataclass(frozen=True, kw_only=True)
class TransformerGrammarConfig(PlmConfig):
    """Shape of a Transformer Grammar (Sartran et al. 2022).

    Positions see the stack, and relative positions are differences of depth.
    """

    relative_to: ClassVar[Literal["places", "depths"]] = "depths"
    takes_positions: ClassVar[tuple[Positions, ...]] = ("relative",)

    @property
    def actions(self) -> ActionIds:
        """See :attr:`PlmConfig.actions`."""
        return ActionIds(self.vocab_size, self.n_labels, typed=True, doubled=True)


@dataclass(frozen=True, kw_only=True)
class DependencyGrammarConfig(ActionModelConfig):
    """Shape of a Dependency Transformer Grammar (Zhao et al. 2024).

    Positions of its arc-standard actions see the stack, and relative positions count its items.

    Attributes:
        max_open: most words on the stack at once.
        lift: lift crossing arcs of the data to the head's head; else such sentences are unfit.
    """

    max_open: int = 100
    lift: bool = False

    relative_to: ClassVar[Literal["places", "depths"]] = "depths"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalize != "allowed":
            raise bad_config(
                f"a dependency grammar normalises over allowed actions, not with normalize {self.normalize!r}"
            )

    @property
    def actions(self) -> ArcIds:
        """See :attr:`ActionModelConfig.actions`."""
        return ArcIds(self.vocab_size)

    @property
    def derivation_kind(self) -> TransitionKind:
        """Arc-standard actions, on which tokens depend."""
        return TransitionKind(conditions_tokens=True, lift=self.lift)
