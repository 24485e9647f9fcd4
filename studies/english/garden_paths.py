"""The six garden-path suites of SG under models: what an ambiguity costs at the word that ends it, in bits.

python garden_paths.py NAME=RESULTS [NAME=RESULTS ...] -o garden-paths.csv

RESULTS are folders of ``pdtools eval-sg``. For each suite and model there are rows for the four conditions,
for the effect (ambiguous, less the same words with what makes them plain) and for the interaction (that
effect, less the effect of the same with a verb that leaves no ambiguity; Futrell et al. 2019), with intervals
of the bootstrap over items.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from pdtools.evaluation.bootstrap import interval

SAMPLES = 10_000
# A garden path, its control, and both with a verb that leaves no ambiguity.
_RELATIVE = ("reduced_ambig", "unreduced_ambig", "reduced_unambig", "unreduced_unambig")
_TRANSITIVE = ("ambig_nocomma", "ambig_comma", "unambig_nocomma", "unambig_comma")
_OBJECT = ("no-obj_no-comma", "no-obj_comma", "obj_no-comma", "obj_comma")
CONDITIONS = {"mvrr": _RELATIVE, "npz_ambig": _TRANSITIVE, "npz_obj": _OBJECT}
_EFFECT, _INTERACTION = (1, -1, 0, 0), (1, -1, -1, 1)


def rows(model: str, regions: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Of each suite six rows: conditions, effect and interaction.

    Args:
        model: its name.
        regions: ``strings.parquet`` of results.
    """
    for suite in (name + kind for name in CONDITIONS for kind in ("", "_mod")):
        conditions = CONDITIONS[suite.removesuffix("_mod")]
        critical = 6 if suite.endswith("_mod") else 5
        chosen = regions[(regions.suite == suite) & (regions.region == critical)]
        bits = chosen.pivot(index="item", columns="string", values="bits")[[*conditions]].to_numpy()
        if np.isnan(bits).any():
            raise SystemExit(f"{model}: items of {suite} without a surprisal")
        weighed = dict(zip(conditions, np.eye(4), strict=True))
        weighed |= {"effect": np.array(_EFFECT), "interaction": np.array(_INTERACTION)}
        for name, weights in weighed.items():
            values = bits @ weights
            draws = np.random.default_rng(0).integers(0, len(values), (SAMPLES, len(values)))
            low, high = interval(values[draws].mean(1))
            yield {
                "suite": suite,
                "model": model,
                "of": name,
                "items": len(values),
                "bits": round(float(values.mean()), 3),
                "low": round(low, 3),
                "high": round(high, 3),
            }


def main() -> None:
    """Read the results, write the table."""
    given = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    given.add_argument("results", nargs="+", metavar="NAME=RESULTS")
    given.add_argument("-o", "--output", required=True, help="a CSV")
    options = given.parse_args()
    found: list[dict[str, object]] = []
    for each in options.results:
        model, _, folder = each.partition("=")
        found += rows(model, pd.read_parquet(Path(folder) / "strings.parquet"))
    pd.DataFrame(found).to_csv(options.output, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
