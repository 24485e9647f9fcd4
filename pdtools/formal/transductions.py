"""Four deterministic context-free tasks: given a string x, a string y has to follow.

They are Delétang et al.'s (2023), as Li et al. (2024, "A Transformer with Stack Attention", section 4) use
them. ``as_released`` follows the released code where that differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.formal.expressions import MODULUS, ExpressionSymbols, draw_expressions, expression_value

Int64 = NDArray[np.int64]

# Number of strings drawn together for test files. Changing it changes the strings of a seed.
_DRAWN_TOGETHER = 128
# Last words of seeds, so that training strings are never test strings of the same seed.
_TRAINING, _TEST = 1, 2
_DIGITS = tuple(str(digit) for digit in range(MODULUS))


@dataclass(frozen=True, slots=True, eq=False)
class StringPairs:
    """Strings x of one length, with their answers y.

    Attributes:
        x: int64 (B, n), numbers of the task's symbols.
        y: int64 (B, m), the same, padded with :attr:`Task.padding`.
        counted: int64 (B,), number of symbols of y that count in the accuracy: those before the padding.
    """

    x: Int64
    y: Int64
    counted: Int64

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: slice) -> StringPairs:
        """Select pairs by index."""
        return StringPairs(self.x[rows], self.y[rows], self.counted[rows])


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A task: exact y for random x.

    Attributes:
        as_released: strings as in the authors' code, where they differ from the paper's.
    """

    as_released: bool = False

    name: ClassVar[str]
    title: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]]
    """All symbols of x and y; the symbols of x come first, in the order of the released code."""
    outputs: ClassVar[tuple[str, ...]]
    """Symbols of y."""

    @property
    def padding(self) -> int:
        """The symbol that follows the answer until y has m symbols."""
        return 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the strings, JSON-ready."""
        return {"task": self.name, **asdict(self)}

    @property
    def shortest(self) -> int:
        """The length of the shortest x."""
        return 1

    @abstractmethod
    def output_length(self, length: int) -> int:
        """The length m of y with its padding, for an x of n symbols."""

    def draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        """Independent pairs with an x of ``length`` symbols.

        Raises:
            PdtoolsError: if there are no strings so short.
        """
        self.check_length(length)
        return self._draw(length, number, rng)

    @abstractmethod
    def _draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        """See :meth:`draw`."""

    @abstractmethod
    def answer(self, x: Sequence[int]) -> list[int]:
        """The y of one x, without padding, computed independently of :meth:`draw`.

        Raises:
            ValueError: if x is no string of the task.
        """

    def check_length(self, length: int) -> None:
        """Refuse lengths that no x has.

        Raises:
            PdtoolsError: if the length is below the shortest.
        """
        if length < self.shortest:
            some = "1 symbol" if self.shortest == 1 else f"{self.shortest} symbols"
            raise PdtoolsError(f"{self.name}: x has at least {some}, not {length}")

    def training_pairs(self, lengths: range, number: int, *, seed: int, batch: int) -> StringPairs:
        """A batch for training, of one length, uniform over ``lengths``; depends on the arguments alone."""
        rng = np.random.default_rng([seed, batch, _TRAINING])
        return self.draw(int(rng.integers(lengths.start, lengths.stop)), number, rng)

    def test_blocks(self, length: int, number: int, *, seed: int) -> Iterator[StringPairs]:
        """A seed's test pairs, in blocks; a larger number extends a smaller one's."""
        for block, first in enumerate(range(0, number, _DRAWN_TOGETHER)):
            rng = np.random.default_rng([seed, length, block, _TEST])
            yield self.draw(length, _DRAWN_TOGETHER, rng).take(slice(number - first))

    def strings(self, pairs: StringPairs) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Pairs as symbols, y without its padding."""
        for x, y, counted in zip(pairs.x.tolist(), pairs.y.tolist(), pairs.counted.tolist(), strict=True):
            yield self._spell(x), self._spell(y[:counted])

    def _spell(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.symbols[number] for number in numbers)


