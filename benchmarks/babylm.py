"""BabyLM's evaluation pipeline, from a checkout of it, on an exported model: its numbers beside ours.

    python benchmarks/babylm.py CHECKOUT/strict --model to-share/model [--python PYTHON]

The pipeline is run as it is, by its own commands, in its own process: minimal pairs, and words after a
context. The data are of the bundled vocabulary (``--pairs FOLDER`` takes others, as BLiMP has them). A JSON
line for each: how many numbers were ``compared``, for pairs how many verdicts differ, and both accuracies,
for words the largest ``difference`` (nats). The exit status is 1 if a difference is over 10⁻³ nats or a
verdict differs. It needs the packages of the pipeline's requirements.txt; ``--python`` is the interpreter
that has them, and pdtools.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pdtools
from pdtools import data

_ALLOWED = 1e-3  # nats
# Columns of reading times and their predictors, which its regressions need.
_TIMES = "RTfirstfix RTfirstpass RTgopast RTrightbound self_paced_reading_time ELAN LAN N400 P600 EPNP PNP"
_CONTROLS = "Subtlex_log10 length context_length prev_length"


def totals(model: Any, texts: list[str]) -> list[float]:
    """The log p of texts by our scorer, without their ends, in nats."""
    table = model.surprisal(texts, nats=True)
    found = table[table.token != "<eos>"].groupby("sentence_id").surprisal.sum()
    return (-found).tolist()


def pipeline(module: str, options: argparse.Namespace, *arguments: str | Path) -> None:
    """Run one of its modules, in its checkout."""
    command = [options.python, "-m", f"evaluation_pipeline.{module}", "--backend", "causal"]
    command += ["--model_path_or_name", str(Path(options.model).resolve()), *map(str, arguments)]
    done = subprocess.run(command, cwd=options.checkout, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{module} failed:\n{done.stderr}")


def pairs(options: argparse.Namespace, model: Any, folder: Path) -> dict[str, Any]:
    """Compare its verdicts on minimal pairs with ours."""
    given = folder / "pairs"
    given.mkdir()
    rows = []
    for file in sorted(Path(options.pairs or data.blimp()).glob("*.jsonl")):
        lines = file.read_text("utf-8").splitlines()[: options.limit]
        (given / file.name).write_text("\n".join(lines) + "\n", "utf-8")
        rows += [(file.stem, index, json.loads(line)) for index, line in enumerate(lines)]
    out = folder / "out"
    pipeline(
        "sentence_zero_shot.run",
        options,
        *("--task", "blimp", "--data_path", given, "--output_dir", out, "--save_predictions"),
    )
    (file,) = out.rglob("predictions.json")
    chosen = {
        each["id"]: each["pred"].strip()
        for group in json.loads(file.read_text("utf-8")).values()
        for each in group["predictions"]
    }
    good = totals(model, [row["sentence_good"] for *_, row in rows])
    bad = totals(model, [row["sentence_bad"] for *_, row in rows])
    differ, right = 0, 0
    for (name, index, row), one, other in zip(rows, good, bad, strict=True):
        theirs = chosen[f"{row.get('UID', name)}_{index}"] == row["sentence_good"]
        differ += theirs != (one > other) and abs(one - other) > _ALLOWED
        right += theirs
    return {
        "set": "pairs",
        "compared": len(rows),
        "verdicts_that_differ": differ,
        "pipeline": right / len(rows),
        "pdtools": sum(a > b for a, b in zip(good, bad, strict=True)) / len(rows),
    }


def words(options: argparse.Namespace, model: Any, folder: Path) -> dict[str, Any]:
    """Compare its log p of words after a context with ours. Made-up reading times cannot change these."""
    chance = random.Random(0)
    file = sorted(data.blimp().glob("*.jsonl"))[0]
    texts = [json.loads(line)["sentence_good"] for line in file.read_text("utf-8").splitlines()[:12]]
    rows = []
    for text in texts:
        parts = text.removesuffix(".").split(" ")
        for i in range(2, len(parts)):
            before, earlier = " ".join(parts[:i]), " ".join(parts[: i - 1])
            row = {
                "item": before,
                "word": " " + parts[i],
                "prev_item": earlier,
                "prev_word": " " + parts[i - 1],
            }
            rows.append(row | {name: chance.random() for name in f"{_TIMES} {_CONTROLS}".split()})
    table = folder / "reading.csv"
    with table.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    out = folder / "reading"
    pipeline("reading.run", options, "--data_path", table, "--output_dir", out)
    (found,) = out.rglob("prediction.jsonl")
    theirs = [json.loads(line)["Logprob"] for line in found.read_text("utf-8").splitlines()]
    ours = model.surprisal([row["item"] + row["word"] for row in rows], nats=True)
    ours = ours[ours.token != "<eos>"]
    own = [
        ours[(ours.sentence_id == i) & (ours.end > len(row["item"]))].surprisal.sum()
        for i, row in enumerate(rows, start=1)
    ]
    difference = max(abs(a - b) for a, b in zip(theirs, own, strict=True))
    return {"set": "words", "compared": len(own), "difference": difference}


def main() -> int:
    """Run, print, and say by the exit status whether everything agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkout", type=Path, help="the folder that has evaluation_pipeline/ in it")
    parser.add_argument("--model", required=True, help="a folder that pdtools export wrote")
    parser.add_argument(
        "--beam", type=int, default=300, help="ours; its is that of the folder, by default 300"
    )
    parser.add_argument("--pairs", type=Path, help="a folder of .jsonl files, as BLiMP's")
    parser.add_argument("--limit", type=int, default=20, help="pairs of each file")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has its packages")
    options = parser.parse_args()
    if not (options.checkout / "evaluation_pipeline").is_dir():
        parser.error(f"{options.checkout}: no evaluation_pipeline/ in it")
    model = pdtools.load(options.model, beam=options.beam)
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        for compare in (pairs, words):
            line = compare(options, model, Path(folder))
            print(json.dumps(line), flush=True)
            differ = line.get("verdicts_that_differ", 0)
            agree &= not differ and not math.isnan(line.get("difference", 0))
            agree &= line.get("difference", 0) <= _ALLOWED
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
