"""Models that write the tree into the string, through every command that takes them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from options import with_options
from toy_language import brackets, toy_tokenizer

from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.shards import ShardSettings, build_shards
from pdtools.tokenization import Tokenizer
from pdtools.trees import SourcedTree, Tree

SHAPE = ["config.layers=1", "config.d_model=16", "config.heads=2", "config.d_ff=16"]
SCHEDULE = ["train.steps=6", "train.eval_every=3", "train.batch_sentences=8", "train.batch_tokens=0"]
RNNG = ["config.d_model=16", "config.dropout=0.1"]
MODELS = {
    "tg": [*SHAPE, "config.positions=relative"],
    "plm": [*SHAPE, "config.positions=relative"],
    "plm-mask": [*SHAPE, "config.positions=learned"],
    "rnng": RNNG,
    "rnng-in-order": [*RNNG, "config.composition=attention"],
}
WORDS = ("the", "a", "dog", "cat", "barks", "sleeps")


def tree(rng: random.Random) -> str:
    """A sentence of a few words."""
    subject = f"(NP (DT {rng.choice(WORDS[:2])}) (NN {rng.choice(WORDS[2:4])}))"
    if rng.random() < 0.3:
        subject = f"(NP {subject} (PP (IN of) (NP (NN {rng.choice(WORDS[2:4])}))))"
    return f"(S {subject} (VP (VBZ {rng.choice(WORDS[4:])})))"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of forty trees."""
    folder, rng = tmp_path_factory.mktemp("grammar"), random.Random(0)
    (folder / "train.trees").write_text("".join(tree(rng) + "\n" for _ in range(40)))
    command = ["tapes", str(folder / "train.trees"), "--min-count", "1", "-q", "-o", str(folder / "shards")]
    assert run(command) == 0
    return folder / "shards"


def train(name: str, shards: Path, out: Path, *more: str) -> int:
    """``pdtools train`` of a model that is small."""
    settings = [part for each in [*MODELS[name], *SCHEDULE] for part in ("--set", each)]
    command = ["train", str(shards), "--valid", str(shards), "--model", name, "--device", "cpu", "-q"]
    return run(with_options([*command, *settings, "-o", str(out)], *more))


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind."""
    out = tmp_path_factory.mktemp(request.param) / "run"
    assert train(request.param, shards, out) == 0
    return out


@pytest.fixture(scope="module")
def tg(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a Transformer Grammar, where the kind of model decides nothing."""
    out = tmp_path_factory.mktemp("only-tg") / "run"
    assert train("tg", shards, out) == 0
    return out


@pytest.mark.parametrize("name", ["tg", "rnng-in-order"])
def test_a_resumed_run_is_the_same_to_the_bit(name: str, shards: Path, tmp_path: Path) -> None:
    constant = ["--set", "train.schedule=constant"]
    assert train(name, shards, tmp_path / "cut", *constant, "--set", "train.steps=3") == 0
    assert train(name, shards, tmp_path / "again", *constant) == 0
    assert train(name, shards, tmp_path / "cut", *constant, "--resume") == 0
    weights = [(tmp_path / run / "last" / "model.safetensors").read_bytes() for run in ("cut", "again")]
    assert weights[0] == weights[1]


