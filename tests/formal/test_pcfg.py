from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammar_oracle import fewer_symbols, grammar_of, small_grammars, strings_up_to
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.errors import InputError, PdtoolsError
from pdtools.formal.grammar import Grammar, Rule, Token, grammar_names, parse_grammar, read_grammar
from pdtools.formal.grammar_normal import (
    fixed_lengths,
    inside,
    length_table,
    log_inside,
    log_probabilities,
    normal_form,
)

# --- the format -------------------------------------------------------------------------------


def test_a_grammar_as_it_is_written() -> None:
    grammar = grammar_of(
        "# a comment",
        "S -> 'a' S \"'\" [3/4] | A   # another",
        "",
        "A→'#' A [ 1 / 3 ] |[1]|\"b\" [1.5e-1]",
        "S -> 'c' [.25]",
    )
    assert grammar.start == "S"
    assert grammar.symbols == ("S", "A")
    assert grammar.vocabulary == ("a", "'", "c", "#", "b")
    assert grammar.rules[:3] == (
        Rule("S", (Token("a"), "S", Token("'")), Fraction(3, 8)),
        Rule("S", ("A",), Fraction(1, 2)),
        Rule("S", (Token("c"),), Fraction(1, 8)),
    )
    total = Fraction(1, 3) + 1 + Fraction(15, 100)
    assert grammar.rules[4] == Rule("A", (), 1 / total)
    assert parse_grammar(enumerate(grammar.text.splitlines(), 1), "test", "again") == grammar


def test_an_alternative_that_comes_twice_counts_twice() -> None:
    assert grammar_of("S -> 'a' [1] | 'b' [2] | 'a' [1]").rules == (
        Rule("S", (Token("a"),), Fraction(1, 2)),
        Rule("S", (Token("b"),), Fraction(1, 2)),
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "test.pcfg: no rules in it (write S -> 'a'"),
        (["# nothing"], "test.pcfg: no rules in it"),
        (["S -> 'a'", "'a' S"], "test.pcfg:2: not a rule (write SYMBOL -> "),
        (["S -> A -> 'a'"], "test.pcfg:1: not a rule"),
        (["'a' -> S"], "test.pcfg:1: not a rule"),
        (["S 'a' -> S"], "test.pcfg:1: not a rule"),
        (["S -> 'a"], "test.pcfg:1: a quote or bracket without its partner: 'a"),
        (["S -> a ]"], "test.pcfg:1: a quote or bracket without its partner: ]"),
        (["S -> 'a' [0]"], "test.pcfg:1: [0] is no weight (write a number above 0"),
        (["S -> 'a' [-1]"], "test.pcfg:1: [-1] is no weight"),
        (["S -> 'a' [1/0]"], "test.pcfg:1: [1/0] is no weight"),
        (["S -> 'a' [1e999999999]"], "test.pcfg:1: [1e999999999] is no weight"),
        (["S -> 'a' [nan]"], "test.pcfg:1: [nan] is no weight"),
        (
            [f"S -> 'a' 'a' [1/1{'0' * 400}] | 'b'"],
            "test.pcfg:1: S has an alternative too rare to compute with",
        ),
        (["S -> 'a' []"], "test.pcfg:1: [] is no weight"),
        (["S -> 'a' [1] 'b'"], "test.pcfg:1: b after a weight (put | before the next alternative)"),
        (
            ["S -> ''"],
            "test.pcfg:1: '': a token needs letters, and has no spaces (leave an alternative empty",
        ),
        (["S -> 'a b'"], "test.pcfg:1: 'a b': a token needs letters"),
        *(
            (["S -> 'a'", f"S -> '{name}'"], f"test.pcfg:2: '{name}' is a special token of models")
            for name in ("<pad>", "<root>", "<eos>", "<unk>")
        ),
        (["S -> 'a'", "S -> a"], "test.pcfg:2: a has no rules (add some, or write 'a' if it is a token)"),
        (
            ["S -> 'a'", "A -> 'a'"],
            "test.pcfg:2: A cannot be reached from S, the start symbol (remove its rules)",
        ),
        (["S -> 'a' S"], "test.pcfg:1: S never comes to an end (give it an alternative without itself)"),
        (["S -> 'a' | A", "A -> B", "B -> A"], "test.pcfg:1: A never comes to an end"),
    ],
)
def test_what_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        grammar_of(*lines)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_files_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert grammar_names() == (
        "dyck",
        "dyck-released",
        "hardest",
        "marked-reversal",
        "padded-reversal",
        "unmarked-reversal",
    )
    file = tmp_path / "mine.txt"
    file.write_text("S -> 'a' S | 'a'\n")
    assert read_grammar(file).name == "mine"
    with pytest.raises(
        InputError, match=r"mine2: no such file, nor a grammar of this name \(grammars: dyck, "
    ):
        read_grammar(tmp_path / "mine2")
    shipped, own = read_grammar("hardest"), tmp_path / "hardest"
    own.write_text("S -> 'a' S | 'a'\n")
    monkeypatch.chdir(tmp_path)
    assert str(read_grammar("hardest")) == str(read_grammar(str(own))) != str(shipped)


