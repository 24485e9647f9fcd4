"""``eval-reading`` against another computation of all that it writes, with its options crossed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats

from pdtools.cli.main import run

Key = tuple[str, int]
VOCABULARY = ["Dogs", "cats", "bark,", "(very)", "don't", "loudly", "é", "often", "houses", "Ran"]
COUNTS = {"dogs": 40, "cats": 9, "bark": 3.5, "very": 80, "don't": 12, "loudly": 2, "houses": 1, "ran": 30}
COUNTS |= {"often": 7, "Often": 4}  # two spellings of a word; é has no count
SAMPLES = 300


class Corpus:
    """A corpus drawn at random, with the options to read it and what they make of it."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        flags = rng.permuted(np.resize([True, False], 12)).tolist()
        self.is_csv, self.edges, self.versions, self.numbered, self.frequent, self.fitted = flags[:6]
        self.subjects, self.renamed, self.grouped, self.odd_bounds, self.quoted, self.gap = flags[6:]
        self.grouped &= not self.versions
        self.spillover = int(rng.integers(0, 4))
        self.folds = int(rng.integers(2, 9))
        self.least, self.most = (150.0, 900.0) if self.odd_bounds else (100.0, 3000.0)
        self.texts: dict[str, list[str]] = {}
        self.first: dict[str, int] = {}
        self.sentence: dict[Key, int] = {}
        self.group: dict[str, str] = {}
        self.bits: dict[Key, tuple[float, float]] = {}
        self.rows: list[dict[str, Any]] = []
        for n in range(18):
            for condition in ("hard", "easy") if self.versions else ("hard", "easy", "filler")[n % 3 :][:1]:
                self._text(n, "filler" if self.versions and n < 9 else condition, condition)

    def _text(self, n: int, condition: str, version: str) -> None:
        rng = self.rng
        name = f"i{n} {version}" if self.versions else f"i{n}"
        length = int(rng.integers(9, 15))
        ends = set(rng.choice(np.arange(3, length - 2), 2, replace=False).tolist())
        words = [str(word) for word in rng.choice(VOCABULARY, length)]
        if not self.numbered:  # punctuation ends sentences, and nothing else does
            words = [
                word.rstrip(",") + ("." if i in ends or i == length - 1 else "")
                for i, word in enumerate(words)
            ]
            words = [word.title() if i - 1 in ends else word for i, word in enumerate(words)]
        self.texts[name], self.first[name] = words, int(rng.integers(0, 3))
        self.group[name] = f"i{n}" if self.versions else f"g{n // 2}" if self.grouped else ""
        for i, word in enumerate(words):
            key = (name, self.first[name] + i)
            self.sentence[key] = sum(end < i for end in ends)
            a, b = rng.gamma(2, 3, 2).round(3)
            self.bits[key] = (math.nan if rng.random() < 0.02 else a, math.inf if rng.random() < 0.02 else b)
            for subject in range(4) if self.subjects else range(1):
                time = 250 + 8 * a + 3 * len(word) + 20 * subject + rng.normal() * 60
                time = [time, 99.9, self.least, self.most, 4000.0][rng.choice(5, p=[0.92, *[0.02] * 4])]
                self.rows.append(
                    {
                        "item": f"i{n}",
                        "version": version,
                        "word_number": f"{key[1]}.0" if self.renamed else str(key[1]),
                        "word": word,
                        "subject": f"s{subject}",
                        "time": str(rng.choice(["", "NA", "."])) if rng.random() < 0.06 else f"{time:.4f}",
                        "sentence": f"S{self.sentence[key]}",
                        "condition": condition,
                        "roi": str(i - 4) if 4 <= i <= 6 and condition != "filler" else "",
                        "group": self.group[name],
                        "a b": "" if math.isnan(self.bits[key][0]) else str(self.bits[key][0]),
                        "b": str(self.bits[key][1]),
                        "note": 'say "hi"' if self.quoted and self.is_csv else f"n{subject}",
                        "key": key,
                    }
                )

    def write(self, folder: Path) -> list[str]:
        """Write the table; returns the command."""
        names = [name for name in self.rows[0] if name != "key"]
        names.remove("sentence") if not self.numbered else None
        names.remove("subject") if not self.subjects else None
        names = [str(name) for name in self.rng.permutation(names)]
        new = {"time": "RT", "word": "shown", "condition": "kind"} if self.renamed else {}
        file = folder / ("times.csv" if self.is_csv else "times.tsv")
        rows = list(self.rows)
        if self.gap:  # nobody has a row of these words: --texts has them
            gone = {(name, self.first[name] + 3) for name in list(self.texts)[:4]}
            rows = [row for row in rows if row["key"] not in gone]
        self.kept_rows = rows
        frame = pandas.DataFrame(rows)[names].rename(columns=new)
        frame.to_csv(file, index=False, sep="," if self.is_csv else "\t")
        command = ["eval-reading", str(file), "--samples", str(SAMPLES), "--folds", str(self.folds)]
        command += ["--spillover", str(self.spillover), "--column", "surprisal=a b,b", "--quiet"]
        command += ["--min-time", str(self.least), "--max-time", str(self.most)] * self.odd_bounds
        command += ["--edges"] * self.edges + ["--column", "group=group"] * self.grouped
        command += [x for role, name in new.items() for x in ("--column", f"{role}={name}")]
        command += ["--column", "item=item+version"] * self.versions
        if self.gap:
            words = [name for name in ("item", "version", "word_number", "word", "sentence") if name in names]
            words += ["group"] * self.grouped
            every = pandas.DataFrame(self.rows)[words].drop_duplicates().rename(columns=new)
            every.to_csv(folder / "texts.tsv", index=False, sep="\t")
            command += ["--texts", str(folder / "texts.tsv")]
        if self.frequent:
            counts = "".join(f"{word}\t{count}\n" for word, count in COUNTS.items())
            (folder / "counts.tsv").write_text("word\tcount\n" + counts)
            command += ["--frequencies", str(folder / "counts.tsv")]
        if self.fitted:
            command += ["--fit", "filler", "--predict", "hard,easy"]
        return command

    # --- another computation ------------------------------------------------------------------

    def compute(self) -> pandas.DataFrame:
        """A row per word with all values, in the order of the table's items."""
        total = math.log2(sum(COUNTS.values()))
        known = {}
        for word, count in COUNTS.items():
            known[word.lower()] = known.get(word.lower(), 0) + count
        taken: dict[Key, list[float]] = {}
        for row in self.kept_rows:
            if (time := self.time(row)) is not None and (not self.fitted or row["condition"] == "filler"):
                taken.setdefault(row["key"], []).append(time)
        there = {row["key"] for row in self.kept_rows}
        table = []
        for name, words in self.texts.items():
            for i, word in enumerate(words):
                key = (name, self.first[name] + i)
                times = taken.get(key, [])
                count = known.get(word.strip("(),.").lower())
                beside = [self.sentence.get((name, key[1] + step)) for step in (-1, 1)]
                a, b = self.bits[key] if key in there else (math.nan, math.nan)  # also if nobody has a time
                excluded = None
                if not times:
                    excluded = "no reading time"
                elif not self.edges and any(each != self.sentence[key] for each in beside):
                    excluded = "first or last word of its sentence"
                elif self.frequent and count is None:
                    excluded = "no frequency"
                elif math.isinf(b):
                    excluded = "b: infinite surprisal"
                table.append(
                    {
                        "item": name,
                        "word_number": key[1],
                        "word": word,
                        "sentence": self.sentence[key] + 1,
                        "time": np.mean(times) if times else math.nan,
                        "subjects": len(times),
                        "length": float(len(word)),
                        "log_frequency": math.nan if count is None else math.log2(count) - total,
                        "surprisal_a_b": a,
                        "surprisal_b": math.nan if math.isinf(b) else b,
                        "excluded": excluded,
                        "group": self.group[name] or name,
                    }
                )
        frame = pandas.DataFrame(table)
        self.base = ["length"] + ["log_frequency"] * self.frequent
        own = ["surprisal_a_b", "surprisal_b"]
        for column in [*self.base, *own]:
            for lag in range(1, self.spillover + 1):
                frame[f"{column}_before_{lag}"] = frame.groupby("item", sort=False)[column].shift(lag)
        every = [self.columns(name) for name in (*self.base, *own)]
        lacking = frame[list(itertools.chain(*every))].isna().any(axis=1) & frame.excluded.isna()
        frame.loc[lacking, "excluded"] = "the words before it have no values"
        return frame

    def time(self, row: dict[str, Any]) -> float | None:
        if row["time"] in ("", "NA", ".") or not self.least <= float(row["time"]) <= self.most:
            return None
        return float(row["time"])

    def columns(self, name: str) -> list[str]:
        return [name, *(f"{name}_before_{lag}" for lag in range(1, self.spillover + 1))]


