"""What the scripts of this study ask: the chosen rate; the tables, figures and results of all runs.

python report.py rate SWEEP.json | table FOLDER | figures RESULTS.json FOLDER | tapes FILE.json
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.groups import Group, Model, model_of
from pdtools.evaluation.comparison.many import compare_many
from pdtools.evaluation.comparison.overview import PERPLEXITIES
from pdtools.files import atomic_text, read_json, write_json
from pdtools.provenance import provenance
from pdtools.report.plots import Line, draw_categories
from pdtools.report.tables import listed, markdown_table
from pdtools.training import read_metrics

Document = Mapping[str, Any]

MODELS = {
    "base": "base LM",
    "base-head": "base LM + attachment loss",
    "pushdown": "Pushdown LM",
    "pushdown-auto": "Pushdown LM, automatic trees",
    "plm": "PLM",
    "plm-mask": "PLM-mask",
    "tg": "Transformer Grammar",
    "treereg": "base LM + TreeReg",
    "scaffold": "ScLM-next",
    "benepar": "benepar (Kitaev et al. 2019)",
}
BASELINE = "base"
SIGNIFICANT = 0.05
# Where each score is: the evaluation, its name there, the title, what it is multiplied by.
SCORES = {
    "sg": ("sg", "sg_31", "SG, 31 suites (%)", 100),
    "blimp": ("blimp", "overall", "BLiMP (%)", 100),
    "given": ("ppl", "ppl_word_given_trees", "perplexity per word, given trees", 1),
    "joint": ("ppl", "ppl_word_joint", "joint", 1),
    "marginal": ("ppl", "ppl_word_marginal", "marginal, at most", 1),
    "f1": ("parse", "f1", "unlabeled F1, binarized (%)", 1),
    "labeled": ("labeled", "f1", "labeled F1 (%)", 1),
}
# SG by other conventions, which are in a table of their own.
CONVENTIONS = {
    "sg": "mean of 31 suites",
    "sg_33": "mean of 33 suites",
    "sg_circuits": "mean of circuits",
    "sg_items": "mean of items",
}
OTHERS = {
    "sg_33": ("sg", "sg_33"),
    "sg_circuits": ("sg", "mean_of_circuits"),
    "sg_items": ("sg", "mean_of_items"),
}
EVALUATIONS = tuple(dict.fromkeys(task for task, *_ in SCORES.values()))
# Their counts of what a model could not score.
LEFT_OUT = {
    "sg": "items_unscorable",
    "blimp": "pairs_unscorable",
    "ppl": "sentences_left_out",
    "parse": "left_out",
    "labeled": "left_out",
}
# Those that only some models have.
ONLY_OF = {
    **{task: tuple(model for model in MODELS if model != "benepar") for task in ("sg", "blimp", "ppl")},
    "parse": ("base-head", "pushdown", "pushdown-auto", "plm", "plm-mask", "tg", "treereg", "benepar"),
    "labeled": ("plm", "plm-mask", "tg", "benepar"),
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
# Figure 3 and its like: the evaluation whose levels they are, what they show.
LEVELS = {"circuit": ("sg", "SG, mean of suites (percent)"), "phenomenon": ("blimp", "BLiMP (percent)")}
# Figure 5: in which region of a suite the distractor is.
DISTRACTORS = {"number_orc": "embed_np", "number_prep": "prep_np", "number_src": "embed_np"}


def rate(file: str) -> None:
    """Print the learning rate with the lowest validation loss; a run's name is its rate."""
    print(read_json(Path(file))[0]["name"])


def table(folder: str) -> None:
    """Write results.json, table.md and the figures, and print the tables."""
    found = collected(Path(folder))
    text = markdown(found)
    write_json(Path(folder, "results.json"), {**found, "provenance": provenance()})
    with atomic_text(Path(folder, "table.md")) as stream:
        stream.write(text)
    print(text, end="")
    draw(found, Path(folder))


# --- what there is ------------------------------------------------------------------------------


