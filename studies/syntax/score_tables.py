"""Tables of scores, differences, attention and runs, from what gather.py found; passages for sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev

from gather import BASELINE, SCORES, Document, order, title_of

from pdtools.evaluation.comparison.statistics import Spread, holm
from pdtools.evaluation.perplexity.record import PERPLEXITIES
from pdtools.report.tables import listed, markdown_table

SIGNIFICANT = 0.05
# SG by other conventions, which are in a table of their own.
CONVENTIONS = {
    "sg": "mean of 31 suites",
    "sg_33": "mean of 33 suites",
    "sg_circuits": "mean of circuits",
    "sg_items": "mean of items",
}
# Murty et al. (2023), tables 2 and 4. ‡: of prior work, "not comparable due to differences in tokenization".
PAPER = {
    "base": {"sg": "69.5", "blimp": "70.1", "marginal": "20.1"},
    "pushdown": {"sg": "82.3", "blimp": "75.6", "marginal": "19.9", "f1": "95.3 (PTB), 97.3 (BLLIP-LG)"},
    "plm": {"sg": "80.2", "blimp": "75.1", "marginal": "29.8 ‡"},
    "plm-mask": {"sg": "78.3", "blimp": "75.3", "marginal": "49.1 ‡"},
    "tg": {"sg": "82.5", "marginal": "30.3 ‡"},
    "benepar": {"f1": "94.7 (PTB)"},
}
# Figure 5: in which region of a suite the distractor is.
DISTRACTORS = {"number_orc": "embed_np", "number_prep": "prep_np", "number_src": "embed_np"}


def markdown(found: Document) -> str:
    """All tables, each under what it is."""
    over_runs = "means ± standard deviations over seeds"
    shown = "means [95% intervals]"
    tested = f"differences [95% intervals] (p, corrected by Holm), bold where p < {SIGNIFICANT}"
    parts = {
        f"Scores: {over_runs} (‡: of other tokens, not comparable)": scores_table(found),
        f"Each model less the base LM: {tested}": differences_table(found),
        f"SG by circuit: {shown}; of the whole {over_runs}": level_table(found, "circuit"),
        f"SG by circuit, less the base LM: {tested}": differences_table(found, "circuit"),
        f"BLiMP by phenomenon: {shown}": level_table(found, "phenomenon"),
        f"BLiMP by phenomenon, less the base LM: {tested}": differences_table(found, "phenomenon"),
        f"Attention to the distractor before the verb (%): {shown}": distractor_table(found),
        f"Attention before the verb of number_src (%): {shown}": regions_table(found),
        "Rates tried": rates_table(found),
        "Runs": runs_table(found),
        "Missing": missing_list(found),
        "Of the comparison": notes_list(found),
    }
    return "\n".join(f"{title}:\n\n{text}" for title, text in parts.items() if text)


def by_model(found: Document) -> dict[str, list[Document]]:
    """The runs that were tested, by model."""
    groups: dict[str, list[Document]] = {}
    for run in found["runs"]:
        if run["evaluations"]:
            groups.setdefault(run["model"], []).append(run)
    return groups


def scores_table(found: Document, whose: str = "all") -> str:
    """Tables 2 and 4: the paper's row before ours, or only ``ours``; means over seeds ± the deviation."""
    groups, paper = by_model(found), PAPER if whose == "all" else {}
    shown = [score for score in SCORES if any(run["scores"].get(score) is not None for run in found["runs"])]
    titles = ["model", "seeds", *(SCORES[score][2] for score in shown), "rate", "steps", "hours a run"]
    rows = [titles, ["---"] * len(titles)]
    for model in sorted({*groups, *paper}, key=order):
        papers = [paper.get(model, {}).get(score, "") for score in shown]
        if any(papers):
            rows.append([f"paper: {title_of(model)}", "", *papers, "", "", ""])
        if runs := groups.get(model):
            cells = [over_seeds([run["scores"].get(s) for run in runs], SCORES[s][3]) for s in shown]
            made = [alike(run["rate"] for run in runs), alike(run["steps"] for run in runs)]
            seconds = [run["seconds"] for run in runs if run["seconds"] is not None]
            hours = f"{mean(seconds) / 3600:.2f}" if seconds else ""
            rows.append([title_of(model), str(len(runs)), *cells, *made, hours])
    return markdown_table(rows)


