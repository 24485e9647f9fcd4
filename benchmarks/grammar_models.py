"""Action models: a training step beside a causal transformer's, and word-synchronous search.

    python benchmarks/grammar_models.py

*Step*: forward and backward of rows of the bundled treebank as Transformer Grammars, PLM-mask and PLM read
them, beside the base transformer with relative (of PLM-mask: learned) positions over as many positions.
*Search*: a Transformer Grammar at 100/10/5 and 20 words, beside scoring in one teacher-forced batch as many
whole derivations as hypotheses are read at a word, and beside the plain formulation, which has no cache; then
a small one at 24 words.
Weights are random; the output's biases make opening, generating and closing about as likely as in a treebank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from measure import EOS, ROOT, Figure, Options, main, seconds
from plain import word_synchronous as plain
from train_step import TRUNK, own_loss, step

from pdtools import data
from pdtools.files import Rejects
from pdtools.models import Batch, TransformerLM, build_model, make_config
from pdtools.models.grammar.model import GrammarLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.options import SearchOptions
from pdtools.trees import Constituents, Tree, normalize, read_trees
from pdtools.trees.arc_standard import static_oracle
from pdtools.trees.constituents import labelled, opens_and_closes

ROWS, LABELS = 16, 26
# Positions of a mean row of newspapers.
KINDS = {
    "tg": ("relative", 81, 1.15),
    "dtg": ("relative", 72, 1.15),
    "plm-mask": ("learned", 63, 1.1),
    "plm": ("relative", 63, None),
}
WORDS, SENTENCES = 20, 2
SEARCH_BAR, PLAIN_BAR = 1.2, 0.1
SMALL_TRUNK = {**TRUNK, "layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "vocab_size": 8_000}
SMALL_WORDS, SMALL_SECONDS = 24, 1.1


def model_of(name: str, positions: str, options: Options, trunk: Mapping[str, Any] = TRUNK) -> TransformerLM:
    """A model with random weights on the trunk of the other benchmarks."""
    settings = {**trunk, "positions": positions}
    if name == "dtg":
        settings |= {"output_bias": True}
    elif name != "transformer":
        settings |= {"n_labels": LABELS, "output_bias": True}
    model = build_model(name, make_config(name, settings))
    assert isinstance(model, TransformerLM)
    if isinstance(model, GrammarLM) and model.actions.labels:
        assert model.output_bias is not None
        with torch.no_grad():  # three constituents for four words
            generate, ids = model.vocab_size, model.actions
            model.output_bias[ids.tokens : ids.first_closer] = np.log(0.4 * generate / LABELS)
            model.output_bias[ids.first_closer :] = np.log(0.4 * generate)
    return model.to(options.device, options.dtype).train()


def rows_of(model: GrammarLM, positions: int, rng: np.random.Generator) -> Batch:
    """The trees of the bundled treebank whose rows are nearest to a length, with random tokens and labels.

    Dependency Transformer Grammars get arcs to heads that are a constituent's first or last word by chance.
    """
    found = []
    for sourced in read_trees([str(data.treebank("test"))], Rejects()):
        tree = normalize(sourced.tree)
        if tree is not None:
            tree = labelled(tree)
            labels = rng.integers(0, LABELS, len(tree.labels)).astype(np.int32)
            tokens = [ROOT, *rng.integers(EOS + 1, model.vocab_size, len(tree)), EOS]
            given = Constituents(labels, *opens_and_closes(tree))
            derivation = given if model.actions.labels else static_oracle(heads_by_chance(tree, rng))
            found.append((np.array(tokens), derivation))
    sizes = [model.row_length(*row) for row in found]
    nearest = sorted(range(len(found)), key=lambda i: abs(sizes[i] - positions))[:ROWS]
    return model.pack([found[i] for i in nearest])


def heads_by_chance(tree: Tree, rng: np.random.Generator) -> np.ndarray:
    """Heads without crossing arcs: a constituent's words depend on its first or its last word."""
    heads = np.full(len(tree), -1, np.int32)
    head_of = np.arange(len(tree))
    spans = sorted(zip(tree.starts.tolist(), tree.ends.tolist(), strict=True), key=lambda s: s[1] - s[0])
    for start, end in spans:
        inside = np.unique(head_of[start:end])
        head = inside[rng.integers(2) - 1]
        heads[inside[inside != head]] = head
        head_of[start:end] = head
    return heads


