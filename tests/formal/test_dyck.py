"""The Dyck automaton against enumeration of its strings, and attachments against a stack of lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from pdtools.errors import PdtoolsError
from pdtools.formal.dyck import DYCK_SETTINGS, Dyck, dyck_attachments, length_probabilities
from pdtools.formal.language import Language, draw, strings
from pdtools.trees import spans_from_attachments, tape


def automaton(
    brackets: int, depth: int, longest: int, min_length: int = 0
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every string of at most ``longest`` tokens with its probability, step by step."""
    agenda: list[tuple[tuple[str, ...], tuple[int, ...], float]] = [((), (), 1.0)]
    while agenda:
        tokens, stack, p = agenda.pop()
        must_open = not stack and len(tokens) < min_length
        p_open = 1.0 if must_open else 0.0 if len(stack) == depth else 0.5
        if not stack and not must_open:
            yield tokens, p * 0.5
        if len(tokens) + len(stack) > longest:
            continue
        if stack:
            agenda.append(((*tokens, f"){stack[-1]}"), stack[:-1], p * (1 - p_open)))
        if p_open and len(tokens) + len(stack) + 2 <= longest:
            for t in range(1, brackets + 1):
                agenda.append(((*tokens, f"({t}"), (*stack, t), p * p_open / brackets))


def longest_dependency(tokens: tuple[str, ...]) -> int:
    """The largest distance between an opener and its closer."""
    opened: list[int] = []
    longest = 0
    for k, token in enumerate(tokens):
        if token[0] == "(":
            opened.append(k)
        else:
            longest = max(longest, k - opened.pop())
    return longest


def greatest_depth(tokens: tuple[str, ...]) -> int:
    return int(np.cumsum([1 if token[0] == "(" else -1 for token in tokens]).max(initial=0))


