"""Masked language models: sentences a second for each kind of pseudo-log-likelihood, beside minicons.

    python benchmarks/masked.py [--device cuda]

A BERT with random weights, of the trunk's size and BERT's number of tokens, reads sentences of the bundled
treebank in its own word pieces. minicons reads them in batches of 16, in their order; it has two of the three
kinds.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from comparison import version
from measure import Figure, Options, main, seconds
from train_step import TRUNK

from pdtools import data
from pdtools.files import Rejects
from pdtools.search import SentenceScore, load_model
from pdtools.search.options import Pll
from pdtools.trees import read_trees

SENTENCES, BATCH, BAR, VOCABULARY = 16, 16, 1.0, 30_522
METRICS: dict[Pll, str] = {"original": "original", "within-word": "within_word_l2r"}


def figures(options: Options) -> Iterator[Figure]:
    """A figure for each kind."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    versions = {name: version(name) for name in ("transformers", "minicons")}
    from minicons.scorer import MaskedLMScorer

    trees = islice(read_trees([str(data.treebank("test"))], Rejects()), SENTENCES)
    texts = [" ".join(each.tree.words) for each in trees]
    with tempfile.TemporaryDirectory() as folder:
        save_bert(Path(folder), texts)
        theirs = MaskedLMScorer(folder, options.device)
        theirs.model.to(options.dtype)
        for pll in get_args(Pll):
            ours = load_model(folder, device=options.device, pll=pll)
            ours.family._model.to(options.dtype)  # type: ignore[attr-defined]
            runs: dict[str, Callable[[], Any]] = {"pdtools": lambda ours=ours: list(ours.score(texts))}
            difference = None
            if metric := METRICS.get(pll):
                runs["minicons"] = lambda metric=metric: peer(theirs, texts, metric)
                scores = [score for score in ours.score(texts) if isinstance(score, SentenceScore)]
                found = [value for score in scores for value in score.logprobs.tolist()]
                difference = max(abs(a - b) for a, b in zip(found, runs["minicons"](), strict=True))
            taken = seconds(runs, options)
            yield Figure(
                name=f"masked model, {pll}",
                value=len(texts) / taken["pdtools"],
                unit="sentences/s",
                ratio=taken["minicons"] / taken["pdtools"] if "minicons" in taken else None,
                against="as fast as minicons" if "minicons" in taken else None,
                bar=BAR if "minicons" in taken else None,
                at_least=True,
                settings={
                    "sentences": len(texts),
                    "largest_difference_nats": difference,
                    **{key: TRUNK[key] for key in ("layers", "d_model")},
                    **versions,
                    **options.settings,
                },
            )


def peer(scorer: Any, texts: Sequence[str], metric: str) -> list[float]:
    """minicons' scores of all tokens."""
    return [
        value
        for first in range(0, len(texts), BATCH)
        for row in scorer.token_score(texts[first : first + BATCH], PLL_metric=metric)
        for _, value in row
    ]


def save_bert(folder: Path, texts: Sequence[str]) -> None:
    """A BERT of the trunk's size with random weights, and word pieces of the texts."""
    import transformers
    from tokenizers import BertWordPieceTokenizer

    trained = BertWordPieceTokenizer(lowercase=False)
    trained.train_from_iterator(texts, vocab_size=300, min_frequency=1, show_progress=False)
    trained.save_model(str(folder))
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder, do_lower_case=False)
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=128,
        hidden_size=TRUNK["d_model"],
        num_hidden_layers=TRUNK["layers"],
        num_attention_heads=TRUNK["heads"],
        intermediate_size=TRUNK["d_ff"],
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main(__doc__, figures, repeats=3)
