"""The training loop: batches in, ``best/`` and ``last/`` out; a stop and resumption leave no trace."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from pdtools.errors import PdtoolsError
from pdtools.files import atomic_directory
from pdtools.jobs.devices import widest_float
from pdtools.models import Batch, LossParts, count_parameters, write_checkpoint
from pdtools.tokenization import Tokenizer
from pdtools.training.batches import AHEAD, BatchLimits, BatchLoader, TrainingData, ValidationData
from pdtools.training.distributed import ParallelModel
from pdtools.training.loss import (
    TERMS,
    TOKENS,
    LossSums,
    StepWeights,
    autocast,
    base_count,
    evaluate,
    evaluation_mode,
    loss_sums,
    zero_sums,
)
from pdtools.training.metrics import MetricsLog
from pdtools.training.optimizer import HeadWarmup, build_optimizer, learning_rate
from pdtools.training.recipe import TrainConfig
from pdtools.training.run_folder import TRAINER, RunFolder
from pdtools.training.run_state import RunState, load_state, save_state, state_tensors
from pdtools.training.samples import SampleLog
from pdtools.training.shard_input import PromptRows


class Listener(Protocol):
    """The interface for a run's progress reports."""

    def started(self, state: RunState, facts: Mapping[str, Any]) -> None:
        """Report the start: sentences (None: endless), parameters, steps, padding (a share), device."""
        return

    def stepped(self, step: int) -> None:
        """Report a step."""
        return

    def logged(self, step: int, values: Mapping[str, Any]) -> None:
        """Report the training loss since the last call."""
        return

    def evaluated(self, step: int, scores: Mapping[str, Any], is_best: bool) -> None:
        """Report scores of the validation sentences."""
        return


class NullListener(Listener):
    """A listener that does nothing."""