def alike(values: Iterable[object]) -> str:
    """Each of the values that differ, once."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))


def over_seeds(values: Sequence[float | None], scale: float) -> str:
    """The mean ± the deviation, and of how many seeds it is where some have none."""
    there = [scale * value for value in values if value is not None]
    if not there:
        return ""
    spread = f" ± {stdev(there):.1f}" if len(there) > 1 else ""
    return f"{mean(there):.1f}{spread}" + (
        "" if len(there) == len(values) else f" ({len(there)} of {len(values)} seeds)"
    )


def differences_table(found: Document, level: str = "overall") -> str:
    """Each model less the base LM: differences with intervals and corrected p, bold below .05."""
    scores = [score for score in at_level(found, level) if score["pairs"]]
    models = sorted({pair["b"] for score in scores for pair in score["pairs"]}, key=order)
    rows = [["less the base LM", *map(title_of, models)], ["---"] * (1 + len(models))]
    for score in scores:
        pairs = {pair["b"]: pair for pair in score["pairs"]}
        name = score["name"].replace("_", " ") or score["score"]
        rows.append([name, *(difference_of(pairs.get(model)) for model in models)])
    return markdown_table(rows) if scores else ""


def difference_of(pair: Document | None) -> str:
    """A difference, its interval (over seeds and items if there are several seeds), its corrected p."""
    if pair is None:
        return ""
    bounds, p = pair["over_seeds"] or pair["over_items"] or (), pair["p_holm"]
    text = with_interval(pair["difference"], *bounds, sign="+")
    if p is None:
        return text
    return f"**{text}** ({p:.2g})" if p < SIGNIFICANT else f"{text} ({p:.2g})"


def score_of(found: Document, model: str, score: str) -> str:
    """A model's score in a sentence: the mean over seeds ± the deviation."""
    return over_seeds([run["scores"].get(score) for run in by_model(found)[model]], SCORES[score][3])


def loss_of(found: Document, model: str) -> str:
    """A model's lowest validation loss in a sentence: the mean over seeds ± the deviation."""
    losses = [run["valid_loss"] for run in found["runs"] if run["model"] == model]
    return f"{mean(losses):.3f}" + (f" ± {stdev(losses):.3f}" if len(losses) > 1 else "")


def difference_in(found: Document, model: str, score: str) -> str:
    """A model's overall score less the base LM's, in a sentence."""
    return difference_of(pair_of(found, model, score))


def points_in(found: Document, model: str, score: str) -> str:
    """A model's gain in points over the base LM as a phrase, for pages of results."""
    pair = pair_of(found, model, score)
    low, high = pair["over_seeds"] or pair["over_items"]
    return f"{pair['difference']:.1f} points (95% interval {low:.1f} to {high:.1f}; p = {pair['p_holm']:.2g})"


def pair_of(found: Document, model: str, score: str) -> Document:
    """The comparison of a model's overall score with the base LM's."""
    task, name, *_ = SCORES[score]
    (pair,) = (
        pair
        for each in at_level(found, "overall")
        if each["evaluation"] == task and (task != "ppl" or each["score"] == PERPLEXITIES[name])
        for pair in each["pairs"]
        if pair["b"] == model
    )
    return pair


def particles_in(found: Document, model: str) -> str:
    """How much higher a model's perplexity by particles is than the base LM's, in percent, in a sentence.

    Welch's t of their logarithms over seeds, all on the same sentences; the p is of this one test.
    """
    ours, base = log_perplexities(found, model)
    difference, spread = mean(ours) - mean(base), Spread.of(0.0, ours, base)
    if min(len(ours), len(base)) < 2:
        return f"{100 * math.expm1(difference):+.1f}%"
    shown = [100 * math.expm1(each) for each in (difference, *spread.interval(difference))]
    return f"{with_interval(*shown, sign='+')}% ({spread.p(difference):.2g})"


