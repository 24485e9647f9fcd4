from __future__ import annotations

from pathlib import Path

import pytest
from toy_pairs import pairs_of

from pdtools.errors import InputError, PdtoolsError
from pdtools.formal.transduction_data import RowLayout, read_pairs, task_tokenizer, write_pairs
from pdtools.formal.transductions import TASKS, make_task


@pytest.mark.parametrize("as_released", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_there_and_back(name: str, as_released: bool, tmp_path: Path) -> None:
    task = make_task(name, as_released=as_released)
    written = {length: pairs_of(task, length, 7, seed=1) for length in (5, 12, 3)}
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
    other = pairs_of(task, 12, 3, seed=2)
    write_pairs(task, [other], tmp_path / "other.tsv")
    joined = read_pairs(task, file, tmp_path / "other.tsv")
    assert {length: len(pairs) for length, pairs in joined.items()} == {3: 7, 5: 7, 12: 10}
    assert (joined[12].x[7:] == other.x).all()


def test_what_is_written(tmp_path: Path) -> None:
    task = make_task("sm")
    file = tmp_path / "pairs.tsv"
    write_pairs(task, [pairs_of(task, 1, 1, seed=2)], file)
    assert file.read_text() in ("length\tx\ty\n1\ta\ta END\n", "length\tx\ty\n1\tb\tb END\n")


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
        ("rs", "3\ta a b\ta a b", "y has to be b a a"),
        ("rs", "3\ta a b\tb a", "y has to be b a a"),
        ("rs", "20\t" + " ".join("a" * 20) + "\tb", "y has to be " + "a " * 12 + "..."),
        ("sm", "3\ta b POP\ta", "y has to be a END"),
        ("sm", "3\ta b POP\tb END", "y has to be a END"),
        ("sm", "2\tPOP a\tEND", "x: it is no stack with operations behind it"),
        ("sm", "3\ta POP a\ta END", "x: it is no stack with operations behind it"),
        ("sm", "2\ta END\ta END", "x: it is no stack with operations behind it"),
        ("ma", "5\t( 2 * 4 )\t2", "y has to be 3"),
        ("ma", "2\t4 4\t4", "x: it is no digit, nor two parts and an operator in brackets"),
        ("ma", "3\t4 + 4\t3", "x: it is no digit, nor two parts and an operator in brackets"),
        ("ma", "3\t( 4 +\t4", "x: it is no digit, nor two parts and an operator in brackets"),
        ("ma", "2\t4 )\t4", "x: a bracket is not opened"),
        ("ma", "4\t( 4 4 )\t3", "x: brackets hold neither a digit nor two parts and an operator"),
        ("ma", "2\t( )\t0", "x: brackets hold neither a digit nor two parts and an operator"),
        ("ma", "5\t( ( 4 ) )\t4", "x: brackets hold neither a digit nor two parts and an operator"),
        ("ma", "4\t- ( 4 )\t1", "x: it is no digit, nor two parts and an operator in brackets"),
        ("ma", "4\t( - - 4\t4", "x: it is no digit, nor two parts and an operator in brackets"),
        ("se", "7\t( 1 - z ) = 3\t2", "y has to be 3"),
        ("se", "7\t( z - z ) = 0\t2", "x: it is no expression with one z, then = and a digit"),
        ("se", "7\t( 1 - 2 ) = z\t4", "x: it is no expression with one z, then = and a digit"),
        ("se", "7\t( 1 = z ) = 3\t4", "x: what no expression has is in it"),
    ],
)
def test_bad_lines(name: str, line: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(f"length\tx\ty\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_pairs(make_task(name), file)
    assert str(caught.value).startswith(f"{file}:2: no pair of the task {name}: {reason}")


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    deep = " ".join(["("] * 5000 + ["1"] + ["+ 1 )"] * 5000)
    for name, x, y in (
        ("sm", "a POP POP PUSH-b", "b END"),
        ("ma", "( - 3 - ( - 4 ) )", "1"),
        ("ma", "( ( 2 - 4 ) * - 3 )", "1"),
        ("ma", deep, "1"),
        ("se", "( ( 1 + - z ) - 4 ) = 3", "4"),
    ):
        file.write_text(f"length\tx\ty\n{x.count(' ') + 1}\t{x}\t{y}\n")
        assert len(read_pairs(make_task(name), file)) == 1


def test_files_without_pairs(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("length\tx\ty\n")
    full = tmp_path / "full.tsv"
    full.write_text("length\tx\ty\n1\ta\ta\n")
    with pytest.raises(InputError, match="pairs.tsv: no pairs in it"):
        read_pairs(make_task("rs"), full, file)
    for text in ("", "x\ty\n", "1\ta\ta\n"):
        file.write_text(text)
        with pytest.raises(InputError, match="1: no header length x y"):
            read_pairs(make_task("rs"), file)


# --- rows --------------------------------------------------------------------------------------

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
