"""Sentences in context, and documents in sliding windows, by commands."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from search_oracle import save_checkpoints
from toy_gpt2 import save_gpt2

from pdtools.cli.main import run
from pdtools.search import SentenceScore, load_model
from pdtools.search.contexts import joined
from pdtools.search.options import Context
from pdtools.tokenization import split_spaces

STORY = "a b c\nb a\n\nc c a\na\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("windows")
    found = save_checkpoints(folder, window=12)[0]
    (folder / "story.txt").write_text(STORY)
    (folder / "before.txt").write_text("a b\n\nc\n")
    (folder / "pairs.tsv").write_text("sentence_good\tsentence_bad\na b\tb a\nc b a\tc a a\n")
    return {
        **found,
        "story": folder / "story.txt",
        "before": folder / "before.txt",
        "pairs": folder / "pairs.tsv",
    }


def table(capsys: pytest.CaptureFixture[str], *command: str | Path) -> list[dict[str, str]]:
    assert run([*map(str, command), "-q", "--device", "cpu"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out), delimiter="\t"))


def refused(capsys: pytest.CaptureFixture[str], *command: str | Path) -> str:
    assert run([*map(str, command), "--device", "cpu"]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_surprisals_of_a_document(
    folders: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["surprisal", folders["story"], "--model", folders[name], "--nats"]
    alone, after = table(capsys, *common), table(capsys, *common, "--context", "document")
    assert "seen" not in alone[0]
    assert [row["token"] for row in after] == [row["token"] for row in alone]
    assert [row["seen"] for row in after if row["token_id"] == "1"] == ["0", "4", "0", "4"]
    first = [row["sentence_id"] in "14" for row in alone]
    nats = [[float(row["surprisal"]) for row in rows] for rows in (alone, after)]
    differences = [one - other for one, other in zip(*nats, strict=True)]
    same = [abs(difference) < 1e-4 for difference in differences]
    assert all(same[i] for i, is_first in enumerate(first) if is_first)
    assert not all(same)


def test_surprisals_after_a_file(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its sentences have several parses: the best ones, or all, are read before each."""
    (tmp_path / "before.txt").write_text("a b c a\n\nc b\n")
    common = ["surprisal", "--text", "c b", "--model", folders["pushdown"]]
    common += ["--context", tmp_path / "before.txt"]
    both = []
    for parses in ("best", "beam"):
        rows = table(capsys, *common, "--context-parses", parses, "--nats", "--parses")
        context = Context(of="x", sentences=("a b c a", "c b"), parses=parses)  # type: ignore[arg-type]
        (found,) = load_model(folders["pushdown"], context=context).score(["c b"])
        assert isinstance(found, SentenceScore)
        both.append([-float(row["surprisal"]) for row in rows])
        np.testing.assert_allclose(both[-1], found.logprobs, rtol=2e-6, atol=1e-6)
        assert [row["seen"] for row in rows] == ["8", "9", "10"]
        assert rows[0]["parse"] == "c"
    assert np.abs(np.subtract(*both)).max() > 1e-3


