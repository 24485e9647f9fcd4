"""What is said of one score of two runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The scores a and b of one group of items in two runs, as fractions of 1.

    Attributes:
        level, name: which group; of answers to prompts, which score.
        items: how many items both runs have scored.
        a, b: the scores, over those items: the mean of the group's units (paradigms, suites).
        low, high: 95% interval of b − a, by a bootstrap over items, paired and stratified by unit.
        only_a, only_b: items that only one of them has right; None of numbers.
        p: McNemar's exact test on those, two-sided; of F1 and correlations that of a paired bootstrap.
    """

    level: str
    name: str
    items: int
    a: float
    b: float
    low: float
    high: float
    only_a: int | None
    only_b: int | None
    p: float

    @property
    def difference(self) -> float:
        """b − a."""
        return self.b - self.a
