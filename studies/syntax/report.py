"""What the scripts of this study ask: the chosen rate, and the tables of the results.

python report.py rate SWEEP.json | table FOLDER | tapes FILE.json
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.tables import markdown_table
from pdtools.training import read_metrics

MODELS = {
    "base": "base LM",
    "base-head": "base LM + attachment loss",
    "pushdown": "Pushdown LM",
    "plm": "PLM",
    "plm-mask": "PLM-mask",
    "tg": "Transformer Grammar",
    "treereg": "base LM + TreeReg",
    "scaffold": "ScLM-next",
}
# Where each score is: the evaluation, its name there, the title, what it is multiplied by.
SCORES = {
    "sg": ("sg", "sg_31", "SG, 31 suites (%)", 100),
    "blimp": ("blimp", "overall", "BLiMP (%)", 100),
    "given": ("ppl", "ppl_word_given_trees", "perplexity per word, given trees", 1),
    "joint": ("ppl", "ppl_word_joint", "joint", 1),
    "marginal": ("ppl", "ppl_word_marginal", "marginal, at most", 1),
    "f1": ("parse", "f1", "unlabeled F1, binarized (%)", 1),
}


def rate(file: str) -> None:
    """Print the learning rate with the lowest validation loss; a run's name is its rate."""
    print(read_json(Path(file))[0]["name"])


def table(folder: str) -> None:
    """Write table.md and results.json."""
    found = collected(Path(folder))
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(markdown(found))
    print(markdown(found), end="")


def collected(folder: Path) -> dict[str, Any]:
    """The settings, and every run that was tested, with what it was trained on and its scores."""
    runs = [run_of(folder, results) for results in sorted(folder.glob("results/*-*"))]
    runs.sort(key=lambda run: (list(MODELS).index(run["model"]), run["seed"]))
    counts = read_json(folder / "shards" / "train" / "manifest.json")["counts"]
    return {
        "settings": (folder / "settings").read_text().strip(),
        "words": counts["words"],
        "sentences": counts["sentences"],
        "runs": runs,
    }


def run_of(folder: Path, results: Path) -> dict[str, Any]:
    """What a run was trained on, how far, and what it scores."""
    model, _, seed = results.name.rpartition("-")
    run = folder / "runs" / results.name
    last = read_metrics(run, "train")[-1]
    valid = min(read_metrics(run, "valid"), key=lambda record: record["loss"])
    scores = {}
    for score, (task, name, _, _) in SCORES.items():
        file = results / task / "results.json"
        if file.exists():
            scores[score] = read_json(file)["scores"].get(name)
    return {
        "model": model,
        "seed": int(seed),
        "rate": (folder / "rates" / model).read_text().strip(),
        "steps": last["step"],
        "tokens_read": last["tokens"],
        "best_step": valid["step"],
        "valid_loss": valid["loss"],
        "scores": scores,
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Means over seeds, with the deviation where there are several."""
    shown = [score for score in SCORES if any(run["scores"].get(score) is not None for run in found["runs"])]
    titles = ["model", "seeds", "rate", *(SCORES[score][2] for score in shown)]
    rows = [titles, ["---"] * len(titles)]
    groups = defaultdict(list)
    for run in found["runs"]:
        groups[run["model"]].append(run)
    for model, runs in groups.items():
        cells = [MODELS[model], str(len(runs)), runs[0]["rate"]]
        rows.append(cells + [over_seeds([run["scores"].get(s) for run in runs], SCORES[s][3]) for s in shown])
    return markdown_table(rows)


def over_seeds(values: Sequence[float | None], scale: float) -> str:
    """The mean ± the deviation."""
    there = [scale * value for value in values if value is not None]
    if not there:
        return ""
    return f"{mean(there):.1f}" + (f" ± {stdev(there):.1f}" if len(there) > 1 else "")


# --- tapes (tape_use.py) --------------------------------------------------------------------------

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


def tapes(file: str) -> None:
    """Print the tables of a file of tape_use.py."""
    found = read_json(Path(file))
    print("\n".join([tape_table(found), *(strata_table(found, name) for name in STRATA)]), end="")


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


PASSAGES = {"table": markdown, "tapes": tape_table, "strata": strata_table}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    try:
        {"rate": rate, "table": table, "tapes": tapes}[command](*arguments)
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
