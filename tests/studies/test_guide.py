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
PRINTED = [
    "install.md",
    "first-steps.md",
    "treebanks.md",
    "train.md",
    "troubleshooting.md",
    "choosing.md",
    "formal.md",
    "pretrained.md",
    "python.md",
    "coming-from.md",
]


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
        for line in re.sub(r" *\\\n *", " ", fences).splitlines()
        if re.match(r" *pdtools (?!data )", line)
    ]


def keep_gpt2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: list[str]) -> None:
    """A small GPT-2 in the place of ``hf:gpt2``."""
    folder = save_gpt2(tmp_path / "saved", corpus, positions=64)
    keep_model(monkeypatch, tmp_path / "hub", "gpt2", folder)


def test_running_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for folder, file in (("articles", "train"), ("heldout", "valid")):
        (tmp_path / folder).mkdir()
        trees = (REPOSITORY / "data" / "treebank" / f"{file}.mrg").read_text("utf-8").splitlines()
        (tmp_path / folder / "a.mrg").write_text("\n".join(trees[:60]))
    (tmp_path / "story.txt").write_text(STORY)
    (tmp_path / "pairs.tsv").write_text("sentence_good\tsentence_bad\nThe dog barks.\tThe dog bark.\n")
    (tmp_path / "suites").mkdir()
    shutil.copy(REPOSITORY / "data" / "sg" / "mini_npi_ever.json", tmp_path / "suites")
    keep_gpt2(monkeypatch, tmp_path, [STORY])
    monkeypatch.chdir(tmp_path)
    found = commands("running-text.md")
    assert len(found) == 12
    for command in found:
        command = command.replace("--vocab-size 8000", "--vocab-size 400").replace(
            "--config small", f"--config small{SMALLER}"
        )
        command += " --beam 2" if "runs/pushdown" in command and " train " not in command else ""
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command


def test_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With models, suites and sentences of the bundled words in the place of those of the page."""
    monkeypatch.chdir(tmp_path)
    trees = (REPOSITORY / "data" / "treebank" / "train.mrg").read_text("utf-8").splitlines()
    (tmp_path / "train.mrg").write_text("\n".join(trees[:60]))
    assert run(["parse", "train.mrg", "--from", "treebank", "-o", "train.trees", "-q"]) == 0
    assert run(["tapes", "train.trees", "--min-count", "1", "-o", "shards/train", "-q"]) == 0
    for model, folder in (("pushdown", "pushdown"), ("transformer", "base")):
        command = f"train shards/train --model {model} --config tiny{SMALLER} -o runs/{folder} --quiet"
        assert run(shlex.split(command)) == 0
    (tmp_path / "sg").mkdir()
    suite = (REPOSITORY / "data" / "sg" / "mini_number_orc.json").read_text("utf-8")
    suite = suite.replace("mini_number_orc", "number_src").replace("embed_subject", "embed_np")
    suite = suite.replace('"verb"', '"matrix_v"')
    (tmp_path / "sg" / "number_src.json").write_text(suite)
    found = commands("inside.md")
    assert len(found) == 8
    for command in found:
        command += " --beam 3" if "runs/pushdown" in command and "--beam" not in command else ""
        assert run([*shlex.split(command)[1:]]) == 0, command
    shown = capfd.readouterr().out
    assert "attaches" in shown
    assert "matrix_v is predicted" in shown
    english, sentence, pair, _ = commands("gallery.md")
    english, sentence = (each.replace("--beam 50", "--beam 3") for each in (english, sentence))
    for command in (english, sentence, f"{pair} --beam 3"):
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command


def test_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the file that the page shows, on the rows that it shows."""
    text = (REPOSITORY / "docs" / "guide" / "benchmarks.md").read_text("utf-8")
    for name, form in (("mine.toml", "toml"), ("mine.csv", "csv")):
        (tmp_path / name).write_text(text.split(f"```{form}\n")[1].split("```")[0])
    (tmp_path / "scores.tsv").write_text(
        "item\tstring\tscore\n1\tgood\t-3\n1\tbad\t-4\n2\tgood\t-3\n2\tbad\t-3\n"
    )
    (tmp_path / "pairs.csv").write_text("right;wrong;kind\nThe dog barks.;The dog bark.;agreement\n")
    (tmp_path / "Zorro/sentences/babyberta").mkdir(parents=True)
    (tmp_path / "Zorro/sentences/babyberta/agreement-simple.txt").write_text(
        "the dogs barks .\nthe dog barks .\n"
    )
    monkeypatch.chdir(tmp_path)
    found = commands("benchmarks.md")
    assert len(found) == 9
    for command in found:
        assert run([*shlex.split(command)[1:]]) == 0, command
    assert "50.00" in capsys.readouterr().out  # a tie is not right


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
    found = commands("reading-times.md")
    assert len(found) == 14
    for command in found:
        if "--fit" in command:  # its table is that of tests/cli/evaluation/test_eval_reading.py
            continue
        command += "" if "--beams" in command else " --beam 2"
        assert run([*shlex.split(command)[1:], "--quiet", "--samples", "200", "--device", "cpu"]) == 0, (
            command
        )
    fitted = (
        (REPOSITORY / "docs/guide/reading-times.md").read_text("utf-8").split("```r\n")[1].split("```")[0]
    )
    formula = fitted.partition("lmer(")[2].partition("data =")[0]
    columns = (tmp_path / "all.csv").read_text().partition("\n")[0].split(",")
    assert set(re.findall(r"[a-z_]\w*", formula)) <= set(columns)


