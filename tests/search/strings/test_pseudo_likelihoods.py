"""Pseudo-log-likelihoods of masked models: against minicons, and computed one token at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from test_tokenizer_kinds import CONTEXT, TEXTS
from toy_gpt2 import save_gpt2
from toy_tokenizers import KINDS, save_masked

import pdtools
from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.search import Model, SentenceScore, Unscorable, load_model
from pdtools.search.families.masked import TOKENS_CPU, MaskedFamily
from pdtools.search.options import DOCUMENT, Context, Pll
from pdtools.search.scores import is_pseudo

transformers = pytest.importorskip("transformers")
KNOWS_WORDS = [kind for kind in KINDS if kind != "prepended"]


def near(expected: Any) -> Any:
    return pytest.approx(expected, rel=2e-6, abs=1e-4)


def scores(model: Model, texts: list[str]) -> list[list[float]]:
    found = list(model.score(texts))
    assert all(isinstance(score, SentenceScore) for score in found)
    return [score.logprobs.tolist() for score in found]  # type: ignore[union-attr]


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture = "Roberta" if "trimmed" in request.param else "Bert"
    made = tmp_path_factory.mktemp("masked") / request.param.replace(", ", "-")
    return save_masked(made, request.param, model=architecture)


@pytest.mark.parametrize("pll", ["original", "within-word"])
def test_scores_are_those_of_minicons(folder: Path, pll: Pll) -> None:
    minicons = pytest.importorskip("minicons.scorer", reason="minicons is not installed")
    if pll != "original" and folder.name == "prepended":
        pytest.skip("its tokenizer knows no words")
    theirs = minicons.MaskedLMScorer(str(folder), "cpu")
    metric = "original" if pll == "original" else "within_word_l2r"
    # It leaves out every token that is [CLS], [SEP] or padding.
    rows = theirs.token_score(TEXTS, PLL_metric=metric)
    for found, row in zip(scores(load_model(folder, pll=pll), TEXTS), rows, strict=True):
        assert found == near([value for _, value in row])


def plainly(folder: Path, text: str, pll: Pll, before: str = "") -> list[float]:
    """The score of each token of a text after another, in a pass of its own."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    encoded = tokenizer(before + text)
    ids, words = encoded["input_ids"], encoded.word_ids()
    first = len(tokenizer(before)["input_ids"]) - 1 if before else 1
    values = []
    for place in range(first, len(ids) - 1):
        masked = list(ids)
        for other in range(first, len(ids) - 1):
            alike = words[other] == words[place]
            if other == place or (
                alike and (pll == "whole-word" or (pll == "within-word" and other > place))
            ):
                masked[other] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(torch.tensor([masked])).logits[0, place]
        values.append(float(logits.double().log_softmax(0)[ids[place]]))
    return values


@pytest.mark.parametrize("kind", ["subwords", "byte-level, trimmed", "unigram, NFKC"])
@pytest.mark.parametrize("pll", get_args(Pll))
@pytest.mark.parametrize("context", [None, "file", DOCUMENT])
def test_scores_are_those_of_one_token_at_a_time(
    kind: str, pll: Pll, context: str | None, tmp_path: Path
) -> None:
    """Also after other sentences, of which no token is masked."""
    folder = save_masked(tmp_path / "model", kind)
    given = (
        Context() if context is None else Context(of=context, sentences=CONTEXT if context == "file" else ())
    )
    texts = TEXTS[:6]
    sentences = list(texts) if context != DOCUMENT else in_a_document(texts)
    found = list(load_model(folder, pll=pll, context=given).score(sentences))
    for place, (score, text) in enumerate(zip(found, texts, strict=True)):
        before = CONTEXT if context == "file" else texts[:place] if context else ()
        assert isinstance(score, SentenceScore)
        assert score.logprobs.tolist() == near(
            plainly(folder, text, pll, "".join(f"{each}\n" for each in before))
        )


def in_a_document(texts: list[str]) -> list[Any]:
    from pdtools.files import GivenText
    from pdtools.search.contexts import with_documents
    from pdtools.search.inputs import read_inputs

    return [line.sentence for line in with_documents(read_inputs([GivenText.of(texts)], "text", None), 256)]


