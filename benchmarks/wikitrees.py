"""From text to windows, stage by stage: time, processor time and peak memory of ``examples/wikitrees.sh``.

    OMP_NUM_THREADS=1 python benchmarks/wikitrees.py --parser RUN [--words 1000000] [--beam 10]

The text is generated, in WikiText's style: sentences of the bundled grammar, in paragraphs of 8,
sections of 3 paragraphs and articles of 4 sections. A JSON line for each stage.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pdtools.data.generate import english, sentences

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "wikitrees.sh"
PER_PARAGRAPH, PER_SECTION, PER_ARTICLE = 8, 24, 96
# A stand-in for pdtools: does the same, and writes down the time and memory taken.
TIMED = f"""#!{sys.executable}
import json, os, resource, subprocess, sys, time
beam = ["--beam", os.environ["BEAM"]] if sys.argv[1] == "parse" else []
start = time.perf_counter()
status = subprocess.run([sys.executable, "-m", "pdtools", *sys.argv[1:], "--quiet", *beam]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(os.environ["TIMES"], "a") as file:
    record = {{"stage": sys.argv[1], "seconds": time.perf_counter() - start,
              "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / 1024}}
    print(json.dumps(record), file=file)
sys.exit(status)
"""


def lines(n_words: int) -> Iterator[str]:
    """Text in WikiText's style, of about this many words."""
    drawn = sentences(english(), random.Random(1), set())
    words = number = 0
    paragraph: list[str] = []
    while words < n_words:
        if number % PER_ARTICLE == 0:
            yield f" \n = Article {number // PER_ARTICLE} = \n \n"
        elif number % PER_SECTION == 0:
            yield f" \n = = Section {number // PER_SECTION} = = \n \n"
        tokens = next(drawn).words()
        words, number = words + len(tokens), number + 1
        paragraph.append(" ".join(tokens).replace("-", " @-@ "))
        if number % PER_PARAGRAPH == 0 or words >= n_words:
            yield f" {' '.join(paragraph)} \n"
            paragraph = []


def main() -> None:
    """Print the cost of each stage."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parser", required=True, help="a checkpoint")
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--beam", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pdtools").write_text(TIMED)
        (folder / "pdtools").chmod(0o755)
        with open(folder / "wiki.raw", "w", encoding="utf-8") as file:
            file.writelines(lines(options.words))
        environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PARSER": str(Path(options.parser).resolve()),
            "BEAM": str(options.beam),
            "TIMES": str(folder / "times"),
        }
        start = time.perf_counter()
        subprocess.run(["sh", str(SCRIPT), "wiki.raw", "out"], cwd=folder, env=environment, check=True)
        whole = time.perf_counter() - start
        found = [json.loads(line) for line in (folder / "times").read_text().splitlines()]
        cleaning = {"stage": "clean", "seconds": whole - sum(record["seconds"] for record in found)}
        cleaning["cpu_seconds"] = cleaning["seconds"]  # sed, and starting processes
        counts = json.loads((folder / "out/windows/manifest.json").read_text())["counts"]
        for record in (cleaning, *found):
            speed = counts["words"] / record["cpu_seconds"]
            print(json.dumps({**record, "words": counts["words"], "words_per_second": round(speed)}))
        sizes = {path.name: path.stat().st_size for path in (folder / "wiki.raw", folder / "out/trees.zst")}
        print(json.dumps({"counts": counts, "bytes": sizes, "threads": os.environ.get("OMP_NUM_THREADS")}))


if __name__ == "__main__":
    main()
