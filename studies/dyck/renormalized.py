"""A copy of a run's best checkpoint whose attachments are normalised otherwise.

Usage: renormalized.py RUN NORMALIZE FOLDER (NORMALIZE: a value of config.normalize)
"""

from __future__ import annotations

import sys
from pathlib import Path

from pdtools.models import build_model, load_checkpoint, make_config, save_checkpoint


def main(run: str, normalize: str, folder: str) -> None:
    """Write the copy, unless it is there."""
    if Path(folder).exists():
        return
    loaded = load_checkpoint(run, "cpu")
    name = loaded.config["model"]
    model = build_model(name, make_config(name, loaded.config["config"] | {"normalize": normalize}))
    model.load_state_dict(loaded.model.state_dict())
    save_checkpoint(
        folder, model, loaded.tokenizer, shards=loaded.config["shards"], step=loaded.trained.get("step")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
