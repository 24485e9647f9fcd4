"""Errors in a model's settings, or in its use."""

from __future__ import annotations

from pdtools.errors import PdtoolsError


class NoRoomError(PdtoolsError):
    """More tokens were fed to hypotheses than a state was started for."""


def bad_config(reason: str) -> PdtoolsError:
    """The error for invalid settings of a model."""
    return PdtoolsError(f"model configuration: {reason}")
