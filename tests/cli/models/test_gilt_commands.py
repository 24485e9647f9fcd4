"""GiLT by the commands that take models: from CoNLL-U to a trained model, scores, parses and samples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from enumeration import PAIRS, enumerate_derivations, write_pairs, write_suite
from search_oracle import WORDS, row, tiny_model

import pdtools
from pdtools.cli.main import run
from pdtools.models import LanguageModel, save_checkpoint
from pdtools.models.dependency.model import GiltLM
from pdtools.tokenization import train_word_tokenizer
from pdtools.trees.graphs import Graph, conllu, heads_in

HEADS = [("a b c", [2, 0, 2]), ("c a", [0, 1]), ("b", [0])]
TINY = ("layers=2", "d_model=16", "heads=2", "d_ff=32", "feature_width=4")


def call(*arguments: object) -> None:
    assert run([*map(str, arguments), "-q"]) == 0


@pytest.fixture(scope="module", params=["released", "set"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return tiny_model("gilt", arcs=request.param, feature_width=4)


@pytest.fixture
def checkpoint(model: LanguageModel, tmp_path: Path) -> Path:
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(tmp_path / "gilt", model, tokenizer, shards=shards)
    return tmp_path / "gilt"


def write_conllu(file: Path) -> None:
    lines = []
    for words, heads in HEADS:
        for number, (word, head) in enumerate(zip(words.split(), heads, strict=True), start=1):
            lines.append("\t".join([str(number), word, *"____", str(head), "dep", "_", "_"]))
        lines.append("")
    file.write_text("".join(line + "\n" for line in lines))


def write_shards(folder: Path, tokenizer: Path | None) -> Path:
    write_conllu(folder / "x.conllu")
    call("parse", folder / "x.conllu", "--from", "conllu", "-o", folder / "x.trees")
    made = ("--min-count", 1) if tokenizer is None else ("--tokenizer", tokenizer)
    call("tapes", folder / "x.trees", *made, "-o", folder / "shards")
    return folder / "shards"


def marginal(model: LanguageModel, text: str) -> float:
    tokens = row([3 + WORDS.index(word) for word in text.split()]).tolist()
    return enumerate_derivations(model, tokens).prefix_logprobs[-1]


def joint_of(model: LanguageModel, text: str, heads: list[int]) -> tuple[float, float]:
    """log p of the tokens given a graph, and of its arcs."""
    tokens = row([3 + WORDS.index(word) for word in text.split()])
    parts = model.forward_parts(cast(GiltLM, model).pack([(tokens, Graph.of_heads(heads))]))
    return float(parts.token_logprobs.sum().detach()), float(parts.attach_logprobs.sum().detach())


def counts_of(model: LanguageModel, text: str, heads: list[int]) -> float:
    """log p of the numbers of arcs of a graph's words, word by word."""
    derivations: Any = model.derive(1, 9)
    graph, total = Graph.of_heads(heads), 0.0
    for t, word in enumerate(text.split(), start=1):
        token = torch.tensor([3 + WORDS.index(word)])
        choice = derivations.word_choice(token)
        total += float(choice.counts[0, graph.counts[t - 1]])
        chosen, nodes = torch.zeros_like(choice.scores, dtype=torch.bool), choice.scores.shape[1] // 2
        for head, dependent in graph.arcs:
            if max(head, dependent) == t:
                chosen[0, head if dependent == t else nodes + dependent] = True
        derivations.read(token, chosen)
    return total


