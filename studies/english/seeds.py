"""The seeds of ``examples/english.sh``: scores of each run, and the comparison that was planned before them.

python seeds.py RESULTS [--curve CURVE] -o seeds.json

RESULTS holds ``base-1``, ``pushdown-1``, ``base-2`` and so on, each with ``sg``, ``blimp``, ``ppl`` by book,
and for a Pushdown LM ``particles`` by book. CURVE holds a folder for each kept checkpoint, named alike with
its step after it, with ``sg``. The comparison is Pushdown LM less base by seeds, of SG, BLiMP and perplexity,
corrected for these three (Holm 1979). Perplexity is per word of all books together, by particles for the
Pushdown LM.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.statistics import Spread, holm
from pdtools.evaluation.results import read_document
from pdtools.files import write_json

MODELS = ("base", "pushdown")


def scores_of(run: Path) -> dict[str, Any]:
    """Scores of a run: percent of SG and BLiMP, and nats a word.

    Args:
        run: its folder of results.

    Raises:
        PdtoolsError, OSError: if a score is missing.
    """
    measure, folder = ("marginal", "ppl") if run.name.startswith("base-") else ("particles", "particles")
    books = sorted((run / folder).iterdir())
    by_book = {book.name: read_document(book) for book in books}
    words = {name: document["counts"]["words"] for name, document in by_book.items()}
    nats = {name: math.log(document["scores"][f"ppl_word_{measure}"]) for name, document in by_book.items()}
    return {
        "run": run.name,
        **sg_of(read_document(run / "sg")),
        "blimp": 100 * read_document(run / "blimp")["scores"]["overall"],
        "nats": sum(nats[name] * words[name] for name in nats) / sum(words.values()),
        "perplexities": {name: math.exp(value) for name, value in nats.items()},
    }


def sg_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """SG, mean of 31 suites, and its circuits, in percent.

    Args:
        document: ``results.json`` of ``pdtools eval-sg``.
    """
    scores = document["scores"]
    circuits = {name: 100 * share for name, share in scores["by_circuit"].items()}
    return {"sg": 100 * scores["sg_31"], "circuits": circuits}


def comparison(runs: Mapping[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Return Pushdown LM less base, by score: the difference of means, its 95% interval, p and p corrected.

    Differences of SG and BLiMP are in points, that of perplexity in nats a word. Welch's t, Holm (1979).

    Args:
        runs: scores of each model's seeds (:func:`scores_of`).
    """
    found = {}
    for score in ("sg", "blimp", "nats"):
        base, ours = ([run[score] for run in runs[model]] for model in MODELS)
        difference, spread = mean(ours) - mean(base), Spread.of(0.0, ours, base)
        low, high = spread.interval(difference)
        found[score] = {"difference": difference, "low": low, "high": high, "p": spread.p(difference)}
    corrected = holm([each["p"] for each in found.values()])
    return {name: {**each, "corrected": p} for (name, each), p in zip(found.items(), corrected, strict=True)}


def curve_of(folder: Path) -> list[dict[str, Any]]:
    """SG of kept checkpoints, with the words that they had read (in Penn style)."""
    points = []
    for each in sorted(folder.glob("*-*-*/sg")):
        document = read_document(each)
        model, seed, step = each.parent.name.split("-")
        words = document["provenance"]["inputs"]["model"].get("words")
        points.append({"run": f"{model}-{seed}", "step": int(step), "words": words, **sg_of(document)})
    return sorted(points, key=lambda point: (point["run"], point["step"]))


def main(arguments: list[str] | None = None) -> None:
    """Read, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--curve", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    folders = {model: sorted(given.results.glob(f"{model}-[0-9]*")) for model in MODELS}
    if any(len(found) < 2 for found in folders.values()):
        raise SystemExit(f"{given.results}: a comparison over seeds needs two runs of each of {MODELS}")
    try:
        runs = {model: [scores_of(run) for run in found] for model, found in folders.items()}
    except (PdtoolsError, OSError) as error:
        raise SystemExit(str(error)) from None
    if len({tuple(run["perplexities"]) for found in runs.values() for run in found}) > 1:
        raise SystemExit(f"{given.results}: runs with perplexities of other books: are all scored?")
    compared = comparison(runs)
    points = curve_of(given.curve) if given.curve else []
    write_json(given.output, {"runs": runs, "comparison": compared, "curve": points})
    print("| run | SG | BLiMP | perplexity per word |\n|---|---|---|---|")
    for run in (run for found in runs.values() for run in found):
        print(f"| {run['run']} | {run['sg']:.1f} | {run['blimp']:.1f} | {math.exp(run['nats']):.1f} |")
    print("\n| Pushdown LM − base | difference | 95% | p | corrected |\n|---|---|---|---|---|")
    for score, found in compared.items():
        shown = [found[name] for name in ("difference", "low", "high")]
        if score == "nats":
            score, shown = "perplexity (%)", [100 * math.expm1(value) for value in shown]
        difference, low, high = (f"{value:+.1f}" for value in shown)
        print(f"| {score} | {difference} | {low} to {high} | {found['p']:.2g} | {found['corrected']:.2g} |")
    for point in points:
        print(point["run"], point["step"], point["words"], f"{point['sg']:.1f}")


if __name__ == "__main__":
    main()
