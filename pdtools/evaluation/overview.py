"""Two models side by side: the main score of every evaluation that both have results of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.compare import compare_runs
from pdtools.evaluation.results import RESULTS, read_results

_PERPLEXITIES = {
    "ppl_word_given_trees": "perplexity per word, given the trees",
    "ppl_word_marginal": "perplexity per word, marginal",
}


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
    task = first["settings"].get("task")
    if task != second["settings"].get("task"):
        raise InputError(f"results of another evaluation than {a}", file=b)
    if task == "parse":
        text = _parse_name(first) + _unequal(first, second, "scored")
        yield Headline(folder=name, score=text, a=first["scores"]["f1"], b=second["scores"]["f1"])
    elif task == "ppl":
        over = _unequal(first, second, "sentences")
        for key, text in _PERPLEXITIES.items():
            yield Headline(folder=name, score=text + over, a=first["scores"][key], b=second["scores"][key])
    else:
        overall = compare_runs(a, b, samples=1)["groups"][0]
        text = "BLiMP accuracy (%)" if task == "blimp" else "SG score, mean of suites (%)"
        yield Headline(folder=name, score=text, a=100 * overall.a, b=100 * overall.b, p=overall.p)


def _unequal(a: dict[str, Any], b: dict[str, Any], count: str) -> str:
    """What to say where two scores are not over the same number of sentences."""
    of_a, of_b = a["counts"][count], b["counts"][count]
    return "" if of_a == of_b else f", over {of_a} and {of_b} sentences"


def _parse_name(document: dict[str, Any]) -> str:
    settings = document["settings"]
    kind = "labeled" if settings["labeled"] else "unlabeled"
    trees = "" if settings["binarize"] == "none" else f", {settings['binarize']}-binarized"
    return f"{kind} F1{trees} (%)"
