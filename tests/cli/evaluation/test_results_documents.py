"""results.json of the four evaluations: it says what was counted, in which unit, from what, and with what."""

from __future__ import annotations

import importlib.metadata
import json
import math
from pathlib import Path
from typing import Any

import pandas
import pytest
from search_oracle import save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2
from toy_sets import condition, suite_of, write_pairs

from pdtools import __version__
from pdtools.cli.main import run
from pdtools.evaluation.record import evaluation_of
from pdtools.files import Rejects, sha256_file
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.shards import ShardSettings, build_shards
from pdtools.tokenization import Tokenizer, train_word_tokenizer
from pdtools.trees import SourcedTree, Tree

TREES = ["(S (X a) (Y (X b) (X c)))", "(S (X b) (X a))", "(S (S (X c) (X a)) (X b))"]
MODELS = ["pushdown", "base", "gpt2"]
BEAM = 7


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("transformers", reason="transformers is not installed")
    folder = tmp_path_factory.mktemp("models")
    return {**save_checkpoints(folder)[0], "gpt2": save_gpt2(folder / "gpt2", ["a b c", "c a b"])}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Path]) -> dict[str, Path]:
    """Shards, minimal pairs (one tie, one with an unknown word), a suite, and two files of trees."""
    folder = tmp_path_factory.mktemp("inputs")
    make_shards(folder / "shards", load_checkpoint(models["base"]).tokenizer)
    write_pairs(folder / "pairs.jsonl", [("a b c", "c b a"), ("a a", "a a"), ("b c", "b zebra")])
    items = [[condition("x", "a b", word), condition("y", "b b", "c")] for word in ("c", "zebra")]
    (folder / "suite.json").write_text(json.dumps(suite_of(*items, formula="(*;%x%) < (*;%y%)")))
    (folder / "gold.trees").write_text("".join(f"{tree}\n" for tree in TREES))
    (folder / "mine.trees").write_text(f"{TREES[0]}\n\n(S (X c) (X c))\n")
    return {path.stem.split(".")[0]: path for path in folder.iterdir()}


def make_shards(folder: Path, tokenizer: Tokenizer) -> Path:
    trees = [SourcedTree(Tree.from_brackets(text), "toy", n, text) for n, text in enumerate(TREES, start=1)]
    build_shards(trees, tokenizer, ShardSettings(), folder, Rejects())
    return folder


def evaluate(out: Path, command: str, *arguments: object) -> dict[str, Any]:
    """Run a command and read its results.json; assert what all have in common."""
    assert run([command, *map(str, arguments), "-o", str(out), "--quiet"]) == 0
    document = json.loads((out / "results.json").read_text())
    assert list(document) == ["format", "scores", "counts", "settings", "evaluation", "provenance"]
    assert document["format"] == 3
    record = evaluation_of(document)
    assert record is not None
    of_itself = evaluation_of({**document, "settings": {**document["settings"], "task": "another"}})
    assert of_itself is not None
    assert (of_itself.title, of_itself.outcomes) == (record.title, record.outcomes)
    assert of_itself.lower_is_better == record.lower_is_better
    assert of_itself.main_scores(document) == record.main_scores(document)
    assert document["settings"]["task"] == command.removeprefix("eval-")
    assert run(["compare", str(out.parent), "--overview"]) == 0
    versions = document["provenance"]["versions"]
    assert versions["pdtools"] == __version__
    assert {"python", "numpy", "torch", "tokenizers"} <= versions.keys()
    assert document["provenance"]["code"]["version"] == __version__
    assert document["provenance"]["code"].keys() == {"version", "commit", "modified"}
    assert versions["pyarrow"] == importlib.metadata.version("pyarrow")
    assert {"command", "time", "hardware", "inputs"} <= document["provenance"].keys()
    for found in document["provenance"]["inputs"].values():
        hashes = found["sha256"] if isinstance(found["sha256"], dict) else {"": found["sha256"]}
        assert hashes
        for name, digest in hashes.items():
            assert digest == sha256_file(Path(found["path"]) / name)
    return document


def with_model(model: Path) -> list[object]:
    return ["--model", model, "--device", "cpu", "--beam", BEAM]


def check_model(settings: dict[str, Any], model: str) -> None:
    """What the model counted, and with which beam."""
    assert settings["beam"] == (BEAM if model == "pushdown" else None)
    assert settings["dtype"] == "float32"
    assert settings["eos"] is (model != "gpt2")
    assert settings["bos"] is True
    assert settings["text_style"] == (None if model == "gpt2" else "ptb")