CONDITIONS = [
    {},
    {"min_length": 2},
    {"min_length": 5},
    {"max_dependency": 1},
    {"max_dependency": 3},
    {"min_length": 4, "max_dependency": 5},
    {"min_length": 6, "max_dependency": 4},
    {"min_length": 6, "max_dependency": 3},
    {"min_length": 4, "max_dependency": 1},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
@pytest.mark.parametrize(("brackets", "depth"), [(1, 1), (2, 1), (1, 3), (2, 2), (2, 3)])
def test_log_probability_and_entropy_are_those_of_the_enumerated_strings(
    brackets: int, depth: int, conditions: dict[str, int]
) -> None:
    language = Dyck(brackets=brackets, depth=depth, max_length=10, **conditions)
    drafts = automaton(brackets, depth, 10, language.min_length)
    furthest = conditions.get("max_dependency", 10)
    free = {tokens: p for tokens, p in drafts if longest_dependency(tokens) <= furthest}
    acceptance = sum(free.values())
    exact = {tokens: p / acceptance for tokens, p in free.items()}
    assert {tokens: math.exp(language.log_probability(tokens)) for tokens in exact} == pytest.approx(exact)

    mean = sum(p * len(tokens) for tokens, p in exact.items())
    entropy = -sum(p * math.log(p) for p in exact.values())
    found = language.expectations
    assert found.acceptance == pytest.approx(acceptance)
    assert found.mean_length == pytest.approx(mean)
    assert found.entropy_per_string == pytest.approx(entropy)
    assert found.entropy_per_token == pytest.approx(entropy / (mean + 1))

    unlimited = Dyck(brackets=brackets, depth=depth, **conditions)
    by_length = Counter[int]()
    for tokens in exact:
        by_length[len(tokens)] += math.exp(unlimited.log_probability(tokens))
    probabilities = length_probabilities(depth, 10, **conditions)
    assert probabilities == pytest.approx([by_length[n] for n in range(11)])


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_without_a_longest_length_figures_are_the_limit(depth: int, conditions: dict[str, int]) -> None:
    limit = Dyck(brackets=3, depth=depth, max_length=800, **conditions).expectations
    found = Dyck(brackets=3, depth=depth, **conditions).expectations
    for name in ("acceptance", "mean_length", "entropy_per_string", "entropy_per_token"):
        assert getattr(found, name) == pytest.approx(getattr(limit, name), rel=1e-9)
    assert length_probabilities(depth, 800, **conditions).sum() == pytest.approx(1)


@pytest.mark.parametrize(("brackets", "depth"), [(1, 1), (2, 3), (20, 10), (20, 40)])
def test_closed_form_of_the_free_automaton(brackets: int, depth: int) -> None:
    found = Dyck(brackets=brackets, depth=depth).expectations
    assert found.acceptance == 1
    assert found.mean_length == pytest.approx(2 * depth)
    assert found.entropy_per_string == pytest.approx(depth * (2 * math.log(2) + math.log(brackets)))
    # What the authors' code samples with a minimum length of 4 has this mean too.
    assert Dyck(min_length=4).expectations.mean_length == pytest.approx(50)


@pytest.mark.parametrize(
    "tokens",
    ["(1", ")1", "(1 )2", "(1 (2 )1 )2", "(3 )3", "(1 (1 (1 )1 )1 )1", "(1 )1 x", "(0 )0", "(1 )1 (1"],
)
def test_other_strings_have_no_probability(tokens: str) -> None:
    assert Dyck(brackets=2, depth=2).log_probability(tokens.split()) == -math.inf


def test_conditions_exclude_strings() -> None:
    short, wide = ["(1", ")1"], ["(1", "(1", ")1", ")1"]
    assert Dyck(min_length=4).log_probability(short) == -math.inf
    assert Dyck(max_length=4).log_probability(3 * short) == -math.inf
    assert Dyck(max_dependency=2).log_probability(wide) == -math.inf
    assert Dyck(max_dependency=3).log_probability(wide) > -math.inf
    assert Dyck(min_length=2).log_probability([]) == -math.inf
    assert Dyck().log_probability([]) == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    "conditions", [{}, {"min_length": 4}, {"max_length": 6}, {"min_length": 2, "max_dependency": 3}], ids=str
)
def test_frequencies_are_the_exact_probabilities(conditions: dict[str, int]) -> None:
    language = Dyck(brackets=2, depth=2, **conditions)
    number = 40_000
    seen = Counter(string.tokens for string in strings(language, number, seed=7))
    short = [tokens for tokens, _ in automaton(2, 2, 6) if language.log_probability(tokens) > -math.inf]
    expected = np.array([number * math.exp(language.log_probability(tokens)) for tokens in short])
    observed = np.array([seen[tokens] for tokens in short], dtype=float)
    rest = number - expected.sum()
    if rest > 1e-6:
        expected, observed = np.append(expected, rest), np.append(observed, number - observed.sum())
    else:
        assert observed.sum() == number
    assert expected.min() > 5
    freedom = len(expected) - 1
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)


LANGUAGES = [
    Dyck(**DYCK_SETTINGS["released-like"]),
    Dyck(**DYCK_SETTINGS["free"]),
    Dyck(depth=40),
    Dyck(brackets=3, depth=4, min_length=7, max_length=12, max_dependency=6),
    Dyck(brackets=1, depth=1, max_length=4),
]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: str(list(language.settings.values())))
def test_drawn_strings_are_in_the_language(language: Dyck) -> None:
    drawn = list(strings(language, 3000, seed=3))
    assert len(drawn) == 3000
    for string in drawn:
        assert language.min_length <= len(string.tokens) <= (language.max_length or math.inf)
        assert longest_dependency(string.tokens) <= (language.max_dependency or math.inf)
        assert greatest_depth(string.tokens) <= language.depth
        assert language.log_probability(string.tokens) > -math.inf  # so it is well nested
        assert string.attach is not None
        assert string.attach.tolist() == dyck_attachments(string.tokens).tolist()
        assert string.attach.dtype == np.int32
    if language.max_dependency is None:
        assert max(greatest_depth(string.tokens) for string in drawn) == language.depth
    surprisals = np.array([-language.log_probability(string.tokens) for string in drawn])
    error = surprisals.std() / math.sqrt(len(drawn))
    assert abs(surprisals.mean() - language.expectations.entropy_per_string) < 4 * error


def test_released_like_strings_are_like_the_released_ones() -> None:
    language = Dyck(**DYCK_SETTINGS["released-like"])
    lengths = np.concatenate([batch.lengths for batch in draw(language, 100_000, seed=1)])
    assert lengths.min() == 6
    assert lengths.mean() == pytest.approx(language.expectations.mean_length, abs=0.1)
    assert language.expectations.mean_length == pytest.approx(14.03, abs=0.01)
    cumulative = length_probabilities(10, 200, min_length=6, max_dependency=27).cumsum()
    assert np.quantile(lengths, [0.5, 0.95]).tolist() == [10, 32]
    assert [int((cumulative >= share).argmax()) for share in (0.5, 0.95)] == [10, 32]


