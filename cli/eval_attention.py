"""``pdtools eval-attention``: where models look before a region of test suites."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

from pdtools.jobs.devices import pick_device

from .console import bar, message
from .evaluating import Evaluating
from .options import ModelNames, Natural, Positive, RunOptions, command


@command(
    "Measure attention to regions of test suites.",
    without=("workers", "shard", "scheduler", "resume", "bos", "pll", "dtype"),
)
def eval_attention(
    suites: str,
    model: ModelNames,
    at: str,
    run: RunOptions,
    region: list[str] | None = None,
    suite: list[str] | None = None,
    samples: Positive = 1000,
    seed: Natural = 0,
    output: str | None = None,
    details: bool = False,
    latex: bool = False,
) -> None:
    """Measure attention to regions of test suites at the last position before another region, averaged over
    items.

    \b
    Example:
      pdtools eval-attention sample/sg/mini_number_orc.json --at verb --region embed_subject \\
          --model demo --model demo-base
          mini_number_orc: attention when verb is predicted (percent; items: 20)
          region         model       mean  95%             less 1st  95%
          embed_subject  demo        4.42  [4.21, 4.62]           -  -
          embed_subject  demo-base  20.67  [20.17, 21.15]     16.25  [15.68, 16.73]
      pdtools eval-attention sg_suites.zip --model runs/pushdown --suite number_src --at matrix_v

    This is the measure of section 5 of the Pushdown Layers paper. The weights of a region's tokens are
    summed. Models are compared with the first one.

    Arguments:
        suites (SUITES): A folder of .json files, one such file, or a zip.

    Model:
        model (DIR): A run or checkpoint of a transformer; repeatable, for seeds too.

    Options:
        at (REGION): The region to predict: its name or number.
        region (REGION): One that is attended to; repeatable (default: all before --at).
        suite (NAME): This suite only; repeatable (default: all that fit).
    """
    from pdtools.evaluation.sg.suites import SuiteFiles
    from pdtools.inspection.region_attention import Question, evaluate_attention
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_attention

    models = {f"model {n}": path for n, path in enumerate(model, start=1)}
    inputs = {"suites": suites, **models, "trees": run.trees}
    evaluating = Evaluating.begin(output, run, inputs, latex=latex)
    identified = provenance(models)["inputs"]
    results = evaluate_attention(
        SuiteFiles(suites),
        _groups(model, [identified[name] for name in models]),
        Question(at=at, regions=tuple(region or ()), suites=tuple(suite or ())),
        search=run.search,
        device=pick_device(run.device, run.threads),
        samples=samples,
        seed=seed,
        progress=bar("sentences"),
    )
    show = partial(print_attention, details=details)
    evaluating.deliver(results, show=show)
    if excluded := results.counts["items_left_out"]:
        message(f"{excluded} items were excluded (items.parquet says why)")


def _groups(models: list[str], identified: list[dict[str, object]]) -> dict[str, list[str]]:
    """Runs that differ only in seed, grouped and named as by ``pdtools compare``.

    If one seed is there twice (``best`` and ``last``), each stays single.
    """
    from pdtools.evaluation.comparison.groups import name_of_seeds

    by_recipe: dict[str, list[str]] = {}
    trained = [found.get("training") for found in identified]
    for folder, training in zip(models, trained, strict=True):
        is_run = isinstance(training, dict) and trained.count(training) == 1
        recipe = str(cast("dict[str, object]", training)["sha256"]) if is_run else folder
        by_recipe.setdefault(recipe, []).append(folder)
    groups: dict[str, list[str]] = {}
    for folders in by_recipe.values():
        runs = [path.parent if path.name in ("best", "last") else path for path in map(Path, folders)]
        name = name_of_seeds([run.name for run in runs])
        groups[folders[0] if name in groups else name] = folders
    return groups
