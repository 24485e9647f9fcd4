"""Attention to regions: a computation by hand on tiny models, intervals, what is left out, the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from pdtools.cli.eval_attention import _groups
from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.statistics import student_quantile
from pdtools.evaluation.results import Results
from pdtools.evaluation.sg.suites import SuiteFiles
from pdtools.inspection import predictions, region_attention
from pdtools.inspection.attention import attention_weights
from pdtools.inspection.region_attention import Question, evaluate_attention, mean_and_interval
from pdtools.models import LoadedModel, save_checkpoint
from pdtools.models.dependency.derivations import graph_of_history
from pdtools.search.checkpoints import Searched
from pdtools.search.families.proposal_trees import read_proposal_trees
from pdtools.search.model import Model
from pdtools.search.options import SearchOptions, TreesFile
from pdtools.trees.graphs import Graph, conllu

REGIONS = {"1": "det", "2": "noun", "3": "gap", "4": "inner", "5": "verb", "6": "end"}
# Contents by condition; region 3 is empty, region 4 has two tokens.
ITEMS = [
    {"match": ["a", "b", "", "c a", "b", "c"], "mismatch": ["a", "c", "", "c b", "b", "c"]},
    {"match": ["b", "b", "", "a a", "c", "c"], "mismatch": ["b", "a", "", "c c", "c", "c"]},
]


def suite_file(path: Path, items: list[dict[str, list[str]]] = ITEMS, name: str = "toy") -> Path:
    def regions(contents: list[str]) -> list[dict[str, Any]]:
        return [{"region_number": n, "content": content} for n, content in enumerate(contents, start=1)]

    document = {
        "meta": {"name": name, "metric": "sum"},
        "region_meta": REGIONS,
        "predictions": [{"type": "formula", "formula": "(5;%match%) < (5;%mismatch%)"}],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {"condition_name": condition, "regions": regions(contents)}
                    for condition, contents in item.items()
                ],
            }
            for number, item in enumerate(items, start=1)
        ],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def by_folder(models: dict[str, LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is the kind of a model in memory."""
    monkeypatch.setattr(region_attention, "load_checkpoint", lambda folder, device: models[folder])


def look(path: Path, models: dict[str, list[str]], **asked: Any) -> Results:
    question = Question(at=asked.pop("at", "verb"), regions=asked.pop("regions", ()))
    search = SearchOptions(trees=asked.pop("trees")) if "trees" in asked else SearchOptions(beam=50)
    return evaluate_attention(SuiteFiles(path), models, question, search=search, **asked)


@pytest.mark.usefixtures("by_folder")
@pytest.mark.parametrize("kind", ["pushdown", "window", "stack-attention", "gilt", "tg", "plm", "plm-mask"])
def test_all_models_give_shares_that_make_up_one(kind: str, tmp_path: Path) -> None:
    scores = look(suite_file(tmp_path / "toy.json"), {kind: [kind]}).scores["by_suite"]["toy"]
    assert sum(score[kind]["mean"] for score in scores.values()) == pytest.approx(1, rel=2e-6, abs=1e-6)
    assert ("(structure)" in scores) == (kind in ("tg", "plm", "plm-mask"))


@pytest.mark.usefixtures("by_folder")
def test_what_is_no_token_has_nothing_of_models_of_tokens_not_even_by_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(1)

    def any_weights(model: Any, batch: Any) -> SimpleNamespace:
        rows, n = batch.tokens.shape
        scores = 12 * torch.randn(rows, 2, 2, n, n, generator=random)  # else doubles add them up exactly
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        return SimpleNamespace(weights=scores.masked_fill(~seen, -torch.inf).softmax(-1))

    monkeypatch.setattr(predictions, "attention_weights", any_weights)
    contents = [["a b", "c", "", "a " * n + "b", "c", "a"] for n in range(1, 25)]
    items = [{"match": one, "mismatch": one} for one in contents]
    found = look(suite_file(tmp_path / "toy.json", items), {"base": ["base"]}).scores["by_suite"]["toy"]
    assert list(found) == ["det", "noun", "inner", "(root)"]


@pytest.mark.usefixtures("by_folder")
def test_an_action_model_is_asked_at_the_position_that_generates(
    models: dict[str, LoadedModel], tmp_path: Path
) -> None:
    """Under a given tree: by its row of actions."""
    tree = "(S (NP (X a) (X b)) (NP (X c) (X a)) (X b) (X c))"
    (tmp_path / "gold.trees").write_text(f"{tree}\n")
    path = suite_file(tmp_path / "toy.json", [{"match": ITEMS[0]["match"], "mismatch": ITEMS[0]["match"]}])
    found = look(path, {"plm": ["plm"]}, trees=TreesFile.of(str(tmp_path / "gold.trees")))
    loaded = models["plm"]
    # (root) (S (NP a b ) (NP c a ) b: the second b is the verb, at position 10.
    given = read_proposal_trees(loaded, TreesFile.of(str(tmp_path / "gold.trees")))
    ids = np.array([1, 3, 4, 5, 3, 4, 5, 2], np.int32)
    batch = loaded.model.pack([(ids, given.by_ids[ids.tobytes()][0])])
    weights = attention_weights(loaded.model, batch).weights[0, :, :, 9]
    scores = found.scores["by_suite"]["toy"]
    assert scores["inner"]["plm"]["mean"] == pytest.approx(
        float(weights[:, :, [7, 8]].sum(2).mean()), rel=2e-6, abs=1e-6
    )
    assert scores["noun"]["plm"]["mean"] == pytest.approx(float(weights[:, :, 4].mean()), rel=2e-6, abs=1e-6)
    structure = weights[:, :, [1, 2, 5, 6, 9]].sum(2).mean()
    assert scores["(structure)"]["plm"]["mean"] == pytest.approx(float(structure), rel=2e-6, abs=1e-6)
    assert found.settings["derivation"] == "given trees"


