"""Which tokens are hidden from masked models: so many, at random, and repeatably."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdtools.models import collate
from pdtools.tokenization import train_word_tokenizer
from pdtools.training.masking import EVALUATION, TRAINING, Masking, evaluation_draw

WORDS = [f"w{i:02}" for i in range(30)]
TOKENIZER = train_word_tokenizer(WORDS, unk=False)


def row(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    words = np.random.default_rng(seed).integers(3, TOKENIZER.vocab_size, n)
    tokens = np.array([TOKENIZER.root_id, *words, TOKENIZER.eos_id])
    return tokens, np.arange(n + 2)


def test_so_many_of_each_row_and_never_what_is_no_word() -> None:
    rows = [row(n, n) for n in (1, 3, 20, 40)]
    batch = collate(rows, TOKENIZER.pad_id)
    masked = Masking(tokenizer=TOKENIZER).apply(batch, range(4), EVALUATION)
    assert masked.scored is not None
    assert masked.scored.sum(1).tolist() == [1, 1, 3, 6]
    assert torch.equal(masked.targets, batch.tokens)
    assert torch.equal(masked.tokens[~masked.scored], batch.tokens[~masked.scored])
    kept = (batch.tokens == TOKENIZER.root_id) | (batch.tokens == TOKENIZER.eos_id) | ~batch.real()
    assert not bool((masked.scored & kept).any())


@given(length=st.integers(1, 30), share=st.floats(0.01, 1), every=st.booleans())
def test_any_share_hides_the_nearest_whole_number(length: int, share: float, every: bool) -> None:
    batch = collate([row(length, length), row(2, 0)], TOKENIZER.pad_id)
    masking = Masking(tokenizer=TOKENIZER, share=share, replacement="mask" if every else "bert")
    hidden = int(masking.apply(batch, [0, 1], EVALUATION).predicted()[0].sum())
    assert hidden == 1 if share * length < 1 else abs(hidden - share * length) <= 0.5


def test_what_is_read_in_place_of_hidden_tokens() -> None:
    batch = collate([row(4000, 0)], TOKENIZER.pad_id)
    masked = Masking(tokenizer=TOKENIZER, share=0.5).apply(batch, [0], EVALUATION)
    read, hidden = masked.tokens[masked.scored], batch.tokens[masked.scored]
    assert len(read) == 2000
    as_mask = float((read == TOKENIZER.mask_id).float().mean())
    same = float((read == hidden).float().mean())
    # A random token is the mask, or the same one, with 1 / 33.
    assert abs(as_mask - 0.803) < 0.03
    assert abs(same - 0.103) < 0.03


def test_all_hidden_tokens_may_be_read_as_the_mask() -> None:
    batch = collate([row(20, n) for n in range(5)], TOKENIZER.pad_id)
    masked = Masking(tokenizer=TOKENIZER, replacement="mask").apply(batch, range(5), EVALUATION)
    assert masked.scored is not None
    assert masked.scored.sum(1).tolist() == [3] * 5
    assert torch.equal(masked.tokens == TOKENIZER.mask_id, masked.scored)
    # The same tokens are hidden as by BERT's rule.
    assert torch.equal(Masking(tokenizer=TOKENIZER).apply(batch, range(5), EVALUATION).scored, masked.scored)


def test_every_draw_of_an_evaluation_hides_other_tokens() -> None:
    batch = collate([row(20, n) for n in range(5)], TOKENIZER.pad_id)
    draws = [evaluation_draw(number) for number in range(4)]
    assert draws[0] == EVALUATION
    hidden = [Masking(tokenizer=TOKENIZER).apply(batch, range(5), draw).scored for draw in draws]
    rows = {tuple(scored[i].tolist()) for scored in hidden if scored is not None for i in range(5)}
    assert len(rows) > 17  # of 20; two rows may happen to be hidden alike


def test_a_row_is_hidden_alike_in_any_batch_and_otherwise_in_another_epoch() -> None:
    rows = [row(20, n) for n in range(5)]
    masking = Masking(tokenizer=TOKENIZER)
    together = masking.apply(collate(rows, TOKENIZER.pad_id), range(5), (TRAINING, 1, 0))
    alone = masking.apply(collate([rows[3]], TOKENIZER.pad_id), [3], (TRAINING, 1, 0))
    assert torch.equal(together.tokens[3], alone.tokens[0])
    assert torch.equal(together.scored[3], alone.scored[0])
    for draw in ((TRAINING, 1, 1), (TRAINING, 2, 0), EVALUATION):
        other = masking.apply(collate(rows, TOKENIZER.pad_id), range(5), draw)
        assert not torch.equal(other.scored, together.scored)


def test_a_row_without_words_has_nothing_to_predict() -> None:
    masked = Masking(tokenizer=TOKENIZER).apply(collate([row(0, 0)], TOKENIZER.pad_id), [0], EVALUATION)
    assert not bool(masked.scored.any())


def test_the_mask_is_the_tokenizers_own_or_the_padding() -> None:
    assert TOKENIZER.mask_id == TOKENIZER.pad_id
    with_mask = train_word_tokenizer([*WORDS, "<mask>"], unk=False)
    assert with_mask.token_text(with_mask.mask_id) == "<mask>"