def collected(folder: Path) -> dict[str, Any]:
    """The settings; every run, with what it was trained on and its scores; all models compared."""
    names = {
        path.name for part in ("runs", "results") for path in folder.glob(f"{part}/*-*") if path.is_dir()
    }
    cells = [(model, int(seed)) for model, _, seed in (n.rpartition("-") for n in names) if seed.isdecimal()]
    runs = [cell_of(folder, model, seed) for model, seed in sorted(cells, key=lambda each: order(*each))]
    counts = (
        read_json(train / "manifest.json")["counts"]
        if (train := folder / "shards" / "train").exists()
        else {}
    )
    settings, attention = folder / "settings", attention_of(folder)
    return {
        "settings": settings.read_text().strip() if settings.exists() else None,
        "words": counts.get("words"),
        "sentences": counts.get("sentences"),
        "rates": {model: tuned for model in MODELS if (tuned := tuning_of(folder, model))},
        "runs": runs,
        "missing": list(missing(runs, attention)),
        "comparison": compared(folder, runs),
        "attention": attention,
    }


def order(model: str, seed: int = 0) -> tuple[int, str, int]:
    """Models as in ``MODELS``, others after them."""
    known = list(MODELS)
    return (known.index(model) if model in known else len(known), model, seed)


def cell_of(folder: Path, model: str, seed: int) -> dict[str, Any]:
    """What a run was trained on, how far, and what it scores; None, or nothing, where that is not there."""
    run, results = folder / "runs" / f"{model}-{seed}", folder / "results" / f"{model}-{seed}"
    train, valid = read_metrics(run, "train"), read_metrics(run, "valid")
    last, best = train[-1] if train else {}, min(valid, key=lambda each: each["loss"], default={})
    recorded = read_json(run / "run.json") if (run / "run.json").exists() else None
    rate = folder / "rates" / model
    documents = {
        task: read_json(file) for task in EVALUATIONS if (file := results / task / "results.json").exists()
    }
    places = {**{score: place[:2] for score, place in SCORES.items()}, **OTHERS}
    return {
        "model": model,
        "seed": seed,
        "rate": rate.read_text().strip() if rate.exists() else None,
        "steps": last.get("step"),
        "steps_wanted": recorded and recorded["recipe"]["train"]["steps"],
        "tokens_read": last.get("tokens"),
        "best_step": best.get("step"),
        "valid_loss": best.get("loss"),
        "seconds": max((each["seconds"] for each in (*train[-1:], *valid[-1:])), default=None),
        "hardware": recorded and recorded["provenance"]["hardware"],
        "evaluations": list(documents),
        "left_out": {
            task: number for task, of in documents.items() if (number := of["counts"].get(LEFT_OUT[task]))
        },
        "scores": {
            score: documents[task]["scores"].get(name)
            for score, (task, name) in places.items()
            if task in documents
        },
    }


def tuning_of(folder: Path, model: str) -> dict[str, Any] | None:
    """The rates that were tried, their validation losses, how long that took; None if nothing was tried."""
    file = folder / "rates" / f"{model}.json"
    if not file.exists() or not (folder / "rates" / model).exists():
        return None
    runs = [read_metrics(run, "valid") for run in (folder / "tuning" / model).glob("*/") if run.is_dir()]
    return {
        "chosen": (folder / "rates" / model).read_text().strip(),
        "losses": {each["name"]: (each["best"] or {}).get("loss") for each in read_json(file)},
        "seconds": sum(records[-1]["seconds"] for records in runs if records),
    }


