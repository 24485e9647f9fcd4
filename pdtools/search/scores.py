"""Scores of sentences: a log-probability for every token, or the reason why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, Union

from pdtools.errors import PdtoolsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.tokenization import Sentence

Found = TypeVar("Found")
NO_NUMBERS = "the model gives probabilities that are not numbers: its weights are damaged"
# Types to which weights may be converted for scoring; scores are summed in float64 either way.
Dtype = Literal["float32", "bf16"]
# Measures besides log-probabilities (:attr:`SentenceScore.measures`): the entropies of next
# tokens, the ranks of the actual ones, corrections of words for the spaces before them, and a search's
# values of the structure.
Measure = Literal["entropy", "rank", "spaces", "structure"]


# <unk>, [UNK], UNK, and the classes of rare words that parsers use, such as UNK-LC-ing.
_UNKNOWN = re.compile(r"(?i)[<\[]?unk(nown)?([-_]\w+)*[>\]]?")


def is_unknown(token: str) -> bool:
    """Return whether a token replaces an unknown word."""
    return _UNKNOWN.fullmatch(token) is not None


def is_pseudo(settings: Mapping[str, Any]) -> bool:
    """Return whether settings are of pseudo-log-likelihoods; those of several models, whether all are."""
    models = settings.get("models")
    of_models = [*models.values()] if isinstance(models, dict) and models else [settings]
    return all(each.get("kind") == "masked" for each in of_models)


def marked(name: str, *, pseudo: bool) -> str:
    """The name of a model in tables: it says whether the scores are pseudo-log-likelihoods."""
    return f"{name} (pseudo)" if pseudo and not name.endswith("(pseudo)") else name


def asks_for_distributions(measures: Collection[Measure]) -> bool:
    """Return whether any of the measures summarizes next-token distributions."""
    return not {"entropy", "spaces"}.isdisjoint(measures)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A beginning of a sentence: its tokens, at least one, that begin before some character.

    Nothing else is scored, and no end-of-sentence.
    """

    sentence: str | Sentence
    end: int


