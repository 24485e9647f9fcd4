"""The scripts of the question's study: folds, choices, margins and their intervals."""

from __future__ import annotations

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import nltk
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from shell import Shell
from shell import script as load_script

from pdtools.evaluation.results import ITEMS, Results, write_results

STUDY = Path(__file__).resolve().parents[2] / "studies" / "question"


def script(name: str) -> ModuleType:
    return load_script(STUDY / f"{name}.py")


def test_no_parser_saw_the_words_that_it_parses(tmp_path: Path) -> None:
    """Nor the same words elsewhere in the text; put together again, the parses have the treebank's words."""
    folds = script("folds")
    rng = np.random.default_rng(0)
    kinds = ("a", "b\u00a0c\u2009", "{", "-LCB-")
    words = [" ".join(kinds[i] for i in rng.integers(0, 4, rng.integers(1, 4))) for _ in range(200)]
    trees = tmp_path / "all.trees"
    trees.write_text("".join(f"(S {' '.join(f'(X {w})' for w in each.split(' '))})\n" for each in words))
    folds.split(trees, tmp_path / "folds")
    seen = 0
    for fold in range(folds.FOLDS):
        folder = tmp_path / "folds" / str(fold)
        own = folder.joinpath("words.txt").read_text().splitlines()
        trained = {folds.words_of(line) for line in folder.joinpath("train.trees").read_text().splitlines()}
        assert own
        assert not trained & set(own)
        seen += len(own)
        escaped = (each.replace("{", "-LCB-").split(" ") for each in own)
        parses = "".join(f"(T {' '.join(f'(Y {w})' for w in each)})\n" for each in escaped)
        folder.joinpath("parsed.trees").write_text(parses)
    assert seen == len(words)
    folds.join(trees, tmp_path / "folds", tmp_path / "auto.trees")
    joined = (tmp_path / "auto.trees").read_text().splitlines()
    assert list(map(folds.words_of, joined)) == words
    assert all(tree.startswith("(T (Y ") for tree in joined)  # the parses, not the trees
    other = tmp_path / "folds" / "0" / "parsed.trees"
    other.write_text("(T (Y none))\n" * len(other.read_text().splitlines()))
    with pytest.raises(ValueError, match="is a parse of other words than"):
        folds.join(trees, tmp_path / "folds", tmp_path / "auto.trees")


def test_the_choice_is_the_lowest_marginal_perplexity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, scores in (
        ("base_1e-3_1", {"ppl_word_marginal": 30.0}),
        ("base_2e-3_1", {"ppl_word_marginal": 20.0}),
        ("base-head_2e-3_0.1", {"ppl_word_marginal": 25.0}),
        # By particles where there are some: a beam's bound is no estimate.
        ("pushdown_1e-3_1", {"ppl_word_marginal": 10.0, "ppl_word_particles": 22.0}),
        ("pushdown_2e-3_0.3", {"ppl_word_marginal": 99.0, "ppl_word_particles": 21.0}),
    ):
        results = Results(scores=scores, counts={"sentences": 1}, settings={"task": "ppl"}, tables={})
        write_results(tmp_path / name / "ppl", results, {})
    (tmp_path / "base_4e-3_1" / "run").mkdir(parents=True)  # not yet ended
    monkeypatch.setattr("sys.argv", ["chosen.py", str(tmp_path), str(tmp_path / "tried.txt")])
    script("chosen").main()
    out, tried = capsys.readouterr()
    assert out.splitlines() == ["base 2e-3 1", "base-head 2e-3 0.1", "pushdown 2e-3 0.3"]
    # What was tried before, in the form that is printed, is chosen from too.
    (tmp_path / "tried.txt").write_text(f"{tried}base 8e-3 1: 19.5\n")
    monkeypatch.setattr("sys.argv", ["chosen.py", str(tmp_path / "new"), str(tmp_path / "tried.txt")])
    script("chosen").main()
    assert capsys.readouterr().out.splitlines()[0] == "base 8e-3 1"


