"""Surprisals of regions and words of tables: sums of those of tokens, in every form of the same items."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from search_oracle import save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2
from toy_tokenizers import KINDS, save_kind
from toy_workbooks import rows_of, write_workbook

import pdtools
from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.reading.scoring import align
from pdtools.files import atomic_table
from pdtools.models import save_checkpoint
from pdtools.search import load_model
from pdtools.search.options import SearchOptions
from pdtools.search.scores import SentenceScore
from pdtools.stimuli.surprisals import unit_values
from pdtools.tokenization import split_spaces, train_bpe_tokenizer

pytest.importorskip("transformers")

REPOSITORY = Path(__file__).resolve().parents[2]
BORDER = re.compile(r"\s*\|[\s|]*")
HOSTILE = [
    "The dog that | chased | the cats barks.",
    "don't go | there, he | said;x2,1",
    '"A na\u00efve caf\u00e9 | ("old") | dog',
    "The | | dog",
    "e\u0301 \u00a0x | 3.5% $5 | \U0001f408\U0001f408!",
    "un|believ|able dogs | ran|.",
    "a  b | c   d",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with trees, with a head, without; of Hugging Face, and of raw text, of the grammar's words."""
    folder = tmp_path_factory.mktemp("models")
    made, _ = save_checkpoints(folder)
    corpus = [" ".join(text) for _, text in suite_texts().items()]
    made["gpt2"] = save_gpt2(folder / "gpt2", corpus, vocab_size=290, positions=64)
    tokenizer = train_bpe_tokenizer(
        [split_spaces(t) for t in corpus], size=290, min_count=1, text_style="raw"
    )
    made["raw"] = folder / "raw"
    save_checkpoint(
        made["raw"], tiny_model(vocab_size=tokenizer.vocab_size, max_length=64), tokenizer, shards={}
    )
    return made


def suite_texts() -> dict[tuple[int, str], list[str]]:
    """The regions of a bundled suite, by item and condition."""
    suite = json.loads((REPOSITORY / "data" / "sg" / "mini_npi_ever.json").read_text())
    return {
        (item["item_number"], condition["condition_name"]): [each["content"] for each in condition["regions"]]
        for item in suite["items"][:6]
        for condition in item["conditions"]
    }


def surprisal(*arguments: object, code: int = 0) -> None:
    assert run(["surprisal", "--device", "cpu", *map(str, arguments)]) == code


# --- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_regions_add_up_tokens(kind: str, words: bool, tmp_path: Path) -> None:
    """Whatever the tokenizer; a token counts once, where it begins."""
    model = pdtools.load(save_kind(tmp_path / "model", kind))
    frame = pd.DataFrame({"item": range(len(HOSTILE)), "sentence": HOSTILE})
    found = model.surprisal(frame, words=words)
    for glued, (item, own) in zip(HOSTILE, found.groupby("item"), strict=True):
        parts = [part.strip() for part in glued.split("|")]
        text = BORDER.sub(lambda border: " " * any(map(str.isspace, border[0])), glued)
        tokens = model.surprisal(text)
        assert math.fsum(own.surprisal.dropna()) == pytest.approx(
            tokens.surprisal.sum(), rel=2e-6, abs=1e-4
        ), item
        assert own.n_tokens.sum() == len(tokens)
        assert own.region_text.drop_duplicates().tolist() == list(
            dict.fromkeys(parts if not words else filter(None, parts))
        )
        if words:
            continue
        ends: list[int] = []
        for part in filter(None, parts):
            ends.append(text.index(part, max(ends, default=0)) + len(part))
        blank = [text[start : start + 1].isspace() for start in tokens.start]
        inside = np.searchsorted(ends, tokens.start + blank, side="right")
        for place, row in enumerate(own[own.region_text != ""].itertuples()):
            mine = tokens[inside == place]
            total = mine.surprisal.sum() if len(mine) else math.nan
            assert row.surprisal == pytest.approx(total, rel=2e-6, abs=1e-4, nan_ok=True)
            crossing = sum(bool(text[ends[place] : end].strip()) for end in mine.end)
            assert (row.n_tokens, row.crossing) == (len(mine), crossing)


def score(text: str, spans: list[tuple[int, int]], **more: Any) -> SentenceScore:
    """Tokens of 1, 2, 4, … nats, so that a sum tells which ones are in it, and the end."""
    n = len(spans)
    return SentenceScore(
        text=text,
        tokens=(*(text[a:b] for a, b in spans), "<eos>"),
        words=(*range(n), -1),
        starts=(*(a for a, _ in spans), len(text)),
        ends=(*(b for _, b in spans), len(text)),
        logprobs=-(2.0 ** np.arange(n + 1)),
        n_unknown=0,
        eos=True,
        **more,
    )


