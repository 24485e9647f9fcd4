"""Any number of models: grouping by seed, and numbers by hand."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.compare import ComparedModels, compare
from pdtools.evaluation.comparison.engine import (
    BESIDE_EXACT,
    ComparedRun,
    ComparedScore,
    _as_perplexities,
    _Table,
)
from pdtools.evaluation.comparison.groups import Group, by_seed, each_alone, find_models
from pdtools.evaluation.comparison.statistics import Resampled, Spread, mcnemar
from pdtools.evaluation.intervals import student_p
from pdtools.evaluation.results import ITEMS, Results, write_results
from pdtools.files.manifest import MANIFEST, growing
from pdtools.provenance import provenance
from pdtools.report.comparisons import ONE_RUN_EACH, about_p, print_compared


def write(
    folder: Path,
    task: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    scores: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
    trained: tuple[int, str] | None = None,
    **settings: Any,
) -> Path:
    results = Results(
        scores=dict(scores or {}),
        counts=dict(counts or {}),
        settings={"task": task, **settings},
        tables={ITEMS: pa.Table.from_pylist(list(rows))},
    )
    training = {} if trained is None else {"training": {"seed": trained[0], "sha256": trained[1]}}
    write_results(folder, results, {"inputs": {"model": {"path": "x", **training}}})
    return folder


def blimp(
    folder: Path,
    correct: Mapping[str, Sequence[bool | None]],
    margins: Mapping[str, Sequence[float | None]] | None = None,
    **more: Any,
) -> Path:
    rows = [
        {
            "paradigm": paradigm,
            "item": str(i),
            "phenomenon": "agreement",
            "field": "syntax",
            "prediction": 1,
            "formula": "good > bad",
            "correct": value,
            **({} if margins is None else {"margin_bits": margins[paradigm][i]}),
        }
        for paradigm, values in correct.items()
        for i, value in enumerate(values)
    ]
    return write(folder, "blimp", rows, **more)


def ppl(folder: Path, logprobs: Sequence[float], words: Sequence[int], **more: Any) -> Path:
    rows = [
        {"id": i, "marginal": logprob, "words": n, "tokens": n, "ends": 1, "end_marginal": -1.0}
        for i, (logprob, n) in enumerate(zip(logprobs, words, strict=True))
    ]
    score = math.exp(-sum(logprobs) / sum(words))
    counts = {"sentences": len(rows), "words": sum(words)}
    settings = {"eos_counted": True, **more}
    return write(folder, "ppl", rows, scores={"ppl_word_marginal": score}, counts=counts, **settings)


def parse(folder: Path, brackets: Sequence[tuple[int, int, int] | None], **more: Any) -> Path:
    rows = [
        {
            "line": line,
            "status": "skipped" if each is None else "scored",
            **dict(zip(("matched", "gold", "predicted"), each or (0, 0, 0), strict=True)),
        }
        for line, each in enumerate(brackets, start=1)
    ]
    matched, gold, predicted = (sum(each) for each in zip(*filter(None, brackets), strict=True))
    scores, counts = {"f1": 200 * matched / (gold + predicted)}, {"scored": len(brackets)}
    return write(folder, "parse", rows, scores=scores, counts=counts, labeled=True, binarize="none", **more)


def groups(**folders: Sequence[Path]) -> list[Group]:
    return [
        Group(name=name, models=tuple(model for each in of for model in find_models(each)))
        for name, of in folders.items()
    ]


def of_level(found: ComparedModels, level: str, name: str = "") -> ComparedScore:
    (score,) = (score for score in found.scores if (score.level, score.name) == (level, name))
    return score


# --- grouping -----------------------------------------------------------------------------------


def test_seeds_of_one_recipe_are_one_group(tmp_path: Path) -> None:
    right = {"one": [True, False]}
    for name, trained in (
        ("base-1", (1, "x")),
        ("base-2", (2, "x")),
        ("other-1", (1, "y")),
        ("gpt2", None),
        ("gpt2-xl", None),
    ):
        blimp(tmp_path / name / "blimp", right, trained=trained)
        parse(tmp_path / name / "parse", [(1, 1, 1)])  # trees, of which no one says whose they are
    found = by_seed(find_models(tmp_path))
    assert [(group.name, [model.seed for model in group.models]) for group in found] == [
        *(("base", [1, 2]), ("gpt2", [None]), ("gpt2-xl", [None]), ("other-1", [1]))
    ]
    single = by_seed([model for n in (1, 2) for model in find_models(tmp_path / f"base-{n}" / "blimp")])
    assert [(group.name, len(group.models)) for group in single] == [("base", 2)]
    blimp(tmp_path / "base-1-beam" / "blimp", right, trained=(1, "x"))  # one model, searched in another way
    parse(tmp_path / "base-1-beam" / "parse", [(1, 1, 1)])
    assert [group.name for group in by_seed(find_models(tmp_path))] == [
        *("base-1", "base-1-beam", "base-2", "gpt2", "gpt2-xl", "other-1")
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="none in it"):
        find_models(tmp_path / "empty")
    with pytest.raises(InputError, match="no such folder"):
        find_models(tmp_path / "none")


def test_seeds_of_each_evaluation_are_one_group(tmp_path: Path) -> None:
    for seed in (1, 2):
        blimp(tmp_path / f"base-{seed}" / "blimp", {"one": [True, False]}, trained=(seed, "x"))
        ppl(tmp_path / f"base-{seed}" / "ppl", [-3.0], [2], trained=(seed, "x"))
    folders = [tmp_path / f"base-{seed}" / name for seed in (1, 2) for name in ("blimp", "ppl")]
    found = by_seed([model for folder in folders for model in find_models(folder)])
    assert [[(model.seed, *model.evaluations) for model in group.models] for group in found] == [
        [(1, "blimp"), (2, "blimp")],
        [(1, "ppl"), (2, "ppl")],
    ]


def test_seeds_without_a_common_name_have_that_of_the_first(tmp_path: Path) -> None:
    for name, seed in (("x", 1), ("y", 2), ("7", 3)):
        blimp(tmp_path / name / "blimp", {"one": [True]}, trained=(seed, "same"))
    (group,) = by_seed([model for name in "xy7" for model in find_models(tmp_path / name)])
    assert (group.name, [model.seed for model in group.models]) == ("x", [1, 2, 3])


@pytest.mark.parametrize("seed", ["1", None, True, 1.0])
def test_seeds_that_are_no_numbers_make_no_groups(seed: Any, tmp_path: Path) -> None:
    for name, each in (("a-1", 1), ("a-2", seed)):
        blimp(tmp_path / name / "blimp", {"one": [True]}, trained=(each, "same"))
    models = [model for name in ("a-1", "a-2") for model in find_models(tmp_path / name)]
    assert [group.name for group in by_seed(models)] == ["a-1", "a-2"]
    assert [model.seed for model in models] == [1, None]


def test_what_a_checkpoint_was_trained_with_is_recorded(tmp_path: Path) -> None:
    """All but the seed, and the data."""
    found = []
    for name, seed, steps, data in (("a", 1, 5, "d"), ("b", 2, 5, "d"), ("c", 1, 6, "d"), ("d", 1, 5, "e")):
        (tmp_path / name / "best").mkdir(parents=True)
        logged = {"log_every": 10 * seed, "sample_parses": seed}  # which changes no weight
        recipe = {"model": "m", "config": {}, "train": {"seed": seed, "steps": steps, **logged}}
        (tmp_path / name / "run.json").write_text(json.dumps({"recipe": recipe, "data": {"train": data}}))
        (tmp_path / name / MANIFEST).write_text(json.dumps(growing("training run")))
        by_run, by_checkpoint = (
            provenance({"model": path})["inputs"]["model"]["training"]
            for path in (tmp_path / name, tmp_path / name / "best")
        )
        assert by_run == by_checkpoint
        found.append(by_run)
    assert [each["seed"] for each in found] == [1, 2, 1, 1]
    assert found[0]["sha256"] == found[1]["sha256"]
    assert len({each["sha256"] for each in found}) == 3
    assert "training" not in provenance({"data": tmp_path / "a" / "run.json"})["inputs"]["data"]


def test_groups_that_are_not_sound(tmp_path: Path) -> None:
    one, two = (blimp(tmp_path / name, {"one": [True]}) for name in ("a", "b"))
    for wrong, baseline, says in (
        (groups(a=[one], b=[one]), None, "is given twice"),
        ([*groups(a=[one]), *groups(a=[two])], None, "two groups named a"),
        (groups(a=[one], b=[two]), "c", "no group named c"),
        (groups(a=[one]), None, "one model only"),
    ):
        with pytest.raises(PdtoolsError, match=says):
            compare(wrong, baseline=baseline)


# --- numbers ------------------------------------------------------------------------------------


def test_margins_are_compared_beside_accuracies(tmp_path: Path) -> None:
    """Means of paradigms, of items that both have, by Welch's t over seeds; and corrected by themselves."""
    right, wrong = {"x": [True, True], "y": [True]}, {"x": [True, False], "y": [True]}
    margins = {
        "a": [{"x": [1.0, 3.0], "y": [4.0]}, {"x": [2.0, 4.0], "y": [5.0]}],
        "b": [{"x": [2.0, 6.0], "y": [4.0]}, {"x": [2.0, 6.0], "y": [6.0]}],
    }
    folders = {
        name: [blimp(tmp_path / f"{name}{i}", (right, wrong)[i], of) for i, of in enumerate(seeds)]
        for name, seeds in margins.items()
    }
    found = compare(groups(**folders))
    assert [pair.family for score in found.scores if score.level == "overall" for pair in score.pairs] == [
        1,
        1,
    ]
    (overall,) = (score for score in found.scores if score.is_margin and score.level == "overall")
    assert overall.score == "BLiMP margin (bits)"
    assert [group.values for group in overall.groups] == [(3.0, 4.0), (4.0, 5.0)]
    (pair,) = overall.pairs
    assert (pair.difference, pair.only_a, pair.family) == (1.0, None, 1)
    assert pair.p_holm == pair.p
    (paradigm,) = (score for score in found.scores if score.is_margin and score.name == "x")
    assert [group.mean for group in paradigm.groups] == [2.5, 4.0]

    # Of two runs the same, paired over items; an item without a margin in one is left out for both.
    other = blimp(tmp_path / "c", right, {"x": [None, 5.0], "y": [4.5]})
    accuracy, margin = compare(each_alone([folders["a"][0], other]), samples=200).overall
    assert (accuracy.items, margin.items, margin.is_margin) == (3, 2, True)
    assert [group.mean for group in margin.groups] == [3.5, 4.75]


