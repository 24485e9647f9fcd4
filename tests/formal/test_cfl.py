from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from grammar_oracle import fewer_symbols, grammar_of, small_grammars, strings_up_to
from hypothesis import given, settings

from pdtools.errors import PdtoolsError
from pdtools.formal.cfl import ContextFree, Lengths
from pdtools.formal.grammar import Grammar, grammar_names, read_grammar
from pdtools.formal.language import draw, strings


def language(name: str, shortest: int, longest: int, **settings: object) -> ContextFree:
    return ContextFree(grammar=read_grammar(name), shortest=shortest, longest=longest, **settings)  # type: ignore[arg-type]


def assert_drawn_in_proportion(
    drawn: Counter[tuple[str, ...]], expected: dict[tuple[str, ...], float]
) -> None:
    """A chi-square test, rare strings counted together, that fails by chance once in millions of times."""
    number = sum(drawn.values())
    assert drawn.keys() <= expected.keys()
    common = [string for string, p in expected.items() if p * number >= 5]
    rest = 1 - math.fsum(expected[string] for string in common)
    cells = [(drawn[string], expected[string]) for string in common]
    if rest * number >= 5:
        cells.append((number - sum(drawn[string] for string in common), rest))
    statistic = sum((seen - p * number) ** 2 / (p * number) for seen, p in cells)
    freedom = max(1, len(cells) - 1)
    assert statistic < freedom + 6 * math.sqrt(2 * freedom) + 12


def given_length(grammar: Grammar, longest: int) -> dict[tuple[str, ...], float]:
    """p(string | its length) of all strings up to a length."""
    weights = strings_up_to(grammar, longest)
    totals: Counter[int] = Counter()
    for string, weight in weights.items():
        totals[len(string)] += weight  # type: ignore[assignment]
    return {string: weight / totals[len(string)] for string, weight in weights.items()}


@pytest.mark.parametrize(
    ("name", "longest"),
    [
        ("marked-reversal", 9),
        ("unmarked-reversal", 8),
        ("padded-reversal", 7),
        ("dyck", 8),
        ("dyck-released", 8),
        ("hardest", 10),
    ],
)
def test_strings_are_drawn_in_proportion_to_their_probabilities(name: str, longest: int) -> None:
    grammar = fewer_symbols() if name == "hardest" else read_grammar(name)
    cfl = ContextFree(grammar=grammar, shortest=0, longest=longest)
    exact = given_length(grammar, longest)
    share = 1 / len(cfl.valid_lengths)
    expected = {string: p * share for string, p in exact.items()}
    # One string of each batch: those of a batch share their length.
    drawn = Counter(string.tokens for i, string in enumerate(strings(cfl, 100_000, seed=1)) if i % 10 == 0)
    assert_drawn_in_proportion(drawn, expected)
    logs = [cfl.log_probability(string) for string in expected]
    assert np.exp(logs) == pytest.approx(list(expected.values()), rel=1e-9)
    assert math.fsum(expected.values()) == pytest.approx(1)


@given(small_grammars())
@settings(max_examples=25)
def test_draws_from_small_grammars(grammar: Grammar) -> None:
    exact = given_length(grammar, 3)
    for length in {len(string) for string in exact}:
        cfl = ContextFree(grammar=grammar, shortest=length, longest=length)
        drawn = Counter(string.tokens for string in strings(cfl, 2000, seed=5))
        expected = {string: p for string, p in exact.items() if len(string) == length}
        assert_drawn_in_proportion(drawn, expected)
        assert np.exp(cfl.log_probabilities(list(expected))) == pytest.approx(list(expected.values()))


@pytest.mark.parametrize("name", grammar_names())
def test_long_strings_belong_to_the_language(name: str) -> None:
    cfl = language(name, 40, 100)
    drawn = [string.tokens for string in strings(cfl, 30, seed=2)]
    assert {len(string) for string in drawn} <= set(range(40, 101))
    assert np.isfinite(cfl.log_probabilities(drawn)).all()
    for string in drawn:
        text = "".join(string)
        if "reversal" in name:
            assert text == text[::-1]
        elif name.startswith("dyck"):
            depth = np.cumsum([1 if token in "([" else -1 for token in string])
            assert depth.min() == 0 == depth[-1]
            for opener, closer in zip("([", ")]", strict=True):
                assert string.count(opener) == string.count(closer)
        else:
            assert text.endswith(";")


