"""``pdtools data``: downloads from a server that breaks off, lies, or has no ranges; the bundled records."""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tomllib
from forked import killed_at

import pdtools.data
from pdtools.cli.main import run
from pdtools.evaluation.benchmark.from_toml import BENCHMARKS, read_benchmark
from pdtools.evaluation.benchmark.rows import data_files
from pdtools.files.locks import locked
from pdtools.provenance.datasets import DATA_SETS, download, read_dataset

REPOSITORY = Path(__file__).resolve().parents[3]
DATA = os.environ.get("PDTOOLS_TEST_DATA")
TREES = b"(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n" * 20_000
PAIRS = b'{"sentence_good": "a b", "sentence_bad": "b a"}\n' * 10


class Server(ThreadingHTTPServer):
    """Serves ``files``; what it was asked for is in ``asked``.

    Attributes:
        ranges: whether it knows them.
        shift: how many bytes further its ranges begin than was asked for.
        most: the bytes of its longest range.
        leads: where it sends who asks, instead of an answer.
        error: the status of its answers, if they are errors.
        error_after: the number of answers before one for which it is too busy; 0: it never is.
        cut: after how many bytes of an answer each connection ends; of the following ones, the next number.
        stall: whether it waits there instead, until it is released.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.ranges, self.shift, self.stall = True, 0, threading.Event()
        self.most, self.leads, self.error = 1 << 30, "", 0
        self.error_after = 0
        self.cut: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        self.stall.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing for a client that leaves early: its one line is all that the error stream may hold."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path, asked = self.path[1:], self.headers.get("Range")
        self.server.asked.append((path, asked))
        data = self.server.files.get(path)
        is_busy = self.server.error_after > 0 and len(self.server.asked) == self.server.error_after + 1
        if self.server.leads:
            self.send_response(302)
            self.send_header("Location", self.server.leads)
            self.end_headers()
            return
        if data is None or self.server.error or is_busy:
            self.send_error(self.server.error or (503 if is_busy else 404))
            return
        begin = int(asked.removeprefix("bytes=")[:-1]) if asked and self.server.ranges else 0
        begin += self.server.shift if begin else 0
        if begin and begin >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        stop = min(len(data), begin + self.server.most) if begin else len(data)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(stop - begin))
        self.end_headers()
        end = begin + self.server.cut.pop(0) if self.server.cut else stop
        self.wfile.write(data[begin:end])
        self.wfile.flush()
        self.server.stall.wait(20)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.stall.set()
        made.shutdown()
        thread.join()


def archive(*names: str, link: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for name in names:
            made.writestr(name, PAIRS)
        if link:
            member = zipfile.ZipInfo(link)
            member.external_attr = 0o120777 << 16
            made.writestr(member, "/etc/passwd")
    return packed.getvalue()


def record(server: Server, name: str = "mine", unpack: bool = True, **files: bytes) -> str:
    """A TOML file of the files that the server has, under their names with dots."""
    served = {path.replace("_", "."): data for path, data in files.items()}
    server.files |= served
    lines = [f"{len(data)} {hashlib.sha256(data).hexdigest()} {path}" for path, data in served.items()]
    text = (
        'title = "Mine"\nabout = "mine"\nhome = "http://example.org"\nlicence = "CC BY-NC 4.0"\n'
        'non_commercial = "all"\ngives = "trees"\n'
        + ('unpack = ["data/*.jsonl"]\n' if unpack else "")
        + f'[[from]]\nurl = "{server.url}"\nfiles = """\n'
        + "\n".join(lines)
        + '\n"""\n'
    )
    Path(f"{name}.toml").write_text(text)
    return f"{name}.toml"


