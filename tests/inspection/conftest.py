"""Models to look into."""

from __future__ import annotations

import pytest
from toy_models import toy_models

from pdtools.models import LoadedModel


@pytest.fixture(scope="session")
def models() -> dict[str, LoadedModel]:
    """Tiny ones, by kind."""
    return toy_models()
