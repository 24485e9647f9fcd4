"""The search of models of windows against the sum over all derivations."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import enumerate_derivations
from search_oracle import EOS, KINDS, ROOT, logsumexp, tiny_model
from window_oracle import searched_row, window_attachments, window_joints, window_tokens

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.search import beam_search
from pdtools.search.families.attachments import end_logprob
from pdtools.search.families.unsearched import string_logprobs
from pdtools.search.options import SearchOptions
from pdtools.search.sampling import sample

ENOUGH = 500
A, B, C = 3, 4, 5
WINDOWS = [
    [[A]],
    [[A, B]],
    [[B, A, C, A]],
    [[A], [B]],
    [[A, B, A], [C, B]],
    [[B, A], [A, C, A]],
    [[A], [B], [C]],
]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return tiny_model(**KINDS[request.param], layout="window")


def reached(model: LanguageModel, sentences: list[list[int]]) -> list[float]:
    """A_t by the definition, after every token of a window; a ROOT's has the end of the sentence before."""
    sums = [0.0]
    for i, sentence in enumerate(sentences):
        before = sentences[:i]
        if i:
            tokens = window_tokens(before)
            found = window_joints(model, tokens, list(window_attachments([len(s) for s in before])))
            sums.append(logsumexp(found[0].sum(1) + found[1].sum(1)))
        for t in range(1, len(sentence) + 1):
            some = [*before, sentence[:t]]
            derivations = list(window_attachments([len(s) for s in some], open_end=True))
            token, attach = window_joints(model, window_tokens(some), derivations)
            # The attachment of the last token is still to come: one derivation for each history before it.
            histories = {tuple(d[:-1]): i for i, d in enumerate(derivations)}
            joints = token.sum(1) + attach[:, :-1].sum(1)
            sums.append(logsumexp(joints[list(histories.values())]))
    return sums


@pytest.mark.parametrize("lengths", [[1], [2], [3], [4], [5], [3, 4], [1, 1, 2]])
def test_a_sentence_of_n_tokens_has_as_many_derivations_as_trees(lengths: list[int]) -> None:
    trees = [1, 1, 2, 5, 14]
    found = list(window_attachments(lengths))
    assert len(set(map(tuple, found))) == len(found) == np.prod([trees[n - 1] for n in lengths])


@pytest.mark.parametrize("sentences", WINDOWS, ids=str)
def test_a_full_beam_sums_over_all_derivations_of_a_window(
    model: LanguageModel, sentences: list[list[int]]
) -> None:
    derivations = list(window_attachments([len(s) for s in sentences]))
    token, attach = window_joints(model, window_tokens(sentences), derivations)
    joints = token.sum(1) + attach.sum(1)
    (found,) = beam_search(model, [searched_row(sentences)], search=SearchOptions(beam=ENOUGH), k_best=ENOUGH)

    assert found.marginal == pytest.approx(logsumexp(joints), rel=2e-6)
    np.testing.assert_allclose(found.prefix_logprobs[:-1], reached(model, sentences), rtol=1e-6, atol=1e-5)
    assert found.dropped == 0
    order = np.argsort(-joints)
    assert [a.tolist() for _, a in found.derivations] == [[*derivations[i], 0] for i in order]
    np.testing.assert_allclose([s for s, _ in found.derivations], joints[order], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("sentence", [[A], [A, B], [B, A, C, A]], ids=str)
def test_choice_by_choice_the_last_token_alone_attaches_to_root(sentence: list[int]) -> None:
    model = tiny_model(layout="window")
    token, attach = window_joints(model, window_tokens([sentence]), list(window_attachments([len(sentence)])))
    found = enumerate_derivations(model, [ROOT, *sentence, EOS])
    wanted = np.sort(token.sum(1) + attach.sum(1))[::-1]
    np.testing.assert_allclose([joint for joint, _ in found.joints], wanted, rtol=1e-6, atol=1e-5)
    assert found.prefix_logprobs[-1] == pytest.approx(logsumexp(wanted), rel=2e-6)


@pytest.mark.parametrize("sentences", WINDOWS[-3:], ids=str)
def test_ends_of_sentences_are_the_attachments_of_their_last_tokens(sentences: list[list[int]]) -> None:
    model, ids = tiny_model(layout="window"), searched_row(sentences)
    (found,) = beam_search(model, [ids], search=SearchOptions(beam=ENOUGH))
    sums = [*reached(model, sentences), found.marginal]
    wanted = 0.0
    for i in range(1, len(sentences) + 1):
        last = len(window_tokens(sentences[:i])) - 1
        wanted += sums[last + 1] - sums[last]
    assert end_logprob(model, ids, found.logprobs) == pytest.approx(wanted, rel=2e-6, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 4, 100])
