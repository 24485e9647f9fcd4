"""pdtools in Python: the tables of the commands, and what may follow."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from action_oracle import action_model
from search_oracle import exhaustive_prefixes, save_checkpoints
from wide_items import wide_items

import pdtools
from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.models import load_checkpoint, save_checkpoint

TEXTS = ["a b c", "c b"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    found, tokenizer = save_checkpoints(folder)
    tokenizer = tokenizer.with_labels(["NP", "VP"])
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(folder / "tg", action_model("tg", "relative"), tokenizer, shards=shards)
    return {**found, "tg": folder / "tg"}


def printed(command: list[object], capsys: pytest.CaptureFixture[str]) -> pd.DataFrame:
    capsys.readouterr()
    assert run([*map(str, command), "--device", "cpu", "--quiet"]) == 0
    return pd.read_csv(io.StringIO(capsys.readouterr().out), sep="\t", quoting=csv.QUOTE_NONE)


def same(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(ours, theirs, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("base", ["nats", "entropy", "rank"]),
        ("pushdown", []),
        ("pushdown", ["parses"]),
        ("pushdown", ["words", "entropy"]),
        ("tg", ["entropy", "rank"]),
        ("tg", ["words", "entropy"]),
    ],
)
def test_surprisals_are_the_commands(
    folders: dict[str, Path], kind: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = pdtools.load(folders[kind], beam=20)
    flags = [f"--{option}" for option in options]
    texts = [part for text in TEXTS for part in ("--text", text)]
    command = ["surprisal", *texts, "--model", folders[kind], "--beam", 20, *flags]
    same(model.surprisal(TEXTS, **dict.fromkeys(options, True)), printed(command, capsys))


def test_entropies_and_ranks_by_enumeration(folders: dict[str, Path]) -> None:
    """Every derivation of every prefix with every token."""
    loaded = load_checkpoint(folders["pushdown"])
    model, tokenizer = loaded.model, loaded.tokenizer
    tokens = [tokenizer.vocabulary[word] for word in "abc"]
    found = pdtools.load(folders["pushdown"], beam=50).surprisal("a b c", nats=True, entropy=True, rank=True)
    vocabulary = range(tokenizer.vocab_size)
    for n in range(4):
        before = exhaustive_prefixes(model, tokens[:n])[n]
        values = np.array([exhaustive_prefixes(model, [*tokens[:n], v])[n + 1] for v in vocabulary]) - before
        values[model.eos_id] = exhaustive_prefixes(model, tokens[:n])[n + 1] - before
        assert np.exp(values).sum() == pytest.approx(1, rel=2e-6, abs=1e-5)
        came = [*tokens, model.eos_id][n]
        assert found.surprisal[n] == pytest.approx(-values[came], rel=2e-6, abs=1e-5)
        assert found.entropy[n] == pytest.approx(-(np.exp(values) * values).sum(), rel=2e-6, abs=1e-4)
        assert found["rank"][n] == 1 + (values > values[came]).sum()


@pytest.mark.parametrize("kind", ["base", "head", "pushdown", "tg"])
def test_next_tokens_are_a_distribution_that_surprisals_agree_with(
    folders: dict[str, Path], kind: str
) -> None:
    widths = {"beam": 1000, "word_beam": 1000} if kind == "tg" else {"beam": 100}
    model = pdtools.load(folders[kind], **widths)
    for prefix, token in (("", "b"), ("b", "a"), ("b a", "<eos>")):
        table = model.next_token(prefix)
        assert table["rank"].tolist() == list(range(1, len(model.vocabulary) + 1))
        assert table.probability.sum() == pytest.approx(1, rel=2e-6, abs=1e-5)
        assert table.probability.is_monotonic_decreasing
        sentence = model.surprisal("b a")
        (expected,) = sentence[sentence.token == token].surprisal
        (found,) = table[table.token == token].surprisal
        assert found == pytest.approx(expected, rel=2e-6, abs=1e-4)
        assert model.next_token(prefix, 2).token.tolist() == table.token.tolist()[:2]


def test_pairs_are_scored_as_eval_blimp_does(folders: dict[str, Path], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence_good\tsentence_bad\na b c\tc b a\nb\tzebra\na\ta\n")
    command = ["eval-blimp", pairs, "--model", folders["pushdown"], "-o", tmp_path / "out", "--device", "cpu"]
    assert run([*map(str, command), "--quiet"]) == 0
    wanted = wide_items(tmp_path / "out").rename(columns={"good": "sentence_good", "bad": "sentence_bad"})
    known = [f"{name}_{role}" for name in ("logprob", "tokens", "dropped") for role in ("good", "bad")]
    wanted.loc[wanted.outcome == "unscorable", known] = None  # only one of its sentences has a score
    columns = ["sentence_good", "sentence_bad", *known, "outcome", "correct", "margin_bits", "reason"]
    model = pdtools.load(folders["pushdown"])
    table = pd.read_csv(pairs, sep="\t")
    for given in (table, list(zip(table.sentence_good, table.sentence_bad, strict=True))):
        same(model.score(given)[columns], wanted[columns])
    for none in (table[:0], []):
        assert list(model.score(none).columns) == list(model.score(table).columns)
        assert not len(model.score(none))


def test_parses_and_samples_are_the_commands(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = pdtools.load(folders["pushdown"], beam=10)
    scores = tmp_path / "scores.tsv"
    texts = [part for text in TEXTS for part in ("--text", text)]
    command = [
        "decode",
        *texts,
        "--model",
        folders["pushdown"],
        "--beam",
        10,
        "--k-best",
        2,
        "--scores",
        scores,
    ]
    assert run([*map(str, command), "--device", "cpu", "--quiet"]) == 0
    trees = capsys.readouterr().out.splitlines()
    wanted = pd.read_csv(scores, sep="\t", quoting=csv.QUOTE_NONE)
    found = model.parse(TEXTS, k_best=2)
    pd.testing.assert_frame_equal(found, wanted, atol=1e-5, rtol=1e-2, check_dtype=False)
    assert found[found["rank"] == 1].tree.tolist() == trees
    assert [str(tree) for tree in pdtools.load(folders["pushdown"], beam=10).trees("a b c")] == trees[:1]
    assert run(["sample", "--model", str(folders["pushdown"]), "-n", "4", "--quiet", "--device", "cpu"]) == 0
    assert model.sample(4).tree.tolist() == capsys.readouterr().out.splitlines()
    assert pdtools.load(folders["base"]).sample(2).tree.isna().all()


@pytest.mark.parametrize("seed", range(12))
def test_python_is_the_commands_whatever_is_asked_for(
    seed: int, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All functions, with options of searches crossed with their own."""
    rng = random.Random(seed)
    kind = ["pushdown", "tg", "head"][seed % 3]
    widths = {"beam": rng.choice([1, 3, 9]), "margin": rng.choice([None, 0.3, 2.0])}
    searched = {"max_batch": rng.choice([None, 1, 2])}
    if kind == "tg":
        searched |= {"word_beam": rng.choice([None, 1]), "fast_track": rng.choice([None, 0, 1])}
    options: list[object] = ["--beam", widths["beam"]]
    options += [] if widths["margin"] is None else ["--margin", widths["margin"]]
    further = {name: value for name, value in searched.items() if value is not None}
    of_search = [part for name, value in further.items() for part in ("--search", f"{name}={value}")]
    model = pdtools.load(folders[kind], **widths, **further)
    texts = [" ".join(rng.choices("abc", k=rng.randint(1, 5))) for _ in range(4)]
    given = [part for text in texts for part in ("--text", text)]
    common = ["--model", folders[kind], *options]
    flags = rng.choice([["words", "entropy"], ["rank", "entropy", "nats"], ["parses"], ["parses", "words"]])
    flags = [flag for flag in flags if flag != "parses" or kind == "pushdown"]
    command = ["surprisal", *given, *common, *of_search, *(f"--{flag}" for flag in flags)]
    same(model.surprisal(texts, **dict.fromkeys(flags, True)), printed(command, capsys))

    k_best, scores = 1 if kind == "tg" else rng.randint(1, 3), tmp_path / "scores.tsv"
    command = ["decode", *given, *common, *of_search, "--k-best", k_best, "--scores", scores, "-o"]
    assert run([*map(str, [*command, tmp_path / "best.trees"]), "--device", "cpu", "-q"]) == 0
    wanted = pd.read_csv(scores, sep="\t", quoting=csv.QUOTE_NONE)
    parsed = model.parse(texts, k_best=k_best)
    same(parsed[wanted.columns.drop("dropped")], wanted.drop(columns="dropped"))
    np.testing.assert_allclose(parsed.dropped, wanted.dropped, rtol=1e-2)  # three digits are written
    assert list(map(str, model.trees(texts))) == (tmp_path / "best.trees").read_text().splitlines()

    number, most, drawn = rng.randint(2, 6), rng.choice([2, 4, 200]), rng.randint(0, 9)
    command = ["sample", "-n", number, "--seed", drawn, "--max-tokens", most, "--model", folders[kind]]
    samples = model.sample(number, seed=drawn, max_tokens=most)
    assert len(samples) == number
    for strings, column in (([], "tree"), (["--strings"], "text")):
        capsys.readouterr()
        assert run([*map(str, [*command, *strings]), "--device", "cpu", "-q"]) == 0
        assert capsys.readouterr().out.splitlines() == samples[column].tolist()
    assert samples.complete.all() or most < 200

    hypotheses, text = rng.randint(1, 4), texts[0]
    further.pop("max_batch", None)
    own = [part for name, value in further.items() for part in ("--search", f"{name}={value}")]
    alone = pdtools.load(folders[kind], **widths, **further)
    command = ["inspect", text, *common, *own, "--hypotheses", hypotheses, "--json", "--threads", "1"]
    assert run([*map(str, command), "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert json.loads(json.dumps(alone.trace(text, hypotheses=hypotheses).to_json())) == document
    without = alone.trace(text, hypotheses=hypotheses, attention=False).to_json()
    assert json.loads(json.dumps(without)) == {**document, "attention": None}

    pairs = [(text, " ".join(rng.sample(text.split(), len(text.split())))) for text in texts]
    named = {"UID": "x", "field": "f", "linguistics_term": "t"}
    lines = [{"sentence_good": good, "sentence_bad": bad, **named} for good, bad in pairs]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    limit = rng.choice([None, 2])
    command = [
        "eval-blimp",
        tmp_path / "x.jsonl",
        *common,
        *of_search,
        *(["--limit", limit] if limit else []),
    ]
    assert run([*map(str, [*command, "-o", tmp_path / "out"]), "--device", "cpu", "-q"]) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = model.evaluate("blimp", tmp_path / "x.jsonl", limit=limit)
    assert found.counts["items"] == results["counts"]["items"] == (limit or 4)
    assert found.scores["overall"] == results["scores"]["overall"]
    assert found.scores["margin_bits"]["overall"] == pytest.approx(
        results["scores"]["margin_bits"]["overall"]
    )
    following = model.next_token(text, most=3)
    whole = model.next_token(text)
    assert len(following) == 3
    same(following, whole[:3])


def test_what_cannot_be_done_is_said(folders: dict[str, Path]) -> None:
    model = pdtools.load(folders["base"])
    with pytest.raises(InputError, match="sentences:2: words unknown to the model: zebra.*skip=True"):
        model.surprisal(["a", "a zebra"])
    assert model.surprisal(["a", "a zebra"], skip=True).sentence_id.unique().tolist() == [1]
    with pytest.raises(PdtoolsError, match="cannot parse"):
        model.parse("a")
    with pytest.raises(PdtoolsError, match="ranks are of tokens"):
        model.surprisal("a", words=True, rank=True)
    with pytest.raises(PdtoolsError, match="unknown words"):
        model.next_token("zebra")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pdtools.nothing  # noqa: B018


STIMULI = pd.DataFrame({"item": [1, 2, 3], "sentence": ["a b c", "c b", "b"]}, index=[30, 10, 20])
LABELS = [
    pd.Index([30, 10, 20], name="sentence"),
    pd.Index([7, 7, 7]),
    pd.Index(["x", None, "x"]),
    pd.MultiIndex.from_tuples([("a", 2), ("b", 1), ("a", 1)], names=["list", "item"]),
    pd.CategoricalIndex(["x", "y", "z"]),
    pd.date_range("2026-01-01", periods=3),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: type(labels).__name__)
@pytest.mark.parametrize("dtype", ["object", "category", "string[python]", "string[pyarrow]"])
def test_the_index_comes_back(folders: dict[str, Path], labels: pd.Index, dtype: str) -> None:
    """Of a table, of its words, of a Series of sentences, and of pairs: each crossed with types of texts."""
    model = pdtools.load(folders["base"])
    table = STIMULI.astype({"sentence": dtype}).set_axis(labels)
    bits = [model.surprisal(text).surprisal[:-1].sum() for text in STIMULI.sentence]
    for some in (table, table[table["item"] > 1], table.iloc[::-1]):  # whole, filtered, sorted
        of_sentences = model.surprisal(some)
        pd.testing.assert_index_equal(of_sentences.index, some.index)
        assert of_sentences.surprisal.tolist() == pytest.approx([bits[i - 1] for i in some["item"]], abs=1e-5)
        assert of_sentences.sentence.dtype == table.sentence.dtype
        n_words = [len(text.split()) for text in some.sentence]
        words = model.surprisal(some, words=True)
        pd.testing.assert_index_equal(words.index, some.index.repeat(n_words))
        of_series = model.surprisal(some.sentence)
        pd.testing.assert_index_equal(of_series.index, some.index.repeat([n + 1 for n in n_words]))
        pairs = pd.DataFrame({"sentence_good": some.sentence, "sentence_bad": some.sentence})
        scores = model.score(pairs)
        pd.testing.assert_index_equal(scores.index, some.index)
        assert scores.sentence_good.tolist() == some.sentence.tolist()
    parsed = pdtools.load(folders["pushdown"]).parse(table.sentence[:2], k_best=2)
    pd.testing.assert_index_equal(parsed.index, labels[:2].repeat([2, 1]))


def test_numbers_of_a_filtered_table_go_to_its_rows(folders: dict[str, Path]) -> None:
    model = pdtools.load(folders["base"])
    table, mine = STIMULI.reset_index(drop=True), STIMULI.reset_index(drop=True).iloc[1:]
    table.loc[mine.index, "bits"] = model.surprisal(mine).surprisal
    assert math.isnan(table.bits[0])
    assert table.bits[1:].tolist() == model.surprisal(mine).surprisal.tolist()


def test_missing_cells_of_other_columns_and_odd_names_do_no_harm(folders: dict[str, Path]) -> None:
    model = pdtools.load(folders["base"])
    wanted = model.surprisal(STIMULI).surprisal
    odd = STIMULI.assign(item=pd.array([1, pd.NA, 3], dtype="Int64"), when=[pd.NaT, None, float("nan")])
    tables = [odd, pd.concat([STIMULI, STIMULI["item"].rename("x"), STIMULI["item"].rename("x")], axis=1)]
    tables += [STIMULI.set_axis(pd.CategoricalIndex(STIMULI.columns), axis=1)]
    for table in tables:
        found = model.surprisal(table)
        pd.testing.assert_series_equal(found.surprisal, wanted)
        own = found.iloc[:, : table.shape[1]]
        pd.testing.assert_frame_equal(own, table.set_axis(own.columns, axis=1))
    numbered = STIMULI.set_axis([0, 1], axis=1)
    assert model.surprisal(numbered, columns={"sentence": 1}).surprisal.tolist() == wanted.tolist()


WORDS = "item,word_number,word\n1,1,a\n1,2,null\n1,3,NA\n1,4,b\n"


def test_words_that_pandas_takes_for_missing_are_refused(folders: dict[str, Path]) -> None:
    model = pdtools.load(folders["base"])
    reason = r"table: 'word' is missing in 2 of 4 rows: 2, 3 \(pandas reads null, NA .*keep_default_na=False"
    for options in ({}, {"dtype_backend": "numpy_nullable"}, {"dtype_backend": "pyarrow"}):
        with pytest.raises(InputError, match=reason):
            model.surprisal(pd.read_csv(io.StringIO(WORDS), **options), words=True)
    table = pd.read_csv(io.StringIO(WORDS), keep_default_na=False)
    with pytest.raises(InputError, match="words unknown to the model: null, NA"):
        model.surprisal(table, words=True)


def test_the_guides_lines_give_the_commands_numbers(test_data: Path) -> None:
    file = test_data.parent / "cases" / "4" / "s8_words.csv"
    if not file.is_file():
        pytest.skip("the cases are not at hand")
    found = pdtools.load("english-base").surprisal(pd.read_csv(file, keep_default_na=False), words=True)
    assert found.surprisal[2] == pytest.approx(22.33, abs=0.005)


TEXT = "a b"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda m: m.surprisal(5), "sentences have to be a string, or a list or Series of strings, not int"),
        (lambda m: m.surprisal({1: TEXT}), "a string, or a list or Series of strings, not dict"),
        (lambda m: m.surprisal([TEXT, 5]), "sentences:2: 5 is no sentence: text is needed"),
        (lambda m: m.surprisal([None]), "sentences:1: None is no sentence: .*keep_default_na"),
        (lambda m: m.surprisal(pd.Series([TEXT, pd.NA], dtype="string")), "sentences:2: <NA> is no sentence"),
        (lambda m: m.surprisal(STIMULI.assign(sentence=True)), "table:1: sentence is True, a truth value"),
        (lambda m: m.surprisal(STIMULI.assign(sentence=pd.NaT)), "missing in 3 of 3 rows: 1, 2, 3"),
        (lambda m: m.surprisal(STIMULI[:0]), "table: there is no row below the header"),
        *(
            (
                lambda m, given=given: m.surprisal([TEXT], **given),
                f"^{next(iter(given))} goes with a table of stimuli, not with sentences$",
            )
            for given in (
                {"columns": {"sentence": "Text"}},
                {"glue": ""},
                {"frequency": {"a": -1.0}.get},
                {"correct_spaces": True},
                {"slopes": "r"},
            )
        ),
        (lambda m: m.surprisal(STIMULI, frequency={}.get), "frequencies are given for words: add words=True"),
        (lambda m: m.surprisal(pd.Series([TEXT, 5])), "sentences:2: 5 is no sentence: text is needed$"),
        (lambda m: m.next_token(5), "sentences:1: 5 is no sentence"),
        (lambda m: m.trace(5), "sentences:1: 5 is no sentence"),
        (lambda m: m.score([(TEXT, TEXT, TEXT)]), "pairs:1: .* is no pair of sentences, .good, bad.$"),
        (lambda m: m.score(["ab"]), "pairs:1: 'ab' is no pair of sentences"),
        (lambda m: m.score([{"sentence_good": TEXT, "sentence_bad": TEXT}]), "pairs:1: .* is no pair"),
        (lambda m: m.score([{TEXT, "b a"}]), "pairs:1: .* is no pair of sentences"),
        (lambda m: m.score([(TEXT, None)]), "pairs:1: .* is no pair of sentences.*keep_default_na"),
        (lambda m: m.score(5), "pairs have to be a list of .good, bad., or a table, not int"),
        (lambda m: m.score(STIMULI), r"pairs: no column 'sentence_good' in the table \(item, sentence\)"),
        (lambda m: m.evaluate("blimp", ".", limit=0), "limit is 0: has to be a whole number of at least 1"),
        (lambda m: m.parse(TEXT, k_best=1.5), "k_best is 1.5: has to be a whole number"),
        (lambda m: m.next_token("a", -1), "most is -1: has to be a whole number"),
        (lambda m: m.sample(3, max_tokens=-1), "max_tokens is -1: has to be a whole number"),
        (
            lambda m: pdtools.load(m.folder, device="tpu"),
            "device tpu: must be auto, cpu, cuda, cuda:N or mps",
        ),
        (lambda m: pdtools.load(m.folder, dtype="fp16"), "dtype is 'fp16': has to be one of float32, bf16"),
        (lambda m: pdtools.load(m.folder, margin="5"), "margin is '5': has to be a number of nats"),
        (lambda m: pdtools.load(m.folder, max_batch=0), "max_batch is 0: has to be a whole number"),
    ],
)
def test_what_is_no_argument_is_said_in_one_line(
    folders: dict[str, Path], call: Callable[[pdtools.Model], object], line: str
) -> None:
    with pytest.raises(PdtoolsError, match=line) as caught:
        call(pdtools.load(folders["base"]))
    assert "\n" not in str(caught.value)