@pytest.mark.usefixtures("by_folder")
def test_a_model_of_arcs_is_asked_under_its_best_arcs_or_the_given_ones(
    models: dict[str, LoadedModel], tmp_path: Path
) -> None:
    """By a row of the whole sentence, in which a token sees the arcs up to its own word."""
    loaded, text = models["gilt"], "a b c a b c"
    given = Graph.of_heads([2, 0, 2, 5, 3, 5])
    (tmp_path / "gold.conllu").write_text(conllu(given, text.split()) + "\n")
    path = suite_file(tmp_path / "toy.json", [{"match": ITEMS[0]["match"], "mismatch": ITEMS[0]["match"]}])
    (searched,) = Model.of(loaded, SearchOptions(beam=50)).trace([text], hypotheses=0)
    assert isinstance(searched, Searched)
    before = graph_of_history(searched.result.incremental[4])
    best = Graph.of(6, before.heads, before.dependents)
    assert len(best)
    trees = TreesFile.of(str(tmp_path / "gold.conllu"))
    found = []
    for how, graph in ((dict[str, Any](), best), ({"trees": trees}, given)):
        scores = look(path, {"gilt": ["gilt"]}, **how).scores["by_suite"]["toy"]
        batch = loaded.model.pack([(searched.encoded.ids, graph)])
        weights = attention_weights(loaded.model, batch).weights[0, :, :, 4].mean((0, 1))  # before the verb
        found.append([scores[name]["gilt"]["mean"] for name in ("(root)", "det", "noun", "inner")])
        assert found[-1] == pytest.approx(
            [*weights[:3].tolist(), float(weights[3:5].sum())], rel=2e-6, abs=1e-6
        )
    assert found[0] != pytest.approx(found[1], rel=1e-3)


@pytest.mark.usefixtures("by_folder")
def test_models_are_compared_over_items_that_all_can_read(tmp_path: Path) -> None:
    odd = {condition: [*contents[:5], "zebra"] for condition, contents in ITEMS[0].items()}
    short = {condition: [*contents[:3], "", *contents[4:]] for condition, contents in ITEMS[0].items()}
    path = suite_file(tmp_path / "toy.json", [*ITEMS, odd, short])  # the last has no region 4
    models = {"ours": ["pushdown", "pushdown"], "base": ["base", "head"]}
    found = look(path, models, regions=("4", "noun"))
    assert found.counts == {
        "items": 4,
        "items_left_out": 1,
        "items_by_suite": {"toy": 3},
        "seeds": {"ours": 2, "base": 2},
    }
    assert list(found.scores["by_suite"]["toy"]) == ["noun", "inner"]
    reasons = {row["reason"] for row in found.table("items").to_pylist() if row["item"] == 3}
    assert reasons == {"words unknown to the model: zebra"}
    ours, base = (found.scores["by_suite"]["toy"]["noun"][name]["mean"] for name in ("ours", "base"))
    difference = found.scores["differences"]["toy"]["noun"]["base"]
    assert difference["mean"] == pytest.approx(base - ours)
    assert difference["low"] <= difference["mean"] <= difference["high"]
    assert "ours" not in found.scores["differences"]["toy"]["noun"]
    alone = look(path, {"ours": ["pushdown"]}, regions=("noun",)).scores["by_suite"]["toy"]["noun"]["ours"]
    assert alone["mean"] == pytest.approx(ours)


def test_intervals_of_one_run_are_over_items() -> None:
    """A mean of normal values has the interval of their deviations."""
    rng = np.random.default_rng(0)
    values, other = rng.normal(size=(2, 1, 400))
    for found, of in (
        (mean_and_interval(values, seed=1, samples=4000), values),
        (mean_and_interval(values, less=other, seed=1, samples=4000), values - other),
    ):
        assert found["mean"] == pytest.approx(of.mean())
        assert (found["high"] - found["low"]) / 2 == pytest.approx(1.96 * of.std() / 20, rel=0.06)


