"""--trees: scores by sums over proposal trees, through the commands that have it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from toy_sets import condition, suite_of

from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.shards import ShardSettings, build_shards
from pdtools.trees import SourcedTree, Tree

TREES = """\
1\t(S (NP (X a) (X b)) (X c))
1\t(S (X a) (NP (X b) (X c)))
2\t(S (X c) (X b) (X a))
1\t(S (NP (X a) (X b)) (X c))
3\t(S (X b) (X c))
4\t(S (X a))
"""


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "proposals.tsv"
    path.write_text(TREES)
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence_good\tsentence_bad\na b c\tc b a\nb c\tc c\na\tb c\n")
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    conditions = [condition("x", *"abc"), condition("y", *"cba")]
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(suite_of(conditions, formula="(1;%x%) < (1;%y%)")))
    return path


@pytest.fixture
def shards(tmp_path: Path, models: dict[str, Path]) -> Path:
    # Of the first sentence the less probable tree: the sum over both is well above it.
    texts = ["(S (NP (X a) (X b)) (X c))", "(S (X b) (X c))", "(S (X b) (X b))"]
    sourced = [SourcedTree(Tree.from_brackets(text), "toy", i, text) for i, text in enumerate(texts, start=1)]
    tokenizer = load_checkpoint(models["pushdown"]).tokenizer
    build_shards(sourced, tokenizer, ShardSettings(), tmp_path / "shards", Rejects())
    return tmp_path / "shards"


def options(model: Path, trees: Path) -> list[str]:
    return ["--model", str(model), "--trees", str(trees), "--device", "cpu", "-q"]


def total(model: Path, *arguments: str, capsys: pytest.CaptureFixture[str]) -> float:
    """log p of ``a b c``."""
    command = ["surprisal", "--text", "a b c", "--model", str(model), "--device", "cpu", "-q", "--nats"]
    capsys.readouterr()
    assert run([*command, *arguments]) == 0
    return -sum(float(line.split("\t")[5]) for line in capsys.readouterr().out.splitlines()[1:])


def test_surprisals(
    models: dict[str, Path], trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("(S (NP (X a) (X b)) (X c))\n")
    second.write_text("(S (X a) (NP (X b) (X c)))\n")
    joints = [total(models["pushdown"], "--trees", str(file), capsys=capsys) for file in (first, second)]
    both = total(models["pushdown"], "--trees", str(trees), capsys=capsys)
    assert both == pytest.approx(math.log(sum(map(math.exp, joints))), rel=2e-6, abs=1e-5)
    assert both < total(models["pushdown"], "--beam", "50", capsys=capsys)


def test_a_sentence_without_trees(
    models: dict[str, Path], trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("a b c\n\na a\n")
    command = ["surprisal", str(sentences), *options(models["pushdown"], trees)]
    assert run(command) == 1
    assert f"sentences.txt:3: no tree of it is in {trees}" in capsys.readouterr().err
    out = tmp_path / "out.tsv"
    assert run([*command, "--on-error", "skip", "--json", "-o", str(out)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["scored"] == 1
    settings = report["settings"]
    assert (settings["kind"], settings["beam"]) == ("given trees", None)
    assert settings["given_trees"] == report["provenance"]["inputs"]["trees"]["sha256"]
    counts = {"trees": 6, "left_out": {}, "derivations": 5, "sentences": 4}
    assert settings["given_trees_used"] == counts


def test_trees_that_are_excluded_are_counted(
    models: dict[str, Path], trees: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees.write_text("(S (X a) (X b))\n\n(S (X zebra))\n\n(S (X zebra) (X a))\n")
    assert run(["surprisal", "--text", "a b", *options(models["pushdown"], trees)]) == 0
    assert "2 of the 3 trees excluded: words outside the vocabulary\n" in capsys.readouterr().err


def test_minimal_pairs_by_workers_and_parts(
    models: dict[str, Path],
    trees: Path,
    pairs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["eval-blimp", str(pairs), *options(models["pushdown"], trees)]
    assert run([*command, "-o", str(tmp_path / "one")]) == 0
    one = json.loads((tmp_path / "one" / "results.json").read_text())
    assert (one["counts"]["items_scored"], one["counts"]["items_unscorable"]) == (2, 1)
    assert run([*command, "--workers", "2", "--resume", "-o", str(tmp_path / "two")]) == 0
    parts = [*command, "-o", str(tmp_path / "parts")]
    for part in ("0/2", "1/2"):
        monkeypatch.setattr("sys.argv", ["pdtools", *parts, "--shard", part])
        assert run([*parts, "--shard", part]) == 0
    assert run(["merge", str(tmp_path / "parts")]) == 0
    for name in ("two", "parts"):
        again = json.loads((tmp_path / name / "results.json").read_text())
        assert (again["scores"], again["settings"]) == (one["scores"], one["settings"])
    search = ["eval-blimp", str(pairs), "--model", str(models["pushdown"]), "--device", "cpu", "-q"]
    assert run([*search, "-o", str(tmp_path / "beam")]) == 0
    capsys.readouterr()
    assert run(["compare", str(tmp_path / "one"), str(tmp_path / "beam")]) == 0
    assert "given trees:" in capsys.readouterr().out


def test_test_suites(models: dict[str, Path], trees: Path, suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(["eval-sg", str(suite), *options(models["pushdown"], trees), "-o", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["counts"]["items_unscorable"] == 0
    assert results["settings"]["kind"] == "given trees"
    assert results["provenance"]["inputs"]["trees"]["path"] == str(trees)


def test_perplexity(
    models: dict[str, Path],
    trees: Path,
    shards: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["eval-ppl", str(shards), *options(models["pushdown"], trees)]
    assert run(command) == 1
    assert f"no tree of it is in {trees}" in capsys.readouterr().err
    found = []
    for name, workers in (("one", "1"), ("two", "2")):
        out = ["--on-error", "skip", "--workers", workers, "-o", str(tmp_path / name)]
        assert run([*command, *out]) == 0
        found.append(json.loads((tmp_path / name / "results.json").read_text()))
    one, two = found
    assert one["scores"] == two["scores"]
    assert (one["counts"]["sentences"], one["counts"]["sentences_left_out"]) == (2, 1)
    assert one["settings"]["marginal"] == "sum over given trees: a lower bound of log p(x)"
    assert one["settings"]["given_trees_used"]["derivations"] == 5
    assert one["scores"]["ppl_token_marginal"] < 0.9 * one["scores"]["ppl_token_joint"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("surprisal --text a --model {pushdown} --parses", "--parses cannot be combined"),
        ("eval-ppl {shards} --model {head}", "p(x) of this model needs no trees: leave out --trees"),
        ("eval-ppl {shards} --model {pushdown} --no-marginal", "leave out --stream and --no-marginal"),
    ],
)
def test_what_does_not_go_with_proposal_trees(
    models: dict[str, Path],
    trees: Path,
    shards: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    problem: str,
) -> None:
    words = command.format(shards=shards, **models).split()
    assert run([*words, "--trees", str(trees), "--device", "cpu"]) == 1
    error = capsys.readouterr().err.strip()
    assert problem in error
    assert "\n" not in error


def test_hugging_face_models_have_no_trees(
    trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    from toy_gpt2 import save_gpt2

    save_gpt2(tmp_path / "gpt2", ["a b c"], positions=32)
    assert run(["surprisal", "--text", "a", *options(tmp_path / "gpt2", trees)]) == 1
    error = capsys.readouterr().err.strip()
    assert "a model of another package has no trees: leave out --trees" in error
    assert "\n" not in error


def test_broken_files(
    models: dict[str, Path], trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees.write_text("(S (X a) (X b))\n(S (X b) (X c))\n")
    for file, problem in ((trees, f"{trees}:2: other words"), (tmp_path / "no", "no: cannot be read")):
        assert run(["surprisal", "--text", "a", *options(models["pushdown"], file)]) == 1
        error = capsys.readouterr().err.strip()
        assert problem in error
        assert "\n" not in error
    trees.write_text("(S (X 0=a) (X 1=b))\n")
    assert run(["surprisal", "--text", "a", *options(models["pushdown"], trees)]) == 1
    assert "(pdtools parse --from discbracket makes these of it)" in capsys.readouterr().err