def log_perplexities(found: Document, model: str) -> tuple[list[float], list[float]]:
    """Nats a word of a model's runs by particles, and of the base LM's, exact."""
    runs = by_model(found)
    ours, base = (
        [math.log(ppl) for run in runs[name] if (ppl := run["scores"].get(score)) is not None]
        for name, score in ((model, "particles"), (BASELINE, "marginal"))
    )
    return ours, base


def planned_in(found: Document, model: str) -> str:
    """p of perplexity by particles, SG and BLiMP against the base LM, corrected for these three tests."""
    ours, base = log_perplexities(found, model)
    of_particles = Spread.of(0.0, ours, base).p(mean(ours) - mean(base))
    ps = holm([of_particles, *(pair_of(found, model, score)["p"] for score in ("sg", "blimp"))])
    return listed([f"{p:.2g}" for p in ps])


def hours_of(*documents: Document) -> str:
    """Hours of training, with each document's own search of rates; a run that is in several was one."""
    runs = {
        (run["model"], run["seed"], run["steps"], run["valid_loss"]): run["seconds"] or 0
        for found in documents
        for run in found["runs"]
    }
    rates = sum(tuned["seconds"] for found in documents for tuned in found["rates"].values())
    return f"{(sum(runs.values()) + rates) / 3600:.1f}"


def at_level(found: Document, level: str) -> list[Document]:
    """The compared scores of a level."""
    return [score for score in found["comparison"]["scores"] if score["level"] == level]


