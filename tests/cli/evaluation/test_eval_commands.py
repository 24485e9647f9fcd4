"""eval-parse, eval-ppl, eval-blimp, eval-sg: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from search_oracle import save_checkpoints
from toy_sets import condition, suite_of, write_pairs
from wide_items import wide_items

from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.search.adaptive_beam import STEPS
from pdtools.shards import ShardSettings, build_shards
from pdtools.trees import SourcedTree, Tree

GOLD = "(TOP (S (X a) (Y (X b) (X c))))"
PREDICTED = "(TOP (S (Z (X a) (X b)) (X c)))"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Path]) -> Path:
    from pdtools.models import load_checkpoint

    folder = tmp_path_factory.mktemp("shards") / "test"
    trees = [SourcedTree(Tree.from_brackets(GOLD), "toy", 1, GOLD)]
    build_shards(trees, load_checkpoint(models["base"]).tokenizer, ShardSettings(), folder, Rejects())
    return folder


@pytest.fixture
def blimp(tmp_path: Path) -> Path:
    folder = tmp_path / "blimp"
    folder.mkdir()
    sentences = [("a b c", "c b a"), ("a a", "a a"), ("b c", "b zebra"), ("a", "b")]
    write_pairs(folder / "toy.jsonl", sentences)
    return folder


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    formula = "(1;%x%) < (1;%y%) | (1;%x%) > (1;%y%)"
    conditions = [condition("x", "a b", "c"), condition("y", "b b", "c")]
    data = suite_of(conditions, formula=formula, circuit="Agreement")
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(data))
    return path


def trees(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines))
    return path


# --- eval-parse -------------------------------------------------------------------------------


def test_eval_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, mine = trees(tmp_path, "gold", GOLD, GOLD), trees(tmp_path, "mine", GOLD, PREDICTED)
    assert run(["eval-parse", str(gold), str(mine), "-o", str(tmp_path / "r")]) == 0
    assert "75.00" in capsys.readouterr().out
    document = json.loads((tmp_path / "r" / "results.json").read_text())
    assert document["scores"]["f1"] == 75.0
    assert document["provenance"]["inputs"]["gold"]["path"] == str(gold)
    assert pandas.read_parquet(tmp_path / "r" / "items.parquet").matched.tolist() == [2, 1]
    assert run(["eval-parse", str(gold), str(mine), "-o", str(tmp_path / "r")]) == 1
    assert "exists already" in capsys.readouterr().err
    assert run(["eval-parse", str(gold), str(mine), "-o", str(tmp_path / "r"), "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == document["scores"]


@pytest.mark.parametrize(
    ("mine", "what"),
    [
        (["(S (NN cat))", "(S (NN cat))"], "2 sentences differ in their words"),
        (["(S (NN dog)", "(S (NN dog)))"], "2 sentences are no trees"),
        (["(S (NN dog)", "(S (NN cat))"], "2 sentences are no trees or differ in their words"),
        (["(S (NN cat))"] * 11, "11 sentences differ in their words"),
    ],
)
def test_why_sentences_were_not_scored(
    mine: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees(tmp_path, "gold", *["(S (NN dog))"] * len(mine)), trees(tmp_path, "mine", *mine)
    assert run(["eval-parse", str(tmp_path / "gold"), str(tmp_path / "mine")]) == 0
    hint = " (words are deleted by their tags; with --unlabeled, by the gold ones)"
    all_differ = "are no trees" not in what
    limit = ", more than MAX_ERROR 10" * (len(mine) > 10)
    assert capsys.readouterr().err == f"{what} and were not scored{limit}{hint * all_differ}\n"


UNLABELED = "(X (X (XX the) (XX dog)) (X (XX barks) (XX .)))"
NO_LABELS = (
    "mine: all of its labels are X: without labels there is no labeled F1; --unlabeled compares spans\n"
)


def test_trees_without_labels_are_not_scored_by_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gold = "(S (NP (DT the) (NN dog)) (VP (VBZ barks) (. .)))"
    trees(tmp_path, "gold", gold, "(NN dog)"), trees(tmp_path, "mine", UNLABELED, "(XX dog)")
    for form in ("table", "jsonl"):
        assert run(["eval-parse", "gold", "mine", "-o", "r", "--format", form]) == 1
        assert capsys.readouterr() == ("", f"pdtools: {NO_LABELS}")
        assert not (tmp_path / "r").exists()
    assert (
        run(["eval-parse", "gold", "mine", "--format", "evalb"]) == 0
    )  # prints what EVALB prints, but says so
    assert NO_LABELS in capsys.readouterr().err
    (tmp_path / "u.prm").write_text("LABELED 0\n")
    for options in (["--unlabeled"], ["--prm", "u.prm"], ["--prm", "u.prm", "--format", "evalb"]):
        assert run(["eval-parse", "gold", "mine", *options]) == 0
        assert capsys.readouterr().err == ""
    trees(tmp_path, "flat", "(X (XX the) (XX dog) (XX barks) (XX .))", "(XX dog)")
    assert run(["eval-parse", "gold", "flat", "--unlabeled"]) == 0
    said = "predicted trees look like placeholders (flat, without tags) and were scored; --left-out excludes"
    assert capsys.readouterr().err == f"1 {said} them\n"
    assert run(["eval-parse", "mine", "mine"]) == 0  # X is what the gold trees say too
    trees(tmp_path, "some", gold, UNLABELED)  # a parser that failed on one sentence
    trees(tmp_path, "both", gold, gold)
    assert run(["eval-parse", "both", "some"]) == 0


def test_sentences_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, mine = trees(tmp_path, "gold", GOLD, GOLD, GOLD), trees(tmp_path, "mine", GOLD, PREDICTED, "")
    rejects = {"file": "in", "line": 3, "reason": "unknown", "text": ""}
    (tmp_path / "rejects.jsonl").write_text(json.dumps(rejects) + "\n")
    options = ["--left-out", str(tmp_path / "rejects.jsonl"), "-o", str(tmp_path / "r"), "--format", "jsonl"]
    assert run(["eval-parse", str(gold), str(mine), *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == pyarrow.parquet.read_table(tmp_path / "r" / "items.parquet").to_pylist()
    assert [(row["line"], row["matched"], row["status"]) for row in rows] == [
        (1, 2, "scored"),
        (2, 1, "scored"),
        (3, 0, "skipped"),
    ]
    document = json.loads((tmp_path / "r" / "results.json").read_text())
    assert document["counts"]["left_out"] == 1
    assert "sha256" in document["provenance"]["inputs"]["left_out"]


def test_eval_parse_as_evalb(test_data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = test_data / "evalb"
    for name, status in (("unlabeled", 0), ("COLLINS", 1)):
        files = [str(folder / file) for file in ("gold.trees", "test.trees")]
        assert (
            run(["eval-parse", *files, "--prm", str(folder / f"{name}.prm"), "--format", "evalb"]) == status
        )
        printed = capfd.readouterr()
        assert printed.out == (folder / f"expected.{name}.txt").read_text()
        assert f"{printed.err}exit {status}\n" == (folder / f"expected.{name}.stderr").read_text()


# --- commands with a model --------------------------------------------------------------------


def test_eval_ppl_writes_down_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, _ = save_checkpoints(tmp_path, max_length=5)
    (tmp_path / "trees").write_text("(S (X a) (X b))\n(S (X a) (X b) (X c) (X a))\n")
    tapes = ["tapes", str(tmp_path / "trees"), "--tokenizer", str(models["base"]), "-q"]
    assert run([*tapes, "-o", str(tmp_path / "shards")]) == 0
    command = ["eval-ppl", str(tmp_path / "shards"), "--model", str(models["pushdown"]), "-q"]
    command += ["--device", "cpu", "-o", str(tmp_path / "r")]
    assert run(command) == 1
    assert run([*command, "--on-error", "skip"]) == 0
    command.remove("-q")
    assert run([*command, "--on-error", "skip", "--overwrite"]) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "1 excluded: longer than the model: 4 tokens, at most 3"
    (left_out,) = (tmp_path / "r" / "rejects.jsonl").read_text().splitlines()
    record = json.loads(left_out)
    assert record["reason"] == "longer than the model: 4 tokens, at most 3"
    assert (record["file"], record["line"], record["text"]) == (str(tmp_path / "shards"), 1, "a b c a")


def test_beams_as_wide_as_pairs_and_items_need_them(
    models: dict[str, Path],
    blimp: Path,
    suite: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["--model", str(models["pushdown"]), "--device", "cpu", "--quiet"]
    for command, data in (("eval-blimp", blimp), ("eval-sg", suite)):
        found = {}
        for beam in ("auto", "300"):
            out = tmp_path / command / beam
            assert run([command, str(data), *options, "--beam", beam, "-o", str(out)]) == 0
            found[beam] = json.loads((out / "results.json").read_text())
        assert "overall" in found["300"]["scores"].pop("margin_bits")  # one of a decision is not known
        assert found["auto"]["scores"] == found["300"]["scores"]
        dropped = [found[beam]["counts"].pop("dropped") for beam in ("300", "auto")]
        assert found["auto"]["counts"] == found["300"]["counts"]
        if command == "eval-sg":
            needed, every = (
                pandas.read_parquet(tmp_path / command / beam / "strings.parquet") for beam in ("auto", "300")
            )
            every = every.dropna(subset=["region"]).reset_index(drop=True)  # without ends of sentences
            known = needed.bits.notna()
            assert 0 < known.sum() < len(needed) == len(every)
            assert needed.bits[known].to_numpy() == pytest.approx(every.bits[known], rel=2e-6, abs=1e-4)
            assert needed.reason[~known].unique().tolist() == [
                "no prediction needs it: not searched by --beam auto"
            ]
        assert dropped[0]["mean"] == 0  # these strings are short
        assert command == "eval-sg" or dropped[1]["mean"] > 0
        assert found["auto"]["settings"]["beam"] == "auto"
        items = pandas.read_parquet(tmp_path / command / "auto" / "items.parquet")
        sums = "regions" if command == "eval-sg" else "totals"
        steps = {(step.beam, step.margin) for step in STEPS if getattr(step, sums) is not None}
        assert {(b, None if m != m else m) for b, m in zip(items.beam, items.margin, strict=True)} <= steps
        parts = [command, str(data), *options, "--beam", "auto", "-o", str(tmp_path / command / "parts")]
        for part in ("0/2", "1/2"):
            monkeypatch.setattr("sys.argv", ["pdtools", *parts, "--shard", part])
            assert run([*parts, "--shard", part]) == 0
        assert run(["merge", str(tmp_path / command / "parts")]) == 0
        assert pandas.read_parquet(tmp_path / command / "parts" / "items.parquet").equals(items)
        capsys.readouterr()
        assert run(["compare", str(tmp_path / command / "auto"), str(tmp_path / command / "300")]) == 0
        assert "beam: auto and 300" in capsys.readouterr().out


def test_where_nothing_is_compared_the_beam_is_a_number(
    models: dict[str, Path], shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval-ppl", str(shards), "--model", str(models["pushdown"]), "-o", str(tmp_path / "r")]
    assert run([*words, "--beam", "auto", "--device", "cpu"]) == 1
    error = capsys.readouterr().err.strip()
    assert "works only for eval-blimp" in error
    assert "\n" not in error
    assert not (tmp_path / "r").exists()


def test_a_beam_is_a_number_or_auto(blimp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for beam in ("0", "wide", "-1", "1.5"):
        assert run(["eval-blimp", str(blimp), "--model", "x", "-o", "r", "--beam", beam]) == 2
    assert "'1.5' is neither a number from 1 on nor auto" in capsys.readouterr().err


def test_a_margin_is_in_the_results(models: dict[str, Path], blimp: Path, tmp_path: Path) -> None:
    found = {}
    for margin in ("0", "1000000"):
        command = ["eval-blimp", str(blimp), "--model", str(models["pushdown"]), "--device", "cpu", "--quiet"]
        assert run([*command, "--margin", margin, "-o", str(tmp_path / margin)]) == 0
        found[margin] = json.loads((tmp_path / margin / "results.json").read_text())
        items = wide_items(tmp_path / margin)
        assert items.dropped_good.max() == found[margin]["counts"]["dropped"]["max"] or margin == "0"
        assert (items.dropped_bad[0] > 0.01) == (margin == "0")
    assert found["0"]["settings"]["margin"] == 0
    assert found["0"]["counts"]["dropped"]["max"] > 0.01
    assert found["1000000"]["counts"]["dropped"]["max"] == 0


def test_minimal_pairs_of_ones_own(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.tsv").write_text("sentence_good\tsentence_bad\na b\tb a\na c\tc a\na\tzebra\n")
    for name in ("base", "pushdown"):
        arguments = ["--model", str(models[name]), "--device", "cpu", "-o", str(tmp_path / name / "my")]
        assert run(["eval-blimp", str(tmp_path / "my.tsv"), *arguments]) == 0
        printed = capsys.readouterr()
        assert "\nparadigm  accuracy  items  scored  ties\nmy " in printed.out
        why = "items.parquet says why; the first: bad: words unknown to the model: zebra"
        assert f"1 items could not be scored ({why})" in printed.err
    assert run(["compare", *(str(tmp_path / name / "my") for name in ("base", "pushdown"))]) == 0
    assert "\nparadigm " in capsys.readouterr().out
    assert run(["compare", *(str(tmp_path / name) for name in ("base", "pushdown"))]) == 0
    assert "BLiMP accuracy (%)" in capsys.readouterr().out


def test_models_that_begin_with_root_do_not_go_without_bos(
    models: dict[str, Path], shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval-ppl", str(shards), "--model", str(models["pushdown"]), "--device", "cpu", "--no-bos"]
    assert run([*command, "--stream"]) == 1
    assert "only Hugging Face models can be read without BOS" in capsys.readouterr().err


def test_eval_ppl_by_particles(
    models: dict[str, Path], shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["eval-ppl", str(shards), "--device", "cpu", "--no-marginal", "--particles", "2"]
    documents = []
    for seed in ("0", "0", "1"):
        assert run([*common, "--model", str(models["pushdown"]), "--seed", seed, "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0]["scores"] == documents[1]["scores"]
    assert documents[2]["settings"]["particles_seed"] == 1
    assert documents[0]["settings"]["particles"] == 2
    assert documents[0]["scores"]["ppl_token_particles"] > 1
    assert documents[0]["scores"]["ppl_token_marginal"] is None
    (tmp_path / "in.txt").write_text("a b\n")
    for data, model, message in (
        (str(shards), "base", "log p(x) is exact: leave out --particles"),
        (str(tmp_path / "in.txt"), "pushdown", "are for shards, not for text"),
    ):
        command = ["eval-ppl", data, "--model", str(models[model]), "--particles", "2", "--device", "cpu"]
        assert run(command) == 1
        assert message in capsys.readouterr().err


TOGETHER = [
    ("eval-ppl {shards} --model {base} --streams 2", 2, "--streams goes with --stream"),
    ("eval-ppl {shards} --model {base} --stream --particles 2", 1, "--particles are for models of trees"),
    ("eval-ppl {shards} --model {base} --stream --trees {gold}", 1, "leave out --stream and --no-marginal"),
    ("eval-parse {gold} {gold} --latex --format jsonl", 2, "--latex prints the table of the scores"),
    ("eval-parse {gold} {gold} --json --format jsonl", 2, "--format jsonl the sentences: one of them"),
    *(
        (f"eval-parse {{gold}} {{gold}} --format evalb {option}", 2, "prints a table and nothing else")
        for option in ("--json", "-o {folder}/r", "--left-out {rejects}")
    ),
    ("eval-parse - -", 2, "only one of GOLD and PREDICTED can be standard input"),
    ("eval-sg {suite} {suite} --model {base} -o {folder}/r", 2, "only --from-items takes several files"),
    ("surprisal --text a --model {base} --words --rank", 2, "--rank is the rank of a token"),
    ("surprisal --text a --model {pushdown} --parses --entropy", 2, "--parses cannot be combined with"),
    ("compare {table} --overview", 2, "--overview goes with results, not with a table of stimuli"),
    ("compare {results} --overview --baseline results", 2, "--overview has no differences"),
    ("compare", 2, "name results folders"),
]


@pytest.mark.parametrize(("given", "code", "said"), TOGETHER, ids=[given for given, _, _ in TOGETHER])
def test_options_that_do_not_go_together(
    given: str,
    code: int,
    said: str,
    models: dict[str, Path],
    shards: Path,
    suite: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command would do something without one of the two, and nothing is printed or written with both."""
    gold, rejects = trees(tmp_path, "gold", GOLD), tmp_path / "rejects.jsonl"
    rejects.write_text(json.dumps({"file": "in", "line": 1, "reason": "unknown", "text": ""}) + "\n")
    table = trees(tmp_path, "table.csv", "model,item,condition,surprisal", "m,1,a,1", "m,1,b,2")
    results = tmp_path / "results"
    assert run(["eval-parse", str(gold), str(gold), "-o", str(results), "-q"]) == 0
    capsys.readouterr()
    files = {"gold": gold, "rejects": rejects, "table": table, "results": results, "folder": tmp_path}
    command = given.format(shards=shards, suite=suite, **files, **models).split()
    device = ["--device", "cpu"] if "--model" in command else []
    assert run([*command, *device]) == code
    printed = capsys.readouterr()
    assert said in " ".join(printed.err.replace("│", " ").split())
    assert printed.out == ""
    assert not (tmp_path / "r").exists()