@pytest.mark.parametrize("margin", [None, 2.0])
@pytest.mark.parametrize("commit", [False, True])
def test_what_is_searched_together_changes_nothing(
    model: LanguageModel, beam: int, margin: float | None, commit: bool
) -> None:
    rows = [searched_row(sentences) for sentences in WINDOWS]
    options: dict[str, Any] = {
        "search": SearchOptions(beam=beam, margin=margin),
        "commit": commit,
        "k_best": 3,
    }
    for ids, found in zip(rows, beam_search(model, rows, **options), strict=True):
        (alone,) = beam_search(model, [ids], **options, share_prefixes=False)
        np.testing.assert_allclose(found.prefix_logprobs, alone.prefix_logprobs, rtol=1e-6, atol=1e-5)
        assert found.log_share_kept == pytest.approx(alone.log_share_kept, rel=2e-6, abs=1e-5)
        assert [a.tolist() for _, a in found.derivations] == [a.tolist() for _, a in alone.derivations]


def plain_beam(
    model: LanguageModel, sentences: list[list[int]], beam: int, margin: float, commit: bool
) -> tuple[list[float], float]:
    """The same search by its definition: A_t, and the log of the share that was kept."""
    tokens, last = window_tokens(sentences), {sum(map(len, sentences[: i + 1])) + i for i in range(9)}
    hypotheses: list[tuple[float, list[int], list[int]]] = [(0.0, [0], [])]  # score, attachments, stack
    sums, kept, root = [0.0], 0.0, 0
    for k in range(1, len(tokens)):
        if tokens[k] == ROOT:
            root = k
        extended = []
        for score, history, stack in hypotheses:
            candidates = [root] if k in last and k != root else [*stack, k]
            if k == root:
                candidates = [k]
            rest = list(range(k + 1, len(tokens)))
            found = window_joints(model, tokens, [[*history, each, *rest] for each in candidates])
            for token, attach, each in zip(found[0][:, k], found[1][:, k], candidates, strict=True):
                below = stack[: stack.index(each)] if each in stack else [] if each == root else stack
                stacked = [*below, *([] if k == root else [k])]
                extended.append((score + token, score + token + attach, [*history, each], stacked))
        reached = logsumexp(np.array([*{tuple(h[2][:-1]): h[0] for h in extended}.values()]))
        sums.append(reached)
        every = sorted(
            ((joint, history, stack) for _, joint, history, stack in extended), key=lambda h: -h[0]
        )
        if commit and k == root:
            hypotheses = [(reached, *every[0][1:])]
            continue
        hypotheses = [h for h in every[:beam] if h[0] >= every[0][0] - margin]
        kept += logsumexp(np.array([h[0] for h in hypotheses])) - logsumexp(np.array([h[0] for h in every]))
    return [*sums, logsumexp(np.array([h[0] for h in hypotheses]))], kept


@pytest.mark.parametrize("beam", [1, 3, 50])
@pytest.mark.parametrize("margin", [0.0, 0.7, np.inf])
@pytest.mark.parametrize("commit", [False, True])
def test_any_beam_margin_and_commitment_computed_again(beam: int, margin: float, commit: bool) -> None:
    model = tiny_model(layout="window")
    search = SearchOptions(beam=beam, margin=None if margin == np.inf else margin)
    rows = [searched_row(sentences) for sentences in WINDOWS]
    for found, sentences in zip(beam_search(model, rows, search=search, commit=commit), WINDOWS, strict=True):
        sums, kept = plain_beam(model, sentences, beam, margin, commit)
        np.testing.assert_allclose(found.prefix_logprobs, sums, rtol=2e-6, atol=1e-5)
        assert found.log_share_kept == pytest.approx(kept, rel=2e-6, abs=1e-5)


