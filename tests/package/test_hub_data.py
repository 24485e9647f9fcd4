"""Data sets of the Hugging Face hub as inputs: rows as lines, commits, resuming, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_hub import Hub, running_hub, use_hub

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.files import source_of
from pdtools.provenance import hub_data

datasets = pytest.importorskip("datasets", reason="the extra data is not installed")

LINES = ["The dog barks.", "", "A cat (sleeps).", "Ünïcode\u2028dogs bark\n"]
TREE = "(S (DT the) (NN dog))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of Parquet files in two splits, beside a text file of the same lines."""
    monkeypatch.chdir(tmp_path)
    Path("sets").mkdir()
    for split, texts in (("train", LINES), ("test", LINES[:1])):
        columns = {"text": texts, "tree": [TREE] * len(texts), "n": [*range(len(texts))]}
        pq.write_table(pa.table(columns), f"sets/{split}.parquet")
    Path("lines.txt").write_text("".join(line.removesuffix("\n") + "\n" for line in LINES))
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["parse", "--parser", "right-branching"],
        ["blocks", "--length", "4", "--min-count", "1"],
        ["surprisal", "--model", "demo", "--words", "--on-error", "skip"],
    ],
)
def test_rows_are_read_as_lines(command: list[str], folder: Path) -> None:
    for k, name in enumerate(("lines.txt", "hf-data:sets:train:text")):
        assert run([*command, name, "-o", f"out-{k}", "-q"]) == 0
    for made in folder.glob("out-0*"):
        other = made.with_name(made.name.replace("out-0", "out-1"))
        if made.is_dir():
            sources = json.loads((other / "manifest.json").read_text())["sources"]
            assert [each["file"] for each in sources] == ["hf-data:sets:train:text"]
            made, other = (next(each.glob("*.parquet")) for each in (made, other))
            assert pq.read_table(made).equals(pq.read_table(other))
        else:
            assert made.read_text().replace("lines.txt", "hf-data:sets:train:text") == other.read_text()


