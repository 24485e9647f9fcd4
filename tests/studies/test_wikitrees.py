"""The example script from text in WikiText's style to windows, with a stand-in for Slurm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from shell import Shell

from pdtools.shards import ShardSet

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "wikitrees.sh"
TEXT = """
 = The Dog =\x20

 The man @-@ dog sleeps . The man sleeps 1 @,@ 000 @,@ 000 times .\x20
 A cat sleeps .\x20

 = = The = Cat = =\x20

 A cat sleeps . The dog = the man .\x20
"""
# Does the jobs of an array one after the other.
SBATCH = """#!/bin/sh
echo "$*" >> "$RECORD"
echo 17
shift 2
last=${1#--array=0-}
shift
for SLURM_ARRAY_TASK_ID in $(seq 0 "$last"); do
    export SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT=$((last + 1))
    bash "$@" || exit
done
"""


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("seq") is None, reason="needs bash and seq")
def test_text_becomes_windows(toy_benepar_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="spacy is not installed")
    record = tmp_path / "record"
    (tmp_path / "sbatch").write_text(SBATCH)
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "wiki.raw").write_text(TEXT)
    shell = Shell(tmp_path, RECORD=str(record), MODEL=str(toy_benepar_model), WINDOW="48", VOCAB_SIZE="300")
    shell.environment["PATH"] = f"{tmp_path}:{shell.environment['PATH']}"

    def made(out: str, **more: str) -> ShardSet:
        done = shell.run("sh", SCRIPT, "wiki.raw", out, **more)
        assert done.returncode == 0, done.stderr
        return ShardSet.open(tmp_path / out / "windows")

    plain = made("plain")
    sentences = [(plain.document(i), line) for i in range(len(plain)) for line in plain.text(i).split("\n")]
    assert sentences == [
        (0, "The man-dog sleeps ."),
        (0, "The man sleeps 1,000,000 times ."),
        (0, "A cat sleeps ."),
        (1, "A cat sleeps ."),
        (1, "The dog = the man ."),
    ]
    assert not record.exists()
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "plain").rglob("*")}
    made("plain")
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "plain").rglob("*")}

    divided = made("divided", JOBS="2", TOKENIZER="plain/windows")
    assert "--array=0-1" in record.read_text()
    assert divided.tokenizer.fingerprint == plain.tokenizer.fingerprint
    assert (tmp_path / "divided/trees.zst").read_bytes() == (tmp_path / "plain/trees.zst").read_bytes()
    assert [divided.text(i) for i in range(len(divided))] == [plain.text(i) for i in range(len(plain))]
