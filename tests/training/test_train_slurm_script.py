"""The example Slurm script, with stand-ins for Slurm and torchrun."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train.slurm"

# Like torchrun, it dies of SIGUSR1 unless that is ignored, and says 1 where its child says anything but 0.
TORCHRUN = f"""#!{sys.executable}
import os, subprocess, sys
with open(os.environ["RECORD"], "a") as record:
    print("torchrun", *sys.argv[1:], file=record)
sys.exit(subprocess.run([sys.executable, "-c", os.environ["CHILD"]]).returncode != 0)
"""
STOPPED = """
import os, signal, sys, time
def stop(number, frame):
    time.sleep(0.3)
    open(os.environ["READY"].replace("ready", "stopped"), "w").close()
    sys.exit(128 + number)
signal.signal(signal.SIGUSR1, stop)
open(os.environ["READY"], "w").close()
time.sleep(60)
"""
STAND_INS = {
    "srun": '#!/bin/bash\nexec "$@"\n',
    "scontrol": '#!/bin/bash\necho "scontrol $*" >> "$RECORD"\necho host-1\necho host-2\n',
    "torchrun": TORCHRUN,
}


@pytest.mark.skipif(
    shutil.which("pkill") is None or shutil.which("bash") is None, reason="needs pkill and bash"
)
@pytest.mark.parametrize(
    ("child", "sent", "status", "requeued"),
    [
        (STOPPED, signal.SIGUSR1, 0, True),
        (STOPPED, signal.SIGTERM, 1, False),
        ("pass", None, 0, False),
        ("raise SystemExit(1)", None, 1, False),
    ],
)
def test_it_requeues_what_it_stopped(
    child: str, sent: signal.Signals | None, status: int, requeued: bool, tmp_path: Path
) -> None:
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    record, ready = tmp_path / "record", tmp_path / "ready"
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RECORD": str(record),
        "READY": str(ready),
        "CHILD": child,
        "SLURM_JOB_ID": "77",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_JOB_NODELIST": "host-[1-2]",
    }
    process = subprocess.Popen(["bash", SCRIPT, "shards dir", "-o", "run"], env=environment)
    if sent is not None:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(sent)
    assert process.wait(timeout=60) == status
    lines = record.read_text().splitlines()
    assert lines[1] == (
        "torchrun --nnodes 2 --nproc-per-node 4 --rdzv-id 77 --rdzv-backend c10d"
        " --rdzv-endpoint host-1:29500 -m pdtools train shards dir -o run --resume"
    )
    assert ("scontrol requeue 77" in lines) == requeued
    assert ready.with_name("stopped").exists() == (sent is not None)  # it had time to write a checkpoint
