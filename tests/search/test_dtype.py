"""``--dtype bf16``: the weights that scorers hold, and what the documents say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from action_oracle import action_model
from search_oracle import save_checkpoints
from toy_gpt2 import save_gpt2

from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.models import save_checkpoint
from pdtools.search import SentenceScore, load_model
from pdtools.search.options import SearchOptions
from pdtools.trees import read_trees

TEXTS = ["a b c", "b", "c c a b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    models, tokenizer = save_checkpoints(folder)
    grammar = action_model("tg", "relative")
    save_checkpoint(folder / "tg", grammar, tokenizer.with_labels(("NP", "S")), shards={})
    return {**models, "tg": folder / "tg", "gpt2": save_gpt2(folder / "gpt2", TEXTS)}


@pytest.mark.parametrize("kind", ["pushdown", "head", "base", "tg", "gpt2"])
def test_scores_in_half_precision_are_close_and_said_to_be_so(folders: dict[str, Path], kind: str) -> None:
    exact, half = (
        load_model(folders[kind], SearchOptions(beam=50), dtype=dtype) for dtype in ("float32", "bf16")
    )
    assert exact.settings["dtype"] == "float32"
    assert half.settings["dtype"] == "bfloat16"
    differences = []
    for one, other in zip(exact.score(TEXTS), half.score(TEXTS), strict=True):
        assert isinstance(one, SentenceScore)
        assert isinstance(other, SentenceScore)
        assert other.logprobs.sum() == pytest.approx(other.total)
        differences += (one.logprobs - other.logprobs).tolist()
    assert 0 < max(map(abs, differences)) < 0.1


def test_commands_take_it(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    common = [
        str(tmp_path / "in.txt"), "--model", str(folders["pushdown"]), "--dtype", "bf16", "--device", "cpu"
    ]  # fmt: skip
    for command, out in (("decode", "out.trees"), ("surprisal", "out.tsv")):
        assert run([command, *common, "-o", str(tmp_path / out), "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["settings"]["dtype"] == "bfloat16"
    trees = read_trees([str(tmp_path / "out.trees")], Rejects("fail"))
    assert [" ".join(each.tree.words) for each in trees] == TEXTS
    _, *rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    exact = load_model(folders["pushdown"]).score(TEXTS)
    wanted = [-x / math.log(2) for each in exact for x in each.logprobs]  # bits
    differences = [float(row[-1]) - x for row, x in zip(rows, wanted, strict=True)]
    assert 0 < max(map(abs, differences)) < 0.15
    assert run(["decode", *common[:-4], "--dtype", "int4", "-o", "-"]) == 2
