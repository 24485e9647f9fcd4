"""The recipe of a run: model and training, from a TOML file and ``--set``, with every key checked."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.typed_values import TomlFiles, UnknownKeyError, WrongTypeError, as_field, settings_of
from pdtools.models import model_kind
from pdtools.models.initial import initial_shape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

C = TypeVar("C")

RECIPES = TomlFiles("", "recipe")
_KEEP_AT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([kM]?) ?(steps|words)")
_MULTIPLES = {"": 1, "k": 1_000, "M": 1_000_000}
_SMALLEST, _LARGEST = math.ulp(0), sys.float_info.max
# Limits of settings: the least and the greatest value.
_RANGES: dict[str, tuple[float, float, tuple[str, ...]]] = {
    "at least 1": (
        1,
        _LARGEST,
        ("steps", "accumulate", "treereg_every", "eval_every", "log_every", "decay_patience"),
    ),
    "above 0": (_SMALLEST, _LARGEST, ("learning_rate", "embedding_rate", "eps")),
    "0 or more": (
        0,
        _LARGEST,
        (
            *("head_warmup_steps", "warmup_steps", "weight_decay", "clip", "batch_tokens", "batch_sentences"),
            *("attachment_weight", "answer_weight", "treereg_weight", "arc_weight", "count_weight"),
            *("patience", "sample_parses", "seed"),
        ),
    ),
    "from 0 to 1": (0, 1, ("min_learning_rate_ratio",)),
    "above 0 and at most 1": (_SMALLEST, 1, ("mask_share", "decay")),
    "from 0 to below 1": (0, math.nextafter(1, 0), ("betas",)),
    "below 2**63": (-_LARGEST, 2**63 - 1, ("seed",)),
}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of training. A *step* is one update of the weights, from ``accumulate`` batches.

    The loss of a step is ``(token NLL + attachment_weight × attachment NLL) / tokens``, sums over all
    batches of the step, in nats; at weight 1 it is the negative log of the joint p(x, y) per token. With
    ``normalize = "sentence"`` it is divided by the sentences instead: summed over time, mean over a batch.

    Attributes:
        steps: updates of the weights.
        learning_rate: the highest learning rate.
        embedding_rate: factor on it for embeddings.
        head_warmup_steps: first steps, in which only the attachment head learns (a new one on a trained
            model).
        optimizer: ``muon``: matrices in a transformer's blocks, with AdamW for the rest.
        min_learning_rate_ratio: share of the rate at which ``cosine`` and ``linear`` end.
        warmup_steps: updates of linear warm-up from 0.
        schedule: after the warm-up; ``plateau`` multiplies the rate by ``decay`` after each
            ``decay_patience`` evaluations without a better validation loss.
        decay, decay_patience: for ``plateau``.
        weight_decay: on matrices, not on embeddings, norms and biases.
        betas: AdamW's decay rates.
        eps: AdamW's eps.
        clip: largest norm of the gradient; 0: any.
        batch_tokens: most positions in a batch, padding included; 0: no limit.
        batch_sentences: most sentences in a batch; 0: no limit.
        batches: rows of similar lengths, others in every epoch (``bucketed``; with ``batch_sentences`` as
            limit, tokens of long sentences weigh less); rows as the shards have them, only batches are
            shuffled (``stored``); or ``batch_tokens`` of ``batch_sentences`` parallel streams of all text
            (``stream``).
        accumulate: batches in one step.
        normalize: the divisor of a step's loss.
        attachment_weight: weight of the attachment loss.
        loss: for prompts: on all tokens and attachments, or on the answer's tokens.
        answer_weight: weight of the answer's tokens in prompts.
        treereg_weight: weight of TreeReg's loss (``treereg_layer``).
        treereg_every: steps from one with that loss to the next.
        arc_weight: weight of GiLT's loss of arcs.
        count_weight: weight of GiLT's loss of counts.
        eval_every: steps between evaluations, which write ``last/``.
        keep_at: moments whose weights are kept: ``500 steps``, ``250k words``, ``1M words`` read.
        patience: evaluations without a better validation loss before an early stop; 0: never.
        log_every: steps between lines in ``metrics.jsonl``.
        sample_parses: validation sentences parsed at each evaluation (``samples.jsonl``); 0: none.
        mask_share: share of tokens that masked models predict.
        masking: the mask for 80% of them, random tokens for 10%; or the mask for all.
        precision: ``bf16`` is mixed precision; ``auto``: bf16 on a GPU that has it.
        seed: for first weights, order of batches, and dropout.
    """

    steps: int = 10_000
    learning_rate: float = 3e-4
    embedding_rate: float = 1.0
    head_warmup_steps: int = 0
    optimizer: Literal["adamw", "muon", "sgd"] = "adamw"
    min_learning_rate_ratio: float = 0.1
    warmup_steps: int = 500
    schedule: Literal["cosine", "linear", "constant", "plateau"] = "cosine"
    decay: float = 0.9
    decay_patience: int = 5
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float = 1.0
    batch_tokens: int = 4096
    batch_sentences: int = 0
    batches: Literal["bucketed", "stored", "stream"] = "bucketed"
    accumulate: int = 1
    normalize: Literal["token", "sentence"] = "token"
    attachment_weight: float = 1.0
    loss: Literal["all", "answer"] = "all"
    answer_weight: float = 1.0
    treereg_weight: float = 1.0
    treereg_every: int = 10
    arc_weight: float = 0.4
    count_weight: float = 0.4
    eval_every: int = 500
    keep_at: tuple[str, ...] = ()
    patience: int = 0
    log_every: int = 50
    sample_parses: int = 3
    mask_share: float = 0.15
    masking: Literal["bert", "mask"] = "bert"
    precision: Literal["auto", "float32", "bf16"] = "auto"
    seed: int = 1

    @property
    def may_go_on(self) -> bool:
        """Return whether a run can be given more steps: no learning rate depends on their number."""
        return self.schedule in ("constant", "plateau")

    def kept_at(self, unit: Literal["steps", "words"]) -> frozenset[int]:
        """The numbers of ``keep_at`` in one unit.

        Raises:
            PdtoolsError: if an entry is no number of steps or words.
        """
        found = set()
        for point in self.keep_at:
            parts = _KEEP_AT.fullmatch(point)
            number = Decimal(0) if parts is None else Decimal(parts[1]) * _MULTIPLES[parts[2]]
            if parts is None or number < 1 or number % 1:
                raise PdtoolsError(f"train.keep_at: {point!r} must be such as '500 steps' or '1M words'")
            if parts[3] == unit:
                found.add(int(number))
        return frozenset(found)

    def __post_init__(self) -> None:
        for wanted, (least, most, names) in _RANGES.items():
            for name in names:
                value = getattr(self, name)
                if not all(least <= each <= most for each in (value if name == "betas" else [value])):
                    raise PdtoolsError(f"train.{name} must be {wanted}, not {value}")
        self.kept_at("steps")
        if not (self.batch_tokens or self.batch_sentences):
            raise PdtoolsError(
                "train.batch_tokens and train.batch_sentences are both 0: give a batch one limit"
            )
        if self.batches == "stream" and not 0 < self.batch_sentences <= self.batch_tokens:
            raise PdtoolsError(
                "train.batches stream: batch_sentences is the number of streams,"
                " and batch_tokens must be at least as large"
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment: a model's name, the options of its configuration that were given, and the training.

    ``options`` is checked against the model's configuration class by :func:`read_recipe`; missing options
    are the class's defaults, or come from the tokenizer (the vocabulary). ``source`` is the bundled name or
    the file of the recipe, before any settings.
    """

    model: str = "pushdown"
    options: Mapping[str, Any] = field(default_factory=dict)
    train: TrainConfig = field(default_factory=TrainConfig)
    source: str | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        """The recipe as ``run.json`` keeps it."""
        return {"model": self.model, "config": dict(self.options), "train": dataclasses.asdict(self.train)}


def read_recipe(
    source: str | None = None,
    *,
    model: str | None = None,
    settings: Sequence[str] = (),
    grid: Sequence[str] = (),
    init: str | Path | None = None,
) -> Recipe:
    """Read a TOML recipe and apply ``key=value`` settings to it.

    The file has ``model`` (a name in the registry) and two tables: ``[config]``, fields of the model's
    configuration, and ``[train]``, fields of :class:`TrainConfig`.

    Args:
        source: a bundled name (``tiny``) or the path of a TOML file; None for the defaults alone.
        model: the model to train, in place of the file's. Options that it does not have are dropped, so that
            one file serves a model and its baseline.
        settings: ``config.layers=4``, ``train.steps=100``: typed by the field that they set.
        grid: further settings, for one run of a sweep.
        init: a model whose weights training starts from (:func:`pdtools.models.initial.initial_shape`). Its
            options override the file's, but not the settings; if neither the file nor ``model`` names a kind
            of model, the checkpoint's is taken.

    Raises:
        InputError: an unknown key, a value of the wrong type, or a file that is not TOML.
        PdtoolsError: an unknown model, or a value out of range.
    """
    kind, shape = (None, {}) if init is None else initial_shape(init)
    table = {} if source is None else RECIPES.read(source)
    recipe = recipe_from_table(table if kind is None else {"model": kind, **table}, source)
    name = model or recipe.model
    classes = {"config": model_kind(name).config_class, "train": TrainConfig}
    options = {**recipe.options, **shape}
    known = {field.name for field in settings_of(classes["config"])}
    given = {
        "config": {key: value for key, value in options.items() if key in known},
        "train": dataclasses.asdict(recipe.train),
    }
    for option, setting in [*(("--set", each) for each in settings), *(("--grid", each) for each in grid)]:
        section, key, text = _split_setting(option, setting)
        given[section][key] = convert(_toml_value(text), classes[section], key, section, option)
    train = TrainConfig(**given["train"])
    return Recipe(model=name, options=given["config"], train=train, source=recipe.source)


def recipe_from_table(table: Mapping[str, Any], place: str | None) -> Recipe:
    """A recipe from the content of a TOML or JSON file, with every key and type checked.

    Raises:
        InputError: an unknown key, or a value of the wrong type, at ``place``.
        PdtoolsError: an unknown model, or a value out of range.
    """
    for key in table.keys() - {"model", "config", "train"}:
        raise InputError(f"unknown key {key} (valid: model, config, train)", file=place)
    name = table.get("model", Recipe.model)
    if not isinstance(name, str):
        raise InputError("model must be a string", file=place)
    converted = {}
    for section, config_class in (("config", model_kind(name).config_class), ("train", TrainConfig)):
        values = table.get(section, {})
        if not isinstance(values, dict):
            raise InputError(f"{section} must be a table", file=place)
        converted[section] = {
            key: convert(value, config_class, key, section, place) for key, value in values.items()
        }
    train = TrainConfig(**converted["train"])
    return Recipe(model=name, options=converted["config"], train=train, source=place)


def config_settings(settings: Sequence[str]) -> dict[str, Any]:
    """The values of settings ``config.KEY=VALUE``, types not checked.

    Raises:
        PdtoolsError: for another setting.
    """
    found = {}
    for setting in settings:
        section, key, text = _split_setting("--set", setting)
        if section != "config":
            raise PdtoolsError(f"--set {setting}: only config.KEY=VALUE here")
        found[key] = _toml_value(text)
    return found


def _split_setting(option: str, setting: str) -> tuple[str, str, str]:
    key, equals, value = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and section in ("config", "train")):
        raise PdtoolsError(f"{option} {setting}: write config.KEY=VALUE or train.KEY=VALUE")
    return section, name, value.strip()


def _toml_value(text: str) -> Any:
    """A value as TOML writes it; anything else is a plain string, so that strings need no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def convert(value: Any, config_class: type, key: str, section: str, place: str | None = None) -> Any:
    """Check a value against the type of a dataclass's field, and convert it (lists to tuples, 3 to 3.0).

    Raises:
        InputError: no such field, or a value of another type.
    """
    try:
        return as_field(value, config_class, key)
    except UnknownKeyError as error:
        valid = ", ".join(error.known)
        raise InputError(f"unknown key {section}.{key} (valid: {valid})", file=place) from None
    except WrongTypeError as error:
        raise InputError(f"{section}.{key} {error}", file=place) from None