def test_margins_are_means_of_units(tmp_path: Path) -> None:
    """Excluded suites and second predictions are left out; the scores are those of the rows, by hand."""
    margins = script("margins")
    suites = [
        *(("number_orc", "Agreement", 1, 1, 2.0, True), ("number_orc", "Agreement", 2, 1, -1.0, False)),
        *(("npz_obj", "Garden-Path Effects", 1, 1, 4.0, True), ("fgd_hierarchy", "Long", 1, 2, 9.0, True)),
        ("nn-nv-rpl", "other", 1, 1, 100.0, True),
    ]
    pairs = [
        *(("one", "binding", "0", 1, 1.0, True), ("one", "binding", "0", 2, 8.0, True)),
        ("two", "binding", "0", 1, -3.0, False),
    ]
    names = ("suite", "circuit", "item", "prediction", "margin_bits", "correct")
    tables = {
        "sg": [dict(zip(names, row, strict=True)) for row in suites],
        "blimp": [dict(zip(("paradigm", "phenomenon", *names[2:]), row, strict=True)) for row in pairs],
    }
    for passes in ("2", "7"):
        for task, rows in tables.items():
            table = {ITEMS: pa.Table.from_pylist(rows)}
            results = Results(scores={}, counts={}, settings={"task": task}, tables=table)
            write_results(tmp_path / "run" / passes / task, results, {})
    # A beam's perplexity stands beside the particles', which are meant.
    perplexity = {"ppl_word_marginal": 512.0, "ppl_word_particles": 256.0}
    write_results(
        tmp_path / "run" / "7" / "ppl",
        Results(scores=perplexity, counts={"sentences": 1}, settings={"task": "ppl"}, tables={}),
        {},
    )
    rows = margins.collect(tmp_path / "run")
    assert sorted(set(rows["passes"])) == [2, 7]
    scores = margins.scores_of(rows[rows["passes"] == 7])
    assert scores["margin sg"] == pytest.approx((0.5 + 4.0) / 2)
    assert scores["margin sg Agreement"] == 0.5
    assert scores["correct sg"] == pytest.approx((50 + 100) / 2)
    assert scores["margin blimp"] == -1.0
    assert scores["margin blimp binding"] == -1.0
    assert scores["margin ppl"] == -8.0
    of_units = margins.of_units(rows[rows["passes"] == 7])
    assert of_units == {"blimp one": 1.0, "blimp two": -3.0, "sg number_orc": 0.5, "sg npz_obj": 4.0}
    assert not any(name.startswith("correct ppl") or name.endswith(" ") for name in scores)
    # Read back from its file, too, where the perplexity has no group.
    rows.to_csv(tmp_path / "run-1.csv.gz", index=False)
    again = pd.read_csv(tmp_path / "run-1.csv.gz").query("passes == 7")
    assert margins.scores_of(again) == scores