Asked = Union[str, "Sentence", Beginning]
"""A sentence to be scored: running text, words already split, or a beginning."""


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The tokens of one sentence and their log-probabilities.

    Attributes:
        text: the text that the offsets refer to (after conversion to the model's text style).
        tokens: the m scored rows: the tokens of the sentence, then end-of-sentence if it is counted.
        words: for each row, the word of the sentence that the token belongs to; −1 for end-of-sentence.
        starts: for each row, the first character of the token in ``text``, without the space before it.
        ends: one past the last character; end-of-sentence starts and ends at ``len(text)``.
        logprobs: natural log-probabilities, float64[m]: log p(x_t | x_<t) = A_t − A_{t−1} (the negative
            surprisal in nats). They sum to log p(x).
        n_unknown: number of tokens replaced by ``<unk>``.
        eos: whether the last row is end-of-sentence.
        first_token: number of the first row's token in the sentence: 1, or 2 if nothing comes before
            the first token and it has no score (Hugging Face models without BOS).
        dropped: the share of p(x) that a search is estimated to have dropped
            (:attr:`pdtools.search.BeamResult.dropped`); None without a search.
        seen: for each row, number of tokens read before it (in the sentence, its context, or the window
            of a long text; ROOT and BOS at the start of these do not count); None: all of the
            sentence.
        measures: the requested measures (:data:`Measure`) that the model has, float64[m] each. ``entropy``:
            of the distribution before the row's token, nats. ``rank``: the token's rank in it, from 1.
            ``begins``: log probability, nats, that the row's place has a token that begins a word, or ends
            the sentence; 0 if the row's own does not. ``ends``: the same for the place after the row.
            ``attachment``: expected surprisal of the token's attachment given the token, nats, and
            ``closed``: expected number of constituents that it closes, both over the hypotheses after it; 0
            for end-of-sentence.

    Raises:
        PdtoolsError: if a log-probability is NaN, as with damaged weights.
    """

    text: str
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    logprobs: NDArray[np.float64]
    n_unknown: int
    eos: bool
    first_token: int = 1
    dropped: float | None = None
    seen: tuple[int, ...] | None = None
    measures: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if math.isnan(self.total):
            raise PdtoolsError(NO_NUMBERS)

    @property
    def total(self) -> float:
        """The log-probability log p(x) in nats: over all counted rows."""
        return float(self.logprobs.sum())


@dataclass(frozen=True, slots=True)
class Unscorable:
    """A sentence without a score, and the reason (unknown words, too long for the model, no words)."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextTokens:
    """A model's next-token distributions at every place of a sentence.

    Attributes:
        score: the sentence's score, m rows.
        ids: int32 (m,), the tokens of the rows.
        logprobs: float64 (m, V), nats: entry t is log p(v | x_<t) of every token v; the value for ids[t] is
            the score's. With a beam it is A_t(v) − A_{t−1}, and sums to 1 minus the share dropped before.
        after: float64 (V,), the distribution after the last row; None at the end of a sentence.
    """

    score: SentenceScore
    ids: NDArray[np.int32]
    logprobs: NDArray[np.float64]
    after: NDArray[np.float64] | None


def increments(prefix_logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences A_t − A_{t−1} of log-probabilities A_0, …, nats; -inf once they are -inf."""
    import numpy as np

    before, after = prefix_logprobs[:-1], prefix_logprobs[1:]
    nothing = np.full(len(after), -np.inf)
    found: NDArray[np.float64] = np.subtract(after, before, out=nothing, where=before > -np.inf)
    return found


@dataclass(frozen=True, slots=True)
class PrefixScores:
    """Sums over the derivations of a string of n tokens.

    Attributes:
        prefix_logprobs: float64[n + 2], nats. Entry t is A_t = log p of the first t tokens; A_0 = 0, and the
            last is the whole string's, with its end.
    """

    prefix_logprobs: NDArray[np.float64]

    @property
    def marginal(self) -> float:
        """The marginal log p(x) in nats."""
        return float(self.prefix_logprobs[-1])

    @property
    def logprobs(self) -> NDArray[np.float64]:
        """Differences A_t − A_{t−1} for tokens and the end: float64[n + 1], nats; -inf once A_{t−1} is."""
        return increments(self.prefix_logprobs)


@dataclass(frozen=True, slots=True)
class BeamStep(Generic[Found]):
    """The beam after a token, with the K best of its hypotheses, best first.

    Attributes:
        kept: number of hypotheses in it.
        total: log Σ of their joint probabilities, nats.
        joints: float64[K], nats.
        parents: int64[K], the rank of the hypothesis that each extends, among all kept after the token
            before.
        derivations: each one's: attachments int32[k + 1], or actions.
        token_logprobs: float64[K], nats: log p of the token alone; None for action models.
        attachment: float64[k + 1], the probability that the token attaches to each position, over all
            extensions before any was dropped; None for action models.
    """

    kept: int
    total: float
    joints: NDArray[np.float64]
    parents: NDArray[np.int64]
    derivations: tuple[Found, ...]
    token_logprobs: NDArray[np.float64] | None = None
    attachment: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class SearchResult(PrefixScores, Generic[Found]):
    """The result of the search for the derivations of one string of n tokens.

    Attributes:
        derivations: the best ones, best first, with their log joints, nats.
        incremental: the best hypothesis after each token, from ROOT or the first token on; then the best
            derivation.
        log_share_kept: the log of the estimated share of p(x) that the search kept, nats: 0 if nothing was
            ever dropped.
        steps: if requested, the beam after each token, and after end-of-sentence.
        next_logprobs: float64 (n + 1, vocabulary), nats, if requested: at t from 0 to n, log Σ over the beam
            of the joint probability of the first t tokens, their derivation, and each token that may follow.
    """

    derivations: tuple[tuple[float, Found], ...]
    incremental: tuple[Found, ...]
    log_share_kept: float
    steps: tuple[BeamStep[Found], ...] = ()
    next_logprobs: NDArray[np.float64] | None = None

    @property
    def dropped(self) -> float:
        """The share of p(x) that the search dropped, assuming that it fared like the kept part."""
        return 0.0 - math.expm1(min(self.log_share_kept, 0.0))  # neither -0 nor, by rounding, less

    @property
    def conditional_next_logprobs(self) -> NDArray[np.float64]:
        """Next-token log-probabilities after every token, float64 (n + 1, vocabulary), nats, if requested.

        They are A_{t+1} − A_t, had a token followed the first t; they sum to 1 minus the share dropped after
        token t. They are -inf once A_t is.
        """
        import numpy as np

        assert self.next_logprobs is not None
        before = self.prefix_logprobs[:-1, None]
        nothing = np.full_like(self.next_logprobs, -np.inf)
        found: NDArray[np.float64] = np.subtract(
            self.next_logprobs, before, out=nothing, where=before > -np.inf
        )
        return found


def nothing_found(max_length: int | None) -> str:
    """The reason why a sentence for which a search found no derivation has no score."""
    room = "" if max_length is None else f" and room in the model's {max_length} positions"
    return (
        f"no tree found: none in the beam has a probability above 0{room}"
        " (a larger --beam, or --search fast_track=…, may keep one)"
    )


class GivenRow(NamedTuple):
    """A row of shards, with its derivation.

    Attributes:
        tokens, word: int32 (n + 2), see :mod:`pdtools.shards.format`.
        derivation: in the model's form (:meth:`pdtools.models.LanguageModel.derivation_of`).
    """

    tokens: NDArray[np.int32]
    derivation: Any
    word: NDArray[np.int32]


class RowScore(NamedTuple):
    """The scores of a row of shards, in nats; None if not computed or undefined.

    Attributes:
        given_tree: Σ log p of the tokens and end-of-sentence, given the derivation.
        joint: log p(x, y), including the derivation.
        marginal: log p(x); by beam search a lower bound.
        end_given_tree, end_marginal: the part of ends of sentences in ``given_tree``, and in ``marginal``.
        particles, end_particles: an estimate of log p(x) that needs no beam
            (:mod:`pdtools.search.particles`), and the part of ends of sentences in it.
        counts, arcs: GiLT's parts of ``joint``: log p of the numbers of arcs, and of the arcs given these.
    """

    given_tree: float
    joint: float | None
    marginal: float | None
    end_given_tree: float
    end_marginal: float
    particles: float | None = None
    end_particles: float = 0.0
    counts: float | None = None
    arcs: float | None = None


@dataclass(frozen=True, slots=True)
class Continuation:
    """The next-token distribution after a prefix of n tokens.

    Attributes:
        logprobs: float64 (V,), log p(v | prefix) of every token v, nats.
        best: int32 (n + 1), the attachments of the best hypothesis; None without a search for them.
    """

    logprobs: NDArray[np.float64]
    best: NDArray[np.int32] | None
