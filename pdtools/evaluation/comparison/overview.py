"""Two models side by side: the main score of every evaluation that both have results of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.comparison.compare import compare_runs
from pdtools.evaluation.record import evaluation_of
from pdtools.evaluation.results import RESULTS, check_columns, read_results

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """One score of two models.

    Attributes:
        folder: the results folder's name, the same under both.
        score: what it is, with its unit.
        a, b: its values; None where a model has none.
        p: McNemar's exact test over the items; None where items are not right or wrong.
        notes: what differs in how the two were made, and changes the score.
        refused: why the two cannot be compared, and there is no score; None if they can.
    """

    folder: str
    score: str
    a: float | None
    b: float | None
    p: float | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None


def is_collection(folder: str | Path) -> bool:
    """Whether a folder holds results folders, and is none itself."""
    return not (Path(folder) / RESULTS).is_file() and any(Path(folder).glob(f"*/{RESULTS}"))


def overview(a: str | Path, b: str | Path) -> list[Headline]:
    """The main scores of two models.

    Args:
        a, b: folders with a results folder for each evaluation, of the same name under both.

    Raises:
        PdtoolsError: if they share no results folder, or none that can be compared.
    """
    a, b = Path(a), Path(b)
    shared = sorted(
        {p.parent.name for p in a.glob(f"*/{RESULTS}")} & {p.parent.name for p in b.glob(f"*/{RESULTS}")}
    )
    if not shared:
        raise InputError(f"no results folder with the same name as one in {a}", file=b)
    found: list[Headline] = []
    errors: list[PdtoolsError] = []
    for name in shared:
        try:
            found += _headlines(name, a / name, b / name)
        except PdtoolsError as error:
            errors.append(error)
            found.append(Headline(folder=name, score=name, a=None, b=None, refused=str(error)))
    if len(errors) == len(shared):
        raise errors[0]
    return found


def _headlines(name: str, a: Path, b: Path) -> list[Headline]:
    (first, items_a), (second, items_b) = read_results(a), read_results(b)
    compared = comparability(first, second)
    record = evaluation_of(first)
    outcomes = None if record is None else record.outcomes
    if outcomes is not None and evaluation_of(second) is record:
        found = compare_runs(a, b, samples=1)
        overall, notes = found["groups"][0], tuple(found["notes"])
        if overall.level != "overall":
            raise InputError("none of its suites counts in the SG score", file=a)
        return [
            Headline(
                folder=name,
                score=outcomes.score,
                a=100 * overall.a,
                b=100 * overall.b,
                p=overall.p,
                notes=notes,
            )
        ]
    if compared.refused is not None:
        raise InputError(f"results of {compared.refused} than {a}", file=b)
    if record is None:
        raise InputError("not results of an evaluation with a main score: move it elsewhere", file=a)
    scores_a, scores_b = (record.main_scores(document) for document in (first, second))
    # Two models need not have the same scores: one may be masked, or read no trees.
    shared = [score for score in scores_a if score in scores_b]
    if not shared:
        raise InputError(f"no score that {a} has too: rename one of the two folders", file=b)
    shared = record.shared(shared, (first, second))
    if not shared:
        reason = f"cannot be compared with {a}: only one of them counts end-of-sentence"
        raise InputError(reason, file=b, hint="eval-ppl of today also gives scores without it")
    left_out: tuple[str, ...] = ()
    if "layout" not in compared.differs:  # otherwise rows are not the same sentences
        left_out = _left_out(_scored(items_a, a), _scored(items_b, b))
    headlines = []
    for score in shared:
        (value_a, counts_a), (value_b, counts_b) = scores_a[score], scores_b[score]
        differing = [f", over {x} and {y}" for x, y in zip(counts_a, counts_b, strict=True) if x != y]
        notes = tuple(
            note for key, note in compared.differs.items() if score.endswith(record.concerned.get(key, ""))
        )
        notes += left_out
        over = "".join(differing[:1])
        headlines.append(Headline(folder=name, score=score + over, a=value_a, b=value_b, notes=notes))
    return headlines


def _scored(items: pa.Table, folder: Path) -> set[int] | None:
    """The sentences that have a score, by row of the shards or line of the trees; None if items are none."""
    import pyarrow.compute as pc

    if "status" in items.column_names:
        check_columns(items, {"status": "strings", "line": "integers"}, folder)
        return set(items.filter(pc.equal(items["status"], "scored"))["line"].to_pylist())
    if "id" in items.column_names:
        check_columns(items, {"id": "integers"}, folder)
        return set(items["id"].to_pylist())
    return None


def _left_out(a: set[int] | None, b: set[int] | None) -> tuple[str, ...]:
    """Whether one model could not score sentences that the other could."""
    if a is None or b is None or a == b:
        return ()
    return (f"sentences that only one could score: {len(a - b)} and {len(b - a)}",)
