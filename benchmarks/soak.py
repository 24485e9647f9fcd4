"""Commands killed at random moments, again and again, and resumed; then readers fuzzed.

    OMP_NUM_THREADS=1 python benchmarks/soak.py [--minutes 10]          (make soak; SOAK_MINUTES)

Every command is run undisturbed once. Then it is run with --resume and killed (SIGKILL) at a random moment,
until a run comes to its end; what it made has to be the same to the byte, provenance aside, and nothing may
be left beside it (of ``train``: the weights of ``best/`` and ``last/``, and the trainer's state). Some rounds
use two workers in a process of its own, the others a copy of this process, which starts faster. Two thirds of
the time go into this, the rest into tests/fuzz; what is under way when the time is over is let go to its end.
Each line is a figure (see ``measure.py``). Exit status 1 if anything differed or failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from measure import Figure, machine

from pdtools import data
from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.models import build_model, make_config, save_checkpoint
from pdtools.shards import TokenizerSettings, train_tokenizer
from pdtools.trees import normalize, read_trees

FUZZ = Path(__file__).resolve().parent.parent / "tests" / "fuzz" / "soak.py"
ENTRY = "from pdtools.cli import entry; entry()"
# For a process that has to import everything first.
SECONDS_TO_START = 15.0
MOST_KILLS = 200


@dataclass(frozen=True)
class Case:
    """A command without its output, ``{out}`` in its arguments, which is in a folder of its own."""

    name: str
    arguments: tuple[str, ...]
    in_chunks: bool = True
    compared: str = "*"  # the files compared

    def command(self, folder: Path, *more: str) -> list[str]:
        """The whole command."""
        out = str(folder / "out")
        return [*(part.replace("{out}", out) for part in self.arguments), "-o", out, "--quiet", *more]


@dataclass
class Tally:
    """Counts of kills, resumptions and failures."""

    rounds: int = 0
    kills: int = 0
    differences: int = 0


def main() -> int:
    """Read the options and soak."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES", "10")))
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    given = parser.parse_args()
    torch.set_num_threads(1)
    seconds = 60 * given.minutes
    settings = {"minutes": given.minutes, "seed": given.seed, "machine": machine("cpu")}
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        tallies = kill_commands(Path(folder), random.Random(given.seed), seconds * 2 / 3)
    for name, tally in tallies.items():
        for what in ("rounds", "kills", "differences"):
            value = float(getattr(tally, what))
            print(Figure(name=f"{name}, {what}", value=value, unit="", settings=settings).line(), flush=True)
    failed = any(tally.differences for tally in tallies.values()) or not any(
        t.kills for t in tallies.values()
    )
    if FUZZ.exists():
        done = subprocess.run([sys.executable, str(FUZZ), "--seconds", str(seconds / 3)], check=False)
        failed |= done.returncode != 0
    return int(failed)


