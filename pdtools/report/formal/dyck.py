"""Tables of closing brackets."""

from __future__ import annotations

from pdtools.evaluation.results import Results
from pdtools.report.tables import Cell, percent, print_note, print_table


def print_closing(results: Results) -> None:
    """Print closing accuracy by set, length, depth, open brackets; and the distance from the automaton."""
    titles = {"by_set": "set", "by_dependency": "dependency", "by_depth": "depth", "by_open": "open brackets"}
    for kind, title in titles.items():
        rows: list[tuple[Cell, ...]] = [
            (
                name,
                each["prefixes"],
                percent(each["accuracy"]),
                f"[{100 * each['low']:.1f}, {100 * each['high']:.1f}]",
                percent(each["accuracy_given_attachments"]),
                percent(each["attachment_accuracy"]),
                percent(each["lost_by_beam"]),
            )
            for name, each in results.scores[kind].items()
        ]
        columns = [title, "prefixes", "right", "95%", "given", "attached", "lost"]
        print_table(columns, rows, title=f"Closing brackets by {title} (percent)")
        print()
    print_note(
        "given: right if the attachments are given; attached: closers attached right; lost: by the beam"
    )
    print()
    if "entropy" in results.scores:
        entropy: list[tuple[Cell, ...]] = list(results.scores["entropy"].items())
        print_table(["nats a token", "value"], entropy, title="Against the automaton", digits=4)
