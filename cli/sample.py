"""``pdtools sample``: strings with their trees, drawn from a model."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, atomic_text
from pdtools.jobs.devices import pick_device

from .console import message, print_json, progress, warn
from .options import ModelName, Natural, Positive, ResultOptions, Threads, command
from .running import check_json_output, check_target


@command("Draw strings with their trees from a model.")
def sample(
    model: ModelName,
    options: ResultOptions,
    number: Positive = 10,
    output: str = STDIO,
    strings: bool = False,
    max_tokens: Annotated[int, typer.Option(min=1, max=10**6)] = 200,
    seed: Natural = 0,
    device: str = "auto",
    threads: Threads = 0,
) -> None:
    """Draw strings with their trees from a model's joint distribution, one per line.

    \b
    Example:
      pdtools sample --model demo -n 2 --seed 1 --strings
          The uncle will buy these letters and the articles .
          There are some short poems near the museum which were beautiful .
      pdtools sample --model runs/pushdown -n 100 --seed 1 -o drawn.trees

    Trees need a model with an attachment head, or an action model. --strings works with every causal model.
    The same seed gives the same draws, and a larger --number only appends more.

    Output:
        output (-o): A file (.gz, .zst), or -.
        strings: Words only, without their trees.

    Options:
        number (-n): Number of strings.
        max_tokens: Cut longer strings at this length, and count them.
    """
    from pdtools.search.model import Model, ModelSettings
    from pdtools.search.sampling import SampleCounts, sample_lines

    check_json_output(options.as_json, output)
    check_target(output, folder=False, overwrite=options.overwrite, inputs=[model])
    device = pick_device(device, threads)
    drawn_from = Model(ModelSettings(model_dir=model, device=device, threads=threads))
    loaded = drawn_from.loaded
    loaded.model.check_causal()
    if not strings and not loaded.model.derivation_kind.exist:
        raise PdtoolsError(
            f"{model}: this model has no attachment head, and so no trees: use --strings to draw strings"
        )
    draws = drawn_from.sample(number, seed=seed, max_tokens=max_tokens)
    counts = SampleCounts()
    lines = sample_lines(draws, loaded.tokenizer, strings=strings, counts=counts)
    with atomic_text(output, overwrite=options.overwrite) as stream:
        for line in progress(lines, total=number, label="strings"):
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
    message(f"{counts.strings} strings, {counts.tokens} tokens; {counts.empty} empty, {counts.cut} cut")
