"""Dependency Transformer Grammars through the commands: from CoNLL-U to scores and parses."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from arc_oracle import projective_trees
from options import with_options

from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.tokenization import split_words
from pdtools.trees import Tree
from pdtools.trees.arc_standard import static_oracle
from pdtools.trees.forms import read_treebank

SETTINGS = ["config.layers=1", "config.d_model=16", "config.heads=2", "config.d_ff=16", "train.steps=6"]
SETTINGS += ["train.eval_every=3", "train.batch_sentences=8", "train.batch_tokens=0"]
CROSSING = ["the", "dog", "barks", "a", "cat"], [3, 4, 0, 3, 4]


def block(words: Sequence[str], heads: Sequence[int]) -> str:
    """A sentence of CoNLL-U."""
    lines = [
        f"{k}\t{word}\t_\tX\t_\t_\t{head}\t_\t_\t_\n"
        for k, (word, head) in enumerate(zip(words, heads, strict=True), 1)
    ]
    return "".join([*lines, "\n"])


def sentence(rng: random.Random) -> str:
    """A subject, a verb, and perhaps an object."""
    words = [rng.choice(["the", "a"]), rng.choice(["dog", "cat"]), rng.choice(["barks", "sees"])]
    if words[2] == "barks":
        return block(words, [2, 3, 0])
    return block([*words, rng.choice(["the", "a"]), rng.choice(["dog", "cat"])], [2, 3, 0, 5, 3])


def make_shards(folder: Path, text: str, *more: str) -> Path:
    """Shards of CoNLL-U."""
    (folder / "bank.conllu").write_text(text)
    trees = str(folder / "bank.trees")
    assert run(["parse", str(folder / "bank.conllu"), "--from", "conllu", "-o", trees, "-q"]) == 0
    command = ["tapes", trees, "-q", "-o", str(folder / "shards"), *(more or ("--min-count", "1"))]
    assert run(command) == 0
    return folder / "shards"


def train(shards: Path, out: Path, *more: str) -> int:
    """``pdtools train`` of a model that is small."""
    command = ["train", str(shards), "--valid", str(shards), "--model", "dtg", "--device", "cpu", "-q"]
    command += [part for each in SETTINGS for part in ("--set", each)]
    return run(with_options([*command, "-o", str(out)], *more))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of forty sentences."""
    rng = random.Random(0)
    return make_shards(tmp_path_factory.mktemp("dtg"), "".join(sentence(rng) for _ in range(40)))


