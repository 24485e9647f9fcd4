"""Tables of what tape_use.py found."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev
from typing import Any

from pdtools.report.tables import markdown_table

TAPES = {
    "gold": "gold",
    **{f"clamped-{depth}": f"gold, depths at most {depth}" for depth in (8, 4, 2, 1)},
    "beam": "beam: its best derivation",
    "incremental": "incremental: the beam's best hypothesis after each token",
    "marginal": "marginal: all of the beam's hypotheses",
    "shuffled": "shuffled: another sentence's gold tree",
    "random": "random",
    "right": "right-branching",
    "left": "left-branching",
    "absent": "absent",
    "base": "base LM",
}
STRATA = {
    "by_length": "tokens in the sentence",
    "by_depth": "deepest entry of the tape",
    "by_attachment_before": "attachment before",
}


def tape_table(found: Mapping[str, Any]) -> str:
    """Perplexity per token, and gains in nats, of all tokens and without ends of sentences."""
    head = ["tape", "perplexity per token", "gain over absent", "without ends of sentences"]
    head += ["gain over absent", "gain over base"]
    rows = [head, ["---"] * len(head)]
    for tape, title in TAPES.items():
        every, words = (found["scores"][which]["tapes"].get(tape) for which in ("all", "without_ends"))
        if every is not None:
            row = [title, f"{every['ppl_token']:.1f}", gain(every, "absent"), f"{words['ppl_token']:.1f}"]
            rows.append([*row, gain(words, "absent"), gain(words, "base")])
    return markdown_table(rows)


def tapes_over_seeds(*seeds: Mapping[str, Any]) -> str:
    """Means over seeds ± the deviation: the same sentences, each time by another model and base LM."""
    head = ["tape", "perplexity per token, without ends of sentences", "gain over absent", "gain over base"]
    rows = [head, ["---"] * len(head)]
    (_,) = {tuple(sorted(found["counts"].items())) for found in seeds}
    each = [found["scores"]["without_ends"]["tapes"] for found in seeds]
    for tape, title in TAPES.items():
        ppl, *gains = ([of[tape][key] for of in each] for key in ("ppl_token", "over_absent", "over_base"))
        cells = [f"{mean(ppl):.1f} ± {stdev(ppl):.1f}", *(f"{mean(g):+.2f} ± {stdev(g):.2f}" for g in gains)]
        rows.append([title, *cells])
    return markdown_table(rows)


def gain_in(stratum: str, tape: str, over: str, *seeds: Mapping[str, Any]) -> str:
    """In a sentence: what a tape gains over another, nats a token, the mean over seeds ± the deviation.

    Args:
        stratum: ``without_ends``, or ``by_length``, … and a kind of token, joined by a slash (blanks: _).
    """
    group, _, kind = stratum.partition("/")
    of_each = [found["scores"][group] for found in seeds]
    cells = [(of[kind.replace("_", " ")] if kind else of)["tapes"][tape] for of in of_each]
    gains = [cell[f"over_{over}"] for cell in cells]
    return f"{mean(gains):+.2f} ± {stdev(gains):.2f}"


def strata_table(found: Mapping[str, Any], name: str) -> str:
    """Perplexities of tokens of one kind in a row, and gains in nats."""
    strata = found["scores"][name]
    known = [tape for tape in TAPES if tape in next(iter(strata.values()))["tapes"]]
    head = [STRATA[name], "tokens", "attachments right (%)", *known]
    head += ["gold over absent", "gold over base", "marginal over base"]
    rows = [head, ["---"] * len(head)]
    for kind, each in strata.items():
        accuracy, tapes = each["attachment_accuracy"], each["tapes"]
        cells = [kind, f"{each['tokens']:,}", "" if accuracy is None else f"{100 * accuracy:.1f}"]
        cells += [f"{tapes[tape]['ppl_token']:.1f}" for tape in known]
        cells += [gain(tapes["gold"], "absent"), gain(tapes["gold"], "base"), gain(tapes["marginal"], "base")]
        rows.append(cells)
    return markdown_table(rows)


def gain(cell: Mapping[str, Any], over: str) -> str:
    """What a tape gains over another, with its interval; nothing if that was not read."""
    if f"over_{over}" not in cell:
        return ""
    low, high = cell[f"over_{over}_interval"]
    return f"{cell[f'over_{over}']:+.2f} [{low:.2f}, {high:.2f}]"
