"""``pdtools blocks``: running text into shards."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import Kind, Rejects, count_lines, expand_inputs, is_stream

from .console import message, print_json, progress
from .options import (
    JsonOption,
    LowerCaseOption,
    OverwriteOption,
    QuietOption,
    VocabSizeOption,
    named_tokenizer,
)
from .outputs import check_target
from .panels import input_option, model_option, output_option
from .tapes import TokenizerStyle, chosen_tokenizer, tokenizer_input

SUFFIXES = (".txt", ".tokens", ".raw")


def blocks(
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Files, folders, globs, hf-data:..., or -.")
    ],
    output: Annotated[str, output_option("--output", "-o", help="The folder to write.")],
    length: Annotated[int, typer.Option("--length", min=1, help="Tokens per block.")] = 128,
    tokenizer: Annotated[
        str,
        model_option(
            "--tokenizer",
            metavar="word|bpe|DIR",
            callback=named_tokenizer,
            help="Make one from this text; or use that of shards, of a model (hf:gpt2), or of a file.",
        ),
    ] = "word",
    vocab_size: VocabSizeOption = None,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="Rarer words are unknown (default: 2).")
    ] = None,
    lower_case: LowerCaseOption = False,
    text_style: Annotated[
        TokenizerStyle | None,
        input_option(
            "--text-style", help="ptb: words as in a treebank (default). raw, typed: ordinary text."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Convert running text into shards: blocks of a fixed number of tokens, for models without trees.

    Words are separated by spaces. Blank lines are ignored. All other lines form one sequence, with
    end-of-sentence after each line. ROOT precedes each block. For validation and test text, use the tokenizer
    of the training shards, or a pretrained model's. In folders, files ending in .txt, .tokens, .raw are
    read (also with .gz, .zst). hf-data:OWNER/NAME:SPLIT:COLUMN is a data set of the Hugging Face hub, or of a
    folder: a row is a line.

    \b
    Example:
      pdtools blocks wiki.train.raw -o blocks/train --tokenizer hf:gpt2 --text-style raw
      pdtools blocks ptb.train.txt -o blocks/train --tokenizer bpe --vocab-size 8000
      pdtools blocks ptb.valid.txt -o blocks/valid --tokenizer blocks/train
    """
    from pdtools.shards.blocks import blocks_from_files

    if is_stream(output):
        raise typer.BadParameter("shards are a folder: name one with -o")
    files = expand_inputs(texts, SUFFIXES, Kind.TEXT)
    read = [*files, *tokenizer_input(tokenizer)]
    check_target(output, folder=True, overwrite=overwrite, inputs=read, quiet=quiet)
    manifest = blocks_from_files(
        files,
        chosen_tokenizer(tokenizer, vocab_size, min_count, None, text_style, lower_case=lower_case),
        output,
        Rejects("fail"),
        length=length,
        overwrite=overwrite,
        watch=lambda name, lines: progress(
            lines, total=lambda: count_lines(files), label="lines", quiet=quiet, name=name
        ),
    )
    if as_json:
        print_json(manifest)
    counts = manifest["counts"]
    message(
        f"{output}: {counts['sentences']} blocks, {counts['tokens']} tokens, {counts['words']} words"
        f" ({counts['unknown_words']} unknown), vocabulary {manifest['tokenizer']['vocab_size']}",
        quiet=quiet,
    )
    for reason, number in manifest["left_out"].items():
        message(f"excluded (see {output}/rejects.jsonl): {number} ({reason})", quiet=quiet)