@pytest.fixture(scope="module")
def model(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run."""
    out = tmp_path_factory.mktemp("dtg-run") / "run"
    assert train(shards, out) == 0
    return out


def totals(text: str) -> dict[str, float]:
    """Log-probabilities of sentences, from a table of surprisals in nats."""
    found: dict[str, float] = {}
    for line in text.splitlines()[1:]:
        number, *_, surprisal = line.split("\t")
        found[number] = found.get(number, 0.0) - float(surprisal)
    return found


def test_a_resumed_run_is_the_same_to_the_bit(shards: Path, tmp_path: Path) -> None:
    constant = ["--set", "train.schedule=constant"]
    assert train(shards, tmp_path / "cut", *constant, "--set", "train.steps=3") == 0
    assert train(shards, tmp_path / "again", *constant) == 0
    assert train(shards, tmp_path / "cut", *constant, "--resume") == 0
    weights = [(tmp_path / name / "last" / "model.safetensors").read_bytes() for name in ("cut", "again")]
    assert weights[0] == weights[1]
    last = json.loads((tmp_path / "again" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["ppl_token_joint"] > last["ppl_token_given_trees"] > 1
    assert 0 <= last["action_accuracy"] <= 1


def test_sums_over_given_trees(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each tree has the static oracle's sequence; all trees together have less than the search finds."""
    words = ["the", "dog", "sees", "cat"]
    trees = projective_trees(len(words))
    blocks = [block(words, [head + 1 for head in heads]) for heads in trees]
    (tmp_path / "trees.conllu").write_text("".join([*blocks, blocks[0], block(*CROSSING)]))
    (tmp_path / "text.txt").write_text(" ".join(words) + "\n")
    command = ["surprisal", str(tmp_path / "text.txt"), "--model", str(model), "--nats", "--device", "cpu"]
    command.append("-q")
    assert run([*command, "--trees", str(tmp_path / "trees.conllu")]) == 0
    given = totals(capsys.readouterr().out)["1"]
    loaded = load_checkpoint(model)
    ids = loaded.tokenizer.encode(split_words(" ".join(words), "ptb")).ids
    rows = [(ids, static_oracle(np.array(heads, np.int32))) for heads in trees]
    with torch.no_grad():
        parts = loaded.model.eval().forward_parts(loaded.model.pack(rows))
    joints = (parts.token_logprobs + parts.attach_logprobs).sum(1)
    assert given == pytest.approx(float(joints.logsumexp(0)), rel=2e-6, abs=1e-4)
    assert run([*command, "--beam", "1000", "--search", "word_beam=1000"]) == 0
    assert totals(capsys.readouterr().out)["1"] > given + 0.01


def test_perplexities_and_parses(
    model: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", str(model), "--device", "cpu", "-q"]
    out = ["-o", str(tmp_path / "ppl")]
    assert run(["eval-ppl", str(shards), *common, "--beam", "20", *out]) == 0
    scores = json.loads((tmp_path / "ppl" / "results.json").read_text())["scores"]
    assert scores["ppl_token_given_trees"] < scores["ppl_token_marginal"] < scores["ppl_token_joint"]
    (tmp_path / "text.txt").write_text("the dog barks\na cat sees the dog\n")
    capsys.readouterr()
    assert run(["surprisal", str(tmp_path / "text.txt"), *common, "--parses"]) == 0
    parses = [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert parses[0] == "the"
    assert sorted(parses[3].replace("(", "").replace(")", "").split()) == ["barks", "dog", "the"]
    assert run(["decode", str(tmp_path / "text.txt"), *common, "-o", str(tmp_path / "out.trees")]) == 0
    found = [Tree.from_brackets(line) for line in (tmp_path / "out.trees").read_text().splitlines()]
    assert [" ".join(tree.words) for tree in found] == ["the dog barks", "a cat sees the dog"]
    graphs_file = str(tmp_path / "out.conllu")
    assert run(["decode", str(tmp_path / "text.txt"), *common, "-o", graphs_file]) == 0
    graphs = [each.graph for each in read_treebank([graphs_file], "conllu", Rejects("fail"))]
    assert [each is not None and each.problem is None and not each.n_crossings for each in graphs] == [
        True,
        True,
    ]
    (tmp_path / "gap.txt").write_text("the dog barks\n\na cat sees the dog\n")
    assert run(["decode", str(tmp_path / "gap.txt"), *common, "-o", str(tmp_path / "gap.conllu")]) == 0
    assert (tmp_path / "gap.conllu").read_bytes() == Path(graphs_file).read_bytes()
    table = tmp_path / "best.tsv"
    best = ["-o", str(tmp_path / "best.conllu"), "--scores", str(table), "--k-best", "30"]
    beam = ["--beam", "600", "--search", "word_beam=600"]
    assert run(["decode", "--text", "the dog barks", *common, *beam, *best]) == 0
    rows = [line.split("\t")[4:6] for line in table.read_text().splitlines()[1:]]
    assert len(rows) == len({arcs for _, arcs in rows}) == 7  # projective trees of three words
    assert len({tree for tree, _ in rows}) < 7
    assert run(["surprisal", str(tmp_path / "text.txt"), *common, "--trees", graphs_file]) == 0
    capsys.readouterr()
    assert run(["sample", *common, "--number", "5", "--max-tokens", "8"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    page = ["view", "--text", "the dog barks", *common, "-o", str(tmp_path / "page.html")]
    assert run(page) == 0


def test_crossing_arcs_are_refused_excluded_or_lifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    text = "".join(sentence(rng) for _ in range(9)) + block(*CROSSING)
    shards = make_shards(tmp_path, text)
    capsys.readouterr()
    assert train(shards, tmp_path / "run") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the sentence with id 9 (15 positions): arcs cross (config.lift=true lifts them)" in error
    assert train(shards, tmp_path / "run", "--on-error", "skip") == 0
    (excluded, _) = (
        json.loads(line) for line in (tmp_path / "run" / "rejects.jsonl").read_text().splitlines()
    )
    assert (excluded["line"], excluded["reason"]) == (9, "arcs cross (config.lift=true lifts them)")
    assert train(shards, tmp_path / "lifted", "--set", "config.lift=true") == 0


def test_shards_that_will_not_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.trees").write_text("(S (NP the dog) barks)\n(S (NP a cat) barks)\n")
    command = ["tapes", str(tmp_path / "plain.trees"), "--min-count", "1", "-q"]
    assert run([*command, "-o", str(tmp_path / "plain")]) == 0
    raw = make_shards(
        tmp_path, block(["a", "dog", "barks"], [2, 3, 0]) * 30, "--tokenizer", "bpe", "--text-style", "raw"
    )
    for shards, problem in ((tmp_path / "plain", "no dependency arcs"), (raw, "text style raw")):
        capsys.readouterr()
        assert train(shards, tmp_path / "run") == 1
        error = capsys.readouterr().err
        assert problem in error
        assert error.count("\n") == 1
        assert not (tmp_path / "run").exists()
    assert run(["show", str(tmp_path / "plain"), "0", "--actions", "dtg"]) == 1
    assert "no dependency arcs" in capsys.readouterr().err


def test_a_row_is_shown_as_it_is_read(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, heads = ["the", "cat", "sees", "a", "dog"], [2, 3, 0, 5, 3]
    own = make_shards(tmp_path, block(words, heads) + block(*CROSSING), "--tokenizer", str(shards))
    capsys.readouterr()
    assert run(["show", str(own), "0", "--actions", "dtg", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["actions"]
    pop = [14, 3, 3, 6, 4, 6, 12, 7, 10, 10, 12, 11, 14, 13, 15]  # the specification's example
    assert [each["pop"] for each in found] == pop
    assert [each["action"] for each in found if each["head"] is None] == ["<root>", *words]
    assert found[9]["sees"] == [0, 6, 8, 9]
    assert found[12] == {
        "position": 12, "action": "right_arc", "head": "sees", "words": 1, "pop": 14, "sees": [6, 10, 12]
    }  # fmt: skip
    assert run(["show", str(own), "1", "--actions", "dtg"]) == 0
    assert run(["show", str(own), "0", "--actions", "gilt"]) == 0
