"""Random attacks on files that must not be lost: outputs aimed at all files, and hostile files for readers.

    OMP_NUM_THREADS=1 python benchmarks/attack.py [--minutes 5] [--seed N]

Half of the time commands write, with ``--overwrite``, ``--resume``, both or neither, to every name in a
folder: inputs, folders of others, folders of pdtools that hold something of others, links, parents, other
spellings. :func:`may_change` says which files may be replaced; all else has to be the same to the byte after
each command. In the other half a file that a command reads is cut, garbled, or replaced by something that is
no file. Every command has to end by itself with status 0, 1 or 2, in 60 seconds and 2 GB, without a
traceback, and with one line of message if it failed. Each line is a figure (see ``measure.py``). Exit status
1 if anything was lost or ended otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from measure import Figure, machine

from pdtools import data
from pdtools.cli.main import run

SECONDS, BYTES = 60, 2 << 30  # limits of a command
OTHERS = "ten years of work\n"  # the content of others' files

# Folders of nothing but what pdtools wrote. --overwrite may replace them whole.
OURS = ("shards", "split", "results", "run", "empty")
MODEL = ("--model", "run", "--device", "cpu", "--beam", "2")
# Each without its output, whose option comes last; and the files and folders that it reads.
COMMANDS = [
    (f"{command} -q -o".split(), reads.split())
    for command, reads in (
        ("parse x.trees --from treebank", "x.trees"),
        ("parse x.trees --from treebank --split 0.5,0.5", "x.trees"),
        ("parse split --from treebank --on-error skip", "split split/train.trees"),
        ("tapes x.trees", "x.trees"),
        ("tapes x.trees --tokenizer shards", "x.trees shards shards/tokenizer.json"),
        ("blocks lines.txt --length 4", "lines.txt"),
        (
            "train shards --device cpu --config recipe.toml",
            "shards shards/manifest.json shards/part-00000.parquet",
        ),
        ("decode lines.txt @", "lines.txt run/best/config.json run/best/model.safetensors run/best"),
        ("decode lines.txt -o made.trees @ --scores", "lines.txt run"),
        ("surprisal lines.txt @", "lines.txt run/best/tokenizer.json run/best/tokenizer_config.json"),
        ("sample -n 2 @", "run run/best/model.safetensors run/best"),
        ("eval-ppl shards @", "shards run shards/tokenizer.json shards/part-00000.parquet"),
        ("eval-blimp pairs.jsonl @", "pairs.jsonl run"),
        ("eval-blimp pairs.jsonl --write-sentences", "pairs.jsonl"),
        ("eval-parse x.trees x.trees --prm x.prm", "x.trees x.prm"),
        ("generate cfl x.pcfg --lengths 2-3 -n 2", "x.pcfg"),
        ("generate cfl x.pcfg --lengths 2-3 -n 2 --shards", "x.pcfg"),
        ("generate dyck -n 2", ""),
    )
]


def may_change(path: str, output: str, *, replaces: bool, reads: Sequence[str]) -> bool:
    """Return whether a command may change or delete the file at a path: the rule of the attack.

    It may if that is the file that it was told to replace, or in a folder that it was told to replace and in
    which all is from pdtools; but never an input, nor a folder that holds one.

    Args:
        path, output: relative to the folder that is attacked, without dots and links.
        replaces: whether the command was told to replace it.
        reads: the inputs.
    """
    if not replaces or any((name + "/").startswith(output + "/") for name in reads):
        return False
    return path == output or (output in OURS and path.startswith(output + "/"))


@dataclass
class Attack:
    """A folder under attack, and a copy of it as it was.

    Attributes:
        place: the folder.
        rng: draws.
        counts: the outcomes of attempts.
    """

    place: Path
    rng: random.Random
    counts: Counter[str]

    def restore(self) -> None:
        """Restore the folder as it was."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.place.with_name("pristine"), self.place, symlinks=True)

    def attempt(self, kind: str, command: Sequence[str]) -> str:
        """Run a command in the folder; report a wrong end.

        Returns:
            The command's standard error.
        """
        log = self.place.with_name("stderr")
        child = os.fork()
        if not child:
            run_in_copy(self.place, log, command)
        until, status, peak = time.monotonic() + SECONDS, None, 0
        while status is None and time.monotonic() < until:
            ended, code, usage = os.wait4(child, os.WNOHANG)
            if ended:
                status, peak = os.waitstatus_to_exitcode(code), usage.ru_maxrss * 1024
            else:
                time.sleep(0.005)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        message = log.read_text(errors="replace")
        self.counts[f"{kind}, attempts"] += 1
        self.counts[f"{kind}, done"] += status == 0
        lines = message.count("\n")
        if status not in (0, 1, 2) or "Traceback" in message or peak > BYTES or (status == 1 and lines != 1):
            self.report(kind, "bad endings", f"{command}: status {status}, {peak} bytes: {message[-2000:]}")
        return message

    def report(self, kind: str, what: str, why: str) -> None:
        """Count and show a violation."""
        self.counts[f"{kind}, {what}"] += 1
        print(f"{kind}, {what}: {why}", file=sys.stderr, flush=True)

    def write_anywhere(self) -> None:
        """Aim a command's output at something."""
        command, reads = self.rng.choice(COMMANDS)
        names = sorted(before := contents(self.place))
        name = self.rng.choice(
            [*reads, *{n.partition("/")[0] for n in names}, *names, "new", ".", "run/best"]
        )
        name = self.rng.choice(
            ["{}", "{}", "{}", "./{}", "{}/", "{}/.", "{}/..", "{}/new", "thesis/../{}"]
        ).format(name)
        more = self.rng.choice(
            [[], ["--overwrite"], ["--overwrite"], ["--resume", "--overwrite"], ["--resume"]]
        )
        output = os.path.relpath(self.place.joinpath(name).resolve(), self.place.resolve())
        link = os.path.normpath(name)  # a link itself may be replaced, not its target
        self.attempt("outputs", [*expanded(command), name, *more])
        replaces = "--overwrite" in more or (bool(more) and output == "run")  # which is gone on with
        after = contents(self.place)
        for path in sorted(path for path in names if after.get(path) != before[path]):
            if path == link and os.path.islink(self.place.with_name("pristine") / link) and more:
                continue
            if not may_change(path, output, replaces=replaces, reads=reads):
                self.report("outputs", "lost", f"{path} by {command} {name} {more}")
        if after != before:
            self.restore()

    def read_anything(self) -> None:
        """Spoil a file that a command reads."""
        command, reads = self.rng.choice([c for c in COMMANDS if c[1]])
        files = [n for name in reads for n in contents(self.place) if (n + "/").startswith(name + "/")]
        path = self.place / self.rng.choice(files)
        spoil(path, self.rng)
        if path.name != "SHA256SUMS":  # which would find out by itself
            (path.parent / "SHA256SUMS").unlink(missing_ok=True)
        self.attempt("hostile files", [*expanded(command), "out"])
        self.restore()


