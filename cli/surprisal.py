"""``pdtools surprisal``: surprisal of every token or word."""

from __future__ import annotations

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, Rejects, rejects_path
from pdtools.files.tables import check_table_name

from .arguments import sentence_files
from .console import message, print_json, progress, warn
from .options import ContextOptions, ModelNames, OnError, RunOptions, SentenceForm, command
from .outputs import check_json_output
from .running import Output, model_settings, read_context
from .stimuli import sheet_of, surprisal_of_table


@command("Print the surprisal of every token or word.")
def surprisal(
    model: ModelNames,
    run: RunOptions,
    reading: ContextOptions,
    inputs: list[str] | None = None,
    output: str = STDIO,
    text: list[str] | None = None,
    source: SentenceForm = "text",
    nats: bool = False,
    words: bool = False,
    entropy: bool = False,
    rank: bool = False,
    parses: bool = False,
    column: list[str] | None = None,
    glue: str | None = None,
    frequencies: str | None = None,
    wordfreq: str | None = None,
    correct_spaces: bool = False,
    on_error: OnError = "fail",
) -> None:
    """Print the surprisal of every token, or of every region of a table of stimuli, in bits.

    The columns are sentence_id (line of the input, from 1), token_id (from 1), token, start and end
    (characters of the sentence), and surprisal. Models that predict the end of a sentence have a row for it.
    The rows of a sentence then sum to its -log p. --parses adds a column with the constituents on the best
    hypothesis' stack after the token, such as "(X the dog) barks".

    hf-data:OWNER/NAME:SPLIT:COLUMN is a data set of the Hugging Face hub, or of a folder: a row is a
    line.

    --entropy and --rank describe the distribution of next tokens before each token: its entropy, and the
    token's rank in it. The entropy of a word is the one before its first token. If a search sums over
    derivations, the distribution is the mixture over the beam.

    With --words, rows are words (word_id, word). In running text, a word stands between spaces ("happy.").
    With --from tokens or treebank, words are the input's ("happy", "."). Words, start and end refer to
    the line as written, and are the same for every model.

    Hugging Face models read a beginning-of-sentence token first, and have no row for the end. With --no-bos,
    the first token has no surprisal and no row.

    With --context, a sentence is read after others, as many whole ones as fit: the sentences of a file, or
    the earlier ones of its document. In running text, a document ends with its file or at a blank line. With
    --stride, a document is read as one text, in windows. Both add the column seen: how many tokens were read
    before. Both work for models of windows (pdtools tapes --layout window) and Hugging Face models, --stride
    only for those without trees. Without either, text too long for a model without trees is read in windows
    that move by half their length.

    A sentence that the model cannot score stops the command. With --on-error skip, it has no rows, and is
    recorded in OUTPUT.rejects.jsonl. Blank lines have no rows. With --from tokens and a model of raw text, a
    token's start and end refer to the words written as running text. TSV is not quoted: in pandas, use
    quoting=3.

    A table of stimuli (.csv with , or ;, .tsv, .xlsx, .parquet) is written with its columns, in the order of
    its rows, once for each --model (-o to .csv, .tsv or .parquet; in TSV a line break in a cell becomes a
    blank). Sentences without a word are listed in OUTPUT.rejects.jsonl. Each row of it is a sentence (column
    sentence, with | or [ ] between regions, if any), a region (item, condition, region, text), or a word
    (word). The command adds the model, the region, its surprisal, and the numbers of its tokens, of unknown
    ones, and of tokens that cross its end. Such tokens count where they begin. Models with trees add the
    expected surprisal of attachments, and the number of constituents closed. With --words, a row is a word,
    with its length, its log frequency (--wordfreq), and all three of the two words before it.

    The work is done in chunks: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler). The result is the same. --resume continues a run that was killed.

    \b
    Example:
      pdtools surprisal stimuli.csv --model runs/pushdown --model hf:gpt2 -o surprisals.csv
      pdtools surprisal sentences.txt --model runs/pushdown -o surprisals.tsv
      pdtools surprisal --text "The horse raced past the barn fell." --model english
      pdtools surprisal --text "The dog barks." --model runs/pushdown --words --parses
      pdtools surprisal sentences.txt --model hf:gpt2 --entropy --rank -o surprisals.tsv
      pdtools surprisal story.txt --model runs/pushdown-windows --context document --words
      pdtools surprisal story.txt --model hf:gpt2 --stride 256

    Input:
        source (--from): Form of the input: text, tokens (words separated by spaces), treebank (words of
            trees), or parts (of pdtools prompts).
        column (NAME=COLUMN): Tables: the column of item, condition, list, sentence (A,B: several), region,
            number, text or word.
        glue: Tables of regions or words: text between them (default: a space).

    Search:
        parses: Add the best incremental parse after each token.

    Output:
        output (-o): A TSV file, or CSV (.csv), also compressed (.gz, .zst); or -.

    Options:
        nats: Print nats instead of bits.
        words: Print a row per word instead of per token.
        entropy: Add the entropy of the distribution of next tokens.
        rank: Add the token's rank in that distribution, from 1.
    """
    check_json_output(run.as_json, output)
    table_file = None if text else sheet_of(inputs, source)
    if table_file is not None:
        return surprisal_of_table(
            table_file,
            model,
            run,
            reading,
            output,
            source=source,
            nats=nats,
            words=words,
            entropy=entropy,
            rank=rank,
            parses=parses,
            columns=column,
            glue=glue,
            frequencies=frequencies,
            wordfreq=wordfreq,
            correct_spaces=correct_spaces,
            on_error=on_error,
        )
    one_model, *others = dict.fromkeys(model)
    if others:
        *first, last = model
        given = f"{', '.join(first)} and {last} are given"
        raise typer.BadParameter(f"--model takes one value: {given} (several go with a table of stimuli)")
    of_tables = {"column": column, "glue": glue, "frequencies": frequencies, "wordfreq": wordfreq}
    for name, value in {**of_tables, "correct-spaces": correct_spaces or None}.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} goes with a table of stimuli (.csv, .tsv, .xlsx, .parquet)")
    if rank and words:
        raise typer.BadParameter("--rank is the rank of a token: it cannot be combined with --words")
    if parses and (entropy or rank):
        raise typer.BadParameter("--parses cannot be combined with --entropy or --rank: use another run")
    if parses and run.trees is not None:
        raise PdtoolsError("--parses cannot be combined with --trees")

    from pdtools.search.contexts import DOCUMENT, with_documents
    from pdtools.search.inputs import count_inputs, read_inputs
    from pdtools.search.scores import Measure
    from pdtools.search.surprisal import Unit, columns, surprisals, write_surprisals

    files = sentence_files(inputs, text, source)
    read = [*files, one_model, run.trees, reading.preceding]
    beside = [str(rejects_path(output) or STDIO)]
    table = Output.check(output, run, folder=False, inputs=read, beside=beside)
    check_table_name(output)
    context = read_context(reading, documents=True)
    measures: tuple[Measure, ...] = (*(("entropy",) if entropy else ()), *(("rank",) if rank else ()))
    settings = model_settings(table.plan, one_model, run, context=context, measures=measures, parses=parses)
    rejects = Rejects(on_error)
    unit: Unit = "nats" if nats else "bits"
    with table.model(settings) as scorer:
        lines = read_inputs(files, source, scorer.settings["text_style"])
        if context.of == DOCUMENT:
            lines = with_documents(lines, scorer.settings["window"])
        results = surprisals(
            lines,
            scorer,
            rejects=rejects,
            unit=unit,
            words=words,
            parses=parses,
            documents=context.stride is not None,
        )
        results = progress(results, total=lambda: count_inputs(files, source), label="sentences")
        of_rows = columns(words=words, parses=parses, seen=context.is_asked_for, measures=measures)
        counts = write_surprisals(results, output, rejects=rejects, of_rows=of_rows)
    warn(scorer.settings)
    if run.as_json:
        from dataclasses import asdict

        from pdtools.provenance import provenance

        rows = "tokens" if not words else "text words" if source == "text" else "words"
        print_json(
            {
                "counts": asdict(counts),
                "rejects": rejects.by_reason(),
                "settings": {**scorer.settings, "unit": unit, "rows": rows},
                "provenance": provenance(
                    {"model": one_model, **run.trees_read, **{name: name for name in inputs or []}}
                ),
            }
        )
    message(f"{counts.scored} of {counts.sentences} sentences scored, surprisal in {unit}")
    for record in rejects:
        message(f"{record['file']}:{record['line']}: no score: {record['reason']}")
