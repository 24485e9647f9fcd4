"""Whole evaluations: sentences a second of eval-blimp and eval-sg by beam, and beside minicons.

    python benchmarks/suite.py [--device cuda]

The suites are samples of the official ones (PDTOOLS_TEST_DATA), or without those the bundled ones; models
have random weights. Figures of BLiMP say how long all of it would take. Sharing is the time of the same
search without shared prefixes over the time with them.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from comparison import Missing, data_folder, version
from measure import Figure, Options, main, seconds
from train_step import LARGE_TRUNK, TRUNK

from pdtools import data
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.evaluation.blimp.pairs import PairFiles, PairItems
from pdtools.evaluation.sg.suites import Suite, SuiteFiles, SuiteItems
from pdtools.models import build_model, load_checkpoint, make_config, save_checkpoint
from pdtools.models.tokenwise import AttachmentKind
from pdtools.search import Model, SentenceScore, load_model
from pdtools.search.batches import SortedStrings
from pdtools.search.options import SearchOptions
from pdtools.tokenization import Sentence, Tokenizer, split_words, train_bpe_tokenizer

BLIMP_SENTENCES = 134_000
VOCABULARY = 8000
WHOLE_BLIMP_HOURS = {("beam 300", torch.float32): 6.4, ("beam 300", torch.bfloat16): 4.6}  # on one core
# By beam, the step through paradigms and suites whose first pairs and items are taken.
SAMPLES = {1: 1, 50: 4, 300: 8}
SHARED_BEAM, SHARING_BAR = 50, 1.4
PEER_PAIRS, PEER_BATCHES, PEER_BAR = 3, (16, 32, 64), 2.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Minimal pairs and suites, and their sentences as the model reads them."""

    pairs: Sequence[Item]
    suites: Sequence[Suite]

    @property
    def blimp_sentences(self) -> list[Sentence]:
        """The different sentences of minimal pairs."""
        texts = {string.text for pair in self.pairs for string in pair.strings.values()}
        return [split_words(text, "ptb") for text in texts]

    @property
    def sg_sentences(self) -> list[Sentence]:
        """The sentences of all conditions."""
        items = SuiteItems(self.suites).written("ptb")
        return [of.words for item in items for of in item.strings.values() if of.words is not None]

    def every(self, step: int) -> Sample:
        """The first pair of every step-th paradigm, the first items of suites: four of one in four."""
        firsts = {str(pair.levels[-1]): pair for pair in reversed(self.pairs)}
        suites = [replace(suite, items=suite.items[:4]) for suite in self.suites[:: 4 * step]]
        return Sample(pairs=[firsts[name] for name in sorted(firsts)][::step], suites=suites)


def figures(options: Options) -> Iterator[Figure]:
    """All figures, by model and beam."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    whole, source = suites()
    trunk = LARGE_TRUNK if options.device.startswith("cuda") else TRUNK
    settings = {"suites": source, **{k: trunk[k] for k in ("layers", "d_model")}, **options.settings}
    tokenizer = train_bpe_tokenizer(
        [*whole.blimp_sentences, *whole.sg_sentences], size=VOCABULARY, min_count=1, text_style="ptb"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in ("transformer", "pushdown"):
            shape = {**trunk, "vocab_size": tokenizer.vocab_size}
            built = build_model(model, make_config(model, shape)).to(options.dtype)
            save_checkpoint(folder / model, built, tokenizer, shards={})
        yield from base_model(folder, whole, options, settings)
        yield from by_beam(folder, whole, options, settings)
        yield from sharing(folder, whole, tokenizer, options, settings)
        yield from beside_minicons(folder / "gpt2", whole, options, settings)


def suites() -> tuple[Sample, str]:
    """Return three pairs a paradigm and all items of the suites, and their source."""
    try:
        folder = data_folder()
    except Missing as missing:
        pairs, found, source = data.blimp(), data.sg(), f"bundled: {missing}"
    else:
        pairs, found = folder / "blimp" / "BLiMP.zip", folder / "sg" / "sg_suites.zip"
        source = "official"
    return Sample(pairs=list(PairFiles(pairs, limit=PEER_PAIRS)), suites=list(SuiteFiles(found))), source


def loaded_scorer(folder: Path, options: Options) -> Model:
    """A scorer whose model is on the options' device."""
    return load_model(folder, device=options.device, dtype=_dtype(options))


