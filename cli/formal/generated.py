"""Options and writing of strings, shared by the languages of ``pdtools generate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdtools.files import is_stream

from ..console import print_json, progress
from ..options import ResultOptions
from ..outputs import check_json_output, check_target
from ..panels import output_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pdtools.formal.language import FormalString, Language

NumberOption = Annotated[int, typer.Option("--number", "-n", min=1, help="How many strings.")]
OutputOption = Annotated[
    str, output_option("--output", "-o", help="A file (.gz, .zst), or -; a folder with --shards.")
]
ShardsOption = Annotated[
    bool,
    typer.Option(
        "--shards", help="Write shards with attachments instead of text. (All sets share a tokenizer.)"
    ),
]


def write(
    language: Language,
    number: int,
    seed: int,
    output: str,
    shards: bool,
    options: ResultOptions,
    sources: Sequence[str] = (),
) -> dict[str, int]:
    """Write the strings of any language, read from ``sources``, as the options say; return the counts."""
    from pdtools.formal import string_shards, write_strings

    if shards and is_stream(output):
        raise typer.BadParameter("shards are a folder: name one with -o")
    check_json_output(options.as_json, output)
    check_target(output, folder=shards, overwrite=options.overwrite, inputs=sources, quiet=options.quiet)

    def watch(strings: Iterable[FormalString]) -> Iterable[FormalString]:
        return progress(strings, total=number, label="strings", quiet=options.quiet)

    if not shards:
        return write_strings(language, number, seed, output, overwrite=options.overwrite, watch=watch)
    manifest = string_shards(language, number, seed, output, overwrite=options.overwrite, watch=watch)
    return {name: manifest["counts"][name] for name in ("sentences", "tokens", "most_tokens")}


def report(language: Language, seed: int, counts: dict[str, int], exact: dict[str, Any]) -> None:
    """Print the JSON document of a language's strings.

    Args:
        language, seed: the language, and the seed of the strings.
        counts: from :func:`write`.
        exact: exact values for the language.
    """
    from pdtools.provenance import provenance

    print_json(
        {
            "counts": counts,
            "exact": exact,
            "settings": {"language": language.name, **language.settings, "seed": seed},
            "provenance": provenance(),
        }
    )