def test_intervals_of_several_runs_are_over_seeds_and_items() -> None:
    """Variances by hand: two seeds, and one; two items."""
    values, other = np.array([[1.0, 4.0], [2.0, 7.0]]), np.array([[1.0, 2.0]])
    nothing = {"seed": 0, "samples": 0}  # is drawn
    # Of both items, seed by seed, 2.25 and 6.25, of their mean 4; half of that each for means of two.
    items, seeds, both = 4 / 2, (4.5 - 2.5) ** 2 / 2 / 2, (4.25 / 2 - 4 / 2) / 1
    error = (items + seeds - both) ** 0.5
    half = student_quantile(0.975, error**4 / seeds**2) * error
    found = mean_and_interval(values, **nothing)
    assert found == {"mean": 3.5, "low": pytest.approx(3.5 - half), "high": pytest.approx(3.5 + half)}
    # By item the difference is 0.5 and 3.5. The one seed is taken to vary as the two.
    items, seeds = 1.5**2 / 2 - 3 * both, 3 * seeds
    t, normal = student_quantile(0.975, 1), student_quantile(0.975, math.inf)
    half = (items * normal + seeds * t) / (items + seeds) ** 0.5
    found = mean_and_interval(values, less=other, **nothing)
    assert found == {"mean": 2.0, "low": pytest.approx(2 - half), "high": pytest.approx(2 + half)}


@pytest.mark.usefixtures("by_folder")
@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"at": "object"}, "no suite has the region 'object' and, before it, any"),
        ({"at": "verb", "regions": ("end",)}, "no suite has the region 'verb' and, before it, end"),
        ({"at": "verb", "suites": ("no",)}, "no suite 'no' among these: toy"),
        (
            {"at": "object", "suites": ("toy",)},
            "suite toy: no such regions; its regions: 1 det, 2 noun, 3 gap, 4 inner, 5 verb, 6 end",
        ),
    ],
)
def test_what_is_not_there_is_named(question: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError) as error:
        evaluate_attention(
            SuiteFiles(suite_file(tmp_path / "toy.json")), {"base": ["base"]}, Question(**question)
        )
    assert str(error.value) == message


@pytest.mark.usefixtures("by_folder")
def test_models_without_attention_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="rnn: not a transformer that reads from left to right"):
        look(suite_file(tmp_path / "toy.json"), {"rnn": ["rnn"]})


def test_the_command(
    models: dict[str, LoadedModel], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "suites").mkdir()
    for name in ("toy", "other"):
        suite_file(path / f"{name}.json", name=name)
    for kind in ("pushdown", "base"):
        loaded = models[kind]
        shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
        save_checkpoint(tmp_path / kind, loaded.model, loaded.tokenizer, shards=shards)
    both = ["--model", str(tmp_path / "base"), "--model", str(tmp_path / "pushdown"), "--device", "cpu"]
    command = ["eval-attention", str(path), *both, "--at", "verb", "--suite", "toy"]
    command += ["--beam", "5", "--threads", "1"]
    assert run([*command, "-o", str(tmp_path / "out"), "--json", "--region", "noun"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["scores"] == document["scores"]
    assert document["settings"]["task"] == "attention"
    assert document["scores"]["by_suite"].keys() == {"toy"}
    assert set(document["scores"]["by_suite"]["toy"]["noun"]) == {"base", "pushdown"}
    assert pq.read_table(tmp_path / "out" / "items.parquet").num_rows == 2 * 2 * 2
    assert run([*command, "-o", str(tmp_path / "out")]) == 1
    assert "exists" in capsys.readouterr().err
    assert run([*command, "--details"]) == 0
    shown = capsys.readouterr().out
    assert "layer 2" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert run(["auto" if part == "5" else part for part in command]) == 1
    capsys.readouterr()
    found = {}
    for more in ([], ["--margin", "0"], ["--search", "max_batch=1"]):
        assert run([*command, *more, "--json"]) == 0
        found["".join(more)] = json.loads(capsys.readouterr().out)
    assert found["--margin0"]["settings"]["models"]["pushdown"]["margin"] == 0
    searched = [each["scores"]["by_suite"]["toy"]["noun"]["pushdown"]["mean"] for each in found.values()]
    narrow = evaluate_attention(
        SuiteFiles(path),
        {"pushdown": [str(tmp_path / "pushdown")]},
        Question(at="verb", suites=("toy",)),
        search=SearchOptions(beam=5, margin=0.0),
    )
    assert searched[1] == pytest.approx(narrow.scores["by_suite"]["toy"]["noun"]["pushdown"]["mean"])
    assert searched[0] != pytest.approx(searched[1])
    assert searched[0] == pytest.approx(searched[2])


def test_seeds_of_one_recipe_are_one_model() -> None:
    same = {"training": {"seed": 1, "sha256": "x"}}
    other = {"training": {"seed": 1, "sha256": "y"}}
    models = ["a/ours-1/best", "b", "a/ours-2", "c/b"]
    found = _groups(models, [same, {}, {"training": {"seed": 2, "sha256": "x"}}, other])
    assert found == {"ours": ["a/ours-1/best", "a/ours-2"], "b": ["b"], "c/b": ["c/b"]}
    assert _groups(["a/best", "a/last"], [same, same]) == {"a": ["a/best"], "a/last": ["a/last"]}
