"""Two models side by side: the main score of every evaluation that both have results of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.compare import compare_runs
from pdtools.evaluation.results import RESULTS, read_results

_PERPLEXITIES = {
    "ppl_word_given_trees": "perplexity per word, given the trees",
    "ppl_word_marginal": "perplexity per word, marginal",
    "ppl_token_masked": "perplexity per hidden token",
}
# Evaluations whose items are right or wrong, and tested for that.
_PAIRED = {"blimp": "BLiMP accuracy (%)", "sg": "SG score, mean of suites (%)"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """One score of two models.

    Attributes:
        folder: the results folder's name, the same under both.
        score: what it is, with its unit.
        a, b: its values; None where a model has none.
        p: McNemar's exact test over the items; None where items are not right or wrong.
    """

    folder: str
    score: str
    a: float | None
    b: float | None
    p: float | None = None


def is_collection(folder: str | Path) -> bool:
    """Whether a folder holds results folders, and is none itself."""
    return not (Path(folder) / RESULTS).is_file() and any(Path(folder).glob(f"*/{RESULTS}"))


def overview(a: str | Path, b: str | Path) -> list[Headline]:
    """The main scores of two models.

    Args:
        a, b: folders with a results folder for each evaluation, of the same name under both.

    Raises:
        PdtoolsError: if they share no results folder, or two of one name are not comparable.
    """
    a, b = Path(a), Path(b)
    shared = sorted(
        {p.parent.name for p in a.glob(f"*/{RESULTS}")} & {p.parent.name for p in b.glob(f"*/{RESULTS}")}
    )
    if not shared:
        raise InputError(f"no results folder with the same name as one in {a}", file=b)
    return [headline for name in shared for headline in _headlines(name, a / name, b / name)]


def _headlines(name: str, a: Path, b: Path) -> Iterator[Headline]:
    first, second = read_results(a)[0], read_results(b)[0]
    if _evaluation(first) != _evaluation(second):
        raise InputError(f"results of another evaluation than {a}", file=b)
    task = first["settings"].get("task")
    if task in _PAIRED:
        overall = compare_runs(a, b, samples=1)["groups"][0]
        yield Headline(folder=name, score=_PAIRED[task], a=100 * overall.a, b=100 * overall.b, p=overall.p)
    elif task in _MAIN_SCORES:
        main = _MAIN_SCORES[task]
        of_a, of_b = main(first), main(second)
        # Two models need not have the same scores: one may be masked, or read no trees.
        shared = [score for score in of_a if score in of_b]
        if not shared:
            raise InputError(f"no score that {a} has too: rename one of the two folders", file=b)
        for score in shared:
            (value_a, items_a), (value_b, items_b) = of_a[score], of_b[score]
            over = "" if items_a == items_b else f", over {items_a} and {items_b}"
            yield Headline(folder=name, score=score + over, a=value_a, b=value_b)
    else:
        raise InputError("not results of an evaluation with a main score: move it elsewhere", file=a)


def _evaluation(document: dict[str, Any]) -> tuple[Any, ...]:
    """What was evaluated: which command, and of eval-task which task, of strings of which lengths are new."""
    settings = document["settings"]
    return tuple(settings.get(name) for name in ("task", "formal_task", "as_released", "trained_lengths"))


_Scores = dict[str, tuple[float | None, str]]
"""Main scores by what they are: the value, and over how many items."""


def _of_parsing(document: dict[str, Any]) -> _Scores:
    settings = document["settings"]
    kind = "labeled" if settings["labeled"] else "unlabeled"
    trees = "" if settings["binarize"] == "none" else f", {settings['binarize']}-binarized"
    return {f"{kind} F1{trees} (%)": (document["scores"]["f1"], f"{document['counts']['scored']} sentences")}


def _of_perplexity(document: dict[str, Any]) -> _Scores:
    scores, items = document["scores"], f"{document['counts']['sentences']} sentences"
    return {text: (scores[key], items) for key, text in _PERPLEXITIES.items() if key in scores}


def _of_prefixes(document: dict[str, Any]) -> _Scores:
    return {
        f"closing bracket, {name} (%)": (100 * each["accuracy"], f"{each['prefixes']} prefixes")
        for name, each in document["scores"]["by_set"].items()
    }


def _of_strings(document: dict[str, Any]) -> _Scores:
    items = f"{document['counts']['strings']} strings"
    return {"nats a symbol above the bound": (document["scores"]["difference"], items)}


def _of_answers(document: dict[str, Any]) -> _Scores:
    accuracy = document["scores"]["accuracy_beyond_training"]
    text = f"{document['settings']['formal_task']}, symbols of longer strings (%)"
    return {text: (None if accuracy is None else 100 * accuracy, f"{document['counts']['pairs']} strings")}


# Of each other evaluation.
_MAIN_SCORES: dict[str, Callable[[dict[str, Any]], _Scores]] = {
    "parse": _of_parsing,
    "ppl": _of_perplexity,
    "dyck": _of_prefixes,
    "cfl": _of_strings,
    "task": _of_answers,
}
