"""The formula language of syntactic-generalization suites: ``[(6;%gap%) > (6;%no-gap%)] & …``.

A formula compares sums of region surprisals. Its parts, tightest first, all left-associative:

- ``(N;%condition%)``: the surprisal of region N in a condition; ``(*;%condition%)``: of all regions; numbers,
  which may have a sign (``-1``);
- ``+ -`` on numbers; ``< > =`` between numbers; ``& |`` between truth values;
- grouping by ``[ ]`` or ``( )``, which have to pair up.

Formulas over named strings (:mod:`pdtools.evaluation.benchmark`) have names instead of regions, and
``max(a, b, …)`` and ``min``.

``=`` means *close*: |a − b| ≤ 0.001 + 0.00001·|b|, as in syntaxgym-core. A formula is compiled to postfix
instructions and run on a small stack: nothing is ever handed to Python's ``eval``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pdtools.errors import PdtoolsError

_RELATIVE, _ABSOLUTE = 1e-5, 1e-3
_MAX_DEPTH = 100
_MAX_CHARS = 100_000
_MAX_DIGITS = 9
_SHOWN = 200

_TOKEN = re.compile(
    r"""(?P<region> \( \s* (?P<number> \d+ | \* ) \s* ; \s* % (?P<condition> [^%]+ ) % \s* \) )
      | (?P<value> \d+ (?: \. \d* )? (?: [eE] [+-]? \d+ )? | \. \d+ (?: [eE] [+-]? \d+ )? )
      | (?P<symbol> [-+<>=&|()\[\]] )
      | (?P<space> \s+ )""",
    re.VERBOSE,
)
_NAMED = re.compile(
    _TOKEN.pattern.replace("[-+<>=&|()", "[-+<>=&|(),") + r"| (?P<name> [^\W\d] \w* )", re.VERBOSE
)
_FUNCTIONS: dict[str, Callable[[float, float], float]] = {"max": max, "min": min}
_LEVELS = ("&|", "<>=", "+-")  # loosest first
_ARITHMETIC = {"+": 1.0, "-": -1.0}  # the factor of the second number
_COMPARISONS = "<>="
_CLOSES = {"(": ")", "[": "]"}

Region = tuple["int | None", str]
"""A reference: region number (None: all of them) and condition."""


class FormulaError(PdtoolsError):
    """A formula that cannot be parsed, with the column (from 1) of the fault."""

    def __init__(self, reason: str, formula: str, column: int) -> None:
        self.reason, self.formula, self.column = reason, formula, column
        shown = formula if len(formula) <= _SHOWN else formula[:_SHOWN] + "…"
        super().__init__(f"column {column}: {reason}, in the formula {shown!r}")


def is_close(a: float, b: float) -> bool:
    """Equality in formulas: numpy's ``isclose`` with rtol 1e-5 and atol 1e-3 (b is the reference)."""
    return a == b or abs(a - b) <= _ABSOLUTE + _RELATIVE * abs(b)


