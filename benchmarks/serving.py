"""How long a page of ``pdtools serve`` waits.

    OMP_NUM_THREADS=1 python benchmarks/serving.py [--rows 100000] [--different 1000]

Prints JSON lines: seconds from the loaded models (the printed address) to the first page; the time of an
answer to a sentence of 20 words at beam 50, and that of ``Model.surprisal`` (means of interleaved runs, in
CPU time); and for a table under demo-base its own time, the longest time without a report of
progress, and the times of sentences that are typed meanwhile.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
import psutil
from serve_client import Client, serving

import pdtools

SENTENCE = (
    "The old man who lived near the river told the children that the boats were sailing toward the open sea"
)
BEAM, ROUNDS = 50, 30
NOUNS = ["boy", "girl", "king", "queen", "judge", "doctor", "nurse", "pilot", "baker", "poet"]
VERBS = [
    "loved",
    "hated",
    "watched",
    "followed",
    "praised",
    "trusted",
    "admired",
    "visited",
    "helped",
    "surprised",
]
KINDS = ["old", "young", "quiet", "famous", "happy", "honest", "tired", "rich", "tall", "sad"]


def stimuli(rows: int, different: int) -> bytes:
    """A table of so many rows in two conditions, and different sentences."""
    rng, known = random.Random(0), dict[str, None]()
    while len(known) < different:
        parts = [rng.choice(each) for each in (KINDS, KINDS, NOUNS, VERBS, KINDS, NOUNS)]
        known["The {}, {} {} | {} | the {} {} | .".format(*parts)] = None
    sentences = list(known)
    cells = [f'{i // 2},{"ab"[i % 2]},"{sentences[i % different]}"' for i in range(rows)]
    return "\n".join(["item,condition,sentence", *cells]).encode()


def say(**figures: Any) -> None:
    """Print a line."""
    print(
        json.dumps({name: round(x, 3) if isinstance(x, float) else x for name, x in figures.items()}),
        flush=True,
    )


def sentence(model: str) -> None:
    """The first page, and a sentence beside ``Model.surprisal``."""
    plain = pdtools.load(model, beam=BEAM)
    with serving(model, options=("--beam", str(BEAM))) as (process, address):
        start = time.perf_counter()
        page = Client(address)
        assert page.entered.status_code == 200
        say(first_page_seconds=time.perf_counter() - start, bytes=len(page.entered.content))
        server, own, served = psutil.Process(process.pid), 0.0, 0.0
        for number in range(ROUNDS + 1):
            start, before = time.process_time(), sum(server.cpu_times()[:2])
            plain.surprisal(SENTENCE)
            middle = time.process_time()
            assert "document" in page.ask("sentence", SENTENCE)
            if number:  # the first of each warms up
                own, served = own + middle - start, served + sum(server.cpu_times()[:2]) - before
    own, served = own / ROUNDS, served / ROUNDS
    say(model=model, beam=BEAM, surprisal_seconds=own, answer_seconds=served, ratio=served / own)


def table(rows: int, different: int) -> None:
    """A table, and sentences that are typed meanwhile."""
    data = stimuli(rows, different)
    with serving("demo-base") as (_, address):
        typed, done = Client(address, "typed"), threading.Event()
        waits, steps = list[float](), list[float]()
        said: dict[str, Any] = {}

        def read() -> None:
            last = time.perf_counter()
            for event in Client(address, "table").events("table", table=data, name="stimuli.csv"):
                now = time.perf_counter()
                steps.append(now - last)
                last = now
                said.update(event if isinstance(event, dict) else {"csv": len(event)})
            done.set()

        begin = time.perf_counter()
        thread = threading.Thread(target=read)
        thread.start()
        while not done.wait(0.5):
            start = time.perf_counter()
            assert "document" in typed.ask("sentence", "The old king loved the quiet queen .")
            waits.append(time.perf_counter() - start)
        thread.join()
        assert "csv" in said, said
        seconds = time.perf_counter() - begin
    parts = statistics.quantiles(waits, n=20)
    say(
        rows=rows,
        different=different,
        seconds=seconds,
        typed=len(waits),
        median_wait=statistics.median(waits),
        wait_95=parts[-1],
    )
    say(longest_wait=max(waits), longest_without_progress=max(steps), csv_bytes=said["csv"])


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--different", type=int, default=1_000, help="sentences among them")
    parser.add_argument("--model", default="english")
    given = parser.parse_args()
    sentence(given.model)
    table(given.rows, given.different)


if __name__ == "__main__":
    main()
