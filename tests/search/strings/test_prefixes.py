"""Shared prefixes: the tree against sets of prefixes, and the search with sharing on and off."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from search_oracle import row, tiny_model

from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.tokenwise import AttachmentKind
from pdtools.search import batches, beam_search
from pdtools.search.batches import SortedStrings
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.options import SearchOptions

MODELS = {
    "pushdown": tiny_model(max_length=64),
    "learned": tiny_model(positions="learned", depth_space="hidden", max_length=64),
    "head": tiny_model("transformer", attachment_head=True),
}
# Few different tokens, so that much is shared: repeats, prefixes of each other, empty strings.
strings = st.lists(st.lists(st.integers(3, 4), max_size=7), max_size=8)


def sorted_strings(tokens: Iterable[list[int]], *, share: bool = True) -> SortedStrings:
    return SortedStrings.of([row(t) for t in tokens], share=share)


@given(tokens=strings)
def test_levels_are_the_different_prefixes(tokens: list[list[int]]) -> None:
    rows = [tuple(row(t).tolist()) for t in tokens]
    found = sorted_strings(tokens)
    assert [rows[i] for i in found.order] == sorted(rows)
    going: list[tuple[int, ...]] = [()]
    levels = found.levels()
    assert len(levels) == max(map(len, rows), default=0)
    for k, level in enumerate(levels):
        prefixes = [
            (*going[parent], token) for parent, token in zip(level.parents, level.tokens, strict=True)
        ]
        assert prefixes == sorted({r[: k + 1] for r in rows if len(r) > k})
        for string, place in enumerate(level.prefix_of):
            whole = rows[found.order[string]]
            assert (place == -1) if len(whole) <= k else prefixes[place] == whole[: k + 1]
        first = [next(i for i in range(len(rows)) if rows[found.order[i]][: k + 1] == p) for p in prefixes]
        assert level.leads.tolist() == first
        assert [found.order[i] for i in level.ending] == [i for i in found.order if len(rows[i]) == k + 1]
        going = [prefixes[i] for i in level.going]
        assert going == sorted({r[: k + 1] for r in rows if len(r) > k + 1})


@given(tokens=strings)
def test_without_sharing_every_string_has_its_own_path(tokens: list[list[int]]) -> None:
    found = sorted_strings(tokens, share=False)
    for k, level in enumerate(found.levels()):
        lengths = [len(ids) for ids in found.ids]
        assert len(level.tokens) == sum(length > k for length in lengths)
        assert len(level.going) == sum(length > k + 1 for length in lengths)


@given(
    # With 2, the end of sentence, inside: a whole string, its end included, may begin another.
    tokens=st.lists(st.lists(st.integers(2, 4), max_size=7), max_size=8),
    share=st.booleans(),
    most=st.integers(1, 60),
    most_strings=st.integers(1, 5),
)
@example(tokens=[[3], [3, 2, 4]], share=True, most=4, most_strings=2)
def test_groups_hold_as_much_as_they_may(
    tokens: list[list[int]], share: bool, most: int, most_strings: int
) -> None:
    widths = AttachmentKind().widths(3, 9)

    def entries(part: SortedStrings) -> int:
        return sum(len(level.going) * widths[k] for k, level in enumerate(part.levels()))

    whole = sorted_strings(tokens, share=share)
    groups = list(whole.groups(widths, most, most_strings))
    assert [i for group in groups for i in group.order] == whole.order
    for group in groups:
        assert len(group.order) <= most_strings
        assert len(group.order) == 1 or entries(group) <= most
    for one, other in itertools.pairwise(groups):
        longer = sorted_strings([ids[1:-1].tolist() for ids in (*one.ids, other.ids[0])], share=share)
        assert len(one.order) == most_strings or entries(longer) > most


def same(model: LanguageModel, tokens: list[list[int]], **options: int) -> None:
    """Every string has the same results alone, and together with and without sharing."""
    rows = [row(t) for t in tokens]
    beam = options.pop("beam")
    together = [
        beam_search(
            model,
            rows,
            search=SearchOptions(beam=beam),
            k_best=3,
            next_tokens="last",
            share_prefixes=share,
            **options,
        )
        for share in (True, False)
    ]
    for i, ids in enumerate(rows):
        (alone,) = beam_search(model, [ids], search=SearchOptions(beam=beam), k_best=3, next_tokens="last")
        for found in (batch[i] for batch in together):
            np.testing.assert_allclose(found.prefix_logprobs, alone.prefix_logprobs, rtol=2e-6, atol=1e-5)
            assert found.next_logprobs is not None
            assert alone.next_logprobs is not None
            np.testing.assert_allclose(found.next_logprobs, alone.next_logprobs, rtol=2e-6, atol=1e-5)
            assert [a.tolist() for a in found.incremental] == [a.tolist() for a in alone.incremental]
            assert [a.tolist() for _, a in found.derivations] == [a.tolist() for _, a in alone.derivations]
            assert [s for s, _ in found.derivations] == pytest.approx(
                [s for s, _ in alone.derivations], rel=2e-6, abs=1e-5
            )


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=20)
@given(tokens=strings, beam=st.sampled_from([1, 2, 5, 50]), max_batch=st.sampled_from([None, 2, 3]))
def test_sharing_changes_no_result(
    kind: str, tokens: list[list[int]], beam: int, max_batch: int | None
) -> None:
    options = {} if max_batch is None else {"max_batch": max_batch}
    same(MODELS[kind], tokens, beam=beam, **options)


@settings(max_examples=20)
@given(tokens=strings, max_batch=st.sampled_from([None, 2, 3]))
def test_models_without_a_tape_score_shared_prefixes_alike(
    tokens: list[list[int]], max_batch: int | None
) -> None:
    loaded = LoadedModel(MODELS["head"], None, {}, Path())  # type: ignore[arg-type]
    rows = [row(t) for t in tokens]
    shared, plain = (string_logprobs(loaded, rows, max_batch, share_prefixes=s) for s in (True, False))
    for one, other in zip(shared, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-5)


def test_a_minimal_pair_feeds_its_common_tokens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["pushdown"]
    fed = []
    advance = model.advance

    def count(state: object, tokens: torch.Tensor, tape_row: torch.Tensor) -> None:
        fed.append(len(tokens))
        advance(state, tokens, tape_row)

    monkeypatch.setattr(model, "advance", count)
    pair = [row([3, 4, 5, 3, 4]), row([3, 4, 5, 4])]
    beam_search(model, pair, search=SearchOptions(beam=4))
    assert fed == [1, 1, 2, 4, 8, 4]
    fed.clear()
    beam_search(model, pair, search=SearchOptions(beam=4), share_prefixes=False)
    assert fed == [2, 2, 4, 8, 8, 4]


def test_little_memory_makes_smaller_groups_and_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["pushdown"]
    monkeypatch.setattr(batches, "CPU_BUDGET", 40 * model.start(1, 1).nbytes)
    assert batches.entries_that_fit(model, 8) == 40
    rng = np.random.default_rng(0)
    same(model, [rng.integers(3, 5, size=n).tolist() for n in (6, 6, 3, 5, 0, 7, 6)], beam=4)


def test_pasts_are_read_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row([3, 4, 5, 3, 4, 4]), row([3, 4, 4, 5])]
    whole = beam_search(MODELS["pushdown"], rows, search=SearchOptions(beam=7))
    monkeypatch.setattr(
        "pdtools.models.transformer.cache.READ_CELLS_CPU", 200
    )  # three hypotheses of two tokens
    parts = beam_search(MODELS["pushdown"], rows, search=SearchOptions(beam=7))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.prefix_logprobs, other.prefix_logprobs, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3, 50, 300])
def test_widths_are_those_of_all_histories(beam: int) -> None:
    assert AttachmentKind().widths(beam, 9) == [min(beam, n) for n in (1, 1, 2, 5, 14, 42, 132, 429, 1430)]
