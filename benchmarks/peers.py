"""Scores of tiny random models beside other programs' and beside brute force."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from comparison import REPOSITORY, Line, Missing, data_folder, largest, version

from pdtools import data
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.evaluation.benchmark.outcomes import Part, part_of
from pdtools.evaluation.blimp.pairs import PairFiles, PairItems
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.evaluation.sg.suites import SuiteFiles, present
from pdtools.files import Rejects
from pdtools.models import collate, load_checkpoint, save_checkpoint
from pdtools.search import Model, SentenceScore, beam_search, load_model
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.shards import ShardSet, ShardSettings, build_shards
from pdtools.tokenization import split_words, train_bpe_tokenizer
from pdtools.trees import read_trees

# The oracles are the tests'.
sys.path.insert(0, str(REPOSITORY / "tests" / "helpers"))
from search_oracle import all_attachments, exhaustive_prefixes, parts, row, tiny_model
from toy_gpt2 import save_gpt2, transformers_losses

# Nats; both sides add float32 numbers, in another order.
FLOAT32 = 1e-4
ODD_SENTENCES = (
    "I",
    "THE DOG BARKS",
    "\"Quoted,\" she said; 'twice'!",
    "Don't you can't won't",
    "e-mail: x_y@z.org (1/2, 3.14 %)",
    "naïve façade łódź",
    "北京 的 狗 叫 了 。",
    "\U0001f408\u200d\U0001f415 family",
    "  leading and trailing  ",
    "many    spaces\tand a tab",
    "no\u00a0break",
    "...",
)


def region_sums(folder: Path) -> Iterator[Line]:
    """Regions and end-of-sentence add up to the sentence."""
    suites = [("bundled suites", data.sg())]
    try:
        suites.append(("official suites", data_folder() / "sg" / "sg_suites.zip"))
    except Missing as missing:
        yield {"name": "Regions, official suites", "skipped": str(missing)}
    for name, source in suites:
        every = [of for suite in SuiteFiles(source) for item in suite.items for of in item.conditions]
        for kind in ("ptb", "raw", "gpt2"):
            scorer = subword_scorer(folder / f"regions-{kind}", kind)
            pairs = []
            presented = [present(condition, scorer.settings["text_style"]) for condition in every]
            for one, score in zip(presented, scorer.score([p.asked for p in presented]), strict=True):
                assert isinstance(score, SentenceScore)
                part = part_of(one, score)
                assert isinstance(part, Part)
                total = math.fsum(span.bits or 0.0 for span in part.spans)
                pairs.append((-score.total / math.log(2), total))
            label = f"Regions, {name}, {'GPT-2' if kind == 'gpt2' else f'subwords, {kind} text'}"
            yield largest(label, "surprisal of the sentence", pairs, 1e-9, unit="bits")


def corpus() -> list[str]:
    """Sentences of the bundled minimal pairs."""
    return [string.text for pair in PairFiles(data.blimp()) for string in pair.strings.values()]


def subword_scorer(folder: Path, kind: str) -> Model:
    """A tiny random model over subwords: one of ours on text of a style, or a GPT-2."""
    if not folder.exists():
        if kind == "gpt2":
            version("transformers")
            save_gpt2(folder, corpus(), vocab_size=400, positions=256)
        else:
            texts = [split_words(text, "raw" if kind == "raw" else "ptb") for text in corpus()[:300]]
            tokenizer = train_bpe_tokenizer(texts, size=400, min_count=1, text_style=kind)
            shape = {"vocab_size": tokenizer.vocab_size, "max_length": 256}
            save_checkpoint(folder, tiny_model("transformer", **shape), tokenizer, shards={})
    return load_model(folder)


# --- Hugging Face models ----------------------------------------------------------------------


def total(values: Any) -> float:
    """The reduction by which minicons returns sums."""
    return float(values.sum(0))


def hugging_face(folder: Path) -> Iterator[Line]:
    """Token scores, sentence totals and BLiMP accuracies of a random GPT-2."""
    versions = {"transformers": version("transformers")}
    scorer = subword_scorer(folder / "peers", "gpt2")
    texts = [*ODD_SENTENCES, *dict.fromkeys(corpus())]
    scores = [score for score in scorer.score(texts) if isinstance(score, SentenceScore)]
    settings = {**versions, "bos": True, "sentences": len(texts), "unit": "nats"}
    losses = transformers_losses(folder / "peers", texts)
    totals = [(-loss, score.total) for loss, score in zip(losses, scores, strict=True)]
    yield largest("Hugging Face, log p of a sentence", "transformers' loss", totals, FLOAT32, **settings)

    versions["minicons"] = settings["minicons"] = version("minicons")
    from minicons.scorer import IncrementalLMScorer

    theirs = IncrementalLMScorer(str(folder / "peers"), "cpu")
    tokens: list[tuple[float, float]] = []
    for first in range(0, len(texts), 16):
        for i, peer in enumerate(theirs.token_score(texts[first : first + 16], bos_token=True), start=first):
            tokens += zip([value for _, value in peer[1:]], scores[i].logprobs.tolist(), strict=True)
    yield largest("Hugging Face, log p of a token", "minicons", tokens, FLOAT32, **settings)
    sums = [
        value
        for first in range(0, len(texts), 16)
        for value in theirs.sequence_score(texts[first : first + 16], total, bos_token=True)
    ]
    totals = [(peer, score.total) for peer, score in zip(sums, scores, strict=True)]
    yield largest("Hugging Face, log p of a sentence", "minicons", totals, FLOAT32, **settings)

    yield blimp("bundled pairs", list(PairFiles(data.blimp())), scorer, theirs, versions)
    try:
        official = list(PairFiles(data_folder() / "blimp" / "BLiMP.zip", limit=50))
    except Missing as missing:
        yield {"name": "BLiMP accuracy, official pairs", "skipped": str(missing)}
        return
    yield blimp("50 official pairs a paradigm", official, scorer, theirs, versions)


def blimp(name: str, pairs: Sequence[Item], scorer: Model, theirs: Any, versions: dict[str, str]) -> Line:
    """Accuracies by paradigm and overall: a pair is right if the good sentence's sum is strictly higher."""
    right: dict[str, list[bool]] = defaultdict(list)
    for pair in pairs:
        good, bad = theirs.sequence_score([of.text for of in pair.strings.values()], total, bos_token=True)
        right[str(pair.levels[-1])].append(good > bad)
    peer = {paradigm: sum(found) / len(found) for paradigm, found in right.items()}
    ours = evaluate_items(PairItems(pairs), scorer).scores
    accuracies = [(peer[paradigm], score) for paradigm, score in ours["by_paradigm"].items()]
    accuracies.append((sum(peer.values()) / len(peer), ours["overall"]))
    settings = {**versions, "bos": True, "minimal_pairs": len(pairs)}
    return largest(f"BLiMP accuracy, {name}", "minicons", accuracies, 1e-12, **settings)


