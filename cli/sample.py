"""``pdtools sample``: strings with their trees, drawn from a model."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, atomic_text

from .console import message, print_json, progress, warn
from .options import DeviceOption, ModelOption, ResultOptions, SeedOption, ThreadsOption, option_blocks
from .outputs import check_json_output, check_target
from .panels import output_option


@option_blocks()
def sample(
    model: ModelOption,
    options: ResultOptions,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of strings.")] = 10,
    output: Annotated[str, output_option("--output", "-o", help="A file (.gz, .zst), or -.")] = STDIO,
    strings: Annotated[bool, output_option("--strings", help="Words only, without their trees.")] = False,
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens", min=1, max=10**6, help="Cut longer strings at this length, and count them."
        ),
    ] = 200,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Draw strings with their trees from a model's joint distribution, one per line.

    Trees need a model with an attachment head, or an action model. --strings works with every causal model.
    The empty string is written as the tree (X (-NONE- *)), or as a blank line. The same seed gives the same
    draws. A larger --number only appends more.

    \b
    Example:
      pdtools sample --model runs/pushdown -n 100 --seed 1 > drawn.trees
      pdtools sample --model runs/pushdown -n 5 --strings
    """
    from pdtools.search.model import Model, ModelSettings
    from pdtools.search.sampling import SampleCounts, sample_lines

    check_json_output(options.as_json, output)
    check_target(output, folder=False, overwrite=options.overwrite, inputs=[model])
    drawn_from = Model(ModelSettings(model_dir=model, device=device, threads=threads))
    loaded = drawn_from.loaded
    loaded.model.check_causal()
    if not strings and not loaded.model.has_derivations:
        raise PdtoolsError(
            f"{model}: this model has no attachment head, and so no trees: use --strings to draw strings"
        )
    draws = drawn_from.sample(number, seed=seed, max_tokens=max_tokens)
    counts = SampleCounts()
    lines = sample_lines(draws, loaded.tokenizer, strings=strings, counts=counts)
    with atomic_text(output, overwrite=options.overwrite) as stream:
        for line in progress(lines, total=number, label="strings", quiet=options.quiet):
            stream.write(line + "\n")
    warn(loaded.described)
    if options.as_json:
        from dataclasses import asdict

        from pdtools.provenance import provenance

        print_json(
            {
                "counts": asdict(counts),
                "settings": {**loaded.described, "seed": seed, "max_tokens": max_tokens},
                "provenance": provenance({"model": model}),
            }
        )
    message(
        f"{counts.strings} strings, {counts.tokens} tokens; {counts.empty} empty, {counts.cut} cut",
        quiet=options.quiet,
    )
