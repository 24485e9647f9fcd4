"""Printing of each evaluation's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pdtools.evaluation.bootstrap import FEW_ITEMS, are_few
from pdtools.evaluation.comparison.compare import Difference
from pdtools.evaluation.comparison.engine import BESIDE_EXACT, PairDifference, Score
from pdtools.evaluation.comparison.main_scores import GroupedScores
from pdtools.evaluation.comparison.many import ONE_RUN_EACH, ManyComparison, about_p
from pdtools.evaluation.comparison.overview import OverviewScore
from pdtools.evaluation.perplexity import record as perplexity
from pdtools.evaluation.record import MARGIN
from pdtools.evaluation.results import Results
from pdtools.evaluation.sg.scores import CONVENTIONS
from pdtools.report.tables import (
    Cell,
    Number,
    decimal,
    decimals,
    listed,
    print_note,
    print_table,
    scores_table,
)

_MARKS = ("†", "‡", "††", "‡‡")  # footnote marks
_LONG = 1e9  # beyond it two digits and a power of ten are shown
_NAMES_WIDTH = 24  # width of two models' names as headings of columns


GEOMETRIC = (
    "perplexities: means are geometric; deviations, intervals and differences are those of logarithms, given"
    " as perplexities"
)


def percent(score: float | None) -> float | None:
    """A fraction of 1 as a percentage."""
    return None if score is None else 100 * score


def with_bound(name: str, bound: str | None) -> str:
    """The name of a row, with the bound that its score is, if any."""
    return name if bound is None else f"{name}, {bound}"


def print_scores(results: Results) -> None:
    """Print the main scores of any evaluation that has a record."""
    document = results.document({})
    record = results.evaluation
    assert record is not None
    rows: list[tuple[Cell, ...]] = [
        (label, value, ", ".join(over)) for label, (value, over) in record.main_scores(document).items()
    ]
    print_table([record.title, "score", "over"], rows)


def print_parse(results: Results) -> None:
    """Print bracketing scores, over all sentences and up to the length limit."""
    scores, counts, cutoff = results.scores, results.counts, results.settings["cutoff_len"]
    names = [name for name in scores if name != "up_to_cutoff"]
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), scores[name], scores["up_to_cutoff"][name]) for name in names
    ]
    rows += [
        (name.replace("_", " "), counts[name], counts["up_to_cutoff"][name])
        for name in ("sentences", "scored", "errors", "skipped", "left_out")
    ]
    kind = "labeled" if results.settings["labeled"] else "unlabeled"
    factor = results.settings["binarize"]
    title = f"Bracketing, {kind}" + ("" if factor == "none" else f", {factor}-binarized") + " (percent)"
    print_table(["score", "all", f"up to {cutoff} words"], rows, title=title)


def print_blimp(results: Results, *, details: bool = False) -> None:
    """Print accuracy overall, by field and phenomenon; by paradigm with ``details``, or without phenomena."""
    scores, counts = results.scores, results.counts
    overall = (percent(scores["overall"]), *(counts[key] for key in ("pairs", "pairs_scored", "ties")))
    columns = ["accuracy", "pairs", "scored", "ties"]
    rows: list[tuple[Cell, ...]] = [("overall", *overall)]
    rows.append(("overall, per token", percent(scores["overall_per_token"]), None, None, None))
    print_table(["BLiMP (percent)", *columns], rows)
    _print_margin(scores)
    for level in _shown(("field", "phenomenon"), "paradigm", scores, details):
        groups = [
            (
                name,
                percent(scores[f"by_{level}"][name]),
                [counts["by_paradigm"][member] for member in members],
            )
            for name, members in _members(results, level, "paradigm").items()
        ]
        print()
        print_table(
            [level, *columns],
            [
                (name, accuracy, *(sum(one[key] for one in found) for key in ("pairs", "scored", "ties")))
                for name, accuracy, found in groups
            ],
        )


def _print_margin(scores: Mapping[str, Any]) -> None:
    """Print the mean margin, if the search was as wide for all items, and some of them count."""
    if MARGIN in scores and (margin := scores[MARGIN]["overall"]) is not None:
        print_note(f"mean margin: {margin:+.3f} bits")


def _shown(levels: tuple[str, ...], finest: str, scores: Mapping[str, Any], details: bool) -> list[str]:
    """The levels that have names, and the finest if requested or alone."""
    named = [level for level in levels if scores[f"by_{level}"]]
    return [*named, finest] if details or not named else named


def _members(results: Results, level: str, unit: str) -> dict[str, list[str]]:
    """The units of each group, sorted by the groups' names."""
    items = results.table("items").select(list(dict.fromkeys((level, unit)))).to_pydict()
    members: dict[str, dict[str, None]] = {}
    for name, member in zip(items[level], items[unit], strict=True):
        if name is not None:  # a user's own pairs may have no phenomenon or field
            members.setdefault(name, {})[member] = None
    return {name: list(members[name]) for name in sorted(members)}


