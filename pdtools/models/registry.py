"""Models by name. A new architecture is a config dataclass, a builder, and one entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from pdtools.errors import PdtoolsError
from pdtools.files.typed_values import UnknownKeyError, WrongTypeError, as_fields, missing
from pdtools.models.base import LanguageModel
from pdtools.models.dependency.config import GiltConfig
from pdtools.models.dependency.model import GiltLM
from pdtools.models.grammar.config import (
    DependencyGrammarConfig,
    PlmConfig,
    PlmMaskConfig,
    TransformerGrammarConfig,
)
from pdtools.models.grammar.dependency import DependencyGrammarLM
from pdtools.models.grammar.model import GrammarLM
from pdtools.models.recurrent.config import RecurrentConfig
from pdtools.models.recurrent.model import RecurrentLM
from pdtools.models.rnng.config import RnngConfig, RnngInOrderConfig
from pdtools.models.rnng.model import RnngLM
from pdtools.models.scaffold import ScaffoldConfig, ScaffoldLM
from pdtools.models.transformer.config import TransformerConfig
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.pushdown import PushdownConfig, build_pushdown


class ModelKind(NamedTuple):
    """A configuration dataclass, its builder, and whether several models are computed as one.

    Such models (:meth:`LanguageModel.losses`) draw no random numbers in training: each learns as if alone.
    """

    config_class: type
    build: Callable[[Any], LanguageModel]
    vmapped: bool = False


MOST_LAYERS = 1000

MODELS = {
    "transformer": ModelKind(TransformerConfig, TransformerLM),
    "pushdown": ModelKind(PushdownConfig, build_pushdown),
    "plm": ModelKind(PlmConfig, GrammarLM),
    "plm-mask": ModelKind(PlmMaskConfig, GrammarLM),
    "tg": ModelKind(TransformerGrammarConfig, GrammarLM),
    "dtg": ModelKind(DependencyGrammarConfig, DependencyGrammarLM),
    "rnng": ModelKind(RnngConfig, RnngLM),
    "rnng-in-order": ModelKind(RnngInOrderConfig, RnngLM),
    "sclm": ModelKind(ScaffoldConfig, ScaffoldLM),
    "gilt": ModelKind(GiltConfig, GiltLM),
    "rnn": ModelKind(RecurrentConfig, RecurrentLM, vmapped=True),
}


def model_kind(name: str) -> ModelKind:
    """Look up a kind of model.

    Raises:
        PdtoolsError: if there is no such kind; the message names the known ones.
    """
    if name not in MODELS:
        raise PdtoolsError(f"unknown model {name!r} (known: {', '.join(sorted(MODELS))})")
    return MODELS[name]


def model_name(config: Any) -> str:
    """The name that a configuration's class has here."""
    return next(name for name, kind in MODELS.items() if kind.config_class is type(config))


def make_config(name: str, values: Mapping[str, Any]) -> Any:
    """Make a model configuration from plain values, as a TOML or JSON file holds them.

    Raises:
        PdtoolsError: for an unknown model or key, a missing key, or a value of the wrong type or range.
    """
    config_class = model_kind(name).config_class
    try:
        checked = as_fields(values, config_class)
    except UnknownKeyError as error:
        raise PdtoolsError(
            f"{name} has no setting {error.key!r} (known: {', '.join(sorted(error.known))})"
        ) from None
    except WrongTypeError as error:
        raise PdtoolsError(f"{name}: {error.key} {error}") from None
    if absent := missing(checked, config_class):
        raise PdtoolsError(f"{name}: missing settings: {', '.join(absent)}")
    return config_class(**checked)


class _Unfilled(TorchFunctionMode):
    """A mode that skips random initialization: for tensors without memory, torch would load its compiler."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", None) in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def empty_model(name: str, config: Any) -> LanguageModel:
    """Make a model whose tensors have shapes but no values, and take no memory, whatever their size.

    Raises:
        PdtoolsError: for shapes that no tensor has, and more than ``MOST_LAYERS`` layers.
    """
    if config.layers > MOST_LAYERS:
        raise PdtoolsError(
            f"model configuration: layers must be at most {MOST_LAYERS:,}, not {config.layers:,}"
        )
    try:
        with torch.device("meta"), _Unfilled():
            return build_model(name, config)
    except (RuntimeError, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise PdtoolsError(f"a configuration of impossible size: {reason}") from error


def build_model(name: str, config: Any) -> LanguageModel:
    """Build a model with random weights (from torch's global generator: seed it for repeatable ones)."""
    return model_kind(name).build(config)
