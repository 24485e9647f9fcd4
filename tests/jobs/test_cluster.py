"""Pieces on a Dask cluster of two processes, of which one is killed under way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_work import Doubling

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.jobs import Plan, cut, job_folder, map_pieces

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
PIECES = list(cut(range(36), 3))
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


def kill_a_worker(cluster: Any, pieces: Path, at: int) -> threading.Thread:
    """Once so many pieces are kept, kill one of the cluster's processes."""

    def watch() -> None:
        while len(list(pieces.glob("*.zst"))) < at:
            time.sleep(0.01)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_lost_workers_pieces_are_done_again(cluster: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    work, plan = Doubling(log, 0.1), Plan(scheduler=cluster.scheduler_address)
    killer = kill_a_worker(cluster, tmp_path / "out.job" / "pieces", at=3)
    with job_folder(out, {}, plan) as job:
        assert [x for _, result in map_pieces(work, PIECES, plan, job) for x in result] == DOUBLED
    killer.join(10)
    assert not killer.is_alive()
    again = [name for name, how_often in work.done().items() if how_often != "once\n"]
    assert len(again) <= 1  # what the killed one was doing


def test_results_that_are_not_kept_come_in_order(cluster: Any, tmp_path: Path) -> None:
    plan = Plan(scheduler=cluster.scheduler_address)
    found = map_pieces(Doubling(tmp_path), PIECES, plan, None)
    assert [x for _, result in found for x in result] == DOUBLED


def test_going_on_with_a_cluster(cluster: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    with pytest.raises(KeyboardInterrupt), job_folder(out, {}, Plan()) as job:
        for number, _ in enumerate(map_pieces(Doubling(log), PIECES, Plan(), job)):
            if number == 4:
                raise KeyboardInterrupt
    plan = Plan(scheduler=cluster.scheduler_address, resume=True)
    with job_folder(out, {}, plan) as job:
        assert [x for _, result in map_pieces(Doubling(log), PIECES, plan, job) for x in result] == DOUBLED
    assert set(Doubling(log).done().values()) == {"once\n"}


def test_an_error_of_a_worker_is_raised(cluster: Any, tmp_path: Path) -> None:
    plan = Plan(scheduler=cluster.scheduler_address)
    with pytest.raises(ValueError, match="negative"):
        list(map_pieces(Doubling(tmp_path), [[1], [-1]], plan, None))


def test_no_scheduler_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.jobs.cluster._SECONDS_TO_CONNECT", 0.5)
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        with pytest.raises(PdtoolsError, match=f"--scheduler {address}: no Dask scheduler there"):
            list(map_pieces(Doubling(tmp_path), PIECES, Plan(scheduler=address), None))


@pytest.mark.parametrize("name", ["decode"])
def test_a_command_whose_worker_is_killed(name: str, cluster: Any, case: Any) -> None:
    command = case(name)
    assert run(command()) == 0
    wanted = command.made()
    command.clear()
    killer = kill_a_worker(cluster, command.output.with_name(f"{name}.job") / "pieces", at=2)
    assert run(command("--scheduler", cluster.scheduler_address)) == 0
    killer.join(10)
    assert command.made() == wanted
