"""``pdtools eval-ppl``: perplexity."""

from __future__ import annotations

import os
from dataclasses import replace

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, Kind, Rejects, kind_of
from pdtools.provenance.hub import check_no_hub_name

from .console import bar, message
from .evaluating import Evaluating
from .options import ContextOptions, ModelName, Natural, OnError, Positive, RunOptions, command
from .running import make_plan, model_settings, read_context


@command("Compute perplexity per token and per word.")
def eval_ppl(
    shards: str,
    model: ModelName,
    run: RunOptions,
    reading: ContextOptions,
    output: str | None = None,
    marginal: bool = True,
    particles: Positive | None = None,
    seed: Natural = 0,
    stream: bool = False,
    streams: Positive = 1,
    on_error: OnError = "fail",
    latex: bool = False,
) -> None:
    """Compute perplexity per token and per word: given the trees, joint (strings with their trees), and
    marginal.

    \b
    Example:
      pdtools eval-ppl shards/test --model demo
          Perplexity
          score                                                     value
          ppl_token_given_trees                                   13.5778
          ppl_token_joint                                         16.1273
          ppl_token_marginal, upper bound at beam 100             16.0639
      pdtools eval-ppl wiki.test.txt --model hf:gpt2 --stride 512
      pdtools eval-ppl shards/test --model runs/pushdown --no-marginal --particles 300

    The shards have to be made with the model's own tokenizer; a Hugging Face model reads their text instead.
    For a file of text, with one sentence per line, only the marginal is computed. A beam gives an upper bound
    of the perplexity, which a wider beam usually lowers. --particles adds an unbiased estimate of p(x).

    Arguments:
        shards (INPUT): A folder that pdtools tapes or blocks wrote, a file of text, or -.

    Search:
        particles (N): Also estimate the marginal with N particles, without a beam.

    Options:
        marginal (--marginal/--no-marginal): Compute the marginal (a sum over trees by beam search), or not.
        stream: Read all rows as one text (recurrent models).
        streams: --stream: number of parts to read in parallel.
    """
    from pdtools.evaluation.chunks import InChunks
    from pdtools.evaluation.perplexity.evaluate import (
        evaluate_perplexity,
        evaluate_string_perplexity,
        evaluate_text_perplexity,
    )
    from pdtools.evaluation.perplexity.masked import evaluate_masked_perplexity
    from pdtools.evaluation.perplexity.streams import evaluate_stream_perplexity
    from pdtools.jobs import Plan
    from pdtools.search.contexts import with_documents
    from pdtools.search.inputs import read_inputs, read_rows
    from pdtools.search.model import is_guest
    from pdtools.search.options import DOCUMENT, Particles
    from pdtools.shards import ShardFolder, ShardSet

    if streams > 1 and not stream:
        raise typer.BadParameter("--streams goes with --stream")
    if stream and make_plan(run) != Plan():
        raise PdtoolsError(
            "with --stream each sentence depends on those before it: --workers, --shard, --scheduler and"
            " --resume cannot be used"
        )
    if particles is not None and (stream or is_guest(model)):
        raise PdtoolsError(
            "--particles are for models of trees that read sentence by sentence: leave them out"
        )
    if not marginal and (stream or is_guest(model)):
        reads = (
            "--stream reads no trees"
            if stream
            else f"{model} is a model of another package, which reads no trees"
        )
        raise PdtoolsError(f"{reads}: with --no-marginal there is nothing to compute")
    if run.trees is not None and (stream or not marginal):
        raise PdtoolsError("--trees are for the marginal: leave out --stream and --no-marginal")
    check_no_hub_name(model)
    is_text = shards == STDIO or (os.path.isfile(shards) and kind_of(shards) in (None, Kind.TEXT))
    inputs = {"text" if is_text else "shards": shards, "model": model, "trees": run.trees}
    evaluating = Evaluating.begin(output, run, inputs, also=[reading.preceding], latex=latex)
    rejects = Rejects(on_error)
    context = read_context(reading, documents=True)
    # Sentences are read as text, whatever trees they have.
    as_text = is_text or context.is_asked_for
    settings = model_settings(evaluating.plan, model, run, context=context)

    if as_text:
        if stream or not marginal or particles:
            raise PdtoolsError(
                "--stream, --no-marginal and --particles are for shards, not for text, and do not go with"
                " --context and --stride"
            )
        with evaluating.model(settings) as by_text:
            style = by_text.settings["text_style"]
            if is_text:
                lines = read_inputs([shards], "text", style)
            else:
                lines = read_rows(ShardFolder.open(shards), style)
            if context.of == DOCUMENT:
                lines = with_documents(lines, by_text.settings["window"])
            is_documents = context.stride is not None
            show = bar("documents" if is_documents else "sentences")
            results = evaluate_text_perplexity(
                lines, by_text, documents=is_documents, rejects=rejects, progress=show
            )
            evaluating.deliver(results, rejects=rejects)
        _say(rejects)
        return
    if stream:
        rows, loaded = ShardSet.open(shards), settings.load_checkpoint()
        parts = bar("parts")
        results = evaluate_stream_perplexity(rows, loaded, streams=streams, progress=parts)
        evaluating.deliver(results, rejects=rejects)
        return
    sentences, show = ShardFolder.open(shards), bar("sentences")
    described = {
        "shards": sentences.sha256,
        "marginal": marginal,
        **({} if particles is None else {"particles": particles, "particles_seed": seed}),
        **settings.for_job(),
    }
    with evaluating.chunks("perplexity: with particles", **described) as job:
        if is_guest(model):
            asked = settings.load().in_chunks(evaluating.plan, job)
            results = evaluate_string_perplexity(sentences, asked, rejects=rejects, progress=show)
        elif (loaded := settings.load_checkpoint()).model.objective == "masked" and not (
            run.trees or particles
        ):
            results = evaluate_masked_perplexity(
                sentences,
                loaded,
                max_batch=settings.search.max_batch,
                rejects=rejects,
                progress=show,
                in_chunks=InChunks(settings, evaluating.plan, job),
            )
        else:
            results = evaluate_perplexity(
                sentences,
                loaded,
                search=settings.search if marginal else replace(settings.search, beam=None),
                particles=None if particles is None else Particles(number=particles, seed=seed),
                rejects=rejects,
                progress=show,
                in_chunks=InChunks(settings, evaluating.plan, job),
            )
        evaluating.deliver(results, rejects=rejects)
    _say(rejects)


def _say(rejects: Rejects) -> None:
    for reason, count in rejects.by_reason().items():
        message(f"{count} excluded: {reason}")