def test_committed_sentences_are_read_with_their_best_derivation(model: LanguageModel) -> None:
    before, sentence = [B, A, C], [A, C, A]
    (context,) = beam_search(model, [searched_row([before])], search=SearchOptions(beam=ENOUGH))
    best = context.derivations[0][1][:-1].tolist()
    root = len(best)
    tokens = window_tokens([before, sentence])
    derivations = [[*best, *(root + target for target in own)] for own in window_attachments([len(sentence)])]
    token, attach = window_joints(model, tokens, derivations)
    (found,) = beam_search(
        model, [searched_row([before, sentence])], search=SearchOptions(beam=ENOUGH), commit=True
    )
    assert found.marginal - found.prefix_logprobs[root] == pytest.approx(
        logsumexp(token[:, root:].sum(1) + attach[:, root:].sum(1)), rel=2e-6, abs=1e-5
    )
    assert found.prefix_logprobs[root] == pytest.approx(context.marginal, rel=2e-6, abs=1e-5)
    assert found.dropped == 0


def test_all_strings_have_the_probability_one_together() -> None:
    model = tiny_model(layout="window")
    longest = 4
    ended = 0.0
    for n in range(1, longest + 1):
        rows = [searched_row([list(words)]) for words in itertools.product((A, B, C), repeat=n)]
        ended += sum(
            np.exp(found.marginal) for found in beam_search(model, rows, search=SearchOptions(beam=ENOUGH))
        )
    unfinished = 0.0
    for words in itertools.product((A, B, C), repeat=longest):
        derivations = list(window_attachments([longest], open_end=True))
        token, attach = window_joints(model, window_tokens([words]), derivations)
        unfinished += np.exp(logsumexp(token.sum(1) + attach.sum(1)))
    assert ended + unfinished == pytest.approx(1, rel=2e-6, abs=1e-5)


def test_draws_are_as_probable_as_the_search_says() -> None:
    model = tiny_model(layout="window", seed=3)
    for draw in itertools.islice(sample(model, number=40, seed=1, max_tokens=6), 40):
        if draw.complete:
            (found,) = beam_search(
                model,
                [searched_row([draw.tokens.tolist()])],
                search=SearchOptions(beam=ENOUGH),
                k_best=ENOUGH,
            )
            joints = {tuple(attach[1:-2].tolist()): joint for joint, attach in found.derivations}
            assert joints[tuple(draw.derivation.attach[:-1] + 1)] == pytest.approx(
                draw.logprob, rel=2e-6, abs=1e-5
            )


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("roots", ["given", "predicted"])
def test_strings_without_a_head_cost_their_ends_where_these_are_predicted(roots: str, share: bool) -> None:
    model = tiny_model("transformer", layout="window", window_roots=roots)
    loaded: Any = SimpleNamespace(model=model)
    rows = [searched_row(sentences) for sentences in WINDOWS]
    for ids, found in zip(rows, string_logprobs(loaded, rows, share_prefixes=share), strict=True):
        read = ids[:-1]  # the model adds a ROOT where it predicts one
        with torch.no_grad():
            parts = model.forward_parts(model.pack([(read, model.no_derivation(read))]))
        wanted = np.zeros(len(ids) - 1)
        scored = parts.token_logprobs[0, 1:].double().numpy()
        wanted[: len(scored)] = scored
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        ends = np.isin(ids[1:], (ROOT, EOS))
        assert ends.sum() == (read == ROOT).sum()
        assert np.isfinite(found).all()
        assert (found[ends] == 0).all() == (roots == "given")
        assert (found[~ends] < 0).all()


@pytest.mark.parametrize("sentences", [[[]], [[A], []], [[], [A]]])
def test_a_window_has_no_empty_sentences(sentences: list[list[int]]) -> None:
    with pytest.raises(PdtoolsError, match="a sentence of a window has a token at least"):
        beam_search(tiny_model(layout="window"), [searched_row(sentences)], search=SearchOptions(beam=4))
