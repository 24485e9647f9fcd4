"""Differentiable stacks: a module a kind, one interface, no weights of their own."""

from pdtools.models.stacks.base import Stack, StackCarry, StackRun
from pdtools.models.stacks.nondeterministic import NondeterministicStack
from pdtools.models.stacks.stratification import StratificationStack
from pdtools.models.stacks.superposition import SuperpositionStack

__all__ = [
    "NondeterministicStack",
    "Stack",
    "StackCarry",
    "StackRun",
    "StratificationStack",
    "SuperpositionStack",
]
