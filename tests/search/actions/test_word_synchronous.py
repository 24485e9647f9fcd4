"""Word-synchronous search: the enumeration where the beam holds all, a plain formulation where it does
not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from action_oracle import KINDS, action_model
from enumeration import enumerate_derivations
from plain import word_synchronous as plain

from pdtools.errors import PdtoolsError
from pdtools.models.grammar.derivations import read_actions
from pdtools.search.families.word_synchronous import ActionResult, word_synchronous_search
from pdtools.search.options import SearchOptions

STRINGS = [[3, 4, 5], [3], [3, 4], [5], [3, 4, 5, 3], [3, 4]]
EVERYTHING = SearchOptions(beam=10_000, word_beam=10_000, fast_track=0)
NARROW = [
    SearchOptions(beam=1, word_beam=1, fast_track=0),
    SearchOptions(beam=4, word_beam=2, fast_track=0),
    SearchOptions(beam=6, word_beam=3, fast_track=2),
    SearchOptions(beam=40, word_beam=4, fast_track=5),
]


def row(tokens: list[int]) -> np.ndarray:
    return np.array([1, *tokens, 2], np.int32)


def close(found: ActionResult, wanted: ActionResult) -> bool:
    return bool(np.allclose(found.prefix_logprobs, wanted.prefix_logprobs, atol=1e-5))


@pytest.mark.parametrize(
    ("name", "positions"), [("tg", "relative"), ("plm", "none"), ("plm-mask", "learned")]
)
def test_what_may_follow_is_the_prefix_with_each_token_after_it(name: str, positions: str) -> None:
    model = action_model(name, positions)
    many = [row(s) for s in ([], [3], [3, 4], [5, 4])]
    for ids, found in zip(
        many, word_synchronous_search(model, many, search=EVERYTHING, next_tokens=True), strict=True
    ):
        assert found.next_logprobs is not None
        n = len(ids) - 2
        assert found.next_logprobs[np.arange(n + 1), ids[1:]] == pytest.approx(
            found.prefix_logprobs[1:], rel=2e-6, abs=1e-5
        )
        longer = [np.array([*ids[:-1], token, 2], np.int32) for token in (3, 4, 5)]
        for token, other in zip(
            (3, 4, 5), word_synchronous_search(model, longer, search=EVERYTHING), strict=True
        ):
            assert found.next_logprobs[n, token] == pytest.approx(
                other.prefix_logprobs[n + 1], rel=2e-6, abs=1e-5
            )
        assert np.isneginf(found.next_logprobs[:, [0, 1]]).all()


def test_what_may_follow_is_over_as_many_as_the_action_beam_keeps() -> None:
    """However few the word beam keeps: of what comes first all is there."""
    model, many = action_model("tg", "relative"), [row([3, 4])]
    (wanted,) = word_synchronous_search(model, many, search=EVERYTHING, next_tokens=True)
    wide = replace(EVERYTHING, word_beam=1)
    (found,) = word_synchronous_search(model, many, search=wide, next_tokens=True)
    assert wanted.next_logprobs is not None
    assert found.next_logprobs is not None
    np.testing.assert_allclose(found.next_logprobs[0], wanted.next_logprobs[0], rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize(("name", "positions"), KINDS)
def test_a_beam_for_all_derivations_is_the_enumeration(name: str, positions: str) -> None:
    model = action_model(name, positions)
    results = word_synchronous_search(model, [row(s) for s in STRINGS], search=EVERYTHING, k_best=5)
    for string, found in zip(STRINGS, results, strict=True):
        every = enumerate_derivations(model, row(string).tolist())
        assert found.prefix_logprobs == pytest.approx(every.prefix_logprobs, rel=2e-6, abs=1e-5)
        assert found.logprobs.sum() == pytest.approx(found.marginal)
        best = [score for score, _ in every.joints[:5]]
        assert [score for score, _ in found.derivations] == pytest.approx(best, rel=2e-6, abs=1e-5)
        wanted = read_actions(np.array(every.joints[0][1]), model.actions)
        for attribute in ("tokens", "labels", "opens", "closes"):
            assert getattr(found.derivations[0][1], attribute).tolist() == getattr(wanted, attribute).tolist()
        assert [len(best.tokens) for best in found.incremental] == [*range(1, len(string) + 1), len(string)]


@pytest.mark.parametrize(
    ("name", "positions"), [("tg", "relative"), ("plm", "relative"), ("plm-mask", "learned")]
)
@pytest.mark.parametrize("beam", NARROW)
@pytest.mark.parametrize("margin", [math.inf, 2.0, 0.5])
def test_a_narrow_beam_is_the_plain_formulation(
    name: str, positions: str, beam: SearchOptions, margin: float
) -> None:
    model = action_model(name, positions, max_open=3)
    for string in STRINGS[:4] if margin == math.inf else STRINGS[:2]:
        within = replace(beam, margin=margin)
        found = word_synchronous_search(model, [row(string)], search=within, k_best=beam.width_of_words)[0]
        sums, kept, _ = plain.search(model, row(string).tolist(), beam, margin)  # type: ignore[attr-defined]
        assert found.prefix_logprobs == pytest.approx(sums, rel=2e-6, abs=1e-5)
        assert [score for score, _ in found.derivations] == pytest.approx(
            [h.score for h in kept], rel=2e-6, abs=1e-5
        )
        best = read_actions(np.array(kept[0].actions), model.actions)
        assert found.derivations[0][1].opens.tolist() == best.opens.tolist()
        whole = plain.whole_logprob(model, row(string).tolist(), kept[0].actions)  # type: ignore[attr-defined]
        assert found.derivations[0][0] == pytest.approx(whole, rel=2e-6, abs=2e-5)


def test_a_margin_of_hypotheses_that_may_still_gain() -> None:
    """In this model the sums have some that are between 2.4 and 3 nats behind before they generate a word."""
    model, ids = action_model("plm", "relative", max_open=3), row([3, 4])
    wide = SearchOptions(beam=100, word_beam=100, fast_track=0)
    (found,) = word_synchronous_search(model, [ids], search=replace(wide, margin=3.0))
    sums, _, _ = plain.search(model, ids.tolist(), wide, 3.0)  # type: ignore[attr-defined]
    assert found.prefix_logprobs == pytest.approx(sums, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize(("name", "positions"), KINDS)
def test_a_margin_drops_what_is_far_behind_and_reads_less(name: str, positions: str) -> None:
    model = action_model(name, positions, max_open=4)
    beam = SearchOptions(beam=40, word_beam=20, fast_track=0)
    strings = [row(s) for s in STRINGS]
    without = word_synchronous_search(model, strings, search=beam, k_best=20)
    wide = word_synchronous_search(model, strings, search=replace(beam, margin=100.0), k_best=20)
    assert all(map(close, wide, without))
    narrow = word_synchronous_search(model, strings, search=replace(beam, margin=1.0), k_best=20)
    assert narrow[0].expanded < without[0].expanded
    for found in narrow:
        scores = [score for score, _ in found.derivations]
        assert scores[-1] >= scores[0] - 1.0
        assert 0 <= found.dropped < 1


@pytest.mark.parametrize(("name", "positions"), KINDS)
def test_neighbours_batches_and_shared_prefixes_change_nothing(name: str, positions: str) -> None:
    model = action_model(name, positions, max_open=4)
    beam = SearchOptions(beam=12, word_beam=4, fast_track=2)
    strings = [row(s) for s in STRINGS]
    together = word_synchronous_search(model, strings, search=beam)
    apart = word_synchronous_search(model, strings, search=beam, share_prefixes=False, max_batch=2)
    alone = [word_synchronous_search(model, [string], search=beam)[0] for string in strings]
    assert all(map(close, apart, together))
    assert all(map(close, alone, together))
    again = word_synchronous_search(model, strings, search=beam)
    assert all(
        np.array_equal(a.prefix_logprobs, b.prefix_logprobs) for a, b in zip(again, together, strict=True)
    )


def test_nothing_opens_or_closes_inside_of_words() -> None:
    model = action_model("tg", "relative")
    inside = np.array([False, False, True, False, False])
    found = word_synchronous_search(
        model, [row([3, 4, 5])], search=EVERYTHING, inside_words=[inside], k_best=10_000
    )[0]
    every = enumerate_derivations(model, [1, 3, 4, 5, 2]).joints
    wanted = [score for score, choices in every if choices.index(4) == choices.index(3) + 1]
    assert [score for score, _ in found.derivations] == pytest.approx(wanted, rel=2e-6, abs=1e-5)
    assert found.marginal == pytest.approx(np.logaddexp.reduce(wanted), rel=2e-6, abs=1e-5)
    free = word_synchronous_search(model, [row([3, 4, 5])], search=EVERYTHING)[0]
    assert found.marginal < free.marginal
    both = word_synchronous_search(  # the same tokens, of other words: no shared prefix
        model, [row([3, 4, 5])] * 2, search=EVERYTHING, inside_words=[inside, np.zeros(5, bool)]
    )
    assert [result.marginal for result in both] == pytest.approx(
        [found.marginal, free.marginal], rel=2e-6, abs=1e-5
    )


@pytest.mark.parametrize("string", [[3, 4, 5], [3, 4]])  # rows of even and of odd length
def test_hypotheses_without_room_are_dropped(string: list[int]) -> None:
    long, model = (action_model("plm", "learned", max_length=most) for most in (30, 8))
    weights = long.state_dict()
    weights["position_embedding.weight"] = weights["position_embedding.weight"][:8]
    model.load_state_dict(weights)
    found = word_synchronous_search(model, [row(string)], search=EVERYTHING, k_best=10_000)[0]
    fits = [
        score
        for score, choices in enumerate_derivations(long, row(string).tolist()).joints
        if 1 + len(choices) <= 8
    ]
    assert [score for score, _ in found.derivations] == pytest.approx(fits, rel=2e-6, abs=1e-5)
    short = action_model("plm", "learned", max_length=4)
    none = word_synchronous_search(short, [row(string)], search=EVERYTHING)
    assert none[0].derivations == ()
    assert none[0].marginal == -math.inf
    assert none[0].logprobs[:2].sum() == pytest.approx(none[0].prefix_logprobs[2])
    assert none[0].logprobs[2:].tolist() == [-math.inf] * (len(string) - 1)
    assert none[0].dropped == 0  # by the word beam


def test_stopping_early_loses_nothing() -> None:
    """With a word beam that many generate soon, what is still open would only fall behind."""
    model = action_model("tg", "relative", max_open=5, labels=1)
    beam = SearchOptions(beam=2_000, word_beam=3, fast_track=0)
    found = word_synchronous_search(model, [row([3, 4])], search=beam, k_best=3)[0]
    first = sorted((score for score, _ in _prefixes(model, 3)), reverse=True)[:3]
    assert found.prefix_logprobs[1] == pytest.approx(np.logaddexp.reduce(first), rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_steps_are_the_word_beams(most: int) -> None:
    """Whatever is shown of a beam, its sum is over all that it held, and so are the ranks of parents."""
    model = action_model("plm", "relative", max_open=3)
    beam, strings = SearchOptions(beam=12, word_beam=4, fast_track=2), [row(s) for s in STRINGS]
    shown = word_synchronous_search(model, strings, search=beam, k_best=4, trace=most)
    for found, whole in zip(
        shown, word_synchronous_search(model, strings, search=beam, trace=100), strict=True
    ):
        n = len(found.incremental)
        assert len(found.steps) == len(whole.steps) == n
        before = [""]
        for k, (step, every) in enumerate(zip(found.steps, whole.steps, strict=True), start=1):
            assert step.kept == every.kept == len(every.joints) == len(every.derivations)
            assert step.total == pytest.approx(found.prefix_logprobs[k], abs=1e-9)
            assert np.logaddexp.reduce(every.joints) == pytest.approx(step.total)
            assert (step.joints == every.joints[:most]).all()
            assert (step.parents == every.parents[:most]).all()
            assert (np.diff(every.joints) <= 0).all()
            texts = [each.text("abcd", "XYZ") for each in every.derivations]
            assert [each.text("abcd", "XYZ") for each in step.derivations] == texts[:most]
            assert all(
                text.startswith(before[p]) for text, p in zip(texts, every.parents.tolist(), strict=True)
            )
            assert texts[0] == found.incremental[k - 1].text("abcd", "XYZ")
            before = texts
        last = [score for score, _ in found.derivations]
        assert found.steps[-1].joints.tolist() == pytest.approx(last[:most])
    assert max(step.kept for step in shown[0].steps) == 4


@pytest.mark.parametrize(("words", "kept"), [(1, 1 / 2), (2, 1)])
def test_the_share_that_the_word_beam_keeps(words: int, kept: float) -> None:
    """One or two constituents open before the token, one as likely as the other."""
    model = action_model("plm", "relative", labels=1, words=1, zero=True)
    beam = SearchOptions(beam=10, word_beam=words, fast_track=0)
    found = word_synchronous_search(model, [row([3])], search=beam)[0]
    assert found.log_share_kept == pytest.approx(math.log(kept), rel=2e-6, abs=1e-6)
    assert found.dropped == pytest.approx(1 - kept, rel=2e-6, abs=1e-6)


def test_what_was_behind_a_full_word_beam_counts_as_dropped() -> None:
    """One constituent opens before the token, with either label: the less probable one is not kept."""
    model = action_model("plm", "relative", max_open=1)
    found = word_synchronous_search(
        model, [row([3])], search=SearchOptions(beam=10, word_beam=1, fast_track=0)
    )[0]
    scores = np.array([score for score, _ in _prefixes(model, 3)])
    assert len(set(scores)) == 2
    assert found.log_share_kept == pytest.approx(
        scores.max() - np.logaddexp.reduce(scores), rel=2e-6, abs=1e-6
    )


def _prefixes(model: object, token: int) -> list[tuple[float, list[int]]]:
    """All derivations up to the first token."""
    from enumeration import replayed

    found, under_way = [], [(0.0, list[int]())]
    while under_way:
        score, choices = under_way.pop()
        derivations = replayed(model, choices, 3)  # type: ignore[arg-type]
        logprobs = derivations.logprobs()[0]
        for choice in torch.nonzero(derivations.fits(token)[0] & (logprobs > -torch.inf))[:, 0].tolist():
            longer = (score + float(logprobs[choice]), [*choices, choice])
            (found if choice == token else under_way).append(longer)
    return found


@pytest.mark.parametrize(
    ("widths", "problem"),
    [
        ({"beam": 0}, "at least 1"),
        ({"beam": 5, "word_beam": 0}, "at least 1"),
        ({"fast_track": -1}, "at least 0"),
    ],
)
def test_widths_that_make_no_beam(widths: dict[str, int], problem: str) -> None:
    with pytest.raises(PdtoolsError, match=problem):
        SearchOptions(**widths)


def test_widths_from_one() -> None:
    for beam, words, fast in ((100, 10, 5), (5, 1, 0)):
        found = SearchOptions(beam=beam)
        assert (found.width, found.width_of_words, found.fast_tracked) == (beam, words, fast)
    with pytest.raises(PdtoolsError, match="k-best"):
        word_synchronous_search(
            action_model("tg", "relative"), [row([3])], search=SearchOptions(beam=10), k_best=2
        )


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = action_model("tg", "relative")
    with torch.no_grad():
        model.embedding.weight[4] = math.nan
    with pytest.raises(PdtoolsError, match="not numbers"):
        word_synchronous_search(model, [row([4])], search=SearchOptions())
