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
        of_a, of_b = main.of(first), main.of(second)
        # Two models need not have the same scores: one may be masked, or read no trees.
        shared = [score for score in of_a if score in of_b]
        if not shared:
            raise InputError(f"no score that {a} has too", file=b)
        over = main.unequal(first["counts"], second["counts"])
        for score in shared:
            yield Headline(folder=name, score=score + over, a=of_a[score], b=of_b[score])
    else:
        raise InputError("not results of an evaluation with a main score", file=a)


def _evaluation(document: dict[str, Any]) -> tuple[Any, Any]:
    """What was evaluated: which command, and of eval-task which task."""
    settings = document["settings"]
    return settings.get("task"), settings.get("formal_task")


def _of_parsing(document: dict[str, Any]) -> dict[str, float | None]:
    settings = document["settings"]
    kind = "labeled" if settings["labeled"] else "unlabeled"
    trees = "" if settings["binarize"] == "none" else f", {settings['binarize']}-binarized"
    return {f"{kind} F1{trees} (%)": document["scores"]["f1"]}


def _of_perplexity(document: dict[str, Any]) -> dict[str, float | None]:
    scores = document["scores"]
    return {text: scores[key] for key, text in _PERPLEXITIES.items() if key in scores}


def _of_prefixes(document: dict[str, Any]) -> dict[str, float | None]:
    sets = document["scores"]["by_set"]
    return {f"closing bracket, {name} (%)": 100 * each["accuracy"] for name, each in sets.items()}


def _of_strings(document: dict[str, Any]) -> dict[str, float | None]:
    return {"nats a symbol above the bound": document["scores"]["difference"]}


def _of_answers(document: dict[str, Any]) -> dict[str, float | None]:
    accuracy = document["scores"]["accuracy_beyond_training"]
    text = f"{document['settings']['formal_task']}, symbols of longer strings (%)"
    return {text: None if accuracy is None else 100 * accuracy}


@dataclass(frozen=True, kw_only=True, slots=True)
class _MainScores:
    """Of one evaluation.

    Attributes:
        of: its results document to its main scores, by what they are.
        counted: the count of what they are over.
        items: what these are.
    """

    of: Callable[[dict[str, Any]], dict[str, float | None]]
    counted: str
    items: str

    def unequal(self, a: dict[str, int], b: dict[str, int]) -> str:
        """What to say where two models' scores are not over the same number of items."""
        of_a, of_b = a[self.counted], b[self.counted]
        return "" if of_a == of_b else f", over {of_a} and {of_b} {self.items}"


_MAIN_SCORES = {
    "parse": _MainScores(of=_of_parsing, counted="scored", items="sentences"),
    "ppl": _MainScores(of=_of_perplexity, counted="sentences", items="sentences"),
    "dyck": _MainScores(of=_of_prefixes, counted="prefixes", items="prefixes"),
    "cfl": _MainScores(of=_of_strings, counted="strings", items="strings"),
    "task": _MainScores(of=_of_answers, counted="pairs", items="strings"),
}
