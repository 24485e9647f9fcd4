"""Fuzz for a given time: rounds of all targets with new random inputs, until the time is over or one fails.

    python tests/fuzz/soak.py --seconds 300 [--examples 200]

Prints one JSON line: rounds, examples of each target in a round, seconds. Exit status 1 if a target failed;
what pytest says of it, with the input, is on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """Read the options and run the rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=300, help="after which no round goes on")
    parser.add_argument("--examples", type=int, default=200, help="of each target in a round")
    given = parser.parse_args()
    start = time.monotonic()
    rounds, failed = 0, False
    while not failed and (left := given.seconds - (time.monotonic() - start)) > 0:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(FOLDER)]
        environment = {**os.environ, "PDTOOLS_FUZZ_EXAMPLES": str(given.examples)}
        seed = f"--hypothesis-seed={time.time_ns() % 2**32}"
        try:
            done = subprocess.run(
                [*command, seed], env=environment, capture_output=True, text=True, timeout=left
            )
        except subprocess.TimeoutExpired:
            break
        rounds += 1
        failed = done.returncode != 0
        if failed:
            print(done.stdout, file=sys.stderr)
    seconds = round(time.monotonic() - start, 1)
    print(json.dumps({"rounds": rounds, "examples": given.examples, "seconds": seconds, "failed": failed}))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
