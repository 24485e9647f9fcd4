"""Batches on the model's device; for a GPU, prepared ahead by a thread."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator

import torch

from pdtools.models import Batch
from pdtools.training.data.protocols import BatchSource
from pdtools.training.distributed import ALONE, Ranks

AHEAD = 3  # batches prepared ahead for a GPU


class BatchLoader(Iterator[Batch]):
    """Endless batches of a source. A context manager: its end stops the thread.

    Args:
        source: the source; nobody else may take from it.
        device: the device of the batches.
        ahead: batches prepared before they are requested; 0: none, without a thread.
        ranks: this rank takes its own part of every batch.

    Attributes:
        epoch, taken: the position in the source after the last batch handed out.
        waited: seconds spent in :func:`next`, over all calls.
    """

    def __init__(self, source: BatchSource, device: str, ahead: int, ranks: Ranks = ALONE) -> None:
        self.epoch, self.taken = source.epoch, source.taken
        self.waited = 0.0
        self._source = source
        self._device = device
        self._ranks = ranks
        self._made: queue.Queue[tuple[Batch, int, int] | BaseException] = queue.Queue(max(1, ahead))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._make_ahead, daemon=True) if ahead else None

    def __enter__(self) -> BatchLoader:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *ending: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def __next__(self) -> Batch:
        start = time.monotonic()
        made = self._make() if self._thread is None else self._made.get()
        if isinstance(made, BaseException):
            self._made.put(made)  # the thread has ended: the next call gets the error again
            raise made
        batch, self.epoch, self.taken = made
        batch = batch.to(self._device)
        self.waited += time.monotonic() - start
        return batch

    def _make(self) -> tuple[Batch, int, int]:
        batch = self._source.take(self._ranks)
        if torch.device(self._device).type == "cuda":
            batch = batch.pinned()  # so that its copy does not hold the GPU up
        return batch, self._source.epoch, self._source.taken

    def _make_ahead(self) -> None:
        while not self._stopped.is_set():
            try:
                made: tuple[Batch, int, int] | BaseException = self._make()
            except BaseException as error:  # it is raised by the next request
                made = error
            while not self._stopped.is_set():
                with contextlib.suppress(queue.Full):
                    self._made.put(made, timeout=0.1)
                    break
            if isinstance(made, BaseException):
                return
