"""SG scores of many runs at once, from external results per item: ``model,suite,item,correct`` tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.outcomes import Tallies, Tally, scores_of
from pdtools.evaluation.results import ITEMS, Results, mean
from pdtools.evaluation.sg.record import CIRCUIT_OF, CONVENTIONS, OTHER
from pdtools.evaluation.sg.suites import SuiteItems
from pdtools.files import read_table
from pdtools.files.packed import has_ending
from pdtools.files.source import ZipMember
from pdtools.files.tables import by_column

# Hu et al. (2020) count the n-gram models of all seeds as one, by majority.
MAJORITY_MODEL = "ngram"

_COLUMNS = ("model", "suite", "item", "correct")
_MOST_DIGITS = 9
_TRUTH = {"true": True, "false": False, "1": True, "0": False}

Correct = dict[tuple[str, int], bool]
"""Outcomes: whether an item is right, by suite and item."""


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """A model, the corpus that it was trained on ("" if pretrained), and its seed."""

    model: str
    corpus: str
    seed: str

    @classmethod
    def parse(cls, name: str) -> Run:
        """Read ``model_corpus_seed``; a name with fewer parts is a model without corpus and seed."""
        parts = name.rsplit("_", 2)
        return cls(*parts) if len(parts) == 3 else cls(name, "", "")


def aggregate_items(sources: Iterable[str | Path]) -> Results:
    """Aggregate results per item into the scores of every run.

    The seeds of an n-gram model (named ``ngram``) are first merged into one run, in which an item is right
    iff it is in more than half of them. Every run is scored by
    :func:`sg_scores`. For a model and corpus with several seeds, the mean of
    each score is added, as a run with the seed ``mean``.

    Args:
        sources: CSV files or zips, see :func:`read_item_results`.

    Returns:
        ``scores["runs"]``: a list of objects with ``model``, ``corpus``, ``seed`` and the scores of that run.
        ``counts["items_missing"]``: by the name of a run, the number of items that only others have.
        Tables: ``items``, the aggregated items, after majorities; ``scores``, one row per run, level and
            name.

    Raises:
        InputError: if a file cannot be read, or there is no result in any.
    """
    named = read_item_results(sources)
    if not named:
        raise InputError("there is no result of any item in the input")
    runs = _by_majority({Run.parse(name): correct for name, correct in named.items()})
    scored = {run: sg_scores(tallies_of(runs[run])) for run in sorted(runs)}
    listed = [*scored.items(), *_means(scored)]
    every = {item for correct in named.values() for item in correct}
    counts = {
        "runs_read": len(named),
        "runs": len(runs),
        "items": sum(len(c) for c in runs.values()),
        "items_missing": {name: n for name in sorted(named) if (n := len(every - named[name].keys()))},
    }
    settings = {
        "task": "sg-items",
        "unit": "fraction of 1",
        "majority": f"the seeds of a model named {MAJORITY_MODEL} are one run: more than half right",
    }
    return Results(
        scores={"runs": [{**_names(run), **scores} for run, scores in listed]},
        counts=counts,
        settings=settings,
        tables={ITEMS: _items_table(runs), "scores": _scores_table(listed)},
    )


def _by_majority(runs: Mapping[Run, Correct]) -> dict[Run, Correct]:
    found: dict[Run, Correct] = {}
    seeds: dict[tuple[str, str], list[Correct]] = defaultdict(list)
    for run, correct in runs.items():
        if run.model == MAJORITY_MODEL:
            seeds[run.model, run.corpus].append(correct)
        else:
            found[run] = correct
    for (model, corpus), votes in seeds.items():
        found[Run(model, corpus, f"majority{len(votes)}")] = majority(votes)
    return found


def _means(scored: Mapping[Run, dict[str, Any]]) -> Iterator[tuple[Run, dict[str, Any]]]:
    seeds: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run, scores in scored.items():
        seeds[run.model, run.corpus].append(scores)
    for (model, corpus), several in seeds.items():
        if len(several) > 1:
            yield Run(model, corpus, "mean"), _mean_of(several)


def _mean_of(several: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of all scores that any of them has; None if one lacks it."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for scores in several for key in scores):
        values = [scores.get(key) for scores in several]
        if any(isinstance(value, dict) for value in values):
            found[key] = _mean_of([value or {} for value in values])
        else:
            known = [value for value in values if value is not None]
            found[key] = mean(known) if len(known) == len(values) else None
    return found


def _names(run: Run) -> dict[str, str]:
    return {"model": run.model, "corpus": run.corpus, "seed": run.seed}


def _items_table(runs: Mapping[Run, Correct]) -> Any:
    import pyarrow as pa

    rows = [
        {
            **_names(run),
            "suite": suite,
            "circuit": CIRCUIT_OF.get(suite, OTHER),
            "item": item,
            "correct": correct,
        }
        for run in sorted(runs)
        for (suite, item), correct in sorted(runs[run].items())
    ]
    text, names = pa.string(), ("model", "corpus", "seed", "suite", "circuit")
    return pa.Table.from_pylist(
        rows, schema=pa.schema({**dict.fromkeys(names, text), "item": pa.int64(), "correct": pa.bool_()})
    )


def _scores_table(listed: list[tuple[Run, dict[str, Any]]]) -> Any:
    import pyarrow as pa

    rows = []
    for run, scores in listed:
        rows += [{**_names(run), "level": level, "name": "", "score": scores[level]} for level in CONVENTIONS]
        for level in ("circuit", "suite"):
            rows += [
                {**_names(run), "level": level, "name": name, "score": score}
                for name, score in scores[f"by_{level}"].items()
            ]
    names = ("model", "corpus", "seed", "level", "name")
    return pa.Table.from_pylist(
        rows, schema=pa.schema({**dict.fromkeys(names, pa.string()), "score": pa.float64()})
    )


# --- files to outcomes ------------------------------------------------------------------------


def read_item_results(sources: Iterable[str | Path]) -> dict[str, Correct]:
    """Read results per item: for each model, whether the items of its suites are right.

    Args:
        sources: CSV files with the columns model, suite, item, correct (others are ignored), or zips of
            such files. A model is one run: name, corpus and seed as the files spell them.

    Raises:
        InputError: for a missing column, an unknown truth value, or an item that occurs twice in one model.
    """
    models: dict[str, Correct] = defaultdict(dict)
    for source in sources:
        is_zip = has_ending(source, ".zip")
        for file in ZipMember.within(str(source), (".csv",)) if is_zip else [str(source)]:
            for line, row in by_column(read_table(file), file, _COLUMNS):
                model, suite, item, correct = (row[name] for name in _COLUMNS)
                if correct.lower() not in _TRUTH:
                    reason = "a row without a truth value in its column correct"
                    raise InputError(reason, file=file, line=line)
                if not item.isdecimal() or len(item) > _MOST_DIGITS:
                    raise InputError(f"item {item[:40]!r} is no number", file=file, line=line)
                key = (suite, int(item))
                if key in models[model]:
                    reason = f"{model}: a second result of {suite} {int(item)}"
                    raise InputError(reason, file=file, line=line)
                models[model][key] = _TRUTH[correct.lower()]
    return dict(models)


def majority(models: Sequence[Mapping[tuple[str, int], bool]]) -> Correct:
    """Combine many models into one: an item is right iff more than half of them have it right.

    Hu et al. (2020) count their n-gram models in this way.
    """
    votes: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for model in models:
        for key, correct in model.items():
            votes[key].append(correct)
    return {key: 2 * sum(found) > len(found) for key, found in votes.items()}


def tallies_of(correct: Mapping[tuple[str, int], bool]) -> dict[str, Tallies]:
    """The counts of one model's items by circuit and suite, ready for :func:`sg_scores`."""
    found: dict[tuple[str | None, ...], Tally] = {}
    for (suite, _), is_right in correct.items():
        found.setdefault((CIRCUIT_OF.get(suite, OTHER), suite), Tally()).add("right" if is_right else "wrong")
    return {"1": found}


def sg_scores(tallies: Mapping[str, Tallies]) -> dict[str, Any]:
    """The scores of test suites from counts: by prediction, then by circuit and suite."""
    return scores_of(tallies, SuiteItems(()))
