"""All benchmarks, one after the other, and a Markdown table of their figures under the processor's name.

    python benchmarks/table.py [--device cuda] [--dtype bf16] [--lines figures.jsonl]

A benchmark that fails is named at the end, and the exit status is 1. A missed bar is shown, but is no
failure: it depends on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from measure import machine

FOLDER = Path(__file__).resolve().parent
SLACK = 0.1
BENCHMARKS = (
    "prep.py",
    "forms.py",
    "train_step.py",
    "windows.py",
    "loop.py",
    "attention.py",
    "grammar_attention.py",
    "grammar_models.py",
    "treereg.py",
    "gilt_step.py",
    "cross_entropy.py",
    "stack_attention.py",
    "beam.py",
    "suite.py",
    "stacks.py",
)


def figures(script: str, device: str, dtype: str) -> Iterator[dict[str, Any]]:
    """The lines that a benchmark prints, as they come."""
    command = [sys.executable, str(FOLDER / script), "--device", device]
    if script not in ("prep.py", "forms.py"):  # which have no model
        command += ["--dtype", dtype]
    # Torch's profiler tells of every start on standard error; errors are shown only where there are some.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield json.loads(line)
        errors = process.stderr.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)


def verdict(ratio: float, bar: float, at_least: bool) -> str:
    """Return whether a bar is met; other runs give ratios that differ by a tenth."""
    over = bar / ratio if at_least else ratio / bar
    return "met" if over <= 1 else f"met within {SLACK:.0%}" if over <= 1 + SLACK else "missed"


def row(figure: dict[str, Any]) -> str:
    """A line of the table."""
    ratio, bar = figure["ratio"], figure["bar"]
    against = "" if ratio is None else f"{ratio:.3g} × {figure['against']}"
    at_least = figure.get("at_least", False)  # whether the ratio is how many times as fast, not as slow
    held = "" if bar is None else f"{'≥' if at_least else '≤'} {bar}: {verdict(ratio, bar, at_least)}"
    return f"| {figure['name']} | {figure['value']:.4g} {figure['unit']} | {against} | {held} |"


def main() -> int:
    """Run, print, and say by the exit status whether all ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--lines", type=Path, help="file for the figures as JSON lines, with their settings")
    parser.add_argument("--dtype", choices=["float32", "bf16"], help="default: bf16 on a GPU, else float32")
    given = parser.parse_args()
    dtype = given.dtype or ("bf16" if given.device.startswith("cuda") else "float32")
    lines, failed = [], []
    print(f"{machine(given.device)}, torch {torch.__version__}\n")
    print("| figure | value | ratio | bar |\n|---|---|---|---|", flush=True)
    for script in BENCHMARKS:
        try:
            for figure in figures(script, given.device, dtype):
                lines.append(json.dumps(figure, ensure_ascii=False) + "\n")
                print(row(figure), flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(script)
            print(error.stderr, file=sys.stderr)
    if given.lines is not None:
        given.lines.write_text("".join(lines), encoding="utf-8")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
