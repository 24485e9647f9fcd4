"""``pdtools tapes``: trees into shards."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pdtools.files import Kind, Rejects, expand_inputs, is_stream, watch_inputs
from pdtools.provenance.hub import check_no_hub_name

from .console import counter, message, print_json
from .options import ChunkOptions, OnError, Positive, command, named_tokenizer
from .running import Output

if TYPE_CHECKING:
    from pdtools.shards import TokenizerSettings
    from pdtools.tokenization import Tokenizer

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees")


TokenizerStyle = Literal["ptb", "raw", "typed"]


Layout = Literal["sentence", "window"]


Documents = Literal["blank", "file", "none"]


Tape = Literal["packed", "none"]


@command("Convert trees into shards: tokens, attachments, stack tapes.")
def tapes(
    trees: list[str],
    output: str,
    run: ChunkOptions,
    tokenizer: Annotated[str, typer.Option(callback=named_tokenizer)] = "word",
    vocab_size: Positive | None = None,
    min_count: Positive | None = None,
    unk: bool | None = None,
    lower_case: bool = False,
    text_style: TokenizerStyle | None = None,
    layout: Layout = "sentence",
    window: Annotated[int | None, typer.Option(min=2)] = None,
    documents: Documents | None = None,
    tape: Tape | None = None,
    binarize: Literal["given", "right", "left"] = "given",
    prompts: str | None = None,
    on_error: OnError = "fail",
) -> None:
    """Convert trees into shards: Parquet files of tokens, attachments, stack tapes and labelled constituents.

    \b
    Example:
      pdtools tapes train.trees -o shards/train
          shards/train: 6000 sentences, 74967 tokens, 74967 words (46 unknown), vocabulary 708, deepest 23
      pdtools tapes valid.trees -o shards/valid --tokenizer shards/train
      pdtools tapes articles/ -o windows --layout window --window 512 --tokenizer bpe

    TREES are trees of a treebank, or those that pdtools parse writes. For validation and test sets, use the
    tokenizer of the training shards.

    Arguments:
        trees (TREES): Files, folders, globs, or -.

    Input:
        text_style: Words as in a treebank (default), as people write, or so with plain quotes.
        layout: Content of a row: a sentence, or as many of a document as fit.
        prompts (FILE): --layout window: the prompts of TREES, from pdtools prompts.

    Model:
        tokenizer (word|bpe|DIR): A new one, or that of shards, of a model (hf:gpt2), or of a file.

    Output:
        output (-o DIR): The folder to write.

    Options:
        min_count: Rarer words are unknown (default: 2, but 1 with --no-unk).
        unk (--unk/--no-unk): word: give unknown words a token, or exclude their sentences.
        window: --layout window: the most positions of a row (tokens and ROOTs).
        documents: Windows: a document ends with its file (default), a blank line, or never.
        tape: Store the stack tapes, or not (default: packed, but none for windows).
        binarize: Keep the groups that trees have, or binarize anew to the right or left.
    """
    from pdtools.jobs import Plan
    from pdtools.prompts.items import read_prompts
    from pdtools.prompts.rows import prompt_shards
    from pdtools.provenance import identify
    from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files
    from pdtools.trees import count_trees, files_beside
    from pdtools.trees.forms import refuse_for

    if is_stream(output):
        raise typer.BadParameter("shards are a folder: name one with -o")
    refuse_for(Kind.TREES, filter(os.path.isfile, trees))
    files = expand_inputs(trees, SUFFIXES, Kind.TREES)
    refuse_for(Kind.TREES, files)
    read = [*files, *tokenizer_input(tokenizer), *([] if prompts is None else [prompts])]
    shards = Output.check(output, run, folder=True, inputs=read)
    rejects = Rejects(on_error)
    used = chosen_tokenizer(tokenizer, vocab_size, min_count, unk, text_style, lower_case=lower_case)
    arcs = files_beside(files, "arcs") if layout == "sentence" else []
    if without := [file for file in files if arcs and not files_beside([file], "arcs")]:
        message(f"no arcs are stored: no file {without[0]}.arcs")
        arcs = []
    settings = ShardSettings(
        factor=binarize,
        constituents="labelled",
        arcs="unlabelled" if arcs else "none",
        tape=tape or "packed",
    )
    if layout == "window":
        if window is None:
            raise typer.BadParameter("--layout window needs --window, the most positions of a row")
        settings = ShardSettings(
            layout="window",
            factor=binarize,
            tape=tape or "none",
            window=window,
            documents=documents or "file",
        )
    elif (window, documents, prompts) != (None, None, None):
        raise typer.BadParameter("--window, --documents and --prompts are for --layout window")
    if prompts is not None:
        if documents is not None:
            raise typer.BadParameter(
                "--prompts cannot be combined with --documents: each prompt is a document"
            )
        if shards.plan != Plan():
            raise typer.BadParameter(
                "--prompts are read by one process: drop --workers, --shard, --scheduler and --resume"
            )
        if isinstance(used, TokenizerSettings):
            raise typer.BadParameter("--prompts need the --tokenizer of a model, or of other shards")
        manifest = prompt_shards(
            files, read_prompts(prompts), used, settings, output, rejects, overwrite=run.overwrite
        )
        if run.as_json:
            print_json(manifest)
        _tell(manifest, output)
        return
    texts = files_beside(files, "text") if used.text_style == "raw" else []
    watch_inputs([*texts, *arcs])
    described = {
        **({"texts": [identify(text) for text in texts]} if texts else {}),
        **({"arc_files": [identify(file) for file in arcs]} if arcs else {}),
        **settings.record(),
        "tokenizer": asdict(used) if isinstance(used, TokenizerSettings) else used.fingerprint,
    }
    with shards.chunks("tapes", **described) as job:
        manifest = shards_from_files(
            files,
            used,
            settings,
            output,
            rejects,
            overwrite=run.overwrite,
            plan=shards.plan,
            job=job,
            watch=lambda name: counter(name, total=lambda: count_trees(files), label="trees"),
        )
    if run.as_json:
        print_json(manifest)
    _tell(manifest, output)


def tokenizer_input(name: str) -> list[str]:
    """The input that ``--tokenizer`` names, if any; a hub name without its prefix is refused."""
    if name in ("word", "bpe"):
        return []
    check_no_hub_name(name)
    return [name]


def chosen_tokenizer(
    name: str,
    size: int | None,
    min_count: int | None,
    unk: bool | None,
    style: TokenizerStyle | None,
    *,
    lower_case: bool = False,
) -> Tokenizer | TokenizerSettings:
    """The tokenizer, or the settings of a new one, from ``--tokenizer`` and its options."""
    from pdtools.shards import TokenizerSettings
    from pdtools.tokenization import Tokenizer

    if lower_case and name != "word":
        raise typer.BadParameter("--lower-case is for --tokenizer word")
    if name not in ("word", "bpe"):
        if (size, min_count, unk) != (None, None, None):
            raise typer.BadParameter("--vocab-size, --min-count and --unk are for --tokenizer word or bpe")
        if style == "typed":
            raise typer.BadParameter("--text-style typed is for --tokenizer bpe")
        return Tokenizer.load(name, style)
    if name == "bpe" and unk is not None:
        raise typer.BadParameter("--unk/--no-unk is for --tokenizer word: bpe knows every word")
    typed = style == "typed"
    if typed and name == "word":
        raise typer.BadParameter("--text-style typed is for --tokenizer bpe")
    return TokenizerSettings(
        kind="word" if name == "word" else "bpe",
        size=size,
        min_count=min_count,
        unk=unk is not False,
        text_style="ptb" if style in (None, "ptb") else "raw",
        lower_case=lower_case,
        typed=typed,
    )


def _tell(manifest: dict[str, Any], output: str) -> None:
    counts = manifest["counts"]
    message(
        f"{output}: {counts['sentences']} sentences, {counts['tokens']} tokens, {counts['words']} words"
        f" ({counts['unknown_words']} unknown), vocabulary {manifest['tokenizer']['vocab_size']},"
        f" deepest {counts['deepest']}"
    )
    if manifest["settings"]["layout"] == "window":
        positions = counts["rows"] * manifest["settings"]["window"]
        filled = (counts["tokens"] + counts["sentences"]) / positions
        message(f"{counts['rows']} windows, {counts['documents']} documents, {filled:.1%} filled")
    if unknown := counts["unknown_labels"]:
        have = "1 sentence has" if unknown == 1 else f"{unknown} sentences have"
        message(
            f"{have} constituents whose labels the tokenizer lacks: action models score these as the"
            " rarest label, others read no labels"
        )
    for reason, number in manifest["left_out"].items():
        message(f"excluded (see {output}/rejects.jsonl): {number} ({reason})")