def failed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that fails and leaves no data set."""
    assert run(["data", "get", *arguments, "-q"]) == 1
    said = capfd.readouterr().err
    assert said.count("\n") == 1, said
    assert not Path("mine").exists()
    assert not list(Path().rglob("*.tmp"))
    return said


def test_a_data_set_is_checked_unpacked_and_there_once(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    packed = archive("data/a.jsonl", "data/readme", "__MACOSX/data/a.jsonl", "data/.b.jsonl")
    mine = record(server, x_trees=TREES, pairs_zip=packed)
    assert run(["data", "get", mine, "--json"]) == 0
    out, said = capfd.readouterr()
    assert json.loads(out)["done"] == "now"
    assert said.startswith(
        "Mine (http://example.org), licence: CC BY-NC 4.0; NON-COMMERCIAL USE ONLY\n"
    )  # no progress
    found = {path.relative_to("mine").as_posix() for path in Path("mine").rglob("*") if path.is_file()}
    assert found == {"x.trees", "data/a.jsonl", "SOURCE.txt", "pdtools.json"}
    assert Path("mine/x.trees").read_bytes() == TREES
    assert Path("mine/data/a.jsonl").read_bytes() == PAIRS
    source = Path("mine/SOURCE.txt").read_text()
    assert "NON-COMMERCIAL USE ONLY" in source
    assert f"{server.url}pairs.zip" in source
    assert sorted(os.listdir()) == ["mine", "mine.toml"]

    asked = len(server.asked)
    assert run(["data", "get", mine, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["done"] == "already"
    assert len(server.asked) == asked

    Path("mine/data/a.jsonl").write_text("changed\n")
    assert run(["data", "get", mine]) == 1
    assert "mine: exists already" in capfd.readouterr().err
    Path("mine/data/a.jsonl").write_bytes(PAIRS)
    mine = record(server, x_trees=TREES[:-1])  # of another version
    assert run(["data", "get", mine]) == 1
    assert "mine: exists already" in capfd.readouterr().err
    capfd.readouterr()
    assert run(["data", "get", mine, "--overwrite", "--quiet", "-o", "mine"]) == 0
    assert capfd.readouterr() == ("", "")
    assert Path("mine/x.trees").read_bytes() == TREES[:-1]
    assert run(["data", "get", mine, "-o", "elsewhere/x"]) == 0
    assert Path("elsewhere/x/x.trees").read_bytes() == TREES[:-1]
    mine = record(server, x_trees=TREES)
    capfd.readouterr()
    assert run(["data", "get", mine, "--overwrite"]) == 0
    assert "replacing the " in capfd.readouterr().err


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection(server: Server, ranges: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """Opened again while it brings more; else the next command goes on."""
    mine = record(server, x_trees=TREES)
    server.ranges = ranges
    server.cut = [300_000, 400_000]
    assert run(["data", "get", mine]) == 0
    begins = [asked for _, asked in server.asked]
    assert begins == [None, "bytes=300000-", "bytes=700000-" if ranges else "bytes=400000-"]
    assert Path("mine/x.trees").read_bytes() == TREES

    server.asked.clear()
    server.cut = [300_000]
    Path("mine").rename("first")
    capfd.readouterr()
    if ranges:  # a busy server is asked for the rest later, not for all of it at once
        server.error_after = 1
        assert "x.trees: HTTP 503 Service Unavailable (what has come is kept" in failed(capfd, mine)
        server.error_after = 0
        server.asked.clear()
        assert run(["data", "get", mine]) == 0
        assert server.asked == [("x.trees", "bytes=300000-")]
        Path("mine").rename("second")
        server.asked.clear()
    server.cut = [300_000, 0]
    capfd.readouterr()
    said = failed(capfd, mine)
    came = 300_000 if ranges else 0  # of a file that is begun again
    assert f"x.trees: only {came} of {len(TREES)} bytes came: the connection ended" in said
    assert ("the same command goes on" in said) == ranges
    assert run(["data", "get", mine]) == 0
    assert server.asked[-1] == ("x.trees", "bytes=300000-" if ranges else None)
    assert Path("mine/x.trees").read_bytes() == TREES
    assert not Path("mine.download").exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_bytes_that_come_again_are_counted_once(server: Server, ranges: bool, tmp_path: Path) -> None:
    server.files["x"], server.ranges, server.cut = TREES, ranges, [300_000]
    counts: list[int] = []
    digest = hashlib.sha256(TREES).hexdigest()
    download(f"{server.url}x", tmp_path, size=len(TREES), sha256=digest, progress=counts.append)
    assert sum(counts) == len(TREES)
    assert (min(counts) == -300_000) != ranges


def test_a_server_that_says_nothing_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = record(server, x_trees=TREES)
    monkeypatch.setattr("pdtools.provenance.datasets._SECONDS", 0.2)
    server.stall.clear()
    server.cut = [300_000, 0, 0]
    said = failed(capfd, mine)
    assert "bytes came: timed out (what has come is kept" in said
    assert Path("mine.download").is_dir()


def test_a_file_that_is_not_the_one(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    mine = record(server, x_trees=TREES)
    server.files["x.trees"] = TREES.replace(b"dog", b"cat")
    assert "x.trees: its SHA-256 is " in failed(capfd, mine)
    server.files["x.trees"] = TREES + b" "
    assert f"longer than the {len(TREES)} bytes" in failed(capfd, mine)
    del server.files["x.trees"]
    assert "x.trees: HTTP 404 Not Found" in failed(capfd, mine)
    server.error = 416  # though no range is asked for
    assert "x.trees: HTTP 416 " in failed(capfd, mine)
    server.error = 0
    assert os.listdir() == ["mine.toml"]
    server.files["x.trees"] = TREES[:1000]
    assert f"shorter than the {len(TREES)} bytes that it should have" in failed(capfd, mine)
    assert os.listdir() == ["mine.toml"]


@pytest.mark.parametrize(("begin", "shift"), [(300_000, 44), (300_000, len(TREES)), (30_000, 270_000)])
def test_a_server_that_answers_another_range(
    server: Server, begin: int, shift: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Or that has none there: it is asked for all of the file."""
    mine = record(server, x_trees=TREES)
    server.cut, server.shift = [begin], shift
    assert run(["data", "get", mine]) == 0
    assert [asked for _, asked in server.asked] == [None, f"bytes={begin}-", None]
    assert Path("mine/x.trees").read_bytes() == TREES


