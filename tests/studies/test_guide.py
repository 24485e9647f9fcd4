"""The commands of guide pages, run as they stand there on a few sentences."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from shell import script
from toy_gpt2 import save_gpt2
from toy_hub import keep_model
from toy_reading import WORDS, save_models, words_of, write_counts, write_times

from pdtools.cli.main import run

REPOSITORY = Path(__file__).resolve().parents[2]
# For a few seconds each.
SMALLER = " --set ".join(
    ["", "config.layers=1", "config.d_model=16", "config.heads=2", "config.d_ff=32", "train.steps=2"]
)
STORY = "The dog barks.\nThe cats that saw it sleep.\n\nShe left.\n"
LAST_LAYER = "--set config.pushdown_layers='last 1' --set train.steps=2 --set train.batch_sentences=2"


GUIDE = script(REPOSITORY / "packaging" / "guide.py")
PRINTED = ["install.md", "first-steps.md", "treebanks.md", "train.md", "troubleshooting.md"]
PRINTED += ["stimuli.md", "running-text.md", "benchmarks.md", "comparing.md", "view.md"]


@pytest.mark.parametrize("page", ["../../README.md", *PRINTED])
def test_what_commands_print(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``make guide`` writes the pages anew."""
    text = (REPOSITORY / "docs" / "guide" / page).read_text("utf-8")
    for package in GUIDE.needs(text):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for block, printed in GUIDE.run_page(text):
        assert GUIDE.difference(block.shown or "", printed) is None, block.code


SESSION = """
```csv title="data/a.csv"
x,y
1,2
```

<!-- before:
    cp data/a.csv b.csv
-->

    cat b.csv   # both lines
    printf 'a\\tbb\\nccc\\t7.5\\n'; echo twice >&2

SHOWN
```python
name = "a"
print(name, 7.123)
```

```text
a 7.124
```

    echo twice >&2

```sh
pdtools train for weeks
```

    pdtools show missing 1

```text
pdtools: an error is shown
```
"""


@pytest.mark.parametrize(
    ("shown", "first"),
    [
        ("x,y\n1,2\na    bb\nccc  7.5\ntwice", None),
        ("x,y\n1,2\na bb\nccc 7.53\ntwice", None),
        ("x,y\n…\ntwice", None),
        ("x,y\n1,2\na    bb\nccc  7.7\ntwice", "ccc  7.7"),
        ("x,y\n1,2\na    bc\n…", "a    bc"),
        ("x,y\n1,2", "2 lines"),
    ],
)
def test_pages_as_sessions(
    shown: str, first: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is run, compared and written anew: only what is another."""
    monkeypatch.chdir(tmp_path)
    page = SESSION.replace("SHOWN", f"```text\n{shown}\n```\n")
    found = [GUIDE.difference(block.shown or "", text) for block, text in GUIDE.run_page(page)]
    assert found[1:3] == [None, None]
    assert "missing" in found[3]
    assert found[0] is None if first is None else first in found[0]
    made = GUIDE.rewritten(page)
    assert (f"```text\n{shown}\n```" in made) == (first is None)
    assert "a 7.124" in made
    assert "missing" in made.partition("pdtools show missing 1")[2]
    assert GUIDE.rewritten(made) == made


def test_commands_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="ended with exit status 3"):
        GUIDE.rewritten("    sh -c 'exit 3'\n")


def commands(page: str) -> list[str]:
    """The lines of a page that are commands of pdtools, but for downloads."""
    lines = (REPOSITORY / "docs" / "guide" / page).read_text("utf-8").splitlines()
    return [line.strip() for line in lines if re.match("    pdtools (?!data )", line)]


def shown(page: str) -> list[str]:
    """The commands of pdtools that a page shows and does not run, but for downloads."""
    text = (REPOSITORY / "docs" / "guide" / page).read_text("utf-8")
    fences = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return [
        line.partition(" #")[0].strip()
        for line in fences.splitlines()
        if re.match(r" *pdtools (?!data )", line)
    ]


def keep_gpt2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: list[str]) -> None:
    """A small GPT-2 in the place of ``hf:gpt2``."""
    folder = save_gpt2(tmp_path / "saved", corpus, positions=64)
    keep_model(monkeypatch, tmp_path / "hub", "gpt2", folder)


def test_running_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown with a GPT-2."""
    pytest.importorskip("transformers")
    (tmp_path / "a.trees").write_text("(S (NP (D the) (N dog)) (V barks))\n" * 9)
    (tmp_path / "story.txt").write_text(STORY)
    keep_gpt2(monkeypatch, tmp_path, [STORY])
    monkeypatch.chdir(tmp_path)
    tapes = "tapes a.trees --layout window --window 32 --tokenizer bpe --vocab-size 300 -o windows/valid -q"
    assert run(shlex.split(tapes)) == 0
    found = shown("running-text.md")
    assert len(found) == 2
    for command in found:
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command


def test_reading_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("transformers", "wordfreq"):
        pytest.importorskip(package)
    save_models(tmp_path / "runs")
    keep_gpt2(monkeypatch, tmp_path, [" ".join(WORDS)])
    write_times(tmp_path / "times.tsv")
    write_counts(tmp_path / "counts.tsv")
    rows = [line.split("\t") for line in (tmp_path / "times.tsv").read_text().splitlines()[1:]]
    stories = [f"{subject}\t6\t{i}\t{n}\t{time}\t{word}" for i, n, word, subject, time in rows]
    header = "WorkerId\tcorrect\titem\tzone\tRT\tword"
    (tmp_path / "processed_RTs.tsv").write_text("\n".join([header, *stories]) + "\n")
    words = [f"{word}\t{n}\t{i}" for i in range(6) for n, word in enumerate(words_of(i), 1)]
    (tmp_path / "all_stories.tok").write_text("\n".join(["word\tzone\titem", *words]) + "\n")
    provo = [f'{subject},{i},{n},"{word}",{time},{time}' for i, n, word, subject, time in rows]
    header = "Participant_ID,Text_ID,IA_ID,IA_LABEL,IA_FIRST_RUN_DWELL_TIME,IA_DWELL_TIME"
    (tmp_path / "provo.csv").write_text("\n".join([header, *provo]) + "\n")
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "times.tsv").read_text().replace("\n", "\tamb\n").splitlines()
    lines[0] = lines[0].replace("\tamb", "\tcondition")
    (tmp_path / "conditions.tsv").write_text("\n".join(lines) + "\n")
    found = [command for command in shown("stimuli.md") if " eval-reading " in command]
    assert len(found) == 4
    for command in found:
        if "--fit" in command:  # its table is that of tests/cli/evaluation/test_eval_reading.py
            continue
        options = ["--beam", "2", "--quiet", "--samples", "200", "--device", "cpu"]
        assert run([*shlex.split(command)[1:], *options]) == 0, command


