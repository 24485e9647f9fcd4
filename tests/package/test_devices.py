"""How much memory there is: the machine's, or less where the system gives a process less."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from pathlib import Path

import pytest
import torch

from pdtools.jobs import devices


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "1000\n"}, 1000),  # as a container sees it
        ("0::/job/step\n", {"job/memory.max": "1000\n", "job/step/memory.max": "max\n"}, 1000),
        ("0::/job/step\n", {"job/memory.max": "3000\n", "job/step/memory.max": "2000\n"}, 2000),
        ("5:cpu:/\n4:memory:/job\n0::/\n", {"memory/job/memory.limit_in_bytes": "1000\n"}, 1000),
        ("4:memory:/gone\n", {"memory/memory.limit_in_bytes": "1000\n"}, 1000),
    ],
)
def test_limits_of_groups_of_processes(
    own: str, limits: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").write_text(own)
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit)
    monkeypatch.setattr(devices, "_CGROUPS", tmp_path)
    monkeypatch.setattr(devices, "_OWN_CGROUPS", tmp_path / "own")
    assert devices.memory_of("cpu") == expected


def test_a_system_without_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_OWN_CGROUPS", tmp_path / "missing")
    assert 2**20 < devices.memory_of("cpu") < 2**60


@pytest.mark.parametrize(
    ("device", "ratio", "expected"), [("cpu", 1.8, 1), ("cpu", 0.6, 0), ("cuda", 1.8, 0)]
)
def test_a_processor_that_is_slower_in_bf16_is_named(
    device: str, ratio: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_bf16_by_float32", lambda: ratio)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices.warn_of_slow_bf16(device)
    assert [str(each.message).count("1.8 times") for each in caught] == [1] * expected


def test_only_a_commands_own_process_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_bf16_by_float32", lambda: 1.8)
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        devices.warn_of_slow_bf16("cpu")


def test_the_time_in_bf16_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.01 < devices._bf16_by_float32.__wrapped__() < 1000
    clock = 0.0

    def product(x: torch.Tensor, y: torch.Tensor) -> None:
        nonlocal clock
        clock += 3.0 if x.dtype == torch.bfloat16 else 2.0

    monkeypatch.setattr(torch, "mm", product)
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    assert devices._bf16_by_float32.__wrapped__() == 1.5