def test_the_weights_of_the_paper() -> None:
    def rules(name: str) -> dict[str, Fraction]:
        return {str(rule).rpartition(" [")[0]: rule.probability for rule in read_grammar(name).rules}

    reversal = {"S -> '0' S '0'": Fraction(30, 61), "S -> '1' S '1'": Fraction(30, 61)}
    assert rules("marked-reversal") == {**reversal, "S -> '#'": Fraction(1, 61)}
    assert rules("unmarked-reversal") == {**reversal, "S ->": Fraction(1, 61)}
    assert rules("padded-reversal") == {
        **reversal,
        "S -> A": Fraction(1, 122),
        "S -> B": Fraction(1, 122),
        "A -> '0' A": Fraction(30, 31),
        "A ->": Fraction(1, 31),
        "B -> '1' B": Fraction(30, 31),
        "B ->": Fraction(1, 31),
    }
    assert rules("dyck") == {
        "S -> S T": Fraction(1, 2),
        "S -> T": Fraction(1, 2),
        "T -> '(' S ')'": Fraction("0.4875"),
        "T -> '(' ')'": Fraction("0.0125"),
        "T -> '[' S ']'": Fraction("0.4875"),
        "T -> '[' ']'": Fraction("0.0125"),
    }
    assert rules("hardest") == {
        "Top -> R '$' Q S L ';'": 1,
        "L -> LeftFillers ',' U": 1,
        "LeftFillers -> ',' V LeftFillers": Fraction(1, 3),
        "LeftFillers ->": Fraction(2, 3),
        "R -> U ',' RightFillers": 1,
        "RightFillers -> RightFillers V ','": Fraction(1, 3),
        "RightFillers ->": Fraction(2, 3),
        "U -> W U": Fraction(1, 3),
        "U ->": Fraction(2, 3),
        "V -> W V": Fraction(1, 2),
        "V -> W": Fraction(1, 2),
        **{f"W -> '{symbol}'": Fraction(1, 5) for symbol in "()[]$"},
        "Q -> L ';' R": Fraction(1, 4),
        "Q ->": Fraction(3, 4),
        "S -> S Q T": Fraction(3, 5),
        "S -> T": Fraction(2, 5),
        "T -> '(' Q S Q ')'": Fraction(3, 8),
        "T -> '(' Q ')'": Fraction(1, 8),
        "T -> '[' Q S Q ']'": Fraction(3, 8),
        "T -> '[' Q ']'": Fraction(1, 8),
    }


@given(st.lists(st.text("SAB 'ab\"[]|#->→0123456789/.eε\t", max_size=20), max_size=4))
@settings(max_examples=300)
def test_any_text_is_a_grammar_or_refused_in_one_line(lines: list[str]) -> None:
    try:
        grammar = grammar_of(*lines)
    except InputError as error:
        message = str(error)
    else:
        message = ""
        assert parse_grammar(enumerate(grammar.text.splitlines(), 1), "test", "again") == grammar
    assert "\n" not in message


def test_weights_with_many_digits_are_read_back() -> None:
    weights = [f"0.{'1234567' * 6}{i}" for i in range(1, 20)]
    grammar = grammar_of("S -> " + " | ".join(f"'{i}' [{weight}]" for i, weight in enumerate(weights)))
    assert parse_grammar(enumerate(grammar.text.splitlines(), 1), "test", "again") == grammar


# --- probabilities ----------------------------------------------------------------------------


