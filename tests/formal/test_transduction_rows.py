from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdtools.errors import PdtoolsError
from pdtools.formal import RowLayout, TaskRows, make_task, read_pairs, task_tokenizer


def rows(tmp_path: Path, name: str, line: str, objective: str, *, as_released: bool = False) -> TaskRows:
    task = make_task(name, as_released=as_released)
    file = tmp_path / "pairs.tsv"
    file.write_text(f"length\tx\ty\n{line}\n")
    (pairs,) = read_pairs(task, file).values()
    return layout(name, objective, as_released=as_released).rows(pairs)


def layout(name: str, objective: str, *, as_released: bool = False) -> RowLayout:
    task = make_task(name, as_released=as_released)
    return RowLayout(task=task, tokenizer=task_tokenizer(task), objective=objective)  # type: ignore[arg-type]


def spell(found: TaskRows, name: str, array: np.ndarray, where: np.ndarray | None = None) -> str:
    """Tokens of the first row as text; a dot where they do not matter."""
    tokenizer = task_tokenizer(make_task(name))
    shown = np.ones_like(array[0], dtype=bool) if where is None else where[0]
    texts = (tokenizer.token_text(token) for token in array[0].tolist())
    return " ".join(text if show else "." for text, show in zip(texts, shown, strict=True))


def test_masked(tmp_path: Path) -> None:
    found = rows(tmp_path, "rs", "3\ta a b\tb a a", "masked")
    assert spell(found, "rs", found.tokens) == "<root> a a b <out> <out> <out>"
    assert spell(found, "rs", found.targets, found.scored) == ". . . . b a a"
    assert (found.counted == found.scored).all()
    assert found.first == 4


def test_causal(tmp_path: Path) -> None:
    found = rows(tmp_path, "rs", "3\ta a b\tb a a", "causal")
    assert spell(found, "rs", found.tokens) == "<root> a a b <out> b a a"
    assert spell(found, "rs", found.targets, found.scored) == ". . . . . b a a"
    assert found.first == 5


def test_padding_is_predicted_and_not_counted(tmp_path: Path) -> None:
    line = "3\ta POP PUSH-b\tb END"
    masked = rows(tmp_path, "sm", line, "masked")
    assert spell(masked, "sm", masked.tokens) == "<root> a POP PUSH-b <out> <out> <out> <out>"
    assert spell(masked, "sm", masked.targets, masked.scored) == ". . . . b END END END"
    assert spell(masked, "sm", masked.targets, masked.counted) == ". . . . b END . ."
    causal = rows(tmp_path, "sm", line, "causal")
    assert spell(causal, "sm", causal.tokens) == "<root> a POP PUSH-b <out> b END END END"
    assert spell(causal, "sm", causal.targets, causal.scored) == ". . . . . b END END END"
    assert spell(causal, "sm", causal.targets, causal.counted) == ". . . . . b END . ."


def test_as_released(tmp_path: Path) -> None:
    line = "3\ta POP PUSH-b\tb END"
    masked = rows(tmp_path, "sm", line, "masked", as_released=True)
    assert spell(masked, "sm", masked.tokens) == "<root> a POP PUSH-b <out> <out> <out> <out>"
    assert spell(masked, "sm", masked.targets, masked.scored) == ". . . . b END a a"
    assert spell(masked, "sm", masked.targets, masked.counted) == ". . . . b END . ."
    causal = rows(tmp_path, "sm", line, "causal", as_released=True)
    assert spell(causal, "sm", causal.tokens) == "<root> a POP <out> <out> b END a a"
    assert spell(causal, "sm", causal.targets, causal.scored) == ". . . . . b END a a"
    # Of an equation's symbols the digits and + have embeddings.
    line = "8\t( - 2 + z ) = 3\t0"
    equation = rows(tmp_path, "se", line, "causal", as_released=True)
    assert spell(equation, "se", equation.tokens) == "<root> <out> <out> 2 + <out> <out> <out> 3 <out> 0"
    assert spell(equation, "se", equation.targets, equation.scored) == ". . . . . . . . . . 0"
    whole = rows(tmp_path, "se", line, "causal")
    assert spell(whole, "se", whole.tokens) == "<root> ( - 2 + z ) = 3 <out> 0"


def test_another_tokenizer() -> None:
    with pytest.raises(PdtoolsError, match="not the symbols of the task rs"):
        RowLayout(task=make_task("rs"), tokenizer=task_tokenizer(make_task("sm")), objective="masked")
