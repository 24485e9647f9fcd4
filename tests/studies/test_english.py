"""``examples/english.sh`` on made-up books, its parser from made-up treebanks: all stages, a second run."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from shell import Shell, script
from toy_benepar import toy_trees

from pdtools.shards import ShardSet

pytest.importorskip("benepar")

SCRIPT = Path(__file__).parents[2] / "examples" / "english.sh"
PARSER_SCRIPT = SCRIPT.with_name("english-parser.sh")
SENTENCES = ["The dog sleeps.", "“A cat sees the man!”", "The child didn’t sleep in the park."]


def book(name: str, *chapters: list[str]) -> str:
    return f"# {name}\n" + "\n\n".join("\n".join(chapter) for chapter in chapters) + "\n\n"


def compressed(file: Path, *books: str) -> None:
    file.write_bytes(lzma.compress("".join(books).encode()))


@pytest.fixture
def shell(tmp_path: Path, toy_benepar_model: Path) -> Shell:
    books = tmp_path / "books"
    books.mkdir()
    paragraphs = [" ".join(SENTENCES), " ".join(SENTENCES[::-1])]
    compressed(
        books / "books-00.txt.xz", book("a_first", paragraphs * 3), book("b_kept", ["The dog sleeps."] * 4)
    )
    compressed(books / "books-01.txt.xz", book("c_second", paragraphs, paragraphs))
    compressed(books / "books-test.txt.xz", book("d_one", paragraphs * 2), book("e_two", paragraphs))
    suite = {
        "meta": {"name": "toy", "metric": "sum"},
        "predictions": [{"type": "formula", "formula": "(1;%a%) < (1;%b%)"}],
        "region_meta": {"1": "all"},
        "items": [
            {
                "item_number": 1,
                "conditions": [
                    {"condition_name": name, "regions": [{"region_number": 1, "content": text}]}
                    for name, text in (("a", "The dog sleeps"), ("b", "The sleeps dog"))
                ],
            }
        ],
    }
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "toy.json").write_text(json.dumps(suite))
    settings = {
        "VALID": "b_kept",
        "VOCABULARY": "300",
        "SENTENCES": "5",
        "WORKERS": "1",
        "STEPS": "2",
        "BATCH": "200",
    }
    small = {"SEEDS": "1", "JOBS": "1", "KEEP": "0.01k", "PARTICLES": "2", "BEAM": "3", "BLIMP_BEAM": "3"}
    return Shell(
        tmp_path,
        **settings,
        **small,
        SUITES="suites",
        ABOUT="A paragraph of one's own.",
        SMALL="config.layers=1 config.d_model=16 config.d_ff=16",
    )


def test_from_books_to_scores(shell: Shell, tmp_path: Path, toy_benepar_model: Path) -> None:
    command = ("sh", SCRIPT, "books", toy_benepar_model, "out")
    done = shell.run(*command)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    # Text: books are told apart, their names are no text.
    texts = {file.name: file.read_text() for file in (out / "text").glob("*.txt")}
    assert texts.keys() == {"train.txt", "valid.txt", "test-d_one.txt", "test-e_two.txt"}
    assert texts["valid.txt"].split("\n")[:4] == ["The dog sleeps."] * 4
    assert texts["train.txt"].count("child") == 10
    assert not any("#" in text for text in texts.values())
    # Trees with their sentences; shards of those.
    written = (out / "trees" / "train.trees.text").read_text().splitlines()
    assert set(written) == {*SENTENCES, ""}
    train = ShardSet.open(out / "shards" / "train")
    assert len(train) == 30
    assert train.tokenizer.word_tokens("n’t") == train.tokenizer.word_tokens("n't")
    # Of a test's book some sentences, evenly; of a short one all that there are.
    assert [len(ShardSet.open(out / "shards" / f"test-{name}")) for name in ("d_one", "e_two")] == [5, 5]
    some = (out / "trees" / "test-d_one.some.trees.text").read_text().splitlines()
    assert some == [s for i, s in enumerate([*SENTENCES, *SENTENCES[::-1]] * 2) if i in (1, 3, 6, 8, 10)]
    # Runs with checkpoints along the way, and their scores.
    for model in ("base", "pushdown"):
        run = out / "runs" / f"{model}-1"
        assert [folder.name for folder in run.glob("step-*")] == ["step-1"]
        results = out / "results" / f"{model}-1"
        found = {str(file.parent.relative_to(results)) for file in results.rglob("results.json")}
        tests = {"ppl/test-d_one", "ppl/test-e_two"}
        assert found == {"sg", *tests, *(t.replace("ppl", "particles") for t in tests if model == "pushdown")}
        # What is scored is what is given to others, and its card has the scores.
        given = out / "models" / f"{model}-1"
        for name in found:
            scored = json.loads((results / name / "results.json").read_text())["provenance"]["command"]
            assert scored[scored.index("--model") + 1] == str(Path("out", "models", f"{model}-1"))
        card = (given / "README.md").read_text()
        assert {name for name in found if f"/{name}`" in card} == {"sg", *tests}
        assert "A paragraph of one's own." in card
        assert load_file(given / "model.safetensors").popitem()[1].dtype is torch.float16
    # Once more: nothing is done again.
    again = shell.run(*command)
    assert again.returncode == 0, again.stderr
    assert {name[0] for name in shell.commands} <= {"train", "eval-sg", "eval-ppl", "export"}
    assert not any("step 1" in line for line in again.stderr.splitlines())
    # Another pass, from these models: their tokenizer, and weights that hardly any rate leaves alone.
    for stage in ("text", "trees"):
        shutil.copytree(out / stage, tmp_path / "further" / stage)
    settings = {"FROM": "out/models", "STAGES": "shards runs", "MODELS": "pushdown", "RATE": "1e-30"}
    further = shell.run("sh", SCRIPT, "books", toy_benepar_model, "further", **settings)
    assert further.returncode == 0, further.stderr
    tokenizers = [tmp_path / name / "shards" / "train" / "tokenizer.json" for name in ("out", "further")]
    assert tokenizers[0].read_bytes() == tokenizers[1].read_bytes()
    before = load_file(out / "models" / "pushdown-1" / "model.safetensors")
    after = load_file(tmp_path / "further" / "runs" / "pushdown-1" / "step-1" / "model.safetensors")
    for name, weights in before.items():
        torch.testing.assert_close(after[name], weights.float(), rtol=0, atol=1e-20)


def test_the_parser_from_treebanks(tmp_path: Path) -> None:
    trees = [" ".join(str(tree).split()) for tree in toy_trees(60, seed=1)]
    documents = {"GUM_news_old": 20, "GUM_news_dev": 4, "GUM_bio_test": 3, "GUM_reddit_dev": 2}
    files = {f"gum/const/{name}.ptb": count for name, count in documents.items()}
    files |= {"wsj/wsj_0001.mrg": 60, "craft/1.tree": 60}
    files |= {f"cities/{part}.txt": count for part, count in (("train", 6), ("valid", 2), ("test", 1))}
    for name, count in files.items():
        file = tmp_path / "treebanks" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(tree + "\n" for tree in trees[:count]))
    splits = "## dev\n\n  * GUM_news_dev\n  * GUM_reddit_dev\n\n## test\n\n  * GUM_bio_test\n\n## test2\n"
    (tmp_path / "treebanks" / "gum" / "splits.md").write_text(splits)
    shell = Shell(tmp_path, STEPS="2", WIDTH="16", CRAFT="6")
    done = shell.run("sh", PARSER_SCRIPT, "treebanks", "parser")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "parser"
    counts = {file.stem: len(file.read_text().splitlines()) for file in (out / "trees").glob("*.trees")}
    wsj, craft = ([counts.pop(f"{part}-{name}") for part in ("valid", "test")] for name in ("wsj", "craft"))
    train = counts.pop("train")
    assert counts == {
        **{"valid-gum-news": 4, "test-gum-bio": 3, "valid-cities": 2, "test-cities": 1},
        **{"train-gum": 20, "train-cities": 6},
    }
    # Of the Penn Treebank what is not held out, of CRAFT every sixth of that.
    assert train == 20 + 6 + (60 - sum(wsj)) + (60 - sum(craft)) // 6
    scores = {folder.name.removesuffix("-unlabeled") for folder in (out / "scores").iterdir()}
    held_out = {"valid-gum-news", "test-gum-bio", "valid-cities", "test-cities"}
    assert scores == held_out | {f"{part}-{name}" for part in ("valid", "test") for name in ("wsj", "craft")}
    assert len(list((out / "scores").iterdir())) == 2 * len(scores)
    again = shell.run("sh", PARSER_SCRIPT, "treebanks", "parser")
    assert again.returncode == 0, again.stderr
    assert shell.commands == []
    assert shell.run("sh", PARSER_SCRIPT, "treebanks").returncode == 2


def test_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of words in one paragraph count; case, quotes and punctuation do not."""
    (tmp_path / "items.txt").write_text("The dog, it didn't sleep.\nA cat saw the dog.\nShe left.\n")
    (tmp_path / "other.txt").write_text("One two three.\n")
    (tmp_path / "text.txt").write_text("So THE dog: it didn’t sleep\nwell. A cat saw\nthe dog.\n")
    overlap = script(SCRIPT.parents[1] / "studies" / "english" / "overlap.py")
    files = [str(tmp_path / name) for name in ("items.txt", "other.txt")]
    expected = {
        3: 'items.txt,3,2,"The dog, it didn\'t sleep."',
        5: 'items.txt,3,1,"The dog, it didn\'t sleep."',
        6: "items.txt,3,0,",
    }
    for words, row in expected.items():
        overlap.main([*files, "--text", str(tmp_path / "text.txt"), "--words", str(words)])
        assert capsys.readouterr().out.splitlines() == ["file,sentences,shared,first", row, "other.txt,1,0,"]