def print_sg(results: Results, *, details: bool = False) -> None:
    """Print SG scores in their conventions, then by circuit; with ``details`` by suite and prediction too."""
    scores = results.scores
    rows = [(name.replace("_", " "), percent(scores[name])) for name in CONVENTIONS]
    print_table(["Syntactic generalization (percent)", "score"], rows)
    _print_margin(scores)
    for level in _shown(("circuit",), "suite", scores, details):
        print()
        by_name = scores[f"by_{level}"].items()
        print_table([level, "score"], [(name, percent(score)) for name, score in by_name])
    if details and scores["by_prediction"]:
        print()
        print_table(
            ["suite", "prediction", "score"],
            [
                (suite, prediction, percent(score))
                for suite, predictions in scores["by_prediction"].items()
                for prediction, score in predictions.items()
            ],
        )


def print_sg_runs(results: Results) -> None:
    """Print SG scores of many runs: in their conventions, then by circuit."""
    runs = results.scores["runs"]

    def names(run: dict[str, Any]) -> tuple[Cell, ...]:
        return (run["model"], run["corpus"], run["seed"])

    print_table(
        [
            "model",
            "corpus",
            "seed",
            *(name.removeprefix("mean_of_").replace("_", " ") for name in CONVENTIONS),
        ],
        [(*names(run), *(percent(run[name]) for name in CONVENTIONS)) for run in runs],
        title="Syntactic generalization (percent); circuits, items: the means of these",
    )
    print()
    circuits = sorted({circuit for run in runs for circuit in run["by_circuit"]})
    print_table(
        ["circuit", "model", "corpus", "seed", "score"],
        [
            (circuit, *names(run), percent(run["by_circuit"].get(circuit)))
            for circuit in circuits
            for run in runs
        ],
    )


def print_perplexity(results: Results) -> None:
    """Print perplexities, with the numbers of tokens, words and sentences."""
    document = {"settings": results.settings}
    rows: list[tuple[Cell, ...]] = [
        (with_bound(name, perplexity.bound(name, document)), score) for name, score in results.scores.items()
    ]
    print_table(["score", "value"], rows, title="Perplexity", digits=4)
    counts: list[tuple[Cell, ...]] = [(name, count) for name, count in results.counts.items()]
    print()
    print_table(["count", "value"], counts)


def print_attention(results: Results, *, details: bool = False) -> None:
    """Print attention to regions by suite and model, with intervals; with ``details`` by layer too."""
    scores, settings = results.scores, results.settings
    for suite, regions in scores["by_suite"].items():
        rows: list[tuple[Cell, ...]] = []
        for region, models in regions.items():
            for model, score in models.items():
                less = scores["differences"].get(suite, {}).get(region, {}).get(model)
                shown = (percent(score["mean"]), _of_interval(score))
                compared = (None, None) if less is None else (percent(less["mean"]), _of_interval(less))
                rows.append((region, model, *shown, *compared))
                for layer, share in enumerate(score["by_layer"], start=1) if details else []:
                    rows.append(("", f"  layer {layer}", percent(share), "", None, ""))
        items = results.counts["items_by_suite"][suite]
        title = f"{suite}: attention when {settings['at']} is predicted (percent; items: {items})"
        print_table(["region", "model", "mean", "95%", "less 1st", "95%"], rows, title=title)
        print()
    print_note("mean: over layers, heads, items and seeds; less 1st: less the first model's")


