"""The tour of the code: what it names exists, and what stands beside an equation names it back."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOUR = (REPOSITORY / "docs" / "tour.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n ").split("|")]


ROWS = [cells(line) for line in TOUR.splitlines() if re.match(r"\|.*\| `(?:pdtools|cli)/\S+\.py` \|", line)]
EQUATIONS = [row for row in ROWS if len(row) == 4]


def definition(file: str, name: str) -> ast.FunctionDef | ast.ClassDef:
    """What a dotted name of a file is."""
    found: ast.AST = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    for part in name.split("."):
        inside = [
            node
            for node in getattr(found, "body", [])
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part
        ]
        assert inside, f"{file} has no {name}"
        found = inside[0]
    assert isinstance(found, ast.FunctionDef | ast.ClassDef)
    return found


def quoted(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_every_folder_exists() -> None:
    folders = re.findall(r"`([a-z/]+/)`", TOUR.partition("## The way")[0])
    assert len(folders) > 20
    inside = [
        REPOSITORY / name
        for name in (
            ".",
            "docs",
            "pdtools/models",
            "pdtools/trees",
            "pdtools/report",
            "pdtools/evaluation",
            "pdtools/search",
            "tests",
            "tests/cli",
        )
    ]
    assert [name for name in folders if not any((place / name).is_dir() for place in inside)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_function_exists(row: list[str]) -> None:
    file, names = quoted(row[-2])[0], quoted(row[-1])
    assert names
    for name in names:
        definition(file, name)


@pytest.mark.parametrize("row", EQUATIONS, ids=lambda row: row[1])
def test_functions_name_their_equations(row: list[str]) -> None:
    found = ast.get_docstring(definition(quoted(row[2])[0], quoted(row[3])[0])) or ""
    assert [equation for equation in row[0].split(", ") if equation not in " ".join(found.split())] == []


def test_no_table_is_passed_over() -> None:
    assert len(ROWS) == TOUR.count(".py` |") > len(EQUATIONS) > 10