def numbers(grammar: Grammar, string: tuple[str, ...]) -> np.ndarray:
    return np.array([grammar.vocabulary.index(token) for token in string], dtype=np.int64)


def assert_exact(grammar: Grammar, longest: int) -> None:
    """Probabilities of all strings over the vocabulary, and of lengths, against the oracle's."""
    normal = normal_form(grammar)
    expected = strings_up_to(grammar, longest)
    everything = [w for n in range(longest + 1) for w in product(grammar.vocabulary, repeat=n)]
    arrays = [numbers(grammar, string) for string in everything]
    logs = log_probabilities(normal, arrays)
    lengths = np.exp(length_table(normal, longest).symbols[normal.start])
    assert np.exp(logs) == pytest.approx([expected.get(w, 0.0) for w in everything], rel=1e-9, abs=1e-300)
    by_length = [math.fsum(p for w, p in expected.items() if len(w) == n) for n in range(longest + 1)]
    assert lengths == pytest.approx(by_length, rel=1e-9, abs=1e-300)
    for string, log in list(zip(arrays, logs, strict=True))[1 : 1 + 2**longest : 3]:
        assert log_inside(normal, string) == pytest.approx(log, rel=1e-9)


@given(small_grammars())
@settings(max_examples=30)
def test_small_grammars(grammar: Grammar) -> None:
    assert_exact(grammar, 3)


@pytest.mark.parametrize(
    ("name", "longest"), [(name, 4 if "dyck" in name else 6) for name in grammar_names()]
)
def test_the_languages(name: str, longest: int) -> None:
    assert_exact(read_grammar(name), longest if name != "hardest" else 3)


@pytest.mark.parametrize(("name", "longest"), [("dyck", 10), ("dyck-released", 10), ("hardest", 11)])
def test_longer_strings_of_the_languages(name: str, longest: int) -> None:
    grammar = fewer_symbols() if name == "hardest" else read_grammar(name)
    expected = strings_up_to(grammar, longest)
    assert len(expected) > 100
    strings = [numbers(grammar, string) for string in expected]
    logs = log_probabilities(normal_form(grammar), strings)
    assert np.exp(logs) == pytest.approx(list(expected.values()), rel=1e-9)


def test_chains_and_empty_strings_in_circles() -> None:
    assert_exact(grammar_of("S -> A [2] | S S [1] | [2]", "A -> S [1] | 'a' [2] | A A 'b' [1] | [1]"), 4)
    assert_exact(grammar_of("S -> S [9] | 'a' [1]"), 2)
    normal = normal_form(grammar_of("S -> S [9] | 'a' [1]"))
    assert log_probabilities(normal, [np.array([0])])[0] == pytest.approx(0.0, abs=1e-12)


def test_more_symbols_than_come_to_an_end() -> None:
    """Half of the derivations never end: the empty string's probability is the least solution, not 1."""
    normal = normal_form(grammar_of("S -> S S [6] | [3] | 'a' [1]"))
    assert normal.empty[normal.start] == pytest.approx((1 - math.sqrt(1 - 4 * 0.6 * 0.3)) / 1.2, rel=1e-12)
    assert_exact(grammar_of("S -> S S [6] | [3] | 'a' [1]"), 3)


def test_unlikely_empty_strings() -> None:
    rare = "[1e-9] | 'a' [1]"
    normal = normal_form(grammar_of("S -> A A [1] | 'b' 'b' [1]", "A -> B B B", "B -> C", f"C -> {rare}"))
    empty = 1 / (1 + 10**9)
    assert normal.empty[0] == pytest.approx(0.5 * empty**6, rel=1e-12)
    assert log_probabilities(normal, [np.array([1])])[0] == pytest.approx(
        math.log(0.5 * 6 * empty**5 * (1 - empty))
    )


def test_a_rule_may_be_as_long_as_a_text() -> None:
    normal = normal_form(grammar_of("S -> " + " ".join(["'a'", "'b'", "C", "'a'"] * 150), "C -> 'c' | "))
    lengths = length_table(normal, 600).symbols[normal.start]
    assert math.exp(lengths[599]) == pytest.approx(150 * 0.5**150)
    assert np.isinf(lengths[:450]).all()
    string = np.array([0, 1, 2, 0] * 149 + [0, 1, 0])
    assert log_probabilities(normal, [string])[0] == pytest.approx(-150 * math.log(2))


