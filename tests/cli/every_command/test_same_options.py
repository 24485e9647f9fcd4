"""Options of a model and its search give the same numbers in every command that has them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from action_oracle import action_model
from search_oracle import WORDS, save_checkpoints
from toy_gpt2 import save_gpt2
from toy_sets import condition, suite_of, write_pairs
from toy_tokenizers import save_masked

from pdtools.cli.main import run
from pdtools.models import save_checkpoint

RNG = random.Random(4)
SENTENCES = {
    "words": [" ".join(RNG.choices(WORDS, k=RNG.randint(2, 5))) for _ in range(6)],
    "text": [f"{a} {b} barked dogs" for a in ("The", "Those", "These") for b in ("dogs", "catfish")],
}
AFTER = ("--context", "{}/before.txt")
OPTIONS: dict[str, list[tuple[str, ...]]] = {
    "windows/pushdown": [
        ("--beam", "2", "--nats"),
        ("--margin", "0.4"),
        (*AFTER, "--beam", "4", "--context-parses", "beam"),
        (*AFTER, "--window", "9", "--margin", "1", "--search", "max_batch=2"),
    ],
    "sentences/pushdown": [("--trees", "{}/all.trees"), ("--dtype", "bf16", "--beam", "4")],
    "tg": [
        ("--search", "word_beam=2", "--nats"),
        ("--beam", "3", "--search", "fast_track=1", "--margin", "3"),
    ],
    "gpt2": [("--no-bos",), (*AFTER, "--window", "40"), (*AFTER, "--no-bos", "--dtype", "bf16")],
    "masked": [("--pll", "original"), ("--pll", "whole-word"), ("--pll", "original", "--dtype", "bf16")],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_checkpoints(folder / "windows", window=24)
    _, tokenizer = save_checkpoints(folder / "sentences")
    settings = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    labels = tokenizer.with_labels(["S", "X"])
    save_checkpoint(folder / "tg", action_model("tg", "relative", max_open=8), labels, shards=settings)
    return folder


@pytest.fixture
def folder(request: pytest.FixtureRequest, models: Path, tmp_path: Path) -> Path:
    """The same sentences as lines, a table, pairs in two forms and a suite; and what is read before them."""
    sentences = SENTENCES["text" if request.node.callspec.params["model"] in ("gpt2", "masked") else "words"]
    (tmp_path / "before.txt").write_text(f"{sentences[1]}\n{sentences[0]}\n")
    flat = ["".join(("(S ", *(f"(X {word})" for word in each.split()), ")")) for each in sentences]
    right = [
        "".join((*(f"(S (X {word}) " for word in words), f"(X {last})", ")" * len(words)))
        for *words, last in map(str.split, sentences)
    ]
    blocks = dict(zip(sentences, ({a, b} for a, b in zip(flat, right, strict=True)), strict=True))
    (tmp_path / "all.trees").write_text("\n\n".join("\n".join(sorted(each)) for each in blocks.values()))
    (tmp_path / "lines.txt").write_text("".join(f"{each}\n" for each in sentences))
    (tmp_path / "table.csv").write_text("".join(f"{each}\n" for each in ("sentence", *sentences)))
    pairs = list(zip(sentences[::2], sentences[1::2], strict=True))
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in (("good", "bad"), *pairs)))
    items = [
        [condition(name, *each.split(" ", 1)) for name, each in zip("xy", pair, strict=True)]
        for pair in pairs
    ]
    (tmp_path / "suite.json").write_text(json.dumps(suite_of(*items)))
    times = ["item\tword_number\tword\ttime\n"]
    for i, sentence in enumerate(sentences):
        times += [f"{i}\t{n}\t{word}\t{RNG.random()}\n" for n, word in enumerate(sentence.split(), 1)]
    (tmp_path / "times.tsv").write_text("".join(times))
    return tmp_path


@pytest.mark.parametrize(
    ("model", "options"), [(model, options) for model, every in OPTIONS.items() for options in every]
)
def test_the_same_options_give_the_same_numbers(
    model: str, options: tuple[str, ...], folder: Path, models: Path
) -> None:
    path = models / model
    if model in ("gpt2", "masked"):
        pytest.importorskip("transformers", reason="transformers is not installed")
        if model == "gpt2" and not path.exists():
            save_gpt2(path, SENTENCES["text"])
        elif not path.exists():
            save_masked(path, "subwords")
    nats = "--nats" in options
    given = [each.format(folder) for each in options if each != "--nats"]

    def made(command: str, source: str, *more: str, name: str = "out") -> Path:
        output = folder / f"{command}-{name}"
        arguments = [command, str(folder / source), "--model", str(path), "--device", "cpu", "-q", *more]
        assert run([*arguments, "-o", str(output)]) == 0
        return output

    def tokens(*more: str, name: str) -> pd.DataFrame:
        found = pd.read_csv(made("surprisal", "lines.txt", *more, name=name), sep="\t", keep_default_na=False)
        factor = math.log(2) if nats else 1.0
        return found.assign(surprisal=found["surprisal"] / (factor if "--nats" in more else 1.0))

    found = tokens(*given, *(["--nats"] if nats else []), name="tokens.tsv")
    plain = tokens(name="plain.tsv")
    assert found["surprisal"].tolist() != pytest.approx(plain["surprisal"].tolist(), rel=1e-5)
    whole = found.groupby("sentence_id")["surprisal"].sum().tolist()
    own = found[found["token"] != "<eos>"]
    own = own[own["start"] < own["end"]]
    close: Any = {"rel": 1e-5, "abs": 1e-5}

    without_end = own.groupby("sentence_id")["surprisal"].sum().tolist()
    if "--trees" not in options:
        table = pd.read_csv(made("surprisal", "table.csv", *given, name="table.csv"))
        assert table["surprisal"].tolist() == pytest.approx(without_end, **close)

    for command, source, more in (
        ("eval-blimp", "pairs.jsonl", ()),
        ("eval-benchmark", "pairs.tsv", ("--good", "good", "--bad", "bad")),
    ):
        strings = pq.read_table(made(command, source, *more, *given) / "strings.parquet").to_pandas()
        assert strings["bits"].tolist() == pytest.approx(whole, **close)
    regions = pq.read_table(made("eval-sg", "suite.json", *given) / "strings.parquet").to_pandas()
    regions = regions[regions["region"].notna()]
    of_strings = regions.groupby(["item", "string"], sort=False)["bits"].sum()
    assert of_strings.tolist() == pytest.approx(without_end, **close)

    if model in ("gpt2", "masked"):  # the other words are all of one length
        quick = ("--folds", "2", "--spillover", "0", "--samples", "100", "--edges", "--min-time", "0")
        items = pq.read_table(made("eval-reading", "times.tsv", *quick, *given) / "items.parquet").to_pandas()
        words = pd.read_csv(made("surprisal", "lines.txt", "--words", *given, name="words.tsv"), sep="\t")
        words = words[words["word"] != "<eos>"]
        (column,) = (name for name in items if name.startswith("surprisal_"))
        assert items[column].dropna().tolist() == pytest.approx(words["surprisal"].tolist(), **close)

    if model != "masked":
        lines = made("eval-ppl", "lines.txt", *given)
        rows = pq.read_table(lines / "items.parquet").to_pandas()
        assert (-rows["marginal"] / math.log(2)).tolist() == pytest.approx(whole, **close)
