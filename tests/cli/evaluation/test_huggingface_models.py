"""Scoring commands on Hugging Face models: texts that begin oddly, folders that cannot be loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas
import pytest
from toy_gpt2 import Reference
from toy_sets import condition, suite_of
from toy_tokenizers import save_kind
from wide_items import wide_items

from pdtools.cli.main import run

pytest.importorskip("transformers")

# Their tokenizer puts a blank before the first word, which is a token of its own before a digit or a quote.
GOOD = ["The dog barks.", "the cats bark", "A naïve dog"]
BAD = ["2 dogs bark.", '"Go," he said', "  the cats", "1 b"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_kind(tmp_path_factory.mktemp("trimmed") / "model", "byte-level, blank before, trimmed")


@pytest.fixture(scope="module")
def reference(model: Path) -> Reference:
    return Reference(model)


def test_a_pair_that_the_first_blank_decides(model: Path, reference: Reference, tmp_path: Path) -> None:
    """Without the blank's surprisal the other sentence would be the better one."""
    right = {text: reference.logprobs(text) for text in [*GOOD, *BAD]}
    totals = {text: math.fsum(values) for text, values in right.items()}
    rest = {text: math.fsum(right[text][text in BAD :]) for text in right}
    pairs = [(g, b) for g in GOOD for b in BAD if totals[g] > totals[b] and rest[g] < rest[b]]
    assert pairs
    lines = ["sentence_good\tsentence_bad", *map("\t".join, pairs)]
    (tmp_path / "flip.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["eval-blimp", str(tmp_path / "flip.tsv"), "--model", str(model), "-q", "-o"]
    assert run([*command, str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out/results.json").read_text())["scores"]["overall"] == 1
    items = wide_items(tmp_path / "out")
    assert items.logprob_bad.tolist() == pytest.approx([totals[bad] for _, bad in pairs], rel=2e-6, abs=1e-4)
    assert items.tokens_bad.tolist() == [len(right[bad]) for _, bad in pairs]


@pytest.mark.parametrize("text", BAD)
def test_a_region_has_the_blank_before_it(
    model: Path, reference: Reference, tmp_path: Path, text: str
) -> None:
    first, rest = text.split(maxsplit=1)
    suite = suite_of([condition("x", first, rest), condition("y", "The", "dog")])
    (tmp_path / "s.json").write_text(json.dumps(suite))
    command = ["eval-sg", str(tmp_path / "s.json"), "--model", str(model), "-q", "-o", str(tmp_path / "out")]
    assert run(command) == 0
    regions = pandas.read_parquet(tmp_path / "out/strings.parquet")
    found = regions[(regions.string == "x") & (regions.region == 1)]
    # The words stand with single spaces between them, as regions are put together.
    of_first = len(reference.ids(first))
    right = reference.logprobs(f"{first} {rest}")
    assert found.tokens.item() == of_first
    assert found.bits.item() == pytest.approx(-math.fsum(right[:of_first]) / math.log(2), abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("digits, byte-level, trimmed", "1,000 dollars here"),
        ("digits, byte-level, trimmed", "the 12 dogs, 3.5 'old'"),
        ("words, byte-level, trimmed", '"1" (2) dogs '),
        ("metaspace first, not split", "1,2 the\u00a0dog  12"),
        ("unigram, NFKC", "½ ﬁne 2 dogs"),
    ],
)
def test_each_word_stands_once(
    tmp_path: Path, kind: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_kind(tmp_path / "model", kind)
    assert run(["surprisal", "--text", text, "--words", "--model", str(folder), "-q"]) == 0
    _, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in rows] == text.split()
    right = -math.fsum(Reference(folder).logprobs(text)) / math.log(2)
    assert math.fsum(float(row[-1]) for row in rows) == pytest.approx(right, abs=1e-3)