def test_a_token_across_a_border_counts_where_it_begins() -> None:
    text = "the dog that ran"
    measures = {"attachment": np.array([1.0, 2, 3, 9]), "closed": np.array([0.0, 1, 2, 9])}
    whole = score(text, [(0, 7), (7, 10), (10, 16)], measures=measures)
    found = unit_values(whole, [(0, 3), (4, 7), (8, 8), (8, 12), (13, 16)])
    assert found["surprisal"] == pytest.approx([1, math.nan, 0, 6, math.nan], nan_ok=True)
    assert found["attachment"] == pytest.approx([1, math.nan, 0, 5, math.nan], nan_ok=True)
    assert found["closed"] == pytest.approx([0, math.nan, 0, 3, math.nan], nan_ok=True)
    assert found["n_tokens"].tolist() == [1, 0, 0, 2, 0]
    assert found["crossing"].tolist() == [1, 0, 0, 1, 0]
    assert found["last"].tolist() == [0, -1, -1, 2, -1]
    # a space after a word is over no border
    for border in (1, 2):
        found = unit_values(score("a b", [(0, 2), (2, 3)]), [(0, 1), (border, 3)])
        assert found["crossing"].tolist() == [0, 0]


def test_what_trees_add(models: dict[str, Path]) -> None:
    """Sums over the tokens of a region: of attachments in the unit of surprisals, of constituents closed.

    Entropies are in that unit too.
    """
    frame = pd.DataFrame({"sentence": ["a b | c", "c | b a"]})
    scorer = load_model(models["pushdown"], SearchOptions(beam=5), measures=("structure",))
    whole = list(scorer.score(["a b c", "c b a"]))
    for nats, a_nat in ((True, 1.0), (False, 1 / math.log(2))):
        found = pdtools.load(models["pushdown"], beam=5).surprisal(frame, nats=nats)
        for name, scale in (("attachment", a_nat), ("closed", 1.0)):
            (a, b, c, _), (d, e, f, _) = (each.measures[name] * scale for each in whole)
            assert found[name].tolist() == pytest.approx([a + b, c, d, e + f], rel=2e-6, abs=1e-5)
        assert found.get("unit", pd.Series()).tolist() == ["nats"] * 4 * nats
    of_next = load_model(models["pushdown"], SearchOptions(beam=5), measures=("entropy",))
    (a, _, c, _), (d, e, _, _) = (each.measures["entropy"] for each in of_next.score(["a b c", "c b a"]))
    for nats, a_nat in ((True, 1.0), (False, 1 / math.log(2))):  # a region's is that of its first token
        found = pdtools.load(models["pushdown"], beam=5).surprisal(frame, nats=nats, entropy=True)
        assert found.entropy.tolist() == pytest.approx([x * a_nat for x in (a, c, d, e)], rel=2e-6, abs=1e-5)


