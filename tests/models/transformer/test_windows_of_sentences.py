"""Models of windows: the tape, what may be attached to, and what is scored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from search_oracle import EOS, PAD, ROOT, tiny_model
from window_oracle import window_attachments, window_joints, window_tokens

from pdtools.errors import PdtoolsError
from pdtools.models import StackState, TransformerConfig
from pdtools.models.transformer.tape import legal_attachments, tape_from_attachments

# ROOT the dog barks ROOT cats sleep, with ((the dog) barks) and (cats sleep).
ATTACH = torch.tensor([[0, 1, 1, 0, 4, 5, 4]])
ROOTS = torch.tensor([[True, False, False, False, True, False, False]])


def test_depths_of_a_closed_sentence_count_its_root() -> None:
    tape = tape_from_attachments(ATTACH)[0]
    assert tape[3, :4].tolist() == [1, 3, 3, 2]
    assert tape[4, :5].tolist() == [1, 3, 3, 2, 0]
    assert tape[6].tolist() == [1, 3, 3, 2, 1, 2, 2]


def test_a_token_may_attach_within_its_own_sentence_and_to_its_root() -> None:
    legal = legal_attachments(tape_from_attachments(ATTACH), ROOTS)[0]
    found = {k: legal[k].nonzero()[:, 0].tolist() for k in range(7)}
    assert found == {0: [0], 1: [0, 1], 2: [0, 1, 2], 3: [0, 2, 3], 4: [4], 5: [4, 5], 6: [4, 5, 6]}


@pytest.mark.parametrize("lengths", [[1], [4], [1, 1, 2], [3, 2], [2, 1, 3]])
def test_stacks_step_by_step_equal_those_of_a_row(lengths: list[int]) -> None:
    derivations = torch.tensor(list(window_attachments(lengths)))  # (D, N)
    is_root = torch.tensor(window_tokens([[3] * n for n in lengths])) == ROOT  # (N,)
    roots = is_root.expand(derivations.shape)
    tapes = tape_from_attachments(derivations)
    legal = legal_attachments(tapes, roots)
    stack = StackState.start(len(derivations), derivations.shape[1], windows=True)
    for k in range(1, derivations.shape[1]):
        if not is_root[k]:
            assert torch.equal(stack.legal(), legal[:, k, : k + 1])
        stack.push(derivations[:, k])
        stack.begin(roots[:, k])
        assert torch.equal(stack.tape_row(), tapes[:, k, : k + 1])


def test_with_a_head_roots_are_not_scored_and_the_last_attachment_is() -> None:
    model = tiny_model(layout="window")
    tokens, attach = window_joints(model, [ROOT, 3, 4, 5, ROOT, 4, 3], ATTACH.tolist())
    assert (tokens[0] != 0).tolist() == [False, True, True, True, False, True, True]
    assert (attach[0] != 0).tolist() == [False, True, True, True, False, True, True]
    loss = model.loss(model.pack([(np.array([ROOT, 3, 4, 5, ROOT, 4, 3]), ATTACH[0].numpy())]))
    assert (loss.counts["tokens"], loss.counts["attachments"]) == (5, 5)
    assert loss.sums["token_nll"].item() == pytest.approx(-tokens.sum(), rel=1e-5)


def test_with_a_head_no_token_else_ends_a_sentence() -> None:
    model = tiny_model(layout="window")
    batch = model.pack([(np.array([ROOT, 3, 4]), np.array([0, 1, 0]))])
    with torch.no_grad():
        probabilities = model.following_logprobs(batch).exp()[0]
    assert probabilities[[PAD, ROOT, EOS]].tolist() == [0, 0, 0]
    assert float(probabilities.sum()) == pytest.approx(1)


@pytest.mark.parametrize("layers", ["pushdown", "transformer"])
def test_windows_of_padded_rows_have_gradients_that_are_numbers(layers: str) -> None:
    model = tiny_model(layers, layout="window")
    rows = [
        (np.array([ROOT, 3, 4, 5, ROOT, 4, 3]), ATTACH[0].numpy()),
        (np.array([ROOT, 3]), np.array([0, 0])),
    ]
    parts = model.train().loss(model.pack(rows))
    (parts.sums["token_nll"] + parts.sums["attachment_nll"]).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_without_a_head_every_end_is_a_root_like_other_tokens() -> None:
    model = tiny_model("transformer", layout="window")
    row = (np.array([ROOT, 3, 4, ROOT, 5]), np.arange(5))
    batch = model.pack([row])
    assert batch.tokens.tolist() == [[ROOT, 3, 4, ROOT, 5, ROOT]]
    loss = model.loss(batch)
    assert (loss.counts["tokens"], loss.counts["attachments"]) == (5, 0)


def test_roots_that_are_given_without_a_head() -> None:
    model = tiny_model("transformer", layout="window", window_roots="given")
    loss = model.loss(model.pack([(np.array([ROOT, 3, 4, ROOT, 5]), np.arange(5))]))
    assert (loss.counts["tokens"], loss.counts["attachments"]) == (3, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attachment_head": True, "window_roots": "predicted"}, 'window_roots must not be "predicted"'),
        ({"objective": "masked"}, "windows need the causal objective"),
        ({"layout": "block"}, "layout must be one of sentence, window"),
    ],
)
def test_what_does_not_go_with_windows_is_said(settings: dict[str, object], message: str) -> None:
    with pytest.raises(PdtoolsError, match=message):
        TransformerConfig(
            **{"vocab_size": 6, "pad_id": 0, "root_id": 1, "eos_id": 2, "layout": "window", **settings}
        )
