"""Closing brackets: the search against the sum over all derivations, and what is counted."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from search_oracle import all_attachments

from pdtools.errors import PdtoolsError
from pdtools.evaluation.formal.dyck import (
    accuracy,
    evaluate_closing,
    evaluate_entropy,
)
from pdtools.evaluation.intervals import wilson
from pdtools.files import Rejects
from pdtools.formal.bracket_prefixes import BracketPrefix, dependency_prefixes
from pdtools.formal.dyck import DYCK_SETTINGS, Dyck, dyck_attachments
from pdtools.formal.language import string_shards, word_tokenizer
from pdtools.models import LoadedModel, build_model, collate, load_checkpoint, make_config, save_checkpoint
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardSet
from pdtools.tokenization import split_spaces

LANGUAGE = Dyck(brackets=3, depth=3)


@pytest.fixture(scope="module", params=["pushdown", "transformer", "head"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    tokenizer = word_tokenizer(LANGUAGE)
    ids = {name: getattr(tokenizer, name) for name in ("pad_id", "root_id", "eos_id", "vocab_size")}
    name = "pushdown" if request.param == "pushdown" else "transformer"
    shape = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "depths": 3}
    if name == "transformer":
        shape = {**shape, "attachment_head": request.param == "head"}
        del shape["depths"]
    torch.manual_seed(3)
    model = build_model(name, make_config(name, {**ids, **shape}))
    with torch.no_grad():
        for part, parameter in model.named_parameters():
            if "norm" not in part:  # a bias at the end would always prefer the same closer
                parameter.normal_(std=0.4)
    folder = tmp_path_factory.mktemp("dyck") / request.param
    save_checkpoint(folder, model, tokenizer, shards={"factor": "right", "layout": "sentence"})
    return load_checkpoint(folder, "cpu")


def by_hand(prefix: BracketPrefix, loaded: LoadedModel) -> tuple[str, str, str]:
    """The likeliest closer: over all derivations of a prefix, by the best, with its own attachments."""
    tokens = loaded.tokenizer.encode(split_spaces(" ".join(prefix.tokens))).ids
    n = len(prefix.tokens)
    own = [0, *(dyck_attachments(prefix.tokens) + 1).tolist()]
    every = list(all_attachments(n))
    sums, by_best, given = {}, {}, {}
    for number in range(1, LANGUAGE.brackets + 1):
        closer = f"){number}"
        last = loaded.tokenizer.encode(split_spaces(closer)).ids[1]
        row = np.array([*tokens[:-1], last, loaded.model.eos_id])
        rows = [(row, np.array([*attach[:-1], n + 1, 0])) for attach in every]
        with torch.no_grad():
            parts = loaded.model.forward_parts(collate(rows, loaded.model.pad_id))
        token, structure = parts.token_logprobs.double(), parts.attach_logprobs.double()  # (R, N)
        total = (token[:, : n + 2].sum(1) + structure[:, : n + 1].sum(1)).logsumexp(0)
        given[closer] = float(token[[attach[:-1] for attach in every].index(own), n + 1])
        of_prefix = token[:, : n + 1].sum(1) + structure[:, : n + 1].sum(1)
        sums[closer], by_best[closer] = float(total), float(token[of_prefix.argmax(), n + 1])
        if not loaded.model.derivation_kind.conditions_tokens:
            sums[closer] = by_best[closer] = given[closer]
    return tuple(max(found, key=found.__getitem__) for found in (sums, by_best, given))


def test_it_chooses_the_likeliest_closer_over_all_derivations(loaded: LoadedModel) -> None:
    prefixes = dependency_prefixes(LANGUAGE, 36, least=1, max_length=5, seed=4)
    results = evaluate_closing(
        {"some": prefixes[:5], "more": prefixes[5:]}, loaded, search=SearchOptions(beam=100)
    )
    assert (results.settings["unit"], results.settings["log_base"]) == ("fraction of 1", "nats")
    rows = results.tables["items"].to_pylist()
    assert [(row["set"], row["number"]) for row in rows] == [
        *(("some", i) for i in range(1, 6)),
        *(("more", i) for i in range(1, 32)),
    ]
    chosen = [by_hand(prefix, loaded) for prefix in prefixes]
    columns = ("chosen", "chosen_by_best", "chosen_given_attachments")
    assert [tuple(row[column] for column in columns) for row in rows] == chosen
    assert all(len(set(found)) > 1 for found in zip(*chosen, strict=True))
    if loaded.model.derivation_kind.conditions_tokens:  # no two of the three always agree
        assert all(any(each[i] != each[j] for each in chosen) for i, j in ((0, 1), (0, 2), (1, 2)))
    right, best_right, _ = (
        [each == prefix.closer for each, prefix in zip(found, prefixes, strict=True)]
        for found in zip(*chosen, strict=True)
    )
    by_set = results.scores["by_set"]
    assert by_set["some"]["accuracy"] == pytest.approx(sum(right[:5]) / 5)
    assert by_set["more"]["accuracy"] == pytest.approx(sum(right[5:]) / 31)
    assert by_set["more"]["accuracy_by_best"] == pytest.approx(sum(best_right[5:]) / 31)
    assert by_set["more"]["prefixes"] == 31
    assert results.scores["by_dependency"]["0-49"]["accuracy"] == pytest.approx(sum(right) / 36)
    assert sum(each["prefixes"] for each in results.scores["by_depth"].values()) == 36
    assert results.scores["by_open"]["1-10"]["accuracy"] == pytest.approx(sum(right) / 36)


def test_right_attachments(loaded: LoadedModel) -> None:
    """Of the best hypothesis (all of them searched), or one by one where they don't reach the tokens."""
    (prefix,) = dependency_prefixes(LANGUAGE, 1, least=3, max_length=5, seed=8)
    results = evaluate_closing({"one": [prefix]}, loaded, search=SearchOptions(beam=100))
    (row,) = results.tables["items"].to_pylist()
    if not loaded.model.derivation_kind.exist:
        assert row["attachments_right"] is None
        assert results.scores["by_set"]["one"]["attachment_accuracy"] is None
        return
    n = len(prefix.tokens)
    tokens = loaded.tokenizer.encode(split_spaces(" ".join(prefix.tokens))).ids
    own = dyck_attachments(prefix.tokens) + 1

    @torch.no_grad()
    def parts(attach: list[int]) -> tuple[float, list[int]]:
        found = loaded.model.forward_parts(collate([(tokens, np.array(attach))], loaded.model.pad_id))
        scores = found.token_logprobs[0, : n + 1] + found.attach_logprobs[0, : n + 1]
        return float(scores.sum()), found.attach_best[0].tolist()

    if loaded.model.derivation_kind.conditions_tokens:
        best = max(all_attachments(n), key=lambda attach: parts(attach)[0])[1:-1]
    else:
        best = parts([0, *own.tolist(), 0])[1][1:-1]
    closers = [i for i, token in enumerate(prefix.tokens) if token[0] == ")"]
    right = sum(best[i] == own[i] for i in closers)
    assert row["attachments_right"] == right
    if loaded.model.derivation_kind.conditions_tokens:
        lead = parts([0, *best, 0])[0] - parts([0, *own.tolist(), 0])[0]
        assert row["lead"] == pytest.approx(lead, rel=2e-6, abs=1e-4)
        assert lead > 0
        assert results.scores["by_set"]["one"]["lost_by_beam"] == 0
    assert row["open"] == len(prefix.tokens) - 2 * len(closers)
    assert results.scores["by_set"]["one"]["attachment_accuracy"] == right / len(closers)


