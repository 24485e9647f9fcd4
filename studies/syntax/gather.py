"""What there is of the study: its models, where their scores are, and all runs with what they found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import compare
from pdtools.evaluation.comparison.groups import Group, ModelResults, model_of
from pdtools.files import read_json
from pdtools.report.tables import listed
from pdtools.training import read_metrics

Document = Mapping[str, Any]

MODELS = {
    "base": "base LM",
    "base-head": "base LM + attachment loss",
    "base-head-faint": "base LM + attachment loss, attachment weight 0.1",
    "pushdown": "Pushdown LM",
    "pushdown-auto": "Pushdown LM, automatic trees",
    "plm": "PLM",
    "plm-mask": "PLM-mask",
    "tg": "Transformer Grammar",
    "treereg": "base LM + TreeReg",
    "scaffold": "ScLM-next",
    "scaffold-past": "ScLM-past",
    "benepar": "benepar (Kitaev et al. 2019)",
}
BASELINE = "base"
EXTRA = ("base-head-faint", "scaffold-past")  # which a whole study does without
# What variants of the Pushdown LM change, by the parts of their names (run.sh).
CHANGES = {
    "late": "tape in the last layer, head reads those below",
    "late2": "tape in the last two layers, head reads those below",
    "light": "attachment weight 0.3",
    "faint": "attachment weight 0.1",
    "distances": "stack distances, from 10 nats on",
    "gentle": "stack distances, from 0.1 nats on",
}
# Where each score is: the evaluation, its name there, the title, what it is multiplied by.
SCORES = {
    "sg": ("sg", "sg_31", "SG, 31 suites (%)", 100),
    "blimp": ("blimp", "overall", "BLiMP (%)", 100),
    "given": ("ppl", "ppl_word_given_trees", "perplexity per word, given trees", 1),
    "joint": ("ppl", "ppl_word_joint", "joint", 1),
    "marginal": ("ppl", "ppl_word_marginal", "marginal, at most", 1),
    "particles": ("particles", "ppl_word_particles", "marginal, by particles", 1),
    "f1": ("parse", "f1", "unlabeled F1, binarized (%)", 1),
    "labeled": ("labeled", "f1", "labeled F1 (%)", 1),
}
OTHERS = {
    "sg_33": ("sg", "sg_33"),
    "sg_circuits": ("sg", "mean_of_circuits"),
    "sg_items": ("sg", "mean_of_items"),
}
EVALUATIONS = tuple(dict.fromkeys(task for task, *_ in SCORES.values()))
# What particles estimate is compared as the search finds it.
COMPARED = tuple(task for task in EVALUATIONS if task != "particles")
# Their counts of what a model could not score.
LEFT_OUT = {
    "sg": "items_unscorable",
    "blimp": "items_unscorable",
    "ppl": "sentences_left_out",
    "particles": "sentences_left_out",
    "parse": "left_out",
    "labeled": "left_out",
}
# Figure 3 and its like: the evaluation whose levels they are, what they show.
LEVELS = {"circuit": ("sg", "SG, mean of suites (percent)"), "phenomenon": ("blimp", "BLiMP (percent)")}


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
    tried = sorted((file.stem for file in folder.glob("rates/*.json")), key=order)
    return {
        "settings": settings.read_text().strip() if settings.exists() else None,
        "words": counts.get("words"),
        "sentences": counts.get("sentences"),
        "rates": {model: tuned for model in tried if (tuned := tuning_of(folder, model))},
        "runs": runs,
        "missing": list(missing(runs, attention)),
        "comparison": compared(folder, runs),
        "attention": attention,
    }


def order(model: str, seed: int = 0) -> tuple[int, str, int]:
    """Models as in ``MODELS``, variants after the Pushdown LM, others after all."""
    known = list(MODELS)
    after = "pushdown" if _changes_of(model) else model
    return (known.index(after) if after in known else len(known), "" if model in known else model, seed)


def title_of(model: str) -> str:
    """What tables call a model."""
    if changes := _changes_of(model):
        return ", ".join(["Pushdown LM", *(CHANGES[change] for change in changes)])
    return MODELS.get(model, model)


def _changes_of(model: str) -> list[str]:
    """Of a variant of the Pushdown LM; none of other models."""
    parts = model.split("-")
    return parts if CHANGES.keys() >= set(parts) else []


def _has(model: str, task: str) -> bool:
    """Whether the evaluation is one for this model."""
    if task == "labeled":
        return model in ("plm", "plm-mask", "tg", "benepar")
    if task == "particles":
        return model in ("pushdown", "pushdown-auto") or bool(_changes_of(model))
    return model not in (("base", "scaffold", "scaffold-past") if task == "parse" else ("benepar",))


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
    if absent := [title for model, title in MODELS.items() if model not in (*there, *EXTRA)]:
        yield f"no runs of {listed(absent)}"
    seeds = sorted({run["seed"] for run in runs})
    done = {task for run in runs for task in run["evaluations"]}
    if attention is None:
        yield "no attention to distractors"
    if none := [task for task in EVALUATIONS if task not in done]:
        yield f"no results of {listed(none)}"
    for model in there:
        of_model = [run for run in runs if run["model"] == model]
        # Of the parser there is one, whatever is trained with several seeds.
        if model != "benepar" and (
            lacking := [str(s) for s in seeds if s not in {run["seed"] for run in of_model}]
        ):
            yield f"{title_of(model)}: no seed {listed(lacking)}"
        for run in of_model:
            name = f"{title_of(model)}, seed {run['seed']}"
            if run["steps_wanted"] is not None and (run["steps"] or 0) < run["steps_wanted"]:
                yield f"{name}: trained for {run['steps'] or 0} of {run['steps_wanted']} steps"
            wanted = [task for task in EVALUATIONS if task in done and _has(model, task)]
            if lacking := [task for task in wanted if task not in run["evaluations"]]:
                yield f"{name}: no {listed(lacking)}"
            for task, number in run["left_out"].items():
                yield f"{name}: excluded from {task}: {number}"


def compared(folder: Path, runs: Sequence[Document]) -> dict[str, Any]:
    """All models on the items that all have, each against the base LM: what ``pdtools compare`` finds.

    Without a base LM nothing is tested; without two runs there is nothing at all, and ``notes`` say so.
    """
    groups: dict[str, list[ModelResults]] = {}
    try:
        for run in runs:
            results = folder / "results" / f"{run['model']}-{run['seed']}"
            if run["evaluations"]:
                tasks = [task for task in run["evaluations"] if task in COMPARED]
                found = model_of(results, {task: results / task for task in tasks})
                groups.setdefault(run["model"], []).append(found)
        whole = compare(
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