def test_a_seed_fixes_the_strings_and_more_begin_with_the_same() -> None:
    language: Language = Dyck(**DYCK_SETTINGS["released-like"])
    few = [string.tokens for string in strings(language, 100, seed=5)]
    # More than one batch.
    batches = list(draw(language, 60_000, seed=5))
    assert len(batches) > 1
    assert sum(len(batch) for batch in batches) == 60_000
    many = [string.tokens for string in strings(language, 60_000, seed=5)]
    assert many[:100] == few
    assert few != [string.tokens for string in strings(language, 100, seed=6)]
    assert many[-100:] != few
    assert list(strings(language, 0, seed=5)) == []


def algorithm_1(attach: list[int]) -> Iterator[list[tuple[int, int]]]:
    """The stack after every token, as (first, last) tokens: reduce until the attachment is reached."""
    stack: list[tuple[int, int]] = []
    for k, target in enumerate(attach):
        new = (k, k)
        reduced = target == k
        while not reduced:
            first, last = stack.pop()  # IndexError if the attachment is illegal
            new = (first, k)
            reduced = last == target
        stack.append(new)
        yield list(stack)


def expected_stacks(tokens: tuple[str, ...]) -> Iterator[list[tuple[int, int]]]:
    """After every token: open brackets alone, and the outermost of the complete pairs."""
    for k in range(len(tokens)):
        constituents: list[tuple[int, int]] = []
        opened: list[int] = []
        for i, token in enumerate(tokens[: k + 1]):
            if token[0] == "(":
                opened.append(i)
                constituents.append((i, i))
            else:
                start = opened.pop()
                constituents = [*(c for c in constituents if c[0] < start), (start, i)]
        yield constituents


def test_attachments_build_the_pairs_with_algorithm_1() -> None:
    checked = 0
    for tokens, _ in automaton(1, 6, 12):
        attach = dyck_attachments(tokens)
        assert list(algorithm_1(attach.tolist())) == list(expected_stacks(tokens))
        starts, ends, left = spans_from_attachments(attach)
        depths = np.zeros((len(tokens), len(tokens)), dtype=int)
        for start, end in zip(starts, ends, strict=True):
            depths[end - 1 :, start:end] += 1
        assert np.array_equal(tape(attach), depths)
        pairs = list(expected_stacks(tokens))[-1] if tokens else []
        assert left.tolist() == [first for first, _ in pairs]
        checked += 1
    assert checked == sum(math.comb(2 * n, n) // (n + 1) for n in range(7))


def test_attachments_of_a_prefix() -> None:
    assert dyck_attachments(["(1", "(2", ")2", "(1"]).tolist() == [0, 1, 1, 3]
    with pytest.raises(ValueError, match=r"token 1, '\)2'"):
        dyck_attachments(["(1", ")2"])


@pytest.mark.parametrize(
    "impossible", [{"min_length": 8, "max_length": 6}, {"min_length": 3, "max_length": 3}], ids=str
)
def test_conditions_that_no_string_meets(impossible: dict[str, int]) -> None:
    with pytest.raises(PdtoolsError, match="no string meets these conditions"):
        next(strings(Dyck(**impossible), 1, seed=0))
    assert math.isnan(Dyck(**impossible).expectations.mean_length)


@pytest.mark.parametrize("name", ["brackets", "depth", "min_length", "max_length", "max_dependency"])
@pytest.mark.parametrize("value", [10**9, 10**18, 10**30])
def test_settings_beyond_all_measure(name: str, value: int) -> None:
    with pytest.raises(PdtoolsError, match=f"{name} must be at most .*, not {value}"):
        Dyck(**{name: value})


@pytest.mark.parametrize("wrong", [{"brackets": 0}, {"depth": 0}, {"min_length": -1}, {"max_dependency": 0}])
def test_settings_out_of_range(wrong: dict[str, int]) -> None:
    with pytest.raises(PdtoolsError, match=f"{next(iter(wrong))} must be at least"):
        Dyck(**wrong)
