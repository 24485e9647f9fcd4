"""Training of a model from data: the work of ``pdtools train``."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pdtools.errors import PdtoolsError, explained_memory_errors
from pdtools.files import REJECTS_FILE, Rejects, Unchanged, check_output
from pdtools.jobs.devices import device_for, memory_of, warn_of_slow_bf16
from pdtools.models import (
    LanguageModel,
    LoadedModel,
    build_model,
    count_parameters,
    empty_model,
    load_checkpoint,
    make_config,
    model_kind,
)
from pdtools.models.initial import Initialized, initialize_from, options_for, read_initial
from pdtools.models.scaffold import ScaffoldConfig
from pdtools.provenance import fingerprint, provenance
from pdtools.provenance.origin import code_digest
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer
from pdtools.training.batches import TrainingInput
from pdtools.training.distributed import ALONE, Distribution, ParallelModel, Ranks, seed_rank
from pdtools.training.interruption import Interruption
from pdtools.training.loop import Listener, NullListener, TrainingLoop
from pdtools.training.loss import check_weights
from pdtools.training.recipe import Recipe
from pdtools.training.run_folder import RunFolder
from pdtools.training.samples import ParseSamples, SampleLog, pick_samples
from pdtools.training.shard_input import Sentences, ShardInput, open_parsed

LESS_MEMORY = "lower train.batch_tokens or train.batch_sentences (train.accumulate makes up for it)"
_FLOAT_BYTES = 4
_NO_LABELS = (
    "model {} needs labelled constituents, which these shards do not have: make them again with pdtools tapes"
)
_FROM_TOKENIZER = ("vocab_size", "pad_id", "root_id", "eos_id", "n_labels")


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run, locked against other processes, that is ready to be trained.

    Attributes:
        loop: the training loop.
        output: its folder.
        recipe: the recipe with every default.
        already_finished: whether there was nothing left to do when it was opened.
        resumed_from: the step it was at then; None for a new run.
        train_count: sentences; None: endless.
        valid_count: None without validation.
        rejects: excluded sentences.
        relabelled: validation sentences with labels that training lacks; each such label is scored as the
            rarest one.
        initialized: the weights that a new run took from its initial model; None without one.
        other_code: a line that says so if the run goes on under other code of pdtools than before.
    """

    loop: TrainingLoop
    output: str
    recipe: Recipe
    already_finished: bool
    resumed_from: int | None
    train_count: int | None
    valid_count: int | None
    rejects: Rejects
    relabelled: int
    initialized: Initialized | None
    other_code: str | None

    def train(self) -> dict[str, Any]:
        """Train until the end or a stop; see :func:`train`."""
        if not self.already_finished:
            with explained_memory_errors(LESS_MEMORY):
                self.loop.run()
        return self.report()

    def report(self) -> dict[str, Any]:
        """The result of :func:`train`.

        Keys:
            recipe: a bundled name, a file, ``default``, or the run's ``run.json`` after ``--resume``.
            finished: ``steps``, ``patience``, or null if the run was stopped.
            step, steps: reached, and planned.
            best_step, best: step and scores of the best validation; null and ``{}`` without ``--valid``.
        """
        state = self.loop.state
        return {
            "output": self.output,
            "model": self.recipe.model,
            "recipe": self.recipe.source or "default",
            "parameters": count_parameters(self.loop.model),
            "processes": self.loop.ranks.size,
            "finished": state.finished,
            "already_finished": self.already_finished,
            "resumed_from": self.resumed_from,
            "step": state.step,
            "steps": self.recipe.train.steps,
            "epoch": state.epoch,
            "seconds": round(state.seconds, 3),
            "best_step": None if self.valid_count is None else state.best_step,
            "best": state.best_scores,
            "counts": {
                "sentences": {"train": self.train_count}
                | ({} if self.valid_count is None else {"valid": self.valid_count}),
                "left_out": self.rejects.by_reason(),
                "relabelled": self.relabelled,
                "padding": round(self.loop.padding, 4),
            },
            "time": {
                "steps": round(state.step_seconds, 3),
                "loading": round(state.loading_seconds, 3),
                "other": round(state.seconds - state.step_seconds, 3),
            },
        }


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of a run, besides its data, folder and recipe.

    Attributes:
        valid: shards that choose the best checkpoint, made with the same tokenizer.
        treereg_shards: shards with the same tokenizer that are used only for TreeReg's loss; None:
            the training shards.
        init: a folder of Hugging Face's GPT-2 or RoBERTa, a checkpoint or a run, which gives the shape of the
            model and its first weights, except those that it lacks. The recipe overrides its options.
        device: ``cpu``, ``cuda``, …
        resume: from ``last/`` in the run's folder; start if there is none.
        overwrite: replace an earlier run.
        on_error: at a sentence longer than the model takes: ``fail``, or ``skip`` it (``rejects.jsonl``).
        listener: receives progress reports.
        parse_samples: the function that parses sample sentences (``train.sample_parses``), such as
            :func:`pdtools.search.decoding.parse_samples`; None: they are not parsed.
        stop: asked between steps: the run writes ``last/`` and ends, to be resumed; one rank's is enough.
        ranks: the processes that train together (:func:`~pdtools.training.distributed.torchrun_ranks`).
        distribution: how they divide the work (:class:`~pdtools.training.distributed.ParallelModel`).
    """

    valid: str | Path | None = None
    treereg_shards: str | Path | None = None
    init: str | Path | None = None
    device: str = "cpu"
    resume: bool = False
    overwrite: bool = False
    on_error: str = "fail"
    listener: Listener | None = None
    parse_samples: ParseSamples | None = None
    stop: Callable[[], bool] = lambda: False
    ranks: Ranks = ALONE
    distribution: Distribution = "ddp"


def train(
    data: str | Path | TrainingInput, output: str | Path, recipe: Recipe | None = None, **options: Any
) -> dict[str, Any]:
    """Train a model, or resume a run that was stopped.

    Seeds torch's global random generators. A resumed run ends with the weights that it would have had
    without the stop: to the bit on a CPU, with the same machine, library versions and number of threads.
    On a GPU, parallel sums have no fixed order, so no two runs agree to the bit.

    All ranks that train together call this, with the same arguments (but their own device) and the same
    folder. A batch is then divided among all ranks: without dropout, weights and losses equal those of a
    single process, but for rounding. A run can resume with another number of ranks.

    Args:
        data: a folder of shards that ``pdtools tapes`` wrote, or another input, with validation data of
            its own.
        output: the run's folder.
        recipe: the model and its training; None: the run's own when resuming, else the defaults.
        options: the fields of :class:`TrainOptions`.

    Returns:
        A JSON-ready report: ``finished`` is ``steps``, ``patience``, or None if the run was stopped;
        ``recipe`` the source of the recipe (``default``: none); ``best_step`` None without validation;
        ``time`` has the seconds spent on steps, the part of them spent waiting for batches, and the
        seconds spent on everything else (evaluation, checkpoints, the log).

    Raises:
        PdtoolsError: unusable data or options, another run in the same folder, a file of the run that is
            damaged, a loss that is no longer finite, or not enough memory.
    """
    with open_run(data, output, recipe, TrainOptions(**options)) as run:
        return run.train()


@contextlib.contextmanager
def open_run(
    data: str | Path | TrainingInput,
    output: str | Path,
    recipe: Recipe | None = None,
    options: TrainOptions = TrainOptions(),
) -> Iterator[OpenRun]:
    """Open a run for training while the block runs: :func:`train` up to the first step.

    The first arguments are as for :func:`train`.

    Raises:
        PdtoolsError: as :func:`train`.
    """
    folder, valid, init, ranks = RunFolder(output), options.valid, options.init, options.ranks
    with folder.locked() if ranks.is_main else contextlib.nullcontext():
        named = [data, valid] if isinstance(data, (str, Path)) else [*data.files.values()]
        read = [str(path) for path in (*named, options.treereg_shards, init) if path is not None]
        if ranks.is_main and not options.resume:
            check_output(output, overwrite=options.overwrite, folder=True, inputs=read)
        unchanged = Unchanged(read)
        resumes = ranks.largest(int(ranks.is_main and options.resume and folder.recover())) > 0
        if recipe is None:
            recipe = folder.recipe() if options.resume and folder.exists() else Recipe()
        if not isinstance(data, (str, Path)) and valid is not None:
            raise PdtoolsError("validation shards are only for training shards; other data have their own")
        inputs = ShardInput(data, valid) if isinstance(data, (str, Path)) else data
        files, identity = {**inputs.files}, {**inputs.identity}
        parsed = None
        if options.treereg_shards is not None:
            layout = str(inputs.settings.get("layout"))
            parsed = open_parsed(options.treereg_shards, inputs.tokenizer, layout)
            files["treereg"], identity["treereg"] = options.treereg_shards, parsed.sha256
        if init is not None:
            files["init"], identity["init"] = init, fingerprint(init)
        pretrained = None if init is None else read_initial(init, recipe.model, inputs.tokenizer)
        if pretrained is not None:
            taken = options_for(recipe.model, pretrained)
            recipe = dataclasses.replace(recipe, options={**taken, **recipe.options})
        if issubclass(model_kind(recipe.model).config_class, ScaffoldConfig):
            runs = _runs(inputs)
            if not resumes and tuple(recipe.options.get("runs", runs)) != runs:
                raise PdtoolsError("config.runs is taken from the training shards: leave it out")
            recipe = dataclasses.replace(recipe, options={**recipe.options, "runs": runs})
        recipe, config = complete_recipe(_with_layout(recipe, inputs.settings), inputs.tokenizer)
        if resumes:
            folder.check_same(recipe, identity)

        check_memory(recipe, config, options.device, options.distribution)
        torch.manual_seed(recipe.train.seed)
        model = load_checkpoint(folder.last).model if resumes else build_model(recipe.model, config)
        model.use_tokenizer(inputs.tokenizer)
        device = device_for(options.device, needs_float64=model.needs_float64)
        if recipe.train.precision == "bf16" and ranks.is_main:
            warn_of_slow_bf16(device, instead='train.precision = "float32"')
        initialized = None
        if init is not None and pretrained is not None and not resumes:
            initialized = initialize_from(model, pretrained, init)
        if not ranks.is_main:
            seed_rank(recipe.train.seed, ranks.rank, step=0)
        rejects = Rejects(options.on_error)
        _check_treereg(model, parsed, inputs.settings)
        check_weights(recipe.train, model, inputs.settings)
        train_set, valid_set = inputs.open(model, recipe.train, rejects)
        beside = {} if parsed is None else {"treereg": Sentences(parsed, model, rejects=rejects)}
        parallel = ParallelModel(model, device, ranks, options.distribution)
        samples = None
        if ranks.is_main and parallel.is_whole and isinstance(valid_set, Sentences):
            config_of_checkpoint = {"model": recipe.model, "shards": dict(inputs.settings)}
            loaded = LoadedModel(parallel.model, inputs.tokenizer, config_of_checkpoint, folder.path)
            samples = _sample_log(loaded, valid_set, recipe.train.sample_parses, options.parse_samples)
        loop = TrainingLoop(
            folder,
            parallel,
            recipe.train,
            train_set,
            valid_set,
            beside,
            tokenizer=inputs.tokenizer,
            data_settings=inputs.settings,
            device=device,
            listener=options.listener if options.listener is not None and ranks.is_main else NullListener(),
            samples=samples,
            stop=options.stop,
            resume=resumes,
        )
        resumed_from = loop.state.step if resumes else None
        already_finished = loop.state.finished is not None
        other_code = None
        if isinstance(options.stop, Interruption):
            options.stop.begin_noting()
        if ranks.is_main:
            made = provenance(files)
            made["code"]["digest"] = code_digest()
            unchanged.check()  # from now on their contents are in memory
            if not resumes:
                folder = loop.folder = folder.create(overwrite=options.overwrite or options.resume)
                folder.describe(recipe, identity, made, initialized)
            elif not already_finished:
                other_code = folder.other_code(made)
                folder.record_resumption(loop.state.step, recipe, made)
            if len(rejects):
                rejects.write(folder.path / REJECTS_FILE)
        try:
            yield OpenRun(
                loop=loop,
                output=str(output),
                recipe=recipe,
                already_finished=already_finished,
                resumed_from=resumed_from,
                train_count=train_set.count,
                valid_count=None if valid_set is None else valid_set.count,
                rejects=rejects,
                relabelled=valid_set.shards.relabelled if isinstance(valid_set, Sentences) else 0,
                initialized=initialized,
                other_code=other_code,
            )
        finally:
            if ranks.is_main and loop.folder.replaces is not None:
                RunFolder(output).remove_stale()


def _sample_log(
    loaded: LoadedModel, valid_set: Sentences, number: int, parse: ParseSamples | None
) -> SampleLog | None:
    """The log of a few validation sentences' parses; None if there are none, or the model does not parse."""
    if parse is None or not (loaded.model.derivation_kind.exist or loaded.model.has_treereg):
        return None
    samples = pick_samples(valid_set.shards, valid_set.rows.tolist(), number)
    return SampleLog(loaded, samples, parse) if samples else None