@pytest.mark.parametrize("model", MODELS)
def test_eval_ppl(models: dict[str, Path], inputs: dict[str, Path], tmp_path: Path, model: str) -> None:
    document = evaluate(tmp_path / "r", "eval-ppl", inputs["shards"], *with_model(models[model]))
    settings, counts = document["settings"], document["counts"]
    assert settings["eos_counted"] is (model != "gpt2")
    assert settings["root_counted"] is False
    assert settings["log_base"] == "nats"
    assert settings["words"].startswith("words")
    if model == "gpt2":
        check_model(settings, model)
    else:
        assert settings["dtype"] == "float32"
        assert settings["beam"] == (BEAM if model == "pushdown" else None)
        assert settings["trees"] == "the shards' own, binarization given"
    assert settings["marginal"].split(":")[0] == ("beam" if model == "pushdown" else "exact")
    assert (counts["sentences"], counts["sentences_left_out"], counts["unknown_tokens"]) == (3, 0, 0)
    assert counts["words"] == 8 + 3 * settings["eos_counted"]
    assert document["provenance"]["inputs"].keys() == {"shards", "model"}


@pytest.mark.parametrize("model", MODELS)
def test_eval_blimp(models: dict[str, Path], inputs: dict[str, Path], tmp_path: Path, model: str) -> None:
    document = evaluate(tmp_path / "r", "eval-blimp", inputs["pairs"], *with_model(models[model]))
    settings, counts = document["settings"], document["counts"]
    assert settings["unit"] == "fraction of 1"
    assert settings["log_base"] == "bits"
    assert "tie is not right" in settings["decision"]
    assert settings["scores"]["per_token"]["kind"] == "per_token"
    assert document["scores"]["by_prediction"]["per_token"] is not None
    assert "final period" in settings["text"]
    check_model(settings, model)
    unscorable = 0 if model == "gpt2" else 1
    assert (counts["items"], counts["ties"], counts["items_unscorable"]) == (3, 1, unscorable)
    assert counts["items_scored"] == 3 - unscorable
    assert counts["by_paradigm"] == {"toy": {"items": 3, "scored": 3 - unscorable, "ties": 1}}
    assert counts["strings_with_unknown_words"] == 0
    assert document["provenance"]["inputs"].keys() == {"data", "model"}


@pytest.mark.parametrize("model", MODELS)
def test_eval_sg(models: dict[str, Path], inputs: dict[str, Path], tmp_path: Path, model: str) -> None:
    document = evaluate(tmp_path / "r", "eval-sg", inputs["suite"], *with_model(models[model]))
    settings, counts = document["settings"], document["counts"]
    assert settings["unit"] == "fraction of 1"
    assert settings["log_base"] == "bits"
    assert settings["equality"] == "|a - b| <= 1e-3 + 1e-5 |b|"
    assert settings["eos_in_regions"] is False
    check_model(settings, model)
    unscorable = 0 if model == "gpt2" else 1
    assert (counts["items"], counts["items_scored"]) == (2, 2 - unscorable)
    assert (counts["items_unscorable"], counts["strings_unscorable"]) == (unscorable, unscorable)
    assert document["provenance"]["inputs"].keys() == {"suites", "model"}


