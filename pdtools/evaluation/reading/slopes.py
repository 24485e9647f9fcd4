"""Milliseconds a bit, fitted to a corpus of reading times, for stimuli that nobody has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.record import COUNT, NUMBER, OBJECT, STRINGS
from pdtools.evaluation.results import RESULTS, check_values, read_document
from pdtools.provenance.origin import identify

if TYPE_CHECKING:
    from pdtools.search.model import ModelSettings


@dataclass(frozen=True)
class Slope:
    """Milliseconds a bit of a model's surprisal, fitted to a corpus of reading times.

    It is the sum of the regression's slopes of a word and of the words before it: the time that a bit takes
    at its word and at the words after it.

    Attributes:
        value, low, high: the sum and its 95% interval for other items and subjects
            (:func:`pdtools.evaluation.reading.regression.for_new`), which has the slopes' covariances.
        words: number of words before a word in the regression.
        beside: the regression's other predictors.
        settings: the model's settings in the regression.
    """

    value: float
    low: float
    high: float
    words: int
    beside: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def said(self) -> str:
        """The slope in a line, for people."""
        place = "at it" if not self.words else f"at it and at the {self.words} words after it together"
        beside = f", beside {', '.join(self.beside)}" if self.beside else ""
        return f"{self.value:.3g} ms a bit (95% {self.low:.3g} to {self.high:.3g}) {place}{beside}"

    def differences(self, settings: Mapping[str, Any]) -> list[str]:
        """The settings in which a model differs from that of the regression, each in words."""
        return [
            f"{name} {self.settings.get(name)} there, {value} here"
            for name, value in settings.items()
            if self.settings.get(name) != value
        ]


_ENDS = ("value", "low", "high")
_MAY_BE_MISSING = "scores.by_model.*."
_OF_SLOPES = {
    "scores.by_model": OBJECT,
    **{f"{_MAY_BE_MISSING}coefficients.surprisal.sum.for_new.{each}": NUMBER for each in _ENDS},
    "settings.spillover": COUNT,
    "settings.baseline": STRINGS,
    "settings.models": OBJECT,
    "settings.models.*": OBJECT,
    "settings.models.*.predictors": STRINGS,
}

_FITTED = "--slopes: the folder after -o of pdtools eval-reading, with the same --model"


def read_slopes(folder: str | Path, models: Mapping[str, ModelSettings]) -> dict[str, Slope]:
    """Slopes of models, from results of ``pdtools eval-reading``.

    A model is known by its weights; if it is there with several beams, the same beam comes first.

    Args:
        folder: the results.
        models: models by their names.

    Raises:
        InputError: if these are no such results, or have no slope of the surprisal of one of the models.
    """
    document = read_document(folder)
    file = Path(folder) / RESULTS
    if document["settings"]["task"] != "reading":
        raise InputError("no slopes: results of another evaluation", file=file, hint=_FITTED)
    check_values(document, _OF_SLOPES, file, optional=_MAY_BE_MISSING)
    by_model, settings = document["scores"]["by_model"], document["settings"]
    found = {}
    for name, model in models.items():
        weights = identify(model.model_dir).get("sha256")
        same = [
            (there.get("beam") != model.search.beam, label)
            for label, there in settings["models"].items()
            if label in by_model and there.get("sha256") == weights
        ]
        if not same:
            reason = f"no slope of {name}: it is none of its models ({', '.join(by_model)})"
            raise InputError(reason, file=file, hint=_FITTED)
        own = settings["models"][min(same)[1]]
        estimate = by_model[min(same)[1]].get("coefficients", {}).get("surprisal", {}).get("sum", {})
        if "for_new" not in estimate:
            reason = f"no slope of surprisal of {name}, only of {', '.join(own['predictors'])}"
            raise InputError(reason, file=file, hint=_FITTED)
        value, low, high = (float(estimate["for_new"][each]) for each in _ENDS)
        found[name] = Slope(
            value,
            low,
            high,
            words=settings["spillover"],
            beside=(*settings["baseline"], *(each for each in own["predictors"] if each != "surprisal")),
            settings=own,
        )
    return found
