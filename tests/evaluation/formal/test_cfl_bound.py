from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.evaluation.formal.cfl import cross_entropies, evaluate_cfl
from pdtools.evaluation.results import ITEMS, read_results
from pdtools.files import Rejects
from pdtools.formal import ContextFree, read_grammar, string_shards
from pdtools.models import build_model, collate, make_config, save_checkpoint
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardSet

LANGUAGE = ContextFree(grammar=read_grammar("unmarked-reversal"), shortest=3, longest=8, batch=4)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    folder = tmp_path_factory.mktemp("cfl") / "shards"
    string_shards(LANGUAGE, 40, 7, folder)
    return ShardSet.open(folder)


@pytest.fixture(scope="module", params=["transformer", "rnn"])
def checkpoint(
    request: pytest.FixtureRequest, shards: ShardSet, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    torch.manual_seed(3)
    options: dict[str, Any] = {
        "transformer": {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16},
        "rnn": {"stack": "none", "hidden_size": 5},
    }[request.param]
    ids = {key: getattr(shards.tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")}
    model = build_model(request.param, make_config(request.param, {**ids, **options}))
    folder = tmp_path_factory.mktemp("model") / request.param
    save_checkpoint(folder, model, shards.tokenizer, shards=shards.manifest["settings"])
    return folder


def evaluate(shards: ShardSet, checkpoint: Path | None, on_error: str = "fail") -> Any:
    from pdtools.models import load_checkpoint

    loaded = None if checkpoint is None else load_checkpoint(checkpoint)
    return evaluate_cfl(shards, loaded, search=SearchOptions(beam=1), rejects=Rejects(on_error))


def test_the_figures_by_hand(shards: ShardSet, checkpoint: Path) -> None:
    from pdtools.models import load_checkpoint

    results = evaluate(shards, checkpoint)
    model = load_checkpoint(checkpoint).model
    logs, bounds, lengths = [], [], []
    for i in range(len(shards)):
        with torch.no_grad():
            batch = collate([(shards.tokens(i), shards.attach(i))], model.pad_id)
            logs.append(float(model.forward_parts(batch).token_logprobs.double().sum()))
        lengths.append(len(shards.text(i).split()))
        # Palindromes of a length are as likely as each other: 2 to the half of it; lengths are 4, 6 and 8.
        bounds.append(-math.log(2) * lengths[-1] / 2 - math.log(3))
    symbols = sum(lengths) + len(lengths)
    scores = results.scores
    assert scores["cross_entropy"] == pytest.approx(-sum(logs) / symbols, rel=1e-5)
    assert scores["bound"] == pytest.approx(-sum(bounds) / symbols, rel=1e-12)
    assert scores["difference"] == pytest.approx((sum(bounds) - sum(logs)) / symbols, rel=1e-5)
    assert list(scores["by_length"]) == ["4", "6", "8"]
    for length, each in scores["by_length"].items():
        own = [log for log, n in zip(logs, lengths, strict=True) if n == int(length)]
        assert each["strings"] == len(own)
        assert each["bound"] == pytest.approx(math.log(2) * int(length) / 2 / (int(length) + 1))
        assert each["cross_entropy"] == pytest.approx(-np.mean(own) / (int(length) + 1), rel=1e-5)
    assert results.counts == {"strings": 40, "strings_left_out": 0, "symbols": symbols}
    rows = results.tables[ITEMS].to_pylist()
    assert [row["model"] for row in rows] == pytest.approx(logs, rel=1e-5)
    assert [row["tokens"] for row in rows] == lengths


def test_strings_without_a_score_are_in_no_bound(shards: ShardSet, tmp_path: Path) -> None:
    ids = {key: getattr(shards.tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")}
    shape = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "positions": "learned", "max_length": 8}
    model = build_model("transformer", make_config("transformer", {**ids, **shape, "attachment_head": True}))
    save_checkpoint(tmp_path / "short", model, shards.tokenizer, shards=shards.manifest["settings"])
    found = evaluate(shards, tmp_path / "short", "skip")
    assert list(found.scores["by_length"]) == ["4", "6"]
    lengths = [n for i in range(len(shards)) if (n := len(shards.text(i).split())) < 8]
    assert (found.counts["strings"], found.counts["strings_left_out"]) == (len(lengths), 40 - len(lengths))
    bound = sum(math.log(2) * n / 2 + math.log(3) for n in lengths) / (sum(lengths) + len(lengths))
    assert found.scores["bound"] == pytest.approx(bound, rel=1e-12)


def test_a_perfect_model_has_a_difference_of_zero() -> None:
    items = [{"tokens": n, "exact": math.log(0.25), "model": math.log(0.25) - math.log(3)} for n in (4, 6, 8)]
    assert cross_entropies(items, math.log(3))["difference"] == pytest.approx(0, abs=1e-12)
    assert cross_entropies(items, 0.0)["difference"] == pytest.approx(math.log(3) * 3 / 21)


def test_the_bound_alone(shards: ShardSet) -> None:
    results = evaluate(shards, None)
    assert results.scores["bound"] > 0
    assert results.scores["cross_entropy"] is results.scores["difference"] is None
    assert results.tables[ITEMS].num_rows == 40


def test_strings_of_another_grammar(tmp_path: Path) -> None:
    string_shards(LANGUAGE, 5, 1, tmp_path / "reversal")
    shards = ShardSet.open(tmp_path / "reversal")
    shards.manifest["language"]["rules"] = "S -> '0' S '0' | '1' '1' | \n"
    with pytest.raises(
        PdtoolsError, match=r"the string with id \d+ is not a string of the grammar unmarked-reversal: "
    ):
        evaluate(shards, None)


def test_manifests_that_do_not_say_the_language(tmp_path: Path) -> None:
    string_shards(LANGUAGE, 5, 1, tmp_path / "reversal")
    shards = ShardSet.open(tmp_path / "reversal")
    del shards.manifest["language"]["seed"]
    evaluate(shards, None)
    shards.manifest["language"]["batches"] = 3
    with pytest.raises(PdtoolsError, match="not the settings of a context-free language"):
        evaluate(shards, None)
    for language in ("cfl", None, {"name": "dyck"}):
        shards.manifest["language"] = language
        with pytest.raises(PdtoolsError, match="not strings of pdtools generate cfl"):
            evaluate(shards, None)


def test_the_command(
    shards: ShardSet, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, plot = tmp_path / "results", tmp_path / "figure.svg"
    command = ["eval-formal", "cfl", str(shards.folder), "--threads", "1", "--quiet"]
    model = ["--model", str(checkpoint)]
    assert run([*command, *model, "-o", str(out), "--plot", str(plot)]) == 0
    table = capsys.readouterr().out
    assert table.startswith("unmarked-reversal: cross-entropy, nats a symbol\nstrings")
    assert "4-8" in table
    document, items = read_results(out)
    assert document["settings"]["language"]["grammar"] == "unmarked-reversal"
    assert items.num_rows == 40
    assert plot.read_text().startswith("<svg")
    assert run([*command, *model, "-o", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["difference"] is None
    assert run([*command, "--plot", str(tmp_path / "none.svg")]) == 2
    capsys.readouterr()
    assert run([*command, *model, "--plot", str(tmp_path / "figure.txt")]) == 2
    printed = capsys.readouterr()
    assert "name ends in .svg, .png, .pdf" in printed.err
    assert printed.out == ""  # before anything was computed
    inside = tmp_path / "other results"
    assert run([*command, *model, "-o", str(inside), "--plot", str(inside / "figure.png")]) == 0
    assert {path.name for path in inside.iterdir()} >= {"results.json", "figure.png"}


def test_lengths_of_the_table_by_tens(capsys: pytest.CaptureFixture[str]) -> None:
    from pdtools.report.evaluations import print_cfl

    each = {"cross_entropy": 1.0, "bound": 0.75, "difference": 0.25, "strings": 2}
    scores = {**each, "by_length": {str(n): {**each, "difference": n / 100} for n in (38, 40, 42, 51, 55)}}
    scores["by_length"]["55"]["bound"] = None  # counted with no length
    scores["by_length"]["61"] = {**each, "bound": None, "difference": None}
    results: Any = SimpleNamespace(
        scores=scores, counts={"strings": 8}, settings={"language": {"grammar": "dyck"}}
    )
    print_cfl(results)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["40-42", "4", "1.0000", "0.7500", "0.4100"] in rows
    assert ["38-38", "2", "1.0000", "0.7500", "0.3800"] in rows
    assert ["51-55", "4", "1.0000", "0.7500", "0.5300"] in rows
    assert ["61-61", "2", "1.0000", "-", "-"] in rows
