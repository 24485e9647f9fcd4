"""The settings of each model with the lowest marginal perplexity among the tries of a tuning.

python chosen.py TUNING

TUNING holds a folder MODEL_RATE_OTHER for each try, with ``ppl``. Prints a line ``MODEL RATE OTHER`` for each
model on standard output, and every try with its perplexity on standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pdtools.evaluation.results import read_document


def main() -> None:
    """Print the choice."""
    tries: dict[str, list[tuple[float, str]]] = {}
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        scores = read_document(folder / "ppl")["scores"]
        perplexity = scores.get("ppl_word_particles", scores.get("ppl_word_marginal"))
        model, _, settings = folder.name.partition("_")
        tries.setdefault(model, []).append((perplexity, settings.replace("_", " ")))
    for model, tried in sorted(tries.items()):
        for perplexity, settings in sorted(tried):
            print(f"{model} {settings}: {perplexity:.2f}", file=sys.stderr)
        print(model, min(tried)[1])


if __name__ == "__main__":
    main()