def test_pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for folder in ("articles", "heldout", "more"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.trees").write_text("(S (NP (D the) (N dog)) (V barks))\n" * 40)
    keep_gpt2(monkeypatch, tmp_path, [STORY])
    monkeypatch.chdir(tmp_path)
    found = commands("pretrained.md")
    assert len(found) == 6
    for command in found:
        if "more/" in command:
            (tmp_path / "more/train").symlink_to(tmp_path / "windows/train")
            (tmp_path / "more/valid").symlink_to(tmp_path / "windows/valid")
        command = command.replace("--window 1023", "--window 63")
        last = LAST_LAYER if "--model transformer" not in command else LAST_LAYER.partition("1' ")[2]
        command += f" {last}" if " train " in command else ""
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command


def test_finetuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From two models of windows that have learned nothing."""
    (tmp_path / "GLUE" / "RTE").mkdir(parents=True)
    pairs = ["0\tThe dog barks.\tA dog barks.\tentailment", "1\tShe left.\tCats sleep.\tnot_entailment"]
    for split in ("train", "dev"):
        table = "\n".join(["index\tsentence1\tsentence2\tlabel", *pairs])
        (tmp_path / "GLUE" / "RTE" / f"{split}.tsv").write_text(table + "\n")
    (tmp_path / "a.trees").write_text("(S (NP (D The) (N dog)) (V barks))\n" * 9)
    monkeypatch.chdir(tmp_path)
    tokenizer = "--tokenizer bpe --vocab-size 300 --text-style raw"
    for command in (
        f"tapes a.trees --layout window --window 127 {tokenizer} -o windows/train",
        f"train windows/train --model pushdown --config tiny{SMALLER} -o runs/stage1",
        f"train windows/train --model transformer --config tiny{SMALLER} -o runs/stage1-base",
    ):
        assert run([*shlex.split(command), "--quiet"]) == 0, command
    found = commands("finetuning.md")
    assert len(found) == 11
    for command in found:
        command = command.replace("--window 512", "--window 127")
        command += " --set train.steps=2 --set train.accumulate=1" if " train " in command else ""
        command += " --beam 2" if " decode " in command else ""
        quiet = [] if " compare " in command else ["--quiet"]
        assert run([*shlex.split(command)[1:], *quiet]) == 0, command
    trained = [json.loads(Path(f"runs/{name}/run.json").read_text()) for name in ("rte", "rte-base")]
    assert [each["recipe"]["model"] for each in trained] == ["pushdown", "transformer"]


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of the page, one block after the other, in one namespace."""
    for package in ("transformers", "minicons"):
        pytest.importorskip(package)
    text = (REPOSITORY / "docs" / "guide" / "python.md").read_text("utf-8")
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 8
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    assert "barks" in capsys.readouterr().out


def test_checkpoints_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model of few words."""
    pytest.importorskip("vl_convert")
    monkeypatch.chdir(tmp_path)
    train, revisions = shown("benchmarks.md")[-2:]
    trees = (REPOSITORY / "data" / "treebank" / "train.mrg").read_text("utf-8").splitlines()
    (tmp_path / "train.trees").write_text("\n".join(trees[:60]))
    for part in ("train", "valid"):
        assert run(["tapes", "train.trees", "--min-count", "1", "-o", f"shards/{part}", "-q"]) == 0
    train = f"{train} --config tiny{SMALLER}".replace("1M", "100").replace("2M", "200")
    batches = ["--set", "train.steps=4", "--set", "train.batch_tokens=200", "--device", "cpu", "-q"]
    assert run([*shlex.split(train)[1:], *batches]) == 0
    assert run([*shlex.split(revisions)[1:], "-q"]) == 0
    assert {path.name for path in (tmp_path / "to-share/all").iterdir()} > {"main", "chck_100", "chck_200"}
    steps = sorted((tmp_path / "runs" / "pushdown").glob("step-*"))
    assert len(steps) == 2
    pairs = str(min((REPOSITORY / "data" / "blimp").glob("*.jsonl")))
    for step in steps:
        scored = ["eval-blimp", pairs, "--limit", "4", "--beam", "2", "--model", str(step), "-q"]
        assert run([*scored, "-o", f"results/{step.name}/blimp"]) == 0
    given = [f"results/{step.name}" for step in steps]
    assert run(["view", *given, "-o", "curves.html", "--figures", "curves", "-q"]) == 0
    assert list((tmp_path / "curves").glob("blimp-by-words-*.svg"))


PAGES = {"formal.md": 11, "context-free.md": 5, "stack-rnns.md": 10, "stack-attention.md": 7}


@pytest.mark.parametrize("page", PAGES)
def test_languages_and_stacks(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few strings, and models that are hardly trained."""
    trees = (REPOSITORY / "data" / "treebank" / "valid.mrg").read_text("utf-8").splitlines()[:40]
    lines = [" ".join(re.findall(r"([^\s()]+)\)", tree)) for tree in trees]
    for name in ("ptb.train.txt", "ptb.valid.txt", "wiki.train.raw", "wiki.valid.raw"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for folder in ("suites", "data"):
        (tmp_path / folder).mkdir()
    shutil.copy(REPOSITORY / "data" / "sg" / "mini_npi_ever.json", tmp_path / "suites")
    for name in ("train-1", "train-2", "valid-1", "valid-2"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "shards" / name.partition("-")[0])
    monkeypatch.chdir(tmp_path)
    if page == "stack-attention.md":
        pytest.importorskip("transformers")
        keep_gpt2(monkeypatch, tmp_path, lines)
        assert run(["generate", "dyck", "--number", "20", "--shards", "-o", "shards/train", "--quiet"]) == 0
    found = commands(page)
    assert len(found) == PAGES[page]
    for command in found:
        command = command.partition("   ")[0].replace("--number 512", "--number 1")
        command = re.sub("--number [0-9]{2,}", "--number 36", command)
        command = command.replace("--per-length 100 --lengths 40-100", "--per-length 1 --lengths 40-42")
        command = command.replace("--at-once 20 \\", "--at-once 2 --grid train.seed=1,2 -o runs/jm")
        if re.search("--config (dyck|dcf) | --model transformer ", command):
            command += SMALLER
        elif re.search(" (train|sweep) ", command):
            command += " --set train.steps=2"
        elif " generate cfl " in command and "--number" not in command and "--per-length" not in command:
            command += " --number 36"
        command += " --beam 2 --limit 2" if " eval-formal dyck " in command else ""
        command += " --length 32" if " blocks wiki" in command else ""
        command += " --overwrite" if "ptb" in command else ""  # the page begins anew
        if "shards/test" in command and page == "stack-rnns.md":
            shutil.copytree("shards/valid", "shards/test")
        quiet = [] if " inspect " in command else ["--quiet"]
        assert run([*shlex.split(command)[1:], *quiet]) == 0, command


def test_the_notebook() -> None:
    """Its cells, one after the other, as a notebook runs them."""
    cells = json.loads((REPOSITORY / "examples" / "pdtools.ipynb").read_text("utf-8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 6
    names: dict[str, Any] = {}
    for source in code:
        exec(compile(source, "examples/pdtools.ipynb", "exec"), names)
    assert set(names["both"]) == {"pushdown", "base"}


def test_dependencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (("the", 2), ("dog", 3), ("barks", 0))
    sentence = "# text = the dog barks\n" + "".join(
        f"{place}\t{word}\t_\tX\t_\t_\t{head}\t_\t_\t_\n" for place, (word, head) in enumerate(words, 1)
    )
    for name, times in (("en_lines-ud-train.conllu", 20), ("gold.conllu", 1), ("proposals.conllu", 2)):
        (tmp_path / name).write_text(f"{sentence}\n" * times)
    (tmp_path / "sentences.txt").write_text("the dog barks\n")
    found = commands("dependencies.md")
    assert len(found) == 9
    for command in found:
        command = command.partition(" #")[0].rstrip().replace("--vocab-size 4000", "--vocab-size 300")
        command = command.replace("--config small", f"--config small{SMALLER}")
        assert run(shlex.split(command)[1:]) == 0, command
    shown = capsys.readouterr().out
    assert "UAS (%)" in shown
    assert "1  4  3  2    1 20 10  0" in shown  # depths and distances after the last word