class TrainingLoop:
    """One run, or one rank's part of it.

    All ranks take the same steps: their decisions rest on equal values (losses, whether to stop).
    Rank 0 alone writes and reports.

    Args:
        folder: the run's folder.
        parallel: the model, whose weights are changed, and the ranks that train it.
        config: the training configuration.
        train_set: the training data.
        valid_set: the data that choose the best checkpoint; without them ``best/`` is the newest one.
        beside: by the name of a term of the loss, sentences for that term alone, which the training
            sentences' loss then excludes.
        tokenizer: the data's tokenizer, for checkpoints.
        data_settings: the data's settings, for checkpoints (for shards: layout, factor, …).
        device: the model's device.
        listener: receives progress reports.
        samples: parsed after each evaluation; None: nothing is.
        stop: asked between steps; the run then writes ``last/`` and ends.
        resume: from ``last/trainer/``, whose weights the model has.
    """

    def __init__(
        self,
        folder: RunFolder,
        parallel: ParallelModel,
        config: TrainConfig,
        train_set: TrainingData,
        valid_set: ValidationData | None,
        beside: Mapping[str, TrainingData],
        *,
        tokenizer: Tokenizer,
        data_settings: Mapping[str, Any],
        device: str,
        listener: Listener,
        samples: SampleLog | None,
        stop: Callable[[], bool],
        resume: bool,
    ) -> None:
        if config.schedule == "plateau" and valid_set is None:
            raise PdtoolsError(
                "train.schedule plateau needs validation sentences (--valid, or another schedule)"
            )
        self.folder = folder
        self.parallel = parallel
        self.model = parallel.model
        self.ranks = parallel.ranks
        self.config = config
        self.train_set = train_set
        self.valid_set = valid_set
        self.tokenizer = tokenizer
        self.data_settings = data_settings
        self.device = device
        self.listener = listener
        self.samples = samples
        self.stop = lambda: self.ranks.largest(int(stop())) > 0
        self.limits = BatchLimits(tokens=config.batch_tokens, sentences=config.batch_sentences)
        self.optimizer = build_optimizer(self.model, config)
        self.warmup = HeadWarmup(self.model, config)
        self.state = RunState()
        self.metrics: MetricsLog | None = None  # while it runs, on rank 0
        self.window = zero_sums(device)  # since the last line in the log
        self._kept_steps = config.kept_at("steps")
        self._kept_words = sorted(config.kept_at("words"))
        self.gradient_norm = torch.zeros((), device=device)
        if resume:
            self.state, self.window = load_state(
                folder.trainer, parallel, self.optimizer, device, config.seed
            )
            if self.state.finished == "steps" and self.state.step < config.steps:
                self.state.finished = None  # it has been given more steps
        source = train_set.source(config, epoch=self.state.epoch, taken=self.state.taken)
        self.padding = source.padding_share()
        ahead = AHEAD if torch.device(device).type == "cuda" else 0
        self.loader = BatchLoader(source, device, ahead, self.ranks)
        self.loaders_beside = {}
        for name, sentences in beside.items():
            epoch, taken = self.state.beside.get(name, (0, 0))
            source = sentences.source(config, epoch=epoch, taken=taken)
            self.loaders_beside[name] = BatchLoader(source, device, ahead, self.ranks)
        self._waiting: deque[Batch] = deque()  # batches of the present step
        self._weights = StepWeights(config, [], self.ranks)
        self._begin_step()

    def run(self) -> RunState:
        """Train until the end, an early stop, or until asked to stop."""
        with self.running():
            while (batch := self.next_batch()) is not None:
                with self.parallel.reducing(self.completes_step):
                    with autocast(self.device, self.config.precision):
                        parts = self.parallel.loss(batch)
                    self.loss_to_minimise(parts).backward()
                self.learn(batch, parts)
        return self.state

    # The parts of :meth:`run`, for code that computes the losses of several runs at once (``sweep.py``).

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Load batches and keep the log open while the block runs."""
        self._clock = time.monotonic()
        with contextlib.ExitStack() as opened:
            if self.ranks.is_main:
                place, state = self.folder, self.state
                log = MetricsLog(place.path, name=place.name, step=state.step, size=state.metrics_size)
                self.metrics = opened.enter_context(log)
            for loader in self._loaders:
                opened.enter_context(loader)
            if self.samples is not None:
                self.samples.drop_after(self.state.step, self.folder.path)
            self.listener.started(
                self.state,
                {
                    "sentences": self.train_set.count,
                    "parameters": count_parameters(self.model),
                    "steps": self.config.steps,
                    "padding": self.padding,
                    "device": self.device,
                },
            )
            yield

    def next_batch(self) -> Batch | None:
        """The next batch, after an evaluation if one is due; None at the end, or when stopped."""
        while self.state.finished is None:
            if self._waiting:  # evaluations and stops come between steps
                return self._load()
            if self._evaluation_is_due():
                finished_it = self._evaluate()
                self._save_last()
                if not finished_it:
                    return None
            elif self.stop():
                self._save_last()
                return None
            else:
                self.model.train()
                return self._load()
        return None

    @property
    def _loaders(self) -> list[BatchLoader]:
        return [self.loader, *self.loaders_beside.values()]

    def _load(self) -> Batch:
        self._began = time.monotonic()
        if not self._waiting:
            waited = sum(loader.waited for loader in self._loaders)
            self._waiting.extend(self._load_step())
            self.state.loading_seconds += sum(loader.waited for loader in self._loaders) - waited
        return self._waiting.popleft()

    def _load_step(self) -> list[Batch]:
        """Load all batches of a step, first those for a single term; and set the weights of its terms."""
        config = self.config
        batches = [next(self.loader) for _ in range(config.accumulate)]
        for term in TERMS:
            is_due = (self.state.step + 1) % term.every(config) == 0
            own = self.loaders_beside.get(term.name)
            if own is not None or not is_due:
                batches = [term.without(batch) for batch in batches]
            if own is not None and is_due:
                alone = [next(own) for _ in range(config.accumulate)]
                batches = [*map(_without_tokens, alone), *batches]
        self._weights = StepWeights(config, batches, self.ranks)
        return batches

    @property
    def completes_step(self) -> bool:
        """Return whether the newest batch is the last one of its step."""
        return not self._waiting

    def loss_to_minimise(self, parts: LossParts) -> torch.Tensor:
        """The objective: a sum over a batch; :meth:`learn` expects its gradient."""
        return self._weights.loss(parts)

    def learn(self, batch: Batch, parts: LossParts) -> None:
        """Accumulate a batch's gradient, and update the weights when the step is complete.

        Gradients of plain sums are added up over batches and ranks, and divided by the tokens (or sentences)
        of all of them: as for one batch of all these sentences, however they are divided.
        """
        completes_step = self.completes_step
        self._sums += loss_sums(parts)
        self._base += base_count(batch, self.config)
        logged = None
        if completes_step:
            logged = self._update()
        taken = time.monotonic() - self._began
        self.state.window_seconds += taken
        self.state.step_seconds += taken
        if completes_step:
            self.listener.stepped(self.state.step)
        if logged is not None:
            self._log(logged)

    def _update(self) -> LossSums | None:
        """Update the weights by the step's gradients; return the loss since the last log, if it is due."""
        config, state, sums = self.config, self.state, self._sums
        self.ranks.add_up(sums)
        divisor = sums[TOKENS]
        if config.normalize == "sentence":
            self.ranks.add_up(self._base)
            divisor = self._base
        self.warmup.mask(state.step)
        gradients = self.parallel.gradients()  # the mean over ranks of sums over tokens
        share = (self.ranks.size / divisor.clamp(min=1)).float()
        self.gradient_norm = self.parallel.total_norm(gradients) * share
        clipped = (config.clip / (self.gradient_norm + 1e-6)).clamp(max=1) if config.clip else 1
        torch._foreach_mul_(gradients, share * clipped)
        state.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["factor"] * learning_rate(state.step, config, state.learning_rate_factor)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.window += sums
        self._keep(sums)
        self._begin_step()
        log_is_due = state.step % config.log_every == 0 or state.step == config.steps
        return LossSums.from_tensor(self.window) if log_is_due else None  # the one wait for the device

    def _begin_step(self) -> None:
        self._sums = zero_sums(self.device)
        self._base = torch.zeros((), dtype=widest_float(self.device), device=self.device)

    def _log(self, sums: LossSums) -> None:
        """Record the loss since the last time."""
        self._check_finite(sums)
        self._add_time()
        state = self.state
        state.tokens += sums.tokens
        values = {
            **sums.scores(self.config, self.model),
            "learning_rate": learning_rate(state.step, self.config, state.learning_rate_factor),
            "gradient_norm": float(self.gradient_norm),
            "epoch": self.loader.epoch,
            "tokens": state.tokens,
            "tokens_per_second": round(sums.tokens / state.window_seconds),
            "loading_share": round(state.loading_seconds / state.step_seconds, 4),
            "seconds": round(state.seconds, 3),
        }
        self.window = zero_sums(self.device)
        state.window_seconds = 0.0
        if self.metrics is not None:
            self.metrics.write("train", state.step, values)
        self.listener.logged(state.step, values)

    def _check_finite(self, sums: LossSums) -> None:
        if not (sums.are_finite() and math.isfinite(float(self.gradient_norm))):
            raise PdtoolsError(
                f"{self.folder.name}: the loss is not finite any more at step {self.state.step}"
                " (lower train.learning_rate or train.clip, or lengthen train.warmup_steps)"
            )

    def _add_time(self) -> None:
        """Count the time since the last call."""
        now = time.monotonic()
        self.state.seconds += now - self._clock
        self._clock = now

    # --- evaluation and checkpoints -----------------------------------------------------------

    def _evaluation_is_due(self) -> bool:
        step = self.state.step
        due = step > 0 and (step % self.config.eval_every == 0 or step == self.config.steps)
        return due and self.state.evaluated_step < step

    def _evaluate(self) -> bool:
        """Score the validation sentences, keep the best model, perhaps end the run; False if interrupted."""
        config, state = self.config, self.state
        self._check_finite(LossSums.from_tensor(self.window))
        if self.valid_set is None:
            self._save_model(self.folder.best)
            state.best_step = state.step
        else:
            sums = evaluate(
                self.model,
                self.valid_set.in_order(self.limits, self.ranks),
                device=self.device,
                precision=config.precision,
                stop=self.stop,
                loss=self.parallel.loss,
            )
            if sums is None:
                return False
            self._judge(sums.total(self.ranks), self._task_score())
        state.evaluated_step = state.step
        if config.patience and state.bad_evaluations >= config.patience:
            state.finished = "patience"
        elif state.step == config.steps:
            state.finished = "steps"
        return True

    def _task_score(self) -> dict[str, float]:
        """The score of the prompts' task, under its name; empty for other data."""
        if not isinstance(self.valid_set, PromptRows):
            return {}

        def loss(batch: Batch) -> LossParts:
            with autocast(self.device, self.config.precision):
                return self.parallel.loss(batch)

        with evaluation_mode(self.model):
            return dict([self.valid_set.main_score(loss, self.device, self.limits)])

    def _judge(self, sums: LossSums, task_score: Mapping[str, float]) -> None:
        """Record an evaluation, and write ``best/`` if it is the best so far.

        The task's score decides, if there is one, then the loss.
        """
        state = self.state
        loss = sums.loss(self.config)
        if not math.isfinite(loss):
            raise PdtoolsError(f"{self.folder.name}: the validation loss is not finite at step {state.step}")
        self._add_time()
        scores = {**sums.scores(self.config, self.model), **task_score, "seconds": round(state.seconds, 3)}
        metric = next(iter(task_score.values()), None)
        is_best = state.best_loss is None or _order(metric, loss) < _order(state.best_metric, state.best_loss)
        if is_best:
            state.best_metric = metric
            state.best_loss, state.best_step, state.best_scores = loss, state.step, scores
            state.bad_evaluations = state.stale_evaluations = 0
            self._save_model(self.folder.best)
        else:
            state.bad_evaluations += 1
            state.stale_evaluations += 1
        if self.config.schedule == "plateau" and state.stale_evaluations == self.config.decay_patience:
            state.learning_rate_factor *= self.config.decay
            state.stale_evaluations = 0
        if self.metrics is not None:
            self.metrics.write("valid", state.step, scores)
        if self.samples is not None:
            self.samples.write(state.step, self.folder.path)
        self.listener.evaluated(state.step, scores, is_best)

    def _keep(self, sums: torch.Tensor) -> None:
        """Write ``step-N/`` if ``train.keep_at`` has the step, or a number of words just reached."""
        words = []
        if self._kept_words:
            after, ratio = self._tokens(), self.train_set.words_per_token
            before = after - float(sums[TOKENS])
            words = [number for number in self._kept_words if before < number / ratio <= after]
        folder = self.folder.kept(self.state.step)
        is_due = words or self.state.step in self._kept_steps
        if is_due and not folder.exists():  # a stopped run reaches it again
            self._check_finite(LossSums.from_tensor(self.window))
            self._save_model(folder, **({"kept_at_words": words} if words else {}))

    def _tokens(self) -> float:
        """The number of tokens read."""
        return self.state.tokens + float(self.window[TOKENS])

    def _save_model(self, folder: Path, **kept: Any) -> None:
        weights = self.parallel.weights()
        if self.ranks.is_main:
            with atomic_directory(folder, kind="checkpoint", overwrite=True) as made:
                self._write_model(made, weights, **kept)

    def _write_model(self, folder: Path, weights: Mapping[str, torch.Tensor], **kept: Any) -> None:
        words = round(self._tokens() * self.train_set.words_per_token)
        trained = {"step": self.state.step, "words": words, **kept}
        write_checkpoint(
            folder,
            self.model,
            self.tokenizer,
            shards=self.data_settings,
            trained=trained,
            weights=weights,
        )

    def _save_last(self) -> None:
        """Write ``last/`` with the trainer's state in it, as one folder that is swapped whole.

        The first time, the run replaces an earlier one, if any.
        """
        self._check_finite(LossSums.from_tensor(self.window))
        self._add_time()
        self.state.epoch, self.state.taken = self.loader.epoch, self.loader.taken
        self.state.beside = {
            name: (loader.epoch, loader.taken) for name, loader in self.loaders_beside.items()
        }
        self.state.metrics_size = 0 if self.metrics is None else self.metrics.size
        weights = self.parallel.weights()
        place = self.folder.last
        last = atomic_directory(place, kind="checkpoint", overwrite=True) if self.ranks.is_main else None
        with last or contextlib.nullcontext(place) as made:
            if self.ranks.is_main:
                self._write_model(made, weights)
            del weights
            tensors = state_tensors(self.parallel, self.optimizer, self.window)
            if self.ranks.is_main:
                save_state(made / TRAINER, self.state, tensors)
        if self.ranks.is_main:
            self.folder = self.folder.settle()
        self.ranks.wait()


def _order(metric: float | None, loss: float) -> tuple[float, float]:
    """A sort key: smaller is better."""
    return -(metric or 0.0), loss


def _without_tokens(batch: Batch) -> Batch:
    """Return the sentences with no tokens to predict."""
    return replace(batch, scored=torch.zeros_like(batch.tokens, dtype=torch.bool))
