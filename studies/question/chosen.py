"""The settings of each model with the lowest marginal perplexity among the tries of a tuning.

python chosen.py TUNING TRIED

TUNING holds a folder MODEL_RATE_OTHER for each try, with ``ppl``. TRIED, which need not be there, has a line
``MODEL RATE OTHER: PERPLEXITY`` for each try that ended elsewhere. Prints a line ``MODEL RATE OTHER``
for each model on standard output, and all tries, in the form of TRIED, on standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pdtools.evaluation.results import read_document


def main() -> None:
    """Print the choice."""
    tries: dict[str, float] = {}
    if (tried := Path(sys.argv[2])).exists():
        for line in tried.read_text("utf-8").splitlines():
            settings, perplexity = line.split(": ")
            tries[settings] = float(perplexity)
    for folder in Path(sys.argv[1]).glob("*/ppl/results.json"):
        scores = read_document(folder.parent)["scores"]
        found = scores.get("ppl_word_particles", scores.get("ppl_word_marginal"))
        tries[folder.parent.parent.name.replace("_", " ")] = found
    for settings in sorted(tries, key=lambda each: (each.split()[0], tries[each])):
        print(f"{settings}: {tries[settings]:.4f}", file=sys.stderr)
    for model in sorted({settings.split()[0] for settings in tries}):
        print(min((s for s in tries if s.split()[0] == model), key=tries.__getitem__))


if __name__ == "__main__":
    main()