def _check_treereg(model: LanguageModel, parsed: ShardSet | None, settings: Mapping[str, Any]) -> None:
    """Refuse trees that no loss uses, and TreeReg without trees."""
    if parsed is not None and not model.has_treereg:
        raise PdtoolsError(
            "--treereg-shards is for models with TreeReg (--model transformer --set config.treereg_layer=N)"
        )
    has_trees = settings.get("layout") in ("sentence", "window") and settings.get("prompts") is None
    if parsed is None and model.has_treereg and not has_trees:
        lacking = (
            "have no trees" if settings.get("prompts") is None else "are prompts, whose trees are not learned"
        )
        raise PdtoolsError(
            f"config.treereg_layer: these data {lacking}: name shards with pdtools train --treereg-shards"
        )
    if parsed is not None and model.derivation_kind.exist:
        raise PdtoolsError(
            "--treereg-shards is for models without attachment_head, which would learn there too"
        )


def _runs(inputs: TrainingInput) -> tuple[str, ...]:
    """The runs of actions that a scaffold distinguishes.

    Raises:
        PdtoolsError: if these data have no labelled constituents.
    """
    if not isinstance(inputs, ShardInput) or not inputs.has_constituents:
        raise PdtoolsError(_NO_LABELS.format("sclm"))
    return inputs.runs


