"""Chunks are worked on with the settings that were asked for, and what is kept depends on all of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_oracle import save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2

from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.search import SentenceScore, TreesFile
from pdtools.search.adaptive_beam import AdaptiveFamily, MaybeScore
from pdtools.search.model import Chunk, ModelSettings, ModelWork
from pdtools.search.options import AUTO_SEARCH, Context, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.tokenization import Sentence, join_words, split_spaces


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models")
    found = save_checkpoints(folder)[0]
    windows = {
        f"{name} of windows": path for name, path in save_checkpoints(folder / "w", window=12)[0].items()
    }
    return {**found, **windows, "gpt2": save_gpt2(folder / "gpt2", ["a b c"])}


def test_what_is_kept_depends_on_the_model_and_all_of_its_settings(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "trees").write_text("(S (X a) (X b))\n")
    shutil.copytree(folders["pushdown"], tmp_path / "copy")
    other = load_checkpoint(folders["pushdown"])
    save_checkpoint(tmp_path / "other", tiny_model(seed=1), other.tokenizer, shards=other.config["shards"])
    settings = ModelSettings(model_dir=str(folders["pushdown"]))
    searches: list[dict[str, Any]] = [
        {"beam": 7},
        {"margin": 2.0},
        {"margin": 0.0},
        {"word_beam": 3},
        {"fast_track": 3},
        {"cky": True},
        {"trees": TreesFile.of(tmp_path / "trees")},
    ]
    different = [
        settings,
        replace(settings, model_dir=str(tmp_path / "other")),
        replace(settings, dtype="bf16"),
        replace(settings, bos=False),
        replace(settings, measures=("entropy",)),
        replace(settings, measures=("rank",)),
        replace(settings, parses=True),
        replace(settings, context=Context(of="x", sentences=("a",))),
        replace(settings, context=Context(of="x", sentences=("b",))),
        replace(settings, context=Context(of="x", sentences=("a",), parses="beam")),
        replace(settings, context=Context(window=9)),
        *(replace(settings, search=SearchOptions(**options)) for options in searches),
        replace(settings, search=AUTO_SEARCH),
    ]
    described = [json.dumps(each.for_job(), sort_keys=True) for each in different]
    assert len(set(described)) == len(different)
    same = [
        replace(settings, model_dir=str(tmp_path / "copy")),
        replace(settings, device="auto", threads=3, fingerprint="f"),
        replace(settings, search=SearchOptions(max_batch=3)),
    ]
    assert {json.dumps(each.for_job(), sort_keys=True) for each in same} == {described[0]}


def test_what_is_kept_depends_on_all_that_a_scorer_reads_of_a_sentence() -> None:
    words = split_spaces("do n't")
    chunks: list[list[str | Sentence]] = [
        ["do n't"],
        ["don't"],
        [words],
        [join_words(words.words, "raw")],
        [Sentence("do n't", ("do n't",), (0,), (6,))],
        [replace(words, before=(split_spaces("a"),))],
        [replace(words, before=(split_spaces("b"),))],
        [replace(words, before=(split_spaces("a"), split_spaces("b")))],
        [words, split_spaces("a")],
    ]
    work = ModelWork((), "score")
    digests = {work.digest(Chunk(tuple(chunk))) for chunk in chunks}
    digests |= {work.digest(Chunk(tuple(chunk), 1)) for chunk in chunks}  # another model
    digests |= {ModelWork((), "parse", {"k_best": k}).digest(Chunk(("do n't",))) for k in (1, 2)}
    assert len(digests) == 2 * len(chunks) + 2


def test_models_are_loaded_as_was_asked_for(folders: dict[str, Path]) -> None:
    context = Context(of="x", sentences=("a b",))
    windows = ModelSettings(
        model_dir=str(folders["pushdown of windows"]),
        search=SearchOptions(beam=3, margin=1.5),
        context=context,
        dtype="bf16",
    )
    for asked in ({"measures": ("structure",)}, {"parses": True}):
        found = replace(windows, **asked).load()  # type: ignore[arg-type]
        assert [found.settings[name] for name in ("beam", "margin", "context", "dtype")] == [
            3,
            1.5,
            "x",
            "bfloat16",
        ]
    assert windows.load_checkpoint().model.dtype_name == "bfloat16"
    (score,) = replace(windows, measures=("structure",)).load().score(["b"])
    assert isinstance(score, SentenceScore)
    assert set(score.measures) == {"attachment", "closed"}
    assert score.seen == (3, 4)
    comparer = replace(windows, search=SearchOptions(beam="auto")).load()
    assert isinstance(comparer.family, AdaptiveFamily)
    assert (comparer.settings["context"], comparer.settings["dtype"]) == ("x", "bfloat16")
    gpt2 = ModelSettings(model_dir=str(folders["gpt2"]), bos=False)
    assert gpt2.load().settings["bos"] is False
    (score,) = gpt2.load().score(["a b"])
    assert isinstance(score, SentenceScore)
    assert score.first_token == 2


@dataclass(frozen=True)
class Comparison:
    sentences: tuple[str, ...]
    sums = "totals"

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        return True


def test_results_come_back_from_what_is_kept(folders: dict[str, Path]) -> None:
    """To the last digit, and as what they were: None, tuples, trees, arrays, reasons."""
    settings = ModelSettings(model_dir=str(folders["pushdown"]), search=SearchOptions(beam=3))
    chunk = Chunk(("a b c a", "c", "zebra", "b c"))
    for work in (
        ModelWork((replace(settings, measures=("structure",)),), "score"),
        ModelWork((replace(settings, parses=True),), "score_with_parses"),
    ):
        made = work(chunk)
        back = work.unpack(work.pack(made))
        for one, other in zip(made, back, strict=True):
            if isinstance(one, ParsedScore):
                assert isinstance(other, ParsedScore)
                assert one.incremental == other.incremental
                one, other = one.score, other.score
            if not isinstance(one, SentenceScore):
                assert one == other
                continue
            assert isinstance(other, SentenceScore)
            assert one.logprobs.tolist() == other.logprobs.tolist()
            assert one.dropped == other.dropped != 0 or len(one.words) < 4
            assert {k: v.tolist() for k, v in one.measures.items()} == {
                k: np.asarray(v).tolist() for k, v in other.measures.items()
            }
            none = np.zeros(0)
            assert (
                replace(one, logprobs=none, measures={}).__repr__()
                == replace(other, logprobs=none, measures={}).__repr__()
            )
    for k_best in (1, 3):
        asked = replace(settings, parses=True)
        parse = ModelWork((asked,), "parse", {"k_best": k_best})
        parsed = parse(chunk)
        assert list(parse.unpack(parse.pack(parsed))) == parsed
        assert isinstance(parsed[0], Parsed)
        assert parsed[0].dropped != parsed[0].marginal
        plain = list(asked.load().parse(chunk, k_best=k_best))
        assert parsed == plain
    comparisons = ModelWork((replace(settings, search=AUTO_SEARCH),), "compare")
    made = comparisons(Chunk((Comparison(("a", "b c")),)))
    (compared,) = comparisons.unpack(comparisons.pack(made))
    assert [score.text for score in compared.scores] == ["a", "b c"]
    assert (compared.beam, compared.margin) == (100, 5.0)
