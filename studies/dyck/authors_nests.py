"""Nests as the authors' code draws them: their fillers have a shape that no training string has.

Usage: authors_nests.py NUMBER FILE.tsv

The shape of a pair at the top level is its brackets without their types. The released generator keeps the
shapes of 200,000 strings of at least 4 tokens, and counts a string as unlike these if one of its pairs has
another shape. The released test strings are not in the repository's copy; that they are of this kind follows
from the length of what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from pdtools.formal.bracket_prefixes import depth_prefixes, write_prefixes
from pdtools.formal.dyck import Dyck
from pdtools.formal.language import StringArrays, draw

# As in the released code.
TRAINING_STRINGS, SHORTEST_STRING, LONGEST_STRING = 200_000, 4, 500
DEPTHS = range(15, 50)
_TRAINING_SEED, _SEED = 6, 7


@dataclass(frozen=True)
class Unlike(Dyck):
    """Strings of which a pair at the top level has a shape that no training string has.

    Only the draws are others than Dyck's; probabilities and expectations are not those of these strings.

    Attributes:
        training: number of training strings.
    """

    training: int = TRAINING_STRINGS

    @cached_property
    def seen(self) -> frozenset[bytes]:
        """The shapes of training strings."""
        drawn = draw(
            Dyck(brackets=self.brackets, depth=self.depth, min_length=self.min_length),
            self.training,
            _TRAINING_SEED,
        )
        return frozenset(shape for batch in drawn for shapes in self.shapes(batch) for shape in shapes)

    def shapes(self, batch: StringArrays) -> Iterator[list[bytes]]:
        """The shapes of the pairs of every string: for each token whether it opens."""
        opens = batch.tokens < self.brackets
        for start, stop in zip(batch.offsets, batch.offsets[1:], strict=False):
            own = opens[start:stop]
            ends = np.flatnonzero(np.cumsum(np.where(own, 1, -1)) == 0) + 1
            yield [part.tobytes() for part in np.split(own, ends[:-1])]

    def batches(self, seed: int) -> Iterator[StringArrays]:
        """See :meth:`Dyck.batches`."""
        for batch in super().batches(seed):
            kept = [i for i, shapes in enumerate(self.shapes(batch)) if not self.seen.issuperset(shapes)]
            parts = [batch.tokens[batch.offsets[i] : batch.offsets[i + 1]] for i in kept]
            offsets = np.cumsum([0, *map(len, parts)])
            yield StringArrays(np.concatenate([*parts, batch.tokens[:0]]), offsets)


def main(number: int, file: Path) -> None:
    """Write so many prefixes."""
    fillers = Unlike(min_length=SHORTEST_STRING, max_length=LONGEST_STRING)
    write_prefixes(depth_prefixes(fillers, number, depths=DEPTHS, seed=_SEED), file)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
