"""SAP's items (Huang et al. 2024) as a table of stimuli, and bits of their critical words by construction.

    python studies/reading/sap.py items sap.zip items.csv
    pdtools surprisal items.csv --model english --model english-base --words -o words.csv
    python studies/reading/sap.py bits sap.zip words.csv bits.csv

The archive is the benchmark's, with ``Surprisals/data``. ``items.csv`` has subset, item, condition, sentence
and critical (the number of the critical word, from 1). ``bits.csv`` has of each subset, condition and model
(the benchmark's GPT-2, LSTM and RNNG too) the mean over items of the critical word's surprisal, with its
bootstrap interval, and of each pair of conditions the mean difference.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pdtools.evaluation.bootstrap import interval

# Of each subset pairs of conditions, the first of which is expected to cost more.
SUBSETS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "ClassicGP": tuple((f"{name}_AMB", f"{name}_UAMB") for name in ("NPS", "NPZ", "MVRR")),
    "RelativeClause": (("RC_Obj", "RC_Subj"),),
    "AttachmentAmbiguity": (("AttachHigh", "AttachMulti"), ("AttachLow", "AttachMulti")),
    "Agreement": (("UNAGREE", "AGREE"),),
}
PUBLISHED = ("gpt2", "lstm", "rnng")
SAMPLES = 10_000


def rows(archive: zipfile.ZipFile, name: str) -> Iterator[dict[str, str]]:
    """Rows of a table; names of columns in small letters, the condition, and the critical word's number."""
    text = archive.read(f"Surprisals/data/{name}").decode("utf-8")
    for row in csv.DictReader(io.StringIO(text)):
        row = {column.lower(): cell for column, cell in row.items() if column}
        version = ""
        if "ambiguity" in row:  # which all tables have right; the RNNG's names one condition for both
            version = "amb" if row["ambiguity"] == "ambiguous" else "unamb"
            row["condition"] = f"{row['condition'].partition('_')[0]}_{'U' * (version == 'unamb')}AMB"
        row["critical"] = row.get(f"disambposition{version}") or row["targetposition"]
        yield row


def write_items(archive: zipfile.ZipFile, target: Path) -> None:
    """All sentences as stimuli."""
    with target.open("w", encoding="utf-8", newline="") as file:
        written = csv.writer(file, lineterminator="\n")
        written.writerow(["subset", "item", "condition", "sentence", "critical"])
        for subset in SUBSETS:
            for row in rows(archive, f"items_{subset}.pivot.csv"):
                cells = (row[name] for name in ("item", "condition", "sentence", "critical"))
                written.writerow([subset, *cells])


def critical_bits(
    archive: zipfile.ZipFile, words: Path
) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """The critical word's bits by subset and model, condition, and item."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for subset in SUBSETS:
        for model in PUBLISHED:
            name = f"{model}/items_{subset}.{model}.csv"
            if f"Surprisals/data/{name}" not in archive.namelist():
                continue
            for row in rows(archive, name):
                if int(row["word_pos"]) == int(row["critical"]) - 1:
                    bits = float(row["sum_surprisal"]) / math.log(2)
                    found[subset, model][row["condition"]][row["item"]] = bits
    with words.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["word_number"] == row["critical"]:
                found[row["subset"], row["model"]][row["condition"]][row["item"]] = float(row["surprisal"])
    return found


def write_bits(archive: zipfile.ZipFile, words: Path, target: Path) -> None:
    """Means and differences with intervals."""
    with target.open("w", encoding="utf-8", newline="") as file:
        written = csv.writer(file, lineterminator="\n")
        written.writerow(["subset", "of", "model", "items", "bits", "low", "high"])
        for (subset, model), of_condition in sorted(critical_bits(archive, words).items()):
            bits: dict[str, np.ndarray] = {}
            for pair in SUBSETS[subset]:
                more, less = (of_condition[condition] for condition in pair)
                items = sorted(more.keys() & less.keys(), key=int)
                first, second = (np.array([each[item] for item in items]) for each in (more, less))
                bits |= dict(zip(pair, (first, second), strict=True)) | {" - ".join(pair): first - second}
            for name, of_items in bits.items():
                draws = np.random.default_rng(0).integers(0, len(of_items), (SAMPLES, len(of_items)))
                low, high = interval(of_items[draws].mean(1))
                numbers = (f"{value:.4f}" for value in (of_items.mean(), low, high))
                written.writerow([subset, name, model, len(of_items), *numbers])


if __name__ == "__main__":
    action, source, *files = sys.argv[1:]
    with zipfile.ZipFile(source) as opened:
        if action == "items":
            write_items(opened, Path(files[0]))
        else:
            write_bits(opened, Path(files[0]), Path(files[1]))
