"""Imports of released Pushdown LMs, against the network written out (tests/helpers/released_oracle.py)."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_oracle import random_attach
from released_oracle import (
    CORPUS,
    PlainReleased,
    attachments,
    random_state,
    save_released,
    save_tokenizer,
    save_vocabulary,
    words_of,
)
from torch import Tensor
from toy_hub import running_hub, use_hub

from pdtools.cli.main import run
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.models.kernels.dropout import Dropout
from pdtools.models.released_pushdown import import_model, read_vocabulary
from pdtools.search.families.attachment_beam import beam_search
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.model import load_model
from pdtools.search.options import SearchOptions, TreesFile
from pdtools.search.sampling import sample
from pdtools.tokenization import split_words

SHAPES: dict[str, dict[str, Any]] = {
    "pushdown": {"d": 16, "layers": 2, "factor": 2},
    "few depths": {"d": 32, "layers": 1, "factor": 4, "depths": 3, "seed": 1},
    "base": {"d": 16, "layers": 2, "factor": 1, "tape": False, "seed": 2},
    "last layers": {"d": 16, "layers": 3, "depths": 4, "first_tape": 2, "seed": 3},
}
NORMALIZED = ("all", "allowed", "open")
WORDS = (7, 30, 12, 7, 55)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Released models of all shapes, by name."""
    folder = tmp_path_factory.mktemp("released")
    for name, shape in SHAPES.items():
        save_released(folder / name, **shape)
    return folder


@pytest.fixture(scope="module")
def imported(folder: Path) -> Callable[[str, str], tuple[LoadedModel, PlainReleased]]:
    """An import of one of them, and the plain network."""

    def both(name: str, normalize: str) -> tuple[LoadedModel, PlainReleased]:
        output = folder / f"{name}-{normalize}"
        if not output.exists():
            import_model(folder / name, output, options={"normalize": normalize})
        state = torch.load(folder / name / "model.pt", weights_only=True)["state_dict"]
        return load_checkpoint(output), PlainReleased(state, normalize)

    return both


def row_of(loaded: LoadedModel, words: Any) -> np.ndarray:
    """A row of a batch."""
    return np.array([loaded.model.root_id, *words, loaded.model.eos_id], dtype=np.int32)


@pytest.mark.parametrize("normalize", NORMALIZED)
@pytest.mark.parametrize("name", SHAPES)
def test_given_trees_have_the_released_probabilities(imported: Any, name: str, normalize: str) -> None:
    import random

    loaded, plain = imported(name, normalize)
    rng = random.Random(0)
    rows = []
    for n in (1, 2, 5, 9, 14):
        words = [rng.randrange(1, loaded.model.vocab_size - 2) for _ in range(n)]
        words = [word - (word == loaded.model.eos_id) for word in words]
        rows.append((words, random_attach(n, rng)))
    batch = loaded.model.pack([(row_of(loaded, words), np.array(attach)) for words, attach in rows])
    with torch.no_grad():
        parts = loaded.model.forward_parts(batch)
    for row, (words, attach) in enumerate(rows):
        (*tokens, eos, final), chosen = plain.logprobs(words, loaded.model.eos_id, attach[1:-1])
        n = len(words) + 2
        of_end = (chosen[-1], 0) if loaded.model.derivation_kind.conditions_tokens else (0, chosen[-1])
        found = parts.token_logprobs[row, 1:n].numpy()
        np.testing.assert_allclose(found, [*tokens, eos + final + of_end[0]], atol=2e-5)
        found = parts.attach_logprobs[row, 1:n].numpy()
        np.testing.assert_allclose(found, [*chosen[:-1], of_end[1]], atol=2e-5)
        assert not parts.attach_logprobs[row, n:].any()
        assert (chosen[-1] == 0) == (normalize == "allowed")


