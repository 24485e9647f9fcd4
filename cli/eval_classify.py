"""``pdtools eval-classify``: what does a model answer to prompts?"""

from __future__ import annotations

from pdtools.files import Rejects

from .console import bar, message
from .evaluating import Evaluating
from .options import ModelName, Natural, OnError, Positive, RunOptions, command
from .running import model_settings


@command("Answer prompts: accuracy, F1, correlations.", without=("beam", "margin", "trees", "bos", "pll"))
def eval_classify(
    shards: str,
    model: ModelName,
    run: RunOptions,
    output: str | None = None,
    samples: Positive = 10_000,
    seed: Natural = 0,
    on_error: OnError = "fail",
    latex: bool = False,
) -> None:
    """Answer prompts: accuracy, F1 or correlations, each with its interval.

    \b
    Example:
      pdtools eval-classify shards/rte.dev --model runs/rte -o results/rte

    The prediction is the task's answer that is most probable after the prompt and its trees. A tie is
    wrong. Numbers (STS-B) come from the regression that pdtools train learns on such prompts. Without labels,
    as in GLUE's test sets, the command only predicts (items.parquet).

    Arguments:
        shards (SHARDS): Prompts: a folder of pdtools tapes --prompts.
    """
    from pdtools.evaluation.chunks import InChunks
    from pdtools.evaluation.classification.evaluate import evaluate_prompts
    from pdtools.shards import ShardSet

    evaluating = Evaluating.begin(output, run, {"shards": shards, "model": model}, latex=latex)
    run.search.check_one_width()
    rejects = Rejects(on_error)
    settings = model_settings(evaluating.plan, model, run)
    prompts = ShardSet.open(shards)
    described = {"shards": prompts.sha256, **settings.for_job()}
    with evaluating.chunks("answers", **described) as job:
        results = evaluate_prompts(
            prompts,
            settings.load_checkpoint(),
            max_batch=run.search.max_batch,
            seed=seed,
            samples=samples,
            rejects=rejects,
            progress=bar("prompts"),
            in_chunks=InChunks(settings, evaluating.plan, job),
        )
        evaluating.deliver(results, rejects=rejects)
    if excluded := results.counts["items_left_out"]:
        message(f"{excluded} items have no prediction: they are too long, or have no trees")