def step_figures(options: Options) -> Iterator[Figure]:
    """A training step of each kind of model."""
    for name, (positions, length, bar) in KINDS.items():
        model, base = (model_of(kind, positions, options) for kind in (name, "transformer"))
        assert isinstance(model, GrammarLM)
        batch = rows_of(model, length, np.random.default_rng(0)).to(options.device)
        tokens = torch.randint(EOS + 1, base.vocab_size, batch.tokens.shape, device=options.device)
        plain_batch = Batch(tokens=tokens, attach=batch.attach, lengths=batch.lengths)
        runs = {"base": step(base, plain_batch, own_loss), name: step(model, batch, own_loss)}
        times = seconds(runs, options)
        settings = {"rows": ROWS, **TRUNK, "shape": list(batch.tokens.shape), **options.settings}
        yield Figure(
            name=f"training step, {name}",
            value=times[name],
            unit="s",
            ratio=times[name] / times["base"],
            against=f"the base transformer, {positions} positions",
            bar=bar,
            settings=settings,
        )


def search_figures(options: Options) -> Iterator[Figure]:
    """The search, beside teacher-forced scoring and the plain formulation."""
    model = model_of("tg", "relative", options).eval()
    assert isinstance(model, GrammarLM)
    rng, beam = np.random.default_rng(0), SearchOptions()
    strings = [string_of(WORDS, model, rng) for _ in range(SENTENCES)]
    batches = [model.pack(derivations_of(model, ids, beam)).to(options.device) for ids in strings]

    def search() -> None:
        word_synchronous_search(model, strings, search=beam)

    def score() -> None:
        with torch.inference_mode():
            for batch in batches:
                model.forward_parts(batch)

    times = seconds({"teacher-forced": score, "search": search}, options)
    few = word_synchronous_search(model, strings, search=beam)[0].expanded
    settings = {"words": WORDS, "sentences": SENTENCES, "beam": [100, 10, 5], "read": few, **TRUNK}
    yield Figure(
        name="search, tg, 20 words",
        value=times["search"] / SENTENCES,
        unit="s",
        ratio=times["search"] / times["teacher-forced"],
        against=f"teacher-forced scoring of {sum(len(b.tokens) for b in batches)} hypotheses",
        bar=SEARCH_BAR,
        settings={**settings, **options.settings},
    )
    short, once = strings[0][[0, 1, 2, 3, -1]], Options(**{**vars(options), "repeats": 1})

    def ours() -> None:
        word_synchronous_search(model, [short], search=beam)

    def by_hand() -> None:
        with torch.inference_mode():
            plain.search(model, short.tolist(), beam)

    times = seconds({"plain": by_hand, "search": ours}, once)
    yield Figure(
        name="search, tg, 3 words",
        value=times["search"],
        unit="s",
        ratio=times["search"] / times["plain"],
        against="the plain formulation",
        bar=PLAIN_BAR,
        settings={**settings, "words": 3, "sentences": 1, **once.settings},
    )
    small = model_of("tg", "relative", options, SMALL_TRUNK).eval()
    string = string_of(SMALL_WORDS, small, rng)
    (taken,) = seconds(
        {"search": lambda: word_synchronous_search(small, [string], search=beam)}, options
    ).values()
    yield Figure(
        name=f"search, tg, {SMALL_WORDS} words, d {SMALL_TRUNK['d_model']}",
        value=taken,
        unit="s",
        ratio=taken / SMALL_SECONDS,
        against=f"{SMALL_SECONDS} s",
        bar=1,
        settings={**settings, **SMALL_TRUNK, "words": SMALL_WORDS, "sentences": 1, **options.settings},
    )


def string_of(words: int, model: TransformerLM, rng: np.random.Generator) -> np.ndarray:
    """A string of random words, with ROOT and end-of-sentence."""
    return np.array([ROOT, *rng.integers(EOS + 1, model.vocab_size, words), EOS], np.int32)


def derivations_of(model: GrammarLM, ids: np.ndarray, beam: SearchOptions) -> list[tuple[np.ndarray, object]]:
    """Whole derivations of a string, as many as hypotheses are read at each of its words; some repeatedly."""
    found = word_synchronous_search(model, [ids], search=beam, k_best=beam.width_of_words)[0]
    every = [best for _, best in found.derivations]
    return [(ids, every[i % len(every)]) for i in range(found.expanded // WORDS)]


def figures(options: Options) -> Iterator[Figure]:
    """All figures: training steps, then the search."""
    yield from step_figures(options)
    yield from search_figures(options)


if __name__ == "__main__":
    main(__doc__, figures, repeats=3)