def _of_interval(score: Mapping[str, float]) -> str:
    return f"[{100 * score['low']:.2f}, {100 * score['high']:.2f}]"


def print_classification(results: Results) -> None:
    """Print scores of a task with their intervals, and the number of items of each label."""
    scores, counts = dict(results.scores), results.counts
    spans = scores.pop("intervals") or {}
    title = f"{results.settings['prompt_task']} (percent)"
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            percent(score),
            f"[{100 * spans[name][0]:.2f}, {100 * spans[name][1]:.2f}]" if spans.get(name) else "",
        )
        for name, score in scores.items()
    ]
    print_table([title, "score", "95%"], rows)
    ties = f", {counts['ties']} ties" if "ties" in counts else ""
    print_note(f"{counts['items']} items, {counts['items_labelled']} with labels{ties}")
    if spans and are_few(counts["items_labelled"]):
        print_note(FEW_ITEMS)
    if "by_label" in counts:
        print()
        columns = ("gold", "predicted", "right")
        by_label = counts["by_label"].items()
        print_table(["label", *columns], [(label, *(of[name] for name in columns)) for label, of in by_label])


def print_comparison(found: dict[str, Any], first: str, second: str, *, details: bool = False) -> None:
    """Print two runs as columns: overall, then by group; with ``details`` also by paradigm or suite."""
    _print_names(first, second)
    overall = [each for each in found["groups"] if each.level == "overall"]
    for each in overall:  # there is none if all suites are excluded from it
        print_table([f"{found['task']} (percent)", *_COMPARED], [_compared(each, 100)])
        only = "" if each.only_a is None else f": right in only a {each.only_a}, in only b {each.only_b}"
        print_note(f"{each.items} items{only}")
        print_note(ONE_RUN_EACH)
    for each in found["margins"]:
        if each.level == "overall":
            print_table([f"{found['task']}, margins (bits)", *_COMPARED], [_compared(each, 1)])
    _print_levels(found["groups"], 100, details=details)
    if details:
        _print_levels(found["margins"], 1, details=True)
    if any(group.low is None for group in (*found["groups"], *found["margins"])):
        print_note(FEW_ITEMS)
    _print_notes("notes: ", found["notes"])


_COMPARED = ("a", "b", "b - a", "95%", "p")


def _print_levels(groups: Sequence[Difference], unit: int, *, details: bool) -> None:
    """Print a table for each level below the overall scores, the finest with ``details`` or alone."""
    levels: dict[str, list[Difference]] = {}
    for group in groups:
        if group.level != "overall":
            levels.setdefault(group.level, []).append(group)
    said = "" if unit == 100 else ", margin (bits)"
    for place, (level, of_level) in enumerate(levels.items(), start=1):
        finest = place == len(levels)
        if finest and not details and place > 1:
            continue
        print()
        # Names of paradigms leave no room for intervals.
        columns = [each for each in _COMPARED if each != "95%" or not finest]
        rows = [_compared(group, unit, interval=not finest) for group in of_level]
        print_table([level + said, *columns], rows)


def _compared(group: Difference, unit: int, *, interval: bool = True) -> tuple[Cell, ...]:
    """A row: the two scores, their difference, its interval and p.

    Args:
        unit: 100 for fractions that are printed as percent, 1 for bits.
    """
    scores = (unit * group.a, unit * group.b, f"{unit * group.difference:+.2f}")
    low, high, p = group.low, group.high, group.p
    between = None if low is None or high is None else f"[{unit * low:+.2f}, {unit * high:+.2f}]"
    ends = [between] if interval else []
    return (group.name or "overall", *scores, *ends, None if p is None else f"{p:.2g}")


