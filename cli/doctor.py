"""``pdtools doctor``: what is there on this machine."""

from __future__ import annotations

from .console import print_json
from .options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Report what pdtools finds on this machine, and what is slower or missing without the rest.

    It lists versions, compiler, threads, GPUs, cache and optional packages. Run it first when something is
    slow, and add its output to a report of a problem.

    \b
    Example:
      pdtools doctor --json
    """
    from dataclasses import asdict

    from pdtools.doctor import examine
    from pdtools.report.tables import print_table

    findings = list(examine())
    if as_json:
        print_json({"findings": [asdict(each) for each in findings]})
        return
    rows = [(each.what, each.found or f"none: {each.without}") for each in findings]
    print_table(["", "found"], rows)
