"""Windows from trees to scores, by commands."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from window_oracle import window_attachments, window_joints

from pdtools.cli import main
from pdtools.models import load_checkpoint
from pdtools.search import beam_search
from pdtools.search.options import AttachmentBeam
from pdtools.shards import ShardSet

TREES = (
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"
    "(S (NP (NNS cats)) (VP (VBP sleep)))\n"
    "(S (NP (DT the) (NNS cats)) (VP (VBP sleep)))\n"
)
SMALL = [
    *(
        "--config",
        "small",
        "--set",
        "config.d_model=16",
        "--set",
        "config.layers=1",
        "--set",
        "config.heads=2",
    ),
    *("--set", "config.d_ff=32", "--set", "train.steps=4", "--set", "train.warmup_steps=1"),
]


@dataclass(frozen=True)
class Done:
    """What a command did."""

    exit_code: int
    stdout: str
    output: str


def run(*args: str | Path) -> Done:
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        status = main.run([*map(str, args)])
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return Done(status, stdout, stdout + stderr)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    (folder / "a.trees").write_text(TREES * 6)
    done = run("tapes", folder / "a.trees", "-o", folder / "shards", "--layout", "window", "--window", "12")
    assert done.exit_code == 0, done.output
    assert "windows, 1 documents" in done.output
    return folder / "shards"


@pytest.fixture(scope="module", params=["pushdown", "transformer"])
def trained(request: pytest.FixtureRequest, shards: Path) -> Path:
    out = shards.parent / f"run-{request.param}"
    done = run("train", shards, "-o", out, "--model", request.param, "--valid", shards, *SMALL)
    assert done.exit_code == 0, done.output
    return out


def scores(*args: str | Path) -> dict[str, Any]:
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_perplexities_count_every_token_and_the_end_of_every_sentence(trained: Path, shards: Path) -> None:
    loaded, rows = load_checkpoint(trained), ShardSet.open(shards)
    searches = loaded.model.derivation_kind.exist
    found = scores("eval-ppl", shards, "--model", trained, *(["--beam", "200"] if searches else []))
    counts = found["counts"]
    assert (counts["windows"], counts["sentences"], counts["words"]) == (len(rows), 18, 48 + 18)
    assert counts["tokens"] == counts["words"]
    if searches:
        ids = [np.append(rows.tokens(i), loaded.model.eos_id) for i in range(len(rows))]
        total = sum(result.marginal for result in beam_search(loaded.model, ids, beam=AttachmentBeam(200)))
        ppl = np.exp(-total / counts["tokens"])
        assert found["scores"]["ppl_token_marginal"] == pytest.approx(ppl, rel=1e-5)
        assert found["scores"]["ppl_token_joint"] >= found["scores"]["ppl_token_marginal"]


def test_a_sentence_is_scored_by_itself(trained: Path) -> None:
    done = run("surprisal", "--text", "the cats sleep", "--model", trained)
    assert done.exit_code == 0, done.output
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[2] for line in lines[1:]] == ["the", "cats", "sleep", "<eos>"]
    assert all(float(line[-1]) > 0 for line in lines[1:])


def test_parses_are_whole_trees(shards: Path, trained: Path) -> None:
    if trained.name.endswith("transformer"):
        pytest.skip("no parses")
    model, tokens = load_checkpoint(trained).model, ShardSet.open(shards).tokens(0)[:4].tolist()
    derivations = list(window_attachments([3]))
    joints = np.sum([part.sum(1) for part in window_joints(model, tokens, derivations)], axis=0)
    trees = {
        1: "(X (X (XX the) (XX dog)) (XX barks))",  # the second word attaches to the first
        2: "(X (XX the) (X (XX dog) (XX barks)))",
    }
    scored = shards.parent / "decoded.tsv"
    done = run(
        *("decode", "--text", "the dog barks", "--model", trained, "--beam", "8", "--k-best", "2", "-q"),
        *("--scores", scored),
    )
    assert done.exit_code == 0, done.output
    order = np.argsort(-joints)
    assert done.stdout == trees[derivations[order[0]][2]] + "\n"
    header, *rows = [line.split("\t") for line in scored.read_text().splitlines()]
    found = [float(row[header.index("joint")]) for row in rows]
    assert found == pytest.approx(joints[order].tolist(), rel=2e-6, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layout", "window"], "needs --window"),
        (["--window", "8"], "are for --layout window"),
        (["--documents", "file"], "are for --layout window"),
    ],
)
def test_options_of_windows_go_together(shards: Path, options: list[str], message: str) -> None:
    done = run("tapes", shards.parent / "a.trees", "-o", shards.parent / "other", *options)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize("model", ["plm", "sclm", "rnn"])
def test_models_of_sentences_do_not_read_windows(shards: Path, model: str) -> None:
    done = run("train", shards, "-o", shards.parent / f"no-{model}", "--model", model, *SMALL[2:2])
    assert done.exit_code == 1
    assert len(done.output.strip().splitlines()) == 1
