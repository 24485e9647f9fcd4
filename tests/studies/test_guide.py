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
PRINTED = sorted(page.name for page in (REPOSITORY / "docs" / "guide").glob("*.md"))


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
    printf 'a\\tbb\\nccc\\t7.5\\n'; \\
        echo twice >&2

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
        ("x,y\n1,2\na    bb\nccc  7.3\ntwice", "ccc  7.3"),
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


@pytest.mark.parametrize("first_is_hidden", [True, False])
def test_a_command_that_is_hidden_and_seen(
    first_is_hidden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is seen is compared, and written anew; the other one gets no fence."""
    monkeypatch.chdir(tmp_path)
    parts = ["<!-- before:\n    echo one\n-->\n", "    echo one\n\n```text\nother\n```\n"]
    page = "\n".join(parts if first_is_hidden else reversed(parts))
    assert [(block.shown, text) for block, text in GUIDE.run_page(page)] == [("other\n", "one\n")]
    assert GUIDE.rewritten(page) == page.replace("other", "one")


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
        for line in re.sub(r" *\\\n *", " ", fences).splitlines()
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
    means = [f"{word}\t{n}\t{i}\t{time}" for i, n, word, subject, time in rows if subject == rows[0][3]]
    corpus = tmp_path / "natural-stories" / "naturalstories_RTS"
    corpus.mkdir(parents=True)
    (corpus / "processed_wordinfo.tsv").write_text("\n".join(["word\tzone\titem\tmeanItemRT", *means]))
    shutil.copy(tmp_path / "all_stories.tok", corpus)
    provo = [f'{subject},{i},{n},"{word}",{time},{time}' for i, n, word, subject, time in rows]
    header = "Participant_ID,Text_ID,IA_ID,IA_LABEL,IA_FIRST_RUN_DWELL_TIME,IA_DWELL_TIME"
    (tmp_path / "provo.csv").write_text("\n".join([header, *provo]) + "\n")
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "times.tsv").read_text().replace("\n", "\tamb\n").splitlines()
    lines[0] = lines[0].replace("\tamb", "\tcondition")
    (tmp_path / "conditions.tsv").write_text("\n".join(lines) + "\n")
    found = [command for command in shown("stimuli.md") if " eval-reading " in command]
    assert len(found) == 5
    for command in found:
        if "--fit" in command:  # its table is that of tests/cli/evaluation/test_eval_reading.py
            continue
        options = ["--beam", "2", "--quiet", "--samples", "200", "--device", "cpu"]
        assert run([*shlex.split(command)[1:], *options]) == 0, command


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


def test_the_notebook() -> None:
    """Its cells, one after the other, as a notebook runs them."""
    cells = json.loads((REPOSITORY / "examples" / "pdtools.ipynb").read_text("utf-8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 6
    names: dict[str, Any] = {}
    for source in code:
        exec(compile(source, "examples/pdtools.ipynb", "exec"), names)
    assert set(names["both"]) == {"pushdown", "base"}


MODELS = {"choosing.md": 3, "formal.md": 9, "pretrained.md": 6, "coming-from.md": 6}


@pytest.mark.parametrize("page", MODELS)
def test_what_is_shown_with_models(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small GPT-2 as ``hf:gpt2``, few sentences, and models that are hardly trained."""
    pytest.importorskip("transformers")
    trees = (REPOSITORY / "data" / "treebank" / "valid.mrg").read_text("utf-8").splitlines()
    trees = sorted(trees, key=len)[:60]
    lines = [" ".join(re.findall(r"([^\s()]+)\)", tree)) for tree in trees]
    texts = (
        "ptb.train.txt",
        "ptb.valid.txt",
        "wiki.train.raw",
        "wiki.valid.raw",
        "text/a.txt",
        "sentences.txt",
    )
    files = {**dict.fromkeys(texts, "\n".join(lines)), "blimp.tsv": ""}
    files |= dict.fromkeys(
        ("articles/a.trees", "heldout/a.trees", "parsed.trees"), "(S (NP (D the) (N dog)) (V barks))\n" * 40
    )
    files["pairs.tsv"] = "sentence_good\tsentence_bad\nThe dog barks.\tThe dog bark.\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "suites").mkdir()
    shutil.copy(REPOSITORY / "data" / "sg" / "mini_npi_ever.json", tmp_path / "suites")
    keep_gpt2(monkeypatch, tmp_path, lines)
    monkeypatch.chdir(tmp_path)
    found = shown(page)
    assert len(found) == MODELS[page]
    for command in found:
        if re.search(" import | --parser | blimp | bllip-lg ", command):  # which nobody has here
            continue
        command = re.sub("--window 1023", "--window 63", command).replace(
            "treereg_layer=8", "treereg_layer=1"
        )
        command += " --length 32" if " blocks " in command and "ptb" not in command else ""
        command += " --set train.steps=2" if " train " in command else ""
        if "last6" in command and "--model" not in command:
            command += " --set config.pushdown_layers='last 1'"
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command
