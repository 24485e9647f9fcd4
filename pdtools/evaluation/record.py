"""An evaluation as one record: all its properties for commands, comparisons, pages and cards.

A record is in its evaluation's folder (``pdtools/evaluation/blimp/record.py``). Another package brings one
through the entry point group ``pdtools.evaluations``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from pdtools.errors import PdtoolsError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pdtools.search.model import Model

GROUP = "pdtools.evaluations"
# Kinds of values in a document of results, as errors name them.
COUNT, NUMBER, SCORE = "a whole number", "a number", "a number or null"
STRING, FLAG, OBJECT, STRINGS = "a string", "true or false", "an object", "a list of strings"
OBJECT_OR_NULL, SOME_STRINGS = "an object or null", "a list of strings that is not empty"

MARGIN = "margin_bits"
"""The items' column, and the entry of scores, with margins."""

Document = Mapping[str, Any]
"""The content of ``results.json``."""
Statistic = Callable[["NDArray[np.float64]", "NDArray[np.int64] | None"], "NDArray[np.float64]"]
"""Scores (S, R) from numbers of items (K, R, m) and multiplicities in samples (S, K); None: each once."""
MainScores = dict[str, tuple[float | None, tuple[str, ...]]]
"""Main scores by name, with unit: the value, and the number and kind of what it is over."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Items that are right or wrong: how they are recognised and grouped.

    Their table has a column ``correct`` (true, false; null without a score), and strings in the columns
    named here, except ``item`` and ``prediction``, which are numbers; none of ``key`` and ``unit`` is null.
    ``scores.overall`` is a fraction of 1, and ``counts`` has the number scored.

    Attributes:
        score: the overall score's name, with its unit.
        counted: the unit in ``counts.…_scored``.
        key: the columns that name an item.
        content: columns that have to agree for items of one name.
        unit: the overall score is the mean over these.
        levels: coarser groups, means of their units.
        over_items: levels whose scores are means over their items instead.
        outside: units that the overall score and the levels exclude.
        chance: the share of right items by guessing; None: not known.
        margin: the name of the mean margin, with its unit, for evaluations whose items have a column
            ``margin_bits`` and whose scores have ``margin_bits.overall``: the amounts, in bits, by which
            predictions hold. It is compared as the overall score is.
    """

    score: str
    counted: str
    key: tuple[str, ...]
    content: tuple[str, ...]
    unit: str
    levels: tuple[str, ...] = ()
    over_items: tuple[str, ...] = ()
    outside: frozenset[str] = frozenset()
    chance: float | None = None
    margin: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the items that comparisons read."""
        return (*dict.fromkeys((*self.key, *self.content, self.unit, *self.levels)), "correct")

    def as_data(self) -> dict[str, Any]:
        """The outcomes' attributes, JSON-ready."""
        return {**asdict(self), "outside": sorted(self.outside)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Outcomes:
        """Undo :meth:`as_data`."""
        lists: dict[str, Any] = {
            name: tuple(data[name]) for name in ("key", "content", "levels", "over_items")
        }
        others = {name: data[name] for name in ("score", "counted", "unit", "chance", "margin")}
        return cls(**lists, **others, outside=frozenset(data["outside"]))

    def main_scores(self, document: Document) -> MainScores:
        """The overall score, in percent, and the mean margin if there is one."""
        scores = document["scores"]
        value, margin = scores.get("overall"), scores.get(MARGIN, {}).get("overall")
        over = (f"{document['counts'].get(f'{self.counted}_scored')} {self.counted}",)
        found: MainScores = {self.score: (None if value is None else 100 * value, over)}
        return found if self.margin is None or margin is None else {**found, self.margin: (margin, over)}


class ItemScore(Protocol):
    """A score that is a function of items, so that a bootstrap can draw it many times at once."""

    @property
    def key(self) -> str:
        """The column that names an item."""
        ...

    @property
    def content(self) -> tuple[str, ...]:
        """Columns that have to agree for items of one name, if both are known."""
        ...

    @property
    def items(self) -> str:
        """The name of items, in the plural."""
        ...

    @property
    def is_share(self) -> bool:
        """Return whether an item's first number tells that it is right: McNemar's test applies."""
        ...

    def read(self, table: pa.Table, folder: str | Path) -> Mapping[Any, tuple[float, ...]] | None:
        """The numbers of each item; None if the table does not have them."""
        ...

    @property
    def statistic(self) -> Statistic:
        """The function from the numbers to the score."""
        ...


def _none(*_: Any) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The record of a kind of evaluation: its names, and the ways to read, print and draw its results.

    Attributes:
        name: ``settings.task`` of its results.
        title: a heading.
        in_text: its name within a sentence.
        printer: the function that prints its results, as ``module:function``.
        drawing: its drawing on pages (:class:`pdtools.report.view.drawing.Drawing`), as ``module:name``;
            None: items that are right or wrong are listed.
        read: the kinds of values read from its documents, by their paths; ``*`` is any name.
        may_be_missing: prefix of the paths that a document may lack; " ": none.
        outcomes: for items that are right or wrong; None for other evaluations.
        scores: gives the main scores of a document; with ``outcomes`` the overall one.
        item_score: gives the item score of a main score, by its label; None: it is compared without items.
        columns: the items' columns that ``item_score`` reads.
        lower_is_better: whether low scores are good.
        geometric: whether scores are perplexities: their logarithms are averaged and compared.
        same: settings that two comparable results share, with the words for data that differ in them.
        data: prefix of the roles of inputs that are the data; None: items or settings tell.
        ignores_end: whether scores do not depend on whether end-of-sentence is counted.
        without_end: labels of scores for models of which only some count end-of-sentence.
        concerned: settings that only some scores depend on, with the end of these scores' labels.
        bound: gives the bound that a document's score is, by its label ("upper bound at beam 10"); None:
            exact.
        untested: gives the reason why a score of two documents, by its label, has no difference and no test;
            None: it has.
        evaluate: for other packages' evaluations, called by their command (``eval-`` and the name) with the
            paths of its data, a :class:`pdtools.search.Model` (a score in nats for each sentence, or the
            reason why there is none) and a progress bar (``Progress`` of :mod:`pdtools.evaluation.results`);
            it returns ``Results``, whose ``settings.task`` is the name.
        card: scores that a model's card lists, by their keys; in percent if there are ``outcomes``.
    """

    name: str
    title: str
    in_text: str
    printer: str = "pdtools.report.evaluations:print_scores"
    drawing: str | None = None
    read: Mapping[str, str] = field(default_factory=dict)
    may_be_missing: str = " "
    outcomes: Outcomes | None = None
    scores: Callable[[Document], MainScores] | None = None
    item_score: Callable[[str, Document], ItemScore | None] = _none
    columns: tuple[str, ...] = ()
    lower_is_better: bool = False
    geometric: bool = False
    same: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    ignores_end: bool = False
    without_end: frozenset[str] = frozenset()
    concerned: Mapping[str, str] = field(default_factory=dict)
    bound: Callable[[str, Document], str | None] = _none
    untested: Callable[[str, Document, Document], str | None] = _none
    evaluate: Callable[[Sequence[str], Model, Any], Any] | None = None
    card: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns_compared(self) -> set[str]:
        """The columns of items that comparisons read."""
        return {"status", MARGIN, *self.columns, *(self.outcomes.columns if self.outcomes else ())}

    def as_data(self, document: Document) -> dict[str, Any]:
        """The record as its results hold it, JSON-ready, for readers that lack it.

        Args:
            document: a document of results, in the form of ``read``.
        """
        return {
            "title": self.title,
            "in_text": self.in_text,
            "lower_is_better": self.lower_is_better,
            "scores": {
                label: {"value": value, "over": list(over)}
                for label, (value, over) in self.main_scores(document).items()
            },
            "items": None if self.outcomes is None else self.outcomes.as_data(),
        }

    def main_scores(self, document: Document) -> MainScores:
        """The main scores of its results, by label."""
        if self.scores is not None:
            return self.scores(document)
        return {} if self.outcomes is None else self.outcomes.main_scores(document)

    def shared(self, labels: Sequence[str], documents: Sequence[Document]) -> list[str]:
        """The scores that compare results: without ends of sentences, if only some count these."""
        if not self.without_end:
            return list(labels)
        counted = [document["settings"].get("eos_counted") for document in documents]
        differ = any(each != counted[0] for each in counted)
        return [label for label in labels if (label in self.without_end) == differ]


# In the order of pages; the module ``record`` of each has ``EVALUATIONS``.
_FOLDERS = ("blimp", "sg", "parsing", "perplexity", "formal", "reading", "classification")


@cache
def evaluations() -> Mapping[str, Evaluation]:
    """All evaluations by name: pdtools' own, then other packages'.

    Raises:
        PdtoolsError: if another package brings an invalid record, or one of a name that exists.
    """
    modules = (import_module(f"pdtools.evaluation.{name}.record") for name in _FOLDERS)
    found = {record.name: record for module in modules for record in module.EVALUATIONS}
    for entry in entry_points(group=GROUP):
        try:
            record = entry.load()
        except Exception as error:  # another package's code may raise anything
            raise _of_other_package(entry, f"cannot be loaded: {error}") from error
        if not isinstance(record, Evaluation):
            raise _of_other_package(entry, "is no Evaluation")
        if record.name in found:
            raise _of_other_package(entry, f"has a name that is there already, {record.name}")
        if record.name != entry.name:
            raise _of_other_package(entry, f"is called {record.name}, its entry point {entry.name}")
        found[record.name] = record
    return found


def _of_other_package(entry: EntryPoint, reason: str) -> PdtoolsError:
    package = "another package" if entry.dist is None else entry.dist.name
    return PdtoolsError(f"the evaluation {entry.value} of {package} {reason}: mend or uninstall that package")


def evaluation_of(document: Document) -> Evaluation | None:
    """The record of results' evaluation, or, if none is installed, the one in the results.

    None if they hold none.
    """
    task = document["settings"].get("task")
    record, data = evaluations().get(task), document.get("evaluation")
    if record is not None or data is None:
        return record
    return Evaluation(
        name=task,
        **{name: data[name] for name in ("title", "in_text", "lower_is_better")},
        outcomes=None if data["items"] is None else Outcomes.from_data(data["items"]),
        scores=_own_scores,
        card={} if data["items"] is None else {"overall": data["items"]["score"]},
    )


READ_OF_ITSELF = {
    **{f"evaluation.{name}": STRING for name in ("title", "in_text")},
    "evaluation.lower_is_better": FLAG,
    "evaluation.scores": OBJECT,
    "evaluation.scores.*.value": SCORE,
    "evaluation.scores.*.over": STRINGS,
    "evaluation.items": OBJECT_OR_NULL,
}
"""The kinds of the values of :meth:`Evaluation.as_data` in a document."""
READ_OF_ITEMS = {
    **{f"evaluation.items.{name}": STRING for name in ("score", "counted", "unit")},
    "evaluation.items.key": SOME_STRINGS,
    **{f"evaluation.items.{name}": STRINGS for name in ("content", "levels", "outside")},
    "evaluation.items.chance": SCORE,
}
"""The kinds of the values of its ``items``, if they are not null."""


def _own_scores(document: Document) -> MainScores:
    found = document["evaluation"]["scores"].items()
    return {label: (each["value"], tuple(each["over"])) for label, each in found}
