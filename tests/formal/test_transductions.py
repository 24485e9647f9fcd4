"""The four tasks against evaluators that share nothing with them, and their distributions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_pairs import pairs_of

from pdtools.errors import PdtoolsError
from pdtools.formal.transductions import TASKS, Task, make_task

Strings = list[tuple[tuple[str, ...], tuple[str, ...]]]


def drawn(task: Task, length: int, number: int, seed: int = 0) -> Strings:
    return list(task.strings(task.draw(length, number, np.random.default_rng(seed))))


# --- evaluators -------------------------------------------------------------------------------


class Parser:
    """Recursive descent over one expression; what follows it is left."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.rest = list(symbols)

    def value(self) -> int:
        symbol = self.rest.pop(0)
        if symbol == "-":
            return -self.value() % 5
        if symbol != "(":
            return int(symbol)
        value = self.value()
        if self.rest[0] != ")":
            operator = self.rest.pop(0)
            right = self.value()
            value = {"+": value + right, "-": value - right, "*": value * right}[operator]
        assert self.rest.pop(0) == ")"
        return value % 5


def value(symbols: tuple[str, ...]) -> int:
    parser = Parser(symbols)
    found = parser.value()
    assert not parser.rest
    return found


def reverse_string(x: tuple[str, ...]) -> list[str]:
    return list(reversed(x))


def stack_manipulation(x: tuple[str, ...]) -> list[str]:
    stack: list[str] = []
    for symbol in x:
        if symbol == "POP":
            del stack[-1:]
        else:
            stack.append(symbol[-1])
    return [*stack[::-1], "END"]


def modular_arithmetic(x: tuple[str, ...]) -> list[str]:
    return [str(value(x))]


def solve_equation(x: tuple[str, ...]) -> list[str]:
    *left, equals, right = x
    assert equals == "="
    assert left.count("z") == 1
    solutions = [z for z in "01234" if value(tuple(z if s == "z" else s for s in left)) == int(right)]
    assert len(solutions) == 1
    return solutions


EVALUATORS = {
    "rs": reverse_string,
    "sm": stack_manipulation,
    "ma": modular_arithmetic,
    "se": solve_equation,
}


@pytest.mark.parametrize("name", TASKS)
@given(length=st.integers(1, 60), seed=st.integers(0, 2**32), as_released=st.booleans())
def test_y_is_exact(name: str, length: int, seed: int, as_released: bool) -> None:
    task = make_task(name, as_released=as_released)
    length = max(length, 3) if name == "se" else length
    for x, y in drawn(task, length, 5, seed):
        assert len(x) == length
        assert list(y) == EVALUATORS[name](x)
        answer = task.answer([task.symbols.index(symbol) for symbol in x])
        assert [task.symbols[number] for number in answer] == list(y)


@pytest.mark.parametrize("name", TASKS)
def test_padding(name: str) -> None:
    task = make_task(name)
    pairs = task.draw(9, 50, np.random.default_rng(1))
    is_padding = np.arange(pairs.y.shape[1]) >= pairs.counted[:, None]
    assert pairs.y.shape[1] == task.output_length(9)
    assert {task.symbols[symbol] for symbol in pairs.y[is_padding]} == ({"END"} if name == "sm" else set())


def test_as_released_the_stack_is_padded_with_a() -> None:
    paper, released = (
        make_task("sm", as_released=flag).draw(9, 200, np.random.default_rng(1)) for flag in (False, True)
    )
    assert (paper.x == released.x).all()
    assert (paper.counted == released.counted).all()
    is_padding = np.arange(10) >= paper.counted[:, None]
    assert (released.y == np.where(is_padding, 0, paper.y)).all()
    assert is_padding.any()


# --- distributions ----------------------------------------------------------------------------


def assert_uniform(counts: Counter[object], options: int, *, sigmas: float = 5) -> None:
    number = sum(counts.values())
    share = 1 / options
    assert len(counts) == options
    tolerance = sigmas * (number * share * (1 - share)) ** 0.5
    assert all(abs(count - number * share) < tolerance for count in counts.values()), counts


def test_reversed_strings_are_uniform() -> None:
    assert_uniform(Counter(x for x, _ in drawn(make_task("rs"), 4, 8000)), 16)


def test_training_lengths_are_uniform() -> None:
    task = make_task("rs")
    counts = Counter(
        task.training_pairs(range(1, 41), 1, seed=7, batch=batch).x.shape[1] for batch in range(8000)
    )
    assert set(counts) == set(range(1, 41))
    assert_uniform(Counter(counts), 40)


