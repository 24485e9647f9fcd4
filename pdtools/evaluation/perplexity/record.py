"""The record of perplexity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdtools.evaluation.bootstrap import Sums
from pdtools.evaluation.record import COUNT, SCORE, Document, Evaluation, MainScores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KINDS = {
    "given_trees": ("given the trees", "given_tree", "end_given_tree"),
    "joint": ("joint", "joint", "end_given_tree"),  # end-of-sentence attaches to ROOT with probability 1
    "marginal": ("marginal", "marginal", "end_marginal"),
}
"""Log-probabilities by their names in scores: in words, their column of items, and that of their ends."""
PERPLEXITIES = {f"ppl_word_{name}": f"perplexity per word, {text}" for name, (text, _, _) in KINDS.items()}
PERPLEXITIES["ppl_word_pseudo"] = "pseudo-perplexity per word"
PERPLEXITIES["ppl_token_masked"] = "perplexity per hidden token"
# Scores to compare models of which only some count end-of-sentence.
WITHOUT_EOS = {
    f"ppl_word_without_eos_{name}": f"perplexity per word without end-of-sentence, {text}"
    for name, (text, _, _) in KINDS.items()
}
_GIVEN_TREES, _JOINT, _MARGINAL = (text for text, _, _ in KINDS.values())


def _perplexity(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Perplexity from sums of log-probabilities and words."""
    import numpy as np

    return np.exp(-sums[..., 0] / np.maximum(sums[..., 1], 1))


def _perplexity_without_ends(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Perplexity from sums of log-probabilities and words, minus the parts of ends of sentences."""
    import numpy as np

    return np.exp(-(sums[..., 0] - sums[..., 2]) / np.maximum(sums[..., 1] - sums[..., 3], 1))


_SUMS = {
    **{
        f"ppl_word_{name}": Sums(key="id", columns=(column, "words"), score=_perplexity)
        for name, (_, column, _) in KINDS.items()
    },
    "ppl_word_pseudo": Sums(key="id", columns=("pseudo", "words"), score=_perplexity),
    "ppl_token_masked": Sums(key="id", columns=("masked", "tokens"), score=_perplexity),
    **{
        f"ppl_word_without_eos_{name}": Sums(
            key="id", columns=(column, "words", end, "ends"), score=_perplexity_without_ends
        )
        for name, (_, column, end) in KINDS.items()
    },
}
_SUMS_OF = {label: _SUMS[name] for name, label in {**PERPLEXITIES, **WITHOUT_EOS}.items()}


def _main_scores(document: Document) -> MainScores:
    scores, counts = document["scores"], document["counts"]
    found: MainScores = {}
    for names, unit in ((PERPLEXITIES, "words"), (WITHOUT_EOS, "words_without_eos")):
        over = (f"{counts['sentences']} sentences", f"{counts.get(unit)} words")
        found |= {text: (scores[key], over) for key, text in names.items() if key in scores}
        # A model without derivations scores no trees: its joint is the tokens' log-probability. So it is in
        # results of a model that scores no trees.
    if scores.get("ppl_word_joint") in (None, scores.get("ppl_word_given_trees")):
        found = {label: score for label, score in found.items() if not label.endswith(_JOINT)}
    return found


def bound(label: str, document: Document) -> str | None:
    """The bound that a marginal perplexity is, by its label or its name in results; None: it is exact."""
    settings = document["settings"]
    if not label.endswith(_MARGINAL):
        return None
    if "given_trees" in settings:
        return "upper bound by proposal trees"
    beam = settings.get("beam")
    return None if beam is None else f"upper bound at beam {beam}"


def _untested(label: str, a: Document, b: Document) -> str | None:
    """The reason why two perplexities cannot be compared, if any.

    Given the trees, a model does not pay for information in them, which differs between kinds of models.
    Joint perplexities can be compared if the trees are of one kind: attachments, or labelled constituents.
    """

    def differ(name: str) -> bool:
        of = {document["settings"].get(name) for document in (a, b)} - {None}
        return len(of) > 1

    if label.endswith(_GIVEN_TREES) and differ("model"):
        return "models of different kinds read different things off the trees"
    is_recorded = all("derivations" in document["settings"] for document in (a, b))
    if label.endswith(_JOINT) and differ("derivations" if is_recorded else "model"):
        return "the trees of these models are of different kinds"
    return None


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
        geometric=True,
        same={"text_sha256": "other sentences"},
        ignores_end=True,  # perplexities with it and without it have different names
        without_end=frozenset(WITHOUT_EOS.values()),
        concerned={"beam": _MARGINAL, "trees": _GIVEN_TREES},
        bound=bound,
        untested=_untested,
        card={name: PERPLEXITIES[name] for name in ("ppl_word_given_trees", "ppl_word_marginal")},
    ),
)
