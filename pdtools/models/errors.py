"""What may be wrong with a model's settings, or with how it is used."""

from __future__ import annotations

from pdtools.errors import PdtoolsError


class NoRoomError(PdtoolsError):
    """More tokens were fed to hypotheses than a state was started for."""


def bad_config(reason: str) -> PdtoolsError:
    """The error for settings that make no model."""
    return PdtoolsError(f"model configuration: {reason}")