def test_losses_are_logged(tg: Path) -> None:
    lines = [json.loads(line) for line in (tg / "metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    assert last["ppl_token_joint"] > last["ppl_token_given_trees"] > 1
    assert 0 <= last["action_accuracy"] <= 1
    assert "attachment_accuracy" not in last


def test_trees_come_out_labelled_and_are_scored(model: Path, shards: Path, tmp_path: Path) -> None:
    gold, parsed, scores = (tmp_path / name for name in ("gold.trees", "parsed.trees", "scores.tsv"))
    gold.write_text(
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n(S (NP (DT a) (NN cat)) (VP (VBZ sleeps)))\n"
    )
    command = ["decode", str(gold), "--from", "treebank", "--model", str(model), "--device", "cpu", "-q"]
    assert run([*command, "--k-best", "3", "--scores", str(scores), "-o", str(parsed)]) == 0
    trees = [Tree.from_brackets(line) for line in parsed.read_text().splitlines()]
    assert [each.words for each in trees] == [("the", "dog", "barks"), ("a", "cat", "sleeps")]
    assert {label for each in trees for label in each.labels} <= {"S", "NP", "VP", "PP"}
    header, *rows = [line.split("\t") for line in scores.read_text().splitlines()]
    assert header[:4] == ["id", "rank", "joint", "marginal"]
    assert len({row[4] for row in rows}) == len(rows) == 6
    assert all(float(row[2]) <= float(row[3]) + 1e-6 for row in rows)
    assert run(["eval-parse", str(gold), str(parsed), "-q", "-o", str(tmp_path / "f1")]) == 0


def test_the_trees_of_a_beam_are_given(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that the word beam ended with, as the guide writes them: their sum is the beam's."""
    text, scores, proposals = (tmp_path / name for name in ("text.txt", "best.tsv", "proposals.tsv"))
    text.write_text("the dog barks\na cat sleeps\n")
    common = [str(text), "--model", str(model), "--device", "cpu", "-q"]
    assert run(["decode", *common, "--k-best", "10", "--scores", str(scores), "-o", str(tmp_path / "b")]) == 0
    rows = [line.split("\t") for line in scores.read_text().splitlines()[1:]]
    proposals.write_text("".join(f"{row[0]}\t{row[4]}\n" for row in rows))
    assert run(["surprisal", *common, "--nats", "--trees", str(proposals)]) == 0
    totals = {"1": 0.0, "2": 0.0}
    for line in capsys.readouterr().out.splitlines()[1:]:
        sentence, *_, surprisal = line.split("\t")
        totals[sentence] -= float(surprisal)
    assert totals == pytest.approx({row[0]: float(row[3]) for row in rows}, rel=2e-6, abs=1e-4)


def test_pages_exports_and_next_words(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exported model says what the run says; its page has the parse."""
    common = ["--device", "cpu", "-q"]
    assert run(["export", str(model), "-q", "-o", str(tmp_path / "exported")]) == 0
    rows = []
    for folder in (model, tmp_path / "exported"):
        capsys.readouterr()
        command = ["surprisal", "--text", "the dog barks", "--model", str(folder), *common]
        assert run([*command, "--entropy"]) == 0
        rows.append(capsys.readouterr().out)
    assert rows[0] == rows[1]
    assert rows[0].count("\n") == 5
    page = tmp_path / "page.html"
    command = ["view", "--text", "the dog barks", "--model", str(model), "--device", "cpu", "-o", str(page)]
    assert run(command) == 0
    assert "(S" in page.read_text()


def test_no_more_parses_than_the_word_beam_holds(
    tg: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.txt").write_text("the dog barks\n")
    command = ["decode", str(tmp_path / "lines.txt"), "--model", str(tg), "--device", "cpu", "-q"]
    assert run([*command, "--k-best", "11", "--scores", str(tmp_path / "s"), "-o", str(tmp_path / "p")]) == 1
    error = capsys.readouterr().err
    assert "there are as many parses as the word beam holds: 10, not 11" in error
    assert error.count("\n") == 1


def test_surprisals_with_incremental_parses(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["surprisal", "--text", "the dog barks", "--model", str(model), "--device", "cpu"]
    command += ["-q", "--nats"]
    assert run([*command, "--parses"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[2] for row in rows] == ["the", "dog", "barks", "<eos>"]
    assert all(float(row[5]) > 0 for row in rows)
    parses = [row[6] for row in rows]
    assert [parse.split()[-1].rstrip(")") for parse in parses] == ["the", "dog", "barks", "barks"]
    Tree.from_brackets(
        parses[-1].replace("the", "(X the)").replace("dog", "(X dog)").replace("barks", "(X barks)")
    )
    assert run([*command, "--words"]) == 0
    words = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[5] for row in words] == [row[5] for row in rows]


def test_perplexities(model: Path, shards: Path, tmp_path: Path) -> None:
    """By one process; tests/jobs/test_survival.py has several."""
    out = tmp_path / "ppl"
    assert run(["eval-ppl", str(shards), "--model", str(model), "--device", "cpu", "-q", "-o", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    scores = results["scores"]
    assert scores["ppl_token_marginal"] <= scores["ppl_token_joint"] + 1e-6
    assert scores["ppl_word_without_eos_joint"] > scores["ppl_word_without_eos_given_trees"]
    assert results["settings"]["marginal"] == "word-synchronous beam: a lower bound of log p(x)"


def test_minimal_pairs(tg: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        json.dumps({"sentence_good": "the dog barks", "sentence_bad": "dog the barks", "UID": "order"}) + "\n"
    )
    command = ["eval-blimp", str(pairs), "--model", str(tg), "--device", "cpu", "-q"]
    widths = ["--beam", "40", "--search", "word_beam=4", "--search", "fast_track=0"]
    assert run([*command, "-o", str(tmp_path / "blimp"), *widths]) == 0
    results = json.loads((tmp_path / "blimp" / "results.json").read_text())
    assert results["counts"]["items_scored"] == 1
    found = {name: results["settings"][name] for name in ("beam", "word_beam", "fast_track")}
    assert found == {"beam": 40, "word_beam": 4, "fast_track": 0}


def test_draws(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "--model", str(model), "--number", "3", "--max-tokens", "5", "-q"]) == 0
    trees = [Tree.from_brackets(line) for line in capsys.readouterr().out.splitlines()]
    assert len(trees) == 3
    assert {label for each in trees for label in each.labels} <= {"S", "NP", "VP", "PP"}


def test_rows_are_shown_as_actions(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(shards), "0", "--actions", "tg", "--json"]) == 0
    positions = json.loads(capsys.readouterr().out)["actions"]
    assert positions[0] == {
        "position": 0,
        "action": "<root>",
        "depth": 0,
        "open": 0,
        "pop": len(positions),
        "sees": [0],
    }
    assert [p["action"] for p in positions[-2:]] == ["S)", "S)"]
    assert positions[1]["action"] == "(S"
    composed = positions[-2]
    assert composed["sees"][0] == 1
    assert composed["sees"][-1] == composed["position"]
    assert run(["show", str(shards), "0", "--actions", "plm-mask"]) == 0
    assert "innermost" in capsys.readouterr().out


def test_rows_are_shown_with_the_stacks_of_rnngs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.trees").write_text("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n")
    tapes = ["tapes", str(tmp_path / "one.trees"), "--min-count", "1", "-q", "-o", str(tmp_path / "rows")]
    assert run(tapes) == 0
    found = {}
    for name in ("rnng", "rnng-in-order"):
        assert run(["show", str(tmp_path / "rows"), "0", "--actions", name, "--json"]) == 0
        positions = json.loads(capsys.readouterr().out)["actions"]
        assert [each["position"] for each in positions] == list(range(len(positions)))
        found[name] = [(each["action"], each["open"], each["sees"]) for each in positions]
    assert found["rnng"] == [
        ("<root>", 0, [0]),
        ("(S", 1, [0, 1]),
        ("(NP", 2, [0, 1, 2]),
        ("the", 2, [0, 1, 2, 3]),
        ("dog", 2, [0, 1, 2, 3, 4]),
        (")", 1, [0, 1, 5]),
        ("(VP", 2, [0, 1, 5, 6]),
        ("barks", 2, [0, 1, 5, 6, 7]),
        (")", 1, [0, 1, 5, 8]),
        (")", 0, [0, 9]),
    ]
    assert found["rnng-in-order"] == [
        ("<root>", 0, [0]),
        ("the", 0, [0, 1]),
        ("(NP", 1, [0, 1, 2]),
        ("dog", 1, [0, 1, 2, 3]),
        (")", 0, [0, 4]),
        ("(S", 1, [0, 4, 5]),
        ("barks", 1, [0, 4, 5, 6]),
        ("(VP", 2, [0, 4, 5, 6, 7]),
        (")", 1, [0, 4, 5, 8]),
        (")", 0, [0, 9]),
        ("FINISH", 0, [0, 9]),
    ]
    assert run(["show", str(tmp_path / "rows"), "0", "--actions", "rnng-in-order"]) == 0
    assert "x...xx" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--search", "word_beam=20", "--beam", "10"],
            "a word beam of 20 is more than the action beam of 10",
        ),
        (["--beam", "auto"], "--beam auto"),
    ],
)
def test_searches_that_there_are_not(
    tg: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["surprisal", "--text", "the dog", "--model", str(tg), "--device", "cpu", *options]) == 1
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["causal", "masked", "Hugging Face"])
def test_widths_for_models_without_actions(
    kind: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "Hugging Face":
        pytest.importorskip("transformers")
        from toy_gpt2 import save_gpt2

        save_gpt2(tmp_path / "run", ["the dog barks"], positions=32)
    else:
        settings = [*SHAPE, *SCHEDULE, f"config.objective={kind}"]
        small = [part for each in settings for part in ("--set", each)]
        command = ["train", str(shards), "--model", "transformer", "--device", "cpu", "-q", *small]
        assert run([*command, "-o", str(tmp_path / "run")]) == 0
    surprisal, ppl = ["surprisal", "--text", "the dog"], ["eval-ppl", str(shards)]
    for command in (ppl,) if kind == "masked" else (ppl, surprisal):
        for widths in (["--search", "word_beam=5"], ["--search", "fast_track=0"]):
            capsys.readouterr()
            assert run([*command, "--model", str(tmp_path / "run"), *widths, "--device", "cpu", "-q"]) == 1
            error = capsys.readouterr().err
            assert "--search word_beam=… and fast_track=… are for action models: leave them out" in error
            assert error.count("\n") == 1


def test_rows_that_do_not_fit(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, setting, reason in (
        ("tg", "max_open=2", "more than 2 constituents open at once (config.max_open)"),
        ("rnng", "max_chain=1", "more than 1 constituents opened in a row (config.max_chain)"),
        ("rnng-in-order", "max_open=1", "more than 1 constituents open at once (config.max_open)"),
    ):
        assert train(name, shards, tmp_path / "run", "--set", f"config.{setting}") == 1
        error = capsys.readouterr().err
        assert reason in error
        assert "--on-error skip" in error
        assert error.count("\n") == 1
    skip = ["--set", "config.max_length=12", "--on-error", "skip"]
    assert train("plm-mask", shards, tmp_path / "run", *skip) == 0
    assert (tmp_path / "run" / "rejects.jsonl").read_text().count("longer than the model's 12 positions") > 0


@pytest.mark.parametrize("name", ["tg", "rnng-in-order"])
def test_shards_without_labels(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as older ones."""
    old, text = tmp_path / "old", brackets(random.Random(0))
    trees = [SourcedTree(Tree.from_brackets(text), "toy.trees", 1, text)]
    build_shards(trees, toy_tokenizer(), ShardSettings(), old, Rejects())
    assert train(name, old, tmp_path / "run") == 1
    error = capsys.readouterr().err
    assert "needs labelled constituents" in error
    assert error.count("\n") == 1


def test_labels_that_the_training_shards_lack(
    tg: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.trees"
    other.write_text("(S (ADVP (NN dog)) (VP (VBZ barks)))\n(S (NP (NN dog)) (VP (VBZ barks)))\n")
    command = ["tapes", str(other), "--tokenizer", str(shards), "-q", "-o", str(tmp_path / "shards")]
    assert run(command) == 0
    ppl = ["eval-ppl", str(tmp_path / "shards"), "--model", str(tg), "--device", "cpu", "-q"]
    ppl += ["-o", str(tmp_path / "ppl")]
    capsys.readouterr()
    assert run(ppl) == 1
    assert "labels unknown to the model" in capsys.readouterr().err
    assert run([*ppl, "--on-error", "skip"]) == 0
    assert json.loads((tmp_path / "ppl" / "results.json").read_text())["counts"]["sentences_left_out"] == 1


def test_validation_leaves_no_label_out(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All models are validated on the same sentences: a label that training lacks is scored as the rarest."""
    rarest = Tokenizer.load(shards).labels[-1]
    trees = [
        "(S (NP (NN dog)) (VP (VBZ barks)))",
        "(S ({0} (NN dog)) (VP (VBZ barks)))",
        "({0} ({0} (NN cat)) ({0} (VP (VBZ sleeps)) (NP (NN dog))))",
        "({0} (DT the) (NN cat))",
    ]
    found = {}
    for label in ("QP", rarest):
        file, rows = tmp_path / f"{label}.trees", tmp_path / label
        file.write_text("".join(tree.format(label) + "\n" for tree in trees))
        assert run(["tapes", str(file), "--tokenizer", str(shards), "-q", "-o", str(rows)]) == 0
        command = ["--valid", str(rows), "--set", "train.steps=3"]
        assert train("tg", shards, tmp_path / f"run-{label}", *command) == 0
        lines = (tmp_path / f"run-{label}" / "metrics.jsonl").read_text().splitlines()
        (found[label],) = (line for line in map(json.loads, lines) if line["kind"] == "valid")
        del found[label]["seconds"]
    assert found["QP"] == found[rarest]
    capsys.readouterr()
    base = ["train", str(shards), *command, "--model", "transformer", "--device", "cpu", "--json", "-q"]
    settings = [part for each in [*SHAPE, *SCHEDULE[1:]] for part in ("--set", each)]
    assert run([*base, *settings, "-o", str(tmp_path / "base")]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["sentences"]["valid"] == len(trees)
    assert train("tg", tmp_path / "QP", tmp_path / "none") == 1
    assert "labels unknown to the model" in capsys.readouterr().err


OF_ALL = "(S (NP (NN dog) (PP (IN of) (NN cat))) (VP (VBZ barks)))\n"
OTHER_LABELS = {
    "in another order": "(VP (VBZ barks) (VP (VBZ sleeps)))\n" * 3,
    "more of them": "(S (ADVP (NN dog)) (VP (VBZ barks)))\n",
}


@pytest.mark.parametrize("trees", OTHER_LABELS.values(), ids=OTHER_LABELS)
def test_labels_that_are_numbered_otherwise(
    trees: str, shards: Path, tg: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they are where the tokenizer that was given has none."""
    tokenizer, other = tmp_path / "tokenizer", tmp_path / "other"
    tokenizer.mkdir()
    Tokenizer.load(shards).with_labels([]).save(tokenizer)
    (tmp_path / "other.trees").write_text(OF_ALL + trees)
    tapes = ["tapes", str(tmp_path / "other.trees"), "--tokenizer", str(tokenizer), "-q", "-o", str(other)]
    assert run(tapes) == 0

    train_with = ["train", str(shards), "--valid", str(other), "--device", "cpu", "-q"]
    smallest = [part for each in [*SHAPE, *SCHEDULE] for part in ("--set", each)]
    ppl = ["eval-ppl", str(other), "--device", "cpu", "-q", "-o", str(tmp_path / "ppl")]
    capsys.readouterr()
    assert run([*train_with, *smallest, "--model", "plm", "-o", str(tmp_path / "plm")]) == 1
    error = capsys.readouterr().err
    assert "labels differ from those of the training shards" in error
    assert "--tokenizer TRAINING_SHARDS" in error
    assert error.count("\n") == 1
    assert run([*ppl, "--model", str(tg)]) == 1
    error = capsys.readouterr().err
    assert "not made with the labels of the model" in error
    assert "and this model as --tokenizer" in error
    assert error.count("\n") == 1

    # What has no labels does not mind.
    strings = tmp_path / "transformer"
    assert run([*train_with, *smallest, "--model", "transformer", "-o", str(strings)]) == 0
    assert run([*ppl, "--model", str(strings)]) == 0


def test_a_beam_that_loses_all_trees_says_what_to_do(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In-order what opens constituents is likelier than tokens until no more may open."""
    assert train("rnng-in-order", shards, tmp_path / "run", "--set", "config.max_open=4") == 0
    command = ["surprisal", "--text", "the dog barks", "--model", str(tmp_path / "run"), "--device", "cpu"]
    capsys.readouterr()
    assert run([*command, "--beam", "1", "--search", "word_beam=1", "--search", "fast_track=0"]) == 1
    error = capsys.readouterr().err
    assert "no tree found: none in the beam has a probability above 0 (a larger --beam, or --search" in error
    assert error.count("\n") == 1
    assert run([*command, "--beam", "1", "--search", "word_beam=1", "--search", "fast_track=1"]) == 0