def missing(runs: Sequence[Document], attention: Document | None) -> Iterator[str]:
    """What a whole study has and these runs have not, a line each."""
    there = dict.fromkeys(run["model"] for run in runs)
    if absent := [title for model, title in MODELS.items() if model not in there]:
        yield f"no runs of {listed(absent)}"
    seeds = sorted({run["seed"] for run in runs})
    done = {task for run in runs for task in run["evaluations"]}
    if attention is None:
        yield "no attention to distractors"
    if none := [task for task in EVALUATIONS if task not in done]:
        yield f"no results of {listed(none)}"
    for model in there:
        of_model = [run for run in runs if run["model"] == model]
        if lacking := [str(s) for s in seeds if s not in {run["seed"] for run in of_model}]:
            yield f"{title_of(model)}: no seed {listed(lacking)}"
        for run in of_model:
            name = f"{title_of(model)}, seed {run['seed']}"
            if run["steps_wanted"] is not None and (run["steps"] or 0) < run["steps_wanted"]:
                yield f"{name}: trained for {run['steps'] or 0} of {run['steps_wanted']} steps"
            wanted = [task for task in EVALUATIONS if task in done and model in ONLY_OF[task]]
            if lacking := [task for task in wanted if task not in run["evaluations"]]:
                yield f"{name}: no {listed(lacking)}"
            for task, number in run["left_out"].items():
                yield f"{name}: left out of {task}: {number}"


def compared(folder: Path, runs: Sequence[Document]) -> dict[str, Any]:
    """All models on the items that all have, each against the base LM: what ``pdtools compare`` finds.

    Without a base LM nothing is tested; without two runs there is nothing at all, and ``notes`` say so.
    """
    groups: dict[str, list[Model]] = {}
    try:
        for run in runs:
            results = folder / "results" / f"{run['model']}-{run['seed']}"
            if run["evaluations"]:
                found = model_of(results, {task: results / task for task in run["evaluations"]})
                groups.setdefault(run["model"], []).append(found)
        whole = compare_many(
            [Group(name=name, models=tuple(models)) for name, models in groups.items()],
            baseline=BASELINE if BASELINE in groups else None,
        )
    except PdtoolsError as error:
        return {"scores": [], "notes": {"all": [str(error)]}, "refused": {}, "settings": {}}
    scores = [asdict(score) for score in whole.scores if score.level in ("overall", *LEVELS)]
    if whole.baseline is None:
        scores = [{**score, "pairs": ()} for score in scores]
    return {"scores": scores, "notes": whole.notes, "refused": whole.refused, "settings": whole.settings}


def attention_of(folder: Path) -> dict[str, Any] | None:
    """By suite, region and model what ``pdtools eval-attention`` found, and less the base LM's."""
    file = folder / "attention" / "results.json"
    if not file.exists():
        return None
    document = read_json(file)

    def named(by_suite: Any) -> dict[str, Any]:
        return {
            suite: {
                region: {
                    re.sub(r"-\d+$", "", model): {key: of[key] for key in ("mean", "low", "high")}
                    for model, of in models.items()
                }
                for region, models in regions.items()
            }
            for suite, regions in by_suite.items()
        }

    scores, counts = document["scores"], document["counts"]
    return {
        "by_suite": named(scores["by_suite"]),
        "differences": named(scores["differences"]),
        "items": counts["items_by_suite"],
        "seeds": {re.sub(r"-\d+$", "", model): number for model, number in counts["seeds"].items()},
    }


# --- tables -------------------------------------------------------------------------------------


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


def title_of(model: str) -> str:
    """What tables call a model."""
    return MODELS.get(model, model)


def by_model(found: Document) -> dict[str, list[Document]]:
    """The runs that were tested, by model."""
    groups: dict[str, list[Document]] = {}
    for run in found["runs"]:
        if run["evaluations"]:
            groups.setdefault(run["model"], []).append(run)
    return groups


def scores_table(found: Document) -> str:
    """Tables 2 and 4: the paper's row before ours; means over seeds, ± the deviation of several."""
    groups = by_model(found)
    shown = [score for score in SCORES if any(run["scores"].get(score) is not None for run in found["runs"])]
    titles = ["model", "seeds", *(SCORES[score][2] for score in shown), "rate", "steps", "hours a run"]
    rows = [titles, ["---"] * len(titles)]
    for model in sorted({*groups, *PAPER}, key=order):
        papers = [PAPER.get(model, {}).get(score, "") for score in shown]
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
    """The mean ± the deviation."""
    there = [scale * value for value in values if value is not None]
    if not there:
        return ""
    return f"{mean(there):.1f}" + (f" ± {stdev(there):.1f}" if len(there) > 1 else "")


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