def test_verbs_agree_with_heads_over_attractors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One noun of a tested sentence has the verb's number; in half of them it is not the first noun."""
    number = {"NN": "sg", "NNS": "pl", "VBZ": "sg", "VBP": "pl"}
    sizes = ["--words", "4000", "--held-out", "30", "--pairs", "16"]
    monkeypatch.setattr("sys.argv", ["agreement.py", str(tmp_path), *sizes])
    script("agreement").main()
    texts = [(tmp_path / f"train-{words}.trees").read_text() for words in (120, 400, 1200, 4000)]
    for text, longer in pairwise(texts):
        assert longer.startswith(text)
        assert len(longer) > len(text)
    trees = [nltk.Tree.fromstring(line) for line in texts[-1].splitlines()]
    agreeing = {True: 0, False: 0}
    # A subject's head is its first noun; that of a relative clause without a subject is the noun before it.
    for tree in trees:
        for node in tree.subtrees(lambda node: len(node) > 1):
            clause = node[1][1] if node[1].label() == "SBAR" and node.label() == "NP" else node
            if node.label() == "S" or (clause is not node and len(clause) == 1):
                head = next(tag for _, tag in node[0].pos() if tag in ("NN", "NNS"))
                said = clause[min(1, len(clause) - 1)]
                verb = next(tag for _, tag in said.pos() if tag.startswith("V"))
                assert number[head] == number[verb]
                agreeing[clause is node] += 1
    assert min(agreeing.values()) > 20
    seen = {" ".join(tree.leaves()) for tree in trees}
    held_out = {
        " ".join(nltk.Tree.fromstring(line).leaves())
        for part in ("valid", "test")
        for line in (tmp_path / f"{part}.trees").read_text().splitlines()
    }
    assert not held_out & seen
    groups = ["none", *["attractors"] * 3, *["more_attractors"] * 3]
    for attractors in range(7):
        lines = (tmp_path / "pairs" / f"attractors-{attractors}.jsonl").read_text().splitlines()
        drawn = [json.loads(line) for line in lines]
        good = [each["sentence_good"].split() for each in drawn]
        assert len({" ".join(words) for words in good}) == 16
        assert not {" ".join(words) for words in good} & (seen | held_out)
        heads, ends = [], []
        for words, pair in zip(good, drawn, strict=True):
            wrong = pair["sentence_bad"].split()
            (tested,) = (i for i, both in enumerate(zip(words, wrong, strict=True)) if both[0] != both[1])
            assert {words[tested], wrong[tested]} == {(verb := words[tested].rstrip("s")), f"{verb}s"}
            nouns = [place for place in range(tested) if words[place].startswith("n")]
            plural = [place for place in nouns if words[place].endswith("s")]
            singular = [place for place in nouns if not words[place].endswith("s")]
            # One noun before the verb has its number.
            (head,) = singular if words[tested].endswith("s") else plural
            heads.append(nouns.index(head))
            assert len(nouns) - 1 - heads[-1] == attractors
            ends.append(words[tested - 1][0])
            assert pair["linguistics_term"] == groups[attractors]
            assert len(words) <= 40
        assert heads.count(0) == heads.count(1) == 8  # below another clause
        assert sum(words[1].endswith("s") for words in good) == 8
        assert ends.count("n") == {0: 16, 1: 4}.get(attractors, 8)
        if attractors:
            twins = (tmp_path / "pairs" / f"agreeing-{attractors}.jsonl").read_text().splitlines()
            for pair, twin in zip(drawn, map(json.loads, twins), strict=True):
                # The same lemmas and the same two verbs; all nouns have the number of the right one.
                (words, wrong), (theirs, other) = (
                    (each["sentence_good"].split(), each["sentence_bad"].split()) for each in (pair, twin)
                )
                assert [word.rstrip("s") for word in words] == [word.rstrip("s") for word in theirs]
                (tested,) = (i for i in range(len(words)) if words[i] != wrong[i])
                assert (theirs[tested], other[tested]) == (words[tested], wrong[tested])
                assert [*theirs[:tested], *theirs[tested + 1 :]] == [*other[:tested], *other[tested + 1 :]]
                plurals = {word.endswith("s") for word in theirs if word.startswith("n")}
                assert plurals == {not theirs[tested].endswith("s")}
                assert twin["linguistics_term"] == groups[attractors].replace("attractors", "agreeing")


def test_tries_are_made_until_the_best_rate_has_neighbours(tmp_path: Path) -> None:
    """With a pdtools that trains nothing: a try that fails stops the choice, and is made again."""
    out, bin_folder, scripts = (tmp_path / name for name in ("out", "bin", "studies/question"))
    scripts.mkdir(parents=True)  # without the tries that have ended
    for name in ("agreement.sh", "agreement-run.sh", "chosen.py", "../common.sh"):
        shutil.copy(STUDY / name, scripts / name)
    for kind, perplexity in (("high", 9.0), ("low", 5.0)):
        scores = {"ppl_word_marginal": perplexity}
        results = Results(scores=scores, counts={"sentences": 1}, settings={"task": "ppl"}, tables={})
        write_results(tmp_path / kind, results, {})
    bin_folder.mkdir()
    stub = bin_folder / "pdtools"
    stub.write_text(
        """#!/bin/sh
        for output; do :; done
        case $1 in train) while [ "$1" != -o ]; do shift; done; mkdir -p "$2"; exit ;; esac
        case $output in *$FAILS*) exit 1 ;; esac
        kind=high
        case $output in *base_1.6e-2_0.1* | *base-head_8e-3_1* | *pushdown_4e-3_0.3*) kind=low ;; esac
        cp -r "$RESULTS/$kind" "$output"
        """
    )
    stub.chmod(0o755)

    def tuned(fails: str) -> int:
        shell = Shell(tmp_path, STAGES="tuning", RESULTS=str(tmp_path), FAILS=fails, JOBS="2")
        shell.environment["PATH"] = f"{bin_folder}{os.pathsep}{shell.environment['PATH']}"
        return shell.run("sh", scripts / "agreement.sh", str(out)).returncode

    assert tuned("pushdown_8e-3_1") == 1
    assert not (out / "chosen").exists()
    assert tuned("nothing") == 0
    chosen = (out / "chosen").read_text().splitlines()
    assert chosen == ["base 1.6e-2 0.1", "base-head 8e-3 1", "pushdown 4e-3 0.3"]
    tried = {path.parent.name for path in (out / "tuning").glob("*/ppl")}
    assert len(tried) == 3 * 3 * 2 + 2
    assert {"base_3.2e-2_0.1", "pushdown_2e-3_0.3"} <= tried
    # What ended elsewhere is not tried again, and can be chosen.
    (scripts / "tried-agreement.txt").write_text("base-head 8e-3 0.3: 4.5\n")
    out = tmp_path / "another"
    assert tuned("nothing") == 0
    assert "base-head 8e-3 0.3" in (out / "chosen").read_text().splitlines()
    assert not (out / "tuning" / "base-head_8e-3_0.3").exists()