def print_main_scores(found: GroupedScores, *, latex: bool) -> None:
    """Print means and deviations of groups of seeds: models × scores for LaTeX; else a row for each score."""
    together = Counter(each.score for each in found.scores)
    labels = [
        each.score if together[each.score] == 1 else f"{each.score}, {each.evaluation}"
        for each in found.scores
    ]
    scores = {label: each.means for label, each in zip(labels, found.scores, strict=True)}
    bounds = {label: each.bounds for label, each in zip(labels, found.scores, strict=True)}
    columns, rows = scores_table(scores, found.groups)
    footnotes: list[str] = []
    if latex:
        said = list(dict.fromkeys(bound for of in bounds.values() for bound in of.values()))
        marks = {bound: _MARKS[at % len(_MARKS)] for at, bound in enumerate(said)}
        first = len(columns) - len(scores)
        for row in rows:
            for at, of in enumerate(bounds.values(), start=first):
                if row[0] in of:
                    row[at] = Number(f"{row[at]}{marks[of[str(row[0])]]}")
        footnotes = [f"{mark} {bound}" for bound, mark in marks.items()]
    else:
        names = [f"{name} ({n} runs)" if n > 1 else name for name, n in found.groups.items()]
        cells = [row[-len(scores) :] for row in rows]
        named = [_with_bounds(label, scores[label], of) for label, of in bounds.items()]
        columns, rows = ["score", *names], [[each, *of] for each, *of in zip(named, *cells, strict=True)]
    print_table(columns, rows, footnotes=footnotes)
    for label, of in bounds.items():
        if of and len(of) < len(scores[label]):
            print_note(f"{label}: {BESIDE_EXACT}")
    if len(found.groups) < sum(found.groups.values()) and any(each.geometric for each in found.scores):
        print_note(GEOMETRIC)
    single = [name for name, n in found.groups.items() if n == 1]
    if len(single) < len(found.groups):
        print_note("±: standard deviation over runs that differ in their seeds (n − 1)")
    if single:
        what = "every model" if len(single) == len(found.groups) else listed(single)
        print_note(f"one run of {what}: how it varies over seeds is not known")
    _print_evaluations(found.notes, found.refused)


def _with_bounds(label: str, groups: Collection[str], bounds: Mapping[str, str]) -> str:
    """A row's name, with the bound that its scores are; with the groups' names if their bounds differ."""
    of: dict[str, list[str]] = {}
    for group, bound in bounds.items():
        of.setdefault(bound, []).append(group)
    if len(of) == 1 and len(bounds) == len(groups):
        return with_bound(label, *of)
    said = "; ".join(f"{', '.join(names)}: {bound}" for bound, names in of.items())
    return f"{label} ({said})" if said else label


def _print_evaluations(notes: Mapping[str, Sequence[str]], refused: Mapping[str, Sequence[str]]) -> None:
    """Print notes on evaluations, and the results excluded from them."""
    for evaluation, said in notes.items():
        _print_notes(f"{evaluation}: ", said)
    for evaluation, reasons in refused.items():
        _print_notes(f"{evaluation}, excluded: ", reasons)


def print_overview(headlines: Sequence[OverviewScore], a: str, b: str) -> None:
    """Print the main scores of two models, one a line."""
    digits = [decimals(headline.a, headline.b) for headline in headlines]
    rows: list[tuple[Cell, ...]] = [
        (
            _with_bounds(
                headline.score,
                "ab",
                {name: of for name, of in zip((a, b), headline.bounds, strict=True) if of is not None},
            ),
            headline.a,
            headline.b,
            None
            if headline.a is None or headline.b is None or not headline.is_tested
            else decimal(headline.b - headline.a, n, "+"),
            None if headline.p is None else f"{headline.p:.2g}",
        )
        for headline, n in zip(headlines, digits, strict=True)
    ]
    if len(a) + len(b) > _NAMES_WIDTH:
        _print_names(a, b)
        a, b = "a", "b"
    print_table(["score", a, b, "difference", "p"], rows, digits=digits)
    if any(headline.p is not None for headline in headlines):
        print_note(ONE_RUN_EACH)
    for notes, scores in _scores_by_notes(headlines).items():
        _print_notes(f"{'; '.join(scores)}: ", notes)


def _scores_by_notes(headlines: Sequence[OverviewScore]) -> dict[tuple[str, ...], list[str]]:
    """Notes on scores, each with the names of its scores."""
    found: dict[tuple[str, ...], list[str]] = {}
    for headline in headlines:
        notes = headline.notes if headline.refused is None else (headline.refused,)
        if notes:
            found.setdefault(notes, []).append(headline.score)
    return found


