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
# Settings in results of scores that need no search.
NOT_SEARCHED: Mapping[str, Any] = {"beam": None, "margin": None}


def beam_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The search settings of a scorer that all kinds share."""
    return {name: settings[name] for name in NOT_SEARCHED}


def _check_margin(margin: float | None) -> None:
    if margin is not None and not margin >= 0:
        raise PdtoolsError(f"the margin must be at least 0 nats, not {margin}")


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
class AttachmentBeam:
    """The kept hypotheses of attachments; see :func:`pdtools.search.beam_search`.

    Attributes:
        width: number of hypotheses after each token.
        margin: nats; hypotheses this much less probable than the best of their string after the same token
            are dropped too: a search that is sure of its attachments is many times faster. None: none are.
    """

    width: int
    margin: float | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise PdtoolsError(f"a beam must be at least 1, not {self.width}")
        _check_margin(self.margin)

    def as_settings(self) -> dict[str, Any]:
        """The settings for results."""
        return {"beam": self.width, "margin": self.margin}


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionBeam:
    """The kept hypotheses of actions; see :mod:`pdtools.search.families.word_synchronous`.

    Attributes:
        actions: number of hypotheses after an action.
        words: number after a token; at most as many.
        fast_track: further hypotheses kept among those that generated the token after an action.
        margin: nats; among hypotheses that generated a token, those this much less probable than the best of
            their string are dropped too. Others are dropped only once they are behind the last one that the
            word beam would keep. None: none are.
    """

    actions: int = 100
    words: int = 10
    fast_track: int = 5
    margin: float | None = None

    def __post_init__(self) -> None:
        for name in ("actions", "words"):
            if getattr(self, name) < 1:
                raise PdtoolsError(f"a beam must be at least 1, not {getattr(self, name)}")
        if self.words > self.actions:
            raise PdtoolsError(f"a word beam of {self.words} is more than the action beam of {self.actions}")
        if self.fast_track < 0:
            raise PdtoolsError(f"fast-track must be at least 0, not {self.fast_track}")
        _check_margin(self.margin)

    @classmethod
    def of(
        cls,
        actions: int,
        words: int | None = None,
        fast_track: int | None = None,
        margin: float | None = None,
    ) -> ActionBeam:
        """Make a beam; by default with a tenth of the actions for words, a twentieth for the fast track."""
        return cls(
            actions=actions,
            words=max(1, actions // 10) if words is None else words,
            fast_track=actions // 20 if fast_track is None else fast_track,
            margin=margin,
        )

    def as_settings(self) -> dict[str, Any]:
        """The settings for results."""
        names = {"actions": "beam", "words": "word_beam"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


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
        margin: nats; see :class:`AttachmentBeam` and :class:`ActionBeam`.
        word_beam, fast_track: further widths of action models; None: the defaults of :meth:`ActionBeam.of`.
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
            if self._has_widths:
                raise PdtoolsError(
                    "--beam auto is not for action models: leave out --search word_beam=…, fast_track=…"
                )
        elif self._has_widths:
            self.for_actions()  # refuses widths that no model can have

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

    @property
    def _has_widths(self) -> bool:
        return self.word_beam is not None or self.fast_track is not None

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
        if self._has_widths:
            raise PdtoolsError("--search word_beam=… and fast_track=… are for action models: leave them out")

    def for_attachments(self) -> AttachmentBeam | None:
        """The beam for attachments; None: there is no search.

        Raises:
            PdtoolsError: if there are widths besides the beam, or it is ``auto``.
        """
        self.check_one_width()
        beam = self.check_number()
        return None if beam is None else AttachmentBeam(beam, self.margin)

    def for_actions(self) -> ActionBeam | None:
        """The beam for actions; None: there is no search.

        Raises:
            PdtoolsError: if the word beam is wider than the beam, or this is ``auto``.
        """
        beam = self.check_number()
        return None if beam is None else ActionBeam.of(beam, self.word_beam, self.fast_track, self.margin)

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