def test_spaces_are_corrected_as_for_reading_times(models: dict[str, Path], tmp_path: Path) -> None:
    """A word's surprisal is that of eval-reading's alignment; a unit that ends within a word has no space."""
    measures = {"begins": np.array([-1.0, 0, -4, -8]), "ends": np.array([-16.0, -32, -64, -128])}
    text = "barking dog"
    whole = score(text, [(0, 4), (4, 7), (8, 11)], measures=measures)
    only = align(split_spaces(text), [(0, whole)], spaces=True).values["surprisal"]
    found = unit_values(whole, [(0, 7), (8, 11)])["surprisal"]
    assert found / math.log(2) == pytest.approx(only)
    parts = unit_values(whole, [(0, 4), (4, 7), (8, 11)])["surprisal"]
    assert parts.tolist() == [1 - 1, 2 + 32, 4 - 4 + 64]
    frame = pd.DataFrame({"sentence": ["A king | smiled", "The queen | of ducks"]})
    (tmp_path / "t.csv").write_text(frame.to_csv(index=False))
    for name in ("gpt2", "raw"):
        model = pdtools.load(models[name])
        plain, corrected = model.surprisal(frame), model.surprisal(frame, correct_spaces=True)
        assert (plain.surprisal - corrected.surprisal).abs().min() > 1e-6
        out = tmp_path / f"{name}.csv"
        surprisal(tmp_path / "t.csv", "--model", models[name], "--correct-spaces", "-o", out)
        assert pd.read_csv(out).surprisal.tolist() == pytest.approx(
            corrected.surprisal.tolist(), rel=2e-6, abs=1e-5
        )


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_is_what_is_written(
    seed: int, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report and the messages, with options, models and forms of tables crossed."""
    words, nats, is_spaced, is_long = (bool(seed >> bit & 1) for bit in (0, 1, 2, 0))
    is_long ^= nats
    names = [["gpt2", "raw"], ["base"], ["gpt2"], ["base", "pushdown"]][seed % 4]
    sentences = ["a b | c", "a zebra | a", "b | b"]
    if "gpt2" in names:  # the first is cut within the longest token
        tokens = pdtools.load(models["raw"]).surprisal(text := "No queen has")
        cut = int(tokens.end[(tokens.end - tokens.start).idxmax()]) - 1
        sentences = [f"{text[:cut]} | {text[cut:]}", "No queen | has smil", "No queen | has smil"]
    if is_long:
        sentences = list(dict.fromkeys(sentences))
        rows = [
            (n, k, part.strip()) for n, each in enumerate(sentences) for k, part in enumerate(each.split("|"))
        ]
        lines = ["item,region,text", *(f"{item},{k},{text}" for item, k, text in rows)]
    else:
        joined = [sentences[0].replace(" | ", "|") if "gpt2" in names else sentences[0], *sentences[1:]]
        lines = ["item,sentence", *(f"{n % 2},{each}" for n, each in enumerate(joined))]
    (file := tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    options = ["--words"] * words + ["--nats"] * nats + ["--correct-spaces"] * is_spaced
    options += ["--glue", ""] if is_long and "gpt2" in names else []
    options += [part for name in names for part in ("--model", str(models[name]))]
    (counts := tmp_path / "counts.tsv").write_text("word\tcount\nNo\t3\na\t5\n")
    options += ["--frequencies", str(counts)] * words
    out = tmp_path / "o.csv"
    surprisal(file, *options, "--on-error", "skip", "--beam", "6", "--json", "-o", out)
    printed = capsys.readouterr()
    report, table = json.loads(printed.out), pd.read_csv(out)
    crossing = int(table.crossing.sum())
    assert table.groupby("model").crossing.sum().gt(0).all() or "gpt2" not in names
    assert report["counts"] == {"sentences": len(sentences), "rows": len(table), "crossing": crossing}
    settings = report["settings"]
    assert (settings["unit"], settings["rows"]) == (
        "nats" if nats else "bits",
        "words" if words else "regions",
    )
    assert list(settings["models"]) == table.model.unique().tolist() == names
    kinds = {"gpt2": "huggingface", "base": "string"}
    assert [each["kind"] for each in settings["models"].values()] == [
        kinds.get(name, "derivation") for name in names
    ]
    for name in names:
        own, unit = table[table.model == name], 1 if nats else 1 / math.log(2)
        found = pdtools.load(models[name], beam=6)
        texts = pd.read_csv(file).sentence if not is_long else pd.Series(dtype=str)
        if not is_spaced:  # the sums of the sentences' tokens, without their ends
            for item, text in texts.drop_duplicates().items():
                if "zebra" not in text:
                    tokens = found.surprisal(" ".join(text.replace("|", "").split()), nats=True)
                    inside = tokens[tokens.token != "<eos>"].surprisal.sum() * unit
                    per_row = own[own.sentence == text].surprisal.sum() / (texts == text).sum()
                    assert per_row == pytest.approx(inside, abs=1e-5), (item, text)
    records = [json.loads(line) for line in (tmp_path / "o.csv.rejects.jsonl").read_text().splitlines()]
    reasons = [each["reason"] for each in records]
    assert report["rejects"] == {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    assert len(records) == len(names) * sum("zebra" in each for each in sentences)
    inputs = report["provenance"]["inputs"]
    assert inputs.keys() == {"table", *(str(models[name]) for name in names), *["frequencies"] * words}
    assert inputs["table"]["path"] == str(file)
    of = "word" if words else "region"
    said = [f"{file}: {settings['table']}", *(f"{file}: {note}" for note in settings["notes"])]
    said += [f"{crossing} tokens reach over the end of a {of}: they count where they begin"] * (crossing > 0)
    said += [f"{each['file']}:{each['line']}: no score: {each['reason']}" for each in records]
    assert printed.err.splitlines() == said


def test_action_models_do_not_correct_for_spaces(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message says so of each, and their surprisals are those of words with the spaces before them."""
    scores = REPOSITORY / "tests" / "goldens" / "scores"
    table, made = tmp_path / "t.csv", []
    table.write_text("sentence\n" + (scores / "line.txt").read_text())
    for options in ([], ["--correct-spaces", "--model", models["raw"]]):
        out = tmp_path / f"{len(options)}.csv"
        surprisal(table, "--model", scores / "checkpoints" / "tg", "--beam", "4", *options, "-o", out)
        found = pd.read_csv(out)
        made.append(found[found.model == "tg"].surprisal.tolist())
    assert made[0] == made[1]
    said = [line for line in capsys.readouterr().err.splitlines() if "corrected" in line]
    assert said == ["tg: not corrected for spaces, which its model cannot"]


# --- the same items in every form -------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "raw"])
def test_wide_long_and_suite_are_the_same(name: str, models: dict[str, Path], tmp_path: Path) -> None:
    """And what eval-sg has, whose suites are words between spaces."""
    model = models.get(name, name)
    texts = suite_texts()
    wide = pd.DataFrame(
        [
            {"item": item, "condition": condition, "sentence": " | ".join(own)}
            for (item, condition), own in texts.items()
        ]
    )
    long = pd.DataFrame(
        [
            {"item": item, "condition": condition, "region": region, "text": text}
            for (item, condition), own in texts.items()
            for region, text in enumerate(own, 1)
        ]
    ).sample(frac=1, random_state=0)
    suite = json.loads((REPOSITORY / "data" / "sg" / "mini_npi_ever.json").read_text())
    suite["items"] = suite["items"][:6]
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    common = ["--model", model, "--beam", 5, "--quiet"]
    spaced = ["--from", "tokens"] if name == "raw" else []
    wide.to_csv(tmp_path / "wide.csv", index=False)
    long.to_csv(tmp_path / "long.tsv", index=False, sep="\t")
    surprisal(tmp_path / "wide.csv", *common, *spaced, "-o", tmp_path / "w.csv")
    surprisal(tmp_path / "long.tsv", *common, *spaced, "-o", tmp_path / "l.parquet")
    sg = ["eval-sg", tmp_path / "suite.json", *common, "--device", "cpu", "-o", tmp_path / "sg"]
    assert run(list(map(str, sg))) == 0
    key = ["item", "condition", "region"]
    regions = pd.read_parquet(tmp_path / "sg" / "strings.parquet").dropna(subset="region")
    regions = regions.rename(columns={"string": "condition"}).astype({"item": int}).sort_values(key)
    of_wide = pd.read_csv(tmp_path / "w.csv").sort_values(key)
    of_long = pd.read_parquet(tmp_path / "l.parquet")
    assert of_long[[*key, "text"]].to_numpy().tolist() == long.to_numpy().tolist()  # the order of its rows
    for found in (of_wide, of_long.sort_values(key)):
        assert found[key].to_numpy().tolist() == regions[key].to_numpy().tolist()
        assert found.surprisal.to_numpy() == pytest.approx(regions.bits.to_numpy(), rel=2e-6, abs=1e-5)
        assert found.n_tokens.tolist() == regions.tokens.tolist()
    assert of_wide.region_text.tolist() == regions.text.tolist()


# --- command and Python -----------------------------------------------------------------------

TABLE = 'Item,Condition,Note,Sentence\n2,x,"a, b",a b | c\n1,y,,c | b\n1,x,,\n2,x,,a b | c\n'


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("pushdown", options) for options in ([], ["words", "parses"], ["entropy"], ["nats"])),
        *(("head", ["parses"]), ("base", ["words"]), ("base", ["parses"])),
        *(("raw", ["correct_spaces", *options]) for options in ([], ["entropy"])),
    ],
)
def test_python_is_the_command(
    name: str, options: list[str], models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    flags = [f"--{option.replace('_', '-')}" for option in options]
    if name == "base" and "parses" in options:
        surprisal(tmp_path / "t.csv", "--model", models[name], *flags, code=1)
        return
    surprisal(tmp_path / "t.csv", "--model", models[name], "--beam", 4, *flags, "-o", tmp_path / "o.csv")
    assert "CSV, wide: a sentence a row (Sentence), regions between |; 4 sentences" in capsys.readouterr().err
    frame = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    frame.index = pd.Index([7, 7, 8, 9])
    theirs = pd.read_csv(tmp_path / "o.csv")
    ours = pdtools.load(models[name], beam=4).surprisal(frame, **dict.fromkeys(options, True))
    assert ours.columns[:4].tolist() == ["Item", "Condition", "Note", "Sentence"]
    ours.to_csv(tmp_path / "ours.csv", index=False)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "ours.csv"), theirs, atol=1e-5)
    rows = [0, 0, 1, 1, 2, 3, 3] if "words" not in options else [0, 0, 0, 1, 1, 3, 3, 3]
    assert theirs.Item.tolist() == [[2, 1, 1, 2][row] for row in rows]
    if name in ("pushdown", "raw"):
        added = {"entropy"} if "entropy" in options else {"attachment", "closed"}
        assert {"entropy", "attachment", "closed"} & set(theirs.columns) == added
    if "parses" in options:
        parses = theirs.parse.dropna().str.findall("[abc]").str.join("").tolist()
        units = ["ab", "abc", "c", "cb", "ab", "abc"]
        assert parses == (units if "words" not in options else ["a", *units[:4], "a", *units[4:]])