@pytest.mark.parametrize("kind", ["no column", "nulls"])
def test_results_without_margins_are_left_out_of_their_comparison_and_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with --beam auto: of two results neither has anything to be compared with, of three two have."""
    right = {"x": [True, True], "y": [True]}
    a, b = (
        blimp(tmp_path / name, right, {"x": [1.0, 3.0], "y": [y]}) for name, y in (("a", 4.0), ("b", 5.0))
    )
    auto = blimp(tmp_path / "auto", right, {"x": [None, None], "y": [None]} if kind == "nulls" else None)
    said = f"BLiMP margin (bits): not of {tmp_path.name}/auto, whose items have none"
    two = compare(each_alone([a, auto]), samples=20)
    assert [score.is_margin for score in two.overall] == [False]
    assert two.notes == {"blimp": (said,)}
    three = compare(groups(a=[a], auto=[auto], b=[b]), samples=20)
    accuracy, margin = three.overall
    assert [group.group for group in accuracy.groups] == ["a", "auto", "b"]
    assert [(group.group, group.mean) for group in margin.groups] == [("a", 3.0), ("b", 3.5)]
    assert [(pair.a, pair.b) for pair in margin.pairs] == [("a", "b")]
    assert three.notes == {"blimp": (said,)}
    alone = compare(groups(a=[a], auto=[auto], b=[b]), baseline="auto", samples=20)
    assert [score.pairs for score in alone.overall if score.is_margin] == [()]
    assert run(["compare", str(a), str(b), str(auto), "--details", "--samples", "20"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(said) == 1
    assert "BLiMP margin (bits); 3 items" in printed


def test_groups_of_seeds_by_hand(tmp_path: Path) -> None:
    """Two paradigms of two items, each right in some seeds: means of means, deviations, Welch's t."""
    shares = {"a": [(0.5, 1.0), (1.0, 0.5), (0.0, 0.0)], "b": [(1.0, 1.0), (0.5, 1.0)]}
    folders = {
        name: [
            blimp(tmp_path / f"{name}{i}", {p: [s > 0, s > 0.5] for p, s in zip("xy", of, strict=True)})
            for i, of in enumerate(seeds)
        ]
        for name, seeds in shares.items()
    }
    found = compare(groups(**folders))
    a, b = of_level(found, "overall").groups
    assert (a.values, b.values) == ((75.0, 75.0, 0.0), (100.0, 75.0))
    assert (a.mean, b.mean) == (50.0, 87.5)
    assert (a.deviation, b.deviation) == (pytest.approx(math.sqrt(1875)), pytest.approx(math.sqrt(312.5)))
    (pair,) = of_level(found, "overall").pairs
    assert (pair.difference, pair.only_a, pair.test) == (
        37.5,
        None,
        "Welch's t over seeds, items by bootstrap",
    )
    # Samples of two of the items above 0 and above 0.5, of both paradigms: there are 16.
    every = [((p, q), (r, s)) for p, q, r, s in itertools.product((0, 0.5), repeat=4)]
    drawn = [
        sum(
            (sum(s[u] > t for s in shares["b"] for t in sample) / 4)
            - sum(s[u] > t for s in shares["a"] for t in sample) / 6
            for u, sample in enumerate(samples)
        )
        / 2
        for samples in every
    ]
    mean = sum(drawn) / 16
    over_items = 1e4 * sum((d - mean) ** 2 for d in drawn) / 16
    both = 0.0
    for seeds in shares.values():
        runs = [
            [100 * sum(s[u] > t for u, of in enumerate(samples) for t in of) / 4 for samples in every]
            for s in seeds
        ]
        of_mean = np.var(np.mean(runs, 0))
        both += max(0.0, float((np.mean(np.var(runs, 1)) - of_mean) / (len(seeds) - 1)))
    assert both > 0
    spread = Spread.of(over_items, a.values, b.values, both=both)
    assert pair.over_seeds == pytest.approx(spread.interval(37.5), rel=0.02)
    assert pair.p == pytest.approx(spread.p(37.5), rel=0.02)
    assert of_level(found, "paradigm", "x").groups[0].values == (50.0, 100.0, 0.0)


