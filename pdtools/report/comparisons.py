"""Printing of comparisons: of two results, of many, and the table of main scores for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pdtools.evaluation.bootstrap import FEW_ITEMS
from pdtools.evaluation.comparison.compare import ComparedModels
from pdtools.evaluation.comparison.engine import SEEDS_OF_ONE, ComparedScore, PairDifference
from pdtools.report.evaluations import with_bound, with_bounds
from pdtools.report.tables import (
    Cell,
    Number,
    decimal,
    decimals,
    is_latex,
    listed,
    print_note,
    print_table,
    scores_table,
)

_MARKS = ("†", "‡", "††", "‡‡")  # footnote marks
_LONG = 1e9  # beyond it two digits and a power of ten are shown
ONE_RUN_EACH = "one run each: p is over items, not over seeds"
GEOMETRIC = (
    "perplexities: means are geometric; deviations, intervals and differences are those of logarithms, given"
    " as perplexities"
)
Row = tuple[str, ComparedScore, "PairDifference | None"]
"""A row of a table of differences: its name, a score of two groups, and their difference, if any."""


def print_compared(found: ComparedModels, *, details: bool = False) -> None:
    """Print two single runs as columns; else every score of each group of models, then their differences.

    Coarser levels follow if only one evaluation is compared; with ``details`` all do, also those of margins.
    """
    of_two = len(found.groups) == 2 and all(len(group.folders) == 1 for group in found.groups)
    if of_two and found.baseline is None:
        _print_two(found, details=details)
    else:
        _print_many(found, details=details)
    if any(score.geometric for score in found.scores):
        print_note(GEOMETRIC)
    _print_evaluations(found)


def _print_two(found: ComparedModels, *, details: bool) -> None:
    a, b = (group.name for group in found.groups)
    _print_names(a, b)
    scores = dict(zip(_titles(found.overall), found.overall, strict=True))
    pairs = [pair for score in found.overall for pair in score.pairs]
    corrected = ["corrected"] if any(pair.family > 1 for pair in pairs) else []
    if scores:  # there is none if all suites are excluded from it
        rows = [
            (_with_bounds(title, score, {a: "a", b: "b"}), score, next(iter(score.pairs), None))
            for title, score in scores.items()
        ]
        _print_differences("score", (a, b), rows, ["95%", "p", *corrected])
    if len({score.evaluation for score in found.overall}) == 1:
        _print_of_scores({title: _about_items(of) for title, of in scores.items() if not of.is_margin})
    _print_about_p(pairs)
    _print_of_scores({title: score.notes for title, score in scores.items()})
    levels = _levels(found, details=details)
    finest = {score.evaluation: score.level for score in found.scores}  # levels go from coarse to fine
    for title, of_level in levels:
        level = of_level[0].level
        # Names of paradigms leave no room for intervals.
        columns = ["p"] if level == finest[of_level[0].evaluation] else ["95%", "p"]
        print()
        rows = [(each.name, each, each.pairs[0]) for each in of_level]
        _print_differences(level, (a, b), rows, columns, title)
    shown = [score for _, of_level in levels for score in of_level]
    few, said = (any(FEW_ITEMS in score.notes for score in of) for of in (shown, found.overall))
    if few and not said:
        print_note(FEW_ITEMS)


def _about_items(score: ComparedScore) -> tuple[str, ...]:
    """The number of items of a score, and of those that only one of two runs has right."""
    tested = [pair for pair in score.pairs if pair.only_a is not None]
    only = [f"right in only a {pair.only_a}, in only b {pair.only_b}" for pair in tested]
    return () if score.items is None else (": ".join([f"{score.items} items", *only]),)


def _print_of_scores(notes: Mapping[str, Sequence[str]]) -> None:
    """Print the notes on scores, each once, with the titles of those that have it, unless all do."""
    titles: dict[str, list[str]] = {}
    for title, of_score in notes.items():
        for note in of_score:
            titles.setdefault(note, []).append(title)
    for note, of in titles.items():
        print_note(note if len(of) == len(notes) else f"{'; '.join(of)}: {note}")


def _print_many(found: ComparedModels, *, details: bool) -> None:
    for title, score in zip(_titles(found.overall), found.overall, strict=True):
        _print_overall(title, score)
    for title, scores in _levels(found, details=details):
        for a, b in dict.fromkeys((pair.a, pair.b) for score in scores for pair in score.pairs):
            rows = [
                (score.name, score, pair)
                for score in scores
                for pair in score.pairs
                if (pair.a, pair.b) == (a, b)
            ]
            _print_names(a, b)
            _print_differences(scores[0].level, (a, b), rows, ["p", "corrected"], title)
            _print_about_p([pair for _, _, pair in rows])
            print()
    two = any(len(group.values) == 2 for score in found.scores for group in score.groups)
    print_note(
        "95%: over items; where a group has several seeds, over seeds and items"
        f"{' (with two runs it holds the true mean in 88 to 95 of 100 cases)' if two else ''}."
        " p: corrected, by Holm"
    )


def _print_overall(name: str, score: ComparedScore) -> None:
    digits = digits_of_score(score)
    print_table(
        ["group", "runs", "geometric mean" if score.geometric else "mean", "sd", "95%"],
        [
            (
                with_bound(each.group, each.bound),
                len(each.values),
                each.mean,
                each.deviation,
                _bounds(each.over_seeds or each.over_items, digits),
            )
            for each in score.groups
        ],
        digits=digits,
        title=name if score.items is None else f"{name}; {score.items} items",
    )
    if score.pairs:
        rows = [(f"{pair.b} - {pair.a}", *_cells(pair, digits).values()) for pair in score.pairs]
        print_table(["pair", "difference", "95%", "p", "corrected"], rows)
        _print_about_p(score.pairs)
    for note in score.notes:
        print_note(note)
    print()


def _print_differences(
    heading: str, names: tuple[str, str], rows: Sequence[Row], columns: Sequence[str], title: str = ""
) -> None:
    """Print a row for each score of two groups: the two means, their difference, and columns of it.

    LaTeX has room for the groups' names in the place of a and b.
    """
    digits = [digits_of_score(score) for _, score, _ in rows]
    cells: list[list[Cell]] = []
    for (name, score, pair), n in zip(rows, digits, strict=True):
        means = {each.group: each.mean for each in score.groups}
        of_pair = {} if pair is None else _cells(pair, n)
        a, b = means if pair is None else (pair.a, pair.b)
        cells.append([name, means[a], means[b], *(of_pair.get(each) for each in ("b - a", *columns))])
    first, second = names if is_latex() else ("a", "b")
    headings = [heading, first, second, f"{second} - {first}", *columns]
    print_table(headings, cells, title=title, digits=digits)


def _cells(pair: PairDifference, digits: int) -> dict[str, Cell]:
    """The cells of a difference, by column; ``digits`` are those of the means."""
    n = digits_of_difference(pair, digits)
    return {
        "b - a": decimal(pair.difference, n, "+"),
        "95%": _bounds(pair.over_seeds or pair.over_items, n, "+"),
        "p": None if pair.p is None else f"{pair.p:.2g}",
        "corrected": None if pair.p_holm is None else f"{pair.p_holm:.2g}",
    }


def _levels(found: ComparedModels, *, details: bool) -> list[tuple[str, list[ComparedScore]]]:
    """The scores of each further level that is shown, with their title."""
    tables: dict[tuple[str, str, str], list[ComparedScore]] = {}
    for score in found.scores:
        if score.level != "overall" and (details or not score.is_margin) and score.pairs:
            tables.setdefault((score.evaluation, score.score, score.level), []).append(score)
    if not details:  # the finest level, of paradigms or suites, is the last one
        is_single = len({score.evaluation for score in found.scores}) == 1
        coarser = list(tables)[:-1] if len(tables) > 1 else list(tables)
        tables = {key: tables[key] for key in coarser if is_single}
    return list(zip(_titles([scores[0] for scores in tables.values()]), tables.values(), strict=True))


def _titles(scores: Sequence[ComparedScore]) -> list[str]:
    """The names of scores; two of one name are told apart by their folders."""
    evaluations: dict[str, set[str]] = {}
    for score in scores:
        evaluations.setdefault(score.score, set()).add(score.evaluation)
    return [
        score.score if len(evaluations[score.score]) == 1 else f"{score.score}, {score.evaluation}"
        for score in scores
    ]


def print_main_scores(found: ComparedModels, *, latex: bool) -> None:
    """Print means and deviations of groups of seeds: models × scores for LaTeX; else a row for each score."""
    runs = {group.name: len(group.folders) for group in found.groups}
    labels = _titles(found.overall)
    scores = {
        label: {each.group: (each.mean, each.deviation) for each in score.groups}
        for label, score in zip(labels, found.overall, strict=True)
    }
    columns, rows = scores_table(scores, runs)
    footnotes: list[str] = []
    if latex:
        bounds = [{each.group: each.bound for each in score.groups if each.bound} for score in found.overall]
        said = list(dict.fromkeys(bound for of in bounds for bound in of.values()))
        marks = {bound: _MARKS[at % len(_MARKS)] for at, bound in enumerate(said)}
        first = len(columns) - len(scores)
        for row in rows:
            for at, of in enumerate(bounds, start=first):
                if row[0] in of:
                    row[at] = Number(f"{row[at]}{marks[of[str(row[0])]]}")
        footnotes = [f"{mark} {bound}" for bound, mark in marks.items()]
    else:
        names = [f"{name} ({n} runs)" if n > 1 else name for name, n in runs.items()]
        cells = [row[-len(scores) :] for row in rows]
        same = {name: name for name in runs}
        named = [_with_bounds(label, each, same) for label, each in zip(labels, found.overall, strict=True)]
        columns, rows = ["score", *names], [[each, *of] for each, *of in zip(named, *cells, strict=True)]
    print_table(columns, rows, footnotes=footnotes)
    _print_of_scores({label: score.notes for label, score in zip(labels, found.overall, strict=True)})
    if len(runs) < sum(runs.values()) and any(score.geometric for score in found.scores):
        print_note(GEOMETRIC)
    single = [name for name, n in runs.items() if n == 1]
    if len(single) < len(runs):
        print_note("±: standard deviation over runs that differ in their seeds (n − 1)")
    if single:
        what = "every model" if len(single) == len(runs) else listed(single)
        print_note(f"one run of {what}: how it varies over seeds is not known")
    _print_evaluations(found)


def _with_bounds(label: str, score: ComparedScore, names: Mapping[str, str]) -> str:
    """A row's name, with the bounds that its scores are."""
    return with_bounds(label, {names[each.group]: each.bound for each in score.groups})