def test_a_column_of_trees_is_a_treebank(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", "hf-data:sets:train:tree", "hf-data:sets:test:tree", "--from", "treebank"]) == 0
    assert capsys.readouterr().out == f"{TREE}\n" * 5


CASES = {
    "sets:train": "not a data set (write hf-data:NAME[@REVISION][/CONFIG]:SPLIT:COLUMN, where NAME is"
    " OWNER/NAME or a folder)",
    "sets:dev:text": "no split dev: there are train, test",
    "sets:train:texts": "no column texts: there are text, tree, n",
    "sets:train:n": "the column n is no text (int64)",
    "./sets/large:train:text": "no configuration large: there are default"
    " (write hf-data:NAME[@REVISION][/CONFIG]:SPLIT:COLUMN, where NAME is OWNER/NAME or a folder)",
    "json:train:text": "3: an empty cell (null), not text",
    "json:train:words": "no column words: there are text, pair",
    "json:train:pair": "1: a line break inside a cell (a row is read as a line of a file is)",
    "empty:train:text": "no files of data in it (.parquet, .jsonl, .csv)",
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_text_is_said_in_one_line(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in ("json", "empty"):
        Path(made).mkdir()
    rows = [{"text": text, "pair": "a\nb"} for text in ("a", "b", None)]
    Path("json/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in (["parse", "--parser", "right-branching"], ["blocks"]):
        assert run([*command, f"hf-data:{name}", "-o", "out", "-q"]) == 1
        space = "" if CASES[name][0].isdigit() else " "
        assert capsys.readouterr().err == f"pdtools: hf-data:{name}:{space}{CASES[name]}\n"
        assert not Path("out").exists()


# --- the hub ----------------------------------------------------------------------------------


KEPT = " finished chunks are kept in out.job: --resume continues the run\n"


class Data:
    """A data set of the hub, in files of 600 rows; ``asked`` are the rows read, ``at`` the commits."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.asked: list[int] = []
        self.at: list[str] = []

    def rows(self, files: list[int]) -> Iterator[dict[str, str]]:
        for number in (row for file in files for row in range(600 * file, 600 * file + 600)):
            if number == self.fails_at:
                raise ConnectionError("connection lost")
            self.asked.append(number)
            yield {"text": f"dog {number} barks"}

    def load(self, path: str, config: str | None, revision: str, streaming: bool) -> dict[str, Any]:
        assert (path, config, streaming) == ("lab/dogs", None, True)
        self.at.append(revision)
        found = datasets.IterableDataset.from_generator(
            lambda files: self.rows(files), gen_kwargs={"files": [0, 1, 2, 3, 4]}
        )
        return {"train": found}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that knows the commits of ``lab/dogs``."""
    monkeypatch.chdir(tmp_path)
    with running_hub() as made:
        made.commit("lab/dogs", {"README.md": b"dogs"})
        use_hub(monkeypatch, made.url, tmp_path / "cache")
        yield made


@pytest.mark.parametrize(
    ("is_lost", "characters", "begin"),
    [
        # Two times 1,024 rows were kept; the files before row 2,048's are not opened again.
        (False, None, 1800),
        (True, None, 0),
        (False, 3000, 2400),  # more rows were kept, since fewer were kept together
    ],
)
def test_resuming_of_hf_data_by_row(
    is_lost: bool,
    characters: int | None,
    begin: int,
    served: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if characters is not None:
        monkeypatch.setattr(hub_data, "_CHARACTERS", characters)
    first = served.branches["lab/dogs"]["main"]
    pinned = f"hf-data:lab/dogs@{first}:train:text"
    parse = ["parse", "hf-data:lab/dogs:train:text", "--parser", "right-branching", "-q", "-o", "out"]
    broken = Data(fails_at=2500)
    monkeypatch.setattr(datasets, "load_dataset", broken.load)
    assert run(parse) == 1
    assert (
        capsys.readouterr().err == f"pdtools: {pinned}: cannot be read after row 2500: connection lost;{KEPT}"
    )
    assert broken.asked == list(range(2500))

    whole = Data()
    monkeypatch.setattr(datasets, "load_dataset", whole.load)
    second = served.commit("lab/dogs", {"README.md": b"more dogs"})
    assert run([*parse, "--resume"]) == 1
    assert capsys.readouterr().err == (
        f"pdtools: out.job: begun with other settings: data was {pinned}, now"
        f" hf-data:lab/dogs@{second}:train:text (name {pinned} to go on, or delete it to start again)\n"
    )
    assert not whole.asked

    if is_lost:
        next(Path("out.job/rows").glob("00000-*")).unlink()
    monkeypatch.setattr(hub_data, "commit_of", None)  # a commit that is named is not looked up
    assert run([parse[0], pinned, *parse[2:], "--resume"]) == 0
    assert (min(whole.asked), max(whole.asked)) == (begin, 2999)
    assert broken.at == whole.at == [first]
    lines = [f"dog {number} barks" for number in range(3000)]
    Path("lines.txt").write_text("\n".join(lines))
    assert run(["parse", "lines.txt", "--parser", "right-branching", "-q", "-o", "expected"]) == 0
    assert Path("out").read_text() == Path("expected").read_text()
    assert Path("out.text").read_text().splitlines() == lines


def test_resuming_knows_the_commits_of_all_data_sets(
    served: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = f"hf-data:lab/dogs@{served.branches['lab/dogs']['main']}:train:text"
    names = [pinned, "hf-data:lab/dogs:train:text"]
    parse = ["parse", *names, "--parser", "right-branching", "-q", "-o", "out"]
    monkeypatch.setattr(datasets, "load_dataset", Data(fails_at=2500).load)
    assert run(parse) == 1
    second = served.commit("lab/dogs", {"README.md": b"more dogs"})
    capsys.readouterr()
    assert run([*parse, "--resume"]) == 1
    changed = f"data was {pinned}, {pinned}, now {pinned}, hf-data:lab/dogs@{second}:train:text"
    assert changed in capsys.readouterr().err


def test_jobs_read_one_commit(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data()
    monkeypatch.setattr(datasets, "load_dataset", data.load)
    name = "hf-data:lab/dogs:train:text"
    parse = ["parse", name, "--parser", "right-branching", "-q", "-o", "out"]
    for shard in ("0/2", "1/2"):
        monkeypatch.setattr(sys, "argv", ["pdtools", *parse, "--shard", shard])
        assert run([*parse, "--shard", shard]) == 0
    command = json.loads(Path("out.job/job.json").read_text())["command"]
    commit = served.commit("lab/dogs", {"README.md": b"more dogs"})
    assert commit not in command[1]
    assert run(["merge", "out"]) == 0
    assert len(Path("out").read_text().splitlines()) == 3000
    # The second job and the merging one have what the first kept.
    assert data.asked == list(range(3000))
    assert source_of(name).identify() == {"path": name, "hub": command[1].split(":")[1]}


def test_without_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")
    assert run(["blocks", "hf-data:lab/dogs:train:text", "-o", str(tmp_path / "out")]) == 1
    says = "the Hugging Face hub cannot be reached (ConnectionError)"
    assert capsys.readouterr().err == f"pdtools: hf-data:lab/dogs:train:text: {says}\n"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpt:a:b", None),
        ("o/n:a:b", ("o/n", None, None, "a", "b")),
        ("o/n/c.1:a:b", ("o/n", None, "c.1", "a", "b")),
        ("o/n@v1/c:a:b", ("o/n", "v1", "c", "a", "b")),
        ("o/n@refs/convert/parquet:a:b", ("o/n", "refs/convert/parquet", None, "a", "b")),
        ("o/n@refs/pr/3/c:a:b", ("o/n", "refs/pr/3", "c", "a", "b")),
        ("sets:a:b", ("sets", None, None, "a", "b")),
        ("./sets/c:a:b", ("sets", None, "c", "a", "b")),
        ("C:o/n:a:b", None),
        ("o/n::b", None),
        ("/none/there:a:b", None),
    ],
)
def test_names(name: str, parts: tuple[Any, ...] | None, folder: Path) -> None:
    source = source_of(f"hf-data:{name}")
    assert isinstance(source, hub_data.DataSet)
    if parts is None:
        with pytest.raises(InputError, match="not a data set"):
            source.check()
    else:
        found = source.parts
        assert (found.data, found.revision, found.config, found.split, found.column) == parts