@pytest.mark.parametrize("normalize", NORMALIZED)
@pytest.mark.parametrize("name", SHAPES)
def test_a_wide_beam_sums_over_all_trees(imported: Any, name: str, normalize: str) -> None:
    loaded, plain = imported(name, normalize)
    strings = [(*WORDS, 12)[:n] for n in range(1, 7)] + [(7, 30, 9)]
    rows = [row_of(loaded, words) for words in strings]
    beam = SearchOptions(beam=132)
    found = beam_search(loaded.model, rows, search=beam, k_best=132, trace=132, structure=True)
    for words, result in zip(strings, found, strict=True):
        joints = {}
        for attach in attachments(len(words), open_only=normalize == "open"):
            tokens, chosen = plain.logprobs(words, loaded.model.eos_id, attach)
            joints[tuple(attach)] = sum(tokens) + sum(chosen)
        assert {tuple(each[1:-1].tolist()) for _, each in result.derivations} == set(joints)
        assert result.marginal == pytest.approx(
            np.logaddexp.reduce(list(joints.values())), rel=2e-6, abs=2e-5
        )
        score, best = result.derivations[0]
        assert score == pytest.approx(max(joints.values()), rel=2e-6, abs=2e-5)
        assert best.tolist() == [0, *max(joints, key=joints.__getitem__), 0]
        assert len(result.prefix_logprobs) == len(words) + 2
        assert np.isfinite(result.structure).all()
        assert all(np.isfinite(step.joints).all() for step in result.steps)
        assert [len(each) for each in result.incremental] == list(range(1, len(words) + 3))
        # What a string's beginning has does not depend on what follows.
        row = row_of(loaded, [*words, 3])
        (longer,) = beam_search(loaded.model, [row], search=beam, structure=True)
        assert np.isfinite(longer.structure).all()
        np.testing.assert_allclose(
            longer.prefix_logprobs[: len(words) + 1], result.prefix_logprobs[:-1], atol=1e-5
        )


@pytest.mark.parametrize("normalize", NORMALIZED)
@pytest.mark.parametrize("margin", [None, 2.0])
def test_narrow_beams_do_not_depend_on_the_batch(imported: Any, normalize: str, margin: float | None) -> None:
    loaded, _ = imported("pushdown", normalize)
    rng = np.random.default_rng(3)
    begin = rng.integers(1, 50, 4)
    strings = [row_of(loaded, [*begin, *rng.integers(1, 50, n)]) for n in (0, 1, 3, 3, 6)]
    strings.append(row_of(loaded, begin[:2]))
    beam = SearchOptions(beam=3, margin=margin)
    together = beam_search(loaded.model, strings, search=beam, trace=2, next_tokens="every", structure=True)
    for row, found in zip(strings, together, strict=True):
        (alone,) = beam_search(loaded.model, [row], search=beam)
        np.testing.assert_allclose(found.prefix_logprobs, alone.prefix_logprobs, atol=1e-5)
        assert found.derivations[0][1].tolist() == alone.derivations[0][1].tolist()
        assert found.next_logprobs is not None
        assert found.structure is not None
        assert len(found.next_logprobs) == len(found.structure) == len(found.steps) == len(row) - 1
        np.testing.assert_allclose(
            found.conditional_next_logprobs[np.arange(len(row) - 2), row[1:-1]],
            found.logprobs[:-1],
            atol=1e-5,
        )
        assert max(len(step.joints) for step in found.steps) <= 2
        last = found.steps[-1]
        assert last.total == pytest.approx(found.marginal, abs=1e-9)
        assert last.joints[0] == pytest.approx(found.derivations[0][0], abs=1e-9)
        assert last.derivations[0].tolist() == found.derivations[0][1].tolist()
        before = found.steps[-2].derivations
        assert all(len(each) == len(row) for each in last.derivations)
        for parent, each in zip(last.parents, last.derivations, strict=True):
            assert parent >= len(before) or before[parent].tolist() == each[:-1].tolist()
        if normalize == "allowed":  # the attachment of end-of-sentence is certain
            known = last.parents < len(before)
            gained = last.joints[known] - found.steps[-2].joints[last.parents[known]]
            np.testing.assert_allclose(last.token_logprobs[known], gained, atol=1e-5)


def test_strings_of_base_models_end_alike_with_shared_prefixes(imported: Any) -> None:
    loaded, plain = imported("base", "all")
    rows = [row_of(loaded, WORDS[:n]) for n in (2, 5, 3)] + [row_of(loaded, WORDS)[:-1]]  # one has no end
    both = [string_logprobs(loaded, rows, share_prefixes=share) for share in (True, False)]
    for n, shared, alone in zip((2, 5, 3), *both, strict=False):
        *tokens, eos, final = plain.logprobs(WORDS[:n], loaded.model.eos_id, range(1, n + 1))[0]
        np.testing.assert_allclose(shared, [*tokens, eos + final], atol=2e-5)
        np.testing.assert_allclose(alone, shared, atol=2e-5)
    np.testing.assert_allclose(both[0][3], both[1][3], atol=2e-5)