def test_what_items_and_seeds_have_in_common_counts_once_in_a_mean_over_seeds(tmp_path: Path) -> None:
    """Here items differ from run to run, and runs in nothing else. A difference has both means' parts."""
    right = np.random.default_rng(3).random((21, 60)) < 0.5
    folders = [blimp(tmp_path / str(i), {"x": run.tolist()}) for i, run in enumerate(right)]
    score = of_level(compare(groups(one=folders[20:], a=folders[:10], b=folders[10:20])), "overall")
    (_, a, b), (_, _, pair) = score.groups, score.pairs
    assert (pair.a, pair.b) == ("a", "b")
    runs = 100 * right[:20].reshape(2, 10, 60)
    of_means = np.var(runs.mean(1), axis=1) / 60  # (2)
    common = (np.var(runs, axis=2).mean(1) / 60 - of_means) / 9  # (2)
    over_items = np.var(runs[1].mean(0) - runs[0].mean(0)) / 60
    for found, centre, items, values, parts in (
        (a, a.mean, of_means[0], [a.values], common[:1]),
        (pair, pair.difference, over_items, [a.values, b.values], common),
    ):
        one, less, without = (
            Spread.of(items, *values, both=both).interval(0)[1] for both in (parts.sum(), parts.max(), 0.0)
        )
        assert without > 1.1 * one
        assert len(parts) == 1 or less > 1.1 * one
        assert found.over_seeds == pytest.approx([centre - one, centre + one], abs=0.03 * one)


def test_f1_and_perplexity_are_of_sums_over_sentences(tmp_path: Path) -> None:
    """Whatever the sentences are, the scores are those of results.json; p is that of a paired bootstrap."""
    worse = [(1, 2, 3), (0, 1, 1), (4, 6, 5), (2, 4, 4)] * 5
    better = [(min(g, m + 1), g, p) for m, g, p in worse]
    for name, brackets, logprobs in (("a", worse, [-9.0, -4.0] * 10), ("b", better, [-8.0, -3.9] * 10)):
        parse(tmp_path / name / "parse", brackets)
        ppl(tmp_path / name / "ppl", logprobs, [3, 2] * 10)
    found = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"]), samples=999)
    assert [(score.evaluation, score.lower_is_better, score.items) for score in found.scores] == [
        *(("parse", False, 20), ("ppl", True, 20))
    ]
    for score, key in zip(found.scores, ("f1", "ppl_word_marginal"), strict=True):
        for group in score.groups:
            document = json.loads((tmp_path / group.group / score.evaluation / "results.json").read_text())
            assert group.mean == pytest.approx(document["scores"][key], rel=1e-12)
            low, high = group.over_items or (0, 0)
            assert low < group.mean < high
        (pair,) = score.pairs
        assert (pair.test, pair.p) == ("paired bootstrap", 2 / 1000)  # every sample is on the same side
        assert about_p([pair]) == [ONE_RUN_EACH]
        assert pair.p_holm == pytest.approx(4 / 1000)
        assert pair.family == 2


