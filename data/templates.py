"""Sentences in several versions: templates with the holes of the grammar, filled together.

A template is words and holes, ``the {N#1 a=$n c=person} {V#1 k=intr f=pres a=$n s=person} .``. Holes of
one symbol with the same number hold the same lemma, or for symbols of the grammar the same words, in
every version of an item; different numbers hold different lemmas.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pdtools.data.grammar import NONE, Derivation, Grammar, Node, parse_parts, tidy_words
from pdtools.tokenization import join_words
from pdtools.trees import unescape

Version = Sequence[str]  # the templates of a sentence's regions, in order


def render(
    grammar: Grammar, rng: random.Random, versions: Sequence[Version], values: Mapping[str, str]
) -> list[list[list[str]]]:
    """Fill the versions of an item together: the words of every region of every version.

    Words are split as in the treebank, the first of a sentence has its capital letter.

    Raises:
        DeadEnd: the grammar has nothing that fits.
    """
    derivation = Derivation(grammar, rng)
    shared = dict(values)
    filled = []
    for version in versions:
        regions = []
        for template in version:
            nodes = derivation.fill(parse_parts(template), shared, depth=0)
            # Copies, since slots share their nodes and each sentence has its own first word.
            words = [leaf.word for node in nodes for leaf in node.preterminals() if leaf.label != NONE]
            regions.append([Node("", word=word) for word in words])
        tidy_words([leaf for region in regions for leaf in region])
        filled.append([[leaf.word for leaf in region] for region in regions])
    return filled


def raw_text(words: Sequence[str]) -> str:
    """Treebank words as people write them: no escapes, clitics and punctuation attached."""
    return join_words([unescape(word) for word in words], "raw").text
