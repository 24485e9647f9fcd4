"""Exported folders in programs that do not import pdtools: what is loaded, and numbers against ours."""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from action_oracle import action_model
from search_oracle import save_checkpoints, tiny_model
from shell import warm

import pdtools
from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files.manifest import check_checksums, read_checksums
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.models.checkpoint import STUB, STUB_FILE
from pdtools.search import load_model
from pdtools.search.options import SearchOptions
from pdtools.search.scores import NextTokens
from pdtools.tokenization import split_words, train_bpe_tokenizer

transformers = pytest.importorskip("transformers")

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
SHARDS = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
# A Transformer Grammar's search drops nothing then, so that nothing depends on which word is the last.
BEAMS = {"demo": 300, "tg": 1000}
SENTENCES = ["The dog that chased the cats barks.", "The poet didn't see the cats.", "Who barks?"]
TINY = ["a b c", "c", "b b a"]
# Name, and the sentences that its vocabulary has words for.
MODELS = {"demo": SENTENCES, "demo-base": SENTENCES, "tg": TINY, "windows": TINY, "raw": SENTENCES}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each kind of model, exported."""
    made = tmp_path_factory.mktemp("made")
    _, words = save_checkpoints(made)
    save_checkpoint(
        made / "tg", action_model("tg", "relative"), words.with_labels(["NP", "VP"]), shards=SHARDS
    )
    windows, _ = save_checkpoints(made / "of windows", window=16)
    subwords = train_bpe_tokenizer(
        [split_words(text, "raw") for text in SENTENCES], text_style="raw", size=300
    )
    raw = tiny_model("transformer", vocab_size=subwords.vocab_size, max_length=64, positions="learned")
    save_checkpoint(made / "raw", raw, subwords, shards={**SHARDS, "text_style": "raw"})
    sources = {"demo": "demo", "demo-base": "demo-base", "tg": made / "tg", "raw": made / "raw"}
    folder = tmp_path_factory.mktemp("exported")
    for name, source in {**sources, "windows": windows["base"]}.items():
        assert run(["export", str(source), "-o", str(folder / name), "--quiet"]) == 0
    hf = pytest.importorskip("pdtools.hf")
    hf.PdtoolsForCausalLM.from_pretrained(folder / "tg", beam=BEAMS["tg"]).save_pretrained(folder / "tg")
    return {name: folder / name for name in MODELS}


def strangers() -> Path:
    """The folder of a ``python`` that has imported transformers, and nothing of ours."""
    parts = ("modeling_auto", "processing_auto", "tokenization_auto")
    return warm("torch", *(f"transformers.models.auto.{part}" for part in parts))


def program(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python without a network."""
    shared = {"HF_HOME": f"{strangers()}/cache", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.run(
        [strangers() / "python", *arguments],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, **shared},
        timeout=600,
    )


def token_logprobs(folder: Path, text: str) -> list[float]:
    """Our log p of the tokens of a text and its end, in nats, at the beam that transformers' class has.

    What a beam drops is shared out as harnesses share it, which normalise what they are given.
    """
    (found,) = load_model(folder, SearchOptions(beam=BEAMS.get(folder.name))).next_tokens([text])
    assert isinstance(found, NextTokens)
    logprobs = found.logprobs - np.logaddexp.reduce(found.logprobs, axis=1, keepdims=True)
    return logprobs[np.arange(len(found.ids)), found.ids].tolist()


def after(folder: Path, text: str, first: int) -> list[float]:
    """:func:`token_logprobs` of the tokens that reach behind the first characters of a text; not its end."""
    tokenizer = load_checkpoint(folder).tokenizer
    ends = tokenizer.encode(split_words(text, tokenizer.text_style)).ends[1:-1]
    values = token_logprobs(folder, text)[:-1]
    return [value for value, end in zip(values, ends, strict=True) if end > first]


# --- what is loaded ---------------------------------------------------------------------------


LOAD = """
import sys
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
assert "pdtools" not in sys.modules
folder = sys.argv[1]
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
made = model.generate(**tokenizer("Who", return_tensors="pt"), max_new_tokens=2, do_sample=False)
assert made.shape == (1, 4)
config.save_pretrained(sys.argv[2])
model.save_pretrained(sys.argv[2])
tokenizer.save_pretrained(sys.argv[2])
print(sorted(type(each).__module__ + "." + type(each).__name__ for each in (config, tokenizer, model)))
"""


