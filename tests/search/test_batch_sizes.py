"""As many sentences are read at once as is asked for, whatever reads them; no result depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from action_oracle import action_model
from search_oracle import save_checkpoints, tiny_model
from toy_gpt2 import save_gpt2

from pdtools.models import save_checkpoint
from pdtools.search import TreesFile, load_model
from pdtools.search.adaptive_beam import MaybeScore
from pdtools.search.batches import SortedStrings
from pdtools.search.families import causal
from pdtools.search.options import SearchOptions

SENTENCES = ("a b c", "b", "c a", "a b", "b c a b", "c b")
TREES = ("(S a (S b c))", "(X b)", "(S c a)", "(S a b)", "(S (S b c) (S a b))", "(S c b)")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models")
    found, tokenizer = save_checkpoints(folder)
    treereg = tiny_model("transformer", positions="learned", treereg_layer=1, treereg_share=0.5)
    for name, model in (("treereg", treereg), ("tg", action_model("tg", "relative"))):
        labelled = tokenizer.with_labels(("S", "X"))
        save_checkpoint(folder / name, model, labelled, shards={"layout": "sentence", "text_style": "ptb"})
        found[name] = folder / name
    (folder / "trees").write_text("\n".join(tree + "\n" for tree in TREES))
    return {**found, "gpt2": save_gpt2(folder / "gpt2", SENTENCES), "trees": folder / "trees"}


class Comparison:
    """Of all sentences, decided at once."""

    sums = "totals"
    sentences = SENTENCES

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        return True


@pytest.mark.parametrize("size", [2, None])
@pytest.mark.parametrize(
    ("kind", "measures"),
    [
        ("pushdown", ()),
        ("pushdown of comparisons", ()),
        ("pushdown of trees", ()),
        ("head", ("structure",)),
        ("base", ("entropy",)),
        ("treereg", ()),
        ("tg", ()),
        ("gpt2", ()),
        ("gpt2 padded", ()),
    ],
)
def test_so_many_sentences_are_read_at_once(
    kind: str,
    measures: tuple[Any, ...],
    size: int | None,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []  # of batches

    def counted(owner: Any, name: str, size_of: Any) -> None:
        made = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args: sizes.append(size_of(*args)) or made(*args))

    def totals(max_batch: int | None) -> list[float]:
        folder = folders[kind.split()[0]]
        options = SearchOptions(beam=4, max_batch=max_batch)
        if kind == "pushdown of comparisons":
            comparer = load_model(folder, SearchOptions(beam="auto", max_batch=max_batch))
            return [score.total for found in comparer.compare([Comparison()]) for score in found.scores]
        if kind == "pushdown of trees":
            options = SearchOptions(beam=None, trees=TreesFile.of(folders["trees"]), max_batch=max_batch)
        if kind == "treereg":
            parser: Any = load_model(folder, SearchOptions(beam=None, max_batch=max_batch), parses=True)
            counted(parser.loaded.model, "pack", len)
            return [len(str(found.k_best[0][1])) for found in parser.parse(SENTENCES)]
        scorer: Any = load_model(folder, options, measures=measures)
        if "gpt2" in kind:
            scorer.family._packs &= kind == "gpt2"
            counted(causal, "in_batches", lambda lengths, fit, _: min(len(lengths), fit(max(lengths))))
        else:
            counted(scorer.loaded.model, "pack", len)
        return [score.total for score in scorer.score(SENTENCES)]

    counted(SortedStrings, "levels", lambda strings: len(strings.order))
    found = totals(size)
    assert max(sizes) == (size or len(SENTENCES))
    assert found == pytest.approx(totals(1), rel=2e-6, abs=1e-4)