def test_scores_without_items_have_seeds_alone(tmp_path: Path) -> None:
    """Student's t with Welch's degrees of freedom, of the scores themselves."""
    values = {"a": (1.0, 2.0, 3.0), "b": (4.0, 8.0)}
    folders = {
        name: [
            write(tmp_path / f"{name}{i}", "cfl", [{"x": 1}], scores={"difference": v}, counts={"strings": 9})
            for i, v in enumerate(of)
        ]
        for name, of in values.items()
    }
    (score,) = compare(groups(**folders)).scores
    (pair,) = score.pairs
    spread = Spread.of(0.0, *values.values())
    assert (score.items, pair.over_items, pair.test) == (None, None, "Welch's t over seeds")
    assert pair.over_seeds == pytest.approx(spread.interval(4.0))
    assert pair.p == pytest.approx(spread.p(4.0))
    (lone,) = compare(groups(a=folders["a"][:1], b=folders["b"][:1])).scores[0].pairs
    assert (lone.difference, lone.test, lone.p, lone.p_holm) == (3.0, None, None, None)
    assert not about_p([lone])  # it has no p
    assert score.lower_is_better


def test_one_model_against_several_varies_as_they_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """s²(1/S + 1) with S − 1 degrees of freedom, whichever of the two is one run; the table says so."""
    values = {"a": (1.0, 2.0, 4.5), "b": (9.0,), "c": (2.0,)}
    folders = {
        name: [
            write(tmp_path / f"{name}{i}", "cfl", [{"x": 1}], scores={"difference": v}, counts={"strings": 9})
            for i, v in enumerate(of)
        ]
        for name, of in values.items()
    }
    error = stdev(values["a"]) * math.sqrt(1 / 3 + 1)
    for order in (("a", "b"), ("b", "a")):
        (score,) = compare(groups(**{name: folders[name] for name in order})).scores
        (pair,) = score.pairs
        assert pair.test == "Student's t over the seeds of one group"
        assert pair.p == pytest.approx(student_p(6.5 / error, 2))
        half = 4.302652730 * error
        assert pair.over_seeds == pytest.approx((pair.difference - half, pair.difference + half))
    print_compared(compare(groups(**folders)))
    said = " ".join(capsys.readouterr().out.split())
    assert "one run against several: it is taken to vary over seeds as these do" in said
    assert "p is over items" not in said  # two single runs without items have no p


