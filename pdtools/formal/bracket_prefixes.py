"""Prefixes of bracket strings whose next token must be a closer: the tests of Murty et al. (2023, table 1).

Two kinds, as in the authors' evaluation, but one prefix per string, so that intervals are valid:

- by *dependency*: the closer is at least L tokens after its opener, in strings nested deeper than training's;
- by *depth*: d brackets open and close again inside each other, all but the outermost one, which is to be
  closed; a well-nested filler is inserted somewhere between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_table, read_table
from pdtools.formal.dyck import Dyck, dyck_attachments
from pdtools.formal.language import StringArrays, strings

_COLUMNS = ("prefix", "closer", "dependency", "depth")
# Strings searched before a kind of prefix counts as impossible.
_MOST_STRINGS = 1 << 24
# Last words of seeds, so that no stream is one of Dyck.batches: [seed, batch], to numpy [seed, batch, 0].
_CHOICE, _NESTS = 1, 2
# Bracket types of nests: in the authors' tests the first ten of twenty.
_NEST_TYPES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketPrefix:
    """A prefix and the closer that has to follow.

    Attributes:
        tokens: the prefix, never empty.
        closer: the closer of its innermost open bracket.
        dependency: tokens from that bracket to the closer; 1 if adjacent.
        depth: the most brackets open at once; for prefixes made by depth, in the nest without its filler.
    """

    tokens: tuple[str, ...]
    closer: str
    dependency: int
    depth: int

    @property
    def open(self) -> int:
        """Brackets open at its end."""
        return sum(1 if token[0] == "(" else -1 for token in self.tokens)


def dependency_prefixes(
    language: Dyck, number: int, *, least: int, max_length: int, seed: int
) -> list[BracketPrefix]:
    """Prefixes that end before a closer with a long dependency: one per string, uniform over its candidates.

    Args:
        language: the source of strings.
        number: number of prefixes.
        least: the shortest dependency.
        max_length: tokens of the longest prefix.
        seed: the same seed gives the same prefixes; a larger number extends a smaller one's.

    Raises:
        PdtoolsError: if the language (almost) never has such a prefix.
    """
    found: list[BracketPrefix] = []
    looked_through = 0
    for number_of_batch, batch in enumerate(language.batches(seed)):
        rng = np.random.default_rng([seed, number_of_batch, _CHOICE])
        prefixes = _long_dependencies(batch, language.vocabulary, least, max_length, rng)
        found += islice(prefixes, number - len(found))
        looked_through += len(batch)
        if len(found) == number:
            return found
        if not found and looked_through >= _MOST_STRINGS:
            break
    raise PdtoolsError(
        f"no dependency of at least {least} tokens within {max_length} in {looked_through} strings"
    )


def _long_dependencies(
    batch: StringArrays, vocabulary: Sequence[str], least: int, max_length: int, rng: np.random.Generator
) -> Iterator[BracketPrefix]:
    assert batch.attach is not None
    string = np.repeat(np.arange(len(batch)), batch.lengths)  # (T) the string of each token
    position = np.arange(len(string)) - batch.offsets[string]  # (T)
    dependency = position - batch.attach  # (T) 0 for openers
    candidates = np.flatnonzero((dependency >= least) & (position <= max_length))
    candidates = rng.permutation(candidates)
    _, first = np.unique(string[candidates], return_index=True)
    for closer in candidates[first].tolist():
        tokens = batch.tokens[batch.offsets[string[closer]] : closer + 1].tolist()
        opens = np.array(tokens[:-1]) < len(vocabulary) // 2
        words = [vocabulary[token] for token in tokens]
        yield BracketPrefix(
            tokens=tuple(words[:-1]),
            closer=words[-1],
            dependency=int(dependency[closer]),
            depth=int(np.cumsum(np.where(opens, 1, -1)).max()),
        )


def depth_prefixes(filler: Dyck, number: int, *, depths: Sequence[int], seed: int) -> list[BracketPrefix]:
    """Nests that lack their last closer, with a string of ``filler`` inserted anywhere.

    Args:
        filler: the source of fillers.
        number: number of prefixes; the depths take turns.
        depths: numbers of brackets in the nests.
        seed: the same seed gives the same prefixes; a larger number extends a smaller one's.
    """
    types = min(filler.brackets, _NEST_TYPES)
    rng = np.random.default_rng([seed, 0, _NESTS])
    found = []
    for i, string in enumerate(strings(filler, number, seed)):
        depth = depths[i % len(depths)]
        opened = rng.integers(1, types, size=depth, endpoint=True).tolist()
        nest = [f"({t}" for t in opened] + [f"){t}" for t in opened[:0:-1]]  # 2 · depth - 1 tokens
        place = int(rng.integers(len(nest), endpoint=True))
        opener = len(string.tokens) if place == 0 else 0
        tokens = (*nest[:place], *string.tokens, *nest[place:])
        found.append(
            BracketPrefix(tokens=tokens, closer=f"){opened[0]}", dependency=len(tokens) - opener, depth=depth)
        )
    return found


def write_prefixes(prefixes: Iterable[BracketPrefix], path: str | Path, *, overwrite: bool = True) -> None:
    """Write prefixes as a table with a header: ``prefix`` (tokens between single spaces), then the rest.

    For ``path`` and ``overwrite`` see :func:`pdtools.files.atomic_table`.
    """
    with atomic_table(path, _COLUMNS, overwrite=overwrite) as write:
        for p in prefixes:
            write((" ".join(p.tokens), p.closer, p.dependency, p.depth))


def read_prefixes(path: str | Path) -> list[BracketPrefix]:
    """Read the table of :func:`write_prefixes`, every line checked.

    Raises:
        InputError: a line that is no such prefix: its file and number.
    """
    lines = read_table(path)
    if tuple(next(lines, (1, []))[1]) != _COLUMNS:
        reason = f"no header {' '.join(_COLUMNS)} (tabs between them)"
        raise InputError(reason, file=path, line=1, hint="pdtools generate dyck-prefixes writes such files")
    prefixes = [_parse(fields, path, number) for number, fields in lines]
    if not prefixes:
        raise InputError("no prefixes in it", file=path)
    return prefixes


def _parse(fields: Sequence[str], path: str | Path, number: int) -> BracketPrefix:
    try:
        text, closer, dependency, depth = fields
        prefix = BracketPrefix(
            tokens=tuple(text.split(" ")), closer=closer, dependency=int(dependency), depth=int(depth)
        )
        attach = dyck_attachments((*prefix.tokens, closer))
    except ValueError as error:
        raise InputError(f"no prefix of brackets with its closer: {error}", file=path, line=number) from None
    if closer[0] != ")":
        raise InputError(f"{closer} is no closer", file=path, line=number)
    if len(prefix.tokens) - int(attach[-1]) != prefix.dependency:
        raise InputError(f"{closer} is not {dependency} tokens after its opener", file=path, line=number)
    return prefix