@dataclass(frozen=True, kw_only=True)
class ReverseString(Task):
    """Task rs: x is uniform over {a, b}ⁿ; y is x reversed."""

    name: ClassVar[str] = "rs"
    title: ClassVar[str] = "reverse string"
    symbols: ClassVar[tuple[str, ...]] = ("a", "b")
    outputs: ClassVar[tuple[str, ...]] = ("a", "b")

    def output_length(self, length: int) -> int:
        """Return n."""
        return length

    def answer(self, x: Sequence[int]) -> list[int]:
        """See :meth:`Task.answer`."""
        return list(reversed(x))

    def _draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        x = rng.integers(2, size=(number, length))
        return StringPairs(x, np.ascontiguousarray(x[:, ::-1]), np.full(number, length))


@dataclass(frozen=True, kw_only=True)
class StackManipulation(Task):
    """Task sm: x is a stack, bottom first, and operations; y is the resulting stack, top first, and ``END``s.

    The first stack is uniform over {a, b}ˢ, s uniform from 1 to n − 1 (1 if n is 1); the n − s operations are
    uniform over POP, PUSH-a and PUSH-b; POP leaves an empty stack as it is. ``END`` is the paper's [PAD]: it
    fills y to n + 1 symbols, and the first one is counted in the accuracy. As released, ``a`` follows that.
    """

    name: ClassVar[str] = "sm"
    title: ClassVar[str] = "stack manipulation"
    symbols: ClassVar[tuple[str, ...]] = ("a", "b", "POP", "PUSH-a", "PUSH-b", "END")
    outputs: ClassVar[tuple[str, ...]] = ("a", "b", "END")

    @property
    def padding(self) -> int:
        """See :attr:`Task.padding`."""
        return self.symbols.index("a" if self.as_released else "END")

    def output_length(self, length: int) -> int:
        """Return n + 1."""
        return length + 1

    def answer(self, x: Sequence[int]) -> list[int]:
        """See :meth:`Task.answer`."""
        pop, push, end = self.symbols.index("POP"), self.symbols.index("PUSH-a"), self.symbols.index("END")
        first = next((i for i, symbol in enumerate(x) if symbol >= pop), len(x))
        if first == 0 or not all(pop <= symbol < end for symbol in x[first:]):
            raise ValueError("it is no stack with operations behind it")
        stack = list(x[:first])
        for symbol in x[first:]:
            if symbol == pop:
                del stack[-1:]
            else:
                stack.append(symbol - push)
        return [*reversed(stack), end]

    def _draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        pop, push, end = self.symbols.index("POP"), self.symbols.index("PUSH-a"), self.symbols.index("END")
        first = rng.integers(1, max(length, 2), size=number)  # (B,) symbols of the first stack
        is_operation = np.arange(length) >= first[:, None]  # (B, n)
        x = np.where(
            is_operation,
            rng.integers(pop, end, size=(number, length)),
            rng.integers(2, size=(number, length)),
        )
        rows = np.arange(number)
        stack = np.zeros((number, length + 1), dtype=np.int64)
        height = np.zeros(number, dtype=np.int64)
        for symbol in x.T:  # (B,)
            popped = symbol == pop
            stack[rows, height] = np.where(
                symbol >= push, symbol - push, symbol
            )  # above the top where popped
            height = np.where(popped, np.maximum(height - 1, 0), height + 1)
        position = np.arange(length + 1)
        from_top = height[:, None] - 1 - position  # (B, n + 1)
        y = np.where(from_top >= 0, stack[rows[:, None], np.maximum(from_top, 0)], self.padding)
        y[rows, height] = end
        return StringPairs(x, y, height + 1)


_MA_SYMBOLS = (*_DIGITS, "+", "-", "*", "(", ")")
_SE_SYMBOLS = (*_DIGITS, "+", "-", "(", ")", "z", "=")


def _expression_symbols(symbols: tuple[str, ...], operators: str) -> ExpressionSymbols:
    return ExpressionSymbols(
        operators=tuple(symbols.index(operator) for operator in operators),
        opening=symbols.index("("),
        closing=symbols.index(")"),
    )


