"""Answers of two models, and of many: by counting, by pandas, and one way beside the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.classification.record import AnswerRanks, AnswerSums
from pdtools.evaluation.comparison.compare import ComparedModels, compare
from pdtools.evaluation.comparison.engine import ComparedScore, PairDifference
from pdtools.evaluation.comparison.groups import Group, by_seed, each_alone, find_models
from pdtools.evaluation.comparison.statistics import mcnemar
from pdtools.evaluation.results import ITEMS, Results, write_results
from pdtools.prompts.tasks import accuracy as accuracy_of
from pdtools.prompts.tasks import f1 as f1_of
from pdtools.prompts.tasks import pearson, spearman

N, SAMPLES = 60, 1000
MODELS = ("a", "b", "c")


def write(folder: Path, scores: dict[str, float], items: pd.DataFrame, **settings: Any) -> None:
    described = {"task": "classify", "prompt_task": "toy", **settings}
    counts = {"items": len(items), "items_labelled": int(items.iloc[:, 1].notna().sum())}
    table = pa.Table.from_pandas(items, preserve_index=False)
    results = Results(scores=dict(scores), counts=counts, settings=described, tables={ITEMS: table})
    write_results(folder, results, {"inputs": {}})


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    """Three models' answers no and yes, ties (None) among them; the last item has no label."""
    rng = np.random.default_rng(0)
    gold = [*rng.choice(["no", "yes"], N - 1).tolist(), None]
    found = {}
    folder = tmp_path_factory.mktemp("labels")
    for name, share in zip(MODELS, (0.5, 0.3, 0.1), strict=True):
        guess = [str(rng.choice(["no", "yes"])) if rng.random() < share else g for g in gold]
        guess[int(rng.integers(N - 1))] = None
        items = pd.DataFrame({"item": [f"i{i}" for i in range(N)], "label": gold, "predicted": guess})
        own = items.label.notna()
        right = (items.label == items.predicted)[own]
        both = ((items.label == "yes") & (items.predicted == "yes")).sum()
        f1 = 2 * both / ((items.label == "yes").sum() + (items.predicted == "yes")[own].sum())
        scores = {"f1": float(f1), "accuracy": float(right.mean())}
        write(folder / name / "toy", scores, items, metric="f1", positive="yes")
        items.attrs |= {"folder": str(folder / name / "toy"), **scores}
        found[name] = items
    return found


def groups_of(folder: Path) -> list[Group]:
    return by_seed([model for name in MODELS for model in find_models(folder / name)])


def score_of(found: ComparedModels, name: str) -> ComparedScore:
    (score,) = (score for score in found.scores if score.score == f"toy, {name} (%)")
    return score


def scores_of_two(a: str | Path, b: str | Path, samples: int = SAMPLES) -> dict[str, ComparedScore]:
    """The scores of two results, by their names without the task's."""
    found = compare(each_alone([a, b]), samples=samples).scores
    return {score.score.partition(", ")[2].removesuffix(" (%)"): score for score in found}


