"""A check that a model fits in a machine's memory, before any of it is allocated."""

from __future__ import annotations

from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.jobs.devices import memory_of
from pdtools.models import count_parameters, empty_model
from pdtools.training.parallel import Distribution
from pdtools.training.recipe import Recipe

_FLOAT_BYTES = 4


def check_memory(recipe: Recipe, config: Any, device: str, distribution: Distribution) -> None:
    """Refuse a model that does not fit: weights, gradients and the optimizer's averages, without activations.

    Args:
        recipe: the run's recipe.
        config: the model's complete configuration.
        device: the device for training.
        distribution: the processes that train together: with ``fsdp`` each makes the whole model, but has
            only a part of it on its device.

    Raises:
        PdtoolsError: with the number of parameters and the available memory.
    """
    n_parameters = count_parameters(empty_model(recipe.model, config))
    weights = _FLOAT_BYTES * n_parameters
    in_training = weights * (2 if recipe.train.optimizer == "sgd" else 4)
    wanted = [("cpu", in_training if device == "cpu" else weights)]
    if device != "cpu" and distribution != "fsdp":
        wanted.append((device, in_training))
    for place, needed in wanted:
        if needed > (there := memory_of(place)):
            raise PdtoolsError(
                f"model configuration: {n_parameters:,} parameters take {needed / 2**30:,.1f} GiB,"
                f" but there are {there / 2**30:,.1f} GiB ({place}): choose a smaller model"
            )