@dataclass(frozen=True, kw_only=True)
class ModularArithmetic(Task):
    """Task ma: x is an expression with +, -, * (:mod:`pdtools.formal.expressions`); y is its value mod 5."""

    name: ClassVar[str] = "ma"
    title: ClassVar[str] = "modular arithmetic"
    symbols: ClassVar[tuple[str, ...]] = _MA_SYMBOLS
    outputs: ClassVar[tuple[str, ...]] = _DIGITS
    expressions: ClassVar[ExpressionSymbols] = _expression_symbols(_MA_SYMBOLS, "+-*")

    def output_length(self, length: int) -> int:
        """Return 1."""
        return 1

    def answer(self, x: Sequence[int]) -> list[int]:
        """See :meth:`Task.answer`."""
        return [expression_value(self.expressions, x)]

    def _draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        x, values = draw_expressions(self.expressions, length, number, rng)
        return StringPairs(x, values[:, None], np.ones(number, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class SolveEquation(Task):
    """Task se: x is an equation, one of whose digits is z: ``(1+(-z))=3``; y is that digit.

    Every digit is equally likely to be z. As released: the first digit from a uniform position on
    (wrapping around at the end), so that digits after other symbols are likelier; and x of length 1
    and 2 is of zeros, and so is its y.
    """

    name: ClassVar[str] = "se"
    title: ClassVar[str] = "solve equation"
    symbols: ClassVar[tuple[str, ...]] = _SE_SYMBOLS
    outputs: ClassVar[tuple[str, ...]] = _DIGITS
    expressions: ClassVar[ExpressionSymbols] = _expression_symbols(_SE_SYMBOLS, "+-")

    @property
    def shortest(self) -> int:
        """Return 3, for ``z=d``."""
        return 1 if self.as_released else 3

    def output_length(self, length: int) -> int:
        """Return 1."""
        return 1

    def answer(self, x: Sequence[int]) -> list[int]:
        """See :meth:`Task.answer`."""
        if self.as_released and len(x) < 3:
            if any(x):
                raise ValueError("it is not of zeros")
            return [0]
        unknown, equals = self.symbols.index("z"), self.symbols.index("=")
        *left, sign, value = x
        if left.count(unknown) != 1 or sign != equals or value >= MODULUS:
            raise ValueError("it is no expression with one z, then = and a digit")
        z = left.index(unknown)
        for digit in range(MODULUS):
            left[z] = digit
            if expression_value(self.expressions, left) == value:
                return [digit]
        raise AssertionError("z is added or subtracted once")

    def _draw(self, length: int, number: int, rng: np.random.Generator) -> StringPairs:
        counted = np.ones(number, dtype=np.int64)
        if length < 3:
            return StringPairs(np.zeros((number, length), np.int64), np.zeros((number, 1), np.int64), counted)
        left, values = draw_expressions(self.expressions, length - 2, number, rng)  # (B, n - 2)
        if self.as_released:
            begin = rng.integers(length - 2, size=(number, 1))
            rank = ((np.arange(length - 2) - begin) % (length - 2)).astype(np.float64)
        else:
            rank = rng.random(left.shape)
        rank[left >= MODULUS] = np.inf  # no digit
        unknown = rank.argmin(1)  # (B,)
        rows = np.arange(number)
        y = left[rows, unknown]
        left[rows, unknown] = self.symbols.index("z")
        equals = np.full(number, self.symbols.index("="))
        return StringPairs(np.column_stack([left, equals, values]), y[:, None], counted)


TASKS: dict[str, type[Task]] = {
    task.name: task for task in (ReverseString, StackManipulation, ModularArithmetic, SolveEquation)
}


def make_task(name: str, *, as_released: bool = False) -> Task:
    """A task by its name, in small or capital letters.

    Raises:
        PdtoolsError: if there is no task of that name.
    """
    if name.lower() not in TASKS:
        known = ", ".join(f"{key} ({task.title})" for key, task in TASKS.items())
        raise PdtoolsError(f"unknown task {name!r} (known: {known})")
    return TASKS[name.lower()](as_released=as_released)