def difference_in(found: Document, model: str, score: str) -> str:
    """A model's overall score less the base LM's, in a sentence."""
    task, name, *_ = SCORES[score]
    (pair,) = (
        pair
        for each in at_level(found, "overall")
        if each["evaluation"] == task and (task != "ppl" or each["score"] == PERPLEXITIES[name])
        for pair in each["pairs"]
        if pair["b"] == model
    )
    return difference_of(pair)


def at_level(found: Document, level: str) -> list[Document]:
    """The compared scores of a level."""
    return [score for score in found["comparison"]["scores"] if score["level"] == level]


def with_interval(value: float, *bounds: float, sign: str = "") -> str:
    """A value and its interval, if it has one."""
    shown = [f"{each:{sign}.1f}" for each in (value, *bounds)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" if bounds else shown[0]


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
    lines += [f"{name}, left out: {why}" for name, of in comparison["refused"].items() for why in of]
    return "".join(f"- {line}\n" for line in lines)


# --- figures ------------------------------------------------------------------------------------


def figures(results: str, folder: str) -> None:
    """Draw the figures of a results file again."""
    draw(read_json(Path(results)), Path(folder))


def draw(found: Document, folder: Path) -> None:
    """Figures 3, 5 and 6, as far as there are results: syntax-….svg."""
    for level, (task, value) in LEVELS.items():
        scores = at_level(found, level)
        lines = lines_of([{of["group"]: of for of in score["groups"]} for score in scores], 1)
        if lines:
            names = [score["name"].replace("_", " ") for score in scores]
            draw_categories(folder / f"syntax-{task}-by-{level}.svg", names, lines, value=value, percent=True)
    by_suite = (found["attention"] or {"by_suite": {}})["by_suite"]
    distractors = {
        suite: by_suite[suite][region]
        for suite, region in DISTRACTORS.items()
        if region in by_suite.get(suite, {})
    }
    value = "attention before the verb (percent)"
    for name, by_place in (("distractors", distractors), ("number-src", by_suite.get("number_src", {}))):
        if lines := lines_of(list(by_place.values()), 100):
            draw_categories(folder / f"syntax-attention-{name}.svg", list(by_place), lines, value=value)


def lines_of(places: Sequence[Mapping[str, Document]], scale: float) -> list[Line]:
    """A line for each model: its mean and interval at each place that it has a value of."""
    lines = []
    for model in dict.fromkeys(model for place in places for model in place):
        at = [x for x, place in enumerate(places) if model in place]
        values = [places[x][model] for x in at]
        bounds = [
            (of["low"], of["high"])
            if "low" in of
            else of["over_seeds"] or of["over_items"] or (of["mean"], of["mean"])
            for of in values
        ]
        lines.append(
            Line(
                label=title_of(model),
                x=at,
                y=[scale * of["mean"] for of in values],
                low=[scale * low for low, _ in bounds],
                high=[scale * high for _, high in bounds],
            )
        )
    return lines


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


# Passages of the documentation, from files of docs/notes/results/syntax (studies/pages.py).
PASSAGES: dict[str, Callable[..., str]] = {
    "table": scores_table,
    "score": score_of,
    "difference": difference_in,
    "differences": differences_table,
    "level": level_table,
    "distractors": distractor_table,
    "regions": regions_table,
    "rates": rates_table,
    "runs": runs_table,
    "missing": missing_list,
    "notes": notes_list,
    "tapes": tape_table,
    "strata": strata_table,
}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {
        "rate": rate,
        "table": table,
        "figures": figures,
        "tapes": tapes,
    }
    try:
        commands[command](*arguments)
    except PdtoolsError as error:
        sys.exit(f"report.py: {error}")
