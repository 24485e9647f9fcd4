"""The results of study.sh: a table beside the paper's, figures, and everything as JSON.

Usage: report.py FOLDER (of study.sh). Writes table.md, results.json and three figures into it.
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.evaluation.intervals import wilson
from pdtools.evaluation.results import read_results
from pdtools.files import atomic_text, write_json
from pdtools.formal.bracket_prefixes import BracketPrefix, read_prefixes
from pdtools.provenance import provenance
from pdtools.report.tables import listed, markdown_table
from pdtools.report.view.charts import curves
from pdtools.report.view.vega import save_chart

# Table 1 of Murty et al. (2023), percent.
PAPER = {
    "base-attachment": {
        "dependency-50": 90.0,
        "dependency-100": 81.0,
        "dependency-200": 40.6,
        "dependency-300": 14.1,
        "depth": 40.6,
    },
    "pushdown": {
        "dependency-50": 96.5,
        "dependency-100": 88.0,
        "dependency-200": 61.2,
        "dependency-300": 42.9,
        "depth": 68.3,
    },
}
MODELS = {
    "base": "base LM",
    "base-attachment": "base LM + attachment loss",
    "pushdown": "Pushdown LM",
    "pushdown-distances": "Pushdown LM + stack distances",
    "pushdown-attention": "Pushdown LM + stack distances in attention",
    "pushdown-head": "Pushdown LM + stack distances in the head",
    "released-base": "base LM + attachment loss, as released",
    "released": "Pushdown LM, as released",
    "released-all": "Pushdown LM, as released, attachments normalised over all tokens",
    "released-allowed": "Pushdown LM, as released, attachments normalised over legal ones",
}
# Which are in tables where they were tested.
VARIANTS = ("pushdown-attention", "pushdown-head", *(model for model in MODELS if "released" in model))
DEPENDENCIES = (50, 100, 200, 300)
# A table for prefixes of strings that are no deeper than those of training, and one for deeper ones.
TABLES = {
    "Prefixes of strings with at most 10 brackets open, as in training": {
        f"dependency-{least}-depth-10": f"Dyck ({least})" for least in DEPENDENCIES
    },
    "Prefixes of strings with at most 40 brackets open, and nests of 15 to 50": {
        **{f"dependency-{least}-depth-40": f"Dyck ({least})" for least in DEPENDENCIES},
        "depth": "depth 15 to 50",
        "nests-as-released": "depth 15 to 49, fillers as released",
    },
}
PAPER_LABELS = {"base-attachment": "paper: base LM (+ attachment loss)", "pushdown": "paper: Pushdown LM"}
# What a row is about, for models with a tape and for those whose head does not change what they predict.
PARTS = {
    "accuracy_by_best": ("by the best hypothesis", None),
    "accuracy_given_attachments": ("attachments given", None),
    "attachment_accuracy": ("closers attached right", "closers attached right, those before given"),
    "lost_by_beam": ("right attachments more probable than all in the beam", None),
}
# Training strings never have more open than this.
TRAINED_DEPTH = 10
# The most brackets that are open at once: classes, and the largest number of each.
DEEPEST = {f"at most {TRAINED_DEPTH}": TRAINED_DEPTH, "11 to 14": 14, "15 to 20": 20, "more": math.inf}
GUESSES = {
    "any": "the type of any opener before",
    "most": "the type that most open brackets have, of these the last",
}
# For each figure: how its sets' names end, what x is, its first value, and the width of a bin.
FIGURES = {
    "dependency-depth-10": ("-depth-10", "dependency", 50, 50),
    "dependency-depth-40": ("-depth-40", "dependency", 50, 50),
    "depth": ("depth", "depth", 15, 6),
}
AXES = {"dependency": "tokens to the open bracket", "depth": "brackets inside each other"}


def main(folder: Path) -> None:
    """Read every results folder, write what there is."""
    scores: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))  # model, set, seed
    entropy: dict[str, dict[str, Any]] = defaultdict(dict)  # model, seed
    items: dict[str, list[dict[str, Any]]] = defaultdict(list)  # model
    prefixes = {path.stem: read_prefixes(path) for path in sorted((folder / "prefixes").glob("*.tsv"))}
    made = None
    for path in sorted((folder / "results").glob("*/*/results.json")):
        model, _, seed = path.parent.parent.name.rpartition("-")
        document, table = read_results(path.parent)
        scores[model][path.parent.name][seed] = document["scores"]["by_set"][path.parent.name]
        if "entropy" in document["scores"]:
            entropy[model][seed] = document["scores"]["entropy"]
        items[model] += table.to_pylist()
        made = document["provenance"]
    guesses = {name: guess(group) for name, group in prefixes.items()}
    by_open = {model: open_brackets(items[model], prefixes) for model in MODELS if items[model]}
    by_deepest = {model: deepest_brackets(items[model], prefixes) for model in MODELS if items[model]}
    figures = {
        name: [
            point for model in shown(scores) for point in accuracy_line(MODELS[model], items[model], *figure)
        ]
        for name, figure in FIGURES.items()
    }
    write_json(
        folder / "results.json",
        {
            "settings": (folder / "settings").read_text().strip(),
            "scores": scores,
            "entropy": entropy,
            "guesses": guesses,
            "by_open_brackets": by_open,
            "by_deepest": by_deepest,
            "figures": figures,
            "paper": PAPER,
            "provenance": provenance(),
            "provenance_of_one": made,
        },
    )
    table = "\n".join([markdown(scores, entropy, guesses), open_table(by_open), deepest_table(by_deepest)])
    with atomic_text(folder / "table.md") as stream:
        stream.write(table)
    print(table)
    for name, rows in figures.items():
        x, y = AXES[FIGURES[name][1]], "closing brackets right (percent)"
        save_chart(folder / f"by-{name}.svg", curves(rows, x=x, y=y, percent=True))


def guess(prefixes: Sequence[BracketPrefix]) -> dict[str, float]:
    """How often two guesses without a model are right, as fractions of 1: see ``GUESSES``."""
    any_opener, most_open = [], []
    for prefix in prefixes:
        right = prefix.closer[1:]
        openers = [token[1:] for token in prefix.tokens if token[0] == "("]
        any_opener.append(openers.count(right) / len(openers))
        opened: list[str] = []
        for token in prefix.tokens:
            if token[0] == "(":
                opened.append(token[1:])
            else:
                opened.pop()
        most_open.append(right == max(reversed(opened), key=opened.count))
    return {"any": mean(any_opener), "most": mean(most_open)}


def markdown(
    scores: dict[str, dict[str, dict[str, Any]]],
    entropy: dict[str, dict[str, Any]],
    guesses: dict[str, dict[str, float]],
) -> str:
    """The tables: of those sets that some model was tested on, or all."""
    tested = {name for sets in scores.values() for name, seeds in sets.items() if seeds}
    tables = [
        f"{title}:\n\n{set_table(sets, scores, entropy, guesses)}"
        for title, sets in TABLES.items()
        if not tested or tested & set(sets)
    ]
    seeds = {model: max(map(len, scores[model].values()), default=0) for model in shown(scores)}
    note = "Seeds: " + ", ".join(f"{MODELS[model]} {number}" for model, number in seeds.items()) + "."
    note += " **Mean** [95% interval for other prefixes, these seeds] (each seed)."
    return "\n".join(tables) + f"\n{note}\n"


def shown(scores: Mapping[str, Any]) -> list[str]:
    """The models of the tables: variants where they were tested."""
    return [model for model in MODELS if model not in VARIANTS or scores.get(model)]


def has_tape(model: str) -> bool:
    """Whether the words of a model depend on attachments."""
    return "base" not in model


def set_table(
    sets: Mapping[str, str],
    scores: dict[str, dict[str, dict[str, Any]]],
    entropy: dict[str, dict[str, Any]],
    guesses: dict[str, dict[str, float]],
) -> str:
    """A table: a row for each model, the paper's before ours; means over seeds as in :func:`cell`.

    The last column, which only some studies have, is left out elsewhere.
    """
    sets = {name: title for name, title in sets.items() if name in guesses or name != "nests-as-released"}
    rows = [["percent right", *sets.values(), "perplexity"], ["---"] * (len(sets) + 2)]
    for kind, label in GUESSES.items():
        shares = [f"{100 * guesses[name][kind]:.1f}" if name in guesses else "-" for name in sets]
        rows.append([label, *shares, ""])
    tests = [seed for by_set in scores.values() for name in sets for seed in by_set.get(name, {}).values()]
    most = max((test["prefixes"] for test in tests), default=0)
    columns = {name: re.sub("-depth-.*", "", name).replace("nests-as-released", "depth") for name in sets}
    for model in shown(scores):
        label = MODELS[model]
        if model in PAPER:
            rows.append([PAPER_LABELS[model], *(f"{PAPER[model][columns[name]]}" for name in sets), ""])
        found = {name: list(scores[model].get(name, {}).values()) for name in sets}
        tested = {each["prefixes"] for seeds in found.values() for each in seeds}
        if tested and min(tested) < most:
            label += f", {' or '.join(map(str, sorted(tested)))} prefixes"
        perplexities = [each["ppl_model"] for each in entropy.get(model, {}).values()]
        perplexity = f"{mean(perplexities):.3f}" if perplexities else "-"
        rows.append([label, *(cell(found[name]) for name in sets), perplexity])
        for key, titles in PARTS.items():
            title = titles[0 if has_tape(model) else 1]
            if title and any(each.get(key) is not None for seeds in found.values() for each in seeds):
                shown_as = cell if key == "accuracy_by_best" else mean_percent
                rows.append([f"— {title}", *(shown_as(found[name], key) for name in sets), ""])
    exact = next(iter(next(iter(entropy.values()), {}).values()), None)
    # On the same strings as the models.
    perplexity = f"{math.exp(exact['automaton']):.3f}" if exact else "-"
    rows.append(["the automaton", *([""] * len(sets)), perplexity])
    return markdown_table(rows)


def mean_percent(seeds: list[dict[str, Any]], key: str) -> str:
    """The mean of a share over seeds; some runs were tested before there was this share."""
    values = [100 * each[key] for each in seeds if each.get(key) is not None]
    return f"{mean(values):.1f}" if values else "-"


def cell(seeds: list[dict[str, Any]], key: str = "accuracy") -> str:
    """The mean over seeds, its interval, and the seeds one by one.

    All seeds close the same prefixes, or the first of them, so the interval counts those that all closed,
    once each, as if all seeds agreed on it: it is for other prefixes, and rather too wide than too narrow.
    How much seeds matter, only the numbers after it show.
    """
    if not seeds:
        return "-"
    share = mean(each[key] for each in seeds)
    prefixes = min(each["prefixes"] for each in seeds)
    low, high = wilson(share * prefixes, prefixes)
    each = ", ".join(f"{100 * seed[key]:.1f}" for seed in seeds)
    return f"**{100 * share:.1f}** [{100 * low:.1f}, {100 * high:.1f}] ({each})"


def open_brackets(
    items: Sequence[Mapping[str, Any]], prefixes: Mapping[str, Sequence[BracketPrefix]]
) -> dict[str, dict[str, dict[str, int]]]:
    """Closers that are right where at most ``TRAINED_DEPTH`` brackets are open at the end, or more.

    Returns:
        By set and ``few`` or ``many``: prefixes (those of all seeds), ``right``, ``right_given_attachments``.
    """
    found: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for item in items:
        is_few = prefixes[item["set"]][item["number"] - 1].open <= TRAINED_DEPTH
        counts = found[item["set"]]["few" if is_few else "many"]
        counts["prefixes"] += 1
        counts["right"] += item["chosen"] == item["closer"]
        counts["right_given_attachments"] += item["chosen_given_attachments"] == item["closer"]
    return found


def open_table(by_open: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]]) -> str:
    """The table of :func:`open_brackets`, whole percent, of strings in which more can be open."""
    names = [f"dependency-{least}-depth-40" for least in DEPENDENCIES]
    titles = [f"Dyck ({least})" for least in DEPENDENCIES]
    rows = [["percent right", "open at the end", *titles], ["---"] * (len(names) + 2)]
    for model, sets in by_open.items():
        parts = [("right", MODELS[model])]
        if has_tape(model):
            parts.append(("right_given_attachments", "— attachments given"))
        for key, label in parts:
            for kind, size in (("few", f"at most {TRAINED_DEPTH}"), ("many", "more")):
                groups = [sets.get(name, {}).get(kind) for name in names]
                shares = [f"{100 * group[key] / group['prefixes']:.0f}" if group else "-" for group in groups]
                rows.append([label, size, *shares])
    return markdown_table(rows)


def deepest_brackets(
    items: Sequence[Mapping[str, Any]], prefixes: Mapping[str, Sequence[BracketPrefix]]
) -> dict[str, dict[str, dict[str, int]]]:
    """Closers that are right by the most brackets that are open at once anywhere in the prefix.

    Returns:
        By set and class (``DEEPEST``): prefixes (those of all seeds), ``right``.
    """
    found: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for item in items:
        prefix = prefixes[item["set"]][item["number"] - 1]
        deepest = max(accumulate(1 if token[0] == "(" else -1 for token in prefix.tokens))
        counts = found[item["set"]][next(name for name, most in DEEPEST.items() if deepest <= most)]
        counts["prefixes"] += 1
        counts["right"] += item["chosen"] == item["closer"]
    return found


def deepest_table(by_deepest: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]]) -> str:
    """The table of :func:`deepest_brackets`, of the same strings as :func:`open_table`."""
    names = [f"dependency-{least}-depth-40" for least in DEPENDENCIES]
    titles = [f"Dyck ({least})" for least in DEPENDENCIES]
    rows = [["percent right (prefixes)", "most open at once", *titles], ["---"] * (len(names) + 2)]
    for model, sets in by_deepest.items():
        for kind in DEEPEST:
            groups = [sets.get(name, {}).get(kind) for name in names]
            shares = [
                f"{100 * group['right'] / group['prefixes']:.0f} ({group['prefixes']})" if group else "-"
                for group in groups
            ]
            rows.append([MODELS[model], kind, *shares])
    return markdown_table(rows)


def accuracy_line(
    label: str, items: list[dict[str, Any]], sets: str, key: str, start: int, width: int
) -> Iterator[dict[str, Any]]:
    """Accuracy by bins of dependency or depth (``key``), each at its prefixes' mean; ``sets``: how they end.

    As in :func:`cell`, the interval counts a prefix once, however many seeds closed it.
    """
    bins: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        if item["set"].endswith(sets) and item[key] >= start:
            bins[(item[key] - start) // width].append(item)
    for _, closed in sorted(bins.items()):
        share = mean(item["chosen"] == item["closer"] for item in closed)
        prefixes = len({(item["set"], item["number"]) for item in closed})
        low, high = wilson(share * prefixes, prefixes)
        x = mean(item[key] for item in closed)
        yield {"series": label, "x": x, "y": 100 * share, "low": 100 * low, "high": 100 * high}


# --- passages of the notebook and the page of results, from files of docs/notes/results/dyck ----------------

Document = dict[str, Any]


def published_table(document: Document, number: str) -> str:
    """One of ``TABLES``, without models that were not tested."""
    sets = list(TABLES.values())[int(number)]
    scores: Any = defaultdict(lambda: defaultdict(dict))
    for model, of in document["scores"].items():
        scores[model].update(of)
    table = set_table(sets, scores, document.get("entropy", {}), document["guesses"])
    return "".join(line for line in table.splitlines(True) if not re.match(r"\| [^|]+ \| - \| - \|", line))


def in_short(document: Document) -> str:
    """What two models close of prefixes that are no deeper than in training."""
    scores = document["scores"]
    seeds = [seed for name in TABLES_OF_TRAINING for seed in scores["pushdown"][name].values()]
    number = min(seed["prefixes"] for seed in seeds)
    closed = {
        model: [
            f"{100 * mean(seed['accuracy'] for seed in scores[model][name].values()):.0f}%"
            for name in TABLES_OF_TRAINING
        ]
        for model in ("pushdown", "base-attachment")
    }
    ours, base = closed.values()
    return (
        f"{number} prefixes at each of {len(ours)} distances, {len(seeds) // len(ours)} seeds: the Pushdown"
        f" LM closes {listed(ours)} of their brackets, the base LM with the attachment loss {listed(base)}"
    )


def few(document: Document, model: str) -> str:
    """Percent of the brackets that a model closes, with intervals, by distance; and of how many prefixes."""
    tests = [document["scores"][model].get(name, {}) for name in TABLES_OF_TRAINING]
    seeds = [list(each.values()) for each in tests if each]
    shares = [cell(each).replace("*", "").partition(" (")[0] for each in seeds]
    return f"{listed(shares)} (of {min(each['prefixes'] for of in seeds for each in of)})"


def percents(document: Document, model: str, tests: str, key: str = "accuracy", digits: str = "0") -> str:
    """A share that a model has, mean over seeds, in the sets of some tests such as 50-40,100-40,nests."""
    shares = []
    for test in tests.split(","):
        least, _, deepest = test.partition("-")
        name = "depth" if test == "nests" else f"dependency-{least}-depth-{deepest}"
        seeds = document["scores"][model][name].values()
        shares.append(f"{100 * mean(seed[key] for seed in seeds):.{digits}f}")
    return listed(shares)


# Rows of the page of results: training strings, prefixes, model, number of the document, most open brackets.
SHORT_ROWS = (
    ("free", "no deeper", "base-attachment", 0, 10),
    ("free", "no deeper", "pushdown", 0, 10),
    ("free", "deeper", "base-attachment", 0, 40),
    ("free", "deeper", "pushdown", 0, 40),
    ("free, other batches", "deeper", "pushdown-distances", 1, 40),
    ("strict", "no deeper", "base-attachment", 2, 10),
    ("strict", "no deeper", "pushdown", 2, 10),
    ("strict", "deeper", "pushdown", 3, 40),
    ("strict", "deeper", "pushdown-distances", 3, 40),
)


def short_table(*documents: Document) -> str:
    """Percent right by distance, mean over seeds, of several settings, below the paper's."""
    titles = ["training strings", "prefixes", "model", *map(str, DEPENDENCIES), "seeds", "prefixes each"]
    rows = [titles, ["---"] * len(titles)]
    for model, published in PAPER.items():
        shares = [str(published[f"dependency-{least}"]) for least in DEPENDENCIES]
        rows.append(["paper", "", MODELS[model], *shares, "", ""])
    for trained, prefixes, model, number, deepest in SHORT_ROWS:
        scores = documents[number]["scores"][model]
        sets = [scores.get(f"dependency-{least}-depth-{deepest}", {}) for least in DEPENDENCIES]
        digits = 1 if number == 3 and model == "pushdown-distances" else 0
        shares = [
            f"{100 * mean(seed['accuracy'] for seed in seeds.values()):.{digits}f}" if seeds else "-"
            for seeds in sets
        ]
        tested = [str(len(sets[0])), f"{next(iter(sets[0].values()))['prefixes']:,}"]
        rows.append([trained, prefixes, MODELS[model], *shares, *tested])
    return markdown_table(rows)


def values(document: Document, *path: str) -> str:
    """Numbers of the results as they are, three decimals: joint perplexities of seeds."""
    found: Any = document
    for step in path:
        found = found[step]
    each = list(found.values()) if isinstance(found, dict) else [found]
    return listed([f"{value:.3f}" for value in each])


TABLES_OF_TRAINING = tuple(next(iter(TABLES.values())))
PASSAGES: dict[str, Callable[..., str]] = {
    "short": short_table,
    "table": published_table,
    "open": lambda document: open_table(document["by_open_brackets"]),
    "deepest": lambda document: deepest_table(document["by_deepest"]),
    "in-short": in_short,
    "few": few,
    "percents": percents,
    "values": values,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