def test_the_models_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["surprisal", "--text", "The dog that chased the cats barks.", "--device", "cpu"]
    totals = {}
    for name in ("demo", "demo-base"):
        assert run([*command, "--model", name]) == 0
        out, err = capsys.readouterr()
        table = pd.read_csv(io.StringIO(out), sep="\t")
        assert table.token.tolist() == ["The", "dog", "that", "chased", "the", "cats", "barks", ".", "<eos>"]
        totals[name] = table.surprisal.sum()
        assert math.isfinite(totals[name])
        assert err.splitlines()[0].startswith(f"{name}: the ")
        assert "knows only the words of the bundled grammar" in err
        assert run([*command, "--model", name, "--quiet"]) == 0
        assert capsys.readouterr().err == ""
    assert totals["demo"] != totals["demo-base"]
    pair = ("The dog that chased the cats barks.", "The dog that chased the cats bark.")
    assert pdtools.load("demo").score([pair]).correct.tolist() == [True]
    assert run(["decode", *command[1:], "--model", "demo", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("(X (X (X (XX The) (XX dog)) (X (XX that) (X (XX chased)")
    (tmp_path / "demo").mkdir()
    assert run([*command, "--model", "demo"]) == 1  # a folder of that name wins
    assert capsys.readouterr().err.startswith("demo: the one in this folder, not the Pushdown LM to try")


def test_equally_probable_tokens_are_in_the_order_of_the_vocabulary(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pdtools.load(folders["base"])
    n = len(model.vocabulary)
    logprobs = -np.array([2.0, 1.0] * n)[:n]
    monkeypatch.setattr(type(model._model()), "following", lambda self, prefix: logprobs)
    found = model.next_token("a")
    assert found.token.tolist() == [*model.vocabulary[1::2], *model.vocabulary[::2]]
    assert found["rank"].tolist() == list(range(1, n + 1))


@pytest.mark.parametrize("then", ["", "; from pdtools.cli.main import run; run(['--help'])"])
def test_importing_is_light(then: str) -> None:
    heavy = "{'torch', 'numpy', 'pandas', 'pyarrow'}"
    code = f"import sys, pdtools{then}; print(sorted({heavy} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
