"""Tables of what marginal.py found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdtools.report.tables import listed, markdown_table


def searches_table(found: Mapping[str, Any]) -> str:
    """Perplexity per token by beams, and by particles with each seed; what the search says that it lacks."""
    rows = [
        [
            "search",
            "perplexity per token",
            "share of p(x) dropped, own estimate (%)",
            "lacking in log p(x), own estimate (nats a token)",
            "seconds",
        ],
        ["---"] * 5,
    ]
    for search in found["scores"]["searches"]:
        beam = search["search"] == "beam"
        ppl = [search["ppl_token"]] if beam else search["ppl_token"]
        # Half the variance: about what the log of an unbiased estimate of p(x) lacks; None: of one seed.
        missed = search["nats_dropped_per_token"] if beam else search["half_variance_per_token"]
        name = f"beam {search['number']:,}" if beam else f"{search['number']:,} particles"
        cells = [
            listed([f"{each:.1f}" for each in ppl]),
            f"{100 * search['mean_share_dropped']:.0f}" if beam else "",
            "" if missed is None else f"{abs(missed):.3f}",
        ]
        rows.append([name, *cells, f"{search['seconds']:,.0f}"])
    return markdown_table(rows)
