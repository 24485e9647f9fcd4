"""A training step (forward and backward) of GPT-2-medium with 12 pushdown layers beside the plain model.

    python benchmarks/pretrained.py [--device cuda --dtype bf16] [--recipe gpt2-small-last6 --positions 512]

The shape is the recipe's, with random weights, GPT-2's vocabulary and our three tokens; windows are as in
``windows.py``. The last figures are an estimate for one GPU (not measured there): the operations of a step of
the plain model, as many tokens as the recipe's in windows of 512, at ``UTILISATION`` of ``GPU_FLOPS``, times
the ratio that was measured here; and 16 bytes for each parameter (float32: weights, gradients, AdamW's means
and squares), with the measured peak for as many windows as fit the rest of ``GPU_GIB`` (an upper bound: the
peak may have gradients in it, and is of float32, where much would be bfloat16).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from measure import EOS, PAD, ROOT, Figure, Options, main, peak_memory, seconds
from train_step import model_of, own_loss, step
from windows import treebank_windows

from pdtools.models import count_parameters
from pdtools.training import read_recipe

VOCABULARY = 50_257 + 3
NO_DROPOUT = {"input_dropout": 0.0, "attention_dropout": 0.0, "output_dropout": 0.0}
# An H100's bfloat16 matrix operations a second, by its maker, and the share of it that trainings reach.
GPU_FLOPS, UTILISATION, GPU_GIB = 989e12, 0.4, 80
ADAMW_BYTES = 16
STEP_WINDOWS, STEP_POSITIONS = 256, 512  # in the paper's stage 1


def operations(parameters: int, trunk: dict[str, Any], positions: int) -> float:
    """Operations of a step of the plain model per token: 6 a parameter that is multiplied with (all but the
    positions' table; the tokens' is the output layer), and the attention's, of which half is masked."""
    multiplied = parameters - trunk["max_length"] * trunk["d_model"]
    return 6 * multiplied + 6 * trunk["layers"] * trunk["d_model"] * positions


def figures(options: Options, recipe: str, positions: int, windows: int) -> Iterator[Figure]:
    """Time and memory, then the estimate."""
    ids = {"vocab_size": VOCABULARY, "pad_id": PAD, "root_id": ROOT, "eos_id": EOS}
    own = {"pushdown_layers", "depth_init"}
    shape = {**read_recipe(recipe).options, **NO_DROPOUT, **ids, "layout": "window"}
    shape["max_length"] = max(shape["max_length"], positions + 1)
    trunk = {name: value for name, value in shape.items() if name not in own}
    rows = treebank_windows(windows, positions, VOCABULARY)
    models = {
        "base": model_of("transformer", options, trunk),
        "pushdown": model_of("pushdown", options, shape),
    }
    batches = {name: model.pack(rows).to(options.device) for name, model in models.items()}
    runs = {name: step(model, batches[name], own_loss) for name, model in models.items()}
    settings = {
        "recipe": recipe,
        "windows": windows,
        "positions_per_window": positions,
        **shape,
        **options.settings,
    }
    label = f"training step, {recipe}, {windows} windows of {positions}"
    parameters = {name: count_parameters(model) for name, model in models.items()}
    times = seconds(runs, options)
    memory = {name: peak_memory(run, options.device) for name, run in runs.items()}
    for what, values, unit in (
        ("parameters", parameters, ""),
        ("time", times, "s"),
        ("peak memory", memory, "MiB"),
    ):
        yield Figure(name=f"{label}, {what}, base", value=values["base"], unit=unit, settings=settings)
        yield Figure(
            name=f"{label}, {what}, pushdown",
            value=values["pushdown"],
            unit=unit,
            ratio=values["pushdown"] / values["base"],
            against="base",
            settings=settings,
        )
    if options.device.startswith("cuda"):
        return
    tokens = STEP_WINDOWS * STEP_POSITIONS
    plain = tokens * operations(parameters["base"], trunk, STEP_POSITIONS) / (UTILISATION * GPU_FLOPS)
    for name, count in parameters.items():
        kept = ADAMW_BYTES * count / 2**30
        window = memory[name] / 2**10 * STEP_POSITIONS / (windows * positions)
        estimate = f"estimate, one GPU, {recipe}, {name}"
        yield Figure(
            name=f"{estimate}, a step of {STEP_WINDOWS} windows of {STEP_POSITIONS}",
            value=plain * times[name] / times["base"],
            unit="s",
            settings=settings,
        )
        yield Figure(name=f"{estimate}, weights and AdamW", value=kept, unit="GiB", settings=settings)
        yield Figure(name=f"{estimate}, a window, float32", value=window, unit="GiB", settings=settings)
        fit = int((GPU_GIB - kept) / window)
        yield Figure(name=f"{estimate}, windows that fit", value=fit, unit="", settings=settings)


if __name__ == "__main__":
    own_options = argparse.ArgumentParser(add_help=False)
    own_options.add_argument("--recipe", default="gpt2-medium-last12")
    own_options.add_argument("--positions", type=int, default=256)
    own_options.add_argument("--windows", type=int, default=2)
    mine, sys.argv[1:] = own_options.parse_known_args()
    main(__doc__, lambda options: figures(options, **vars(mine)), repeats=3)
