"""The models of English that come with pdtools: what they score, by whichever way they are asked.

``bundled_models.json`` has what they scored when they were exported. To write it again:
``python tests/package/test_bundled_models.py BLiMP.zip``.
"""

from __future__ import annotations

import io
import json
import math
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from wide_items import wide_items

import pdtools
from pdtools.cli.main import run
from pdtools.data import model as folder_of
from pdtools.files.manifest import check_checksums

EXPECTED = Path(__file__).with_name("bundled_models.json")
NAMES = ("english", "english-base")
BEAM = 10
SENTENCES = [
    "The horse raced past the barn fell.",
    "While the woman washed the baby cried.",
    "“I don’t know,” said Mr. Brown, “what you mean.”",
    "Nobody had ever told the old man that his brother was alive.",
    "The keys to the cabinet are on the table.",
    "What the boys who the teacher praised wanted was a holiday.",
]


def totals(name: str) -> list[float]:
    """Bits of each sentence."""
    table = pdtools.load(name, beam=BEAM, device="cpu").surprisal(SENTENCES)
    return [float(each) for each in table.groupby("sentence_id").surprisal.sum()]


def pairs(name: str, blimp: Path, folder: Path) -> list[list[float]]:
    """The log-probabilities of the first two pairs of each of BLiMP's paradigms, good and bad."""
    command = ["eval-blimp", str(blimp), "--limit", "2", "--beam", str(BEAM), "--device", "cpu", "--quiet"]
    assert run([*command, "--model", name, "-o", str(folder)]) == 0
    items = wide_items(folder).sort_values(["paradigm", "item"])
    return items[["logprob_good", "logprob_bad"]].to_numpy(float).tolist()


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = json.loads(EXPECTED.read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_bits_of_sentences(name: str, expected: dict[str, dict[str, list[float]]]) -> None:
    assert totals(name) == pytest.approx(expected[name]["sentences"], abs=1e-3)
    check_checksums(folder_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_pairs_of_blimp(
    name: str, expected: dict[str, dict[str, list[float]]], test_data: Path, tmp_path: Path
) -> None:
    found = pairs(name, test_data / "blimp" / "BLiMP.zip", tmp_path / "results")
    assert found == [pytest.approx(pair, abs=1e-3) for pair in expected[name]["blimp"]]


def test_quotes_as_people_type_them() -> None:
    typeset, typed = "“I don’t know … ” — she said.", '"I don\'t know ... " -- she said.'
    for name in NAMES:
        model = pdtools.load(name, beam=2, device="cpu")
        first, second = (model.surprisal(each) for each in (typeset, typed))
        assert first.surprisal.tolist() == second.surprisal.tolist()
        for text, table in ((typeset, first), (typed, second)):  # offsets are of what was given
            tokens = [text[start:end] for start, end in zip(table.start, table.end, strict=True)]
            assert "".join(tokens).replace(" ", "") == text.replace(" ", "")


def test_nothing_is_unknown() -> None:
    strange = ["naïve Ωμέγα 東京 🙂 zyzzyva", "x" * 60, "\u200bé\u0301 ½ £ ‽"]
    table = pdtools.load("english-base", device="cpu").surprisal(strange)
    assert not table.token.str.contains("<unk>").any()
    assert table.surprisal.map(math.isfinite).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_way_says_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from pdtools.hf import PdtoolsForCausalLM, PdtoolsTokenizer

    sentence = SENTENCES[0]
    bits = pdtools.load(name, beam=BEAM, device="cpu").surprisal(sentence).surprisal
    asked = [
        "surprisal",
        "--text",
        sentence,
        "--model",
        name,
        "--beam",
        str(BEAM),
        "--device",
        "cpu",
        "--quiet",
    ]
    assert run(asked) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out), sep="\t", quoting=3)
    assert table.surprisal.tolist() == pytest.approx(bits.tolist(), rel=2e-6, abs=1e-4)
    model, tokenizer = (
        PdtoolsForCausalLM.from_pretrained(name, beam=BEAM),
        PdtoolsTokenizer.from_pretrained(name),
    )
    ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
    if ids[0, -1] != tokenizer.eos_token_id:
        ids = torch.cat([ids, torch.tensor([[tokenizer.eos_token_id]])], 1)
    with torch.no_grad():
        log_probs = model(ids).logits[0].double()
    if name == "english-base":  # those of a beam are not normalised again: what it drops is missing
        log_probs = torch.log_softmax(log_probs, -1)
    shift = ids.shape[1] - len(bits)  # a symbol of the beginning, if the tokenizer writes one
    assert shift == 1
    found = log_probs[:-1].gather(-1, ids[0, 1:, None])[:, 0] / -math.log(2)
    assert found.tolist() == pytest.approx(bits.tolist(), abs=1e-3)


@pytest.mark.parametrize(("name", "within"), [("english-base", 1e-3), ("english", 0.1)])
def test_minicons(name: str, within: float) -> None:
    """It normalises logits again, and so shares out what the beam dropped: fewer bits, hardly."""
    pytest.importorskip("pdtools.hf")
    scorer_module = pytest.importorskip("minicons.scorer")
    scorer = scorer_module.IncrementalLMScorer(str(folder_of(name)), "cpu")
    found = scorer.sequence_score(SENTENCES[:2], reduction=lambda logs: logs.sum().item(), eos_token=True)
    table = pdtools.load(name, device="cpu", beam=300).surprisal(SENTENCES[:2])
    for log_prob, bits in zip(found, table.groupby("sentence_id").surprisal.sum(), strict=True):
        assert -1e-3 < bits - -log_prob / math.log(2) < within


if __name__ == "__main__":
    written = {}
    for bundled in NAMES:
        with tempfile.TemporaryDirectory() as temporary:
            of_blimp = pairs(bundled, Path(sys.argv[1]), Path(temporary, "results"))
        written[bundled] = {
            "sentences": [round(each, 4) for each in totals(bundled)],
            "blimp": [[round(each, 4) for each in pair] for pair in of_blimp],
        }
    EXPECTED.write_text(json.dumps(written) + "\n")
