"""Benchmarks beside lm-evaluation-harness: log-probabilities of all strings, and accuracies.

    python benchmarks/harness.py --limit 200 --model gpt2/ zorro=Zorro/ multiblimp=multiblimp.zip

A JSON line for each set: how many ``strings`` were ``compared``, the largest ``difference`` of a
log-probability (nats), and both accuracies, the mean over items. The harness is given each item's strings as
the choices of one of its tasks, with ``target_delimiter: ""``; a prediction is that the first string is
higher than the others. The exit status is 1 if a difference is over 10⁻³ nats or an accuracy differs.
It needs the packages lm_eval and datasets; without ``--model`` a tiny random GPT-2 is made.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from comparison import REPOSITORY

from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.from_toml import read_benchmark
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.search import load_model

_ALLOWED = 1e-3  # nats


def tiny_model(folder: Path, texts: list[str]) -> Path:
    """A random GPT-2 whose tokens are learned from some texts."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "helpers"))
    from toy_gpt2 import save_gpt2

    return save_gpt2(folder, texts, positions=512)


def choices(item: Item) -> dict[str, Any]:
    """An item as a document of the harness: its context, and its scored parts, the right one
    first."""
    names = list(item.strings)
    _, right = next(iter(item.formulas.values())).regions[0]  # "right > max(others)", or "good > bad"
    names.insert(0, names.pop(names.index(right)))
    strings = [item.strings[name] for name in names]
    before = {string.text[: string.start] if string.start else "" for string in strings}
    assert len(before) == 1, "the harness has one context for all choices"
    (context,) = before
    return {
        "context": context,
        "choices": [string.text[len(context) :] for string in strings],
        "names": names,
    }


def harness(documents: list[dict[str, Any]], model: str, folder: Path) -> tuple[list[list[float]], float]:
    """The results of lm-evaluation-harness: log-probabilities of the choices, and its accuracy."""
    from lm_eval import simple_evaluate

    data = folder / "documents.jsonl"
    data.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in documents), "utf-8")
    task = {
        "task": "set",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": str(data)},
        "test_split": "train",
        "output_type": "multiple_choice",
        "doc_to_text": "{{context}}",
        "doc_to_choice": "choices",
        "doc_to_target": 0,
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    found = simple_evaluate(
        model="hf", model_args=f"pretrained={model},dtype=float32", tasks=[task], device="cpu", batch_size=16
    )
    samples = sorted(found["samples"]["set"], key=lambda sample: sample["doc_id"])
    scores = [[float(choice[0][0]) for choice in sample["resps"]] for sample in samples]
    return scores, found["results"]["set"]["acc,none"]


def compare(name: str, source: str, model: str, limit: int | None, folder: Path) -> dict[str, Any]:
    """Compare both on one set."""
    items = Items(source, read_benchmark(name), limit)
    documents = [choices(item) for item in items]
    # The harness reads a beginning-of-sentence token where there is no context, and none before a context.
    scorer = load_model(model, bos=not any(document["context"] for document in documents))
    results = evaluate_items(items, scorer)
    main = [row for row in results.table("items").to_pylist() if row["prediction"] == 1]
    logprobs = {
        (row["item"], row["string"]): -math.log(2) * (row["bits"] or 0.0)
        for row in results.table("strings").to_pylist()
    }
    theirs, accuracy = harness(documents, model, folder)
    pairs = [
        (logprobs[row["item"], string], score)
        for row, document, scores in zip(main, documents, theirs, strict=True)
        for string, score in zip(document["names"], scores, strict=True)
    ]
    ties = sum(row["outcome"] == "tie" for row in main)
    return {
        "set": name,
        "items": len(main),
        "strings": len(pairs),
        "difference": max(abs(a - b) for a, b in pairs),
        "harness": accuracy,
        "pdtools": sum(bool(row["correct"]) for row in main) / len(main),
        "ties": ties / len(main),  # the harness takes the first of equal ones
    }


def main() -> int:
    """Compare, print, and say by the exit status whether everything agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sets", nargs="+", metavar="NAME=DATA")
    parser.add_argument("--model", help="the folder of a causal language model of Hugging Face")
    parser.add_argument("--limit", type=int, help="items of each finest group")
    options = parser.parse_args()
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(
            tiny_model(Path(folder) / "model", ["the dog that chased the cats barks"])
        )
        for each in options.sets:
            name, _, source = each.partition("=")
            line = compare(name, source, model, options.limit, Path(folder))
            print(json.dumps(line), flush=True)
            agree &= line["difference"] <= _ALLOWED
            agree &= line["pdtools"] <= line["harness"] <= line["pdtools"] + line["ties"] + 1e-12
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
