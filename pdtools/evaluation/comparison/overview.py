"""Two models side by side: the main score of every evaluation that both have results of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.classification import CLASSIFY, NAMES
from pdtools.evaluation.comparison.comparability import comparability
from pdtools.evaluation.comparison.compare import compare_runs
from pdtools.evaluation.comparison.items import TASKS
from pdtools.evaluation.results import RESULTS, check_columns, read_results

if TYPE_CHECKING:
    import pyarrow as pa

PERPLEXITIES = {
    "ppl_word_given_trees": "perplexity per word, given the trees",
    "ppl_word_marginal": "perplexity per word, marginal",
    "ppl_token_masked": "perplexity per hidden token",
}
# Of models of which only some count end-of-sentence.
WITHOUT_EOS = {
    "ppl_word_without_eos_given_trees": "perplexity per word without end-of-sentence, given the trees",
    "ppl_word_without_eos_marginal": "perplexity per word without end-of-sentence, marginal",
}
# Settings that only some perplexities depend on, by the end of their names.
_ONLY_OF = {"beam": "marginal", "trees": "given the trees"}


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
    task = first["settings"].get("task")
    if task in TASKS and second["settings"].get("task") == task:
        found = compare_runs(a, b, samples=1)
        overall, notes = found["groups"][0], tuple(found["notes"])
        if overall.level != "overall":
            raise InputError("none of its suites counts in the SG score", file=a)
        score = TASKS[task].score
        return [
            Headline(folder=name, score=score, a=100 * overall.a, b=100 * overall.b, p=overall.p, notes=notes)
        ]
    if compared.refused is not None:
        raise InputError(f"results of {compared.refused} than {a}", file=b)
    if task not in MAIN_SCORES:
        raise InputError("not results of an evaluation with a main score: move it elsewhere", file=a)
    scores_a, scores_b = (MAIN_SCORES[task](document) for document in (first, second))
    # Two models need not have the same scores: one may be masked, or read no trees.
    shared = [score for score in scores_a if score in scores_b]
    if not shared:
        raise InputError(f"no score that {a} has too: rename one of the two folders", file=b)
    if task == "ppl":
        one_counts_ends = first["settings"].get("eos_counted") != second["settings"].get("eos_counted")
        shared = [score for score in shared if (score in WITHOUT_EOS.values()) == one_counts_ends]
        if not shared:
            reason = f"cannot be compared with {a}: only one of them counts end-of-sentence"
            hint = "eval-ppl of today also gives scores without it"
            raise InputError(reason, file=b, hint=hint)
    left_out: tuple[str, ...] = ()
    if "layout" not in compared.differs:  # otherwise rows are not the same sentences
        left_out = _left_out(_scored(items_a, a), _scored(items_b, b))
    headlines = []
    for score in shared:
        (value_a, counts_a), (value_b, counts_b) = scores_a[score], scores_b[score]
        differing = [f", over {x} and {y}" for x, y in zip(counts_a, counts_b, strict=True) if x != y]
        notes = tuple(
            note
            for key, note in compared.differs.items()
            if score.endswith(_ONLY_OF.get(key, "") if task == "ppl" else "")
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


_Scores = dict[str, tuple[float | None, tuple[str, ...]]]
"""Main scores by what they are: the value, and over how many of what."""


def _of_parsing(document: dict[str, Any]) -> _Scores:
    settings = document["settings"]
    kind = "labeled" if settings["labeled"] else "unlabeled"
    trees = "" if settings["binarize"] == "none" else f", {settings['binarize']}-binarized"
    return {
        f"{kind} F1{trees} (%)": (document["scores"]["f1"], (f"{document['counts']['scored']} sentences",))
    }


def _of_perplexity(document: dict[str, Any]) -> _Scores:
    scores, counts = document["scores"], document["counts"]
    found: _Scores = {}
    for names, unit in ((PERPLEXITIES, "words"), (WITHOUT_EOS, "words_without_eos")):
        over = (f"{counts['sentences']} sentences", f"{counts.get(unit)} words")
        found |= {text: (scores[key], over) for key, text in names.items() if key in scores}
    return found


def _of_prefixes(document: dict[str, Any]) -> _Scores:
    return {
        f"closing bracket, {name} (%)": (100 * each["accuracy"], (f"{each['prefixes']} prefixes",))
        for name, each in document["scores"]["by_set"].items()
    }


def _of_strings(document: dict[str, Any]) -> _Scores:
    items = (f"{document['counts']['strings']} strings",)
    return {"nats a symbol above the bound": (document["scores"]["difference"], items)}


def _of_answers(document: dict[str, Any]) -> _Scores:
    accuracy = document["scores"]["accuracy_beyond_training"]
    text = f"{document['settings']['formal_task']}, symbols of longer strings (%)"
    strings = (f"{document['counts']['pairs']} strings",)
    return {text: (None if accuracy is None else 100 * accuracy, strings)}


def _of_classification(document: dict[str, Any]) -> _Scores:
    scores, task = document["scores"], document["settings"]["prompt_task"]
    items = (f"{document['counts']['items_labelled']} items",)
    found = {name: scores.get(name) for name in NAMES if name in scores}
    return {
        f"{task}, {NAMES[name]} (%)": (None if value is None else 100 * value, items)
        for name, value in found.items()
    }


def _of_reading(document: dict[str, Any]) -> _Scores:
    models = document["scores"]["by_model"]
    over = (f"{document['counts']['words_regressed']} words",)
    names = {name: "" if len(models) == 1 else f", {name}" for name in models}
    return {
        f"reading times, ΔLL (nats a word){names[name]}": (found["delta_ll"], over)
        for name, found in models.items()
    }


# Of each other evaluation.
MAIN_SCORES: dict[str, Callable[[dict[str, Any]], _Scores]] = {
    "parse": _of_parsing,
    "ppl": _of_perplexity,
    "dyck": _of_prefixes,
    "cfl": _of_strings,
    "task": _of_answers,
    CLASSIFY: _of_classification,
    "reading": _of_reading,
}
# Those whose scores are perplexities, or distances from a bound.
LOWER_IS_BETTER = ("ppl", "cfl")


def main_scores(document: dict[str, Any]) -> dict[str, tuple[float | None, tuple[str, ...]]]:
    """The main scores of one evaluation by what they are, with their unit: the value, over how many of what.

    Args:
        document: of ``results.json``.
    """
    task, scores, counts = document["settings"]["task"], document["scores"], document["counts"]
    if task in TASKS:
        value, unit = scores.get("overall"), "pairs" if task == "blimp" else "items"
        over = (f"{counts.get(f'{unit}_scored')} {unit}",)
        return {TASKS[task].score: (None if value is None else 100 * value, over)}
    return MAIN_SCORES[task](document) if task in MAIN_SCORES else {}