def test_what_follows_a_prefix_is_not_the_end(imported: Any) -> None:
    model = imported("pushdown", "open")[0].model
    rows = [np.array([model.root_id, *WORDS[:n], model.eos_id], np.int32) for n in (2, 5, 3)]
    every, last = (
        beam_search(model, rows, search=SearchOptions(beam=4), next_tokens=after)
        for after in ("every", "last")
    )
    for whole, end in zip(every, last, strict=True):
        assert whole.next_logprobs is not None
        assert end.next_logprobs is not None
        np.testing.assert_allclose(end.next_logprobs[0], whole.next_logprobs[-1], atol=1e-5)
        assert end.incremental[-2].tolist() == whole.incremental[-2].tolist()


@pytest.mark.parametrize("normalize", NORMALIZED)
def test_given_trees_end_as_searches_do(imported: Any, tmp_path: Path, normalize: str, capsys: Any) -> None:
    """Sums over given trees, and perplexities without the end, against the network written out."""
    loaded, plain = imported("pushdown", normalize)
    (tmp_path / "trees").write_text("(S (A The) (B (C (D cat) (E saw)) (F dogs)))\n")
    ids = loaded.tokenizer.encode(split_words("The cat saw dogs", "ptb")).ids
    assert len(ids) == 6  # a token for each word
    tokens, chosen = plain.logprobs(ids[1:-1].tolist(), loaded.model.eos_id, [1, 2, 2, 1])
    trees = SearchOptions(trees=TreesFile.of(tmp_path / "trees"))
    (score,) = load_model(loaded.folder, trees).score(["The cat saw dogs"])
    assert score.total == pytest.approx(sum(tokens) + sum(chosen), abs=2e-5)
    assert score.logprobs[-1] == pytest.approx(sum(tokens[-2:]) + sum(chosen[-2:]), abs=2e-5)
    shards, model = str(tmp_path / "shards"), str(loaded.folder)
    assert run(["tapes", str(tmp_path / "trees"), "-o", shards, "--tokenizer", model, "-q"]) == 0
    capsys.readouterr()
    assert run(["eval-ppl", shards, "--model", model, "--no-marginal", "--json", "-q"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    words = -(sum(tokens[:-2]) + sum(chosen[:-1])) / 4
    assert np.log(scores["ppl_word_without_eos_joint"]) == pytest.approx(words, abs=1e-5)


def test_illegal_attachments_lose_probability_as_released(imported: Any) -> None:
    all_, allowed = (imported("pushdown", normalize)[0].model for normalize in ("all", "allowed"))
    both = [
        beam_search(
            model, [np.array([model.root_id, *WORDS, model.eos_id], np.int32)], search=SearchOptions(beam=50)
        )[0]
        for model in (all_, allowed)
    ]
    assert both[0].marginal < both[1].marginal - 1


@pytest.mark.parametrize("text_style", ["ptb", "raw"])
@pytest.mark.parametrize(
    "text",
    ["The cat that saw dogs sleeps.", "Did the cat sleep?", "dogs didn't  chase", "cats gonna the", "the"],
)
def test_a_text_is_read_as_by_gpt2(folder: Path, tmp_path: Path, text: str, text_style: str) -> None:
    from tokenizers import Tokenizer as Backend

    import_model(folder / "pushdown", tmp_path / "out", text_style=text_style)
    ours = load_checkpoint(tmp_path / "out").tokenizer
    sentence = split_words(text, text_style)
    written = " ".join(sentence.words)
    if text_style == "raw":
        written = text.replace("  ", " ").replace("gonna", "gon" + "na")
        written = f"{written[:-1]} ?" if written.endswith("?") else written
    theirs = Backend.from_file(str(folder / "pushdown" / "tokenizer.json")).encode(written).tokens
    if "gonna" in text and text_style == "raw":
        theirs = None  # "gon" and "na" have tokens of their own
    numbers = words_of(folder / "pushdown")
    found = ours.encode(sentence)
    if theirs is not None:
        assert found.ids[1:-1].tolist() == [numbers[token] for token in theirs]
        assert [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)][1:-1] == [
            token.removeprefix("Ġ") for token in theirs
        ]
    assert ours.with_labels(["S"]).encode(sentence).ids.tolist() == found.ids.tolist()
    assert set(found.word[1:-1].tolist()) == set(range(len(sentence.words)))
    assert all(text[a:b] or a == b for a, b in zip(found.starts, found.ends, strict=True))
    assert ours == pickle.loads(pickle.dumps(ours))
    assert ours.vocab_size == len(numbers) + 2


def test_shards_are_tokenized_like_sentences(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "trees").write_text("(S (NP (D The) (N cat)) (VP (V did) (ADV n't) (V sleep)) (. .))\n" * 2)
    assert run(["import", str(folder / "pushdown"), "-o", str(tmp_path / "model"), "-q"]) == 0
    shards = str(tmp_path / "shards")
    assert (
        run(["tapes", str(tmp_path / "trees"), "-o", shards, "--tokenizer", str(tmp_path / "model"), "-q"])
        == 0
    )
    from pdtools.shards import ShardSet

    loaded = load_checkpoint(tmp_path / "model")
    encoded = loaded.tokenizer.encode(split_words("The cat did n't sleep .", "ptb"))
    assert ShardSet.open(shards).tokens(0).tolist() == encoded.ids.tolist()
    capsys.readouterr()
    assert run(["eval-ppl", shards, "--model", str(tmp_path / "model"), "--beam", "300", "--json", "-q"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    (score,) = load_model(tmp_path / "model", SearchOptions(beam=300)).score(["The cat did n't sleep ."])
    per_token = -score.total / (len(encoded.ids) - 1)
    assert np.log(scores["ppl_token_marginal"]) == pytest.approx(per_token, abs=1e-5)


def test_an_import_is_evaluated_and_exported_like_any_model(
    folder: Path, tmp_path: Path, capsys: Any
) -> None:
    model = str(tmp_path / "model")
    assert run(["import", str(folder / "pushdown"), "-o", model, "--json"]) == 0
    out, err = capsys.readouterr()
    made, said = json.loads(out), err.splitlines()
    assert [made[name] for name in ("output", "model", "layers", "d_model")] == [model, "pushdown", 2, 16]
    assert made["provenance"] == json.loads((tmp_path / "model" / "training.json").read_text())["provenance"]
    assert said[0] == (
        "attachments are normalised over all tokens before, as released (normalize = all): what illegal ones"
        " would have is lost, and p(x) does not sum to 1 (--set config.normalize=allowed: over legal ones)"
    )
    assert (
        said[1]
        == f"{model}: pushdown, layers 2, d_model 16, vocab_size {len(words_of(folder / 'pushdown')) + 2}"
    )
    assert (
        run(["import", str(folder / "pushdown"), "-o", f"{model}-2", "--set=config.normalize=allowed"]) == 0
    )
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert load_checkpoint(model).tokenizer.text_style == "ptb"
    source = str(folder / "pushdown")
    assert run(["import", source, "-o", f"{model}-3", "--text-style", "raw", "-q"]) == 0
    assert load_checkpoint(f"{model}-3").tokenizer.text_style == "raw"
    record = json.loads(Path(model, "training.json").read_text())["imported"]
    assert record["format"] == "released-pushdown"
    assert set(record["sha256"]) == {"model.pt", "vocab.pkl"}
    text = tmp_path / "text"
    text.write_text("The cat that saw dogs sleeps.\nDogs chase cats!\n")
    exported = str(tmp_path / "exported")
    assert run(["export", model, "-o", exported, "-q"]) == 0
    card = Path(exported, "README.md").read_text()
    assert f"imported by pdtools from {folder / 'pushdown'}" in card
    found = {}
    for place in (model, exported):
        of = str(tmp_path / Path(place).name)
        more = ["--model", place, "-q"]
        capsys.readouterr()
        assert run(["surprisal", str(text), *more, "--beam", "20", "--on-error", "skip"]) == 0
        surprisals = capsys.readouterr().out
        assert run(["decode", "--text", "The cat sleeps.", *more, "-o", f"{of}.trees", "--beam", "20"]) == 0
        found[place] = surprisals, Path(f"{of}.trees").read_text()
    assert found[model] == found[exported]
    rows = [line.split("\t") for line in found[model][0].splitlines()]
    assert [row[2] for row in rows[1:]][-1] == "<eos>"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import pdtools.hf  # noqa: F401 - registers the classes

    there = AutoModelForCausalLM.from_pretrained(exported, beam=20)
    ids = AutoTokenizer.from_pretrained(exported)(
        "The cat that saw dogs sleeps.", return_tensors="pt"
    ).input_ids
    with torch.no_grad():
        logits = there(ids).logits[0]
    own = logits[torch.arange(ids.shape[1] - 1), ids[0, 1:]].numpy() / -np.log(2)
    np.testing.assert_allclose([float(row[5]) for row in rows[1:-1]], own, atol=1e-3)


def test_a_sentence_with_a_token_without_a_number_is_unscorable(folder: Path, tmp_path: Path) -> None:
    import_model(folder / "pushdown", tmp_path / "out")
    (found,) = load_model(tmp_path / "out").score(["The cat sleeps!"])
    assert found.reason == "words unknown to the model: !"


# --- bad input --------------------------------------------------------------------------------


class _Runs:
    """An object whose pickle runs a command."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.touch, (self.place,)


def _with_persistent_id(place: Path) -> bytes:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.persistent_id = lambda x: "here" if x == 1 else None  # type: ignore[method-assign,assignment]
    pickler.dump([1])
    return stream.getvalue()


def _deep(place: Path) -> bytes:
    return b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."


PICKLES: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "runs": (lambda place: pickle.dumps(_Runs(place)), "holds"),
    "copyreg": (
        lambda place: b"ccopyreg\n_reconstructor\n(c__builtin__\nobject\nc__builtin__\nobject\nNtR.",
        "holds",
    ),
    "nested": (lambda place: pickle.dumps({"words": [{"a": _Runs(place)}]}), "holds"),
    "persistent": (_with_persistent_id, "holds a persistent id"),
    "deep": (_deep, "not a vocabulary"),
    "memory": (lambda place: b"\x80\x02]r\xff\xff\xff\x7f.", "not a vocabulary"),
    "extension": (lambda place: b"\x80\x02\x82\x01.", "damaged"),
    "bytearray": (lambda place: b"\x80\x05\x96" + (1 << 28).to_bytes(8, "little") + b".", "damaged"),
    # The class itself is given an attribute, that later vocabularies would be read with.
    "class": (lambda place: b"cvocabulary\nWordVocabulary\n(N}S'__setstate__'\nNstb.", "not a vocabulary"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_no_pickle_is_executed(folder: Path, tmp_path: Path, capsys: Any, name: str) -> None:
    source, mark = tmp_path / "source", tmp_path / "mark"
    save_released(source)
    made, said = PICKLES[name]
    (source / "vocab.pkl").write_bytes(made(mark))
    tracemalloc.start()
    assert run(["import", str(source), "-o", str(tmp_path / "out")]) == 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 27
    tracemalloc.stop()
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "vocab.pkl" in line
    assert not mark.exists()
    assert not (tmp_path / "out").exists()
    save_vocabulary(source / "vocab.pkl", words_of(source))
    assert read_vocabulary(source / "vocab.pkl") == words_of(source)
    if name == "runs":  # the same in the weights
        torch.save({"state_dict": _Runs(mark)}, source / "model.pt")
        assert run(["import", str(source), "-o", str(tmp_path / "out")]) == 1
        assert "none is loaded" in capsys.readouterr().err
        assert not mark.exists()


def _truncate(source: Path) -> None:
    data = (source / "model.pt").read_bytes()
    (source / "model.pt").write_bytes(data[: len(data) // 2])


def _change(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def changed(source: Path) -> None:
        state = random_state(len(words_of(source)))
        change(state)
        torch.save(state, source / "model.pt")

    return changed


def _vocabulary(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def changed(source: Path) -> None:
        words: dict[str, Any] = dict(words_of(source))
        change(words)
        save_vocabulary(source / "vocab.pkl", words)

    return changed


FIRST = "trafo.encoder.layers.0"
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncate, "damaged: not a file that torch.save wrote"),
    "text": (lambda source: (source / "model.pt").write_text("hello"), "damaged"),
    "foreign object": (
        lambda source: torch.save({"state_dict": {}, "path": Path("x")}, source / "model.pt"),
        "holds objects that are not tensors and plain values: none is loaded",
    ),
    "no state": (lambda source: torch.save([1], source / "model.pt"), "not a state dict"),
    "vocabulary": (
        _change(lambda s: s.update({"input_embedding.weight": torch.zeros(9, 16)})),
        "has 9 tokens",
    ),
    "missing": (_change(lambda s: s.pop(f"{FIRST}.norm1.bias")), f"{FIRST}.norm1.bias is missing"),
    "more": (_change(lambda s: s.update(alpha=torch.zeros(1))), "alpha is no weight"),
    "shape": (
        _change(lambda s: s.update({f"{FIRST}.linear2.bias": torch.zeros(3)})),
        "do not fit the configuration",
    ),
    "kinds": (
        _change(lambda s: s.update({f"{FIRST}.linear2.bias": torch.zeros(16, dtype=int)})),
        "not weights",
    ),
    "one number": (
        _change(lambda s: s.update({f"{FIRST}.linear1.weight": torch.tensor(1.0)})),
        f"{FIRST}.linear1.weight has 0 dimensions",
    ),
    "no width": (
        _change(lambda s: s.update({f"{FIRST}.self_attn.data_to_kv.weight": torch.zeros(32, 9)})),
        "data_to_kv.weight is not for 8 heads: 32 by 9",
    ),
    "no number": (_change(lambda s: s["output_map.bias"].fill_(float("nan"))), "values that are not numbers"),
    "no layers": (
        _change(lambda s: [s.pop(name) for name in list(s) if name.startswith("trafo")]),
        "it has no layers",
    ),
    "no eos": (
        _vocabulary(lambda w: w.update({"<end>": w.pop("<eos>")})),
        "the vocabulary has no <eos>, which models of sentences have",
    ),
    "numbers": (_vocabulary(lambda w: w.update({"<eos>": 10**9})), "not numbered from 0 on"),
    "not words": (_vocabulary(lambda w: w.update({b"x": 3})), "words with their numbers"),
    "not GPT-2's": (_vocabulary(lambda w: w.update({"Ġzebra": len(w)})), "has 9 tokens|needs"),
    "no tokenizer": (lambda source: (source / "tokenizer.json").unlink(), "GPT-2's tokenizer is not here"),
    "a word tokenizer": (
        lambda source: (source / "tokenizer.json").write_text(
            '{"model": {"type": "WordLevel", "vocab": {}}}'
        ),
        "not GPT-2's tokenizer|not a tokenizer",
    ),
    "none of ours": (lambda source: (source / "vocab.pkl").unlink(), "not a released Pushdown LM"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(tmp_path: Path, capsys: Any, name: str) -> None:
    import re

    source = tmp_path / "source"
    save_released(source)
    spoil, said = BAD[name]
    spoil(source)
    assert run(["import", str(source), "-o", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
    assert sorted(each.name for each in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize("setting", ["heads=4", "activation=gelu", "final_id=-1"])
def test_the_source_decides_the_configuration(
    folder: Path, tmp_path: Path, capsys: Any, setting: str
) -> None:
    command = ["import", str(folder / "base"), "-o", str(tmp_path / "out"), f"--set=config.{setting}"]
    assert run(command) == 1
    assert capsys.readouterr().err == (
        f"pdtools: config.{setting.split('=')[0]} is read off the source: set only normalize and dropouts\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_of_other_tokens_is_refused(tmp_path: Path, capsys: Any) -> None:
    source = tmp_path / "source"
    save_released(source)
    words = words_of(source)
    words["Ġzebra"] = words.pop("Ġcat")
    save_vocabulary(source / "vocab.pkl", words)
    assert run(["import", str(source), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == (
        f"pdtools: {source}/vocab.pkl: the vocabulary has 'Ġzebra', no token of the tokenizer in {source}:"
        " not GPT-2's?\n"
    )


def test_files_of_every_form_give_the_same(folder: Path, tmp_path: Path) -> None:
    """State dicts by themselves, in the old form of files, and vocabularies of all protocols with classes."""
    source = tmp_path / "source"
    state = save_released(source)
    import_model(source, tmp_path / "first")
    weights = load_checkpoint(tmp_path / "first").model.state_dict()
    torch.save(state, source / "model.pt", _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(source / "model.pt")
    for protocol, number in itertools.product((2, 5), (0, 1)):
        save_vocabulary(source / "vocab.pkl", words_of(source), protocol=protocol)
        import_model(source, tmp_path / f"{protocol}-{number}")
        found = load_checkpoint(tmp_path / f"{protocol}-{number}").model.state_dict()
        assert all(torch.equal(values, weights[name]) for name, values in found.items())


def test_gpt2_in_its_old_files(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend

    source, old = tmp_path / "source", tmp_path / "old"
    save_released(source)
    import_model(source, tmp_path / "first")
    old.mkdir()
    Backend.from_file(str(source / "tokenizer.json")).model.save(str(old))
    (source / "tokenizer.json").unlink()
    import_model(source, tmp_path / "second", tokenizer=old)
    first, second = (load_checkpoint(tmp_path / name).tokenizer for name in ("first", "second"))
    for text in CORPUS[:3]:
        assert (
            first.encode(split_words(text, "ptb")).ids.tolist()
            == second.encode(split_words(text, "ptb")).ids.tolist()
        )
    assert save_tokenizer(source)


# --- from the hub -----------------------------------------------------------------------------


def test_a_model_of_the_hub_is_imported_by_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import_model(folder / "pushdown", tmp_path / "first")
    files = {name: (folder / "pushdown" / name).read_bytes() for name in ("model.pt", "vocab.pkl")}
    with running_hub() as hub:
        commit = hub.commit("lab/released", {**files, "run_me.py": b"raise SystemExit(9)"})
        hub.commit("lab/half", {"model.pt": files["model.pt"]})
        use_hub(monkeypatch, hub.url, tmp_path / "cache")
        name, tokenizer = "hf:lab/released", str(folder / "pushdown")
        assert run(["surprisal", "--text", "the cat", "--model", name]) == 1
        assert capsys.readouterr().err == (
            "pdtools: hf:lab/released: a released Pushdown LM, which has to be imported first"
            " (pdtools import hf:lab/released -o FOLDER --tokenizer hf:gpt2 makes a folder that every command"
            " takes)\n"
        )
        assert run(["import", "hf:lab/half", "--tokenizer", tokenizer, "-o", str(tmp_path / "half")]) == 1
        assert capsys.readouterr().err == "pdtools: hf:lab/half: no vocab.pkl there\n"
        assert run(["import", name, "--tokenizer", tokenizer, "-o", str(tmp_path / "second")]) == 0
        assert capsys.readouterr().err.splitlines()[0] == f"{name}: commit {commit}"
        assert set(hub.got()) == {"model.pt", "vocab.pkl"}
    record = json.loads((tmp_path / "second" / "training.json").read_text())["imported"]
    assert record["source"] == f"lab/released@{commit}"
    first, second = (load_checkpoint(tmp_path / name).model.state_dict() for name in ("first", "second"))
    assert all(torch.equal(values, second[name]) for name, values in first.items())
    # Again, without a network.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert run(["import", name, "--tokenizer", tokenizer, "-o", str(tmp_path / "third")]) == 0


def test_a_folder_that_was_not_imported_says_how(folder: Path, capsys: Any) -> None:
    place = folder / "pushdown"
    assert run(["surprisal", "--text", "the cat", "--model", str(place)]) == 1
    assert capsys.readouterr().err == (
        f"pdtools: {place}: not a checkpoint: no config.json here or in best/"
        f" (pdtools import {place} -o FOLDER makes one of it)\n"
    )


# --- training ---------------------------------------------------------------------------------

SMALL = ("layers=2", "d_model=16", "heads=8", "d_ff=32")


@pytest.mark.parametrize("recipe", ["pushdown-released", "dyck-released", "dyck-released-base"])
def test_released_recipes_train(tmp_path: Path, recipe: str, capsys: Any) -> None:
    trees = tmp_path / "trees"
    trees.write_text("(S (A (B a) (C b)) (D (E c) (F d)))\n(S (B a) (C (D b) (F d)))\n" * 8)
    assert run(["tapes", str(trees), "-o", str(tmp_path / "shards"), "-q"]) == 0
    more = [f"--set=config.{each}" for each in SMALL]
    train = ["train", str(tmp_path / "shards"), "--config", recipe, "-o", str(tmp_path / "run"), "-q", *more]
    steps = ["--set=train.steps=3", "--set=train.warmup_steps=1", "--set=train.accumulate=1", "--device=cpu"]
    assert run([*train, *steps]) == 0, capsys.readouterr().err
    loaded = load_checkpoint(tmp_path / "run")
    assert loaded.model.config.head_form == "released"
    assert loaded.model.final_id == -1
    (score,) = load_model(tmp_path / "run").score(["a b d"])
    assert np.isfinite(score.total)


def test_first_weights_are_those_released() -> None:
    from pdtools.models import build_model, make_config
    from pdtools.training.recipe import read_recipe

    recipe = read_recipe(
        "pushdown-released", settings=["config.layers=2", "config.d_model=64", "config.d_ff=512"]
    )
    ids = {"vocab_size": 500, "pad_id": 0, "root_id": 1, "eos_id": 2}
    torch.manual_seed(0)
    weights = build_model("pushdown", make_config("pushdown", {**recipe.options, **ids})).state_dict()

    def bound(name: str) -> float:
        return float(weights[name].abs().max())

    expected = {
        "embedding.weight": (6 / (500 + 64)) ** 0.5,
        "blocks.0.feed_forward.0.weight": 2**0.5 * (6 / (64 + 512)) ** 0.5,
        "blocks.1.feed_forward.2.weight": (6 / (64 + 512)) ** 0.5,
        "blocks.0.feed_forward.0.bias": 64**-0.5,
        "blocks.0.attention.qkv.weight": 64**-0.5,
        "blocks.0.attention.output.weight": 64**-0.5,
        "head.key_map.weight": 64**-0.5,
        "head.next_query.0.weight": 192**-0.5,
        "head.key.3.weight": (2 * 64 + 8) ** -0.5,
    }
    for name, most in expected.items():
        assert 0.95 * most < bound(name) <= most, name
    for name in ("head.depth_embedding.weight", "blocks.1.attention.terms.1.embedding.weight"):
        assert float(weights[name].std()) == pytest.approx(1, abs=0.15), name
    assert not weights["output_bias"].any()
    assert "blocks.0.attention.terms.0.content_bias" not in weights


def test_dropout_is_within_the_networks_too() -> None:
    from pdtools.models import build_model, make_config

    ids = {"vocab_size": 9, "pad_id": 0, "root_id": 1, "eos_id": 2, "layers": 1, "d_model": 16, "d_ff": 32}
    off = dict.fromkeys(("input_dropout", "attention_dropout", "output_dropout"), 0.0)
    torch.manual_seed(0)
    released = dict.fromkeys(("head_form", "initialization"), "released")
    options = {**ids, **off, **released, "feed_forward_dropout": 0.5}
    model = build_model("pushdown", make_config("pushdown", options))
    batch = model.pack([(np.array([1, 4, 5, 6, 2]), np.array([0, 1, 2, 2, 0]))])
    torch.manual_seed(1)
    two = [model.train().forward_parts(batch) for _ in range(2)]
    for name in ("token_logprobs", "attach_logprobs"):
        first, second = (getattr(each, name) for each in two)
        assert not torch.allclose(first, second)
    assert model.head is not None
    assert model.head.key is not None
    model.train()
    for module in model.modules():  # of keys alone
        if isinstance(module, Dropout) and module is not model.head.key[2]:
            module.eval()
    first, second = (model.forward_parts(batch).attach_logprobs for _ in range(2))
    assert not torch.allclose(first, second)
    still = [model.eval().forward_parts(batch).attach_logprobs for _ in range(2)]
    assert torch.equal(*still)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"normalize": "all"}, "normalize 'all' needs head_form \"released\""),
        ({"normalize": "some"}, "normalize must be one of allowed, all, open, not 'some'"),
        (
            {"head_form": "released", "d_ff": 24},
            "the released head needs d_ff to be a multiple of d_model (16)",
        ),
        (
            {"head_form": "released", "layout": "window"},
            "a released head, or a token after end-of-sentence, does not go with windows",
        ),
        ({"final_id": 9}, "final_id must be a token, or -1, and needs an attachment head"),
        (
            {"head_form": "released", "stack_distances": True},
            "the released head has no stack_distances, and reads the embedding",
        ),
    ],
)
def test_configurations_that_do_not_go_together(options: dict[str, Any], said: str) -> None:
    from pdtools.errors import PdtoolsError
    from pdtools.models import make_config

    ids = {"vocab_size": 9, "pad_id": 0, "root_id": 1, "eos_id": 2, "d_model": 16, "d_ff": 32}
    with pytest.raises(PdtoolsError) as error:
        make_config("pushdown", {**ids, **options})
    assert str(error.value).endswith(f": {said}")


@pytest.mark.parametrize("normalize", NORMALIZED)
def test_drawn_trees_are_legal_and_have_the_released_probabilities(imported: Any, normalize: str) -> None:
    loaded, plain = imported("pushdown", normalize)
    for draw in sample(loaded.model, number=20, seed=1, max_tokens=5):
        attach = (draw.derivation.attach + 1).tolist()
        assert attach in list(attachments(len(attach), open_only=normalize == "open"))
        tokens, chosen = plain.logprobs(draw.tokens.tolist(), loaded.model.eos_id, attach)
        n = len(attach)
        said = sum(tokens[:n]) + sum(chosen[:n]) + (tokens[n] if draw.complete else 0)
        assert draw.logprob == pytest.approx(said, abs=1e-4)


def test_no_token_that_only_follows_the_end_is_drawn(imported: Any) -> None:
    model = imported("base", "all")[0].model
    with torch.no_grad():
        model.output_bias[model.final_id] = 30.0
    for draw in sample(model, number=5, max_tokens=4):
        assert model.final_id not in draw.tokens