def run_in_copy(place: Path, log: Path, command: Sequence[str]) -> None:
    """Run a command in a copy of this process, which ends with it."""
    status = 70
    try:
        os.chdir(place)
        for stream, target in ((0, os.devnull), (1, os.devnull), (2, str(log))):
            os.dup2(os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv[1:] = command
        status = run(list(command))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def expanded(command: Sequence[str]) -> list[str]:
    """A command with its model."""
    return [part for word in command for part in (MODEL if word == "@" else (word,))]


def contents(folder: Path) -> dict[str, bytes]:
    """The content of each file and link in a folder and below, by relative path; except locks."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.fsencode(os.readlink(path))
        elif path.is_file() and not path.name.endswith(".lock"):
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def spoil(path: Path, rng: random.Random) -> None:
    """Put something else in the place of a file: parts of it, bytes, JSON of other shapes, or no file."""
    old = path.read_bytes()
    at = rng.randrange(len(old) + 1)
    path.unlink()
    match rng.randrange(8):
        case 0 | 1:
            path.write_bytes(old[:at])
        case 2:
            path.write_bytes(old[:at] + rng.randbytes(rng.randint(1, 9)) + old[at + 1 :])
        case 3:
            path.write_bytes(old[:at] + old[at // 2 : at] * rng.randint(1, 5) + old[at:])
        case 4:
            path.write_bytes(
                rng.choice([b"", b"\0", b"\xff\xfe", b"\n" * 99, rng.randbytes(4096), b"(" * 10**5])
            )
        case 5:
            path.write_bytes(
                rng.choice([b"null", b"[]", b"{}", b"[[]]", b"1e999", b'{"a": NaN}', b"[" * 10**5])
            )
        case 6:
            digits = [i for i, byte in enumerate(old) if chr(byte).isdigit()] or [at]
            at = rng.choice(digits)
            path.write_bytes(
                old[:at] + rng.choice([b"-1", b"1e99", b"9" * 12, b"null", b'"a"']) + old[at + 1 :]
            )
        case _:
            no_file(path, rng)


def no_file(path: Path, rng: random.Random) -> None:
    """A folder, a socket, a device without end, or a link to nowhere."""
    match rng.randrange(4):
        case 0:
            path.mkdir()
        case 1:
            here = os.getcwd()
            os.chdir(path.parent)  # a socket's name must not be long
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
            os.chdir(here)
        case 2:
            path.symlink_to(rng.choice(["/dev/zero", "/dev/null", "/proc/self/mem"]))
        case _:
            path.symlink_to("nowhere")


def make_folder(folder: Path) -> None:
    """Make inputs, a run, results; the same with files of others in them; folders of others; links."""
    folder.mkdir()
    os.chdir(folder)
    commands = (
        f"parse {data.treebank('test')} --from treebank -q -o x.trees",
        "tapes x.trees -q -o shards",
        "parse x.trees --from treebank --split 0.5,0.5 -q -o split",
        "eval-parse x.trees x.trees -q -o results",
        "train shards --config recipe.toml --device cpu -q -o run",
    )
    recipe = "model='pushdown'\n[config]\nlayers=1\nd_model=8\nheads=1\n[train]\nsteps=1\n"
    Path("recipe.toml").write_text(recipe)
    for command in commands:
        sys.argv[1:] = command.split()
        with contextlib.redirect_stdout(io.StringIO()):
            if run(command.split()):
                raise SystemExit(f"{command}: failed")
        if command.startswith(f"parse {data.treebank('test')}"):
            Path("x.trees").write_text("".join(Path("x.trees").read_text().splitlines(keepends=True)[:6]))
    Path("lines.txt").write_text("the dog .\n")
    pair = {"sentence_good": "the dog .", "sentence_bad": "dog the .", "UID": "toy", "pairID": "0"}
    Path("pairs.jsonl").write_text(json.dumps(pair) + "\n")
    Path("x.pcfg").write_text("S -> 'a' S [0.5] | 'a' [0.5]\n")
    Path("x.prm").write_text("DEBUG 0\nLABELED 1\nDELETE_LABEL TOP\n")
    Path("empty").mkdir()
    for name in OURS:
        for number, other in enumerate(("notes.txt", ".notes.old", "deep/er/notes.txt")):
            copy = Path(f"{name}-{number}")
            shutil.copytree(name, copy)
            (copy / other).parent.mkdir(parents=True, exist_ok=True)
            (copy / other).write_text(OTHERS)
    for name, file in (
        ("shards", "README.md"),
        ("split", "train.trees"),
        ("results", "results.json"),
        ("run", "best/tokenizer.json"),
    ):
        changed = Path(shutil.copytree(name, f"{name}-changed"), file)
        changed.write_bytes(changed.read_bytes()[:-1] + b" ")  # the same size
    for name in (
        "thesis/thesis.tex",
        "thesis/results.json",
        "home/.bashrc",
        ".new.old/x",
        ".run.mine.old/x",
        "new.job/x",
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(OTHERS)
    for name in ("thesis", "run", "shards", "lines.txt", "x.trees"):
        Path(f"link-{name}").symlink_to(name)


def main() -> int:
    """Read the options and attack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        make_folder(Path(folder, "pristine"))
        os.chdir("/")
        attack = Attack(Path(folder, "here"), random.Random(given.seed), Counter())
        attack.restore()
        for name, step in (("outputs", attack.write_anywhere), ("hostile files", attack.read_anything)):
            start = time.monotonic()
            while time.monotonic() < start + 30 * given.minutes:
                step()
            attack.counts[f"{name}, seconds"] = round(time.monotonic() - start)
    load = os.getloadavg()[1]
    settings = {"minutes": given.minutes, "seed": given.seed, "load": load, "machine": machine("cpu")}
    wrong = 0
    for name, whats in (("outputs", ("lost", "bad endings")), ("hostile files", ("bad endings",))):
        for what in ("seconds", "attempts", "done", *whats):
            value = float(attack.counts[f"{name}, {what}"])
            wrong += what in whats and value > 0
            print(Figure(name=f"{name}, {what}", value=value, unit="", settings=settings).line(), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
