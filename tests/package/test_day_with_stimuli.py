"""A psycholinguist's day, from a wheel: a workbook, effects, milliseconds, and R, in eight commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_packaging import build_wheel
from toy_workbooks import rows_of, write_workbook

START = ("While the woman washed", "When the man ate", "As the king watched", "After the girl left")
OBJECT, VERB = ("the baby", "the fish", "the play", "the house"), ("cried", "burned", "began", "fell")
MODELS = "--model english-base --model english --beam 4"
DAY = f"""
pdtools surprisal stimuli.xlsx {MODELS} --column item=Item -o surprisals.csv
pdtools view surprisals.csv --factors ambiguity,length --region 3 -o surprisals.html
pdtools compare surprisals.csv --factors ambiguity,length --region 3 -o effects.csv
pdtools eval-reading times.csv {MODELS} --samples 100 -o results/reading
pdtools surprisal stimuli.xlsx {MODELS} --slopes results/reading -o milliseconds.csv
pdtools compare milliseconds.csv --factors ambiguity,length --region 3 -o effects-ms.csv
pdtools data get sample
"""
# One process, which imports torch once.
RUN = """
import shlex, sys
import pdtools
from pdtools.cli.main import run
assert pdtools.__file__.startswith(sys.argv[1]), pdtools.__file__
for command in filter(None, sys.stdin.read().splitlines()):
    assert run(shlex.split(command)[1:]) == 0, command
"""
PACKAGES = 'for (name in c("dplyr", "ggplot2", "lme4", "readr")) library(name, character.only = TRUE)'


@pytest.mark.slow
def test_a_day(tmp_path: Path) -> None:
    site, day = tmp_path / "site", tmp_path / "day"
    zipfile.ZipFile(build_wheel(tmp_path)).extractall(site)
    day.mkdir()
    sheet: list[list[object]] = [["Item", "Condition", "Sentence"]]
    for i, (start, thing, verb) in enumerate(zip(START, OBJECT, VERB, strict=True), 1):
        for comma in ("", ","):
            for more in ("", " of the old town"):
                condition = f"{'amb' if not comma else 'unamb'}_{'long' if more else 'short'}"
                sheet.append([i, condition, f"{start}{comma} | {thing}{more} | {verb} | again."])
    write_workbook(day / "stimuli.xlsx", rows_of(*sheet))
    rng = np.random.default_rng(0)
    texts = [f"{start} {thing} {verb} again." for start in START for thing in OBJECT for verb in VERB]
    rows = [
        (i // 8, word, f"s{s}", round(250 + 12 * len(word) + rng.normal(0, 30)))
        for i, text in enumerate(texts)
        for word in text.split()
        for s in range(4)
    ]
    times = pd.DataFrame(rows, columns=["item", "word", "subject", "time"])
    times["word_number"] = times.groupby(["item", "subject"]).cumcount() + 1
    times.to_csv(day / "times.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(site)],
        input=DAY,
        cwd=day,
        capture_output=True,
        text=True,
        env={"PATH": "", "PYTHONPATH": str(site), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(day / "effects-ms.csv")
    assert found.shape[0] == 4 * 3 * 3  # regions, effects, models and their difference
    plain = pd.read_csv(day / "effects.csv")
    pd.testing.assert_frame_equal(found[plain.columns], plain)
    wide = found[found.bits.abs() > 1e-9].dropna(subset="low")
    assert ((wide.ms_low < wide.ms) & (wide.ms < wide.ms_high)).all()
    assert "not measured" in done.stderr + done.stdout
    assert "item" in pd.read_csv(day / "surprisals.csv").columns
    rscript = shutil.which("Rscript")
    if rscript is None or subprocess.run([rscript, "-e", PACKAGES], capture_output=True).returncode:
        pytest.skip("all but the last command: R, or one of its packages, is not installed")
    command = [rscript, "sample/scripts/stimuli.R", "surprisals.csv", "3"]
    r = subprocess.run(command, cwd=day, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert r.stdout.count("conditionunamb_short") == 2
    assert (day / "surprisals.pdf").read_bytes().startswith(b"%PDF")