def searcher(folder: Path, beam: int, options: Options, *, share: bool = True) -> Model:
    """A model that is searched."""
    model = load_checkpoint(folder, options.device)
    model.model.to(options.dtype)
    found = Model.of(model, SearchOptions(beam=beam))
    found.family.share_prefixes = share  # type: ignore[attr-defined]
    return found


def evaluation_runs(sample: Sample, scorer: Model) -> dict[str, tuple[Callable[[], Any], int]]:
    """eval-blimp and eval-sg as they run, with the number of their sentences."""
    return {
        "eval-blimp": (lambda: evaluate_items(PairItems(sample.pairs), scorer), len(sample.blimp_sentences)),
        "eval-sg": (lambda: evaluate_items(SuiteItems(sample.suites), scorer), len(sample.sg_sentences)),
    }


def speeds(
    label: str, sample: Sample, scorer: Model, options: Options, settings: Mapping[str, Any]
) -> Iterator[Figure]:
    """Sentences a second of both evaluations, each run once after a warm-up with two sentences."""
    list(scorer.score(["The dog barks.", "The dog."]))
    for name, (run, number) in evaluation_runs(sample, scorer).items():
        each = seconds({name: run}, replace(options, repeats=1), warm_up=False)[name] / number
        of_all = {"sentences": number, **settings, "repeats": 1}
        yield Figure(name=f"{name}, {label}", value=1 / each, unit="sentences/s", settings=of_all)
        if name == "eval-blimp":
            hours, goal = BLIMP_SENTENCES * each / 3600, WHOLE_BLIMP_HOURS.get((label, options.dtype))
            yield Figure(
                name=f"all of BLiMP, {label}",
                value=hours,
                unit="h",
                ratio=hours / goal if goal else None,
                against=f"{goal} h" if goal else None,
                bar=1 if goal else None,
                settings=of_all,
            )


def base_model(
    folder: Path, whole: Sample, options: Options, settings: Mapping[str, Any]
) -> Iterator[Figure]:
    """A transformer without parses."""
    sample = replace(whole, suites=whole.every(1).suites)
    yield from speeds("base model", sample, loaded_scorer(folder / "transformer", options), options, settings)


def by_beam(folder: Path, whole: Sample, options: Options, settings: Mapping[str, Any]) -> Iterator[Figure]:
    """The pushdown model at several beams; the larger the beam, the smaller the sample."""
    for beam, step in SAMPLES.items():
        scorer = searcher(folder / "pushdown", beam, options)
        yield from speeds(f"beam {beam}", whole.every(step), scorer, options, {**settings, "beam": beam})


def sharing(
    folder: Path, whole: Sample, tokenizer: Tokenizer, options: Options, settings: Mapping[str, Any]
) -> Iterator[Figure]:
    """Time without shared prefixes over time with them, and the share of tokens that they save."""
    sample = whole.every(SAMPLES[SHARED_BEAM])
    parts = {"eval-blimp": sample.blimp_sentences, "eval-sg": sample.sg_sentences}
    scorers = {
        share: searcher(folder / "pushdown", SHARED_BEAM, options, share=share) for share in (True, False)
    }
    runs = {
        (name, share): run
        for share, scorer in scorers.items()
        for name, (run, _) in evaluation_runs(sample, scorer).items()
    }
    taken = seconds({f"{name} {share}": run for (name, share), run in runs.items()}, options)
    of_all = {"eval-blimp": whole.blimp_sentences, "eval-sg": whole.sg_sentences}
    for label, names in {"SG": ["eval-sg"], "BLiMP": ["eval-blimp"], "SG + BLiMP": list(parts)}.items():
        on, off = (sum(taken[f"{name} {share}"] for name in names) for share in (True, False))
        chosen = [sentence for name in names for sentence in parts[name]]
        yield Figure(
            name=f"shared prefixes, {label}, beam {SHARED_BEAM}",
            value=len(chosen) / on,
            unit="sentences/s",
            ratio=off / on,
            against="as fast as without sharing",
            bar=SHARING_BAR if len(names) > 1 else None,
            at_least=True,
            settings={
                "beam": SHARED_BEAM,
                "sentences": len(chosen),
                "tokens_saved": saved(chosen, tokenizer, beam=1),
                "hypotheses_saved": saved(chosen, tokenizer, beam=SHARED_BEAM),
                "hypotheses_saved_of_more": saved(
                    [sentence for name in names for sentence in of_all[name]], tokenizer, beam=SHARED_BEAM
                ),
                **settings,
            },
        )


