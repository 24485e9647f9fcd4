"""Options of a search, for each kind of derivation, and of what is read before a sentence. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import is_stream, sha256_file

# The paper's analyses use 300; most of the mass is in the first few dozen.
DEFAULT_BEAM = 100
# As wide as comparisons of sentences need (:mod:`pdtools.search.adaptive_beam`).
AUTO: Literal["auto"] = "auto"
ContextParses = Literal["best", "beam"]
DOCUMENT = "document"
# Positions, for models without a longest row.
_WINDOW = 1024
# The tokens hidden from a masked language model that scores one (:mod:`pdtools.search.families.masked`).
Pll = Literal["original", "within-word", "whole-word"]
# Settings in results of scores that need no search.
NOT_SEARCHED: Mapping[str, Any] = {"beam": None, "margin": None}


def beam_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The search settings that all kinds of models share."""
    return {name: settings[name] for name in NOT_SEARCHED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Particles:
    """Options of the estimate of log p(x); see :func:`pdtools.search.kinds.particle_search`.

    Attributes:
        number: number of particles of a string, at most; at least 1.
        seed: the seed of the draws.
    """

    number: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.number < 1:
            raise PdtoolsError(f"there must be at least 1 particle, not {self.number}")


@dataclass(frozen=True, slots=True)
class TreesFile:
    """A file of trees (:func:`pdtools.trees.read_proposals`), with the hash of its content."""

    path: str
    sha256: str

    @classmethod
    def of(cls, path: str | Path) -> TreesFile:
        """Identify a file with its present content.

        Raises:
            InputError: if it is missing, or cannot be read twice.
        """
        if is_stream(path):
            raise InputError("trees are given in a file, which is read more than once", file=path)
        try:
            return cls(str(path), sha256_file(path))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=path) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """Options of a search, for any kind of derivation.

    Attributes:
        beam: hypotheses that are kept after each token (action models: after each action); ``auto``: as
            many as comparisons of sentences need; None: no search, only given derivations are
            scored.
        margin: nats; hypotheses this much less probable than the best of their string after the same token
            are dropped too: a search that is sure of its attachments is many times faster. Action models'
            hypotheses that have not generated it are dropped only once they are behind the last one that
            the word beam would keep. None: none are.
        word_beam: hypotheses of action models kept after a token; None: a tenth of the beam.
        fast_track: further ones, among those that generated the token after an action; None: a twentieth of
            the beam.
        trees: proposal trees to sum over instead of a search.
        cky: for models that parse by TreeReg: the tree with the largest sum of scores, not the greedy one.
        max_batch: sentences per batch; None: as many as fit a fixed amount of memory. No score depends on it.

    Raises:
        PdtoolsError: if they cannot be combined.
    """

    beam: int | Literal["auto"] | None = DEFAULT_BEAM
    margin: float | None = None
    word_beam: int | None = None
    fast_track: int | None = None
    trees: TreesFile | None = None
    cky: bool = False
    max_batch: int | None = None

    def __post_init__(self) -> None:
        if self.trees is not None and self.given:
            raise PdtoolsError(f"with --trees there is no search: leave out {', '.join(self.given)}")
        if self.beam == AUTO:
            if self.margin is not None:
                raise PdtoolsError("--beam auto chooses margins itself: leave out --margin")
            if self.word_beam is not None or self.fast_track is not None:
                raise PdtoolsError(
                    "--beam auto is not for action models: leave out --search word_beam=…, fast_track=…"
                )
        elif self.beam is not None:
            words = self.width_of_words
            if min(self.beam, words) < 1:
                raise PdtoolsError(f"a beam must be at least 1, not {min(self.beam, words)}")
            if words > self.beam:
                raise PdtoolsError(f"a word beam of {words} is more than the action beam of {self.beam}")
            if self.fast_tracked < 0:
                raise PdtoolsError(f"fast-track must be at least 0, not {self.fast_tracked}")
        if self.margin is not None and not self.margin >= 0:
            raise PdtoolsError(f"the margin must be at least 0 nats, not {self.margin}")

    @property
    def given(self) -> list[str]:
        """Names of the search options that are not at their defaults, as commands call them."""
        is_given = {
            "--beam": self.beam not in (DEFAULT_BEAM, None),
            "--margin": self.margin is not None,
            "--search word_beam": self.word_beam is not None,
            "--search fast_track": self.fast_track is not None,
        }
        return [name for name, given in is_given.items() if given]

    def check_number(self) -> int | None:
        """The beam, which has to be a number or None.

        Raises:
            PdtoolsError: if it is ``auto``.
        """
        if isinstance(self.beam, str):
            raise PdtoolsError(
                "--beam auto works only for eval-blimp, eval-sg and eval-benchmark: give a number"
            )
        return self.beam

    def check_one_width(self) -> None:
        """Refuse further widths, for models of strings or attachments.

        Raises:
            PdtoolsError: if there are widths besides the beam.
        """
        if self.word_beam is not None or self.fast_track is not None:
            raise PdtoolsError("--search word_beam=… and fast_track=… are for action models: leave them out")

    @property
    def width(self) -> int:
        """The beam, for searches, which need one."""
        assert isinstance(self.beam, int), "made without a beam, to score given derivations"
        return self.beam

    @property
    def width_of_words(self) -> int:
        """The hypotheses of an action model that are kept after each token."""
        return max(1, self.width // 10) if self.word_beam is None else self.word_beam

    @property
    def fast_tracked(self) -> int:
        """The further hypotheses of an action model that are kept since they generated the token."""
        return self.width // 20 if self.fast_track is None else self.fast_track

    def described(self, *, has_widths: bool) -> dict[str, Any]:
        """The options of a search for the settings of results, with those of action models or without."""
        if self.beam is None:
            return {**NOT_SEARCHED}
        widths = {"word_beam": self.width_of_words, "fast_track": self.fast_tracked}
        return {"beam": self.beam, "margin": self.margin, **(widths if has_widths else {})}

    def for_job(self) -> dict[str, Any]:
        """The options that scores depend on, for :func:`pdtools.jobs.job_folder`."""
        described = asdict(self)
        del described["max_batch"]
        trees = described.pop("trees")
        return described if trees is None else {**described, "trees": trees["sha256"]}


DEFAULT_SEARCH = SearchOptions()
NO_SEARCH = SearchOptions(beam=None)
AUTO_SEARCH = SearchOptions(beam=AUTO)


@dataclass(frozen=True, kw_only=True)
class Context:
    """The text read before a sentence: as many whole sentences, the nearest ones, as fit a window with it.

    Attributes:
        of: ``document``: the sentences before it (:attr:`Sentence.before`); a file: the same ``sentences``
            before each; None: nothing.
        sentences: lines of running text, if the same ones are before each.
        parses: for models with trees: ``best``: only the best derivation of each sentence is kept for the
            next ones; ``beam``: as many as for any prefix, and the score of a sentence is the difference
            that it makes to the sum over all.
        window: positions of a row at most; None: the model's.
        stride: for models without trees: texts longer than a window are read in windows that move by
            this number of tokens; None: by half a window.
    """

    of: str | None = None
    sentences: tuple[str, ...] = ()
    parses: ContextParses = "best"
    window: int | None = None
    stride: int | None = None

    @property
    def is_asked_for(self) -> bool:
        """Return whether sentences are read other than each by itself."""
        return self.of is not None or self.stride is not None or self.window is not None

    def window_of(self, most: int | None) -> int | None:
        """The most positions of a row, for a model whose longest row has ``most``; None: no limit.

        Raises:
            PdtoolsError: if the model cannot read so many, or windows would skip tokens.
        """
        window = self.window or most or (_WINDOW if self.is_asked_for else None)
        if window is not None and most is not None and window > most:
            raise PdtoolsError(f"--window {window}: the model reads {most} positions at most")
        if window is not None and self.stride is not None and self.stride >= window:
            raise PdtoolsError(f"--stride {self.stride}: must be below the window's {window} positions")
        return window

    def stride_of(self, window: int | None) -> int:
        """The number of tokens by which a window of so many positions moves; without one any number."""
        return self.stride or max(1, (window or 0) // 2)

    def described(self, window: int | None, *, has_trees: bool) -> dict[str, Any]:
        """The context for the settings of results."""
        if not self.is_asked_for:
            return {}
        found = {"context": self.of, "context_parses": self.parses, "window": window, "stride": self.stride}
        omitted = {name for name in ("context", "context_parses", "stride") if found[name] is None}
        if self.of is None or not has_trees:
            omitted.add("context_parses")
        return {name: value for name, value in found.items() if name not in omitted}


NO_CONTEXT = Context()
