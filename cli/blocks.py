"""``pdtools blocks``: running text into shards."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import Kind, Rejects, count_lines, expand_inputs, is_stream

from .console import message, print_json, progress
from .options import Positive, ResultOptions, command, named_tokenizer
from .running import check_target
from .tapes import TokenizerStyle, chosen_tokenizer, tokenizer_input

SUFFIXES = (".txt", ".tokens", ".raw")


@command("Convert running text into shards, for models without trees.")
def blocks(
    texts: list[str],
    output: str,
    options: ResultOptions,
    length: Positive = 128,
    tokenizer: Annotated[str, typer.Option(callback=named_tokenizer)] = "word",
    vocab_size: Positive | None = None,
    min_count: Positive | None = None,
    lower_case: bool = False,
    text_style: TokenizerStyle | None = None,
) -> None:
    """Convert running text into shards: blocks of a fixed number of tokens, for models without trees.

    \b
    Example:
      pdtools blocks sample/text/sample.txt -o blocks/train
          blocks/train: 19 blocks, 2357 tokens, 2157 words (330 unknown), vocabulary 342
      pdtools blocks valid.txt -o blocks/valid --tokenizer blocks/train
      pdtools blocks wiki.train.raw -o blocks/wiki --tokenizer hf:gpt2 --text-style raw

    All lines but blank ones form one sequence, with end-of-sentence after each line. ROOT precedes each
    block. For validation and test text, use the tokenizer of the training shards.

    Arguments:
        texts (TEXT): Files, folders, globs, hf-data:..., or -.

    Input:
        text_style: Words as in a treebank (ptb, default), or as people write (raw, typed).

    Model:
        tokenizer (word|bpe|DIR): A new one, or that of shards, of a model (hf:gpt2), or of a file.

    Output:
        output (-o DIR): The folder to write.

    Options:
        length: Tokens per block.
        min_count: Rarer words are unknown (default: 2).
    """
    from pdtools.shards.build import blocks_from_files

    if is_stream(output):
        raise typer.BadParameter("shards are a folder: name one with -o")
    files = expand_inputs(texts, SUFFIXES, Kind.TEXT)
    read = [*files, *tokenizer_input(tokenizer)]
    check_target(output, folder=True, overwrite=options.overwrite, inputs=read)
    manifest = blocks_from_files(
        files,
        chosen_tokenizer(tokenizer, vocab_size, min_count, None, text_style, lower_case=lower_case),
        output,
        Rejects("fail"),
        length=length,
        overwrite=options.overwrite,
        watch=lambda name, lines: progress(lines, total=lambda: count_lines(files), label="lines", name=name),
    )
    if options.as_json:
        print_json(manifest)
    counts = manifest["counts"]
    message(
        f"{output}: {counts['sentences']} blocks, {counts['tokens']} tokens, {counts['words']} words"
        f" ({counts['unknown_words']} unknown), vocabulary {manifest['tokenizer']['vocab_size']}"
    )
    for reason, number in manifest["left_out"].items():
        message(f"excluded (see {output}/rejects.jsonl): {number} ({reason})")
