"""Differentiable stacks: one module for each kind, one interface, no weights of their own."""

from pdtools.models.recurrent.stacks.base import Stack, StackCarry, StackRun
from pdtools.models.recurrent.stacks.nondeterministic import NondeterministicStack
from pdtools.models.recurrent.stacks.stratification import StratificationStack
from pdtools.models.recurrent.stacks.superposition import SuperpositionStack