# --- derivations ------------------------------------------------------------------------------


def exhaustive() -> Iterator[Line]:
    """Marginals and prefix sums of a full beam against the sum over all derivations of random strings."""
    rng = np.random.default_rng(0)
    strings = [rng.integers(3, 6, size=n).tolist() for n in range(7) for _ in range(4)]
    settings = {"strings": len(strings), "longest": 6, "derivations": 132, "beam": 132, "unit": "nats"}
    for name, kind in (
        ("pushdown", {}),
        ("base with head", {"name": "transformer", "attachment_head": True}),
    ):
        model = tiny_model(**kind)
        found = beam_search(model, [row(tokens) for tokens in strings], search=SearchOptions(beam=132))
        marginals, surprisals = [], []
        for tokens, result in zip(strings, found, strict=True):
            token, attach = parts(model, tokens, list(all_attachments(len(tokens))))
            exact = float(np.logaddexp.reduce(token.sum(1) + attach.sum(1)))
            marginals.append((exact, result.marginal))
            prefixes = np.array(exhaustive_prefixes(model, tokens))
            surprisals += zip((-np.diff(prefixes)).tolist(), (-result.logprobs).tolist(), strict=True)
        peer = "sum over all derivations"
        yield largest(f"log p(x), {name}", peer, marginals, 1e-5, **settings)
        yield largest(f"Surprisal of a token, {name}", peer, surprisals, 1e-5, **settings)


def base_perplexity(folder: Path) -> Iterator[Line]:
    """Without a tape the marginal perplexity is the plain one: the exponential of the training loss."""
    scorer = subword_scorer(folder / "regions-ptb", "ptb")
    loaded = load_checkpoint(folder / "regions-ptb")
    trees = list(read_trees([str(data.treebank("test"))], Rejects()))[:200]
    build_shards(trees, loaded.tokenizer, ShardSettings(), folder / "shards", Rejects("skip"))
    shards = ShardSet.open(folder / "shards")
    scores = evaluate_perplexity(shards, loaded, search=NO_SEARCH, rejects=Rejects("skip")).scores
    sums = [
        loaded.model.loss(collate([(shards.tokens(i), shards.attach(i))], loaded.model.pad_id))
        for i in range(len(shards))
    ]
    loss = sum(float(part.sums["token_nll"].detach()) for part in sums) / sum(
        int(part.counts["tokens"]) for part in sums
    )
    pairs = [(math.exp(loss), scores["ppl_token_marginal"] or 0.0)]
    settings = {"sentences": len(shards), "model": scorer.settings["model"]}
    peer = "exp of the training loss"
    yield largest("Perplexity of the base model, marginal", peer, pairs, math.exp(loss) * 1e-5, **settings)
    pairs = [(scores["ppl_token_given_trees"] or 0.0, scores["ppl_token_marginal"] or 0.0)]
    yield largest("Perplexity of the base model, marginal", "the same given trees", pairs, 0, **settings)