def _with_layout(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with the data's layout, which is the model's too.

    Raises:
        PdtoolsError: if it names another one, or the model does not read windows.
    """
    if settings.get("prompts") == "numbers":
        recipe = dataclasses.replace(recipe, options={**recipe.options, "regression": True})
    layout = "window" if settings.get("layout") == "window" else "sentence"
    names = {f.name for f in dataclasses.fields(model_kind(recipe.model).config_class)}
    if (named := recipe.options.get("layout", layout)) != layout:
        raise PdtoolsError(f"config.layout is {named}, but {layout} in the training shards: leave it out")
    if layout == "sentence":
        return recipe
    if "layout" not in names:
        raise PdtoolsError(f"model {recipe.model} does not read windows (pdtools tapes --layout sentence)")
    return dataclasses.replace(recipe, options={**recipe.options, "layout": layout})


def complete_recipe(recipe: Recipe, tokenizer: Tokenizer) -> tuple[Recipe, Any]:
    """Fill in settings that the tokenizer determines, and every default.

    Returns:
        The recipe with the model's whole configuration, and that configuration.

    Raises:
        PdtoolsError: if the recipe and the tokenizer disagree.
    """
    options = dict(recipe.options)
    names = {f.name for f in dataclasses.fields(model_kind(recipe.model).config_class)}
    for key in _FROM_TOKENIZER:
        if key in names:
            ours = getattr(tokenizer, key)
            if key == "n_labels" and not ours:
                raise PdtoolsError(_NO_LABELS.format(recipe.model))
            if options.setdefault(key, ours) != ours:
                raise PdtoolsError(
                    f"config.{key} is {options[key]}, but {ours} in the shards' tokenizer: leave it out"
                )
    config = make_config(recipe.model, options)
    return dataclasses.replace(recipe, options=dataclasses.asdict(config)), config


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