def test_surprisals_pairs_and_suites(model: LanguageModel, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b\nc\n")
    out = tmp_path / "out.tsv"
    call("surprisal", tmp_path / "in.txt", "--model", checkpoint, "--nats", "-o", out)
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    for number, text in ((1, "a b"), (2, "c")):
        own = [each for each in rows if each[header.index("sentence_id")] == str(number)]
        total = sum(float(each[header.index("surprisal")]) for each in own)
        assert total == pytest.approx(-marginal(model, text), rel=2e-6, abs=1e-4)

    # Stimuli have no columns for what attachments measure.
    (tmp_path / "in.csv").write_text("item,condition,sentence\n1,x,a | b\n1,y,c\n")
    call("surprisal", tmp_path / "in.csv", "--model", checkpoint, "--nats", "-o", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    assert {"attachment", "closed"}.isdisjoint(table.columns)
    totals = table.groupby("sentence").surprisal.sum()
    ends = {
        "a | b": float(rows[2][header.index("surprisal")]),
        "c": float(rows[4][header.index("surprisal")]),
    }
    for text, end in ends.items():
        whole = -marginal(model, text.replace(" |", ""))
        assert totals[text] == pytest.approx(whole - end, rel=2e-6, abs=1e-4)

    write_pairs(tmp_path / "pairs.jsonl")
    call("eval-blimp", tmp_path / "pairs.jsonl", "--model", checkpoint, "-o", tmp_path / "blimp")
    items = pq.read_table(tmp_path / "blimp" / "items.parquet").to_pylist()
    right = [marginal(model, good) > marginal(model, bad) for good, bad in PAIRS]
    assert [item["correct"] for item in items if item["prediction"] == 1] == right

    write_suite(tmp_path / "toy.json")
    call("eval-sg", tmp_path / "toy.json", "--model", checkpoint, "-o", tmp_path / "sg")
    assert "by_suite" in json.loads((tmp_path / "sg" / "results.json").read_text())["scores"]


def test_perplexities(model: LanguageModel, checkpoint: Path, tmp_path: Path) -> None:
    shards = write_shards(tmp_path, checkpoint)
    call("eval-ppl", shards, "--model", checkpoint, "--particles", 9, "-o", tmp_path / "ppl")
    scores = json.loads((tmp_path / "ppl" / "results.json").read_text())["scores"]
    n = sum(len(heads) + 1 for _, heads in HEADS)
    tokens, arcs = zip(*(joint_of(model, words, heads) for words, heads in HEADS), strict=True)
    total = sum(marginal(model, words) for words, _ in HEADS)
    by_row = [counts_of(model, words, heads) for words, heads in HEADS]
    counts = sum(by_row)
    items = pq.read_table(tmp_path / "ppl" / "items.parquet").to_pydict()
    assert items["counts"] == pytest.approx(by_row, rel=2e-6, abs=1e-5)
    assert math.log(scores["ppl_token_counts"]) == pytest.approx(-counts / n, rel=2e-6, abs=1e-5)
    without_ends = -counts / (n - len(HEADS))
    assert math.log(scores["ppl_word_without_eos_counts"]) == pytest.approx(without_ends, rel=2e-6, abs=1e-5)
    assert math.log(scores["ppl_token_given_trees"]) == pytest.approx(-sum(tokens) / n, rel=2e-6, abs=1e-5)
    assert math.log(scores["ppl_token_marginal"]) == pytest.approx(-total / n, rel=2e-6, abs=1e-5)
    if model.config.arcs == "set":
        joint = math.log(scores["ppl_token_joint"])
        assert joint == pytest.approx(-(sum(tokens) + sum(arcs)) / n, rel=2e-6, abs=1e-5)
        assert math.log(scores["ppl_token_arcs"]) == pytest.approx(
            -(sum(arcs) - counts) / n, rel=2e-6, abs=1e-5
        )
    else:  # the scores choose the arcs: none that are given have a probability
        assert scores["ppl_token_joint"] is scores["ppl_token_arcs"] is None
        assert math.log(scores["ppl_token_particles"]) == pytest.approx(-total / n, rel=0.2)


@pytest.mark.parametrize(
    "graphs",
    [
        (Graph.of_heads([2, 0, 2]), Graph.of(3, [0, 2], [1, 3])),
        (Graph.of_heads([0, 4, 1, 1]), Graph.of_heads([0, 1, 4, 1])),  # whose arcs have the same heads
    ],
)
def test_sums_over_given_graphs(
    graphs: tuple[Graph, Graph],
    model: LanguageModel,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two graphs, one of them twice; they differ in the arcs of the second word."""
    words = ["a", "b", "c", "a"][: graphs[0].n_words]
    blocks = [conllu(each, words) for each in (*graphs, graphs[0])]
    (tmp_path / "given.conllu").write_text("".join(blocks))
    arguments = ["surprisal", "--text", " ".join(words), "--model", str(checkpoint), "--nats", "-q"]
    arguments += ["--trees", str(tmp_path / "given.conllu"), "-o", str(tmp_path / "out.tsv")]
    if model.config.arcs != "set":
        assert run(arguments) == 1
        assert "given graphs have no probability" in capsys.readouterr().err
        return
    assert run(arguments) == 0
    header, *rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    found = [-float(each[header.index("surprisal")]) for each in rows]
    tokens = row([3 + WORDS.index(word) for word in words])
    parts = cast(GiltLM, model).forward_parts(model.pack([(tokens, heads_only(each)) for each in graphs]))
    said, chosen = (
        each.double().detach().cumsum(1) for each in (parts.token_logprobs, parts.attach_logprobs)
    )
    # HEAD is a tree's.
    assert found[0] == pytest.approx(float(said[0, 1]), rel=2e-6, abs=1e-5)
    joints = said[:, 1:] + torch.cat([torch.zeros(2, 1), chosen[:, 1:-1]], 1)
    sums = joints.logsumexp(0)
    assert sum(found) == pytest.approx(float(sums[-1]), rel=2e-6, abs=1e-5)
    assert sum(found[:3]) == pytest.approx(float(sums[2]), rel=2e-6, abs=1e-5)


def heads_only(graph: Graph) -> Graph:
    """The graph that CoNLL-U has in HEAD."""
    return Graph.of_heads(heads_in(graph))


def test_parses_samples_and_pages(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b c\nc\n")
    call("decode", tmp_path / "in.txt", "--model", checkpoint, "-o", tmp_path / "out.trees")
    assert len((tmp_path / "out.trees").read_text().splitlines()) == 2
    call("decode", tmp_path / "in.txt", "--model", checkpoint, "-o", tmp_path / "out.conllu")
    call("parse", tmp_path / "out.conllu", "--from", "conllu", "-o", tmp_path / "again.trees")
    assert [len(line.split()) for line in (tmp_path / "again.trees.arcs").read_text().splitlines()] == [3, 1]
    # From CoNLL-U, whose multi-word tokens are kept, come the same arcs.
    again = (tmp_path / "out.conllu").read_text().replace("1\ta\t", "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\t")
    again = again.replace("# text = a b c", "# text = ab c")
    # So are those of a sentence that has no parse, as a word is unknown.
    lines = ["# text = ab z", "1-2\tab" + 8 * "\t_"]
    for number, (word, head) in enumerate((("a", "0\troot"), ("b", "1\tdep"), ("z", "1\tdep")), start=1):
        lines.append(f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_")
    again += "\n".join([*lines, "", ""])
    (tmp_path / "tokens.conllu").write_text(again)
    call(
        "decode",
        tmp_path / "tokens.conllu",
        "--from",
        "conllu",
        "--model",
        checkpoint,
        "-o",
        tmp_path / "r.conllu",
    )
    assert (tmp_path / "r.conllu").read_text() == again
    # They are kept where the model has no parse: it has no word q.
    (tmp_path / "tokens.conllu").write_text(again.replace("\tb\t", "\tq\t"))
    asked = ["--from", "conllu", "--model", checkpoint, "--overwrite", "-o", tmp_path / "r.conllu"]
    call("decode", tmp_path / "tokens.conllu", *asked)
    assert "1-2\tab\t" in (tmp_path / "r.conllu").read_text()
    call("sample", "--model", checkpoint, "-n", 4, "-o", tmp_path / "samples.trees")
    assert len((tmp_path / "samples.trees").read_text().splitlines()) == 4
    call("view", tmp_path / "in.txt", "--model", checkpoint, "-o", tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()


def test_parses_with_other_arcs_are_other_parses(
    model: LanguageModel, checkpoint: Path, tmp_path: Path
) -> None:
    options = ("--model", checkpoint, "--beam", 100, "--k-best", 100)
    (tmp_path / "in.txt").write_text("a b\n")
    call("decode", tmp_path / "in.txt", *options, "-o", tmp_path / "x.trees", "--scores", tmp_path / "x.tsv")
    header, *rows = [line.split("\t") for line in (tmp_path / "x.tsv").read_text().splitlines()]
    assert header == ["id", "rank", "joint", "marginal", "tree", "arcs", "dropped"]
    graphs, trees = ({row[header.index(name)] for row in rows} for name in ("arcs", "tree"))
    assert len(graphs) == len(rows) == (16 if cast(GiltLM, model).config.arcs == "set" else 8)
    assert len(trees) == 1
    assert math.log(sum(math.exp(float(row[2])) for row in rows)) == pytest.approx(
        marginal(model, "a b"), rel=2e-6, abs=1e-4
    )
    table = pdtools.load(checkpoint, beam=100).parse("a b", k_best=100)
    assert list(table.columns) == header
    assert table.arcs.tolist() == [row[header.index("arcs")] for row in rows]


def test_models_without_arcs_write_no_conllu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = train_word_tokenizer(WORDS, text_style="ptb", unk=False)
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(tmp_path / "pushdown", tiny_model("pushdown"), tokenizer, shards=shards)
    (tmp_path / "in.txt").write_text("a b c\n")
    out = tmp_path / "out.conllu"
    assert (
        run(["decode", str(tmp_path / "in.txt"), "--model", str(tmp_path / "pushdown"), "-o", str(out)]) == 1
    )
    assert "only models of dependency arcs (gilt, dtg) write CoNLL-U" in capsys.readouterr().err
    assert not out.exists()


def test_training(tmp_path: Path) -> None:
    shards = write_shards(tmp_path, None)
    settings = [f"config.{each}" for each in TINY]
    settings += ["train.steps=4", "train.eval_every=2", "train.warmup_steps=1", "train.normalize=sentence"]
    more = [part for each in settings for part in ("--set", each)]
    call("train", shards, "--valid", shards, "--model", "gilt", *more, "-o", tmp_path / "run")
    *_, last = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert 0 <= last["count_accuracy"] <= 1
    assert last["arc_loss"] > 0
    call("surprisal", "--text", "a b c", "--model", tmp_path / "run" / "best", "-o", tmp_path / "out.tsv")


def test_shards_without_arcs(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.trees").write_text("(S (X a) (X b))\n")
    call("tapes", tmp_path / "x.trees", "--tokenizer", checkpoint, "-o", tmp_path / "shards")
    assert run(["eval-ppl", str(tmp_path / "shards"), "--model", str(checkpoint), "-q"]) == 1
    assert "no dependency arcs" in capsys.readouterr().err
    arguments = ["train", str(tmp_path / "shards"), "--model", "gilt", "-o", str(tmp_path / "run"), "-q"]
    assert run(arguments) == 1
    assert "no dependency arcs" in capsys.readouterr().err