def design(frame: pandas.DataFrame, corpus: Corpus, *own: str) -> np.ndarray:
    names = [column for name in (*corpus.base, *own) for column in corpus.columns(name)]
    return np.column_stack([np.ones(len(frame)), frame[names]])


def densities(x: np.ndarray, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    found = np.empty(len(y))
    for fold in set(folds):
        out = folds == fold
        beta = np.linalg.lstsq(x[~out], y[~out], rcond=None)[0]
        noise = np.sqrt(np.mean((y[~out] - x[~out] @ beta) ** 2))
        found[out] = scipy.stats.norm.logpdf(y[out], x[out] @ beta, noise)
    return found


def error_for_new(
    x: np.ndarray, kept: pandas.DataFrame, readings: pandas.DataFrame, corpus: Corpus
) -> tuple[float, int]:
    """The error of a sum of slopes for other items and subjects, with each left out in turn."""

    def summed(rows: np.ndarray, times: np.ndarray) -> float:
        return float(np.linalg.lstsq(x[rows], times[rows], rcond=None)[0][-1 - corpus.spillover :].sum())

    def variance(changed: list[float]) -> float:
        return (len(changed) - 1) / len(changed) * sum((each - value) ** 2 for each in changed)

    times, group, every = kept.time.to_numpy(), kept.group.to_numpy(), np.ones(len(kept), bool)
    value = summed(every, times)
    by_item = [summed(group != name, times) for name in set(group)]
    if not corpus.subjects:
        return math.sqrt(variance(by_item)), len(by_item) - 1
    readings = readings.assign(time=readings.time.astype(float))
    by_subject = []
    for subject in set(readings.subject):
        others = readings[readings.subject != subject].groupby("key").time.mean()
        mean = [others.get(key, default) for key, default in zip(kept.index, times, strict=True)]
        by_subject.append(summed(every, np.array(mean)))
    weights = np.zeros(x.shape[1])
    weights[-1 - corpus.spillover :] = 1
    residuals = times - x @ np.linalg.lstsq(x, times, rcond=None)[0]
    noise = weights @ np.linalg.inv(x.T @ x) @ weights * (residuals**2).sum() / (len(x) - x.shape[1])
    both = variance(by_item), variance(by_subject)
    return math.sqrt(max(*both, sum(both) - noise)), min(len(by_item), len(by_subject)) - 1


@pytest.mark.parametrize("seed", range(8))
def test_everything_that_is_written(seed: int, tmp_path: Path) -> None:
    corpus = Corpus(seed)
    out, as_table = tmp_path / "r", tmp_path / ("o.csv" if seed % 2 else "o.tsv")
    assert run([*corpus.write(tmp_path), "-o", str(out), "--table", str(as_table)]) == 0
    results = json.loads((out / "results.json").read_text())
    items = pandas.read_parquet(out / "items.parquet")
    expected = corpus.compute()

    # Each word, and the reason why it is not regressed.
    expected = expected.set_index(["item", "word_number"])
    items = items.set_index(["item", "word_number"])
    assert sorted(items.index) == sorted(expected.index)
    expected = expected.loc[items.index]
    assert items.word.tolist() == expected.word.tolist()
    assert items.sentence.tolist() == expected.sentence.tolist()
    assert items.excluded.fillna("").tolist() == expected.excluded.fillna("").tolist()
    for name in ("time", *corpus.base, "surprisal_a_b", "surprisal_b"):
        np.testing.assert_allclose(items[name], expected[name], err_msg=name)
    assert ("log_frequency" in items) == corpus.frequent
    if corpus.subjects:
        assert items.subjects.tolist() == expected.subjects.tolist()
    else:
        assert items.subjects.isna().all()

    # Folds are of whole groups, equally many; held-out densities are those of a fit without them.
    kept = expected[expected.excluded.isna()].copy()
    kept["fold"] = items.fold[items.excluded.isna()].astype(int)
    assert items.fold[items.excluded.notna()].isna().all()
    folds = kept.groupby("group").fold.unique()
    n_folds = min(corpus.folds, len(folds))
    assert all(len(each) == 1 for each in folds)
    sizes = folds.map(lambda each: each[0]).value_counts()
    assert sorted(sizes.index) == list(range(n_folds))
    assert sizes.max() - sizes.min() <= 1
    y, at = kept.time.to_numpy(), kept.fold.to_numpy()
    logprobs = {"baseline": densities(design(kept, corpus), y, at)}
    for name, column in (("a b", "surprisal_a_b"), ("b", "surprisal_b")):
        logprobs[name] = densities(design(kept, corpus, column), y, at)
    own = items[items.excluded.isna()]
    for name, column in (("baseline", "baseline"), ("a b", "a_b"), ("b", "b")):
        np.testing.assert_allclose(own[f"logprob_{column}"], logprobs[name], rtol=1e-6)
        assert items[f"logprob_{column}"][items.excluded.notna()].isna().all()

    # Scores, their tests over groups and over words, and coefficients.
    scores = results["scores"]
    assert scores["baseline_logprob"] == pytest.approx(logprobs["baseline"].mean())
    differences = {
        name: (logprobs[name] - logprobs["baseline"], scores["by_model"][name]) for name in ("a b", "b")
    }
    ((pair),) = scores["pairs"]
    assert (pair["a"], pair["b"]) == ("a b", "b")
    tested = [*differences.values(), (logprobs["b"] - logprobs["a b"], pair)]
    for values, found in tested:
        value = found["difference"] if "difference" in found else found["delta_ll"]
        assert value == pytest.approx(values.mean(), abs=1e-9)
        sums = pandas.DataFrame({"sum": values, "n": 1}).groupby(kept.group.to_numpy()).sum().to_numpy()
        drawn = np.random.default_rng(1).integers(0, len(sums), (4000, len(sums)))
        totals = sums[drawn].sum(1)
        low, high = np.quantile(totals[:, 0] / totals[:, 1], [0.025, 0.975])
        assert found["low"] == pytest.approx(low, abs=0.2 * (high - low))
        assert found["high"] == pytest.approx(high, abs=0.2 * (high - low))
        signs = np.random.default_rng(2).choice([-1, 1], (4000, len(sums)))
        for what, p in (("p", signs @ sums[:, 0]), ("p_observations", None)):
            if p is None:
                p = np.random.default_rng(3).choice([-1, 1], (4000, len(values))) @ values
            share = float(np.mean(np.abs(p) >= abs(values.sum())))
            assert found[what] == pytest.approx(
                share, abs=0.06 + 3.5 * math.sqrt(share * (1 - share) / SAMPLES)
            )
    for name, column in (("a b", "surprisal_a_b"), ("b", "surprisal_b")):
        x = design(kept, corpus, column)
        beta, _, _, _ = np.linalg.lstsq(x, y, rcond=None)
        freedom = len(y) - x.shape[1]
        covariance = np.linalg.inv(x.T @ x) * ((y - x @ beta) ** 2).sum() / freedom
        places = range(x.shape[1] - corpus.spillover - 1, x.shape[1])
        weights = [np.eye(x.shape[1])[list(places)].sum(0), *np.eye(x.shape[1])[list(places)]]
        found = scores["by_model"][name]["coefficients"]["surprisal"]
        for weight, each in zip(weights, [found["sum"], *found["by_word_before"]], strict=True):
            value, error = weight @ beta, math.sqrt(weight @ covariance @ weight)
            reach = scipy.stats.t.ppf(0.975, freedom) * error
            p = 2 * scipy.stats.t.sf(abs(value / error), freedom)
            assert [each[key] for key in ("value", "error", "low", "high", "p")] == pytest.approx(
                [value, error, value - reach, value + reach, p], rel=1e-6, abs=1e-9
            )

    # Counts and settings.
    every = corpus.kept_rows
    timed = [row for row in every if row["time"] not in ("", "NA", ".")]
    plausible = [row for row in timed if corpus.time(row) is not None]
    left_out = {
        "no time": len(every) - len(timed),
        f"below {corpus.least:g} ms": sum(float(row["time"]) < corpus.least for row in timed),
        f"above {corpus.most:g} ms": sum(float(row["time"]) > corpus.most for row in timed),
    }
    if corpus.fitted:
        left_out["not to be fitted"] = sum(row["condition"] != "filler" for row in plausible)
    used = [
        row
        for row in plausible
        if (not corpus.fitted or row["condition"] == "filler") and row["key"] in set(kept.index)
    ]
    readings = pandas.DataFrame(used)
    for name, column in (("a b", "surprisal_a_b"), ("b", "surprisal_b")):
        found = scores["by_model"][name]["coefficients"]["surprisal"]
        expected_error, freedom = error_for_new(design(kept, corpus, column), kept, readings, corpus)
        assert found["sum"]["for_new"]["value"] == pytest.approx(found["sum"]["value"])
        assert found["sum"]["for_new"]["error"] == pytest.approx(expected_error, rel=1e-6)
        reach = found["sum"]["for_new"]["high"] - found["sum"]["value"]
        assert reach == pytest.approx(scipy.stats.t.ppf(0.975, freedom) * expected_error, rel=1e-6)
    counts = results["counts"]
    assert counts == {
        "observations": len(every),
        "observations_left_out": left_out,
        "items": len(corpus.texts),
        "groups": expected.group.nunique(),
        "subjects": 4 if corpus.subjects else None,
        "words": len(expected),
        "words_regressed": len(kept),
        "observations_regressed": len(used),
        "words_left_out": expected.excluded.value_counts().to_dict(),
        "sentences": 3 * len(corpus.texts),
    }
    settings = results["settings"]
    assert (settings["spillover"], settings["folds"], settings["edges"]) == (
        corpus.spillover,
        n_folds,
        corpus.edges,
    )
    assert settings["sentence_ends"] == ("sentence" if corpus.numbered else "punctuation")
    contrast = {"more": "hard", "less": "easy"}
    wanted: dict[str, Any] = {"least": corpus.least, "most": corpus.most, "samples": SAMPLES, "seed": 0}
    wanted |= {"fit": "filler", "predict": [contrast]} if corpus.fitted else {"fit": None, "predict": []}
    wanted["frequency"] = str(tmp_path / "counts.tsv") if corpus.frequent else None
    wanted |= {"predictors": ["surprisal"], "baseline": corpus.base}
    assert {name: settings[name] for name in wanted} == wanted

    # Observations: each time with the values of its word, and the table's other columns.
    observations = pandas.read_parquet(out / "observations.parquet")
    assert len(observations) == len(used)
    for at_row, (row, (_, found)) in enumerate(zip(used, observations.iterrows(), strict=True)):
        word = kept.loc[row["key"]]
        assert (found["item"], found.word_number, found.word) == (*row["key"], row["word"])
        assert found.time == float(row["time"])
        assert found.note == row["note"]
        assert not corpus.subjects or found.subject == row["subject"]
        if corpus.versions or corpus.grouped:
            assert found.item_group == word.group
        names = [x for name in (*corpus.base, "surprisal_a_b", "surprisal_b") for x in corpus.columns(name)]
        if at_row % 7 == 0:
            np.testing.assert_allclose(found[names].astype(float), word[names].astype(float))
    read = pandas.read_csv(as_table, sep="," if seed % 2 else "\t", keep_default_na=False, dtype=str)
    assert read.columns.tolist() == observations.columns.tolist()
    for name in read:
        assert read[name].tolist() == observations[name].astype(str).tolist(), name

    if not corpus.fitted:
        assert "effects" not in scores
        return
    # Effects: differences between means of times, and of predictions from the fit to the fillers.
    by_key = expected.groupby(level=[0, 1]).first()
    for each in scores["effects"]:
        column = {"a b": "surprisal_a_b", "b": "surprisal_b"}[each["model"]]
        names = [x for name in (*corpus.base, column) for x in corpus.columns(name)]
        others = [x for name in (*corpus.base, "surprisal_a_b", "surprisal_b") for x in corpus.columns(name)]
        at_place = [row for row in plausible if row["roi"] == str(each["roi"])]
        known = [row for row in at_place if not by_key.loc[row["key"], others].isna().any()]
        sides = [[row for row in known if row["condition"] == name] for name in ("hard", "easy")]
        means = [np.mean([float(row["time"]) for row in side]) for side in sides]
        x = [by_key.loc[[row["key"] for row in side], names].to_numpy(float).mean(0) for side in sides]
        beta = np.linalg.lstsq(design(kept, corpus, column), y, rcond=None)[0]
        assert each["contrast"] == "hard − easy"
        assert each["human"]["value"] == pytest.approx(means[0] - means[1])
        assert each["predicted"]["value"] == pytest.approx(float((x[0] - x[1]) @ beta[1:]), abs=1e-6)
        place = names.index(column)
        assert each["bits"] == pytest.approx([x[0][place], x[1][place]])
        assert each["observations"] == len(sides[0]) + len(sides[1])
        assert each["observations_left_out"] == len(at_place) - len(known)
        groups = {by_key.loc[row["key"], "group"] for side in sides for row in side}
        assert each["groups"] == len(groups)
        for what in ("human", "predicted"):
            assert each[what]["low"] < each[what]["value"] < each[what]["high"]