def test_a_stranger_loads_the_stub_and_nothing_else_of_ours(
    exported: dict[str, Path], tmp_path: Path
) -> None:
    saved, script = tmp_path / "saved", tmp_path / "load.py"
    script.write_text(LOAD)
    for folder in (exported["demo-base"], saved):  # what was saved is loaded in turn, and saved again
        done = program(script, folder, saved)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().endswith(
            "['pdtools.hf.PdtoolsConfig', 'pdtools.hf.PdtoolsForCausalLM', 'pdtools.hf.PdtoolsTokenizer']"
        )
    run_by_others = [path for path in (strangers() / "cache").rglob("*.py") if path.read_text()]
    assert {path.name for path in run_by_others} == {STUB_FILE}
    assert {path.read_text() for path in run_by_others} == {STUB}
    assert {path.name for path in saved.glob("*.py")} == {STUB_FILE}
    check_checksums(saved)
    assert set(read_checksums(saved / "SHA256SUMS")) == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", STUB_FILE)
    }
    original, again = load_checkpoint(exported["demo-base"]), load_checkpoint(saved)
    assert again.config == original.config
    assert again.tokenizer == original.tokenizer


def test_the_stub_only_imports_ours() -> None:
    *_, attempt, names = ast.parse(STUB).body
    assert isinstance(attempt, ast.Try)
    (imported,) = attempt.body
    assert isinstance(imported, ast.ImportFrom)
    assert imported.module == "pdtools.hf"
    (handler,) = attempt.handlers
    assert [type(each) for each in handler.body] == [ast.Raise]
    assert isinstance(names, ast.Assign)
    assert len(ast.parse(STUB).body) == 3


