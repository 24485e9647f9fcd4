"""The formula parser, against a brute-force evaluator on random expressions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.evaluation.sg.formula import Formula, FormulaError, is_close

REGIONS = {
    (n, c): float(n * 3 + len(c)) / 2 for n in (1, 2, 3, None) for c in ("gap", "no-gap", "x_Y") if n
} | {(None, c): 20.0 + len(c) for c in ("gap", "no-gap", "x_Y")}


def lookup(number: int | None, condition: str) -> float:
    return REGIONS[number, condition]


# An expression is drawn together with its value, so that the value owes nothing to the parser. Every
# operator's operands are in brackets of some kind, or are of a tighter level.
Drawn = tuple[str, float]
spaces = st.sampled_from(["", " ", "  "])


@st.composite
def bracketed(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    text, value = draw(inner)
    left, right = draw(st.sampled_from(["[]", "()"]))
    return f"{left}{draw(spaces)}{text}{draw(spaces)}{right}", value


atoms = st.one_of(
    st.sampled_from(sorted(REGIONS, key=str)).map(
        lambda key: (f"({'*' if key[0] is None else key[0]};%{key[1]}%)", REGIONS[key])
    ),
    st.sampled_from(["0", "2", "1.5", ".25", "1e1", "-1", "+2", "-.5", "-1e1"]).map(
        lambda text: (text, float(text))
    ),
)


def chain(operands: st.SearchStrategy[Drawn], operators: dict[str, object]) -> st.SearchStrategy[Drawn]:
    """Two or more operands, folded from the left."""

    @st.composite
    def build(draw: st.DrawFn) -> Drawn:
        text, value = draw(operands)
        for _ in range(draw(st.integers(1, 3))):
            symbol = draw(st.sampled_from(sorted(operators)))
            other, right = draw(operands)
            text = f"{text}{draw(spaces)}{symbol}{draw(spaces)}{other}"
            value = operators[symbol](value, right)  # type: ignore[operator]
        return text, value

    return build()


ARITHMETIC = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}
# A truth value, and the margin of what has it.
LOGIC = {
    "&": lambda a, b: (a[0] and b[0], min(a[1], b[1])),
    "|": lambda a, b: (a[0] or b[0], max(a[1], b[1])),
}
numbers = st.recursive(
    atoms, lambda inner: st.one_of(inner, bracketed(chain(inner, ARITHMETIC)), bracketed(inner))
)
sums = st.one_of(numbers, chain(numbers, ARITHMETIC))


@st.composite
def comparisons(draw: st.DrawFn) -> Drawn:
    (left, a), (right, b) = draw(sums), draw(sums)
    symbol = draw(st.sampled_from("<>="))
    value = {"<": a < b, ">": a > b, "=": abs(a - b) <= 1e-3 + 1e-5 * abs(b)}[symbol]
    margin = {"<": b - a, ">": a - b, "=": -abs(a - b)}[symbol]
    return f"{left}{draw(spaces)}{symbol}{draw(spaces)}{right}", (value, margin)


truths = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        bracketed(inner), chain(bracketed(inner), LOGIC).flatmap(lambda d: bracketed(st.just(d)))
    ),
    max_leaves=6,
)
formulas = st.one_of(truths, chain(truths, LOGIC))


@settings(max_examples=60)
@given(formulas)
def test_random_formulas_have_the_value_they_were_built_with(drawn: Drawn) -> None:
    text, (value, margin) = drawn
    formula = Formula.parse(text)
    assert formula.truth(lookup) == value
    assert formula.margin(lookup) == margin


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1 - 1 - 1 < 0", True),  # from the left: -1, not 1
        ("1 + 1 = 2 & 3 > 2", True),
        ("1 < 0 & 1 < 0 | 2 > 1", True),
        ("2 > 1 | 2 > 1 & 1 < 0", False),  # one level, from the left
        ("[(1;%gap%) + (*;%gap%)] > 0", True),
        ("1000 = 1000.01", True),
        ("0 = 0.0011", False),
        (" 2>1 ", True),
        ("(1;%gap%) > -1", True),
        ("-1<(1;%no-gap%)-1", True),
        ("1--1 = 2", True),
        ("1 -1 = 0", True),  # a difference, whatever the spaces
        ("1 - -1 + -2 = 0", True),
        ("[+1 > -1]", True),
    ],
)
def test_precedence(formula: str, value: bool) -> None:
    assert Formula.parse(formula).truth(lookup) is value


def test_margins_of_impossible_regions() -> None:
    """Two of them differ by nothing; one is infinitely more surprising than what is possible."""
    expected = {">": (0.0, math.inf), "<": (0.0, -math.inf), "=": (-0.0, -math.inf)}
    for symbol, margins in expected.items():
        for right, margin in zip((math.inf, 1.0), margins, strict=True):
            formula = Formula.parse(f"(1;%a%) {symbol} (1;%b%)")
            assert formula.margin(lambda _, name, right=right: math.inf if name == "a" else right) == margin


@pytest.mark.parametrize(
    ("formula", "column", "says"),
    [
        ("", 1, "missing before the end"),
        ("(1;%gap%)", 1, "a number, where a comparison"),
        ("[(1;%gap%) > (2;%gap%)", 23, "']' expected for the '[' of column 1, not the end"),
        ("[1 > 2)", 7, "']' expected"),
        ("1 > 2 > 3", 1, "'>' needs a number, this is a comparison"),
        ("[1 > 2] > 3", 1, "'>' needs a number"),
        ("1 & 2 > 1", 1, "'&' needs a comparison"),
        ("1 > 2 & 3", 9, "'&' needs a comparison"),
        ("1 > 2 3", 7, "unexpected a number"),
        ("1 > two", 5, "unexpected 't'"),
        ("(1;%gap) > 2", 3, "unexpected ';'"),
        ("1 > - 2", 5, "missing before '-'"),  # a sign stands at its number
        ("1 > --2", 5, "missing before '-'"),
        ("1 > -(1;%gap%)", 5, "missing before '-'"),
        ("1 > -[2]", 5, "missing before '-'"),
        ("__import__('os')", 1, "unexpected '_'"),
        ("[" * 101, 101, "nested deeper"),
        ("1 > (1234567890;%gap%)", 5, "a region number that is too large"),
        ("1 >" + " " * 100_000 + "2", 100_000, "longer than 100,000 characters"),
    ],
)
def test_errors_name_their_place(formula: str, column: int, says: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula.parse(formula)
    assert caught.value.column == column
    assert says in caught.value.reason


def test_formulas_of_the_largest_size_are_read() -> None:
    assert Formula.parse("2 >" + " " * 99_996 + "1").truth(lookup)
    assert Formula.parse("(999999999;%gap%) > 1").regions == ((999_999_999, "gap"),)
    nested = ["[" * n + "2 > 1" + "]" * n for n in (50, 100, 100)]
    assert Formula.parse(" & ".join(nested)).truth(lookup)


def test_long_formulas_need_no_deep_stack() -> None:
    assert Formula.parse("+".join(["1"] * 20_000) + " > 19999").truth(lookup)


def test_regions_are_listed_once() -> None:
    formula = Formula.parse("(1;%gap%) > (2;%no-gap%) & (1;%gap%) > (*;%gap%)")
    assert formula.regions == ((1, "gap"), (2, "no-gap"), (None, "gap"))


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_equality_is_numpys_isclose(a: float, b: float) -> None:
    import numpy as np

    assert is_close(a, b) == np.isclose(a, b, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("a", [1e5 + 1.001005, -1e5 - 1.001005])
def test_of_two_close_numbers_the_second_is_the_reference(a: float) -> None:
    import numpy as np

    b = math.copysign(1e5, a)  # the tolerance is 1.001 of b, and 1.00101 of what is farther from 0
    assert is_close(a, b) == np.isclose(a, b, rtol=1e-5, atol=1e-3)
    assert is_close(b, a) == np.isclose(b, a, rtol=1e-5, atol=1e-3)
    assert is_close(a, b) != is_close(b, a)


_CONDITIONS = ("a", "b", "c")
_numbers = st.floats(-20, 20)
_sides = st.recursive(
    st.sampled_from([f"(1;%{name}%)" for name in _CONDITIONS] + ["2"]),
    lambda side: st.builds("[{} {} {}]".format, side, st.sampled_from("+-"), side),
    max_leaves=4,
)
_formulas = st.recursive(
    st.builds("[{} {} {}]".format, _sides, st.sampled_from("<>="), _sides),
    lambda part: st.builds("[{} {} {}]".format, part, st.sampled_from("&|"), part),
    max_leaves=4,
)


@given(
    text=_formulas,
    now=st.tuples(_numbers, _numbers, _numbers),
    error_bound=st.floats(0.0, 2.0),
    moves=st.tuples(*[st.floats(-0.99, 0.99)] * 3),
)
def test_a_decided_formula_stays_as_it_is(
    text: str, now: tuple[float, ...], error_bound: float, moves: tuple[float, ...]
) -> None:
    formula = Formula.parse(text)
    known = dict(zip(_CONDITIONS, now, strict=True))
    most = error_bound / max(1, text.count("%") // 2)  # no difference has more regions than these
    moved = {c: known[c] + most * move for c, move in zip(_CONDITIONS, moves, strict=True)}
    truth = formula.truth(lambda _, condition: known[condition], error_bound)
    if truth is not None and "=" not in text:  # b of |a - b| <= … + … |b| moves too
        assert truth == formula.truth(lambda _, condition: moved[condition])
    if truth is not None:
        assert truth == formula.truth(lambda _, condition: known[condition])


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("[(1;%a%) < (1;%b%)]", True),
        ("[(1;%b%) > (1;%a%)]", True),
        ("[(1;%a%) > (1;%b%)]", False),
        ("[(1;%a%) < (1;%c%)]", None),
        ("[(1;%a%) = (1;%c%)]", None),
        ("[(1;%a%) = (1;%b%)]", False),
        ("[(1;%a%) < (1;%c%)] & [(1;%a%) < (1;%b%)]", None),
        ("[(1;%a%) < (1;%c%)] & [(1;%a%) > (1;%b%)]", False),
        ("[(1;%a%) < (1;%c%)] | [(1;%a%) < (1;%b%)]", True),
        ("[(1;%a%) < (1;%c%)] | [(1;%a%) > (1;%b%)]", None),
        ("[(1;%a%) - (1;%c%)] < 0", None),
        ("[(1;%a%) - (1;%c%)] < 1", True),
    ],
)
def test_a_formula_may_be_undecided(text: str, truth: bool | None) -> None:
    known = {"a": 1.0, "b": 9.0, "c": 1.5}
    assert Formula.parse(text).truth(lambda _, condition: known[condition], 0.51) is truth


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("max(a, b, c)", 3.0),
        ("min(a, b + c, 2.5)", 1.0),
        ("c - max(a, min(b, c)) + 1", 2.0),
        ("[a + b] - (c)", 0.0),
        ("-2 + max(a)", -1.0),
    ],
)
def test_formulas_over_names(text: str, number: float) -> None:
    values = {"a": 1.0, "b": 2.0, "c": 3.0}

    def value(region: int | None, name: str) -> float:
        assert region is None
        return values[name]

    assert Formula.parse(text, values, number=True).value(value) == number
    assert Formula.parse(f"{text} > {number - 1} & {text} < {number + 1}", values).truth(value)
    assert not Formula.parse(f"{text} > {number}", values).truth(value)
    assert Formula.parse(f"{text} > {number}", values).truth(value, 5e-324) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max a", "column 5: '(' expected for max, not a name"),
        ("max(a, b > a)", "column 8: 'max' needs a number, this is a comparison"),
        ("max()", "column 5: a name, a number or a bracket is missing before ')'"),
        ("max(a b)", "column 7: ')' expected for max, not a name"),
        ("d", "column 1: unknown name 'd' (known: a, b)"),
        ("a > b", "column 1: a comparison, where a number is needed"),
        ("max(" * 200 + "a" + ")" * 200, "brackets nested deeper than 100"),
    ],
)
def test_formulas_over_names_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(FormulaError) as error:
        Formula.parse(text, ("a", "b"), number=True)
    assert reason in str(error.value)