def _compare(comparison: str, a: float, b: float, error_bound: float) -> bool | None:
    """Return whether a comparison holds; None: the difference is within its error bound."""
    if comparison == "=" and not error_bound:
        return is_close(a, b)
    difference = 0.0 if a == b else b - a if comparison == ">" else a - b  # infinities may be equal
    if comparison == "=":
        difference = abs(difference) - _ABSOLUTE - _RELATIVE * abs(b)
    return None if abs(difference) <= error_bound != 0 else difference < 0


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula.

    Attributes:
        text: as it was written.
        regions: the references in it, in order, without repetition.
    """

    text: str
    regions: tuple[Region, ...]
    _program: tuple[float | Region | str, ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str, names: Collection[str] | None = None, *, number: bool = False) -> Formula:
        """Parse a formula.

        Args:
            names: names of strings, whose scores replace regions' surprisals: each is the region None of a
                condition of that name. None: formulas have regions.
            number: whether it is a number (:meth:`value`), not a truth value.

        Raises:
            FormulaError: with the column of the first fault.
        """
        program = _Parser(text, names).program(number=number)
        regions = dict.fromkeys(step for step in program if isinstance(step, tuple))
        return cls(text, tuple(regions), tuple(program))

    def truth(self, surprisal: Callable[[int | None, str], float], error_bound: float = 0.0) -> bool | None:
        """Return whether the formula is true; None if the comparisons leave it undecided (Kleene's logic).

        Args:
            surprisal: given a region number (None: the sum over all regions) and a condition.
            error_bound: on the difference of the two sides of each comparison.
        """
        return self._run(surprisal, error_bound)[1].pop()

    def value(self, surprisal: Callable[[int | None, str], float]) -> float:
        """The number that the formula evaluates to; ``surprisal`` as in :meth:`truth`."""
        return self._run(surprisal, 0.0)[0].pop()

    def margin(self, surprisal: Callable[[int | None, str], float]) -> float:
        """The amount by which the formula holds, negative where it does not.

        The margin of a > b is a − b, that of a = b is −|a − b|, that of a conjunction the least and that of a
        disjunction the greatest of its parts. A formula with ``=`` holds at small negative amounts too.

        Args:
            surprisal: as for :meth:`truth`; the margin has its unit.
        """
        return self._run(surprisal, 0.0)[2].pop()

    def _run(
        self, surprisal: Callable[[int | None, str], float], error_bound: float
    ) -> tuple[list[float], list[bool | None], list[float]]:
        """The stacks of numbers, of truth values and of their margins, after the last instruction."""
        numbers: list[float] = []
        truths: list[bool | None] = []
        margins: list[float] = []
        for step in self._program:
            if isinstance(step, float):
                numbers.append(step)
            elif isinstance(step, tuple):
                numbers.append(surprisal(*step))
            elif step in _ARITHMETIC:
                right, left = numbers.pop(), numbers.pop()
                numbers.append(left + _ARITHMETIC[step] * right)
            elif step in _FUNCTIONS:
                right, left = numbers.pop(), numbers.pop()
                numbers.append(_FUNCTIONS[step](left, right))
            elif step in _COMPARISONS:
                right, left = numbers.pop(), numbers.pop()
                truths.append(_compare(step, left, right, error_bound))
                above = 0.0 if left == right else left - right  # infinities may be equal
                margins.append(above if step == ">" else -above if step == "<" else -abs(above))
            else:
                both, ends = {truths.pop(), truths.pop()}, step == "|"
                truths.append(ends if ends in both else None if None in both else not ends)
                margins.append((max if ends else min)(margins.pop(), margins.pop()))
        return numbers, truths, margins


@dataclass(slots=True)
class _Lexeme:
    kind: str  # "region", "value", a symbol, or "end"
    column: int
    operand: float | Region | None = None


class _Parser:
    """Recursive descent; recursion only through brackets, whose depth is limited."""

    def __init__(self, text: str, names: Collection[str] | None = None) -> None:
        self.text = text
        self.names = names
        self.lexemes = list(self._lex())
        self.at = 0
        self.depth = 0
        self.steps: list[float | Region | str] = []

    def program(self, *, number: bool = False) -> list[float | Region | str]:
        is_truth = self._level(0)
        if self._next.kind != "end":
            raise self._error(f"unexpected {self._name(self._next)}", self._next)
        if is_truth == number:
            kinds = ("a comparison", "a number") if number else ("a number", "a comparison")
            raise self._error(f"{kinds[0]}, where {kinds[1]} is needed", self.lexemes[0])
        return self.steps

    def _lex(self) -> list[_Lexeme]:
        if len(self.text) > _MAX_CHARS:
            raise FormulaError(f"longer than {_MAX_CHARS:,} characters", self.text, _MAX_CHARS)
        lexemes, position = [], 0
        while position < len(self.text):
            match = (_TOKEN if self.names is None else _NAMED).match(self.text, position)
            if match is None:
                raise FormulaError(f"unexpected {self.text[position]!r}", self.text, position + 1)
            column = position + 1
            if self.names is not None and match["name"]:
                name = match["name"]
                if name not in self.names and name not in _FUNCTIONS:
                    known = ", ".join(self.names)
                    raise FormulaError(f"unknown name {name!r} (known: {known})", self.text, column)
                operand = (None, name) if name in self.names else None
                lexemes.append(_Lexeme(name if operand is None else "region", column, operand))
            elif match["region"]:
                if len(match["number"]) > _MAX_DIGITS:
                    raise FormulaError("a region number that is too large", self.text, column)
                number = None if match["number"] == "*" else int(match["number"])
                lexemes.append(_Lexeme("region", column, (number, match["condition"])))
            elif match["value"]:
                value = float(match["value"])
                if math.isinf(value):
                    raise FormulaError("a number that is too large", self.text, column)
                lexemes.append(_Lexeme("value", column, value))
            elif match["symbol"]:
                lexemes.append(_Lexeme(match["symbol"], column))
            position = match.end()
        return [*lexemes, _Lexeme("end", len(self.text) + 1)]

    @property
    def _next(self) -> _Lexeme:
        return self.lexemes[self.at]

    def _level(self, level: int) -> bool:
        """Parse operators of this level and tighter ones. Returns whether the result is a truth value."""
        if level == len(_LEVELS):
            return self._operand()
        start = self._next
        is_truth = self._level(level + 1)
        while self._next.kind in _LEVELS[level]:
            operator = self._next
            self.at += 1
            second_start = self._next
            wants_truth = level == 0
            self._expect(wants_truth, is_truth, operator, start)
            self._expect(wants_truth, self._level(level + 1), operator, second_start)
            self.steps.append(operator.kind)
            is_truth = operator.kind not in _ARITHMETIC
        return is_truth

    def _operand(self) -> bool:
        lexeme = self._next
        if lexeme.kind in _ARITHMETIC:
            number = self.lexemes[self.at + 1]
            if isinstance(number.operand, float) and number.column == lexeme.column + 1:
                self.at += 2
                self.steps.append(_ARITHMETIC[lexeme.kind] * number.operand)
                return False
        if lexeme.operand is not None:
            self.at += 1
            self.steps.append(lexeme.operand)
            return False
        if lexeme.kind in _FUNCTIONS:
            return self._function(lexeme)
        if lexeme.kind not in _CLOSES:
            raise self._error(
                f"{self._reference}, a number or a bracket is missing before {self._name(lexeme)}", lexeme
            )
        if self.depth == _MAX_DEPTH:
            raise self._error(f"brackets nested deeper than {_MAX_DEPTH}", lexeme)
        self.at += 1
        self.depth += 1
        is_truth = self._level(0)
        self.depth -= 1
        if self._next.kind != _CLOSES[lexeme.kind]:
            opened = f"the {lexeme.kind!r} of column {lexeme.column}"
            raise self._error(
                f"{_CLOSES[lexeme.kind]!r} expected for {opened}, not {self._name(self._next)}", self._next
            )
        self.at += 1
        return is_truth

    def _function(self, function: _Lexeme) -> bool:
        """Parse ``max(a, b, …)``: each number after the first is combined with the result before it."""
        self.at += 1
        self._take("(", function)
        self._number(function)
        while self._next.kind == ",":
            self.at += 1
            self._number(function)
            self.steps.append(function.kind)
        self._take(")", function)
        return False

    def _number(self, function: _Lexeme) -> None:
        start = self._next
        if self.depth == _MAX_DEPTH:
            raise self._error(f"brackets nested deeper than {_MAX_DEPTH}", start)
        self.depth += 1
        self._expect(False, self._level(1), function, start)
        self.depth -= 1

    def _take(self, symbol: str, function: _Lexeme) -> None:
        if self._next.kind != symbol:
            reason = f"{symbol!r} expected for {function.kind}, not {self._name(self._next)}"
            raise self._error(reason, self._next)
        self.at += 1

    def _expect(self, wanted: bool, found: bool, operator: _Lexeme, where: _Lexeme) -> None:
        if wanted != found:
            kinds = {True: "a comparison", False: "a number"}
            raise self._error(f"{operator.kind!r} needs {kinds[wanted]}, this is {kinds[found]}", where)

    @property
    def _reference(self) -> str:
        return "a region" if self.names is None else "a name"

    def _name(self, lexeme: _Lexeme) -> str:
        named = {"end": "the end", "region": self._reference, "value": "a number"}
        return named.get(lexeme.kind, repr(lexeme.kind))

    def _error(self, reason: str, lexeme: _Lexeme) -> FormulaError:
        return FormulaError(reason, self.text, lexeme.column)
