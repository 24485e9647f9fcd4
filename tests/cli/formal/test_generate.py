from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.formal.bracket_prefixes import read_prefixes
from pdtools.formal.dyck import dyck_attachments
from pdtools.formal.transduction_data import read_pairs
from pdtools.formal.transductions import make_task
from pdtools.shards import ShardSet
from pdtools.trees import sentence_layout

DYCK = ["generate", "dyck", "--quiet"]


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert run([*DYCK, *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_strings_one_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawn = lines(capsys, "--number", "50", "--seed", "3")
    assert len(drawn) == 50
    for line in drawn:
        assert len(line.split(" ")) >= 6
        dyck_attachments(line.split(" "))
    assert lines(capsys, "-n", "20", "--seed", "3") == drawn[:20]
    assert lines(capsys, "-n", "20", "--seed", "4") != drawn[:20]
    path = tmp_path / "strings.gz"
    assert lines(capsys, "-n", "50", "--seed", "3", "-o", str(path)) == []
    assert gzip.decompress(path.read_bytes()).decode().splitlines() == drawn


def test_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    free = lines(capsys, "-n", "300", "--setting", "free", "--brackets", "2", "--depth", "3")
    assert "" in free
    assert set(" ".join(free).split()) == {"(1", "(2", ")1", ")2"}
    limits = ("--min-length", "2", "--max-length", "4", "--depth", "1", "--brackets", "1")
    assert set(lines(capsys, "-n", "300", *limits)) == {"(1 )1", "(1 )1 (1 )1"}
    # A limit that is given, also 0, takes the place of the setting's; the others stay.
    short = lines(capsys, "-n", "300", "--setting", "released-like", "--min-length", "0", "--depth", "2")
    assert "" in short
    assert run([*DYCK, "-n", "1", "--max-length", "4"]) == 1  # released-like: 6 or more
    assert "no string meets these conditions" in capsys.readouterr().err


def test_shards_hold_the_language_s_attachments_and_share_a_tokenizer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    drawn = lines(capsys, "-n", "40", "--seed", "3")
    train, test = tmp_path / "train", tmp_path / "test"
    lines(capsys, "-n", "40", "--seed", "3", "--shards", "-o", str(train))
    deeper = ("--depth", "40", "--setting", "free", "--seed", "9")
    lines(capsys, "-n", "10", *deeper, "--shards", "-o", str(test))
    shards, deep = ShardSet.open(train), ShardSet.open(test)
    assert shards.tokenizer.fingerprint == deep.tokenizer.fingerprint
    assert shards.tokenizer.vocab_size == 3 + 40
    assert shards.tokenizer.unk_id is None
    assert shards.manifest["language"]["name"] == "dyck"
    assert shards.manifest["language"]["seed"] == 3
    assert [shards.text(i) for i in range(len(shards))] == drawn
    for i, line in enumerate(drawn):
        tokens = line.split(" ")
        assert shards.attach(i).tolist() == sentence_layout(dyck_attachments(tokens)).tolist()
        assert [shards.tokenizer.token_text(t) for t in shards.tokens(i)[1:-1]] == tokens
        assert shards.tape(i)[-2].max() > 0
    assert run([*DYCK, "-n", "1", "--shards"]) == 2
    assert "name one with -o" in capsys.readouterr().err


def test_prefixes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "dependency.tsv"
    command = ["generate", "dyck-prefixes", "--number", "6", "--seed", "2", "--brackets", "3"]
    assert run([*command, "--dependency", "9", "--depth", "4", "--max-length", "40", "-o", str(path)]) == 0
    assert "6 prefixes, of at most" in capsys.readouterr().err
    prefixes = read_prefixes(path)
    assert len(prefixes) == 6
    assert all(prefix.dependency >= 9 and len(prefix.tokens) <= 40 for prefix in prefixes)
    # Each limit is the one that is given, whichever of the two kinds is made.
    for kind in (["--dependency", "1", "--depth", "2"], ["--depths", "5"]):
        limits = ["--number", "60", "--brackets", "12", "--seed", "4", *kind]
        assert run(["generate", "dyck-prefixes", *limits, "-q", "-o", str(tmp_path / f"{kind[0]}.tsv")]) == 0
        made = read_prefixes(tmp_path / f"{kind[0]}.tsv")
        types = {int(token[1:]) for prefix in made for token in prefix.tokens}
        assert {prefix.depth for prefix in made} == ({1, 2} if kind[0] == "--dependency" else {5})
        assert 10 <= max(types) <= 12
    assert run([*command, "--depths", "4-5", "-q"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split("\t") == ["prefix", "closer", "dependency", "depth"]
    assert run([*command, "--dependency", "9", "-o", f"{tmp_path}/more.tsv", "--json", "-q"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"]["prefixes"] == 6
    settings = {"dependency": 9, "depths": None, "number": 6, "seed": 2, "brackets": 3, "max_length": 600}
    assert document["settings"].items() >= settings.items()
    assert run([*command, "--dependency", "9", "--json"]) == 2  # where would the prefixes go?
    capsys.readouterr()
    assert [line.split("\t")[3] for line in out[1:]] == ["4", "5"] * 3
    for wrong in ([], ["--dependency", "9", "--depths", "4-5"]):
        assert run([*command, *wrong]) == 2
    assert run([*command, "--dependency", "50", "--max-length", "40"]) == 2


@pytest.mark.parametrize("seed", range(12))
def test_any_limits_of_prefixes(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All limits crossed: each holds, is reached, and is in the report."""
    brackets, depth = [2, 5, 12][seed % 3], [2, 3, 30][seed // 3 % 3]
    dependency, most = [3, 7][seed % 2], [12, 30, 90][seed // 2 % 3]
    command = ["generate", "dyck-prefixes", "-n", "60", "--brackets", str(brackets)]
    given = ["--dependency", str(dependency), "--depth", str(depth), "--max-length", str(most)]
    if of_depths := seed % 4 == 3:
        given = ["--depths", "2-4"]
    assert run([*command, *given, "--seed", str(seed), "-o", f"{tmp_path}/p.tsv", "--json", "-q"]) == 0
    report, prefixes = json.loads(capsys.readouterr().out), read_prefixes(tmp_path / "p.tsv")
    deepest, longest, shortest, types = 0, 0, 10**9, set()
    for prefix in prefixes:
        stack: list[int] = []
        for place, token in enumerate(prefix.tokens):
            if token.startswith("("):
                stack.append(place)
            else:
                assert prefix.tokens[stack.pop()][1:] == token[1:]
            deepest = max(deepest, len(stack))
        types |= {token[1:] for token in prefix.tokens}
        assert prefix.closer == f"){prefix.tokens[stack[-1]][1:]}"
        shortest = min(shortest, len(prefix.tokens) - stack[-1])
        longest = max(longest, len(prefix.tokens))
    assert types <= {str(k) for k in range(1, brackets + 1)}
    assert report["counts"] == {"prefixes": 60, "most_tokens": longest}
    settings = {"number": 60, "seed": seed, "brackets": brackets}
    if not of_depths:
        assert (deepest <= depth, longest <= most, shortest >= dependency) == (True, True, True)
        assert deepest == depth or depth == 30
        assert shortest == dependency or shortest == dependency + 1  # closers are at odd distances
        settings |= {"dependency": dependency, "depth": depth, "max_length": most}
    assert report["settings"].items() >= settings.items()
    assert run([*command, *given, "--seed", str(seed + 1), "-o", f"{tmp_path}/other.tsv", "-q"]) == 0
    assert read_prefixes(tmp_path / "other.tsv") != prefixes


def test_pairs_of_a_task(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "sm.tsv"
    command = ["generate", "task", "SM", "--lengths", "3-5", "--number", "4", "--seed", "1"]
    assert run([*command, "-o", str(path)]) == 0
    assert "12 pairs, " in capsys.readouterr().err
    assert [len(pairs) for pairs in read_pairs(make_task("sm"), path).values()] == [4, 4, 4]
    assert run(["generate", "task", "se", "--lengths", "2-9"]) == 1
    assert "se: x has at least 3 symbols, not 2" in capsys.readouterr().err
    assert run([*command, "--json", "-o", str(tmp_path / "again.tsv")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["pairs"] == 12
    settings = {"task": "sm", "as_released": False, "lengths": [3, 5], "number": 4, "seed": 1}
    assert report["settings"] == settings
    assert (tmp_path / "again.tsv").read_text() == path.read_text()
    assert run([*command, "--json"]) == 2  # standard output cannot be both


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ("a-b", "is not a range such as 15-50"),
        ("1-", "is not a range such as 15-50"),
        ("3-1000000", "numbers have at most 6 digits here"),
        (f"{'9' * 5000}-5", "numbers have at most 6 digits here"),
        ("9-2", "a range begins at 1 or more and goes upwards"),
        ("0-2", "a range begins at 1 or more and goes upwards"),
    ],
)
def test_what_is_no_range(lengths: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "task", "rs", "--lengths", lengths]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