@pytest.mark.parametrize("kind", ["base", "gpt2"])
def test_surprisals_of_documents_in_windows(
    folders: dict[str, Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders["base"] if kind == "base" else save_gpt2(tmp_path / "gpt2", [STORY])
    common = ["surprisal", folders["story"], "--model", folder, "--nats", "--stride", "2", "--window", "4"]
    rows = table(capsys, *common)
    scorer = load_model(folder, context=Context(stride=2, window=4))
    documents = [joined(list(map(split_spaces, part.splitlines()))) for part in STORY.split("\n\n")]
    found = [score for score in scorer.score(documents) if isinstance(score, SentenceScore)]
    np.testing.assert_allclose(
        [-float(row["surprisal"]) for row in rows],
        np.concatenate([f.logprobs for f in found]),
        rtol=2e-6,
        atol=1e-6,
    )
    assert [int(row["seen"]) for row in rows] == [seen for score in found for seen in score.seen or ()]
    assert sorted({row["sentence_id"] for row in rows}) == ["1", "2", "4", "5"]
    lines = STORY.splitlines()
    for row in rows:
        if row["token"] not in ("<eos>", "Ċ"):
            assert lines[int(row["sentence_id"]) - 1][int(row["start"]) : int(row["end"])] == row["token"]
    assert {row["token"] for row in rows if row["start"] == row["end"]} == {
        "<eos>" if kind == "base" else "Ċ"
    }
    words = table(capsys, *common, "--words")
    assert [row["word"] for row in words if row["start"] != row["end"]] == STORY.split()
    assert sum(float(row["surprisal"]) for row in words) == pytest.approx(
        -sum(f.total for f in found), rel=2e-6, abs=1e-5
    )


def test_workers_give_the_same(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["surprisal", folders["story"], "--model", folders["pushdown"], "--context", "document"]
    alone = table(capsys, *common)
    assert table(capsys, *common, "--workers", "2") == alone


@pytest.mark.parametrize("name", ["pushdown", "base"])
def test_perplexity_of_text(folders: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (
        [],
        ["--context", "document"],
        *([["--stride", "2", "--window", "4"]] * (name == "base")),
    ):
        command = [folders["story"], "--model", folders[name], *options]
        rows = table(capsys, "surprisal", *command, "--nats")
        assert run(["eval-ppl", *map(str, command), "--json", "--device", "cpu"]) == 0
        document = json.loads(capsys.readouterr().out)
        scores, counts = document["scores"], document["counts"]
        assert counts["tokens"] == counts["words"] == len(rows) == 13
        assert counts["words_without_eos"] == 9
        total = sum(float(row["surprisal"]) for row in rows)
        assert scores["ppl_word_marginal"] == pytest.approx(np.exp(total / 13))
        words = sum(float(row["surprisal"]) for row in rows if row["token"] != "<eos>")
        assert scores["ppl_word_without_eos_marginal"] == pytest.approx(np.exp(words / 9))
        assert scores["ppl_word_joint"] is None
        kind = "documents" if "--stride" in options else "sentences"
        assert (counts[kind], counts[f"{kind}_left_out"]) == (2 if kind == "documents" else 4, 0)


def test_text_from_a_pipe(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", str(folders["base"]), "--json", "--device", "cpu"]
    assert run(["eval-ppl", str(folders["story"]), *common]) == 0
    by_file = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(STORY.encode())))
    assert run(["eval-ppl", "-", *common]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == by_file["scores"]


@pytest.mark.parametrize("beam", ["5", "auto"])
def test_pairs_after_the_same_sentences(
    folders: dict[str, Path], beam: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval-blimp", str(folders["pairs"]), "--model", str(folders["pushdown"]), "--beam", beam, "-q"]
    command += ["--device", "cpu"]
    assert run([*command, "--context", str(folders["before"]), "-o", str(tmp_path / "r")]) == 0
    assert run([*command, "-o", str(tmp_path / "alone")]) == 0
    settings = json.loads((tmp_path / "r" / "results.json").read_text())["settings"]
    assert settings["context"].startswith("2 sentences, sha256 ")
    assert (settings["context_parses"], settings["window"]) == ("best", 12)
    capsys.readouterr()
    assert run(["compare", str(tmp_path / "alone"), str(tmp_path / "r"), "--json"]) == 0
    (notes,) = json.loads(capsys.readouterr().out)["notes"].values()
    assert any(note.startswith("context: none and 2 sentences") for note in notes)


def test_suites_after_the_same_sentences(folders: dict[str, Path], tmp_path: Path) -> None:
    gpt2 = save_gpt2(tmp_path / "gpt2", ["The dog barks."], positions=128)
    suites = Path(__file__).parents[3] / "data" / "sg"
    command = ["eval-sg", str(suites), "--model", str(gpt2), "-q", "--device", "cpu"]
    assert run([*command, "-o", str(tmp_path / "r"), "--context", str(folders["before"])]) == 0
    assert "context" in json.loads((tmp_path / "r" / "results.json").read_text())["settings"]


def test_what_does_not_go_together(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["surprisal", folders["story"], "--model", folders["pushdown"]]
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    for options, message in (
        (["--context", "document", "--stride", "2"], "leave out --context"),
        (["--context-parses", "beam"], "--context-parses goes with --context"),
        (["--window", "4"], "--window goes with --context or --stride"),
        (["--context", str(empty)], f"{empty}: there is no sentence in the context"),
        (["--context", str(tmp_path / "nothing")], "nothing"),
        (["--stride", "2"], "leave out --stride"),
        (["--context", "document", "--window", "13"], "the model reads 12 positions at most"),
        (["--context", "document", "--trees", str(folders["story"])], "cannot be combined with --context"),
    ):
        assert message in refused(capsys, *common, *options)
    pairs = ["eval-blimp", folders["pairs"], "--model", folders["pushdown"], "-o", tmp_path / "r"]
    assert "name a file of sentences" in refused(capsys, *pairs, "--context", "document")
    text = ["eval-ppl", folders["story"], "--model", folders["base"]]
    for options in (["--stream"], ["--no-marginal"]):
        assert "are for shards, not for text" in refused(capsys, *text, *options)


def test_shards_are_read_as_the_text_that_they_hold(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In windows, each of two documents by itself."""
    trees = {
        "one": "(S (N a) (V (V b) (N c)))\n(S (N b) (N a))\n",
        "two": "(S (N c) (N c) (N a))\n(S (N a))\n",
    }
    for name, text in trees.items():
        (tmp_path / f"{name}.trees").write_text(text)
    (tmp_path / "text.txt").write_text(STORY)
    files = [tmp_path / "one.trees", tmp_path / "two.trees"]
    tokenizer = folders["base"]
    command = ["tapes", *files, "--layout", "window", "--window", "12", "--tokenizer", tokenizer]
    assert run([*map(str, command), "-o", str(tmp_path / "shards"), "-q"]) == 0
    found = []
    for read in (tmp_path / "shards", tmp_path / "text.txt"):
        command = ["eval-ppl", read, "--model", folders["base"], "--stride", "2", "--window", "5"]
        assert run([*map(str, command), "--json", "-q", "--device", "cpu"]) == 0
        document = json.loads(capsys.readouterr().out)
        found.append((document["scores"], document["counts"]))
    assert found[0][1] == found[1][1]
    assert found[0][1]["documents"] == 2
    assert found[0][0] == pytest.approx(found[1][0])


@pytest.mark.parametrize("seed", range(16))
def test_any_options_of_a_hugging_face_model(
    seed: int, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of contexts, measures and units, crossed, against rows that transformers reads itself."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = tmp_path_factory.getbasetemp() / "gpt2-of-any-options"
    if not folder.exists():
        save_gpt2(folder, ["The dog that chased the cats barks. The cat sleeps."], positions=40)
    rng = random.Random(seed)
    words = ["The", "dog", "cats.", "naïve", "a"]
    bos, nats, ranks, entropies = (rng.random() < 0.5 for _ in range(4))
    least = 1 if bos else 2  # a token alone has no surprisal
    lines = [" ".join(rng.choice(words) for _ in range(rng.randint(least, 4))) for _ in range(5)]
    lines.insert(rng.randint(1, 4), "")
    kind = ["none", "document", "file", "stride"][seed % 4]
    ranks &= kind != "stride"  # they are of documents that fit a window
    of_words = bos and not ranks and rng.random() < 0.5
    window = rng.choice([None, 24, 30]) if kind != "none" else None
    stride = rng.choice([1, 5, 20])
    texts = tmp_path_factory.mktemp("texts")
    (texts / "lines.txt").write_text("\n".join(lines) + "\n")
    (texts / "before.txt").write_text("a dog\n\nThe cats. naïve\nThe\n")
    flags = {
        "--nats": nats,
        "--rank": ranks,
        "--entropy": entropies,
        "--words": of_words,
        "--no-bos": not bos,
    }
    more = [name for name, is_there in flags.items() if is_there]
    more += ["--window", str(window)] if window else []
    context = {"document": ["document"], "file": [str(texts / "before.txt")]}.get(kind)
    more += ["--context", *context] if context else []
    more += ["--stride", str(stride)] if kind == "stride" else []
    rows = table(capsys, "surprisal", texts / "lines.txt", "--model", folder, *more)

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    most = window or 40

    def read(tokens: list[int]) -> list[tuple[float, float, int]]:
        """Surprisal, entropy before it, and rank of each token after the first."""
        with torch.no_grad():
            logprobs = model(torch.tensor([tokens])).logits[0, :-1].double().log_softmax(-1).numpy()
        own = [(of[token], of) for of, token in zip(logprobs, tokens[1:], strict=True)]
        return [(-p, float(-(np.exp(of) * of).sum()), 1 + int((of > p).sum())) for p, of in own]

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer(text)["input_ids"]
        return found

    start = [tokenizer.bos_token_id] if bos else []
    wanted: list[tuple[int, int, int, int | None, tuple[float, float, int]]] = []
    for number, line in enumerate(lines, start=1):
        earlier = lines[: number - 1]
        if not line or (kind == "stride" and earlier and earlier[-1]):
            continue  # a document is read at its first line
        offsets = tokenizer(line, return_offsets_mapping=True)["offset_mapping"]
        if kind != "stride":
            if "" in earlier:
                earlier = earlier[earlier.index("") + 1 :]
            before = {"document": earlier, "file": ["a dog", "The cats. naïve", "The"]}.get(kind, [])
            while len(start + ids("\n".join([*before, line]))) > most:
                before = before[1:]
            row = start + ids("\n".join([*before, line]))
            values, first = [None, *read(row)], len(row) - len(offsets)
            for k, (a, b) in enumerate(offsets, start=first):
                if (value := values[k]) is not None:
                    blank = line[a:b].startswith(" ")
                    wanted.append((number, a + blank, b, k - bos if kind != "none" else None, value))
            continue
        rest = lines[number - 1 :]
        document = rest[: rest.index("")] if "" in rest else rest
        row, places = list(start), []
        for k, each in enumerate(document):
            own = tokenizer(each, return_offsets_mapping=True)
            last = k == len(document) - 1
            row += own["input_ids"] + ([] if last else ids("\n"))
            for a, b in own["offset_mapping"]:
                places.append((number + k, a + each[a:b].startswith(" "), b))
            places += [] if last else [(number + k, len(each), len(each))]
        scored = 1
        for begin in range(0, len(row), stride):
            end = min(begin + most, len(row))
            values = [None] * (begin + 1) + read(row[begin:end])
            for k in range(scored, end):
                value = values[k]
                assert value is not None
                seen = k - max(begin, int(bos))
                wanted.append((*places[k - len(start)], seen, value))
            scored = end
            if end == len(row):
                break
    unit = 1.0 if nats else 1 / np.log(2)
    if of_words:
        by_word: dict[tuple[int, int, int], list[tuple[int | None, tuple[float, float, int]]]] = {}
        for number, a, _, seen, value in wanted:
            line = lines[number - 1]
            first = line.rfind(" ", 0, a) + 1 if a < len(line) else len(line)
            last = next((i for i in range(a, len(line)) if line[i] == " "), len(line))
            by_word.setdefault((number, first, last), []).append((seen, value))
        wanted = [
            (*place, of[0][0], (sum(value[0] for _, value in of), of[0][1][1], 0))
            for place, of in by_word.items()
        ]
    places_of = [(int(row["sentence_id"]), int(row["start"]), int(row["end"])) for row in rows]
    assert places_of == [each[:3] for each in wanted]
    names = {"surprisal": 0, **({"entropy": 1} if entropies else {}), **({"rank": 2} if ranks else {})}
    for name, k in names.items():
        scale = unit if name != "rank" else 1
        np.testing.assert_allclose(
            [float(row[name]) for row in rows], [each[4][k] * scale for each in wanted], rtol=1e-5, atol=2e-5
        )
    assert not {"entropy", "rank"} & rows[0].keys() - names.keys()
    shown = [None if each[3] is None else str(each[3]) for each in wanted]
    assert [row.get("seen") for row in rows] == shown


@pytest.mark.parametrize("seed", range(18))
def test_tables_times_and_perplexities_read_texts_as_lines_are_read(
    seed: int, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words have the same numbers in every command, whatever is read before them."""
    rng = random.Random(seed)
    name, kind = ["gpt2", "base", "pushdown"][seed % 3], ["none", "document", "file", "stride"][seed // 3 % 4]
    kind = "document" if (name, kind) == ("pushdown", "stride") else kind
    words = ["The", "dog", "cats.", "naïve", "a"] if name == "gpt2" else ["a", "b", "c"]
    model = folders.get(name) or save_gpt2(tmp_path / "gpt2", ["The dog chased the cats."], positions=60)
    texts = [[rng.choices(words, k=rng.randint(1, 3)) for _ in range(rng.randint(2, 4))] for _ in range(9)]
    (tmp_path / "lines.txt").write_text(
        "\n\n".join("\n".join(map(" ".join, of)) for of in texts).replace("\n\n\n", "\n\n") + "\n"
    )
    (tmp_path / "before.txt").write_text("a b\n\nc\n" if name != "gpt2" else "a dog\n\nThe cats.\n")
    cells, times, place = [], [], 0
    for item, text in enumerate(texts, 1):
        for number, sentence in enumerate(text, 1):
            for at, word in enumerate(sentence, 1):
                place += 1
                cells.append([item, number, at, word])
                times.append([item, number, place, word, "s", 200 + place * 37 % 90])
    rng.shuffle(cells)  # all words are numbered
    header = ["item", "sentence", "word_number", "word"]
    for file, columns, rows in (
        ("t.csv", header, cells),
        ("times.csv", [*header, "subject", "time"], times),
    ):
        with (tmp_path / file).open("w", newline="") as stream:
            csv.writer(stream).writerows([columns, *rows])
    entropy, nats = rng.random() < 0.5, rng.random() < 0.5
    window = rng.choice([None, 9 if name != "gpt2" else 30]) if kind != "none" else None
    context = {"document": "document", "file": str(tmp_path / "before.txt")}.get(kind)
    more = ["--context", context] if context else []
    more += ["--context-parses", rng.choice(["best", "beam"])] if context and name == "pushdown" else []
    more += ["--window", str(window)] if window else []
    more += ["--stride", str(rng.choice([1, 3]))] if kind == "stride" else []
    more += ["--beam", str(rng.choice([3, 20]))] if name == "pushdown" else []
    measured = [*(["--entropy"] if entropy else []), *(["--nats"] if nats else [])]
    common = ["--model", str(model), *more]
    rows = table(capsys, "surprisal", tmp_path / "lines.txt", *common, *measured, "--words")
    by_line = [row for row in rows if row["start"] != row["end"]]
    of_table = table(capsys, "surprisal", tmp_path / "t.csv", *common, *measured, "--words")
    order = sorted(range(len(cells)), key=lambda i: cells[i][:3])
    ordered = [of_table[i] for i in order]
    assert [row["word"] for row in ordered] == [row["word"] for row in by_line]
    columns = ["surprisal", *(["entropy"] if entropy else []), *(["seen"] if kind != "none" else [])]
    for column in columns:
        np.testing.assert_allclose(
            *([float(row[column]) for row in of] for of in (ordered, by_line)), rtol=1e-6, atol=1e-6
        )
    assert ("seen" in ordered[0], "entropy" in ordered[0]) == (kind != "none", entropy)

    unit = 1.0 if nats else np.log(2)
    assert run(["eval-ppl", str(tmp_path / "lines.txt"), *common, "--json", "-q", "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    total = sum(float(row["surprisal"]) for row in rows) * unit
    assert document["scores"]["ppl_word_marginal"] == pytest.approx(
        np.exp(total / document["counts"]["words"])
    )
    if name != "gpt2" or kind == "stride":  # whose sentences a reader has in one line
        return
    predictors = ["--predictor", "surprisal", *(["--predictor", "entropy"] if entropy else [])]
    regression = ["--edges", "--spillover", "0", "--folds", "2", "--samples", "100"]
    command = ["eval-reading", str(tmp_path / "times.csv"), *common, *predictors, *regression]
    assert run([*command, "-o", str(tmp_path / "out"), "-q", "--device", "cpu"]) == 0
    items = pq.read_table(tmp_path / "out" / "items.parquet").to_pydict()
    for column in columns[: 1 + entropy]:
        wanted = [float(row[column]) * unit / np.log(2) for row in by_line]
        np.testing.assert_allclose(items[f"{column}_gpt2"], wanted, rtol=1e-6, atol=1e-6)