def test_all_files_that_are_given_are_inputs(
    models: dict[str, Path], inputs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By option and command: each is in the provenance, with its digest."""
    texts = [["a", "b"], ["b", "b"], ["c"], ["b"]]
    trees = [*TREES, *(f"(S {' '.join(f'(X {word})' for word in text)})" for text in texts)]
    definition = 'strings = {good = "{g}", bad = "{b}"}\npredictions = {main = "good > bad"}\n'
    made: dict[str, str] = {
        "mine.toml": f'files = "*.csv"\n{definition}',
        "pairs.csv": "g,b\na b,b b\nc,b\n",
        "scores.tsv": "item\tstring\tscore\n1\tgood\t-1\n1\tbad\t-2\n2\tgood\t-1\n2\tbad\t0\n",
        "runs.csv": "model,suite,item,correct\nx,cleft,1,1\n",
        "more.csv": "model,suite,item,correct\ny,cleft,1,0\n",
        "my.prm": "DELETE_LABEL TOP\n",
        "left.jsonl": '{"file": "x", "line": 3, "reason": "why", "text": ""}\n',
        "lines.txt": "a b c\n",
        "counts.tsv": "word\tcount\na\t5\nbb\t3\nccc\t1\n",
        "trees.txt": "\n".join(f"{tree}\n" for tree in trees),
    }
    rows = ["sentence_id\ttoken_id\ttoken\tstart\tend\tsurprisal"]
    for number, text in enumerate(map(" ".join, texts), 1):
        spans = [(i, i + 1) for i in range(0, len(text), 2)]
        rows += [f"{number}\t{k}\t{text[a:b]}\t{a}\t{b}\t1.5" for k, (a, b) in enumerate(spans, 1)]
    made["given.tsv"] = "\n".join(rows) + "\n"
    words = [(item, n, word) for item in range(1, 7) for n, word in enumerate(["a", "bb", "ccc"] * 3, 1)]
    rows = ["item,word_number,word,subject,time,bits"]
    rows += [f"{i},{n},{w},s,{250 + 61 * i * n % 97},{1 + 7 * i * n % 5}" for i, n, w in words if n != 5]
    made["times.csv"] = "\n".join(rows) + "\n"
    made["texts.csv"] = "\n".join(["item,word_number,word", *(f"{i},{n},{w}" for i, n, w in words)]) + "\n"
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    base, pushdown = str(models["base"]), str(models["pushdown"])
    pairs, reading = (
        ["--good", "g", "--bad", "b"],
        ["--column", "surprisal=bits", "--samples", "100", "--spillover", "0", "--edges"],
    )
    commands: list[list[Any]] = [
        ["eval-benchmark", "pairs.csv", "--as", "mine.toml", "--scores", "scores.tsv"],
        ["eval-benchmark", "pairs.csv", *pairs, "--surprisals", "given.tsv"],
        ["eval-benchmark", "pairs.csv", *pairs, "--model", pushdown, "--trees", "trees.txt"],
        ["eval-blimp", inputs["pairs"], "--model", base],
        ["eval-sg", inputs["suite"], "--model", base],
        ["eval-sg", "--from-items", "runs.csv", "more.csv"],
        ["eval-parse", inputs["gold"], inputs["mine"], "--prm", "my.prm", "--left-out", "left.jsonl"],
        ["eval-ppl", inputs["shards"], "--model", pushdown, "--trees", "trees.txt"],
        ["eval-ppl", "lines.txt", "--model", base],
        ["surprisal", "lines.txt", "--model", pushdown, "--trees", "trees.txt"],
        ["eval-reading", "times.csv", *reading, "--texts", "texts.csv", "--frequencies", "counts.tsv"],
        ["view", "lines.txt", "--model", base, "--model", pushdown, "--gold", "gold.trees"],
        ["decode", "lines.txt", "--model", pushdown],
    ]
    (tmp_path / "gold.trees").write_text(f"{TREES[0]}\n")
    for number, (name, *given) in enumerate(commands):
        arguments = [str(tmp_path / each if each in made or each == "gold.trees" else each) for each in given]
        out = tmp_path / f"out{number}{'.html' if name == 'view' else '.tsv' if name == 'surprisal' else ''}"
        more = ["--on-error", "skip"] if "--surprisals" in given else []
        assert run([name, *arguments, *more, "-o", str(out), "--json", "-q"]) == 0, (name, given)
        document = json.loads(capsys.readouterr().out)
        found = {Path(each["path"]): each for each in document["provenance"]["inputs"].values()}
        files = {Path(each) for each in arguments if Path(each).exists()}
        assert found.keys() == files, (name, given)
        for file, each in found.items():
            digests = each["sha256"] if isinstance(each["sha256"], dict) else {"": each["sha256"]}
            assert {part: sha256_file(file / part) for part in digests} == digests


def test_unknown_words_are_counted(tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(["a"], unk=True)
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={})
    shards = make_shards(tmp_path / "shards", tokenizer)
    document = evaluate(tmp_path / "r", "eval-ppl", shards, *with_model(tmp_path / "model"))
    assert (document["counts"]["unknown_tokens"], document["counts"]["tokens"]) == (5, 11)


@pytest.mark.parametrize("model", ["pushdown", "base"])
def test_perplexity_is_that_of_the_surprisals(
    models: dict[str, Path], inputs: dict[str, Path], tmp_path: Path, model: str
) -> None:
    """2 to the mean surprisal in bits over every row, that of end-of-sentence included."""
    scores = evaluate(tmp_path / "r", "eval-ppl", inputs["shards"], *with_model(models[model]))["scores"]
    text, out = tmp_path / "in.txt", tmp_path / "surprisal.tsv"
    text.write_text("a b c\nb a\nc a b\n")
    assert run(["surprisal", str(text), *map(str, with_model(models[model])), "-o", str(out), "--quiet"]) == 0
    bits = pandas.read_csv(out, sep="\t").surprisal
    assert len(bits) == 11
    assert scores["ppl_token_marginal"] == pytest.approx(2 ** bits.mean(), rel=1e-5)
    if model == "base":  # without a tape the tree says nothing: plain and marginal are the same number
        assert scores["ppl_token_given_trees"] == scores["ppl_token_marginal"]
        assert math.isfinite(scores["ppl_word_marginal"])
        assert scores["ppl_token_joint"] is None
