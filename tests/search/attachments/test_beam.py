"""The beam search against the sum over all derivations, and against a search over plain lists."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from search_oracle import KINDS, all_attachments, exhaustive_prefixes, logsumexp, parts, row, tiny_model

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, NoRoomError, StackState
from pdtools.search import BeamResult, beam_search
from pdtools.search.options import SearchOptions
from pdtools.search.scores import SearchResult

CATALAN = [1, 1, 2, 5, 14, 42]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return tiny_model(**KINDS[request.param])


def strings(lengths: list[int], seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 6, size=n).tolist() for n in lengths]


def search(
    model: LanguageModel, tokens: list[list[int]], *, beam: int, margin: float | None = None, **options: Any
) -> list[BeamResult]:
    return beam_search(
        model, [row(t) for t in tokens], search=SearchOptions(beam=beam, margin=margin), **options
    )


@pytest.mark.parametrize("n", range(6))
def test_the_oracle_enumerates_catalan_many(n: int) -> None:
    assert len(set(map(tuple, all_attachments(n)))) == CATALAN[n]


@pytest.mark.parametrize("n", range(6))
def test_a_full_beam_sums_over_all_derivations(model: LanguageModel, n: int) -> None:
    (tokens,) = strings([n])
    (found,) = search(model, [tokens], beam=100, k_best=100)
    derivations = list(all_attachments(n))
    token, attach = parts(model, tokens, derivations)
    joints = token.sum(1) + attach.sum(1)

    assert found.marginal == pytest.approx(logsumexp(joints), rel=2e-6, abs=1e-5)
    np.testing.assert_allclose(
        found.prefix_logprobs, exhaustive_prefixes(model, tokens), rtol=1e-6, atol=1e-5
    )
    assert found.logprobs.sum() == pytest.approx(found.marginal, abs=1e-9)
    assert found.dropped == 0

    order = np.argsort(-joints)
    assert [a.tolist() for _, a in found.derivations] == [derivations[i] for i in order]
    np.testing.assert_allclose([s for s, _ in found.derivations], joints[order], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("beam", [2, 100])
def test_what_may_follow_is_the_prefix_with_each_token_after_it(model: LanguageModel, beam: int) -> None:
    many = strings([4, 0, 2, 4])
    for tokens, found in zip(many, search(model, many, beam=beam, next_tokens="last"), strict=True):
        assert found.next_logprobs is not None
        for token in (0, 1, 3, 5):
            (longer,) = search(model, [[*tokens, token]], beam=beam)
            assert found.next_logprobs[0, token] == pytest.approx(
                longer.prefix_logprobs[len(tokens) + 1], rel=2e-6, abs=1e-5
            )
        assert found.next_logprobs[0, model.eos_id] == pytest.approx(found.marginal, rel=2e-6, abs=1e-5)
    last = [found.next_logprobs for found in search(model, many, beam=beam, next_tokens="last")]
    for tokens, found, end in zip(
        many, search(model, many, beam=beam, next_tokens="every"), last, strict=True
    ):
        every = found.conditional_next_logprobs
        np.testing.assert_allclose(
            every[np.arange(len(tokens) + 1), [*tokens, model.eos_id]], found.logprobs, rtol=2e-6, atol=1e-5
        )
        assert end is not None
        np.testing.assert_allclose(every[-1:] + found.prefix_logprobs[-2], end, rtol=2e-6, atol=1e-5)


def test_the_joint_distribution_sums_to_one() -> None:
    """Over all strings and derivations of at most 3 tokens, and all prefixes that go on."""
    model = tiny_model()
    total = 0.0
    for n in range(3):
        tokens = [list(t) for t in itertools.product((0, 1, 3, 4, 5), repeat=n)]
        total += sum(np.exp(found.marginal) for found in search(model, tokens, beam=10))
    prefixes = [list(t) for t in itertools.product((0, 1, 3, 4, 5), repeat=3)]
    total += sum(np.exp(found.prefix_logprobs[3]) for found in search(model, prefixes, beam=10))
    assert total == pytest.approx(1, rel=2e-6, abs=1e-5)


def plain_beam(
    model: LanguageModel, tokens: list[int], beam: int, margin: float = np.inf
) -> tuple[list[float], list[list[int]], float]:
    """The same search, one hypothesis at a time: A_t, the best histories, and the log of the share kept."""
    n = len(tokens)
    hypotheses: list[tuple[float, list[int], list[int]]] = [(0.0, [0], [])]  # score, attachments, stack
    sums, best, kept = [0.0], [[0]], 0.0
    for k in range(1, n + 2):
        extended = []
        reached = []
        for score, history, stack in hypotheses:
            rest = [*range(k, n + 1), 0]
            token, _ = parts(model, tokens, [history + rest])
            reached.append(score + token[0, k])
            if k == n + 1:
                continue
            for candidate in [*stack, k]:
                below = stack if candidate == k else stack[: stack.index(candidate)]
                _, attach = parts(model, tokens, [[*history, candidate, *rest[1:]]])
                extended.append((reached[-1] + attach[0, k], [*history, candidate], [*below, k]))
        sums.append(logsumexp(np.array(reached)))
        if k <= n:
            hypotheses = sorted(extended, key=lambda h: -h[0])[:beam]
            hypotheses = [h for h in hypotheses if h[0] >= hypotheses[0][0] - margin]
            each, every = (logsumexp(np.array([h[0] for h in hs])) for hs in (hypotheses, extended))
            kept += each - every
            best.append(hypotheses[0][1])
    final = max(zip(reached, hypotheses, strict=True), key=lambda pair: pair[0])[1][1]
    return sums, [*best, [*final, 0]], kept


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5, 2.0])
def test_a_margin_drops_what_falls_behind(model: LanguageModel, margin: float) -> None:
    many = strings([6, 4, 4, 0, 1])
    found = search(model, many, beam=7, margin=margin, k_best=20, next_tokens="last")
    for tokens, result in zip(many, found, strict=True):
        sums, best, kept = plain_beam(model, tokens, 7, margin)
        assert result.log_share_kept == pytest.approx(kept, rel=2e-6, abs=1e-5)
        np.testing.assert_allclose(result.prefix_logprobs, sums, rtol=2e-6, atol=1e-5)
        assert [a.tolist() for a in result.incremental] == best
        assert logsumexp(np.array([score for score, _ in result.derivations])) == pytest.approx(sums[-1])
        (alone,) = search(model, [tokens], beam=7, margin=margin, k_best=20, next_tokens="last")
        assert len(alone.derivations) == len(result.derivations)
        np.testing.assert_allclose(alone.next_logprobs, result.next_logprobs, rtol=2e-6, atol=1e-5)


def test_what_falls_behind_the_margin_is_fed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    many = strings([6, 5, 6])
    fed: list[int] = []
    advance = type(model).advance

    def count(self: Any, state: Any, tokens: Any, tape_row: Any) -> None:
        fed.append(len(tokens))
        advance(self, state, tokens, tape_row)

    monkeypatch.setattr(type(model), "advance", count)
    alone = []
    for tokens in many:
        search(model, [tokens], beam=7, margin=2.0)
        alone.append(fed.copy())
        fed.clear()
    search(model, many, beam=7, margin=2.0, share_prefixes=False)
    assert fed == [sum(rows) for rows in itertools.zip_longest(*alone, fillvalue=0)]
    assert any(len(set(rows)) > 1 for rows in zip(*alone, strict=False))  # ragged


@pytest.mark.parametrize("most_entries", [1, 9, 40, 200])
def test_with_a_margin_batches_that_get_too_wide_are_made_again(
    model: LanguageModel, most_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = strings([6, 6, 3, 5, 6, 1, 6, 4])
    alone = [search(model, [tokens], beam=7, margin=2.0, k_best=20)[0] for tokens in many]
    batches: list[int] = []
    start = type(model).start
    monkeypatch.setattr(
        type(model), "start", lambda *args: batches.append(args[1]) or start(*args), raising=True
    )
    monkeypatch.setattr("pdtools.search.families.attachment_beam.entries_that_fit", lambda *_: most_entries)
    together = search(model, many, beam=7, margin=2.0, k_best=20)
    for one, other in zip(alone, together, strict=True):
        assert one.prefix_logprobs == pytest.approx(other.prefix_logprobs, rel=2e-6, abs=1e-5)
        assert len(one.derivations) == len(other.derivations)
        assert one.derivations[0][1].tolist() == other.derivations[0][1].tolist()
    assert len(batches) > 1 or most_entries == 200


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is not freed at once, is not freed."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("margin", [None, 2.0])
def test_a_batch_is_freed_before_the_next_is_made(
    margin: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    states: list[weakref.ref[Any]] = []
    start = type(model).start

    def count(*args: Any) -> Any:
        assert all(state() is None for state in states)
        state = start(*args)
        states.append(weakref.ref(state))
        return state

    monkeypatch.setattr(type(model), "start", count)
    monkeypatch.setattr("pdtools.search.families.attachment_beam.entries_that_fit", lambda *_: 40)
    found = search(model, strings([6, 6, 3, 5, 6, 1, 6, 4]), beam=7, margin=margin)
    # With a margin, a batch that was made again is among them.
    assert 1 < len(states) < len(found) or margin


@pytest.mark.parametrize("most_entries", [1, 2, 3, 5])
@pytest.mark.parametrize("margin", [None, 1.0])
def test_strings_without_tokens_say_nothing_of_the_others(
    margin: float | None, most_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    many = [[], [], [3], [4], [5], [5, 3]]
    alone = [search(model, [tokens], beam=2, margin=margin)[0].marginal for tokens in many]
    monkeypatch.setattr("pdtools.search.families.attachment_beam.entries_that_fit", lambda *_: most_entries)
    for size, share in itertools.product((2, 3), (True, False)):
        found = search(model, many, beam=2, margin=margin, max_batch=size, share_prefixes=share)
        assert [each.marginal for each in found] == pytest.approx(alone, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("margin", [None, 1.0])
def test_a_model_without_room_for_what_it_was_started_for_is_an_error(
    margin: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()

    def refuse(*_: Any) -> None:
        raise NoRoomError("none")

    monkeypatch.setattr(type(model), "attach_logprobs", refuse)
    with pytest.raises(NoRoomError):
        search(model, strings([4, 3]), beam=3, margin=margin)


@pytest.mark.parametrize("margin", [None, 1.0])
def test_weights_that_are_not_numbers_are_refused(margin: float | None) -> None:
    model = tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(PdtoolsError, match="weights are damaged"):
        search(model, strings([4]), beam=3, margin=margin)


@pytest.mark.parametrize("beam", [1, 2, 3, 7])
def test_a_small_beam_equals_a_plain_search(model: LanguageModel, beam: int) -> None:
    for tokens, found in zip(
        strings([6, 4], beam), search(model, strings([6, 4], beam), beam=beam), strict=True
    ):
        sums, best, kept = plain_beam(model, tokens, beam)
        assert found.log_share_kept == pytest.approx(kept, rel=2e-6, abs=1e-5)
        assert found.dropped == pytest.approx(1 - np.exp(kept), rel=2e-6, abs=1e-5)
        np.testing.assert_allclose(found.prefix_logprobs, sums, rtol=2e-6, atol=1e-5)
        assert [a.tolist() for a in found.incremental] == best


@pytest.mark.parametrize("margin", [None, 1.0])
def test_results_do_not_depend_on_batches_order_or_neighbours(
    model: LanguageModel, margin: float | None
) -> None:
    """Nor do traces."""
    tokens = strings([3, 7, 0, 5, 7, 1, 2, 7, 12, 5])
    options: dict[str, Any] = {"beam": 5, "k_best": 2, "margin": margin, "trace": 3}
    alone = [search(model, [t], **options)[0] for t in tokens]
    for size in (3, 10) if margin else (1, 2, 10):
        together = search(model, tokens, **options, max_batch=size)
        for one, other in zip(alone, together, strict=True):
            for step, same in zip(one.steps, other.steps, strict=True):
                assert (step.kept, step.parents.tolist()) == (same.kept, same.parents.tolist())
                assert [a.tolist() for a in step.derivations] == [a.tolist() for a in same.derivations]
                for name in ("total", "joints", "token_logprobs", "attachment"):
                    np.testing.assert_allclose(getattr(step, name), getattr(same, name), rtol=2e-6, atol=1e-5)
            np.testing.assert_allclose(one.prefix_logprobs, other.prefix_logprobs, rtol=2e-6, atol=1e-5)
            assert [a.tolist() for a in one.incremental] == [a.tolist() for a in other.incremental]
            assert [a.tolist() for _, a in one.derivations] == [a.tolist() for _, a in other.derivations]
    backwards = search(model, tokens[::-1], beam=5, margin=margin)[::-1]
    assert [r.marginal for r in backwards] == pytest.approx([r.marginal for r in alone], rel=2e-6, abs=1e-5)


def test_the_same_search_repeats_to_the_bit(model: LanguageModel) -> None:
    tokens = strings([8, 6, 8])
    first, second = (search(model, tokens, beam=4) for _ in range(2))
    assert all((a.prefix_logprobs == b.prefix_logprobs).all() for a, b in zip(first, second, strict=True))


def test_ties_go_to_the_better_hypothesis_then_to_the_earlier_position() -> None:
    """With all weights zero every choice is uniform, so nearly everything is tied."""
    model = tiny_model()
    for parameter in model.parameters():
        parameter.data.zero_()
    (found,) = search(model, [[3, 4, 5]], beam=2)
    # Token 2: attach to 1 before shift; token 3: one candidate of two beats one of three.
    assert [a.tolist() for a in found.incremental] == [[0], [0, 1], [0, 1, 1], [0, 1, 1, 2], [0, 1, 1, 2, 0]]
    assert found.derivations[0][0] == pytest.approx(4 * np.log(1 / 6) + 2 * np.log(1 / 2))


def test_bad_use_is_refused() -> None:
    with pytest.raises(PdtoolsError, match="attachment head"):
        search(tiny_model("transformer"), [[3]], beam=3)
    with pytest.raises(PdtoolsError, match="at least 1"):
        search(tiny_model(), [[3]], beam=0)


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize("kind", ["shallow", "prefix", "head"])
def test_what_knows_no_tape_is_computed_once_for_the_hypotheses_of_a_prefix(
    kind: str, share_prefixes: bool
) -> None:
    model = tiny_model(**KINDS[kind])
    rows: list[list[int]] = [[], []]
    for layer, seen in zip(model.blocks, rows, strict=True):
        layer.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(len(args[0])))
    many = [[3, 4, 5, 3], [3, 4, 4, 3, 5], [3]]
    together = search(model, many, beam=7, share_prefixes=share_prefixes)
    prefixes = [len({tuple(tokens[:k]) for tokens in many if k <= len(tokens)}) for k in range(6)]
    widths = [sum(min(7, CATALAN[k]) for _ in range(prefixes[k])) for k in range(6)]
    assert prefixes == [1, 1, 1, 2, 2, 1]
    assert rows[0] == prefixes
    if kind == "head":  # no layer has a tape
        assert rows[1] == prefixes
    elif share_prefixes:
        assert rows[1] == widths
    for tokens, found in zip(many, together, strict=True):
        (alone,) = search(model, [tokens], beam=7)
        np.testing.assert_allclose(found.prefix_logprobs, alone.prefix_logprobs, rtol=2e-6, atol=1e-5)


def test_prefixes_that_no_hypothesis_has_make_room_for_others() -> None:
    model, length, many = tiny_model(**KINDS["prefix"]), 8, 4

    def last_attachments(entries: int | None) -> torch.Tensor:
        """Of hypotheses that differ in the last token, all but one of which are dropped after each."""
        state, stack = model.start(many, length, entries), StackState.start(many, length)
        model.advance(state, torch.full((many,), model.root_id), stack.tape_row())
        for k in range(1, length):
            tokens = torch.arange(many) % 3 + 3
            attach = model.attach_logprobs(state, tokens, stack.legal())  # (R, k + 1)
            stack.push(attach.argmax(1))
            model.advance(state, tokens, stack.tape_row())
            rows = torch.full((many,), k % many)
            state.select(rows)
            stack = stack.select(rows)
        return attach

    torch.testing.assert_close(last_attachments(length - 1 + many), last_attachments(None))
    with pytest.raises(NoRoomError, match="room for 10 tokens"):
        last_attachments(length - 2 + many)


@pytest.mark.parametrize("log_share_kept", [0.0, -0.0, 1e-16, -1e-300, 3e-9])
def test_nothing_dropped_is_no_negative_number(log_share_kept: float) -> None:
    def dropped(log_share: float) -> float:
        return SearchResult(np.zeros(2), (), (), log_share).dropped

    assert f"{dropped(log_share_kept):.3g}" in ("0", "1e-300")
    assert dropped(np.log(0.75)) == pytest.approx(0.25)