def test_endless_chains_are_refused() -> None:
    for lines in (["S -> S S [1/2] | [1/2]", "S -> S"], ["S -> S S | "]):
        with pytest.raises(PdtoolsError, match=r"grammar test: S derives itself alone"):
            normal_form(grammar_of(*lines))


def test_rare_chains() -> None:
    """None is lost in, or made negative by, the rounding errors of frequent ones."""
    grammar = grammar_of(
        "N0 -> N2",
        "N1 -> N3 N3 [1/10001] | N1 [10000/10001]",
        "N2 -> N3 [50/101] | N1 [1/202] | N5 [1/202]",
        "N3 -> N1 N3 [10000/10001] | N0 N6 [1/10001]",
        "N5 -> [1/2] | N5 't0' [1/2]",
        "N6 -> N0 [2/3]",
    )
    normal = normal_form(grammar)
    assert (normal.chains >= 0).all()
    assert np.isfinite(length_table(normal, 6).symbols[normal.start][1:]).all()
    (log,) = log_probabilities(normal, [np.zeros(3, dtype=np.int64)])
    assert log > math.log(1 / 102 / 16)  # N0, N2, N5, and three times t0, alone


def test_words_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what takes time with the cube of a number, nothing counts the words."""
    sizes: list[int] = []

    def watched(name: str) -> None:
        original = getattr(np.linalg, name)

        def function(matrix: np.ndarray, *rest: np.ndarray) -> Any:
            sizes.append(len(matrix))
            return original(matrix, *rest)

        monkeypatch.setattr(np.linalg, name, function)

    for name in ("eig", "solve"):
        watched(name)
    words = [f"'w{i}'" for i in range(300)]
    grammar = grammar_of(
        f"S -> N V | N V A | {words[0]} [0.5]", "A -> S | ", f"N -> {' | '.join(words)}", "V -> 'v' N"
    )
    normal = normal_form(grammar)
    assert max(sizes) <= 6
    for text, probability in (("w0", 0.2), ("w3 v w5", 0.6 / 300**2), ("w3 v w5 w0", 0.2 * 0.2 / 300**2)):
        string = numbers(grammar, tuple(text.split()))
        # A is S half of the time, else empty: (0.4 + 0.4 / 2) and 0.4 / 2 · P(S is w0).
        assert np.exp(log_probabilities(normal, [string])) == pytest.approx(probability, rel=1e-9)


def test_dyck_without_one_outermost_pair() -> None:
    """dyck-released is dyck given that no pair encloses the string."""
    ours, theirs = (strings_up_to(read_grammar(name), 8) for name in ("dyck", "dyck-released"))

    def enclosed(string: tuple[str, ...]) -> bool:
        depths = np.cumsum([1 if token in "([" else -1 for token in string])
        return bool((depths[:-1] > 0).all())

    kept = {string: p for string, p in ours.items() if not enclosed(string)}
    assert kept.keys() == theirs.keys()
    assert [kept[s] / theirs[s] for s in kept] == pytest.approx([0.5] * len(kept))
    at_40 = [
        np.exp(length_table(normal_form(read_grammar(name)), 40).symbols[0, 40])
        for name in ("dyck", "dyck-released")
    ]
    assert 1 - 0.5 * at_40[1] / at_40[0] == pytest.approx(0.80, abs=0.005)


def test_what_floats_cannot_hold() -> None:
    """150 tokens, each with a probability of 1 in 200: 10^-345, in log space."""
    normal = normal_form(grammar_of("S -> 'a' S [1] | 'b' S [198] | 'end' [1]"))
    string = np.array([0] * 100 + [2])
    assert inside(normal, string[None], fixed_lengths(normal, 101))[0] > 0
    long = np.array([0] * 150 + [2])
    assert inside(normal, long[None], fixed_lengths(normal, 151))[0] == 0
    logs = log_probabilities(normal, [long, string, long[:-1], np.array([-1])])
    assert logs == pytest.approx([-151 * math.log(200), -101 * math.log(200), -math.inf, -math.inf])
    # The same in a table of lengths.
    by_length = length_table(normal_form(grammar_of("S -> 'a' S [1] | 'b' [200]")), 200)
    assert by_length.symbols[0, 200] == pytest.approx(-199 * math.log(201) + math.log(200 / 201))