@pytest.mark.parametrize(
    ("leads", "lost"), [([-0.5, 0.0, -0.001, 2.0], 0.25), ([0.0], 0.0), ([None, None], None)]
)
def test_what_the_beam_has_lost(leads: list[float | None], lost: float | None) -> None:
    item = {
        "tokens": 2,
        "open": 2,
        "closer": ")2",
        "chosen": ")2",
        "chosen_by_best": ")2",
        "chosen_given_attachments": ")2",
        "attachments_right": 0,
    }
    assert accuracy([{**item, "lead": lead} for lead in leads])["lost_by_beam"] == lost


def test_prefixes_without_a_closer_have_no_attachments_to_be_right(loaded: LoadedModel) -> None:
    prefix = BracketPrefix(tokens=("(1", "(2"), closer=")2", dependency=1, depth=2)
    results = evaluate_closing({"one": [prefix]}, loaded, search=SearchOptions(beam=100))
    assert results.scores["by_set"]["one"]["attachment_accuracy"] is None
    assert results.scores["by_open"]["1-10"]["prefixes"] == 1


def test_the_distance_from_the_automaton(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = Dyck(brackets=3, depth=2, min_length=2, max_length=4)
    string_shards(language, 40, 3, tmp_path / "shards")
    shards = ShardSet.open(tmp_path / "shards")
    found = evaluate_entropy(shards, loaded, search=SearchOptions(beam=100), rejects=Rejects("fail"))
    texts = [shards.text(i).split() for i in range(len(shards))]
    tokens = sum(len(text) + 1 for text in texts)
    assert found["automaton"] == pytest.approx(-sum(map(language.log_probability, texts)) / tokens)
    assert found["entropy"] == pytest.approx(language.expectations.entropy_per_token)
    assert found["excess"] == pytest.approx(found["model"] - found["automaton"])
    assert found["model"] > found["automaton"]
    assert found["ppl_model"] == pytest.approx(math.exp(found["model"]))
    monkeypatch.setattr(loaded.model, "max_length", 4)  # ROOT, two brackets, end-of-sentence
    rejects = Rejects("skip")
    found = evaluate_entropy(shards, loaded, search=SearchOptions(beam=100), rejects=rejects)
    if loaded.model.derivation_kind.exist:  # others read longer strings in windows
        texts = [text for text in texts if len(text) == 2]
    assert len(rejects) == len(shards) - len(texts)
    tokens = sum(len(text) + 1 for text in texts)
    assert found["automaton"] == pytest.approx(-sum(map(language.log_probability, texts)) / tokens)


def test_models_that_do_not_know_the_brackets(loaded: LoadedModel) -> None:
    prefixes = dependency_prefixes(Dyck(**DYCK_SETTINGS["released-like"]), 9, least=1, max_length=30, seed=1)
    with pytest.raises(PdtoolsError, match="words unknown to the model"):
        evaluate_closing({"twenty types": prefixes}, loaded, search=SearchOptions(beam=2))


def test_strings_without_a_language(loaded: LoadedModel, tmp_path: Path) -> None:
    string_shards(LANGUAGE, 3, 3, tmp_path / "shards")
    manifest = tmp_path / "shards" / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"language"', '"tongue"'))
    with pytest.raises(PdtoolsError, match="not strings of pdtools generate dyck"):
        evaluate_entropy(
            ShardSet.open(tmp_path / "shards"), loaded, search=SearchOptions(beam=2), rejects=Rejects("fail")
        )


@pytest.mark.parametrize(("right", "number"), [(0, 10), (10, 10), (3, 7), (965, 1000)])
def test_wilsons_interval_holds_the_proportions_that_a_score_test_accepts(right: int, number: int) -> None:
    low, high = wilson(right, number)
    share = right / number
    for p in np.linspace(0.0005, 0.9995, 1999):
        z = abs(share - p) / math.sqrt(p * (1 - p) / number)
        if abs(z - 1.96) > 0.02:
            assert (low < p < high) == (z < 1.96)
