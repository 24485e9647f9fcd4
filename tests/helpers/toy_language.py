"""A tiny language with trees."""

from __future__ import annotations

import random

from pdtools.tokenization import Tokenizer, train_word_tokenizer

VERB_OF = {"dog": "barks", "cat": "sleeps", "bird": "sings"}
WORDS = ["the", "a", "near", *VERB_OF, *VERB_OF.values()]


def brackets(rng: random.Random) -> str:
    """A subject with up to three prepositional phrases, and the verb that its first noun wants."""
    noun = rng.choice(sorted(VERB_OF))
    subject = f"(NP (D {rng.choice(['the', 'a'])}) (N {noun}))"
    for _ in range(rng.randrange(4)):
        other = rng.choice(sorted(VERB_OF))
        subject = f"(NP {subject} (PP (P near) (NP (D the) (N {other}))))"
    return f"(S {subject} (VP (V {VERB_OF[noun]})))"


def toy_tokenizer(words: list[str] = WORDS) -> Tokenizer:
    return train_word_tokenizer(words, min_count=1, unk=False, text_style="ptb")
