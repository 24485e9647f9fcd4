from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.errors import InputError
from pdtools.formal import TASKS, make_task, read_pairs, write_pairs


@pytest.mark.parametrize("as_released", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_there_and_back(name: str, as_released: bool, tmp_path: Path) -> None:
    task = make_task(name, as_released=as_released)
    written = {length: task.test_pairs(length, 7, seed=1) for length in (5, 12, 3)}
    file = tmp_path / "pairs.tsv.gz"
    counts = write_pairs(task, written.values(), file)
    assert counts["pairs"] == 21
    found = read_pairs(task, file)
    assert list(found) == [3, 5, 12]
    for length, pairs in found.items():
        assert (pairs.x == written[length].x).all()
        assert (pairs.y == written[length].y).all()
        assert (pairs.counted == written[length].counted).all()
    assert counts["symbols"] == sum(length * 7 + written[length].counted.sum() for length in written)


def test_what_is_written(tmp_path: Path) -> None:
    task = make_task("sm")
    file = tmp_path / "pairs.tsv"
    write_pairs(task, [task.test_pairs(1, 1, seed=2)], file)
    header, line = file.read_text().splitlines()
    assert header == "length\tx\ty"
    assert line in ("1\ta\ta END", "1\tb\tb END")


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("rs", "2\ta b", "2 fields, not length, x and y"),
        ("rs", "3\ta b\tb a", "x has 2 symbols, not 3"),
        ("rs", "two\ta b\tb a", "x has 2 symbols, not two"),
        ("rs", "2\ta c\tc a", "'c' is none of a b"),
        ("rs", "2\ta  b\tb a", "x has 3 symbols, not 2"),
        ("rs", "2\ta b\tb a a", "y has 3 symbols, at most 2"),
        ("ma", "1\t4\t", "'' is none of 0 1 2 3 4"),
        ("ma", "1\t4\t-", "'-' is none of 0 1 2 3 4"),
        ("se", "2\t4 4\t4", "x has at least 3 symbols"),
    ],
)
def test_bad_lines(name: str, line: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(f"length\tx\ty\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_pairs(make_task(name), file)
    assert str(caught.value).startswith(f"{file}:2: no pair of the task {name}: {reason}")


def test_files_without_pairs(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("length\tx\ty\n")
    with pytest.raises(InputError, match="no pairs in it"):
        read_pairs(make_task("rs"), file)
    for text in ("", "x\ty\n", "1\ta\ta\n"):
        file.write_text(text)
        with pytest.raises(InputError, match="1: no header length x y"):
            read_pairs(make_task("rs"), file)