def same_as_drawn(
    pair: PairDifference,
    score: Callable[..., float | None],
    gold: NDArray[Any],
    a: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """A difference has the interval and p of samples that are drawn one by one, within their errors."""
    rng, more = np.random.default_rng(7), 4 * SAMPLES
    drawn = (rng.integers(len(gold), size=len(gold)) for _ in range(more))
    differences = np.array([100 * (score(gold[i], b[i]) - score(gold[i], a[i])) for i in drawn])
    assert pair.difference == pytest.approx(100 * (score(gold, b) - score(gold, a)))
    # The error of a quantile q of S samples is √(q (1 − q) / S) over the density there, of a normal here.
    error = 3 * 1.25**0.5 * (0.025 * 0.975 / SAMPLES) ** 0.5 / 0.0584 * differences.std()
    assert pair.over_items == pytest.approx(np.quantile(differences, [0.025, 0.975]), abs=error + 100 / N)
    if pair.test == "paired bootstrap":
        share = min((differences <= 0).mean(), (differences >= 0).mean())
        error = 3 * 2 * (1.25 * max(share, 1 / more) / SAMPLES) ** 0.5
        assert pair.p == pytest.approx(2 * share, abs=error + 2 / SAMPLES)


def test_answers_of_many_models(labels: dict[str, pd.DataFrame]) -> None:
    found = compare(groups_of(Path(labels["a"].attrs["folder"]).parents[1]), samples=SAMPLES)
    accuracy, f1 = score_of(found, "accuracy"), score_of(found, "F1")
    for score, name in ((accuracy, "accuracy"), (f1, "f1")):
        assert score.items == N - 1
        assert not score.lower_is_better
        for group in score.groups:
            assert group.mean == pytest.approx(100 * labels[group.group].attrs[name])
            assert group.over_items is not None
            assert group.over_items[0] < group.mean < group.over_items[1]
    pairs = zip(accuracy.pairs, f1.pairs, strict=True)
    for of_accuracy, of_f1 in pairs:
        a, b = labels[of_accuracy.a], labels[of_accuracy.b]
        one, other = (each.predicted == each.label for each in (a, b))
        only = int((one & ~other)[: N - 1].sum()), int((other & ~one)[: N - 1].sum())
        assert (of_accuracy.only_a, of_accuracy.only_b) == only
        assert of_accuracy.p == mcnemar(*only)
        assert of_f1.test == "paired bootstrap"
        gold, *answers = (
            np.array([{"no": 0, "yes": 1}.get(x, -1) for x in column[: N - 1]])
            for column in (a.label, a.predicted, b.predicted)
        )
        same_as_drawn(of_accuracy, accuracy_of, gold, *answers)
        same_as_drawn(of_f1, f1_of, gold, *answers)
        # Two alone: the task's own score first.
        two = scores_of_two(a.attrs["folder"], b.attrs["folder"], samples=SAMPLES)
        assert list(two) == ["F1", "accuracy"]
        for (name, score), pair in zip(two.items(), (of_f1, of_accuracy), strict=True):
            assert [each.mean / 100 for each in score.groups] == pytest.approx(
                [of.attrs[name.lower()] for of in (a, b)]
            )
            assert score.items == N - 1
            assert score.pairs[0].over_items == pytest.approx(pair.over_items, abs=3)
        assert two["accuracy"].pairs[0].p == mcnemar(*only)


@pytest.mark.parametrize("constant", [5.1, 0.1, 1 / 3, 2.5])
@pytest.mark.parametrize("which", ["target", "predicted"])
def test_moments_of_numbers_that_do_not_vary_have_no_correlation(constant: float, which: str) -> None:
    rng = np.random.default_rng(2)
    vary = rng.uniform(0, 5, 50)
    columns = {"target": vary, "predicted": vary + rng.normal(size=50), which: np.full(50, constant)}
    table = pa.table({"item": [str(i) for i in range(50)], **columns})
    pearson = AnswerSums(name="pearson", positive=None)
    sums = np.array([*pearson.read(table, "there").values()])
    drawn = rng.multinomial(50, np.full(50, 1 / 50), size=200) @ sums
    assert np.isnan(pearson.score(drawn)).all()
    # Nor does one item, drawn as often as there are items.
    table = table.set_column(table.column_names.index(which), which, [rng.uniform(0, 5, 50)])
    sums = np.array([*pearson.read(table, "there").values()])
    assert np.isnan(pearson.score(50 * np.eye(50) @ sums)).all()
    # All but one item: samples without that one do not vary either, whatever it is.
    values = np.where(np.arange(50) == 7, 0.1, constant)
    table = table.set_column(table.column_names.index(which), which, [values])
    sums = np.array([*pearson.read(table, "there").values()])
    counts = rng.multinomial(50, np.full(50, 1 / 50), size=200)
    scores = pearson.score(counts @ sums)
    assert np.isnan(scores[counts[:, 7] == 0]).all()
    if constant != 0.1:
        assert np.isfinite(scores[counts[:, 7] > 0]).all()


@pytest.mark.parametrize("spread", [1e-6, 1, 1e6])
def test_moments_of_numbers_far_from_0(spread: float) -> None:
    """A model may have learnt next to nothing but the mean."""
    rng = np.random.default_rng(3)
    target = rng.uniform(0, 5, 50)
    predicted = 2.5 + spread * (target + rng.normal(size=50))
    table = pa.table({"item": [str(i) for i in range(50)], "target": target, "predicted": predicted})
    pearson = AnswerSums(name="pearson", positive=None)
    sums = sum(np.array(each) for each in pearson.read(table, "there").values())
    assert pearson.score(sums) == pytest.approx(
        100 * np.corrcoef(target, predicted)[0, 1], rel=2e-6, abs=1e-6
    )


def test_numbers_of_many_models(tmp_path: Path) -> None:
    """Pearson's r is one of sums; a correlation of ranks is not."""
    rng = np.random.default_rng(1)
    gold = rng.uniform(0, 5, N)
    frames = {}
    for name, noise in zip(MODELS, (4, 1, 0.5), strict=True):
        items = pd.DataFrame(
            {
                "item": [str(i) for i in range(N)],
                "target": gold,
                "predicted": gold + noise * rng.normal(size=N),
            }
        )
        scores = {"spearman": items.target.rank().corr(items.predicted.rank())}
        scores["pearson"] = items.target.corr(items.predicted)
        write(tmp_path / name / "toy", scores, items, metric="spearman")
        frames[name] = items
    found = compare(groups_of(tmp_path), samples=SAMPLES)
    ranks, numbers = score_of(found, "Spearman's ρ"), score_of(found, "Pearson's r")
    for found_of, score, method in ((ranks, spearman, "spearman"), (numbers, pearson, "pearson")):
        assert found_of.items == N
        for group in found_of.groups:
            of = frames[group.group]
            assert group.mean == pytest.approx(100 * of.target.corr(of.predicted, method=method))
        for pair in found_of.pairs:
            same_as_drawn(pair, score, gold, *(np.array(frames[name].predicted) for name in (pair.a, pair.b)))
    two = scores_of_two(tmp_path / "a" / "toy", tmp_path / "b" / "toy")
    assert list(two) == ["Spearman's ρ", "Pearson's r"]
    assert {each.pairs[0].only_a for each in two.values()} == {None}


@given(st.data())
def test_ranks_of_samples(data: st.DataObject) -> None:
    """Spearman's correlation of items that are drawn several times is that of the items, written out."""
    n = data.draw(st.integers(1, 8))
    numbers = data.draw(arrays(np.float64, (n, 2, 2), elements=st.sampled_from([0.1, 0.5, 1 / 3, 2.0])))
    times = data.draw(arrays(np.int64, (3, n), elements=st.integers(0, 3)).filter(lambda t: t.sum(1).all()))
    found = AnswerRanks().statistic(numbers, times)
    for sample, of_sample in zip(times, found, strict=True):
        drawn = np.repeat(numbers, sample, axis=0)
        wanted = [spearman(*drawn[:, run].T) for run in (0, 1)]
        percent = [math.nan if score is None else 100 * score for score in wanted]
        assert of_sample == pytest.approx(percent, abs=1e-9, nan_ok=True)
    whole = AnswerRanks().statistic(numbers, None)
    assert whole == pytest.approx(AnswerRanks().statistic(numbers, np.ones((1, n), np.int64)), nan_ok=True)


def test_other_labels_are_refused(labels: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    items = labels["a"].copy()
    items.loc[[3, 5, 8], "label"] = "maybe"  # the first is named
    write(tmp_path / "x", {"f1": 0.0, "accuracy": 0.0}, items, metric="f1", positive="yes")
    with pytest.raises(PdtoolsError, match="item i3 is not the same in both"):
        scores_of_two(labels["b"].attrs["folder"], tmp_path / "x")


def test_answers_to_the_items_that_both_have_by_hand(tmp_path: Path) -> None:
    """Each has an item that the other lacks; labels that one alone gives are wrong, and no other."""
    gold = {"p": "yes", "q": "no", "r": "yes", "s": "no", "t": "yes"}
    found = {
        "a": {"only a": "yes", "p": "maybe", "q": "no", "r": "maybe", "s": "no", "t": "yes"},
        "b": {"t": None, "s": "no", "r": "yes", "q": "no", "p": "yes", "only b": "no"},
        "c": {"t": "yes", "s": "perhaps", "r": "yes", "q": "yes", "p": "yes"},
    }
    for name, guesses in found.items():
        rows = [(item, gold.get(item, "yes"), guess) for item, guess in guesses.items()]
        items = pd.DataFrame(rows, columns=["item", "label", "predicted"])
        write(tmp_path / name, {"f1": 0.0, "accuracy": 0.0}, items, metric="f1", positive="yes")
    scores = {  # accuracy, F1 of yes: 2 TP / (2 TP + FP + FN), and right where the other is wrong
        ("a", "b"): ((3 / 5, 4 / 5), (2 / 4, 4 / 5), (1, 2)),
        ("b", "a"): ((4 / 5, 3 / 5), (4 / 5, 2 / 4), (2, 1)),
        ("b", "c"): ((4 / 5, 3 / 5), (4 / 5, 6 / 7), (2, 1)),
        ("c", "a"): ((3 / 5, 3 / 5), (6 / 7, 2 / 4), (2, 2)),
    }
    for (one, other), (accuracy, f1, only) in scores.items():
        of = scores_of_two(tmp_path / one, tmp_path / other, samples=200)
        assert list(of) == ["F1", "accuracy"]
        for name, expected in (("F1", f1), ("accuracy", accuracy)):
            assert [each.mean / 100 for each in of[name].groups] == pytest.approx(expected)
            assert of[name].items == 5
        assert of["F1"].pairs[0].p is None  # by a bootstrap of five items
        (pair,) = of["accuracy"].pairs
        assert (pair.only_a, pair.only_b, pair.p) == (*only, 1.0)


def test_samples_in_which_a_score_is_not_defined_are_excluded(tmp_path: Path) -> None:
    """F1 of yes is 1 and 0 in every sample that has a yes."""
    for name, guess in (("a", "no"), ("b", "yes")):
        rows = [("p", "yes", guess), *((f"q{i}", "no", "no") for i in range(9))]
        items = pd.DataFrame(rows, columns=["item", "label", "predicted"])
        write(tmp_path / name, {"f1": 0.0, "accuracy": 0.0}, items, metric="f1", positive="yes")
    f1 = scores_of_two(tmp_path / "a", tmp_path / "b", samples=200)["F1"]
    assert [each.mean for each in f1.groups] == [0, 100]
    assert f1.pairs[0].over_items == (100, 100)


def test_answers_of_other_metrics_or_of_no_item_in_common(tmp_path: Path) -> None:
    columns = ["item", "label", "predicted"]
    one = pd.DataFrame([("p", "yes", "yes")], columns=columns)
    write(tmp_path / "f1", {"f1": 1.0, "accuracy": 1.0}, one, metric="f1", positive="yes")
    write(tmp_path / "accuracy", {"accuracy": 1.0}, one, metric="accuracy")
    other = pd.DataFrame([("q", "yes", "yes")], columns=columns)
    write(tmp_path / "other", {"f1": 1.0, "accuracy": 1.0}, other, metric="f1", positive="yes")
    for a, b in (("f1", "accuracy"), ("accuracy", "f1")):
        assert list(scores_of_two(tmp_path / a, tmp_path / b)) == ["accuracy"]
    with pytest.raises(PdtoolsError, match="/f1 and .*/other have no items in common"):
        scores_of_two(tmp_path / "f1", tmp_path / "other")


def test_a_score_that_one_model_alone_has_is_not_compared(tmp_path: Path) -> None:
    rows = pd.DataFrame({"item": ["p", "q"], "target": [1.0, 2.0], "predicted": [1.0, 3.0]})
    for name, value in (("a", 0.5), ("b", None)):
        write(tmp_path / name / "toy", {"spearman": 0.5, "pearson": value}, rows, metric="spearman")
    found = compare([Group(name=n, models=tuple(find_models(tmp_path / n))) for n in "ab"], samples=50)
    assert [score.score for score in found.scores] == ["toy, Spearman's ρ (%)"]


def test_a_score_that_is_not_defined_for_common_items_is_excluded(tmp_path: Path) -> None:
    """No item with a label in both is positive: there is an accuracy, and no F1."""
    for name, own in zip(MODELS, (0, 1, 1), strict=True):
        guess = ["no", "no", "yes", "yes"]
        gold = [*guess[:2], *(["yes", None], [None, "yes"])[own]]
        items = pd.DataFrame({"item": ["1", "2", "3", "4"], "label": gold, "predicted": guess})
        write(tmp_path / name / "toy", {"f1": 1.0, "accuracy": 1.0}, items, metric="f1", positive="yes")
    two = scores_of_two(tmp_path / "a/toy", tmp_path / "b/toy", samples=100)
    assert [(name, each.items, each.groups[0].mean) for name, each in two.items()] == [("accuracy", 2, 100)]
    many = compare(groups_of(tmp_path), samples=100)
    assert [score.score for score in many.scores] == ["toy, accuracy (%)"]
    said = "toy, F1 (%): not defined for the items that all have"
    assert many.notes == {"toy": ("only the 2 of 3 items that all could score", said)}