def _print_evaluations(found: ComparedModels) -> None:
    """Print notes on evaluations, and the results excluded from them."""
    for evaluation, said in found.notes.items():
        print_note(f"{evaluation}: {'; '.join(said)}")
    for evaluation, reasons in found.refused.items():
        print_note(f"{evaluation}, excluded: {'; '.join(reasons)}")


def _print_names(a: str, b: str) -> None:
    print_note(f"a: {a}")
    print_note(f"b: {b}")


def digits_of_score(score: ComparedScore) -> int:
    """The number of decimals for a score's means."""
    return decimals(*(each.mean for each in score.groups))


def digits_of_difference(pair: PairDifference, digits: int) -> int:
    """The number of decimals for a difference and its interval: the means', or more if all would be 0."""
    shown = (pair.difference, *(pair.over_seeds or pair.over_items or ()))
    return digits if any(float(f"{each:.{digits}f}") for each in shown) else decimals(*shown)


def about_p(pairs: Iterable[PairDifference]) -> list[str]:
    """Notes for a table of differences: the meaning of p if a group is a single run."""
    tested = [pair for pair in pairs if pair.p is not None]
    each = [pair for pair in tested if pair.over_seeds is None]
    one = [pair for pair in tested if pair.test is not None and pair.test.startswith(SEEDS_OF_ONE)]

    def of(some: Sequence[PairDifference]) -> str:
        names = dict.fromkeys(f"{pair.b} - {pair.a}" for pair in some)
        return "" if len(some) == len(tested) else f"{', '.join(names)}: "

    notes = [of(each) + ONE_RUN_EACH] if each else []
    if one:
        notes.append(of(one) + "one run against several: it is taken to vary over seeds as these do")
    return notes


def _print_about_p(pairs: Iterable[PairDifference]) -> None:
    for note in about_p(pairs):
        print_note(note)


def _bounds(interval: tuple[float, float] | None, digits: int, sign: str = "") -> str | None:
    if interval is None:
        return None
    edges = (f"{edge:{sign}.2g}" if abs(edge) > _LONG else decimal(edge, digits, sign) for edge in interval)
    return f"[{', '.join(edges)}]"