@pytest.mark.parametrize("there", ["nothing", "another project's"])
def test_without_pdtools_one_line_says_how_to_install_it(
    exported: dict[str, Path], tmp_path: Path, there: str
) -> None:
    """transformers' own advice would be to install the package of that name, which is not ours."""
    (tmp_path / "pdtools").mkdir()
    (tmp_path / "pdtools" / "__init__.py").touch()
    hidden = {
        "nothing": "sys.modules['pdtools'] = None",
        "another project's": "sys.path.insert(0, sys.argv[2])",
    }
    loaded = "AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True)"
    script = tmp_path / "load.py"
    script.write_text(f"import sys\n{hidden[there]}\nfrom transformers import AutoConfig\n{loaded}")
    done = program(script, exported["demo-base"], tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: this model is loaded by pdtools (")
    assert "pip install '.[hf]'" in last
    assert "when it is released, pip install 'pushdown-tools[hf]'" in last
    assert "pip install pdtools" not in done.stderr


def test_our_own_loaders_run_no_code_of_a_folder(
    exported: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, trace = tmp_path / "model", tmp_path / "it ran"
    shutil.copytree(exported["demo-base"], folder)
    (folder / STUB_FILE).write_text(f"from pathlib import Path\nPath({str(trace)!r}).touch()\n" + STUB)
    with pytest.raises(PdtoolsError, match=f"{STUB_FILE}: damaged"):
        load_checkpoint(folder)
    (folder / "SHA256SUMS").unlink()
    pdtools.load(folder).surprisal("Who barks?")
    assert run(["surprisal", "--text", "Who barks?", "--model", str(folder), "--quiet"]) == 0
    assert run(["export", str(folder), "-o", str(tmp_path / "again"), "--quiet"]) == 0
    assert (tmp_path / "again" / STUB_FILE).read_text() == STUB
    transformers.AutoModelForCausalLM.from_pretrained(folder)  # with pdtools.hf imported, as ever
    transformers.AutoTokenizer.from_pretrained(folder)
    assert not trace.exists()


def test_masked_models_have_no_stub(tmp_path: Path) -> None:
    _, words = save_checkpoints(tmp_path)
    masked = tiny_model("transformer", objective="masked", positions="learned")
    save_checkpoint(tmp_path / "masked", masked, words, shards=SHARDS)
    assert run(["export", str(tmp_path / "masked"), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert not (tmp_path / "out" / STUB_FILE).exists()
    assert "auto_map" not in (tmp_path / "out" / "tokenizer_config.json").read_text()


# --- the tokenizer ----------------------------------------------------------------------------


HOSTILE = [
    "I",
    "\"Quoted,\" she said; 'twice'!",
    "Don't you can't won't",
    "naïve façade łódź",
    "北京 的 狗 叫 了 。",
    "\U0001f408\u200d\U0001f415 family",
    "many    spaces\tand a tab\n",
    "no\u00a0break",
    "cannot … gonna — ok?",
    "",
    "a\u0301 e\u0301",
]


def tokenizer_of(folder: Path, **options: Any) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder, **options)


@pytest.mark.parametrize("text", HOSTILE)
def test_ids_and_offsets_are_those_of_our_own_encoding(exported: dict[str, Path], text: str) -> None:
    tokenizer = tokenizer_of(exported["raw"])
    ours = load_checkpoint(exported["raw"]).tokenizer.encode(split_words(text, "raw"))
    found = tokenizer(text, return_offsets_mapping=True)
    assert found["input_ids"] == ours.ids[:-1].tolist()
    assert found["input_ids"] == tokenizer(text)["input_ids"] == tokenizer.encode(text)
    assert found["offset_mapping"] == list(
        zip(ours.starts[:-1].tolist(), ours.ends[:-1].tolist(), strict=True)
    )
    if text.strip():
        assert tokenizer.decode(found["input_ids"], skip_special_tokens=True).split() == text.split()


def test_offsets_are_those_of_the_fast_tokenizer_of_transformers(exported: dict[str, Path]) -> None:
    """Which splits words otherwise, but not these; that of a word, it counts the space to it, or not."""
    tokenizer = tokenizer_of(exported["raw"])
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(exported["raw"])
    for text in SENTENCES:
        found = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        theirs = fast(text, return_offsets_mapping=True, add_special_tokens=False)
        assert found["input_ids"] == theirs["input_ids"]
        for (start, end), (first, last) in zip(
            found["offset_mapping"], theirs["offset_mapping"], strict=True
        ):
            assert (text[start:end], end) == (text[first:last].lstrip(), last)


def test_offsets_of_batches_with_padding_truncation_and_tensors(exported: dict[str, Path]) -> None:
    tokenizer = tokenizer_of(exported["demo-base"])
    text, other = SENTENCES[0], SENTENCES[2]
    words = [(0, 3), (4, 7), (8, 12), (13, 19), (20, 23), (24, 28), (29, 34), (34, 35)]
    both = tokenizer([text, other], return_offsets_mapping=True, padding=True)
    nothing = (0, 0)
    assert both["offset_mapping"][0] == [nothing, *words]
    assert both["offset_mapping"][1] == [nothing, (0, 3), (4, 9), (9, 10), *[nothing] * 5]
    left = tokenizer([text, other], return_offsets_mapping=True, padding=True, padding_side="left")
    assert left["offset_mapping"][1] == [*[nothing] * 5, nothing, (0, 3), (4, 9), (9, 10)]
    cut = {"truncation": True, "max_length": 4, "return_offsets_mapping": True}
    assert tokenizer(text, **cut)["offset_mapping"] == [nothing, *words[:3]]
    from_the_left = tokenizer_of(exported["demo-base"], truncation_side="left")
    found = from_the_left(text, **cut)
    assert found["offset_mapping"] == [nothing, *words[-3:]]
    assert from_the_left.convert_ids_to_tokens(found["input_ids"])[1:] == ["cats", "barks", "."]
    tensors = tokenizer([text, other], return_offsets_mapping=True, padding=True, return_tensors="pt")
    assert tensors["offset_mapping"].tolist() == [
        [list(each) for each in row] for row in both["offset_mapping"]
    ]
    assert tokenizer(text, return_offsets_mapping=True, return_tensors="pt")["offset_mapping"].shape == (
        1,
        9,
        2,
    )
    for refused in ({"text_pair": other}, {"return_overflowing_tokens": True, "truncation": True}):
        with pytest.raises(PdtoolsError, match="leave out return_offsets_mapping"):
            tokenizer(text, return_offsets_mapping=True, **refused)


def test_special_tokens(exported: dict[str, Path]) -> None:
    tokenizer = tokenizer_of(exported["demo-base"])
    the, dog = tokenizer("The dog", add_special_tokens=False)["input_ids"]
    assert tokenizer("The dog")["input_ids"] == [1, the, dog]  # ROOT, and no end-of-sentence
    assert tokenizer("<root>The dog")["input_ids"] == [1, the, dog]  # one ROOT
    ended = tokenizer("The dog<eos>", return_offsets_mapping=True)
    assert ended["input_ids"] == [1, the, dog, 2]
    assert ended["offset_mapping"] == [(0, 0), (0, 3), (4, 7), (0, 0)]
    assert tokenizer("<root>The", return_offsets_mapping=True)["offset_mapping"] == [(0, 0), (6, 9)]
    assert tokenizer("", return_offsets_mapping=True)["offset_mapping"] == [(0, 0)]
    assert tokenizer.decode(tokenizer.bos_token_id) == "<root>"
    assert tokenizer.get_special_tokens_mask([the, dog]) == [1, 0, 0]
    raw = tokenizer_of(exported["raw"])
    as_text = raw("a<eos>", split_special_tokens=True, return_offsets_mapping=True)
    assert 2 not in as_text["input_ids"]
    assert as_text["offset_mapping"][-1][1] == 6


def test_a_space_before_the_first_word_counts_in_raw_text(exported: dict[str, Path]) -> None:
    """A word after a text is asked for by itself."""
    tokenizer = tokenizer_of(exported["raw"])
    text, word = "The dog that chased the", " cats"
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    assert ids != tokenizer("cats", add_special_tokens=False)["input_ids"]
    assert tokenizer(text + word)["input_ids"] == tokenizer(text)["input_ids"] + ids
    assert tokenizer.decode(ids) == word


def test_a_space_before_a_sentence_is_read_in_exports_alone(exported: dict[str, Path]) -> None:
    """As lm-evaluation-harness asks for pairs: ROOT, and the tokens of the sentence after a space."""
    import torch

    folder, text = exported["raw"], SENTENCES[0]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = tokenizer_of(folder)

    def total(text: str) -> float:
        ids = torch.tensor([[1, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        chosen = model(ids).logits[:, :-1].gather(2, ids[:, 1:, None])
        return float(chosen.sum().detach())

    table = pdtools.load(folder).surprisal([text, f" {text}"], nats=True)
    ours = -table[table.token != "<eos>"].groupby("sentence_id").surprisal.sum()
    assert ours.tolist() == pytest.approx([total(text)] * 2, abs=1e-4)
    assert abs(total(f" {text}") - total(text)) > 0.01


# --- rows -------------------------------------------------------------------------------------


def test_several_roots_are_one(exported: dict[str, Path]) -> None:
    import torch

    for name in ("demo-base", "tg"):
        model = transformers.AutoModelForCausalLM.from_pretrained(exported[name])
        once = model(torch.tensor([[1, 3, 4]])).logits
        thrice = model(torch.tensor([[1, 1, 1, 3, 4, 0]])).logits
        torch.testing.assert_close(thrice[:, 2:5], once)
        certain = thrice[:, :2].log_softmax(-1).exp()
        assert certain[..., 1].tolist() == [[1, 1]]
        assert certain.sum().item() == 2
        assert thrice.isfinite().all()  # harnesses multiply what they do not score by 0
        assert model.config.beam == BEAMS.get(name, 300)
        padded = model(torch.tensor([[0, 0, 1, 1, 3]]), attention_mask=torch.tensor([[0, 0, 1, 1, 1]])).logits
        assert not padded[:, :2].any()
        torch.testing.assert_close(padded[:, 3:], once[:, :2])


def test_rows_of_the_length_that_the_configuration_names_fit(exported: dict[str, Path]) -> None:
    """A harness cuts rows to it, ROOT away."""
    import torch

    model = transformers.AutoModelForCausalLM.from_pretrained(exported["raw"])
    length = model.config.max_position_embeddings
    assert model(torch.full((1, length), 5)).logits.shape[1] == length == 62
    with pytest.raises(PdtoolsError, match="max_length of 64"):
        model(torch.full((1, length + 1), 5))


# --- harnesses --------------------------------------------------------------------------------


def test_what_babylm_asks(exported: dict[str, Path], tmp_path: Path) -> None:
    questions = {}
    for name, folder in exported.items():
        texts = MODELS[name]
        begun, end = texts[0].rsplit(" ", 1)
        questions[str(folder)] = {
            "pairs": [(text, len(text) if i else len(text) - len(begun)) for i, text in enumerate(texts)],
            "words": [(begun, " " + end.removesuffix(".")), *[(begun, " doghouses")] * (name == "raw")],
            "alone": [texts[-1].split()[0]],
        }
    done = program(HELPERS / "babylm_calls.py", given=json.dumps(questions))
    assert done.returncode == 0, done.stderr
    for name, folder in exported.items():
        asked, found = questions[str(folder)], json.loads(done.stdout)[str(folder)]
        assert found["loaded"] == ["PdtoolsTokenizer", "PdtoolsForCausalLM"]
        expected = [sum(after(folder, text, len(text) - length)) for text, length in asked["pairs"]]
        assert found["pairs"] == pytest.approx(expected, rel=2e-6, abs=1e-4), name
        words = [sum(after(folder, begun + word, len(begun))) for begun, word in asked["words"]]
        assert found["words"] == pytest.approx(words, rel=2e-6, abs=1e-4), name
        assert found["alone"] == pytest.approx(
            [sum(after(folder, asked["alone"][0], 0))], rel=2e-6, abs=1e-4
        ), name
        if name not in BEAMS:  # nothing is dropped
            table = pdtools.load(folder).surprisal(MODELS[name], nats=True)
            of_texts = table[table.token != "<eos>"].groupby("sentence_id").surprisal.sum()
            assert found["pairs"][1:] == pytest.approx((-of_texts).tolist()[1:], rel=2e-6, abs=1e-4), name


def test_our_comparison_with_babylm_takes_whole_words(
    exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a pipeline in its place that gives each token's log p after the tokens before it."""
    import babylm
    import torch

    lengths = []

    def pipeline(module: str, options: Any, *arguments: str | Path) -> None:
        assert (module, arguments[0], arguments[2]) == ("reading.run", "--data_path", "--output_dir")
        model = transformers.AutoModelForCausalLM.from_pretrained(options.model)
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        Path(arguments[3]).mkdir()
        with open(arguments[1], newline="") as table, Path(arguments[3], "prediction.jsonl").open("w") as out:
            for row in csv.DictReader(table):
                word = tokenizer(row["word"], add_special_tokens=False)["input_ids"]
                ids = torch.tensor([tokenizer(row["item"])["input_ids"] + word])
                with torch.no_grad():
                    logprobs = model(ids).logits.log_softmax(-1)[0, -1 - len(word) : -1]
                value = logprobs[torch.arange(len(word)), word].sum().item()
                lengths.append(len(word))
                out.write(json.dumps({"Logprob": -value}) + "\n")

    monkeypatch.setattr(babylm, "pipeline", pipeline)
    found = babylm.words(SimpleNamespace(model=exported["raw"]), pdtools.load(exported["raw"]), tmp_path)
    assert found["compared"] == len(lengths) > 20
    assert max(lengths) > 1
    assert found["difference"] < 1e-4


# --- harnesses that may be installed ----------------------------------------------------------

CONTEXTS = {"demo": ["The dogs near the boy bark.", "Martin finished this diary."], "tg": ["b a", "a c"]}
OTHERS = {"The dog": "The cat", "The poet": "The dog", "Who": "The", "a": "b", "c": "b", "b": "c"}


def tasks(folder: Path, pairs: Sequence[tuple[str, str]], contexts: Sequence[str]) -> dict[str, list[Any]]:
    """Tasks as lm-evaluation-harness has them, on other data: of pairs, with contexts, and rolling.

    Its cache confuses a text with the same text in parts, so contexts need texts of their own.
    """
    installed = importlib.util.find_spec("lm_eval")
    assert installed is not None
    (package,) = installed.submodule_search_locations or ()
    rows: dict[str, tuple[str, list[dict[str, str]]]] = {
        "blimp": ("blimp/_template_yaml", [{"sentence_good": a, "sentence_bad": b} for a, b in pairs]),
        "multiblimp": ("multiblimp/_template_yaml", [{"sen": a, "wrong_sen": b} for a, b in pairs]),
        "lambada": ("lambada/lambada_openai.yaml", [{"text": text} for text in contexts]),
        "wikitext": ("wikitext/wikitext.yaml", [{"page": a} for a, _ in pairs]),
    }
    for name, (template, documents) in rows.items():
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in documents))
        task = {
            "include": f"{package}/tasks/{template}",
            "task": f"our_{name}",
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": str(file)},
            **dict.fromkeys(("tag", "training_split", "validation_split")),
            "test_split": "train",
        }
        (folder / f"{name}.yaml").write_text(json.dumps(task))  # JSON is YAML
    return {name: documents for name, (_, documents) in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_lm_evaluation_harness_as_it_is(exported: dict[str, Path], tmp_path: Path, name: str) -> None:
    """With its default arguments; it scores no end."""
    pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed")
    folder = exported[name]
    begins = {text: next(each for each in OTHERS if text.startswith(each)) for text in MODELS[name]}
    pairs = [(text, OTHERS[begun] + text[len(begun) :]) for text, begun in begins.items()]
    contexts = CONTEXTS["tg" if MODELS[name] is TINY else "demo"]
    given, out = tmp_path / "tasks", tmp_path / "out"
    given.mkdir()
    documents = tasks(given, pairs, contexts)
    done = program(
        *("-m", "lm_eval", "--model", "hf", "--tasks", ",".join(f"our_{each}" for each in documents)),
        *("--model_args", f"pretrained={folder},trust_remote_code=True"),
        *("--include_path", given, "--output_path", out, "--log_samples"),
    )
    assert done.returncode == 0, done.stderr

    def answers(task: str) -> list[Any]:
        (file,) = out.rglob(f"samples_our_{task}_*.jsonl")
        rows = sorted(map(json.loads, file.read_text().splitlines()), key=lambda row: row["doc_id"])
        return [row["filtered_resps"] for row in rows]

    expected = [[sum(after(folder, text, 0)) for text in pair] for pair in pairs]
    for task in ["multiblimp"] if name == "raw" else ["blimp", "multiblimp"]:  # blimp puts a space before
        found = [[float(value) for value, _ in row] for row in answers(task)]
        assert found == [pytest.approx(row, rel=2e-6, abs=1e-4) for row in expected]
    ends = [sum(after(folder, text, text.rindex(" "))) for text in contexts]
    assert [float(row[0][0]) for row in answers("lambada")] == pytest.approx(ends, rel=2e-6, abs=1e-4)
    assert [float(row[0]) for row in answers("wikitext")] == pytest.approx(
        [good for good, _ in expected], rel=2e-6, abs=1e-4
    )


def test_minicons_as_it_is(exported: dict[str, Path], tmp_path: Path) -> None:
    """Told where the tokenizer is: it trusts no code of one that it finds itself."""
    pytest.importorskip("minicons", reason="minicons is not installed")
    script = tmp_path / "score.py"
    script.write_text("""
import json, sys
from minicons.scorer import IncrementalLMScorer
total = lambda values: values.sum().item()
found = {}
for folder, texts in json.load(sys.stdin).items():
    scorer = IncrementalLMScorer(folder, "cpu", tokenizer=folder, trust_remote_code=True)
    found[folder] = {
        "whole": scorer.sequence_score(texts, reduction=total),
        "ended": scorer.sequence_score(texts, reduction=total, eos_token=True),
        "rooted": scorer.sequence_score(texts, reduction=total, bos_token=True),
    }
json.dump(found, sys.stdout)
""")
    given = {str(exported[name]): texts for name, texts in MODELS.items()}
    done = program(script, given=json.dumps(given))
    assert done.returncode == 0, done.stderr
    for name, texts in MODELS.items():
        found = json.loads(done.stdout)[str(exported[name])]
        ended = [token_logprobs(exported[name], text) for text in texts]
        assert found["whole"] == pytest.approx([sum(row[:-1]) for row in ended], rel=2e-6, abs=1e-4), name
        assert found["rooted"] == pytest.approx(found["whole"], rel=2e-6, abs=1e-6), name
        assert found["ended"] == pytest.approx([sum(row) for row in ended], rel=2e-6, abs=1e-4), name