def test_batches_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masked copies are made batch by batch, so that a window of long texts needs no memory for all."""
    folder = save_masked(tmp_path / "model", "subwords", model="Roberta")
    texts = [*TEXTS, "a dog " * 120]
    alone = scores(load_model(folder, search=search(1)), texts)
    sizes: list[tuple[int, int]] = []
    padded = MaskedFamily._padded

    def recorded(self: MaskedFamily, rows: Any) -> Any:
        sizes.append((len(rows), max(map(len, rows))))
        return padded(self, rows)

    monkeypatch.setattr(MaskedFamily, "_padded", recorded)
    together = scores(load_model(folder), texts)
    for one, other in zip(together, alone, strict=True):
        assert one == near(other)
    assert len(sizes) > 1
    assert max(rows * length for rows, length in sizes) <= TOKENS_CPU
    assert sum(rows for rows, _ in sizes) == sum(map(len, alone))


def search(max_batch: int | None) -> Any:
    from pdtools.search.options import SearchOptions

    return SearchOptions(max_batch=max_batch)


@pytest.mark.parametrize(("model", "most"), [("Bert", 20), ("Roberta", None)])
def test_the_longest_text(model: str, most: int | None, tmp_path: Path) -> None:
    """RoBERTa's positions begin after its padding token's number."""
    folder = save_masked(tmp_path / "model", "words", model=model, positions=20 if most else 160)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    most = most or 160 - tokenizer.pad_token_id - 1
    fits, long = list(load_model(folder).score([" ".join(["a"] * n) for n in (most - 2, most - 1)]))
    assert isinstance(fits, SentenceScore)
    assert np.isfinite(fits.logprobs).all()
    assert isinstance(long, Unscorable)
    assert long.reason == f"longer than the model: {most + 1} tokens, at most {most}"


def test_all_tokens_around_a_text_are_read(tmp_path: Path) -> None:
    from tokenizers import processors

    folder = save_masked(tmp_path / "model", "subwords")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ends = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[CLS]", "[SEP]")]
    around = "[SEP] [CLS] $A [SEP] [CLS]"
    processor = processors.TemplateProcessing(single=around, special_tokens=ends)
    tokenizer.backend_tokenizer.post_processor = processor
    tokenizer.save_pretrained(folder)
    (score,) = load_model(folder, pll="original").score(["The dog barks."])
    ids = tokenizer("The dog barks.")["input_ids"]
    network = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    expected = []
    for place in range(2, len(ids) - 2):
        masked = [tokenizer.mask_token_id if k == place else each for k, each in enumerate(ids)]
        with torch.no_grad():
            logits = network(torch.tensor([masked])).logits[0, place]
        expected.append(float(logits.double().log_softmax(0)[ids[place]]))
    assert isinstance(score, SentenceScore)
    assert score.logprobs.tolist() == near(expected)


@pytest.mark.parametrize("n_words", [5, 6, 7])
def test_a_context_is_cut_to_what_the_model_reads(n_words: int, tmp_path: Path) -> None:
    """Of 20 positions two are [CLS] and [SEP]; a context has whole sentences, of six tokens each."""
    folder = save_masked(tmp_path / "model", "words", positions=20)
    given = Context(of="file", sentences=("a b c d e f", "b c d e f a"))
    (score,) = load_model(folder, pll="original", context=given).score([" ".join("a" * n_words)])
    assert isinstance(score, SentenceScore)
    before = "".join(f"{each}\n" for each in given.sentences[n_words > 6 :])
    assert score.logprobs.tolist() == near(plainly(folder, " ".join("a" * n_words), "original", before))


def test_refusals(tmp_path: Path) -> None:
    folder = save_masked(tmp_path / "bert", "subwords")
    causal = save_gpt2(tmp_path / "gpt2", TEXTS)
    for model, options, message in [
        (causal, {"pll": "original"}, "gpt2 is causal, and gives probabilities: leave out --pll"),
        (folder, {"bos": False}, "leave out --no-bos"),
        (folder, {"measures": ("entropy",)}, "no next-token distributions"),
        (folder, {"context": Context(stride=4)}, "leave out --stride"),
        (save_masked(tmp_path / "prepended", "prepended"), {}, "knows no words: --pll original masks tokens"),
        ("demo", {"pll": "original"}, "only masked Hugging Face models"),
    ]:
        with pytest.raises(PdtoolsError, match=message) as refusal:
            load_model(found(model), **options)  # type: ignore[arg-type]
        assert "\n" not in str(refusal.value)
    with pytest.raises(PdtoolsError, match="no distribution of the next token"):
        load_model(folder).following("a")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(PdtoolsError, match="has no mask token"):
        load_model(folder)


def found(model: Any) -> Any:
    from pdtools.provenance.hub import find_model

    return find_model(str(model)).folder


@pytest.mark.parametrize("kind", ["subwords", "words", "byte-level, trimmed"])
def test_odd_texts(kind: str, tmp_path: Path) -> None:
    """What is no text has no score; Chinese without blanks is one word of the text, and several tokens."""
    model = load_model(save_masked(tmp_path / "model", kind))
    assert list(model.score(["", "\u3000", "a [MASK] dog", "\ud800 a"])) == [
        Unscorable("", "no words"),
        Unscorable("\u3000", "no words"),
        Unscorable("a [MASK] dog", "[MASK] in it is a mask to the model, not text"),
        Unscorable("\ud800 a", "half of a surrogate pair in it is no text"),
    ]
    texts = ["\u6211\u559c\u6b22\u72d7", "[CLS] NA dog", "a\u200bb\0 ."]
    for pll in get_args(Pll):
        for text, score in zip(texts, load_model(tmp_path / "model", pll=pll).score(texts), strict=True):
            assert isinstance(score, SentenceScore)
            assert score.logprobs.tolist() == near(plainly(tmp_path / "model", text, pll))
            assert {*score.words} == {*range(len(text.split()))}
    if kind == "subwords":
        nothing = Unscorable("\u0301", "the tokenizer finds no tokens in it")
        assert list(model.score(["\u0301"])) == [nothing]


def test_a_prefix_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="half of a surrogate pair"):
        load_model(save_gpt2(tmp_path / "gpt2", TEXTS)).following("a \ud800")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_masked(tmp_path_factory.mktemp("hf") / "bert", "subwords")


def test_commands_say_pseudo(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In lines, tables of several models, results, comparisons, pages; its numbers are the scores'."""
    values = np.array(scores(load_model(bert, pll="original"), ["The dog barks."])[0])
    options = ["--pll", "original", "-q", "--device", "cpu"]
    roberta = save_masked(tmp_path / "roberta", "subwords", model="Roberta")
    table = tmp_path / "stimuli.csv"
    table.write_text("item,condition,sentence\n1,a,The dog barks.\n1,b,The dogs bark.\n")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence_good\tsentence_bad\nThe dog barks.\tThe dog bark.\n")
    text = tmp_path / "text.txt"
    text.write_text("The dog barks.\n")

    def called(*arguments: object) -> str:
        assert run([*map(str, arguments)]) == 0
        out, err = capsys.readouterr()
        assert err.count("pseudo-log-likelihoods") == 1, err
        return out

    assert called("surprisal", "--text", "The dog barks.", "--model", bert, *options).count("\n") == 1 + len(
        values
    )
    two = called(
        "surprisal",
        "--text",
        "Quick dogs chasing naive cats.",
        "--model",
        bert,
        *options,
        "--nats",
        "--workers",
        "2",
    )
    own, other = (
        scores(load_model(bert, pll=pll), ["Quick dogs chasing naive cats."])[0]
        for pll in ("original", "within-word")
    )
    assert own != pytest.approx(other, abs=2e-5)
    assert [-float(line.split("\t")[-1]) for line in two.splitlines()[1:]] == pytest.approx(own, abs=5e-6)
    called(
        *("surprisal", table, "--model", bert, "--model", "demo-base", "--model", roberta),
        *(*options[2:], "-o", tmp_path / "o.csv"),
    )
    assert {line.split(",")[3] for line in (tmp_path / "o.csv").read_text().splitlines()[1:]} == {
        "bert (pseudo)",
        "roberta (pseudo)",
        "demo-base",
    }
    printed = called("eval-ppl", text, "--model", bert, *options, "-o", tmp_path / "bert-ppl")
    pseudo = np.exp(-values.sum() / 3)
    assert f"{pseudo:.4f}".rstrip("0") in printed
    assert printed.startswith("Pseudo-perplexity\n")
    assert "ppl_word_pseudo" in printed
    assert "marginal" not in printed
    assert run(["eval-ppl", str(text), "--model", "demo-base", "-q", "-o", str(tmp_path / "demo-ppl")]) == 0
    capsys.readouterr()
    assert run(["compare", str(tmp_path / "bert-ppl"), str(tmp_path / "demo-ppl")]) == 1
    said = capsys.readouterr().err
    assert "no score that" in said
    assert "ppl: pseudo-log-likelihoods: original and none (probabilities)\n" in said
    for form in ([], ["--latex", "--overwrite"]):
        printed = called("eval-blimp", pairs, "--model", bert, *options, "-o", tmp_path / "bert-pairs", *form)
        assert "BLiMP (pseudo) (percent)" in printed
    assert (
        run(["eval-blimp", str(pairs), "--model", "demo-base", "-q", "-o", str(tmp_path / "demo-pairs")]) == 0
    )
    results = [str(tmp_path / f"{name}-pairs") for name in ("bert", "demo")]
    for command in (["compare", *results], ["view", *results, "-o", str(tmp_path / "page.html")]):
        capsys.readouterr()
        assert run(command) == 0
        said = capsys.readouterr().out + (tmp_path / "page.html").read_text() if "view" in command else ""
    assert "bert-pairs (pseudo)" in said


