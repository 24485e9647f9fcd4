"""Kept checkpoints as revisions (``export --revisions``), and their scores as learning curves (``view``)."""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import killed_at
from hypothesis import given
from hypothesis import strategies as st
from node_pages import evaluate, needs_node, save_page
from toy_hub import running_hub, use_hub

from pdtools import __version__
from pdtools.cli.main import run
from pdtools.files import read_json
from pdtools.files.manifest import check_checksums
from pdtools.models import export, load_checkpoint
from pdtools.models.checkpoint import STUB_FILE
from pdtools.models.export import revisions_of
from pdtools.report.view.results import figures, results_page
from pdtools.training import Recipe, TrainConfig, train

NAMES = ["step-1", "chck_100", "chck_130", "chck_200", "main"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_train: Path, toy_valid: Path) -> Path:
    """A run, in a folder ``runs``, that kept one checkpoint for a step and two for three numbers of words."""
    folder = tmp_path_factory.mktemp("curves") / "runs" / "toy"
    shape = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
    points = ("1 steps", "100 words", "130 words", "200 words", "9M words")
    config = TrainConfig(
        steps=6, learning_rate=1e-2, warmup_steps=1, batch_tokens=90, eval_every=6, keep_at=points
    )
    train(toy_train, folder, Recipe(model="transformer", options=shape, train=config), valid=toy_valid)
    return folder


def exported(source: Path, output: Path, *more: str) -> int:
    return run(["export", str(source), "-o", str(output), "--revisions", *more])


@pytest.mark.linux
def test_killed_at_each_operation_up_to_the_first_revision(trained: Path, tmp_path: Path) -> None:
    for operation in itertools.count(step=2):
        folder = tmp_path / f"{operation}"
        folder.mkdir()
        begin = partial(exported, trained, folder / "out", "-q")
        if not killed_at(operation, folder, begin) or (folder / "out" / NAMES[0]).is_dir():
            break
        assert begin() == 0
        assert sorted(os.listdir(folder / "out")) == sorted([*NAMES, "pdtools.json", "revisions.json"])
    assert operation > 5


