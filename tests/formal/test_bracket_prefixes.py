"""Prefixes for the closing test, against a plain stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from pdtools.errors import InputError, PdtoolsError
from pdtools.formal import DYCK_SETTINGS, Dyck, StringArrays, bracket_prefixes, strings
from pdtools.formal.bracket_prefixes import (
    BracketPrefix,
    dependency_prefixes,
    depth_prefixes,
    read_prefixes,
    write_prefixes,
)

RELEASED = Dyck(**DYCK_SETTINGS["released-like"])


def open_brackets(tokens: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """The stack after a prefix (positions and types), and its greatest height on the way."""
    stack: list[tuple[int, str]] = []
    highest = 0
    for k, token in enumerate(tokens):
        if token[0] == "(":
            stack.append((k, token[1:]))
            highest = max(highest, len(stack))
        else:
            assert stack.pop()[1] == token[1:]
    return stack, highest


def check(prefix: BracketPrefix) -> int:
    stack, highest = open_brackets(prefix.tokens)
    assert prefix.closer == f"){stack[-1][1]}"
    assert prefix.dependency == len(prefix.tokens) - stack[-1][0]
    return highest


def test_long_dependencies() -> None:
    found = dependency_prefixes(Dyck(depth=12), 300, least=30, max_length=90, seed=3)
    assert len(found) == 300
    for prefix in found:
        assert check(prefix) == prefix.depth <= 12
        assert prefix.dependency >= 30
        assert len(prefix.tokens) <= 90
    assert max(prefix.dependency for prefix in found) > 60
    assert min(prefix.dependency for prefix in found) == 31  # what is between them has an even length


def test_one_prefix_a_string_any_of_those_it_has() -> None:
    """All of a language's prefixes, found by trying, come up; and none comes up twice for one string."""
    language = Dyck(brackets=1, depth=2, max_length=8, min_length=8)
    drawn = [string.tokens for string in strings(language, 500, 1)]
    possible = {
        s[:k]
        for s in drawn
        for k in range(1, 8)
        if s[k][0] == ")" and k <= 6 and k - open_brackets(s[:k])[0][-1][0] >= 3
    }
    found = dependency_prefixes(language, 4000, least=3, max_length=6, seed=1)
    assert {prefix.tokens for prefix in found} == possible
    with_one = sum(
        any(s[:k] in possible and s[k][0] == ")" for k in range(1, 7))
        for s in (string.tokens for string in strings(language, 65536, 1))
    )
    first_batch = dependency_prefixes(language, with_one, least=3, max_length=6, seed=1)
    assert len(first_batch) == with_one


def test_nests_with_a_filler() -> None:
    found = depth_prefixes(RELEASED, 72, depths=range(15, 51), seed=5)
    assert [prefix.depth for prefix in found] == [*range(15, 51)] * 2
    places = set()
    for prefix, filler in zip(found, strings(RELEASED, 72, 5), strict=True):
        check(prefix)
        n, d = len(filler.tokens), prefix.depth
        assert len(prefix.tokens) == 2 * d - 1 + n
        without = {i: prefix.tokens[:i] + prefix.tokens[i + n :] for i in range(2 * d)}
        place, nest = next(
            (i, rest)
            for i, rest in without.items()
            if prefix.tokens[i : i + n] == filler.tokens
            and "".join(token[0] for token in rest) == "(" * d + ")" * (d - 1)
        )
        places.add(place * 3 // (2 * d))
        assert [t[1:] for t in nest[1:d]] == [t[1:] for t in reversed(nest[d:])]
        assert prefix.closer == f"){nest[0][1:]}"
        assert {int(token[1:]) for token in nest} <= set(range(1, 11))
    assert places == {0, 1, 2}


@pytest.mark.parametrize("kind", ["dependency", "depth"])
def test_seeds(kind: str) -> None:
    def make(number: int, seed: int) -> list[BracketPrefix]:
        if kind == "depth":
            return depth_prefixes(RELEASED, number, depths=range(3, 9), seed=seed)
        return dependency_prefixes(Dyck(), number, least=10, max_length=100, seed=seed)

    assert make(5, 1) == make(20, 1)[:5]
    assert make(20, 1) == make(20, 1)
    assert not set(make(20, 1)) & set(make(20, 2))


@pytest.mark.parametrize("kind", ["dependency", "depth"])
def test_choices_and_strings_have_their_own_random_streams(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[tuple[int, ...]] = []
    make_stream = np.random.default_rng

    def record(seed: list[int]) -> np.random.Generator:
        streams.append(tuple(np.random.SeedSequence(seed).generate_state(4).tolist()))
        return make_stream(seed)

    monkeypatch.setattr(np.random, "default_rng", record)
    if kind == "depth":
        depth_prefixes(Dyck(depth=2), 65537, depths=[1], seed=3)
    else:
        dependency_prefixes(Dyck(depth=2), 40000, least=1, max_length=1, seed=3)
    assert len(streams) >= 3
    assert len(set(streams)) == len(streams)


def test_what_no_string_has(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    batches = Dyck.batches

    def counted(language: Dyck, seed: int) -> Iterator[StringArrays]:
        for batch in batches(language, seed):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(Dyck, "batches", counted)
    monkeypatch.setattr(bracket_prefixes, "_MOST_STRINGS", 1 << 17)  # of millions
    with pytest.raises(PdtoolsError, match="no dependency of at least 28 tokens") as caught:
        dependency_prefixes(Dyck(depth=2, max_dependency=27), 1, least=28, max_length=99, seed=1)
    assert str(caught.value).endswith(f" in {sum(sizes)} strings")
    assert sum(sizes[:-1]) < 1 << 17 <= sum(sizes)


def test_files(tmp_path: Path) -> None:
    prefixes = depth_prefixes(RELEASED, 10, depths=[4, 5], seed=2)
    path = tmp_path / "depth.tsv.gz"
    write_prefixes(prefixes, path)
    assert read_prefixes(path) == prefixes


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("(1 (2\t)1\t2\t2", "does not close"),
        ("(1 (2\t)2\t2\t2", r"\)2 is not 2 tokens after its opener"),
        ("(1 x\t)1\t2\t1", "no prefix of brackets"),
        ("(1\t)1\t1", "no prefix of brackets"),
        ("(1\t)1\tone\t1", "no prefix of brackets"),
        ("(1\t(2\t0\t1", r"\(2 is no closer"),
        ("\t)1\t1\t1", "no prefix of brackets"),
    ],
)
def test_bad_lines(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(f"prefix\tcloser\tdependency\tdepth\n(1\t)1\t1\t1\n{line}\n")
    with pytest.raises(InputError, match=reason) as caught:
        read_prefixes(path)
    assert f"{path}:3" in str(caught.value)


@pytest.mark.parametrize("text", ["", "prefix\tcloser\n", "prefix\tcloser\tdependency\tdepth\n"])
def test_no_prefixes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match="no header|no prefixes"):
        read_prefixes(path)