def test_stimuli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also its Python; the R script reads columns that are there."""
    for package in ("wordfreq", "vl_convert"):
        pytest.importorskip(package)
    text = (REPOSITORY / "docs" / "guide" / "stimuli.md").read_text("utf-8")
    (tmp_path / "stimuli.csv").write_text(text.split("```csv\n")[1].split("```")[0])
    (tmp_path / "items.csv").write_text("Item;Stimulus\n1;The dog | barks.\n")
    (tmp_path / "pairs.csv").write_text("item,ambiguous,unambiguous\n1,The dog barks.,The dogs bark.\n")
    (tmp_path / "regions.tsv").write_text(
        "item\tcondition\tregion\ttext\n1\ta\t1\tThe dog\n1\ta\t2\tbarks.\n"
    )
    monkeypatch.chdir(tmp_path)
    found = commands("stimuli.md")
    assert len(found) == 6
    for command in found:
        assert run([*shlex.split(command)[1:], "--quiet", "--beam", "3"]) == 0, command
    header = (tmp_path / "surprisals.csv").read_text().partition("\n")[0].split(",")
    assert {"item", "condition", "model", "region", "surprisal", "crossing"} <= set(header)
    assert "frequency" in (tmp_path / "words.csv").read_text().partition("\n")[0]
    names: dict[str, Any] = {}
    exec(compile(text.split("```python\n")[1].split("```")[0], "stimuli.md", "exec"), names)
    assert len(names["found"]) == 28


def test_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert")
    trees = [
        "(S (NP (DT The) (NNS dogs)) (VP (VBP bark)) (. .))",
        "(S (NP (DT The) (NN sister)) (VP (VBD saw)) (. .))",
    ]
    (tmp_path / "test.trees").write_text("\n".join(trees) + "\n")
    monkeypatch.chdir(tmp_path)
    words = ["The", "pilots", "sent", "several", "keys", "chased", "the", "sister", "saw", "dogs", "barks"]
    (tmp_path / "all.trees").write_text(
        "\n".join([*trees, f"(S {' '.join(f'(X {word})' for word in words)})", ""])
    )
    assert run(["tapes", "all.trees", "--tokenizer", "word", "--no-unk", "-o", "shards", "--quiet"]) == 0
    for name, model in (("base", "transformer"), ("pushdown", "pushdown")):
        settings = shlex.split(SMALLER)
        train = ["train", "shards", "--valid", "shards", "--config", "tiny", "--model", model, *settings]
        assert run([*train, "-o", f"runs/{name}", "--quiet"]) == 0
        blimp = ["eval-blimp", "pairs.tsv", "--model", f"runs/{name}", "--beam", "2", "--quiet"]
        (tmp_path / "pairs.tsv").write_text("sentence_good\tsentence_bad\nThe dogs bark.\tThe dogs barks.\n")
        assert run([*blimp, "-o", f"results/{name}/blimp"]) == 0
    (tmp_path / "surprisals.csv").write_text("model,surprisal\nm,1\n")
    found = commands("view.md")
    assert len(found) == 8
    for command in found:
        command += " --beam 2" if "--model" in command and "--beam" not in command else ""
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command


def test_harnesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model to try in the place of the run, and one of few words for its checkpoints."""
    for package in ("transformers", "minicons", "vl_convert"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    export, train, revisions, view = commands("harnesses.md")
    assert run([*shlex.split(export.replace("runs/pushdown", "demo"))[1:], "--quiet"]) == 0
    trees = (REPOSITORY / "data" / "treebank" / "train.mrg").read_text("utf-8").splitlines()
    (tmp_path / "train.trees").write_text("\n".join(trees[:60]))
    for part in ("train", "valid"):
        assert run(["tapes", "train.trees", "--min-count", "1", "-o", f"shards/{part}", "-q"]) == 0
    train = f"{train} --config tiny{SMALLER}".replace("1M", "100").replace("2M", "200")
    batches = ["--set", "train.steps=4", "--set", "train.batch_tokens=200", "--device", "cpu", "-q"]
    assert run([*shlex.split(train)[1:], *batches]) == 0
    assert run([*shlex.split(revisions.replace("to-share/pushdown", "to-share/all"))[1:], "-q"]) == 0
    assert {path.name for path in (tmp_path / "to-share/all").iterdir()} > {"main", "chck_100", "chck_200"}
    steps = sorted((tmp_path / "runs" / "pushdown").glob("step-*"))
    assert len(steps) == 2
    pairs = str(min((REPOSITORY / "data" / "blimp").glob("*.jsonl")))
    for step in steps:
        scored = ["eval-blimp", pairs, "--limit", "4", "--beam", "2", "--model", str(step), "-q"]
        assert run([*scored, "-o", f"results/{step.name}/blimp"]) == 0
    given = [f"results/{step.name}" for step in steps]
    command = shlex.split(view)[1:]
    at = command.index("results/*")
    assert run([*command[:at], *given, *command[at + 1 :], "-q"]) == 0
    assert list((tmp_path / "curves").glob("blimp-by-words-*.svg"))
    text = (REPOSITORY / "docs" / "guide" / "harnesses.md").read_text("utf-8")
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    assert type(namespace["tokenizer"]).__name__ == "PdtoolsTokenizer"
    assert type(vars(namespace["scorer"])["tokenizer"]).__name__ == "PdtoolsTokenizer"


def test_the_notebook() -> None:
    """Its cells, one after the other, as a notebook runs them."""
    cells = json.loads((REPOSITORY / "examples" / "pdtools.ipynb").read_text("utf-8"))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 6
    names: dict[str, Any] = {}
    for source in code:
        exec(compile(source, "examples/pdtools.ipynb", "exec"), names)
    assert set(names["both"]) == {"pushdown", "base"}


MODELS = {"choosing.md": 3, "formal.md": 10, "pretrained.md": 6, "coming-from.md": 6}


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
    for folder in ("suites", "data"):
        (tmp_path / folder).mkdir()
    shutil.copy(REPOSITORY / "data" / "sg" / "mini_npi_ever.json", tmp_path / "suites")
    keep_gpt2(monkeypatch, tmp_path, lines)
    monkeypatch.chdir(tmp_path)
    for name in ("train-1", "train-2", "valid-1", "valid-2"):
        generate = f"generate cfl marked-reversal --number 36 --seed 1 --shards -o data/{name} -q"
        assert page != "formal.md" or run(shlex.split(generate)) == 0
    found = shown(page)
    assert len(found) == MODELS[page]
    for command in found:
        if re.search(" import | --parser | blimp | bllip-lg ", command):  # which nobody has here
            continue
        command = re.sub("--window 1023", "--window 63", command).replace(
            "treereg_layer=8", "treereg_layer=1"
        )
        command = command.replace("--at-once 20", "--at-once 2").replace(
            "train.seed=1,2,3,4,5", "train.seed=1,2"
        )
        command += " --length 32" if " blocks " in command and "ptb" not in command else ""
        command += " --set train.steps=2" if re.search(" (train|sweep) ", command) else ""
        if "last6" in command and "--model" not in command:
            command += " --set config.pushdown_layers='last 1'"
        assert run([*shlex.split(command)[1:], "--quiet"]) == 0, command