def test_traces_say_pseudo(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of one model, a page of several, and Python give the numbers of the way that is asked for."""
    text = "Quick dogs chasing naive cats."
    for pll in get_args(Pll):
        own = scores(load_model(bert, pll=pll), [text])[0]
        assert run(["inspect", text, "--model", str(bert), "--pll", pll, "--json"]) == 0
        out, err = capsys.readouterr()
        found = [json.loads(out)["surprisals"], [*pdtools.load(bert, pll=pll).trace(text).surprisals]]
        for values in found:
            bits = [-value / np.log(2) for value in own]
            assert [value for value in values if value is not None] == pytest.approx(bits, abs=1e-5)
        assert err.count(f"pseudo-log-likelihoods ({pll})") == 1
    assert run(["inspect", text, "--model", str(bert)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "bert (pseudo), bert"
    assert run(["inspect", "The dog", "--model", "demo", "--pll", "original"]) == 1
    assert "leave out --pll" in capsys.readouterr().err
    asked = ["--model", str(bert), "--model", "demo-base", "-o", str(tmp_path / "page.html")]
    assert run(["view", "--text", "The dog barks.", *asked, "--figures", str(tmp_path / "figures")]) == 0
    assert capsys.readouterr().err.count("pseudo-log-likelihoods (within-word)") == 1
    assert "bert (pseudo)" in (tmp_path / "page.html").read_text()
    assert "demo-base (pseudo)" not in (tmp_path / "page.html").read_text()


def test_reading_times_say_pseudo(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Effects, gains, columns, and their comparison with a model of probabilities."""
    draw = np.random.default_rng(0)
    times = tmp_path / "times.csv"
    rows = [
        f"{item},{place},{word},{300 + draw.normal() * 30}\n"
        for item in range(12)
        for place, word in enumerate(draw.choice(["the", "dog", "barks", "that", "old"], 9), 1)
    ]
    times.write_text("item,word_number,word,time\n" + "".join(rows))
    gpt2 = save_gpt2(tmp_path / "gpt2", TEXTS)
    own = [tmp_path / "own", tmp_path / "other"]
    for model, folder in ((bert, own[0]), (gpt2, own[1])):
        asked = ["--model", str(model), "-o", str(folder), "--samples", "100", "-q", "--device", "cpu"]
        assert run(["eval-reading", str(times), *asked]) == 0
        out, err = capsys.readouterr()
        is_pseudo = folder == own[0]
        assert err.count("pseudo-log-likelihoods (within-word)") == is_pseudo
        assert ("bert (pseudo): surprisal" in out and "surprisal_bert_pseudo" in out) == is_pseudo
    assert run(["compare", *map(str, own)]) == 0
    names = capsys.readouterr().out.splitlines()[:2]
    assert [name.endswith("(pseudo)") for name in names] == [True, False]
    assert run(["view", str(own[0]), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "bert (pseudo)" in page
    assert "(pseudo) (pseudo)" not in page


@pytest.mark.parametrize(("kinds", "expected"), [(["masked"], True), (["masked", "huggingface"], False)])
def test_results_of_several_models_are_pseudo_if_all_are(kinds: list[str], expected: bool) -> None:
    assert is_pseudo({"models": {f"m{k}": {"kind": kind} for k, kind in enumerate(kinds)}}) == expected
    assert is_pseudo({"kind": kinds[-1]}) == expected