@pytest.mark.parametrize(
    ("n", "a", "b"), [(23, (0, 3, 9), (0, 5, 7)), (23, (0, 4, 8), (2, 5, 5)), (19, (7, 7, 5), (4, 11, 4))]
)
def test_equal_means_of_other_paradigms_do_not_differ(
    tmp_path: Path, n: int, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    for name, right in (("a", a), ("b", b)):
        blimp(tmp_path / name, {f"p{i}": [k < of for k in range(n)] for i, of in enumerate(right)})
    found = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"]))
    assert of_level(found, "overall").pairs[0].difference == 0


def test_one_model_against_several_on_items(tmp_path: Path) -> None:
    """What items and seeds have together is in both variances, of the single run too."""
    rng = np.random.default_rng(6)
    hard = rng.uniform(0.1, 0.9, (2, 2, 30))[[0, 0, 0, 1]]  # for three seeds, and for the other model
    right = rng.random((4, 2, 30)) < hard + rng.normal(0, 0.1, (4, 1, 1))
    folders = [
        blimp(tmp_path / f"m{m}", {p: of[i].tolist() for i, p in enumerate("xy")})
        for m, of in enumerate(right)
    ]
    overall = of_level(compare(groups(a=folders[:3], b=folders[3:])), "overall")
    (pair,) = overall.pairs
    of_runs = 1e4 * right.var(2).sum(1) / 4 / 30  # of each run over items
    both = (of_runs[:3].mean() - 1e4 * right[:3].mean(0).var(1).sum() / 4 / 30) / 2
    over_items = 1e4 * (right[3] * 1.0 - right[:3].mean(0)).var(1).sum() / 4 / 30
    seeds = stdev(overall.groups[0].values) ** 2 * (1 / 3 + 1)
    items = over_items - 4 * both
    assert min(both, items) > 0
    half = (items * 1.959963985 + seeds * 4.302652730) / math.sqrt(items + seeds)
    assert pair.over_seeds == pytest.approx((pair.difference - half, pair.difference + half), rel=0.05)
    assert pair.test == "Student's t over the seeds of one group, items by bootstrap"
    spread = Spread.of(over_items, overall.groups[0].values, overall.groups[1].values, both=both)
    assert pair.p == pytest.approx(spread.p(pair.difference), rel=0.05)


def test_what_p_of_single_runs_is_over_is_said_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "one run each: p is over items, not over seeds"
    for name, k in (("a", 2), ("b", 28), ("c", 15), ("d", 13)):
        blimp(tmp_path / name / "blimp", {"x": [i < k for i in range(30)], "y": [True, False] * 15})
    a, b, c, d = (str(tmp_path / name) for name in "abcd")

    def printed(*arguments: str) -> str:
        assert run(["compare", *arguments, "--samples", "20"]) == 0
        return capsys.readouterr().out

    table = printed(a, b, c).splitlines()
    assert [line for line in table if "p is over items" in line] == [said] * 7  # overall; field, phenomenon
    grouped = " ".join(printed(a, b, "--group", f"c={c},{d}").split())
    assert f"b - a: {said}" in grouped
    assert "a - c, b - c: one run against several: it is taken" in grouped
    assert said not in printed("--group", f"a={a},{b}", "--group", f"c={c},{d}")
    assert "% " + said in printed(a, b, "--latex").splitlines()


def test_an_evaluation_has_the_same_numbers_whatever_else_is_compared(tmp_path: Path) -> None:
    """Each has random numbers of its own, those of its seed."""
    rng = np.random.default_rng(0)
    for name in "ab":
        right = {"x": (rng.random(40) < 0.6).tolist(), "y": (rng.random(40) < 0.4).tolist()}
        blimp(tmp_path / name / "blimp", right)
        parse(tmp_path / name / "parse", [(m, 4, 5) for m in rng.integers(0, 5, 30).tolist()])
        ppl(tmp_path / name / "ppl", rng.normal(-9, 2, 30).tolist(), [3] * 30)
    whole = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"]), samples=200)

    def numbers(scores: Sequence[ComparedScore], evaluation: str) -> list[Any]:
        of_pairs = [
            (pair.over_items, pair.p) for s in scores if s.evaluation == evaluation for pair in s.pairs
        ]
        return [of_pairs, [s.groups for s in scores if s.evaluation == evaluation]]

    for task in ("blimp", "parse", "ppl"):
        alone = [tmp_path / name / task for name in "ab"]
        found = compare(groups(a=alone[:1], b=alone[1:]), samples=200)
        assert numbers(found.scores, task) == numbers(whole.scores, task)
    other = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"]), samples=200, seed=1)
    assert all(numbers(other.scores, t) != numbers(whole.scores, t) for t in ("blimp", "parse", "ppl"))


@pytest.mark.parametrize(
    ("gains", "shown"),
    [
        ((0.0123, 0.0151), ("0.0123", "0.0151", "+0.0028")),
        ((0.000123, 0.000151), ("0.000123", "0.000151", "+0.000028")),
        ((-0.00301, 0.000002), ("-0.00301000", "0.00000200", "+0.00301200")),
        ((0.0123, 0.012300001), ("0.0123", "0.0123", "+1e-09")),
        ((0.0, 3e-12), ("0.00000000", "3e-12", "+3e-12")),
        ((1.5, 2.25), ("1.50", "2.25", "+0.75")),
    ],
)
def test_gains_of_reading_times_are_better_the_higher_and_small(
    gains: tuple[float, float], shown: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gain in zip("ab", gains, strict=True):
        of_model = {"delta_ll": gain, "low": 0.0, "high": 1.0}
        scores = {"by_model": {"m": of_model}}
        write(tmp_path / name / "r", "reading", [{"x": 1}], scores=scores, counts={"words_regressed": 9})
    found = compare(groups(a=[tmp_path / "a" / "r"], b=[tmp_path / "b" / "r"]))
    assert not found.scores[0].lower_is_better
    print_compared(found)
    assert {*shown} <= set(capsys.readouterr().out.split())
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--baseline", "a"]) == 0
    assert {*shown} <= set(capsys.readouterr().out.split())


def test_pairs_families_and_a_baseline(tmp_path: Path) -> None:
    folders = {
        name: [blimp(tmp_path / name, {"x": [i < k for i in range(12)], "y": [i < 6 for i in range(12)]})]
        for name, k in (("a", 2), ("b", 6), ("c", 12))
    }
    found = compare(groups(**folders))
    overall = of_level(found, "overall")
    assert [(pair.a, pair.b) for pair in overall.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.p for pair in overall.pairs] == [mcnemar(0, 4), mcnemar(0, 10), mcnemar(0, 6)]
    assert [pair.p_holm for pair in overall.pairs] == pytest.approx([0.125, 3 * 2**-9, 2 * 2**-5])
    assert {pair.family for pair in overall.pairs} == {3}
    assert {pair.family for pair in of_level(found, "paradigm", "x").pairs} == {6}
    against = of_level(compare(groups(**folders), baseline="b"), "overall").pairs
    assert [(pair.a, pair.b, pair.family) for pair in against] == [("b", "a", 2), ("b", "c", 2)]


def test_each_table_of_each_evaluation_is_a_family(tmp_path: Path) -> None:
    for name, k in (("a", 4), ("b", 12)):
        right = [i < k for i in range(12)]
        blimp(tmp_path / name / "english", {"x": right, "y": right})
        blimp(tmp_path / name / "german", {"x": right, "y": right, "z": right})
    scores = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"])).scores
    families = [(s.evaluation, s.name, s.pairs[0].family) for s in scores if s.level == "paradigm"]
    assert families == [
        *(("english", "x", 2), ("english", "y", 2)),
        *(("german", "x", 3), ("german", "y", 3), ("german", "z", 3)),
    ]
    assert {score.pairs[0].family for score in scores if score.level == "overall"} == {2}


def test_what_cannot_stand_beside_the_first_is_excluded(tmp_path: Path) -> None:
    same = {"x": [True, False]}
    a, b = blimp(tmp_path / "a", same), blimp(tmp_path / "b", same, beam=10)
    longer, other = blimp(tmp_path / "c", {"x": [True] * 3}), ppl(tmp_path / "d", [-1.0], [1])
    c = blimp(tmp_path / "e", same, beam=300)
    found = compare(groups(a=[a], b=[b], c=[longer], e=[c], d=[other]))
    assert [group.group for group in of_level(found, "overall").groups] == ["a", "b", "e"]
    assert "only one has x 2" in found.refused["blimp"][0]
    torn = blimp(tmp_path / "torn", same)
    (torn / f"{ITEMS}.parquet").write_bytes(b"PAR1")
    found = compare(groups(a=[a], torn=[torn], b=[b], e=[c]))
    assert [group.group for group in of_level(found, "overall").groups] == ["a", "b", "e"]
    assert str(torn) in found.refused["blimp"][0]
    found = compare(groups(b=[b], e=[c], a=[a]))
    assert "beam: 10 and 300" in found.notes["blimp"][0]
    with pytest.raises(PdtoolsError, match="only one has x 2"):
        compare(groups(a=[a], c=[longer]))
    with pytest.raises(PdtoolsError, match="no evaluation"):
        compare(groups(a=[a], d=[other]))


def test_the_end_that_a_marginal_leaves_out_is_its_own(tmp_path: Path) -> None:
    """Not that of the sentence given its tree, which stands beside it."""
    ends, words, marginals = [-1.0, -2.0], [3, 2], {"a": [-9.0, -4.0], "b": [-8.0, -5.0]}
    name = "ppl_word_without_eos_marginal"
    wanted = {}
    for model, logprobs in marginals.items():
        rows = [
            {"id": i, "marginal": x, "words": n, "ends": 1, "end_marginal": end}
            | {"given_tree": x - 1, "end_given_tree": end - 0.5}
            for i, (x, n, end) in enumerate(zip(logprobs, words, ends, strict=True))
        ]
        wanted[model] = math.exp(-(sum(logprobs) - sum(ends)) / (sum(words) - 2))
        scores = {name: wanted[model]}
        counts = {"sentences": 2, "words": sum(words), "words_without_eos": sum(words) - 2}
        write(tmp_path / model, "ppl", rows, scores=scores, counts=counts, eos_counted=model == "a")
    (score,) = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"])).scores
    assert score.items == 2
    assert {group.group: group.mean for group in score.groups} == pytest.approx(wanted)


# --- the command --------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, k in (("base-1", 4), ("base-2", 7), ("mine-1", 12), ("mine-2", 11)):
        blimp(tmp_path / name / "blimp", {"x": [i < k for i in range(12)]}, trained=(int(name[-1]), name[:4]))
    assert run(["compare", str(tmp_path), "--json", "--samples", "50"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(group["name"], group["seeds"]) for group in document["groups"]] == [
        ("base", [1, 2]),
        ("mine", [1, 2]),
    ]
    overall = document["scores"][0]
    assert overall["groups"][0]["values"] == pytest.approx([100 * 4 / 12, 100 * 7 / 12])
    assert len(document["provenance"]["inputs"]) == 4
    patterns = [f"base={tmp_path}/base-1,{tmp_path}/base-2", f"mine={tmp_path}/mine-*"]
    options = ["--samples", "50", *(word for pattern in patterns for word in ("--group", pattern))]
    assert run(["compare", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == document["scores"]
    assert run(["compare", *options, "--baseline", "mine"]) == 0
    table = capsys.readouterr().out
    assert "base - mine" in table
    assert run(["compare", *options]) == 0
    printed = capsys.readouterr().out
    for signed, of in (("", overall["groups"]), ("+", overall["pairs"])):
        for each in of:  # over seeds, though there is one over items too
            assert each["over_items"] != each["over_seeds"]
            assert "[{}]".format(", ".join(f"{end:{signed}.2f}" for end in each["over_seeds"])) in printed
    assert (
        "with two runs it holds the true mean in 88 to 95 of 100 cases). p: corrected, by Holm"
        in " ".join(table.split())
    )
    assert run(["compare", *options, "--latex", "--details"]) == 0
    latex = capsys.readouterr().out
    assert latex.count(r"\begin{tabular}") == latex.count(r"\bottomrule") == 5
    assert run(["compare", *options, "--latex", "--json"]) == 2
    assert run(["compare", "--group", "base"]) == 2
    assert run(["compare", "--group", f"base={tmp_path}/none-*"]) == 1
    assert run(["compare"]) == 2


def test_a_folder_of_a_group_may_be_named_like_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, right in (("base[1]", 4), ("base1", 9), ("base2", 7)):
        blimp(tmp_path / name / "blimp", {"x": [i < right for i in range(12)]})
    options = ["--group", f"a={tmp_path}/base[1]", "--group", f"b={tmp_path}/base[12]", "--samples", "50"]
    assert run(["compare", *options, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [[Path(folder).name for folder in group["folders"]] for group in groups] == [
        ["base[1]"],
        ["base1", "base2"],
    ]


def test_the_result_is_plain(tmp_path: Path) -> None:
    a, b = (blimp(tmp_path / name, {"x": [True, False]}) for name in "ab")
    found = compare(groups(a=[a], b=[b]), samples=20)
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    assert found == compare(groups(a=[a], b=[b]), samples=20)


def test_sentences_that_only_one_could_score_are_left_out(tmp_path: Path) -> None:
    ppl(tmp_path / "a" / "ppl", [-9.0, -4.0, -2.0, -7.0], [3, 2, 1, 2])
    ppl(tmp_path / "b" / "ppl", [-8.0], [3])
    for one, other, means in (
        ("a", "b", (math.exp(3), math.exp(8 / 3))),
        ("b", "a", (math.exp(8 / 3), math.exp(3))),
    ):
        found = compare(each_alone([tmp_path / one, tmp_path / other]), samples=20)
        assert found.notes == {"ppl": ("only the 1 of 4 sentences that both could score",)}
        assert [group.mean for group in found.scores[0].groups] == pytest.approx(means)
        assert (found.scores[0].items, found.scores[0].pairs[0].p) == (1, None)


def test_a_beam_concerns_marginals_and_given_trees_the_others(tmp_path: Path) -> None:
    scores = {"ppl_word_marginal": 3.0, "ppl_word_given_trees": 2.0}
    counts = {"sentences": 1, "words": 2}
    for name, beam, trees in (("a", 5, "own"), ("b", 10, "parsed")):
        rows = [{"id": 0, "marginal": -2.0, "given_tree": -1.0, "words": 2, "tokens": 2}]
        settings = {"eos_counted": True, "beam": beam, "trees": trees, "dtype": name}
        write(tmp_path / name / "ppl", "ppl", rows, scores=scores, counts=counts, **settings)
    found = compare(groups(a=[tmp_path / "a"], b=[tmp_path / "b"]), samples=20)
    assert found.notes == {"ppl": ("type of the weights: a and b",)}
    assert {score.score: score.notes[1:] for score in found.scores} == {
        "perplexity per word, marginal": ("beam: 5 and 10",),
        "perplexity per word, given the trees": ("trees: own and parsed",),
    }


@pytest.mark.parametrize("other", [(2, "x"), (1, "y")])
def test_results_of_two_models_are_not_one_model(other: tuple[int, str], tmp_path: Path) -> None:
    for name, trained in (("one", (1, "x")), ("two", other)):
        blimp(tmp_path / "m" / name, {"x": [True]}, trained=trained)
    with pytest.raises(InputError, match="results of several models in one folder"):
        find_models(tmp_path / "m")


# --- perplexities: their logarithms are averaged and compared ------------------------------------


def perplexities(tmp_path: Path, values: Mapping[str, Sequence[float]]) -> ComparedScore:
    """The comparison of runs that have perplexities alone, without items."""
    folders: dict[str, list[Path]] = {name: [] for name in values}
    for name, of in values.items():
        for i, value in enumerate(of):
            at = tmp_path / f"{name}{i}" / "ppl"
            scores, counts = {"ppl_word_marginal": value}, {"sentences": 4, "words": 12}
            folders[name].append(write(at, "ppl", [{"x": 1}], scores=scores, counts=counts, eos_counted=True))
    (score,) = compare(groups(**folders), samples=100).scores
    return score


def test_perplexities_of_seeds_are_compared_by_their_logarithms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: one seed of b diverged, and no interval holds a perplexity below 0."""
    values = {"a": (50.0, 60.0, 55.0), "b": (70.0, 90_000.0)}
    score = perplexities(tmp_path, values)
    logs = {name: [math.log(value) for value in of] for name, of in values.items()}
    means = {name: math.exp(sum(of) / len(of)) for name, of in logs.items()}
    for group in score.groups:
        of = logs[group.group]
        low, high = Spread.of(0.0, of).interval(math.log(means[group.group]))
        assert group.values == pytest.approx(values[group.group])
        assert group.mean == pytest.approx(means[group.group])
        assert group.deviation == pytest.approx(means[group.group] * stdev(of))
        assert group.over_seeds == pytest.approx((math.exp(low), math.exp(high)))
        assert math.exp(low) > 0
    (pair,) = score.pairs
    spread = Spread.of(0.0, logs["a"], logs["b"])
    low, high = spread.interval(math.log(means["b"] / means["a"]))
    assert pair.difference == pytest.approx(means["b"] - means["a"])
    assert pair.over_seeds == pytest.approx([means["a"] * math.expm1(end) for end in (low, high)])
    assert pair.p == pytest.approx(spread.p(math.log(means["b"] / means["a"])))
    assert -means["a"] <= pair.over_seeds[0] + 1e-9 < pair.difference < pair.over_seeds[1]
    folders = [str(path) for path in sorted(tmp_path.iterdir())]
    given = [f"--group=a={','.join(folders[:3])}", f"--group=b={','.join(folders[3:])}"]
    assert run(["compare", *given]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "group runs geometric mean sd 95%" in said
    assert f"a 3 {means['a']:.2f} " in said
    assert f"[-{means['a']:.2f}, {pair.over_seeds[1]:+.2g}]" in said
    assert "perplexities: means are geometric; deviations, intervals and differences are those of" in said


def test_perplexities_over_items_and_seeds_are_of_logarithms(tmp_path: Path) -> None:
    """Twelve rows in two seeds of each: the interval over items is that of the runs' mean logarithm."""
    rng = np.random.default_rng(5)
    logprobs = rng.normal(-12, 3, (2, 2, 1, 12)) + rng.normal(0, 0.2, (2, 2, 1, 1))
    words = rng.integers(2, 6, 12)
    folders = {
        name: [ppl(tmp_path / f"{name}{i}", of[0].tolist(), words.tolist()) for i, of in enumerate(seeds)]
        for name, seeds in zip("ab", logprobs, strict=True)
    }
    (score,) = compare(groups(**folders), samples=20_000).scores
    drawn = rng.integers(0, 12, (20_000, 12))
    logs = -logprobs[:, :, 0][..., drawn].sum(-1) / words[drawn].sum(-1)  # (groups, seeds, samples)
    whole = -logprobs.sum((2, 3)) / words.sum()
    for group, of, mean in zip(score.groups, logs.mean(1), whole.mean(1), strict=True):
        assert group.mean == pytest.approx(math.exp(mean))
        assert group.over_items == pytest.approx(np.exp(np.quantile(of, [0.025, 0.975])), rel=0.03)
    (pair,) = score.pairs
    ratio = np.expm1(np.quantile(logs[1].mean(0) - logs[0].mean(0), [0.025, 0.975]))
    ends = score.groups[0].mean * ratio
    assert pair.over_items == pytest.approx(ends, abs=0.03 * (ends[1] - ends[0]))
    assert pair.difference == pytest.approx(score.groups[1].mean - score.groups[0].mean)


@pytest.mark.parametrize("deviation", [0.02, 1.0])
def test_intervals_of_perplexities_cover(deviation: float) -> None:
    """Of 700 comparisons of 3 and 3 seeds with log-normal perplexities, 95% hold the ratio of medians."""
    rng = np.random.default_rng(int(100 * deviation))
    table = _Table([ComparedRun(name, "", Path(), *[None] * 4) for name in "aaabbb"], None)  # type: ignore[arg-type]
    held, n = np.zeros(2), 700
    for logs in rng.normal(4, deviation, (n, 6)) + 0.1 * (np.arange(6) > 2):
        resampled = Resampled(logs[None], np.empty((1, 0, 2)), np.zeros((1, 6)))
        of_groups, (pair,) = _as_perplexities(*table.compare(resampled, None))
        low, high = of_groups[0].over_seeds or (0, 0)
        held[0] += low <= math.exp(4) <= high
        low, high = (1 + end / of_groups[0].mean for end in pair.over_seeds or (0, 0))
        held[1] += low <= math.exp(0.1) <= high
    assert 0.93 <= held[0] / n <= 0.97
    assert 0.93 <= held[1] / n <= 0.98  # Welch's degrees of freedom: rather too wide


def test_seeds_without_any_difference_give_no_interval(tmp_path: Path) -> None:
    score = perplexities(tmp_path, {"a": (50.0, 50.0), "b": (60.0, 60.0)})
    assert [group.over_seeds for group in score.groups] == [None, None]
    assert [(pair.over_seeds, pair.p) for pair in score.pairs] == [(None, None)]


# --- perplexities that are bounds, and such as are not of one thing -----------------------------


def searched(folder: Path, model: str, beam: int | None, tree: float) -> Path:
    """Perplexities of a model: of its strings, with their trees and given these."""
    logprobs = {"marginal": -9.0 - tree, "given_tree": -8.0, "joint": -8.0 - tree}
    rows = [{"id": i, **logprobs, "words": 3, "tokens": 3} for i in range(10)]
    named = {"marginal": "marginal", "given_tree": "given_trees", "joint": "joint"}
    scores = {f"ppl_word_{named[name]}": math.exp(-value / 3) for name, value in logprobs.items()}
    kind = {"transformer": "attachments", "pushdown": "attachments"}.get(model, "actions")
    return write(
        folder,
        "ppl",
        rows,
        scores=scores,
        counts={"sentences": 10, "words": 30},
        **{"eos_counted": True, "model": model, "beam": beam, "derivations": kind},
    )


def test_a_bound_is_named_and_given_trees_are_not_compared_between_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = searched(tmp_path / "base" / "ppl", "transformer", None, 0.5)
    mine = searched(tmp_path / "mine" / "ppl", "pushdown", 10, 1.0)
    wide = searched(tmp_path / "wide" / "ppl", "pushdown", 20, 0.9)
    other = searched(tmp_path / "tg" / "ppl", "tg", 10, 2.0)
    found = compare(groups(base=[base], mine=[mine], wide=[wide], tg=[other]), samples=20)
    scores = {score.score.removeprefix("perplexity per word, "): score for score in found.scores}
    pairs = {name: {(pair.a, pair.b) for pair in score.pairs} for name, score in scores.items()}
    assert pairs["given the trees"] == {("mine", "wide")}
    assert pairs["joint"] == {("base", "mine"), ("base", "wide"), ("mine", "wide")}
    assert len(pairs["marginal"]) == 6
    bounds = {group.group: group.bound for group in scores["marginal"].groups}
    at = {10: "upper bound at beam 10", 20: "upper bound at beam 20"}
    assert bounds == {"base": None, "mine": at[10], "wide": at[20], "tg": at[10]}
    assert [group.bound for group in scores["joint"].groups] == [None] * 4
    assert scores["marginal"].notes == (BESIDE_EXACT,)
    assert {score.notes != () for score in scores.values()} == {True}
    print_compared(found)
    assert re.search(r"mine, upper bound at beam 10 +1 ", capsys.readouterr().out)

    assert run(["compare", str(tmp_path / "base"), str(tmp_path / "mine")]) == 0
    said = capsys.readouterr().out
    assert "perplexity per word, marginal (b: upper bound at beam 10)" in said
    assert re.search(r"given the trees\n? +[\d.]+ +[\d.]+ +- +- +- +-$", said, re.MULTILINE)
    assert BESIDE_EXACT in " ".join(said.split())
    folders = [str(tmp_path / name) for name in ("base", "mine", "tg")]
    assert run(["compare", *folders, "--overview"]) == 0
    said = capsys.readouterr().out
    assert "perplexity per word, marginal (mine, tg: upper bound at beam 10)" in said
    assert run(["compare", *folders[1:], "--overview"]) == 0
    assert "perplexity per word, marginal, upper bound at beam 10" in capsys.readouterr().out
    assert run(["compare", *folders, "--overview", "--latex"]) == 0
    latex = capsys.readouterr().out
    assert latex.count(r"$^\dagger$ &") + latex.count(r"$^\dagger$ \\") == 2  # the cells of two models
    assert r"\footnotesize $^\dagger$ upper bound at beam 10} \\" in latex
    assert latex.index(r"\bottomrule") < latex.index(r"\footnotesize") < latex.index(r"\end{tabular}")
    # Each bound has its mark. A column of numbers of runs is before the scores'.
    for k in (1, 2):
        searched(tmp_path / f"runs-{k}" / "ppl", "pushdown", 10, 1.0 + k)
    more = [str(tmp_path / "wide"), "--group", f"runs={tmp_path}/runs-*"]
    assert run(["compare", *folders, *more, "--overview", "--latex"]) == 0
    _, _, header, _, *rows = capsys.readouterr().out.splitlines()
    titles, marks = header[:-3].split(" & ")[1:], {"base": [], "wide": ["ddagger"]}
    for name, *cells in (row.split(" & ") for row in rows[:5]):
        found_marks = [re.findall(r"\^\\(d+agger)\$", cell) for cell in cells]
        wanted = {"perplexity per word, marginal": marks.get(name, ["dagger"])}
        assert found_marks == [wanted.get(title, []) for title in titles]
    for mark, bound in (("dagger", at[10]), ("ddagger", at[20])):
        assert rf"\footnotesize $^\{mark}$ {bound}}} \\" in "\n".join(rows)