def test_the_first_stack_is_uniform() -> None:
    task = make_task("sm")
    firsts, operations, symbols = Counter(), Counter(), Counter()
    for x, _ in drawn(task, 6, 20000):
        first = sum(symbol in "ab" for symbol in x)
        assert all(symbol in "ab" for symbol in x[:first])
        firsts[first] += 1
        symbols[x[0]] += 1
        operations[x[5]] += 1
    assert_uniform(firsts, 5)
    assert_uniform(symbols, 2)
    assert_uniform(operations, 3)
    assert {x for x, _ in drawn(task, 1, 50)} == {("a",), ("b",)}
    assert {x[1] for x, _ in drawn(task, 2, 50)} == {"POP", "PUSH-a", "PUSH-b"}


def test_short_expressions() -> None:
    task = make_task("ma")
    digits = "01234"
    assert {"".join(x) for x, _ in drawn(task, 1, 200)} == set(digits)
    assert {"".join(x) for x, _ in drawn(task, 2, 200)} == {f"-{d}" for d in digits}
    assert {"".join(x) for x, _ in drawn(task, 3, 200)} == {f"({d})" for d in digits}
    assert {"".join(x) for x, _ in drawn(task, 4, 200)} == {f"(-{d})" for d in digits}
    five = Counter("".join(x) for x, _ in drawn(task, 5, 30000))
    assert_uniform(Counter(five), 75)  # (d o d)


def outermost(x: tuple[str, ...]) -> tuple[int, str]:
    """The length of the left part of (L o R), and the operator."""
    parser = Parser(x[1:])
    parser.value()
    return len(x) - 1 - len(parser.rest), parser.rest[0]


@pytest.mark.parametrize(("name", "operators"), [("ma", "+-*"), ("se", "+-")])
def test_left_parts_and_operators_are_uniform(name: str, operators: str) -> None:
    lengths, found = Counter(), Counter()
    for x, _ in drawn(make_task(name), 12 if name == "ma" else 14, 12000):
        left, operator = outermost(tuple("0" if s == "z" else s for s in x))
        lengths[left] += 1
        found[operator] += 1
    assert set(lengths) == set(range(1, 9))  # n - 4 = 8
    assert_uniform(lengths, 8)
    assert_uniform(found, len(operators))


def unknowns(as_released: bool) -> Counter[str]:
    """Equations of two digits beside each other's brackets: which of the two is z."""
    found: Counter[str] = Counter()
    for x, _ in drawn(make_task("se", as_released=as_released), 8, 12000):
        text = "".join("d" if s.isdigit() else s for s in x[:6])
        found[text.replace("+", "o")] += 1
    return found


def test_every_digit_is_as_likely_to_be_unknown() -> None:
    fair = unknowns(as_released=False)
    assert abs(fair["(zo-d)"] / fair["(do-z)"] - 1) < 0.1
    # As released, z is the first digit from a uniform position on: of "(d+-d)" positions 0 and 1 lead to the
    # first digit, and so does position 5, from the end on to the beginning; 2, 3 and 4 lead to the second.
    released = unknowns(as_released=True)
    assert abs(released["(zo-d)"] / released["(do-z)"] - 1) < 0.1
    # Of "(-d+d)": 0, 1, 2 and 5 lead to the first, 3 and 4 to the second.
    assert abs(fair["(-zod)"] / fair["(-doz)"] - 1) < 0.1
    assert abs(released["(-zod)"] / released["(-doz)"] - 2) < 0.2


def test_the_shortest_equations() -> None:
    assert {"".join(x) for x, _ in drawn(make_task("se"), 3, 200)} == {f"z={d}" for d in "01234"}
    with pytest.raises(PdtoolsError, match="se: x has at least 3 symbols, not 2"):
        make_task("se").draw(2, 1, np.random.default_rng(0))
    assert drawn(make_task("se", as_released=True), 2, 2) == [(("0", "0"), ("0",))] * 2


# --- seeds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_seeds(name: str) -> None:
    task = make_task(name)

    def test_strings(number: int, seed: int) -> Strings:
        return list(task.strings(pairs_of(task, 30, number, seed=seed)))

    assert test_strings(200, 1)[:130] == test_strings(130, 1)
    assert test_strings(10, 1) != test_strings(10, 2)
    first, again, other = (task.training_pairs(range(5, 9), 4, seed=1, batch=batch) for batch in (3, 3, 4))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert first.x.shape != other.x.shape or (first.x != other.x).any()


def test_names() -> None:
    assert make_task("RS").name == "rs"
    with pytest.raises(PdtoolsError, match=r"unknown task 'xy' \(known: rs \(reverse string\), sm"):
        make_task("xy")