def kill_commands(folder: Path, rng: random.Random, seconds: float) -> dict[str, Tally]:
    """Rounds of all commands until the time is over."""
    until = time.monotonic() + seconds
    cases = make_inputs(folder)
    wanted = {case.name: undisturbed(case, folder / "wanted") for case in cases}
    tallies = {case.name: Tally() for case in cases}
    for number, case in zip(itertools.count(), itertools.cycle(cases)):
        if time.monotonic() > until:
            return tallies
        place = folder / "killed"
        place.mkdir()
        tally, (made, usual) = tallies[case.name], wanted[case.name]
        workers = 2 if case.in_chunks and (number // len(cases) + number) % 2 else 1
        tally.kills += kill_until_done(case, place, rng, usual, until, workers=workers)
        tally.rounds += 1
        left = [path.name for path in place.iterdir() if path.match(".*.tmp") or path.suffix == ".job"]
        if contents(place, case.compared) != made or left:
            tally.differences += 1
            print(f"{case.name}: differs after kills, or left {left}", file=sys.stderr)
        shutil.rmtree(place)
    raise AssertionError("rounds do not end by themselves")


def undisturbed(case: Case, folder: Path) -> tuple[dict[str, bytes], float]:
    """Return the files that a command makes, and the seconds that it takes."""
    folder.mkdir()
    start = time.monotonic()
    _, status = os.waitpid(start_copy(case.command(folder)), 0)
    if status:
        raise SystemExit(f"{case.name}: failed undisturbed")
    made = contents(folder, case.compared)
    shutil.rmtree(folder)
    return made, time.monotonic() - start


def kill_until_done(
    case: Case, folder: Path, rng: random.Random, usual: float, until: float, *, workers: int
) -> int:
    """Kill a command at random moments until it has come to its end, and return the number of kills."""
    command = case.command(folder, "--resume", *(["--workers", str(workers)] if case.in_chunks else []))
    longest = usual if workers == 1 else usual + SECONDS_TO_START
    for kills in range(MOST_KILLS):
        # If the end cannot be reached in one go, more and more time is given.
        alarm = rng.uniform(0, longest / 2) * (1 + kills / 5)
        if time.monotonic() > until:
            alarm = math.inf
        if workers == 1:
            process = start_copy(command)
        else:
            process = subprocess.Popen([sys.executable, "-c", ENTRY, *command], stdout=subprocess.DEVNULL).pid
        if (status := wait(process, alarm)) is not None:
            if status:
                print(f"{case.name}: status {status} with --resume", file=sys.stderr)
            return kills
    print(f"{case.name}: no end after {MOST_KILLS} kills", file=sys.stderr)
    return MOST_KILLS


def start_copy(command: Sequence[str]) -> int:
    """Run a command in a copy of this process, and return its number."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.argv[1:] = command
        os._exit(run(list(command)))
    finally:
        os._exit(70)


def wait(process: int, seconds: float) -> int | None:
    """The exit status of a process that ends by itself; None if it had to be killed for that."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def contents(folder: Path, pattern: str) -> dict[str, bytes]:
    """The files in a folder and below, without locks and records of when and how they were made."""
    return {
        str(path.relative_to(folder)): without_provenance(path)
        for path in sorted(folder.rglob(pattern))
        if path.is_file() and path.suffix != ".lock"
    }


def without_provenance(path: Path) -> bytes:
    """The bytes of a file; for a JSON object without ``provenance``."""
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    document = json.loads(content)
    if isinstance(document, dict):
        document.pop("provenance", None)
    return json.dumps(document).encode()


def make_inputs(folder: Path) -> list[Case]:
    """A small random model, text and trees from the bundled treebank, and the commands to be run on them."""
    source = str(data.treebank("train"))
    trees = list(read_trees([source], Rejects()))
    tokenizer = train_tokenizer(trees, TokenizerSettings())
    config = make_config(
        "pushdown",
        {
            "vocab_size": tokenizer.vocab_size,
            "pad_id": tokenizer.pad_id,
            "root_id": tokenizer.root_id,
            "eos_id": tokenizer.eos_id,
            "layers": 1,
            "d_model": 8,
            "heads": 2,
            "d_ff": 16,
            "max_length": 256,
        },
    )
    shards = {"layout": "sentence", "factor": "right", "text_style": tokenizer.text_style}
    save_checkpoint(folder / "model", build_model("pushdown", config), tokenizer, shards=shards)
    sentences = [" ".join(tree.words) for t in trees if (tree := normalize(t.tree)) is not None]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in sentences[:1500]))
    (folder / "trees").mkdir()
    for number in range(6):
        shutil.copy(source, folder / "trees" / f"{number:02d}.mrg")

    model = ("--model", str(folder / "model"), "--device", "cpu", "--threads", "1", "--beam", "2")
    lines = (str(folder / "lines.txt"), "--from", "tokens", *model)
    treebank = str(folder / "trees")
    shards, rows = str(folder / "shards"), str(folder / "rows")
    own = ("--tokenizer", str(folder / "model"))
    for made, arguments in ((shards, (str(data.treebank("test")),)), (rows, (source, *own))):
        if run(["tapes", *arguments, "-o", made, "--quiet"]):
            raise SystemExit("tapes failed")
    steps = ("train.steps=60", "train.eval_every=10", "train.batch_tokens=512")
    shape = ("config.layers=1", "config.d_model=16", "config.heads=2", "config.d_ff=32")
    settings = tuple(f"--set={setting}" for setting in (*steps, *shape))
    parser = ("--parser", str(folder / "model"), *model[2:])
    return [
        Case("eval-blimp", ("eval-blimp", str(data.blimp()), *model)),
        Case("eval-sg", ("eval-sg", str(data.sg()), *model)),
        Case("eval-ppl", ("eval-ppl", rows, *model)),
        Case("surprisal", ("surprisal", *lines, "--on-error", "skip")),
        Case("surprisal --parses", ("surprisal", *lines, "--on-error", "skip", "--parses")),
        Case("decode", ("decode", *lines, "--k-best", "2", "--scores", "{out}.tsv")),
        Case("parse", ("parse", str(folder / "lines.txt"), "--from", "tokens", *parser)),
        Case("parse --from treebank", ("parse", treebank, "--from", "treebank", "--split", "0.9,0.1")),
        Case("tapes", ("tapes", treebank)),
        Case(
            "train",
            ("train", shards, "--valid", shards, "--device", "cpu", "--threads", "1", *settings),
            in_chunks=False,
            compared="*.safetensors",
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