def _print_notes(of: str, notes: Sequence[str]) -> None:
    if notes:
        print_note(of + "; ".join(notes))


def _print_names(a: str, b: str) -> None:
    print_note(f"a: {a}")
    print_note(f"b: {b}")


def print_many(found: ManyComparison, *, details: bool = False) -> None:
    """Print comparisons of groups of models: every score of each, then their differences.

    Coarser levels follow if only one evaluation is compared; with ``details`` all do.
    """
    single = len({score.evaluation for score in found.scores}) == 1
    finest = {score.evaluation: score.level for score in found.scores}  # levels go from coarse to fine
    tables: dict[tuple[str, str, str], list[Score]] = {}
    for score in found.scores:
        if score.level == "overall" or details or (single and score.level != finest[score.evaluation]):
            tables.setdefault((score.evaluation, score.score, score.level), []).append(score)
    evaluations = Counter(name for _, name, level in tables if level == "overall")
    for (evaluation, name, level), scores in tables.items():
        title = name if evaluations[name] < 2 else f"{name}, {evaluation}"
        if level == "overall":
            _print_overall(title, scores[0])
        else:
            _print_level(title, level, scores)
    two = any(len(group.values) == 2 for score in found.scores for group in score.groups)
    print_note(
        "95%: over items; where a group has several seeds, over seeds and items"
        f"{' (a mean of two runs is in it in 88 to 95 of a hundred cases)' if two else ''}."
        " p: corrected, by Holm"
    )
    if any(score.geometric for score in found.scores):
        print_note(GEOMETRIC)
    _print_evaluations(found.notes, found.refused)


def _print_overall(name: str, score: Score) -> None:
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
        print_table(
            ["pair", "difference", "95%", "p", "corrected"],
            [
                (
                    f"{pair.b} - {pair.a}",
                    decimal(pair.difference, n, "+"),
                    _bounds(pair.over_seeds or pair.over_items, n, "+"),
                    *_ps(pair),
                )
                for pair in score.pairs
                for n in (digits_of_difference(pair, digits),)
            ],
        )
        _print_about_p(score.pairs)
    for note in score.notes:
        print_note(note)
    print()


def digits_of_score(score: Score) -> int:
    """The number of decimals for a score's means."""
    return decimals(*(each.mean for each in score.groups))


def digits_of_difference(pair: PairDifference, digits: int) -> int:
    """The number of decimals for a difference and its interval: the means', or more if all would be 0."""
    shown = (pair.difference, *(pair.over_seeds or pair.over_items or ()))
    return digits if any(float(f"{each:.{digits}f}") for each in shown) else decimals(*shown)


def _print_level(name: str, level: str, scores: Sequence[Score]) -> None:
    """Print a table for each pair: all its differences."""
    rows: dict[tuple[str, str], list[tuple[Cell, ...]]] = {}
    pairs: dict[tuple[str, str], list[PairDifference]] = {}
    for score in scores:
        means = {group.group: group.mean for group in score.groups}
        for pair in score.pairs:
            row = (score.name, means[pair.a], means[pair.b], f"{pair.difference:+.2f}", *_ps(pair))
            rows.setdefault((pair.a, pair.b), []).append(row)
            pairs.setdefault((pair.a, pair.b), []).append(pair)
    for (a, b), of_pair in rows.items():
        _print_names(a, b)
        print_table([level, "a", "b", "b - a", "p", "corrected"], of_pair, title=name)
        _print_about_p(pairs[a, b])
        print()


def _print_about_p(pairs: Sequence[PairDifference]) -> None:
    for note in about_p(pairs):
        print_note(note)


def _ps(pair: PairDifference) -> tuple[Cell, Cell]:
    return (
        None if pair.p is None else f"{pair.p:.2g}",
        None if pair.p_holm is None else f"{pair.p_holm:.2g}",
    )


def _bounds(interval: tuple[float, float] | None, digits: int, sign: str = "") -> str | None:
    if interval is None:
        return None
    edges = (f"{edge:{sign}.2g}" if abs(edge) > _LONG else decimal(edge, digits, sign) for edge in interval)
    return f"[{', '.join(edges)}]"
