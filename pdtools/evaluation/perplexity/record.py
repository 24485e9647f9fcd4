"""Perplexity, as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdtools.evaluation.record import COUNT, SCORE, Document, Evaluation, MainScores
from pdtools.evaluation.sums import Sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERPLEXITIES = {
    "ppl_word_given_trees": "perplexity per word, given the trees",
    "ppl_word_marginal": "perplexity per word, marginal",
    "ppl_token_masked": "perplexity per hidden token",
}
# Of models of which only some count end-of-sentence.
WITHOUT_EOS = {
    "ppl_word_without_eos_given_trees": "perplexity per word without end-of-sentence, given the trees",
    "ppl_word_without_eos_marginal": "perplexity per word without end-of-sentence, marginal",
}


def _perplexity(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log-probabilities and words."""
    import numpy as np

    return np.exp(-sums[..., 0] / np.maximum(sums[..., 1], 1))


def _perplexity_without_ends(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log-probabilities and words, and of how much of them is ends of sentences."""
    import numpy as np

    return np.exp(-(sums[..., 0] - sums[..., 2]) / np.maximum(sums[..., 1] - sums[..., 3], 1))


_SUMS = {
    "ppl_word_given_trees": Sums(key="id", columns=("given_tree", "words"), score=_perplexity),
    "ppl_word_marginal": Sums(key="id", columns=("marginal", "words"), score=_perplexity),
    "ppl_token_masked": Sums(key="id", columns=("masked", "tokens"), score=_perplexity),
    "ppl_word_without_eos_given_trees": Sums(
        key="id", columns=("given_tree", "words", "end_given_tree", "ends"), score=_perplexity_without_ends
    ),
    "ppl_word_without_eos_marginal": Sums(
        key="id", columns=("marginal", "words", "end_marginal", "ends"), score=_perplexity_without_ends
    ),
}
_SUMS_OF = {label: _SUMS[name] for name, label in {**PERPLEXITIES, **WITHOUT_EOS}.items()}


def _main_scores(document: Document) -> MainScores:
    scores, counts = document["scores"], document["counts"]
    found: MainScores = {}
    for names, unit in ((PERPLEXITIES, "words"), (WITHOUT_EOS, "words_without_eos")):
        over = (f"{counts['sentences']} sentences", f"{counts.get(unit)} words")
        found |= {text: (scores[key], over) for key, text in names.items() if key in scores}
    return found


EVALUATIONS = (
    Evaluation(
        name="ppl",
        title="Perplexity",
        in_text="perplexity",
        printer="pdtools.report.evaluations:print_perplexity",
        read={**{f"scores.{name}": SCORE for name in _SUMS}, "counts.sentences": COUNT},
        may_be_missing="scores.ppl_",
        scores=_main_scores,
        item_score=lambda label, document: _SUMS_OF.get(label),
        columns=tuple(dict.fromkeys(name for sums in _SUMS.values() for name in (sums.key, *sums.columns))),
        lower_is_better=True,
        same={"text_sha256": "other sentences"},
        ignores_end=True,  # perplexities with it and without it have names of their own
        without_end=frozenset(WITHOUT_EOS.values()),
        concerned={"beam": "marginal", "trees": "given the trees"},
        card={name: PERPLEXITIES[name] for name in ("ppl_word_given_trees", "ppl_word_marginal")},
    ),
)
