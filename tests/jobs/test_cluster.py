"""Chunks on a Dask cluster of two processes, of which one is killed under way."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from toy_work import Doubling

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.jobs import Plan, cut, job_folder, map_chunks
from pdtools.provenance import fingerprint
from pdtools.search.model import Chunk, ModelSettings, ModelWork

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
CHUNKS = list(cut(range(36), 3))
DOUBLED = [2 * number for number in range(36)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import dask

    with (
        dask.config.set({"distributed.scheduler.worker-ttl": None}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as started,
    ):
        yield started


def kill_a_worker(cluster: Any, chunks: Path, at: int) -> threading.Thread:
    """Once so many chunks are kept, kill one of the cluster's processes."""

    def watch() -> None:
        while len(list(chunks.glob("*.zst"))) < at:
            time.sleep(0.01)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_lost_workers_chunks_are_done_again(cluster: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    work, plan = Doubling(log, 0.1), Plan(scheduler=cluster.scheduler_address)
    killer = kill_a_worker(cluster, tmp_path / "out.job" / "pieces", at=3)
    with job_folder(out, {}, plan) as job:
        assert [x for _, result in map_chunks(work, CHUNKS, plan, job) for x in result] == DOUBLED
    killer.join(10)
    assert not killer.is_alive()
    again = [name for name, how_often in work.done().items() if how_often != "once\n"]
    assert len(again) <= 1  # what the killed one was doing


def test_results_that_are_not_kept_come_in_order(cluster: Any, tmp_path: Path) -> None:
    plan = Plan(scheduler=cluster.scheduler_address)
    found = map_chunks(Doubling(tmp_path), CHUNKS, plan, None)
    assert [x for _, result in found for x in result] == DOUBLED


def test_going_on_with_a_cluster(cluster: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    with pytest.raises(KeyboardInterrupt), job_folder(out, {}, Plan()) as job:
        for number, _ in enumerate(map_chunks(Doubling(log), CHUNKS, Plan(), job)):
            if number == 4:
                raise KeyboardInterrupt
    plan = Plan(scheduler=cluster.scheduler_address, resume=True)
    with job_folder(out, {}, plan) as job:
        assert [x for _, result in map_chunks(Doubling(log), CHUNKS, plan, job) for x in result] == DOUBLED
    assert set(Doubling(log).done().values()) == {"once\n"}


def test_an_error_of_a_worker_is_raised(cluster: Any, tmp_path: Path) -> None:
    plan = Plan(scheduler=cluster.scheduler_address)
    with pytest.raises(ValueError, match="negative"):
        list(map_chunks(Doubling(tmp_path), [[1], [-1]], plan, None))


def test_no_scheduler_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.jobs.workers._SECONDS_TO_CONNECT", 0.5)
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        with pytest.raises(PdtoolsError, match=f"--scheduler {address}: no Dask scheduler there"):
            list(map_chunks(Doubling(tmp_path), CHUNKS, Plan(scheduler=address), None))


def test_a_worker_does_not_use_the_model_that_was_there_before(
    cluster: Any, case: Any, tmp_path: Path
) -> None:
    command = case("surprisal")
    at = command.arguments.index("--model") + 1
    model = tmp_path / "model"
    shutil.copytree(command.arguments[at], model)
    command = replace(command, arguments=(*command.arguments[:at], str(model), *command.arguments[at + 1 :]))
    assert run(command("--scheduler", cluster.scheduler_address)) == 0
    before = command.made()
    weights = model / "model.safetensors"
    changed = {name: tensor + 0.1 for name, tensor in load_file(weights).items()}
    save_file(changed, weights)
    (model / "SHA256SUMS").unlink(missing_ok=True)
    command.clear()
    assert run(command()) == 0
    wanted = command.made()
    assert wanted != before
    command.clear()
    assert run(command("--scheduler", cluster.scheduler_address)) == 0
    assert command.made() == wanted


def test_another_model_on_the_workers_machine_is_refused(case: Any) -> None:
    command = case("surprisal")
    model = command.arguments[command.arguments.index("--model") + 1]
    settings = ModelSettings(model_dir=model, fingerprint=fingerprint(model))
    assert ModelWork((settings,), "score")(Chunk(("a",)))
    with pytest.raises(PdtoolsError, match="is not the model that the command was started with"):
        ModelWork((replace(settings, fingerprint="0"),), "score")(Chunk(("a",)))


@pytest.mark.parametrize("name", ["decode", "eval-ppl"])
def test_a_command_whose_worker_is_killed(name: str, cluster: Any, case: Any) -> None:
    command = case(name)
    assert run(command()) == 0
    wanted = command.made()
    command.clear()
    killer = kill_a_worker(cluster, command.output.with_name(f"{name}.job") / "pieces", at=2)
    assert run(command("--scheduler", cluster.scheduler_address)) == 0
    killer.join(10)
    assert command.made() == wanted