def with_interval(value: float, *bounds: float, sign: str = "") -> str:
    """A value and its interval, if it has one."""
    shown = [f"{each:{sign}.1f}" for each in (value, *bounds)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" if bounds else shown[0]


def budgets_table(*budgets: Document) -> str:
    """Scores of the models that were trained for each of several numbers of steps, and less the base LM's.

    Each p is corrected for the tests of its own document.
    """
    shown, tested = ("sg", "blimp", "marginal", "particles"), ("sg", "blimp")
    in_all = set.intersection(
        *({run["model"] for run in found["runs"] if "sg" in run["evaluations"]} for found in budgets)
    )
    rows = [["steps", "model", "seeds"]]
    for score in shown:
        rows[0] += [SCORES[score][2], *(["less the base LM"] if score in tested else [])]
    rows.append(["---"] * len(rows[0]))
    for found in budgets:
        for model, runs in by_model(found).items():
            if model not in in_all:
                continue
            row = [alike(run["steps"] for run in runs), title_of(model), str(len(runs))]
            for score in shown:
                row.append(score_of(found, model, score))
                if score in tested:
                    row.append("" if model == BASELINE else difference_in(found, model, score))
            rows.append(row)
    return markdown_table(rows)


def level_table(found: Document, level: str) -> str:
    """Scores by circuit or phenomenon, a column for each model; of SG the conventions of the whole below."""
    scores = at_level(found, level)
    if not scores:
        return ""
    models = [group["group"] for group in scores[0]["groups"]]
    rows = [[level, "items", *map(title_of, models)], ["---"] * (2 + len(models))]
    for score in scores:
        groups = {group["group"]: group for group in score["groups"]}
        cells = [
            with_interval(group["mean"], *(group["over_seeds"] or group["over_items"] or ()))
            for group in (groups[model] for model in models)
        ]
        rows.append([score["name"].replace("_", " "), str(score["items"]), *cells])
    if level == "circuit":
        runs = by_model(found)
        for key, title in CONVENTIONS.items():
            cells = [over_seeds([run["scores"].get(key) for run in runs[model]], 100) for model in models]
            if any(cells):
                rows.append([title, "", *cells])
    return markdown_table(rows)


def distractor_table(found: Document) -> str:
    """Figure 5: attention to the distractor noun before the verb, in percent."""
    return attention_rows(found, "suite", [(suite, suite, region) for suite, region in DISTRACTORS.items()])


def regions_table(found: Document, suite: str = "number_src") -> str:
    """Figure 6: attention before the verb to all that precedes it, in percent."""
    regions = (found["attention"] or {"by_suite": {}})["by_suite"].get(suite, {})
    return attention_rows(found, f"region of {suite}", [(region, suite, region) for region in regions])


def attention_rows(found: Document, head: str, places: Sequence[tuple[str, str, str]]) -> str:
    """A table of attention: at each place (its name, suite, region) every model, and less the base LM."""
    if found["attention"] is None:
        return ""
    by_suite, differences = found["attention"]["by_suite"], found["attention"]["differences"]
    there = [place for place in places if place[2] in by_suite.get(place[1], {})]
    models = list(dict.fromkeys(m for _, suite, region in there for m in by_suite[suite][region]))
    less = [model for model in models if model != BASELINE] if BASELINE in models else []
    titles = [*map(title_of, models), *(f"{title_of(model)} less {title_of(BASELINE)}" for model in less)]
    rows = [[head, *titles], ["---"] * (1 + len(titles))]
    for name, suite, region in there:
        of, minus = by_suite[suite][region], differences.get(suite, {}).get(region, {})
        cells = [percent_of(of.get(model)) for model in models]
        rows.append([name, *cells, *(percent_of(minus.get(model), "+") for model in less)])
    return markdown_table(rows) if there else ""


def percent_of(share: Document | None, sign: str = "") -> str:
    """A share of 1 with its interval, in percent."""
    if share is None:
        return ""
    return with_interval(*(100 * share[key] for key in ("mean", "low", "high")), sign=sign)


def rates_table(found: Document) -> str:
    """What was tried for each model, and its validation loss; the chosen rate is bold."""
    rates = list(dict.fromkeys(rate for of in found["rates"].values() for rate in of["losses"]))
    rates.sort(key=float)
    rows = [["validation loss by rate", *rates, "hours"], ["---"] * (2 + len(rates))]
    for model, of in found["rates"].items():
        cells = []
        for each in rates:
            loss = of["losses"].get(each)
            text = "" if loss is None else f"{loss:.3f}"
            cells.append(f"**{text}**" if each == of["chosen"] and text else text)
        rows.append([title_of(model), *cells, f"{of['seconds'] / 3600:.2f}"])
    return markdown_table(rows) if found["rates"] else ""


def runs_table(found: Document) -> str:
    """Steps and compute of every run. Losses of two kinds of model are not to be compared."""
    titles = ["run", "rate", "steps", "best step", "validation loss", "tokens read", "hours", "on"]
    rows = [titles, ["---"] * len(titles)]
    for run in found["runs"]:
        if run["steps"] is None:
            continue
        hardware = run["hardware"] or {}
        threads = f"{hardware['threads']} thread" if "threads" in hardware else ""
        rows.append(
            [
                f"{title_of(run['model'])}, {run['seed']}",
                run["rate"] or "",
                f"{run['steps']:,}",
                "" if run["best_step"] is None else f"{run['best_step']:,}",
                "" if run["valid_loss"] is None else f"{run['valid_loss']:.3f}",
                f"{run['tokens_read']:,}",
                f"{run['seconds'] / 3600:.2f}",
                ", ".join(hardware.get("gpus", [])) or threads,
            ]
        )
    return markdown_table(rows) if len(rows) > 2 else ""


def missing_list(found: Document) -> str:
    """What is not there."""
    return "".join(f"- {line}\n" for line in found["missing"])


def notes_list(found: Document) -> str:
    """The tests of each model, what differs in how results were made, and what could not be compared."""
    comparison = found["comparison"]
    tests: dict[str, set[tuple[str, str]]] = {}
    for score in comparison["scores"]:
        for pair in score["pairs"]:
            if pair["test"] is not None:
                tests.setdefault(pair["test"], set()).add((score["evaluation"], pair["b"]))
    lines = []
    for test, of in tests.items():
        evaluations = sorted({evaluation for evaluation, _ in of})
        models = sorted({model for _, model in of}, key=order)
        lines.append(f"{listed(evaluations)} of {listed(list(map(title_of, models)))}: {test}")
    lines += [f"{name}: {note}" for name, notes in comparison["notes"].items() for note in notes]
    lines += [f"{name}, excluded: {why}" for name, of in comparison["refused"].items() for why in of]
    return "".join(f"- {line}\n" for line in lines)
