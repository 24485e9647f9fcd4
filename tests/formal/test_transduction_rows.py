from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.errors import PdtoolsError
from pdtools.formal.transduction_files import read_pairs
from pdtools.formal.transduction_rows import RowLayout, task_tokenizer
from pdtools.formal.transductions import make_task

STACK, EQUATION = "3\ta POP PUSH-b\tb END", "8\t( - 2 + z ) = 3\t0"


@pytest.mark.parametrize(
    ("name", "objective", "as_released", "line", "read", "predicted"),
    [
        ("rs", "masked", False, "3\ta a b\tb a a", "a a b <out> <out> <out>", ". . . b a a"),
        ("rs", "causal", False, "3\ta a b\tb a a", "a a b <out> b a a", ". . . . b a a"),
        ("sm", "masked", False, STACK, "a POP PUSH-b <out> <out> <out> <out>", ". . . b END END END"),
        ("sm", "causal", False, STACK, "a POP PUSH-b <out> b END END END", ". . . . b END END END"),
        ("sm", "masked", True, STACK, "a POP PUSH-b <out> <out> <out> <out>", ". . . b END a a"),
        ("sm", "causal", True, STACK, "a POP <out> <out> b END a a", ". . . . b END a a"),
        # Of an equation's symbols the digits and + have embeddings.
        ("se", "causal", True, EQUATION, "<out> <out> 2 + <out> <out> <out> 3 <out> 0", 9 * ". " + "0"),
        ("se", "causal", False, EQUATION, "( - 2 + z ) = 3 <out> 0", 9 * ". " + "0"),
    ],
)
def test_rows(
    name: str, objective: str, as_released: bool, line: str, read: str, predicted: str, tmp_path: Path
) -> None:
    task = make_task(name, as_released=as_released)
    file = tmp_path / "pairs.tsv"
    file.write_text(f"length\tx\ty\n{line}\n")
    ((length, pairs),) = read_pairs(task, file).items()
    layout = RowLayout(task=task, tokenizer=task_tokenizer(task), objective=objective)  # type: ignore[arg-type]
    batch = layout.batch(pairs)
    assert batch.targets is not None
    assert batch.scored is not None

    def spell(tokens: list[int], shown: list[bool] | None = None) -> str:
        texts = [layout.tokenizer.token_text(token) for token in tokens]
        return " ".join(
            text if is_shown else "."
            for text, is_shown in zip(texts, shown or [True] * len(texts), strict=True)
        )

    assert spell(batch.tokens[0].tolist()) == f"<root> {read}"
    assert spell(batch.targets[0].tolist(), batch.scored[0].tolist()) == f". {predicted}"
    assert batch.scored[0].tolist().index(True) == layout.first_position(length)
    assert batch.tokens.shape[1] == layout.row_length(length)


def test_another_tokenizer() -> None:
    with pytest.raises(PdtoolsError, match="not the symbols of the task rs"):
        RowLayout(task=make_task("rs"), tokenizer=task_tokenizer(make_task("sm")), objective="masked")