def test_a_server_of_short_ranges(server: Server) -> None:
    mine = record(server, x_trees=TREES)
    server.cut, server.most = [300_000], 250_000
    assert run(["data", "get", mine]) == 0
    asked = [asked for _, asked in server.asked]
    assert asked == [None, "bytes=300000-", "bytes=550000-", "bytes=800000-"]
    assert Path("mine/x.trees").read_bytes() == TREES


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("http://[::1", "not an address, or one that leads to none: Invalid IPv6 URL"),
        ("http://a..b/y", "not an address, or one that leads to none: "),
        ("http://" + "a" * 70 + "/y", "not an address, or one that leads to none: "),
        ("http://127.0.0.1:port/y", "only 0 of 880000 bytes came: nonnumeric port: 'port'"),
        ("file:///etc/passwd", "HTTP 302 "),
    ],
)
def test_a_redirection_to_nowhere(
    server: Server, place: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = record(server, x_trees=TREES)
    server.leads = place
    assert said in failed(capfd, mine)
    assert os.listdir() == ["mine.toml"]


@pytest.mark.parametrize("there", ["nothing", "too short", "another", "too long", "a link", "the file"])
def test_a_file_of_its_name_is_not_trusted(server: Server, there: str, tmp_path: Path) -> None:
    mine = record(server, x_trees=TREES)
    Path("mine.download").mkdir()
    file = Path("mine.download", hashlib.sha256(TREES).hexdigest())
    found = {"nothing": b"", "too short": TREES[:5000], "another": TREES.replace(b"dog", b"cat")}
    found |= {"too long": TREES + b" ", "a link": TREES[:7], "the file": TREES}
    (tmp_path / "somebody's" if there == "a link" else file).write_bytes(found[there])
    if there == "a link":
        file.symlink_to(tmp_path / "somebody's")
    assert run(["data", "get", mine]) == 0
    wanted = {"too short": ["bytes=5000-"], "the file": []}
    assert [asked for _, asked in server.asked] == wanted.get(there, [None])
    assert Path("mine/x.trees").read_bytes() == TREES
    assert not Path("mine/x.trees").is_symlink()
    assert not Path("mine.download").exists()
    if there == "a link":
        assert (tmp_path / "somebody's").read_bytes() == TREES[:7]


def test_a_linked_folder_of_downloads(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = record(server, x_trees=TREES)
    (tmp_path / "elsewhere").mkdir()
    Path("mine.download").symlink_to("elsewhere")
    assert "mine.download: a symbolic link, which is not followed (delete it)" in failed(capfd, mine)
    assert not list(Path("elsewhere").iterdir())


def test_no_network(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    mine = Path(record(server, x_trees=TREES))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        mine.write_text(mine.read_text().replace(str(server.server_port), str(closed.getsockname()[1])))
    assert "bytes came: Connection refused (is there a network?)" in failed(capfd, str(mine))
    mine.write_text(re.sub(r"http://127\S*", 'http://nowhere.invalid/"', mine.read_text()))
    assert "x.trees: only 0 of 880000 bytes came: " in failed(capfd, str(mine))
    assert os.listdir() == ["mine.toml"]


@pytest.mark.parametrize("ending", [hashlib.sha256(TREES).hexdigest(), ".trees"])
def test_a_full_disk(
    server: Server, ending: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the middle of the download, and when all of it is there."""
    mine = record(server, x_trees=TREES)
    opened = pathlib.Path.open

    class Full(io.BufferedWriter):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 100_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    def full(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        stream = opened(path, mode, *args, **options)
        return Full(stream.detach()) if path.name.endswith(ending) and mode != "rb" else stream

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "open", full)
        assert "cannot be written: No space left on device" in failed(capfd, mine)
    assert run(["data", "get", mine]) == 0
    assert Path("mine/x.trees").read_bytes() == TREES


def test_interrupted_and_again(server: Server, tmp_path: Path) -> None:
    mine = record(server, x_trees=TREES)
    server.cut = [300_000]
    server.stall.clear()
    command = [sys.executable, "-m", "pdtools", "data", "get", mine]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 30
        while not sum(path.stat().st_size for path in tmp_path.glob("*.download/*")):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=90)
    assert process.returncode == 130
    assert said.endswith("pdtools: interrupted\n")
    assert not Path("mine").exists()
    server.stall.set()
    assert run(["data", "get", mine]) == 0
    assert re.fullmatch(r"bytes=[1-9]\d*-", str(server.asked[-1][1]))
    assert Path("mine/x.trees").read_bytes() == TREES


@pytest.mark.parametrize("name", ["../x.jsonl", "/x.jsonl", "data/../../x.jsonl", "..\\x.jsonl", "C:x.jsonl"])
def test_members_that_lead_elsewhere(
    server: Server, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inner").mkdir()
    os.chdir(tmp_path / "inner")
    mine = record(server, pairs_zip=archive("data/a.jsonl", name))
    assert "leads out of the folder" in failed(capfd, mine)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.linux
def test_killed_at_each_operation(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    mine = Path(record(server, x_trees=TREES[:440], pairs_zip=archive("data/a.jsonl"))).absolute()
    top = Path.cwd()
    for operation in itertools.count():
        folder = top / f"{operation}"
        folder.mkdir()
        get = partial(run, ["data", "get", str(mine), "-q", "-o", str(folder / "got")])
        was_killed = killed_at(operation, folder, get)
        if (folder / "got").is_dir():
            break
        assert was_killed
        assert get() == 0, capfd.readouterr().err
        assert os.listdir(folder) == ["got"]
        assert (folder / "got" / "data" / "a.jsonl").read_bytes() == PAIRS
    assert operation > 8


def test_members_that_are_links_or_bombs(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    mine = record(server, pairs_zip=archive("data/a.jsonl", link="data/b.jsonl"))
    assert "data/b.jsonl: a symbolic link" in failed(capfd, mine)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("data/a.jsonl", b"a" * (1 << 23))
    assert "it unpacks to more than" in failed(capfd, record(server, pairs_zip=packed.getvalue()))


def test_two_at_once(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """The second takes nothing from the first, which may have just begun, or replace another version."""
    mine = record(server, x_trees=TREES)
    Path("mine.download").mkdir()
    with locked("mine.download/lock", "taken"):
        assert "mine.download: another process is downloading into it" in failed(capfd, mine)
        assert os.listdir("mine.download") == ["lock"]
    assert run(["data", "get", mine]) == 0
    assert not Path("mine.download").exists()


def test_what_has_come_is_kept_while_another_version_is_there(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "get", record(server, x_trees=TREES[:-1])]) == 0
    mine = record(server, x_trees=TREES)
    server.cut = [300_000, 0]
    assert run(["data", "get", mine, "--overwrite"]) == 1
    assert "the same command goes on" in capfd.readouterr().err
    assert Path("mine/x.trees").read_bytes() == TREES[:-1]
    assert run(["data", "get", mine, "--overwrite"]) == 0
    assert server.asked[-1] == ("x.trees", "bytes=300000-")
    assert Path("mine/x.trees").read_bytes() == TREES


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (("title =", "titel ="), "unknown key 'titel'"),
        (('"Mine"', "3"), "title: 3 is not a str"),
        (('licence = "CC BY-NC 4.0"\n', ""), "without licence"),
        (("x.trees\n", "../x.trees\n"), "'../x.trees' leads out of the folder"),
        (("http://127", "file:///127"), "is not an address of http or https"),
        (('"all"', '"some"'), "non_commercial: one of all, in part"),
        (("880000 ", "many "), "is not bytes, SHA-256, path"),
        (("[[from]]", "[[from"), "Expected"),
        (("[[from]]", '[[from]]\nbundled = "sg"\n[[from]]'), "from.bundled is a list of strings"),
        (("[[from]]", "[[from]]\nbundled = [1]\n[[from]]"), "from.bundled is a list of strings"),
    ],
)
def test_records_that_are_none(
    server: Server, changed: tuple[str, str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = Path(record(server, x_trees=TREES))
    text = mine.read_text()
    assert changed[0] in text
    mine.write_text(text.replace(*changed))
    said = failed(capfd, str(mine))
    assert said.startswith("pdtools: mine.toml: ")
    assert reason in said
    assert not server.asked


def test_the_list(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list"]) == 0
    shown = capfd.readouterr().out
    assert run(["data", "list", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in found] == DATA_SETS.names
    shares = {"all": "; NON-COMMERCIAL USE ONLY", "in part": "; IN PART NON-COMMERCIAL USE ONLY"}
    lines = iter(shown.splitlines())
    for each in found:
        table = tomllib.loads((REPOSITORY / "configs/datasets" / f"{each['name']}.toml").read_text("utf-8"))
        assert {name: each[name] for name in table.keys() - {"from", "unpack"}} == {
            name: table[name] for name in table.keys() - {"from", "unpack"}
        }
        listed = [
            line.split(None, 2) for part in table["from"] for line in part.get("files", "").splitlines()
        ]
        listed = [line for line in listed if line]
        downloads = [file for file in each["files"] if file["place"] is None]
        assert [[str(file["size"]), file["sha256"], file["path"]] for file in downloads] == listed
        assert each["size"] == sum(int(size) for size, _, _ in listed)
        size = f"{each['size'] / 1e6:.1f} MB" if listed else "bundled"
        first, second = next(lines), next(lines)
        assert first.split() == [each["name"], *size.split(), *f"{table['title']}: {table['about']}".split()]
        terms = table["licence"] + shares.get(table.get("non_commercial", ""), "")
        assert second.casefold().strip() == terms.casefold()
        assert len(second) - len(second.lstrip()) == first.index(table["title"])
    assert next(lines, None) is None
    assert run(["data", "get", "nothing"]) == 1
    assert "data sets: blimp, " in capfd.readouterr().err


def test_the_sample_comes_with_pdtools(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each file as it is there, copied once."""
    monkeypatch.setattr("pdtools.provenance.datasets.download", None)
    assert run(["data", "get", "sample"]) == 0
    folder = pdtools.data.scripts().parent
    copied = {path for path in Path("sample").rglob("*") if path.is_file()}
    wanted = {
        path for name in ("treebank", "text", "blimp", "sg", "scripts") for path in (folder / name).rglob("*")
    }
    assert {Path("sample") / path.relative_to(folder) for path in wanted} == copied - {
        Path("sample/SOURCE.txt"),
        Path("sample/pdtools.json"),
    }
    assert all(
        (Path("sample") / path.relative_to(folder)).read_bytes() == path.read_bytes() for path in wanted
    )
    capfd.readouterr()
    assert run(["data", "get", "sample"]) == 0
    assert "there already" in capfd.readouterr().err
    Path("mine.toml").write_text(
        (REPOSITORY / "configs/datasets/sample.toml").read_text("utf-8").replace('"blimp"', '"../configs"')
    )
    assert run(["data", "get", "mine.toml"]) == 1
    assert "leads out of the folder" in capfd.readouterr().err


@pytest.mark.parametrize("name", DATA_SETS.names)
def test_bundled_records(name: str) -> None:
    """At a commit, with a licence, and named on the page where they are used."""
    dataset = read_dataset(name)
    for file in dataset.files:
        if file.place is not None:
            continue
        assert re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", file.url)
    page = (REPOSITORY / "docs" / dataset.page).read_text("utf-8")
    named = (REPOSITORY / "docs/reference/commands/data.md").read_text("utf-8")
    assert f"`{name}`" in named
    assert "commands/data.md" in page or re.search(rf"\bdata get {name}\b", page)
    assert "pdtools data get" in page
    assert ("NC" in dataset.licence) <= (dataset.non_commercial == "all")
    if name in BENCHMARKS.names:
        about = read_benchmark(name).about
        assert about["get"].startswith(f"pdtools data get {name}")
        assert about["licence"] == dataset.licence


@pytest.fixture(scope="module")
def copies() -> dict[str, tuple[str, bytes]]:
    """Names and bytes of the data that tests have, by SHA-256."""
    if DATA is None or not Path(DATA).is_dir():
        pytest.skip("needs PDTOOLS_TEST_DATA: treebanks and benchmarks, which are not in the repository")
    found = {}
    for place in sorted(Path(DATA).rglob("*.zip")):
        found[hashlib.sha256(place.read_bytes()).hexdigest()] = (place.name, place.read_bytes())
        with zipfile.ZipFile(place) as opened:
            for member in opened.namelist():
                data = opened.read(member)
                found[hashlib.sha256(data).hexdigest()] = (member, data)
    return found


def test_records_are_of_the_files_that_tests_have(copies: dict[str, tuple[str, bytes]]) -> None:
    """Whose commits and sums others have written down."""
    known = "".join(Path(str(DATA), place).read_text() for place in ("README.md", "benchmarks/FILES.tsv"))
    for name in DATA_SETS.names:
        for file in (file for file in read_dataset(name).files if file.place is None):
            assert re.findall("[0-9a-f]{40}", file.url)[0][:7] in known
            if name != "two-cities":  # packed otherwise
                member, data = copies[file.sha256]
                assert len(data) == file.size, file
                assert Path(member).suffix == Path(file.path).suffix


@pytest.mark.parametrize(
    "name", [name for name in DATA_SETS.names if name in BENCHMARKS.names and name != "clams"]
)
def test_benchmarks_are_read_from_their_folder(
    name: str, copies: dict[str, tuple[str, bytes]], server: Server
) -> None:
    """From a server that has the files; as many of them as the record says."""
    dataset = read_dataset(name)
    hub = "https://raw.githubusercontent.com/"
    text = (REPOSITORY / "configs" / "datasets" / f"{name}.toml").read_text("utf-8")
    Path("mine.toml").write_text(text.replace(hub, server.url))
    server.files = {file.url.removeprefix(hub): copies[file.sha256][1] for file in dataset.files}
    assert run(["data", "get", "mine.toml", "-o", name, "-q"]) == 0
    files = data_files(name, read_benchmark(name))
    number = re.match(r"\d+", dataset.gives)
    assert len(files) == (int(number[0]) if number else 2 if name == "colorlessgreen" else 1)


def test_the_record_of_the_reference_is_one(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "files" / "datasets.md").read_text("utf-8")
    (tmp_path / "mine.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    dataset = read_dataset(str(tmp_path / "mine.toml"))
    assert [file.url for file in dataset.files] == ["https://example.org/treebank/v1/LICENSE"]