@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [("gpt2", ["--no-bos"], {"bos": False}), ("base", ["--dtype", "bf16"], {"dtype": "bf16"})],
)
def test_a_model_is_loaded_as_the_command_loads_it(
    name: str, options: list[str], asked: dict[str, Any], models: dict[str, Path], tmp_path: Path
) -> None:
    text = "A king smiled" if name == "gpt2" else "a b c"
    surprisal("--text", text, "--model", models[name], *options, "-o", tmp_path / "o.tsv")
    theirs = pd.read_csv(tmp_path / "o.tsv", sep="\t")
    ours, plain = (pdtools.load(models[name], **how).surprisal(text) for how in (asked, {}))
    assert ours.surprisal.tolist() == pytest.approx(theirs.surprisal.tolist(), abs=1e-7)
    assert ours.surprisal.tolist() != plain.surprisal.tolist()


def test_several_models(models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One below the other; what one of them alone has is empty of the others. Workers make no difference."""
    (tmp_path / "t.csv").write_text("item,sentence\n2,a b\n1,c\n")
    named = ["--model", models["pushdown"], "--model", models["gpt2"], "--beam", 3]
    surprisal(tmp_path / "t.csv", *named, "-o", tmp_path / "o.csv", "--json")
    document = json.loads(capsys.readouterr().out)
    found = pd.read_csv(tmp_path / "o.csv")
    assert found.model.tolist() == ["pushdown", "pushdown", "gpt2", "gpt2"]
    assert found.item.tolist() == [2, 1, 2, 1]
    assert found.attachment.isna().tolist() == [False, False, True, True]
    assert document["counts"] == {"sentences": 2, "rows": 4, "crossing": 0}
    assert document["settings"]["models"]["pushdown"]["beam"] == 3
    for name in ("pushdown", "gpt2"):
        alone = pdtools.load(models[name], beam=3).surprisal(pd.read_csv(tmp_path / "t.csv"))
        assert found.surprisal[found.model == name].tolist() == pytest.approx(
            alone.surprisal.tolist(), rel=2e-6, abs=1e-7
        )
    surprisal(tmp_path / "t.csv", *named, "-o", tmp_path / "two.csv", "--workers", 2, "--quiet")
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()


def test_spill_over_stays_in_its_sentence(models: dict[str, Path], tmp_path: Path) -> None:
    frame = pd.DataFrame({"item": [1, 1, 1, 2, 2], "word": list("abccb"), "length": [9] * 5})
    with pytest.raises(InputError, match="'length'"):
        pdtools.load(models["base"]).surprisal(frame, words=True)
    model = pdtools.load(models["base"])
    found = model.surprisal(frame.drop(columns="length"), words=True, frequency={"a": -1.0, "b": -2.0}.get)
    own = found.surprisal.tolist()
    nan = math.nan
    assert found.surprisal_1.tolist() == pytest.approx([nan, own[0], own[1], nan, own[3]], nan_ok=True)
    assert found.surprisal_2.tolist() == pytest.approx([nan, nan, own[0], nan, nan], nan_ok=True)
    assert found.word_number.tolist() == [1, 2, 3, 1, 2]
    assert found.length.tolist() == [1] * 5
    assert found.length_1.fillna(0).tolist() == [0, 1, 1, 0, 1]
    assert found.frequency_2.tolist() == pytest.approx([nan, nan, -1, nan, nan], nan_ok=True)
    assert found.frequency.tolist() == pytest.approx([-1, -2, nan, nan, -2], nan_ok=True)
    assert found.surprisal.tolist()[:3] == pytest.approx(model.surprisal("a b c").surprisal.tolist()[:3])


def test_frequencies_and_tables_of_words(models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("item\tsentence\n1\ta b\n")
    (tmp_path / "counts.tsv").write_text("a\t3\nc\t1\n")
    common = [tmp_path / "t.tsv", "--model", models["base"], "--frequencies", tmp_path / "counts.tsv"]
    surprisal(*common, "--words", "-o", tmp_path / "o.tsv", "--quiet")
    header, *lines = (line.split("\t") for line in (tmp_path / "o.tsv").read_text().splitlines())
    assert header[-6:] == ["length", "length_1", "length_2", "frequency", "frequency_1", "frequency_2"]
    log = f"{math.log2(0.75):.8f}"
    assert [line[-6:] for line in lines] == [["1", "", "", log, "", ""], ["1", "1", "", "", log, ""]]
    surprisal(*common, code=2)


def test_what_is_written(models: dict[str, Path], tmp_path: Path) -> None:
    """All columns as they were, the unnamed and doubled ones too; numbers are numbers in Parquet."""
    import pyarrow.parquet as pq

    header = "item,,Ans,Ans,code,share,sentence"
    (tmp_path / "t.csv").write_text(f'{header}\n1,u,"x,y",z,007,1.5,a\n2,,2,3,010,,b\n')
    for suffix in ("csv", "parquet"):
        surprisal(tmp_path / "t.csv", "--model", models["base"], "-o", tmp_path / f"o.{suffix}", "--quiet")
    first, one, _ = (tmp_path / "o.csv").read_text().splitlines()
    assert first == f"{header},model,surprisal,n_tokens,unknown,crossing"
    assert one.startswith('1,u,"x,y",z,007,1.5,a,base,')
    table = pq.ParquetFile(tmp_path / "o.parquet").read()
    assert table.column_names[:7] == header.split(",")
    assert [each.to_pylist() for each in table.columns[:7]] == [
        *([1, 2], ["u", None], ["x,y", "2"], ["z", "3"], ["007", "010"], [1.5, None], ["a", "b"])
    ]
    assert [str(each.type) for each in table.columns[7:]] == ["string", "double", *["int64"] * 3]


NUMBERS = ["0", "-1", "10", "999999999999999", "-0.5", "123456789012.345"]
TEXTS = ["1_2", "007", "00", "+1", "1e3", "nan", "inf", " 1", "1.", ".5", "\u0663", "1" * 16, "1,5", "True"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
def test_columns_in_parquet(kind: str, models: dict[str, Path], tmp_path: Path) -> None:
    """Numbers only where every cell is plainly one, else the text as it stands; nothing of an empty cell."""
    import pyarrow.parquet as pq

    columns = {"sentence": list("abcdef"), "whole": ["3"] * 5 + [""], "none": [""] * 6, "share": NUMBERS}
    columns |= {f"t{i}": ["11", "", text, "112", "0", "1"] for i, text in enumerate(TEXTS)}
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    file = tmp_path / f"t.{kind}"
    if kind == "xlsx":
        write_workbook(file, rows_of(*rows))
    else:
        with atomic_table(file, rows[0]) as write:
            list(map(write, rows[1:]))
    surprisal(file, "--model", models["base"], "--on-error", "skip", "-o", tmp_path / "o.parquet", "--quiet")
    found = pq.ParquetFile(tmp_path / "o.parquet").read()
    assert found["whole"].to_pylist() == [3] * 5 + [None]
    assert found["share"].to_pylist() == list(map(float, NUMBERS))
    types = ["string", "int64", "string", "double"] + ["string"] * len(TEXTS)
    assert [str(found[name].type) for name in columns] == types
    for name, cells in columns.items():
        if name not in ("whole", "share"):
            assert found[name].to_pylist() == [cell or None for cell in cells]


def test_numbers_of_a_workbook_in_parquet(models: dict[str, Path], tmp_path: Path) -> None:
    """They stay numbers in all their digits; truth values, dates and columns of mixed kinds become text."""
    import pyarrow.parquet as pq

    rows = [
        ["n", "x", "b", "m", "none", "sentence"],
        [1, 0.1 + 0.2, True, 1, "", "a"],
        [2, 1e-7, False, "x", "", "b"],
    ]
    write_workbook(tmp_path / "t.xlsx", rows_of(*rows))
    surprisal(tmp_path / "t.xlsx", "--model", models["base"], "-o", tmp_path / "o.parquet", "--quiet")
    columns = pq.ParquetFile(tmp_path / "o.parquet").read().to_pydict()
    found = [columns[name] for name in rows[0]]
    expected = [[1, 2], [0.1 + 0.2, 1e-7], ["True", "False"], ["1", "x"], [None, None], ["a", "b"]]
    assert found == expected


@pytest.mark.parametrize("at_break", ["\n", "\r\n"])
def test_line_breaks_in_cells(
    at_break: str, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TSV has a blank in place of each, which is said with the number of cells; CSV and Parquet keep them."""
    text = f'"my{at_break}item",sentence,note\n1,a | b,"x{at_break}y{at_break}z"\n2,"a{at_break}| b",\n'
    (tmp_path / "t.csv").write_bytes(text.encode())
    for name in ("o.tsv", "o.csv", "o.parquet"):
        surprisal(tmp_path / "t.csv", "--model", models["base"], "-o", tmp_path / name)
        said = "o.tsv: 3 cells with a line break, which TSV lacks: a blank stands for it"
        err = capsys.readouterr().err
        assert (said in err) == ("line break" in err) == (name == "o.tsv")
    lines = (tmp_path / "o.tsv").read_text().splitlines()
    assert lines[0].startswith("my item\tsentence\tnote\tmodel")
    assert [line.split("\t")[:3] for line in lines[1::2]] == [["1", "a | b", "x y z"], ["2", "a | b", ""]]
    kept = [pd.read_csv(tmp_path / "o.csv"), pd.read_parquet(tmp_path / "o.parquet")]
    assert [frame["note"][0].split() for frame in kept] == [["x", "y", "z"]] * 2


def test_sentences_without_a_word_are_in_the_rejects(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, under either policy, beside those that the model cannot read; the command goes on."""
    (tmp_path / "t.csv").write_text("item,sentence,other\n1,a,\n2, |  ,b\n3,b,a\n4,x,a\n")
    rows = "item,region,text\n1,1,a\n2,1,\n2,2,\n"
    (tmp_path / "l.csv").write_text(rows)
    both = ["--model", models["base"], "--model", models["pushdown"]]
    given = [tmp_path / "t.csv", *both, "--column", "sentence=sentence,other"]
    surprisal(*given, "-o", tmp_path / "o.csv", "--on-error", "skip")
    lines = (tmp_path / "o.csv.rejects.jsonl").read_text().splitlines()
    records = list(map(json.loads, lines))
    empty = [(each["line"], each["reason"]) for each in records if each["reason"].startswith("no words")]
    assert empty == [(2, "no words in other"), (3, "no words in sentence")]
    assert {each["line"] for each in records if not each["reason"].startswith("no words")} == {5}
    assert "t.csv:3: no score: no words in sentence" in capsys.readouterr().err
    surprisal(tmp_path / "l.csv", *both, "-o", tmp_path / "l.tsv", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["rejects"] == {"no words": 1}
    assert json.loads((tmp_path / "l.tsv.rejects.jsonl").read_text())["line"] == 3


@pytest.mark.parametrize("words", [[], ["--words"]])
@pytest.mark.parametrize(
    ("glue", "between"),
    [([], " | "), (["--glue", " "], " | "), (["--glue", ""], "|"), (["--glue", "-"], "-|")],
)
def test_regions_joined_by_glue(
    glue: list[str], between: str, words: list[str], models: dict[str, Path], tmp_path: Path
) -> None:
    """They have the surprisals of the sentence written with bars; glue belongs to the region before it."""
    regions = ["No qu", "een", "has", "smil", "ed."]
    rows = "".join(f"1,{n},{region}\n" for n, region in enumerate(regions, 1))
    (tmp_path / "long.csv").write_text(f"item,region,text\n{rows}")
    (tmp_path / "wide.csv").write_text(f"item,sentence\n1,{between.join(regions)}\n")
    for name, given in (("long", glue), ("wide", [])):
        model = ["--model", models["gpt2"], "-o", tmp_path / f"{name}.tsv"]
        surprisal(tmp_path / f"{name}.csv", *model, *words, *given)
    own, whole = (pd.read_csv(tmp_path / f"{name}.tsv", sep="\t") for name in ("long", "wide"))
    for column in ("n_tokens", "surprisal"):
        assert own[column].tolist() == whole[column].tolist()
    of_python: dict[str, Any] = {"words": bool(words), **({"glue": glue[1]} if glue else {})}
    in_python = pdtools.load(models["gpt2"]).surprisal(pd.read_csv(tmp_path / "long.csv"), **of_python)
    assert in_python.surprisal.tolist() == pytest.approx(own.surprisal.tolist(), abs=1e-7)


@pytest.mark.parametrize("name", ["x.rds", "x.csv.bz2"])
def test_names_of_tables_that_are_not_written(
    name: str, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("sentence\na\n")
    (tmp_path / "t.txt").write_text("a\n")
    model, out = ["--model", models["base"], "--quiet"], tmp_path / name
    for file, kinds in (("t.csv", ".csv, .tsv or .parquet"), ("t.txt", ".csv or .tsv")):
        surprisal(tmp_path / file, *model, "-o", out, code=1)
        assert capsys.readouterr().err == f"pdtools: {out}: tables are written as {kinds}\n"
    assert not out.exists()


def test_sentences_without_a_score(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their rows stay, without numbers."""
    (tmp_path / "t.csv").write_text("sentence\na | b\nx | a\nx | a\n")
    common = [tmp_path / "t.csv", "--model", models["base"], "-o", tmp_path / "o.csv"]
    surprisal(*common, code=1)
    assert "t.csv:3: " in capsys.readouterr().err
    surprisal(*common, "--on-error", "skip")
    found = pd.read_csv(tmp_path / "o.csv")
    assert found.region_text.tolist() == ["a", "b", "x", "a", "x", "a"]
    assert found.surprisal.isna().tolist() == [False, False, *[True] * 4]
    assert found.n_tokens.isna().tolist() == [False, False, *[True] * 4]
    records = [json.loads(line) for line in (tmp_path / "o.csv.rejects.jsonl").read_text().splitlines()]
    assert [(each["line"], each["text"]) for each in records] == [(3, "x a"), (4, "x a")]  # read once
    with pytest.warns(UserWarning, match="table: an earlier row is there again in row 2, and counts again"):
        pdtools.load(models["base"]).surprisal(pd.DataFrame({"sentence": ["a", "a"]}))
    with pytest.warns(UserWarning, match="^table: ") as said:  # each doubt
        pdtools.load(models["base"]).surprisal(pd.DataFrame({"sentence": ["a", "a", "NA"]}), skip=True)
    begun = [str(each.message)[:38] for each in said if "table: " in str(each.message)]
    assert begun == ["table: sentence is NA in row 3, read a", "table: an earlier row is there again i"]
    with pytest.raises(InputError, match="table:2: "):
        pdtools.load(models["base"]).surprisal(pd.read_csv(tmp_path / "t.csv"))


def test_context(models: dict[str, Path], tmp_path: Path) -> None:
    """The sentences of a file before each; those of its text before, where a table numbers sentences."""
    (tmp_path / "before.txt").write_text("No queen has ever smiled .\n")
    (tmp_path / "wide.csv").write_text("item,sentence\n1,A king | smiled\n")
    rows = ["1,2,smiled", "1,1,king", "2,1,A"]
    (tmp_path / "long.csv").write_text("item,sentence,word\n" + "".join(f"{row}\n" for row in rows))
    model = ["--model", models["gpt2"], "--quiet", "-o"]
    surprisal(tmp_path / "wide.csv", *model, tmp_path / "alone.csv")
    surprisal(tmp_path / "wide.csv", *model, tmp_path / "after.csv", "--context", tmp_path / "before.txt")
    alone, after = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("alone", "after"))
    assert (alone.surprisal - after.surprisal).abs().max() > 1e-6
    assert after.seen[0] > 0
    surprisal(tmp_path / "long.csv", *model, tmp_path / "text.csv", "--context", "document")
    found = pd.read_csv(tmp_path / "text.csv")
    assert [seen > 0 for seen in found.seen] == [True, False, False]
    surprisal(tmp_path / "long.csv", *model, tmp_path / "stride.csv", "--stride", 16)
    assert [seen > 0 for seen in pd.read_csv(tmp_path / "stride.csv").seen] == [True, False, False]
    (tmp_path / "two.csv").write_text("item,sentence\n1,A king | smiled\n1,No queen | smiled\n")
    surprisal(tmp_path / "two.csv", *model, tmp_path / "each.csv")
    surprisal(tmp_path / "two.csv", *model, tmp_path / "strides.csv", "--stride", 16)  # each is a text
    each, strides = (pd.read_csv(tmp_path / f"{name}.csv").surprisal for name in ("each", "strides"))
    assert strides.tolist() == pytest.approx(each.tolist(), rel=1e-5)
    surprisal(tmp_path / "wide.csv", *model, tmp_path / "no.csv", "--context", "document", code=1)


def test_refused(models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("t.csv", "u.csv"):
        (tmp_path / name).write_text("sentence\na | b\n")
    (tmp_path / "in.txt").write_text("a\n")
    model = ["--model", models["base"], "--quiet"]
    for given, code, said in (
        ([tmp_path / "t.csv", tmp_path / "u.csv"], 1, "read by itself"),
        ([tmp_path / "t.csv", tmp_path / "in.txt"], 1, "read by itself"),
        ([tmp_path / "t.csv", "--rank"], 2, "--rank"),
        ([tmp_path / "t.csv", "--trees", tmp_path / "in.txt"], 1, "--trees belong to lines of text"),
        ([tmp_path / "t.csv", "-o", tmp_path / "o.xlsx"], 1, "written as .csv, .tsv or .parquet"),
        ([tmp_path / "t.csv", "--column", "sentence"], 2, "NAME=COLUMN"),
        ([tmp_path / "t.csv", "-o", tmp_path / "t.csv", "--overwrite"], 1, "is the input"),
        ([tmp_path / "in.txt", "--column", "sentence=x"], 2, "goes with a table"),
        ([tmp_path / "in.txt", "--correct-spaces"], 2, "--correct-spaces goes with a table"),
        (["--text", "a", "--correct-spaces"], 2, "--correct-spaces goes with a table"),
        ([tmp_path / "in.txt", "--model", "demo"], 2, "several go with a table"),
    ):
        surprisal(*given, *model, code=code)
        assert said in " ".join(capsys.readouterr().err.split())
    (tmp_path / "t.csv").write_text("sentence\nNo q|ueen .\n")
    model = ["--model", models["raw"], "--quiet"]
    surprisal(tmp_path / "t.csv", *model, "--from", "tokens", code=1)
    assert "t.csv:2: a region ends within a word" in capsys.readouterr().err
    with pytest.raises(PdtoolsError, match="ranks are of tokens"):
        pdtools.load(models["base"]).surprisal(pd.DataFrame({"sentence": ["a"]}), rank=True)


def test_tables_are_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("item,sentence\n1,a\n")
    (tmp_path / "times.tsv").write_text("item\tword_number\tword\tsubject\trt\n1\t1\ta\ts\t300\n")
    commands = [
        ["surprisal", "t.csv", "--model", "demo", "--wordfreq", "en"],
        ["surprisal", "t.csv", "--model", "demo", "--column", "sentence=x"],
        ["eval-reading", "times.tsv", "--model", "demo"],
    ]
    program = (
        "import json, sys; from pdtools.cli.main import run; print([run(c) for c in json.loads(sys.argv[1])]"
    )
    program += ", 'torch' in sys.modules)"
    command = [sys.executable, "-c", program, json.dumps(commands)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[2, 1, 1] False\n", done.stderr