def test_lengths_are_uniform_over_those_that_exist_and_shared_by_a_batch() -> None:
    cfl = language("marked-reversal", 40, 80)
    assert cfl.valid_lengths.tolist() == list(range(41, 80, 2))
    lengths = np.concatenate([batch.lengths for batch in draw(cfl, 40_000, seed=3)])
    batches = lengths.reshape(-1, 10)
    assert (batches == batches[:, :1]).all()
    counts = Counter(batches[:, 0].tolist())
    assert set(counts) == set(range(41, 80, 2))
    assert sum((seen - 200) ** 2 / 200 for seen in counts.values()) < 19 + 6 * math.sqrt(38) + 12


def test_lengths_in_turn() -> None:
    cfl = language("dyck", 3, 9, lengths="in turn", batch=4)
    lengths = [len(string.tokens) for string in strings(cfl, 24, seed=1)]
    assert [(n, len(list(some))) for n, some in groupby(lengths)] == [(4, 4), (6, 4), (8, 4)] * 2


@pytest.mark.parametrize(("lengths", "together"), [("drawn", 10_000), ("in turn", 150)])
def test_seeds(lengths: Lengths, together: int) -> None:
    cfl = language("hardest", 6, 20, lengths=lengths)
    first, second = ([s.tokens for s in strings(cfl, n, seed=1)] for n in (together + 60, 60))
    assert first[:60] == second
    assert first[:60] != first[together:]
    assert first[:60] != [s.tokens for s in strings(cfl, 60, seed=2)]


def test_the_bound() -> None:
    """Of a string: log #lengths − log p_G(w) + log p_G(|w|)."""
    cfl = language("padded-reversal", 2, 3)
    # Length 2: 0ε0, 00 as padding, and the same with 1. Length 3: 000 in two ways, 010 in one, and so on.
    a, stop, pad, end = 30 / 61, 1 / 122, 30 / 31, 1 / 31
    two = {"00": a * 2 * stop * end + stop * pad**2 * end}
    three = {"000": a * stop * pad * end + stop * pad**3 * end, "010": a * stop * pad * end}
    for string, weight in {**two, **three}.items():
        total = 2 * sum(two.values() if len(string) == 2 else three.values())
        assert cfl.log_probability(list(string)) == pytest.approx(math.log(weight / total / 2))
    for outside in ("01", "0", "0000", "0a0", ""):
        assert cfl.log_probability(list(outside)) == -math.inf


def test_settings_make_the_same_language() -> None:
    cfl = language("dyck", 4, 30, batch=3, lengths="in turn")
    again = ContextFree.from_settings(cfl.settings)
    assert again.settings == cfl.settings
    assert [s.tokens for s in strings(again, 9, seed=1)] == [s.tokens for s in strings(cfl, 9, seed=1)]
    with pytest.raises(PdtoolsError, match="not the settings of a context-free language"):
        ContextFree.from_settings({"grammar": "dyck"})
    with pytest.raises(PdtoolsError, match="not the settings of a context-free language"):
        ContextFree.from_settings({**cfl.settings, "depth": 3})


def test_refusals() -> None:
    with pytest.raises(
        PdtoolsError, match="grammar dyck has no string of 5 to 5 tokens: choose other lengths"
    ):
        language("dyck", 5, 5)
    for shortest, longest in ((-1, 4), (5, 4)):
        with pytest.raises(PdtoolsError, match="lengths must be at least 0"):
            language("dyck", shortest, longest)
    with pytest.raises(PdtoolsError, match="grammar dyck: strings of up to 100000 tokens are too long"):
        language("dyck", 2, 100_000)
    with pytest.raises(PdtoolsError, match="a batch has at least 1 string"):
        language("dyck", 2, 4, batch=0)
    with pytest.raises(PdtoolsError, match="lengths are drawn or in turn"):
        language("dyck", 2, 4, lengths="long")


def test_many_symbols_take_little_memory() -> None:
    """The ends of chains are as many as there are, not the square of the number of symbols."""
    letters = [f"A{i}" for i in range(500)]
    grammar = grammar_of(
        "S -> " + " | ".join(f"{a} S" for a in letters) + " | 'x'",
        *(f"{a} -> '{a.lower()}'" for a in letters),
    )
    cfl = ContextFree(grammar=grammar, shortest=60, longest=60, batch=2)
    tracemalloc.start()
    try:
        (batch,) = draw(cfl, 2, seed=1)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    assert batch.lengths.tolist() == [60, 60]


@pytest.mark.parametrize("lengths", ["drawn", "in turn"])
@pytest.mark.parametrize("batch", [10**9, 10**18, 10**30])
def test_more_strings_of_a_length_than_memory_holds(batch: int, lengths: str) -> None:
    with pytest.raises(PdtoolsError, match=r"not enough memory: .*: draw fewer of a length"):
        next(language("dyck", 2, 40, batch=batch, lengths=lengths).batches(1))
