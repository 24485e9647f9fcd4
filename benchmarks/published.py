"""Scores beside published output: EVALB's tables and the SG paper's results."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from comparison import Line, data_folder, largest

from pdtools.evaluation.parsing.evalb import BracketScore, SentenceRow, compare_sentence
from pdtools.evaluation.parsing.prm import Parameters, read_parameters
from pdtools.evaluation.sg.item_results import aggregate_items
from pdtools.files import read_lines
from pdtools.report.evalb import TooManyErrors, evalb_lines

# Names here of the published levels over all suites.
_CONVENTIONS = {
    "overall": "sg_31",
    "alt_mean_of_circuits": "mean_of_circuits",
    "alt_mean_of_items": "mean_of_items",
}


def evalb() -> Iterator[Line]:
    """EVALB's own table, character for character, and its summary's F1."""
    folder = data_folder() / "evalb"
    for name in ("COLLINS", "nk", "unlabeled", "sample"):
        files = ("sample.gld", "sample.tst") if name == "sample" else ("gold.trees", "test.trees")
        parameters = read_parameters(folder / f"{name}.prm")
        texts = zip(read_lines(folder / files[0]), read_lines(folder / files[1]), strict=True)
        rows = [compare_sentence(gold, mine, parameters, number) for (number, gold), (_, mine) in texts]
        printed, status = evalb_output(rows, parameters)
        expected = "".join((folder / f"expected.{name}.{suffix}").read_text() for suffix in ("txt", "stderr"))
        if expected.endswith(
            ("exit 0\n", "exit 1\n")
        ):  # added to EVALB's standard error, but not in every file
            printed += f"exit {status}\n"
        yield {
            "name": f"EVALB, {name}.prm: characters printed",
            "peer": "EVALB",
            "peer_value": len(expected),
            "ours": len(printed),
            "difference": sum(a != b for a, b in zip_longest(expected, printed)),
            "compared": len(expected),
            "allowed": 0,
            "settings": {"sentences": len(rows), "max_error": parameters.max_error},
        }
        found = [float(value) for value in re.findall(r"FMeasure += +([\d.]+)", expected)]
        if found:  # COLLINS.prm ends in too many errors, before any summary
            scores = [BracketScore.of(one) for one in rows]
            short = [s for s, one in zip(scores, rows, strict=True) if one.length <= parameters.cutoff_len]
            f1s = [sum(group, BracketScore()).f1 for group in (scores, short)]
            pairs = [(peer, round(f1 or 0.0, 2)) for peer, f1 in zip(found, f1s, strict=True)]
            yield largest(f"EVALB, {name}.prm: summary F1", "EVALB", pairs, 0, unit="percent")


def evalb_output(rows: Sequence[SentenceRow], parameters: Parameters) -> tuple[str, int]:
    """Standard output and standard error, and the exit status."""
    streams: dict[bool, list[str]] = {False: [], True: []}
    status = 0
    try:
        for line, is_error in evalb_lines(rows, parameters):
            streams[is_error].append(line + "\n")
    except TooManyErrors:
        status = 1
    return "".join([*streams[False], *streams[True]]), status


def sg_published() -> Iterator[Line]:
    """The scores of Hu et al. (2020), from their results per item."""
    folder = data_folder() / "sg"
    rows = aggregate_items([folder / "sg_results.zip"]).tables["scores"].to_pylist()
    ours = {(*_run(row), row["level"], row["name"]): row["score"] for row in rows}
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with (folder / "expected_scores.csv").open() as stream:
        for expected in csv.DictReader(stream):
            level = expected["level"]
            place = (_CONVENTIONS[level], "") if level in _CONVENTIONS else (level, expected["name"])
            pairs[level].append((float(expected["score"]), ours[(*_run(expected), *place)]))
    published = "results per item of Hu et al. 2020"
    for level, found in pairs.items():
        yield largest(f"SG, {level.removeprefix('alt_').replace('_', ' ')}", published, found, 1e-6)
    yield largest("SG, all rows", published, [pair for found in pairs.values() for pair in found], 1e-6)


def _run(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["model"], row["corpus"], row["seed"]
