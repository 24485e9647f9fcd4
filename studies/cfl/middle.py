"""What a nondeterministic stack does with strings of unmarked reversal: before and behind the middle.

Usage: middle.py MODEL. Prints JSON: over some strings of one length, the shares of pushes and pops in the
heaviest run of the automaton, the distribution of the symbol on top by the last two tokens, and nats by
position.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pdtools.files import STDIO, write_json
from pdtools.formal import ContextFree, read_grammar, strings
from pdtools.inspection.recurrent import StackRunView, inspect_run
from pdtools.models import load_checkpoint
from pdtools.provenance import provenance

LENGTH, STRINGS, SEED = 60, 60, 5


def main(model: Path) -> None:
    """Read the strings and print what there is to say of all of them."""
    torch.set_num_threads(1)
    loaded = load_checkpoint(model)
    language = ContextFree(grammar=read_grammar("unmarked-reversal"), shortest=LENGTH, longest=LENGTH)
    drawn = strings(language, STRINGS, seed=SEED)
    views = [inspect_run(loaded, " ".join(string.tokens)) for string in drawn]
    settings = {"length": LENGTH, "strings": STRINGS, "seed": SEED}
    write_json(STDIO, {"scores": summary(views), "settings": settings, "provenance": provenance()})


def summary(views: list[StackRunView]) -> dict[str, Any]:
    """Means over strings of one length, 2m tokens each.

    Returns:
        ``pushes``: their share in the heaviest run's actions after tokens 1 to m. ``pops``: in those after
        tokens m + 1 to 2m - 1 (no reading follows the last). ``top``: after tokens 2 to m, by the last two of
        them. ``nats``: of every token and the end of the string.
    """
    middle = len(views[0].tokens) // 2
    tops = defaultdict(list)
    kinds = []
    for view in views:
        assert view.run is not None
        assert view.tops is not None
        kinds.append([kind for kind, _, _ in view.run])
        for pair, top in zip(pairwise(view.tokens[:middle]), view.tops[1:middle], strict=True):
            tops[" ".join(pair)].append(top)
    done = np.array(kinds)
    return {
        "pushes": float((done[:, :middle] == "push").mean()),
        "pops": float((done[:, middle:-1] == "pop").mean()),
        "top": {pair: np.mean(tops[pair], axis=0).round(3).tolist() for pair in sorted(tops)},
        "nats": (np.mean([view.surprisal for view in views], axis=0) * math.log(2)).round(3).tolist(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
