"""``pdtools eval-ppl``: perplexity."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import Rejects, check_output
from pdtools.search.scores import DEFAULT_BEAM

from .common import (
    BeamOption,
    BosOption,
    DeviceOption,
    Dtype,
    DtypeOption,
    JsonOption,
    MaxBatchOption,
    OnError,
    OnErrorOption,
    OverwriteOption,
    QuietOption,
    ScoredModelOption,
    ThreadsOption,
    bar,
    deliver,
    message,
    pick_device,
)


def eval_ppl(
    shards: Annotated[str, typer.Argument(metavar="SHARDS", help="Folder that pdtools tapes wrote.")],
    model: ScoredModelOption,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="results.json, items.parquet.")
    ] = None,
    marginal: Annotated[
        bool, typer.Option("--marginal/--no-marginal", help="Sum over trees by beam search, or leave it out.")
    ] = True,
    stream: Annotated[
        bool, typer.Option("--stream", help="The sentences as one text (recurrent models).")
    ] = False,
    beam: BeamOption = DEFAULT_BEAM,
    bos: BosOption = True,
    max_batch: MaxBatchOption = None,
    dtype: DtypeOption = Dtype.float32,
    on_error: OnErrorOption = OnError.fail,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Perplexity per token and per word: given the trees, of strings with their trees, and marginal.

    End-of-sentence is counted (one more word and token a sentence), ROOT is not. The shards must be made
    with the model's own tokenizer; a Hugging Face model reads their text instead. A masked model predicts
    15% of each row's tokens, always the same ones, from the others.

    \b
    Example:
      pdtools eval-ppl shards/test --model runs/pushdown --beam 50 -o results/ppl
      pdtools eval-ppl shards/test --model runs/pushdown --no-marginal
      pdtools eval-ppl shards/test --model runs/rns --stream
    """
    from pdtools.evaluation.masked import evaluate_masked_perplexity
    from pdtools.evaluation.perplexity import evaluate_perplexity, evaluate_string_perplexity
    from pdtools.evaluation.streams import evaluate_stream_perplexity
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_perplexity
    from pdtools.search import load_scorer
    from pdtools.search.huggingface import is_huggingface
    from pdtools.search.scorer import load_model
    from pdtools.shards import ShardSet

    if output:
        check_output(output, overwrite=overwrite)
    sentences, rejects = ShardSet.open(shards), Rejects(on_error.value)
    chosen = pick_device(device, threads)
    show = bar("sentences", quiet=quiet)
    if stream:
        loaded = load_model(model, device=chosen, dtype=dtype.value)
        results = evaluate_stream_perplexity(sentences, loaded, progress=bar("parts", quiet=quiet))
    elif is_huggingface(model):
        scorer = load_scorer(model, device=chosen, dtype=dtype.value, bos=bos, max_batch=max_batch)
        results = evaluate_string_perplexity(sentences, scorer, rejects=rejects, progress=show)
    elif (loaded := load_model(model, device=chosen, dtype=dtype.value)).model.objective == "masked":
        results = evaluate_masked_perplexity(
            sentences, loaded, max_batch=max_batch, rejects=rejects, progress=show
        )
    else:
        results = evaluate_perplexity(
            sentences,
            loaded,
            beam=beam if marginal else None,
            max_batch=max_batch,
            rejects=rejects,
            progress=show,
        )
    made = provenance({"shards": shards, "model": model})
    deliver(results, made, output, print_perplexity, overwrite=overwrite, as_json=as_json)
    for reason, count in rejects.by_reason().items():
        message(f"{count} left out: {reason}", quiet=quiet)
