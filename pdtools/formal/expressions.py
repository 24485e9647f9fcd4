"""Random arithmetic expressions in brackets, of a given length, for many strings at once.

Length 1 to 4: d, -d, (d), (-d), d a uniform digit. Longer: (L o R) with the length of L uniform over
the values that leave R at least one symbol, and a uniform operator o. Values are modulo :data:`MODULUS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

MODULUS = 5
_LONGEST_TERMINAL = 4
# Positions of the digit, the minus sign and the brackets of a terminal, by its length; -1: none.
_DIGIT = np.array([-1, 0, 1, 1, 2])
_MINUS = np.array([-1, -1, 0, -1, 1])


@dataclass(frozen=True, kw_only=True)
class ExpressionSymbols:
    """Symbols of expressions by number; digits are 0 to 4.

    Attributes:
        operators: the operators: the first adds, the second subtracts, the third multiplies.
        opening, closing: brackets. (A digit's sign is the operator that subtracts.)
    """

    operators: tuple[int, ...]
    opening: int
    closing: int


def draw_expressions(
    symbols: ExpressionSymbols, length: int, number: int, rng: np.random.Generator
) -> tuple[Int64, Int64]:
    """Draw expressions, all of one length.

    All of them grow together, one level of brackets after the other.

    Args:
        symbols: the symbols to write them with.
        length: n, at least 1.
        number: B.
        rng: the random generator.

    Returns:
        int64 (B, n), symbols; int64 (B,), values from 0 to 4.
    """
    text = np.empty((number, length), dtype=np.int64)
    # The expressions of a level: the string, beginning and length of each.
    row, start = np.arange(number), np.zeros(number, dtype=np.int64)
    size = np.full(number, length, dtype=np.int64)
    levels: list[tuple[NDArray[np.bool_], Int64, Int64]] = []
    while len(row):
        terminal = size <= _LONGEST_TERMINAL  # (S,)
        values = _write_terminals(text, row[terminal], start[terminal], size[terminal], symbols, rng)
        row, start, size = row[~terminal], start[~terminal], size[~terminal]
        left = rng.integers(1, size - 3)  # (S',)
        operator = rng.integers(len(symbols.operators), size=len(row))
        text[row, start] = symbols.opening
        text[row, start + 1 + left] = np.array(symbols.operators)[operator]
        text[row, start + size - 1] = symbols.closing
        levels.append((terminal, values, operator))
        # Left parts first, then right parts.
        row = np.concatenate([row, row])
        start = np.concatenate([start + 1, start + 2 + left])
        size = np.concatenate([left, size - 3 - left])
    return text, _evaluate(levels)


def expression_value(symbols: ExpressionSymbols, text: Sequence[int]) -> int:
    """The value of one expression, from 0 to 4, evaluated from left to right, independently of its drawing.

    Args:
        symbols: the symbols it is written with; other numbers than these and the digits are errors.
        text: tokens of any length, with brackets of any depth.

    Raises:
        ValueError: if it is no expression.
    """
    minus = symbols.operators[1]
    read: list[int | _Value] = []
    for symbol in text:
        if 0 <= symbol < MODULUS:
            is_signed = read[-1:] == [minus] and (len(read) == 1 or not isinstance(read[-2], _Value))
            if is_signed:
                read.pop()
            read.append(_Value(-symbol if is_signed else symbol, is_digit=True))
        elif symbol == symbols.closing:
            begin = next((i for i in reversed(range(len(read))) if read[i] == symbols.opening), None)
            if begin is None:
                raise ValueError("a bracket is not opened")
            read[begin:] = [_bracketed(symbols, read[begin + 1 :])]
        elif symbol == symbols.opening or symbol in symbols.operators:
            read.append(symbol)
        else:
            raise ValueError("what no expression has is in it")
    if len(read) != 1 or not isinstance(read[0], _Value):
        raise ValueError("it is no digit, nor two parts and an operator in brackets")
    return read[0].value % MODULUS


@dataclass(frozen=True)
class _Value:
    """A part of an expression that has been read; ``is_digit``: with or without a sign, but no brackets."""

    value: int
    is_digit: bool


def _bracketed(symbols: ExpressionSymbols, parts: Sequence[int | _Value]) -> _Value:
    """The value of the content of brackets."""
    match parts:
        case [_Value(is_digit=True) as digit]:
            return _Value(digit.value, is_digit=False)
        case [_Value() as left, int(operator), _Value() as right] if operator in symbols.operators:
            results = (left.value + right.value, left.value - right.value, left.value * right.value)
            return _Value(results[symbols.operators.index(operator)] % MODULUS, is_digit=False)
    raise ValueError("brackets hold neither a digit nor two parts and an operator")


def _write_terminals(
    text: Int64, row: Int64, start: Int64, size: Int64, symbols: ExpressionSymbols, rng: np.random.Generator
) -> Int64:
    """Write expressions of length 1 to 4 in place; returns their values."""
    digits = rng.integers(MODULUS, size=len(row))
    text[row, start + _DIGIT[size]] = digits
    signed = _MINUS[size] >= 0
    text[row[signed], (start + _MINUS[size])[signed]] = symbols.operators[1]
    bracketed = size >= 3
    text[row[bracketed], start[bracketed]] = symbols.opening
    text[row[bracketed], (start + size - 1)[bracketed]] = symbols.closing
    return np.where(signed, -digits, digits) % MODULUS


def _evaluate(levels: list[tuple[NDArray[np.bool_], Int64, Int64]]) -> Int64:
    """Values of the first level's expressions, from the innermost ones outwards."""
    inner = np.zeros(0, dtype=np.int64)
    for terminal, values, operator in reversed(levels):
        left, right = inner[: len(operator)], inner[len(operator) :]
        inner = np.empty(len(terminal), dtype=np.int64)
        inner[terminal] = values
        inner[~terminal] = np.choose(operator, [left + right, left - right, left * right]) % MODULUS
    return inner