def saved(chosen: Sequence[Sentence], tokenizer: Tokenizer, *, beam: int) -> float:
    """The share of fed tokens that sharing saves: per hypothesis; at beam 1 it is the share of tokens."""
    ids = [tokenizer.encode(sentence).ids for sentence in chosen]
    widths = AttachmentKind().widths(beam, max(map(len, ids)))
    fed = {
        share: sum(
            len(level.going) * width
            for level, width in zip(SortedStrings.of(ids, share=share).levels(), widths, strict=True)
        )
        for share in (True, False)
    }
    return 1 - fed[True] / fed[False]


def beside_minicons(
    folder: Path, whole: Sample, options: Options, settings: Mapping[str, Any]
) -> Iterator[Figure]:
    """The same Hugging Face model, the same sentences, minicons in the order of the pairs."""
    try:
        versions = {name: version(name) for name in ("transformers", "minicons")}
    except Missing:
        return
    from minicons.scorer import IncrementalLMScorer

    texts = [string.text for pair in whole.pairs for string in pair.strings.values()]
    save_gpt2(folder, texts)
    ours = loaded_scorer(folder, options)
    theirs = IncrementalLMScorer(str(folder), options.device)
    theirs.model.to(options.dtype)

    def peer(batch: int) -> list[float]:
        found: list[float] = []
        for first in range(0, len(texts), batch):
            part = texts[first : first + batch]
            found += theirs.sequence_score(part, lambda values: float(values.sum(0)), bos_token=True)
        return found

    runs: dict[str, Callable[[], Any]] = {
        f"minicons, batches of {n}": lambda n=n: peer(n) for n in PEER_BATCHES
    }
    taken = seconds({"pdtools": lambda: evaluate_items(PairItems(whole.pairs), ours), **runs}, options)
    best = min(runs, key=lambda name: taken[name])
    scores = {text: score.total for text, score in zip(texts, ours.score(texts), strict=True)
              if isinstance(score, SentenceScore)}  # fmt: skip
    difference = max(abs(scores[text] - peer_score) for text, peer_score in zip(texts, peer(32), strict=True))
    yield Figure(
        name="eval-blimp, GPT-2 architecture",
        value=len(texts) / taken["pdtools"],
        unit="sentences/s",
        ratio=taken[best] / taken["pdtools"],
        against=f"as fast as {best}",
        bar=PEER_BAR,
        at_least=True,
        settings={"sentences": len(texts), "largest_difference_nats": difference, **versions, **settings},
    )


def save_gpt2(folder: Path, texts: Sequence[str]) -> None:
    """A GPT-2 of the trunk's size with random weights, and a byte-level tokenizer of the texts."""
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir()
    end = "<|endoftext|>"
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, VOCABULARY, min_frequency=1, special_tokens=[end], show_progress=False)
    trained.save_model(str(folder))
    named = dict.fromkeys(("bos_token", "eos_token", "unk_token"), end)
    tokenizer = transformers.GPT2TokenizerFast.from_pretrained(folder, **named)
    tokenizer.save_pretrained(folder)
    shape = {
        "n_positions": 256,
        "n_embd": TRUNK["d_model"],
        "n_layer": TRUNK["layers"],
        "n_head": TRUNK["heads"],
    }
    config = transformers.GPT2Config(vocab_size=VOCABULARY, **shape)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def _dtype(options: Options) -> Any:
    return "bf16" if options.dtype == torch.bfloat16 else "float32"


if __name__ == "__main__":
    main(__doc__, figures, repeats=1)