def test_known_effects_are_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some draws; the notebook has the coverage over 200."""
    margins = script("margins")
    plan = margins.PLANS["english"]
    found = margins.coverage(plan, draws=4, effect=2.0)
    assert found["intervals"] == 4 * 2
    assert found["hold the effect"] >= 0.7
    assert found["exclude 0"] == 1.0
    found = margins.coverage(margins.PLANS["agreement"], draws=2, effect=3.0)
    assert found["intervals"] == 2 * 2 * 4
    assert found["exclude 0"] == 1.0
    files = []
    for name, rows in margins.simulated(margins.PLANS["trees"], np.random.default_rng(1), 1.0):
        files.append(tmp_path / f"{name}.csv.gz")
        rows.assign(passes=7).to_csv(files[-1], index=False)
    monkeypatch.setattr(
        "sys.argv", ["margins.py", "compare", "trees", *map(str, files), "-o", str(tmp_path / "found.json")]
    )
    margins.main()
    document = json.loads((tmp_path / "found.json").read_text())
    first, second = document["families"]
    assert [(each["a"], each["less"], each["score"]) for each in first] == [
        ("pushdown", "base", "margin sg"),
        ("pushdown", "base", "margin blimp"),
    ]
    assert len(second) == 4
    for each in (*first, *second):
        assert each["low"] < 1.0 < each["high"]
        assert each["p"] <= each["corrected"] <= 1
    after = {(each["a"], each["less"]): each for each in document["others"] if each["score"] == "margin sg"}
    assert after["base-head", "base"]["low"] < 0 < after["base-head", "base"]["high"]
    # A family is read when its runs have all ended, whether those of others have or not.
    own = [str(file) for file in files if file.name.rpartition("-")[0] in ("pushdown", "base")]
    other = next(str(file) for file in files if file.name.startswith("base-head-"))
    command = ["margins.py", "-o", str(tmp_path / "own.json"), "compare", "trees"]
    monkeypatch.setattr("sys.argv", [*command, *own, other])
    margins.main()
    read = json.loads((tmp_path / "own.json").read_text())
    assert read["families"] == [first]
    assert read["scores"]["7"]["margin sg"].keys() == {"base", "pushdown"}
    monkeypatch.setattr("sys.argv", [*command, *own[1:]])
    with pytest.raises(SystemExit, match="nothing is read"):
        margins.main()
    seeds = document["scores"]["7"]["margin sg"]["pushdown"]["values"]
    by_hand = [
        pd.read_csv(file).query("evaluation == 'sg'").groupby("unit")["margin"].mean().mean()
        for file in sorted(files)
        if file.name[: -len("-1.csv.gz")] == "pushdown"
    ]
    assert seeds == pytest.approx(by_hand)


def test_tables_show_what_was_compared() -> None:
    """Means over seeds, differences and p of a family; of perplexities the ratio."""
    margins, report = script("margins"), script("report")
    scores = {"margin sg": 1.0, "margin sg Some Circuit": 2.0, "correct blimp": 60.0, "margin ppl": -7.0}
    runs = {
        f"{name}-{seed}": {
            passes: {
                score: value + step * (passes / 7 if name == "pushdown" else 0) + seed / 50
                for (score, value), step in zip(scores.items(), (0.5, -1.5, 3.0, 1.0), strict=True)
            }
            | {"margin blimp": seed / 10, "correct sg": 50.0 + seed}
            for passes in (4, 7)
        }
        for name in ("base", "pushdown")
        for seed in range(1, 7)
    }
    units = {
        run: {"sg one": len(run), "sg two": seed, "blimp one": -len(run)} for seed, run in enumerate(runs)
    }
    found = json.loads(json.dumps(margins.compare(margins.PLANS["trees"], runs, units)))
    assert [report.PASSAGES["ahead"](found, "pushdown", "base", of) for of in ("sg", "blimp")] == [
        *("2 of 2", "0 of 1"),
    ]
    said = report.PASSAGES["unit"](found, "pushdown", "base", "sg", "two")
    assert said.startswith("+6.00 bits [+3.")
    shown = {
        name: [[cell.strip() for cell in row.strip("| \n").split("|")] for row in table.splitlines()]
        for name, table in (
            ("scores", report.PASSAGES["scores"](found, "pushdown", "base")),
            ("conditions", report.PASSAGES["conditions"](found, "pushdown", "base")),
            ("differences", report.PASSAGES["differences"](found, "pushdown", "base")),
            ("passes", report.PASSAGES["passes"](found, "pushdown", "base", "margin-sg")),
            ("groups", report.PASSAGES["groups"](found, "pushdown", "base", "margin-sg")),
        )
    }
    by_name = {row[0]: row[1:] for row in shown["scores"]}
    first = found["families"][0][0]
    assert by_name["SG margin (bits)"] == [
        *("1.07 ± 0.04", "1.57 ± 0.04"),
        f"+0.50 [+{first['low']:.2f}, +{first['high']:.2f}]",
        f"{first['corrected']:.2g}",
    ]
    assert first["corrected"] == 2 * first["p"]
    assert by_name["BLiMP margin (bits)"][:2] == ["0.35 ± 0.19", "0.35 ± 0.19"]
    assert by_name["BLiMP accuracy (%)"][2:] == ["+3.0 [+3.0, +3.0]"]
    # The same numbers, by condition and by what is compared.
    assert [row[1:] for row in shown["conditions"][2:]] == [row[1::-1] for row in by_name.values()][2:]
    heading, _, row = shown["differences"]
    assert heading == ["Pushdown LM, less", "SG margin (bits)", "p", "BLiMP margin (bits)", "p"]
    assert row == ["base LM", *by_name["SG margin (bits)"][2:], *by_name["BLiMP margin (bits)"][2:]]
    perplexities = [2 ** (7 - seed / 50) for seed in range(1, 7)]
    assert by_name["perplexity"][0] == f"{np.mean(perplexities):.1f} ± {np.std(perplexities, ddof=1):.1f}"
    ratio, ends = by_name["perplexity"][2].split("% ")
    low, high = (float(end.replace("−", "-")) for end in ends.strip("[]").split(", "))
    assert ratio == "−50.0"
    assert low < -50 < high
    assert [row[3].split(" ")[0] for row in shown["passes"][2:]] == ["+0.29", "+0.50"]
    assert [row[0] for row in shown["groups"][2:]] == ["Some Circuit"]
    assert report.PASSAGES["parses"]({"scores": {"unlabeled_f1": 75.58}}) == "75.6"
    assert shown["groups"][2][3].startswith("−1.50 [−1.5")
    said = report.PASSAGES["difference"](found, "pushdown", "base", "margin-sg")
    assert said.startswith("+0.50 bits [+0.")
    assert said.endswith(f"] (p = {first['corrected']:.2g})")
    said = report.PASSAGES["difference"](found, "pushdown", "base", "margin-ppl")
    assert said == f"−50.0% [{low:+.1f}, {high:+.1f}]".replace("-", "−")
    said = report.PASSAGES["difference"](found, "pushdown", "base", "margin-sg-Some+Circuit")
    assert said.startswith("−1.50 bits [−1.5")
