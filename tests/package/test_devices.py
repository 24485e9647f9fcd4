"""How much memory there is: the machine's, or less where the system gives a process less."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pdtools import devices


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


def test_the_time_in_bf16_is_measured() -> None:
    assert 0.01 < devices._bf16_by_float32() < 1000
