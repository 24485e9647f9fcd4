"""``pdtools decode``: sentences into trees, by beam search, or TreeReg."""

from __future__ import annotations

from typing import Literal

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, Rejects, rejects_path
from pdtools.files.tables import check_table_name

from .console import message, print_json, progress, warn
from .options import ModelName, Positive, RunOptions, command, sentence_files
from .running import Output, check_json_output, model_settings


@command("Parse sentences with a trained model.", without=("trees", "bos", "pll"))
def decode(
    model: ModelName,
    run: RunOptions,
    inputs: list[str] | None = None,
    output: str = STDIO,
    text: list[str] | None = None,
    source: Literal["text", "tokens", "treebank", "parts", "conllu"] = "text",
    k_best: Positive = 1,
    cky: bool = False,
    scores: str | None = None,
) -> None:
    """Parse sentences with a trained model: line n of the output is the best tree of line n of the input.

    \b
    Example:
      pdtools decode --text "The dog barks." --model english
          (X (XX The) (X (XX dog) (X (XX barks) (XX .))))
      pdtools decode gold.trees --from treebank --model runs/pushdown -o parsed.trees
      pdtools decode sentences.txt --model runs/pushdown --k-best 5 --scores scores.tsv -o best.trees

    The model has an attachment head, or is an action model, or was trained with TreeReg. A sentence that it
    cannot parse becomes the flat tree (X (XX word) ...), a blank line (X (-NONE- *)). Both are recorded in
    OUTPUT.rejects.jsonl. Models of dependencies (gilt, dtg) write these to a
    file .conllu, and read one with --from conllu (its words; its multi-word tokens are kept).

    Output:
        output (-o): A file for the trees (.gz, .zst, .conllu), or -.
        scores (FILE.tsv): A table of the trees' log-probabilities, in nats (or .csv).

    Search:
        k_best: Number of different trees per sentence in --scores.
    """
    check_json_output(run.as_json, output)
    if scores == STDIO and (run.as_json or output == STDIO):
        raise typer.BadParameter("the trees go to standard output: name a file for --scores")
    if k_best > 1 and scores is None:
        raise typer.BadParameter("--k-best above 1 needs --scores: the other trees are written there")
    from pdtools.models.checkpoint import reads_windows
    from pdtools.search.decoding import decode as decode_lines
    from pdtools.search.decoding import is_conllu, write_decoded
    from pdtools.search.inputs import count_inputs, read_inputs
    from pdtools.search.options import DOCUMENT, NO_CONTEXT, Context

    files = sentence_files(inputs, text, source)
    merge_options = [] if scores is None else ["--scores", scores]
    beside = [str(path) for path in (scores, rejects_path(output)) if path is not None]
    trees = Output.check(
        output, run, folder=False, inputs=[*files, model], beside=beside, merge_options=merge_options
    )
    if scores is not None:
        check_table_name(scores)
    context = Context(of=DOCUMENT) if source == "parts" and reads_windows(model) else NO_CONTEXT
    settings = model_settings(trees.plan, model, run, cky=cky, context=context, parses=True)
    rejects = Rejects("skip")
    with trees.model(settings, k_best=k_best) as searcher:
        if scores is not None and searcher.settings["kind"] == "treereg":
            raise PdtoolsError("a model trained with TreeReg gives one tree a sentence, without scores")
        if is_conllu(output) and not searcher.has_arcs:
            raise PdtoolsError(f"{output}: only models of dependency arcs (gilt, dtg) write CoNLL-U")
        lines = read_inputs(files, source, searcher.settings["text_style"])
        results = decode_lines(lines, searcher, rejects=rejects, k_best=k_best)
        results = progress(results, total=lambda: count_inputs(files, source), label="sentences")
        counts = write_decoded(
            results, output, rejects=rejects, scores=scores, k_best=k_best, has_arcs=searcher.has_arcs
        )
    warn(searcher.settings)
    if run.as_json:
        from dataclasses import asdict

        from pdtools.provenance import provenance

        print_json(
            {
                "counts": asdict(counts),
                "rejects": rejects.by_reason(),
                "settings": searcher.settings,
                "provenance": provenance({"model": model, **{name: name for name in inputs or []}}),
            }
        )
    message(f"{counts.trees} trees, {counts.words} words")
    for record in rejects:
        message(f"{record['file']}:{record['line']}: no parse: {record['reason']}")
