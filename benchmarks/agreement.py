"""Every score of pdtools beside the field's own instrument: one JSON line per comparison.

    python benchmarks/agreement.py            # JSON lines
    python benchmarks/agreement.py --table    # the table of benchmarks/measured.md

A line holds the comparison's ``name``, the ``peer``, the ``peer_value`` and ``ours`` where the two
differ most, that ``difference``, the number of values ``compared``, the difference ``allowed``, and
``settings``. The models are tiny and random, made here; the oracles are the tests'. Real data come
from the folder ``PDTOOLS_TEST_DATA`` (default ``../shared/data`` beside the repository); comparisons without
their data, or a package that is not installed, are skipped and say so. The exit status is 1 if a difference
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from comparison import Line, Missing
from peers import base_perplexity, exhaustive, hugging_face, region_sums
from published import evalb, sg_published

COMPARISONS: tuple[tuple[str, Callable[[Path], Iterator[Line]]], ...] = (
    ("EVALB", lambda folder: evalb()),
    ("SG, published", lambda folder: sg_published()),
    ("Regions", region_sums),
    ("Hugging Face", hugging_face),
    ("Derivations", lambda folder: exhaustive()),
    ("Perplexity", base_perplexity),
)


def compare(folder: Path) -> Iterator[Line]:
    """All comparisons, lazily; models are kept in a folder meanwhile."""
    for name, comparison in COMPARISONS:
        try:
            yield from comparison(folder)
        except Missing as missing:
            yield {"name": name, "skipped": str(missing)}


def table_row(line: Line) -> str:
    """A line of the table in benchmarks/measured.md."""
    if "skipped" in line:
        return f"| {line['name']} | skipped: {line['skipped']} | | | | |"
    numbers = [
        f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in (line["peer_value"], line["ours"])
    ]
    difference = f"{line['difference']:.1g}" if line["difference"] else "0"
    cells = [line["name"], line["peer"], *numbers, difference, str(line["compared"])]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Compare, print, and say by the exit status whether everything agrees."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--table", action="store_true", help="a Markdown table instead of JSON lines")
    as_table = parser.parse_args().table
    torch.set_num_threads(1)
    if as_table:
        print("| score | peer | its number | ours | difference | compared |\n|---|---|---|---|---|---|")
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        for line in compare(Path(folder)):
            print(table_row(line) if as_table else json.dumps(line, ensure_ascii=False), flush=True)
            agree &= line.get("difference", 0) <= line.get("allowed", 0)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