def test_each_kept_checkpoint_is_a_folder_of_its_own(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(trained, tmp_path / "out", "--json") == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["revisions"] == NAMES
    assert error.startswith(f"{tmp_path}/out: {', '.join(NAMES)}: ")
    sources = revisions_of(trained)
    assert list(sources) == NAMES
    assert sources["main"] == trained / "best"
    words = {name: load_checkpoint(folder).config["words"] for name, folder in sources.items()}
    for name, number in (("chck_100", 100), ("chck_130", 130), ("chck_200", 200)):
        smaller = [each for each in words.values() if each < words[name]]
        assert number <= words[name]
        assert all(each < number for each in smaller)  # the first that had read so many
    for name, source in sources.items():
        folder = tmp_path / "out" / name
        check_checksums(folder)
        found, own = load_checkpoint(folder), load_checkpoint(source)
        assert found.trained == own.trained
        for key, values in own.model.state_dict().items():
            assert values.equal(found.model.state_dict()[key]), key
        assert (folder / STUB_FILE).is_file()
        assert "# out\n" in (folder / "README.md").read_text()
        assert (folder / "training.json").is_file()


@given(
    kept=st.dictionaries(
        st.integers(1, 2000),
        st.lists(st.integers(1, 30), max_size=2, unique=True),
        min_size=1,
        max_size=4,
    ),
    unit=st.sampled_from([1, 500, 1000, 250_000, 1_000_000]),
)
def test_any_kept_checkpoint_has_the_names_of_its_words(kept: dict[int, list[int]], unit: int) -> None:
    """In the order of training; a name is a number of millions, thousands or words, the shortest."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run.json").write_text("{}")
        wanted = []
        for step, numbers in kept.items():
            place = Path(folder, f"step-{step}")
            place.mkdir()
            words = [step * 10**9 + number * unit for number in numbers]  # no two steps have the same
            (place / "config.json").write_text(json.dumps({"kept_at_words": words} if words else {}))
            names = [
                min(
                    (f"{n}", f"{n / 1000:.15g}k", f"{n / 10**6:.15g}M"),
                    key=lambda name: ("." in name, len(name)),
                )
                for n in words
            ]
            wanted.append((step, [f"chck_{name}" for name in names] or [f"step-{step}"]))
        found = [*revisions_of(folder)]
    assert found == [*(name for _, names in sorted(wanted) for name in names), "main"]


def test_a_revision_loads_in_transformers(trained: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import pdtools.hf  # noqa: F401 - tests/package/test_harnesses.py has the stub

    assert exported(trained, tmp_path / "out", "-q") == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "chck_130")
    own = load_checkpoint(revisions_of(trained)["chck_130"]).model
    assert model.lm.state_dict()["embedding.weight"].equal(own.state_dict()["embedding.weight"])


def test_an_export_that_was_stopped_goes_on(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, output, done = export.export_checkpoint, tmp_path / "out", []

    def stopped(loaded: Any, place: Any, **options: Any) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(Path(place).name)
        write(loaded, place, **options)

    with monkeypatch.context() as patched:
        patched.setattr(export, "export_checkpoint", stopped)
        assert exported(trained, output, "-q") == 130
    assert done == NAMES[:2]
    assert sorted(path.name for path in output.iterdir() if path.is_dir()) == sorted(done)
    times = {name: (output / name / "config.json").stat().st_mtime_ns for name in done}
    assert exported(trained, output, "-q") == 0
    assert times == {name: (output / name / "config.json").stat().st_mtime_ns for name in done}
    assert exported(trained, tmp_path / "whole", "-q") == 0
    for name in NAMES:
        sums = [(folder / name / "SHA256SUMS").read_text() for folder in (output, tmp_path / "whole")]
        assert sums[0] == sums[1]
    capsys.readouterr()
    for option in (["--dtype", "float16"], ["--about", "It reads."], ["--results", str(tmp_path)]):
        assert exported(trained, output, *option) == 1  # two kinds are not mixed
        assert "made of something else, or otherwise" in capsys.readouterr().err
    monkeypatch.setattr("pdtools.models.export.code_digest", lambda: "0123456789ab")
    assert exported(trained, output) == 1
    assert f"and this is {__version__}, code 0123456789ab (delete it" in capsys.readouterr().err


def test_what_has_no_revisions_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    for source, output, said, status in (
        (trained / "best", "out", "not a run of pdtools train", 1),
        (tmp_path / "run", "out", "no kept checkpoints .train.keep_at", 1),
        (trained, "mine", "exists already", 1),
    ):
        assert exported(source, tmp_path / output) == status
        error = capsys.readouterr().err
        assert re.search(said, error)
        assert error.count("\n") == 1
        assert not (tmp_path / "out").exists()
    assert exported(trained, tmp_path / "out", "--overwrite") == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


@pytest.fixture(scope="module")
def scored(trained: Path) -> Path:
    """Results of all checkpoints, of pairs of the tiny language."""
    folder = trained.parent.parent
    pairs = folder / "pairs.tsv"
    rows = ["sentence_good\tsentence_bad", "the dog barks\tthe dog sleeps", "a cat sleeps\ta cat sings"]
    pairs.write_text("\n".join([*rows, ""]))
    for checkpoint in sorted(trained.glob("step-*")):
        out = folder / "results" / checkpoint.name / "blimp"
        command = ["eval-blimp", pairs, "--model", checkpoint, "-o", out, "-q", "--device", "cpu"]
        assert run(list(map(str, command))) == 0
    return folder


def test_cards_of_revisions_have_the_scores_of_results(trained: Path, scored: Path, tmp_path: Path) -> None:
    """A score of 0 and perplexities too; scores are on the card of ``main`` alone, whose results they are."""
    (tmp_path / "ties.tsv").write_text("sentence_good\tsentence_bad\nthe dog barks\tthe dog barks\n")
    (tmp_path / "text.txt").write_text("the dog barks\na cat sleeps\n")
    (tmp_path / "a.trees").write_text("(S (A the) (B dog))\n")
    commands = {
        "ties": ["eval-blimp", f"{tmp_path}/ties.tsv", "--model", f"{trained}/best", "--device", "cpu"],
        "ppl": ["eval-ppl", f"{tmp_path}/text.txt", "--model", f"{trained}/best", "--device", "cpu"],
        "parse": ["eval-parse", f"{tmp_path}/a.trees", f"{tmp_path}/a.trees"],
    }
    folders = [next((scored / "results").glob("*/blimp")), *(tmp_path / name for name in commands)]
    for name, command in commands.items():
        assert run([*command, "-o", f"{tmp_path}/{name}", "-q"]) == 0
    given = [part for folder in folders for part in ("--results", str(folder))]
    assert exported(trained, tmp_path / "out", "--about", "It reads.", "--dtype", "bfloat16", *given) == 0
    found = [read_json(folder / "results.json")["scores"] for folder in folders]
    assert found[1]["overall"] == 0
    accuracy = "minimal pairs, accuracy, mean of paradigms (%)"
    shown = [
        (accuracy, 100 * found[0]["overall"]),
        (accuracy, 0.0),
        ("perplexity per word, marginal", found[2]["ppl_word_marginal"]),
        ("F1 of parses (%)", found[3]["f1"]),
    ]
    for name, source in revisions_of(trained).items():
        card = (tmp_path / "out" / name / "README.md").read_text()
        rows = re.findall(r"^\| ([^|]+?) +\| ([0-9.]+) \| `", card, re.MULTILINE)
        assert rows == [(text, f"{value:.2f}") for text, value in shown] * (name == "main")
        assert "exported by pdtools. It reads.\n" in card
        own = load_checkpoint(source).model.state_dict()
        for key, values in load_checkpoint(tmp_path / "out" / name).model.state_dict().items():
            assert values.equal(own[key].bfloat16().float()), key


def test_scores_of_checkpoints_are_drawn_by_words(scored: Path, trained: Path) -> None:
    folders = sorted(str(path) for path in (scored / "results").iterdir())
    page = results_page(folders)
    curve, margins = page.document["curves"]
    assert margins["title"] == "BLiMP margin (bits)"
    steps = {path.name: load_checkpoint(path).config["words"] for path in trained.glob("step-*")}
    assert len(steps) == 3
    accuracies = {
        words: 100 * read_json(scored / "results" / name / "blimp" / "results.json")["scores"]["overall"]
        for name, words in steps.items()
    }
    assert (curve["title"], curve["x"]) == (page.document["overview"][0]["score"], "words read")
    assert {row["series"] for row in curve["rows"]} == {"toy"}
    assert {row["x"]: row["y"] for row in curve["rows"]} == accuracies
    assert [row["x"] for row in curve["rows"]] == sorted(accuracies)
    assert page.document["benchmarks"][0]["pairs"]["rows"] == []  # of three checkpoints of one run
    assert page.notes == ("BLiMP: of a run, only its last checkpoint is compared with others",)
    two = results_page(folders[:2])
    assert [row["b"] for row in two.document["benchmarks"][0]["pairs"]["rows"]] == ["step-2"] * 2
    made = figures(page)
    assert made.charts[curve["id"]]["data"]["values"] == curve["rows"]
    assert made.tables[curve["id"]][0] == ["run", "words read", curve["title"]]
    assert not results_page(folders[:1]).document["curves"]  # one checkpoint is no curve


def test_where_words_are_not_known_steps_are(scored: Path, tmp_path: Path) -> None:
    """Also: two runs are two lines, and a model of others is on none."""
    made = {}
    for run_name in ("one", "two"):
        for name in ("step-1", "step-3"):
            document = read_json(next((scored / "results").glob("*/blimp/results.json")))
            model = document["provenance"]["inputs"]["model"]
            del model["words"]
            model |= {"step": int(name[-1]), "path": f"runs/{run_name}/{name}"}
            model["training"]["seed"] = run_name == "two"
            made[f"{run_name}-{name}"] = document
    document = json.loads(json.dumps(document))
    document["provenance"]["inputs"]["model"] = {"path": "gpt2"}
    made["gpt2"] = document
    items = next((scored / "results").glob("*/blimp/items.parquet")).read_bytes()
    for name, content in made.items():
        (tmp_path / name / "blimp").mkdir(parents=True)
        (tmp_path / name / "blimp" / "results.json").write_text(json.dumps(content))
        (tmp_path / name / "blimp" / "items.parquet").write_bytes(items)
    curve, _ = results_page([str(tmp_path / name) for name in made]).document["curves"]
    assert curve["x"] == "step"
    assert [(row["series"], row["x"]) for row in curve["rows"]] == [
        ("one", 1),
        ("one", 3),
        ("two", 1),
        ("two", 3),
    ]


def test_revisions_of_the_hub_have_a_curve_too(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scored: Path
) -> None:
    assert exported(trained, tmp_path / "shared", "-q") == 0
    with running_hub() as hub:
        for name in NAMES:
            hub.commit("lab/toy", tmp_path / "shared" / name, branch=name)
        use_hub(monkeypatch, hub.url, tmp_path / "cache")
        for name in ("chck_100", "chck_200"):
            command = ["eval-blimp", str(scored / "pairs.tsv"), "--model", f"hf:lab/toy@{name}", "-q"]
            assert run([*command, "-o", str(tmp_path / "results" / name / "blimp"), "--device", "cpu"]) == 0
    curve, _ = results_page([str(path) for path in (tmp_path / "results").iterdir()]).document["curves"]
    assert [row["series"] for row in curve["rows"]] == ["toy", "toy"]


@needs_node
def test_the_page_shows_curves(scored: Path, tmp_path: Path) -> None:
    page = results_page(sorted(str(path) for path in (scored / "results").iterdir()))
    shown = """
const section = all("section").find((each) => each.firstChild.textContent === "Learning curves");
const figure = section.querySelector("figure");
figure.querySelector("details").open = true;
await later();
return [cells(figure), figure.querySelector(".chart").spec.data.values];
"""
    table, values = evaluate(save_page(page, tmp_path / "page.html"), shown)
    curve, _ = page.document["curves"]
    assert values == curve["rows"]
    assert table[0] == ["run", "words read", curve["title"]]
    assert [row[0] for row in table[1:]] == ["toy"] * 3
    single = results_page([str(next((scored / "results").iterdir()))])
    shown = 'return all("h2").map((each) => each.textContent)'
    assert "Learning curves" not in evaluate(save_page(single, tmp_path / "single.html"), shown)
