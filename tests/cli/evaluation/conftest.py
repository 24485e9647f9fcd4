"""Models that evaluations are of."""

from __future__ import annotations

from pathlib import Path

import pytest
from search_oracle import save_checkpoints


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints of a Pushdown LM, a base model and one with a head."""
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]
