"""RNNGs in the evaluations: their numbers are those of the model."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from toy_language import brackets
from toy_sets import condition, suite_of

from pdtools.cli.main import run
from pdtools.models import load_checkpoint
from pdtools.search import load_model
from pdtools.search.kinds import particle_search
from pdtools.search.options import Particles, SearchOptions
from pdtools.shards import ShardSet

SHAPE = ["config.d_model=16", "config.dropout=0.1"]
SCHEDULE = ["train.steps=4", "train.eval_every=4", "train.batch_sentences=8", "train.batch_tokens=0"]
WIDTHS = {"beam": 30, "word_beam": 4, "fast_track": 3}
TOKENIZERS = {
    "rnng": ["--tokenizer", "word", "--min-count", "1"],
    "rnng-in-order": ["--tokenizer", "bpe", "--vocab-size", "264", "--text-style", "ptb"],
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_evaluations_say_what_the_model_says(name: str, tmp_path: Path) -> None:
    """Over words top-down, over subwords in-order with attention; perplexities by particles too."""
    rng = random.Random(0)
    (tmp_path / "some.trees").write_text("".join(brackets(rng) + "\n" for _ in range(20)))
    shards, folder = tmp_path / "shards", tmp_path / "run"
    assert run(["tapes", str(tmp_path / "some.trees"), *TOKENIZERS[name], "-q", "-o", str(shards)]) == 0
    composition = "attention" if name == "rnng-in-order" else "lstm"
    settings = [*SHAPE, *SCHEDULE, f"config.composition={composition}"]
    given = [part for each in settings for part in ("--set", each)]
    command = ["train", str(shards), "--valid", str(shards), "--model", name, "--device", "cpu", "-q"]
    assert run([*command, *given, "-o", str(folder)]) == 0

    rows = ShardSet.open(shards)
    good, bad = (rows.text(i) for i in (0, 1))
    model = load_model(folder, SearchOptions(**WIDTHS))
    wanted = {score.text: score for score in model.score([good, bad])}
    bits = {text: -float(score.logprobs.sum()) / math.log(2) for text, score in wanted.items()}
    (tmp_path / "pairs.jsonl").write_text(
        json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": "order"}) + "\n"
    )
    parts = {text: (text.split(" ", 1)[0], text.split(" ", 1)[1]) for text in (good, bad)}
    suite = suite_of([condition("x", *parts[good]), condition("y", *parts[bad])])
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    (tmp_path / "pairs.tsv").write_text(f"right\twrong\n{good}\t{bad}\n")
    asked = ["--model", str(folder), "--device", "cpu", "-q", "--beam", "30"]
    asked += ["--search", "word_beam=4", "--search", "fast_track=3"]
    for file, options in (
        ("pairs.jsonl", ["eval-blimp"]),
        ("pairs.tsv", ["eval-benchmark", "--good", "right", "--bad", "wrong"]),
    ):
        out = tmp_path / options[0]
        assert run([options[0], str(tmp_path / file), *options[1:], *asked, "-o", str(out)]) == 0
        found = {row["read"]: row["bits"] for row in pq.read_table(out / "strings.parquet").to_pylist()}
        assert found == pytest.approx(bits, rel=1e-6)
    assert run(["eval-sg", str(tmp_path / "suite.json"), *asked, "-o", str(tmp_path / "sg")]) == 0
    for row in pq.read_table(tmp_path / "sg" / "strings.parquet").to_pylist():
        if row["region"] is not None:
            score, first = wanted[row["read"]], len(row["read"].split(" ", 1)[0])
            inside = (np.array(score.ends) <= first) == (row["region"] == 1)
            inside &= np.array(score.words) >= 0
            assert row["bits"] == pytest.approx(-float(score.logprobs[inside].sum()) / math.log(2), rel=1e-6)

    ppl = ["eval-ppl", str(shards), *asked, "--particles", "7", "-o", str(tmp_path / "ppl")]
    assert run(ppl) == 0
    items = pq.read_table(tmp_path / "ppl" / "items.parquet").to_pylist()
    assert items[0]["marginal"] == pytest.approx(-bits[good] * math.log(2), rel=1e-6)
    loaded = load_checkpoint(folder)
    (drawn,) = particle_search(
        loaded.model,
        [rows.tokens(0)],
        Particles(number=7),
        inside=[np.append(False, rows.word(0)[1:] == rows.word(0)[:-1]) & (rows.word(0) >= 0)],
    )
    assert items[0]["particles"] == pytest.approx(float(drawn.prefix_logprobs[-1]), rel=1e-6)
