"""One batch on one device: forward, loss, backward. No sockets; what is computed depends on nothing but
the weights, the batch and the step (I2)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.batch.schema import BatchSchema, SparseBatch
from loader.plugins.words import PluginError, definition_of
from pool.buckets.plan import Plan
from pool.buckets.tensors import trained
from pool.crash_points import crash_point
from pool.devices import Device
from pool.exchange.interface import WorkerExchange
from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.task import MeasuredTask, Progress, Task
from pool.telemetry.trace import Trace
from pool.worker.batches import Batches, Taken
from pool.worker.collecting import collect
from pool.worker.faults import Faults
from pool.worker.gradients import Announce, GradientWriter

Slot = npt.NDArray[np.uint8]

Join = Callable[[nn.Module, torch.device], WorkerExchange]

PREPARED = 2  # batches at most: older ones were taken back


@dataclass(frozen=True)
class Outcome:
    losses: tuple[float, ...]  # one a member: the mean over the batch's samples
    absent: tuple[int, ...] = ()  # parameters that got no gradient
    unsound: tuple[str, ...] = ()  # one a member: what is not finite, the loss or the gradient of a parameter


class Computer:
    """The model on its device."""

    def __init__(
        self,
        task: Task,
        plan: Plan,
        schema: BatchSchema,
        device: Device,
        faults: Faults,
        batches: Batches,
        join: Join,
        *,
        trace: Trace,
        seed: int,
        total_steps: int,
    ) -> None:
        """`join`: connects the model, still on the meta device, to where weights come from and gradients go."""
        self._task = task
        self._schema = schema
        self._device = torch.device(device.torch_name)
        self._batches = batches
        self._faults = faults
        self._trace = trace
        self._seed = seed
        self._total_steps = total_steps
        with torch.device("meta"):
            self._model = task.build_model()
        self._exchange = join(self._model, self._device)
        self._named = dict(trained(self._model))
        self._writer = GradientWriter(self._model, plan, self._exchange)
        self._tables = [module for module in self._model.modules() if isinstance(module, SparseLinear)]
        self._prepared: dict[int, Taken] = {}  # by attempt

    def prepare(self, slot: Slot, attempt: int, done: Callable[[], object]) -> None:
        """Does the part of a training batch that needs no weights, so that `train` of this attempt takes less time.

        Calls `done` when nothing reads the slot any more before `train` does: now, or later in another thread.
        """
        taken = self._batches.take(slot)
        with self._trace.span("prepare", batch=taken.batch.number):
            for table in self._tables:
                table.prepare(taken.batch.sparse[table.field])
        self._prepared[attempt] = taken
        while len(self._prepared) > PREPARED:
            del self._prepared[next(iter(self._prepared))]
        taken.when_read(done)

    def train(
        self,
        slot: Slot,
        step: int,
        gradient_slot: int,
        *,
        attempt: int,
        first: bool,
        announce: Announce,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Outcome:
        """Computes a batch with version `step`; `first`: the step's buffers follow this batch. Calls `meanwhile` when
        all of it is queued on the device, before anything waits for that."""
        with self._trace.span("load", step=step):
            batch = self._load(slot, step, attempt)
        crash_point("worker.before_forward")
        self._model.train()
        self._seed_generators(_seed(self._seed, batch.number))
        with self._trace.span("forward", step=step, batch=batch.number):
            self._faults.at(step, "forward")
            loss = self._loss(batch, step, backward=True)
        if self._faults.take_nan():
            loss = loss * math.nan
        self._faults.at(step, "backward")

        def announce_bucket(bucket: int) -> None:
            crash_point("worker.before_bucket")
            announce(bucket)
            crash_point("worker.after_bucket")
            self._faults.at(step, "bucket")

        crash_point("worker.before_backward")
        with self._trace.span("backward", step=step, batch=batch.number):
            touched = {name: view.touched for name, view in SparseBatch.view(self._schema, slot).sparse.items()}
            self._writer.begin_batch(gradient_slot, touched, announce_bucket)
            loss.backward()  # type: ignore[no-untyped-call]
            absent = self._writer.end_batch()
        if first:
            self._exchange.put_buffers()
        meanwhile()
        with self._trace.span("is it finite?", step=step):
            value, unsound = self._writer.read(loss)
        return Outcome((value,), absent, (unsound,))

    def validate(self, slot: Slot, version: int, collected: Mapping[str, npt.NDArray[Any]]) -> Outcome:
        """The loss of a batch; what the task's metrics need goes into `collected`."""
        batch = self._load(slot, version, attempt=0)
        self._model.eval()
        with torch.no_grad(), self._trace.span("validate", version=version):
            if not collected:
                loss = self._loss(batch, version, backward=False)
            else:
                loss = self._validate(batch, version, collected)
        return Outcome((self._exchange.read(loss, ())[0],))

    def forget_weights(self) -> None:
        """Copies on the device may be of a version that was never completed: its coordinator died."""
        self._exchange.forget()
        self._prepared = {}

    def _loss(self, batch: TensorBatch, step: int, *, backward: bool) -> Tensor:
        """What the task gives. Raises PluginError if that can't be used."""
        with self._watched("loss", self._task.loss):
            loss = self._task.loss(self._model, batch, Progress(step, self._total_steps))
            if problem := problem_of(loss, backward=backward):
                raise PluginError(f"loss {problem} ({definition_of(self._task.loss)})")
        return loss

    def _validate(self, batch: TensorBatch, version: int, collected: Mapping[str, npt.NDArray[Any]]) -> Tensor:
        """As `_loss`, of a task with metrics."""
        assert isinstance(self._task, MeasuredTask)
        with self._watched("validate", self._task.validate):
            found = self._task.validate(self._model, batch, Progress(version, self._total_steps))
            if problem := collect(found, collected):
                raise PluginError(f"validate {problem} ({definition_of(self._task.validate)})")
            if problem := problem_of(found[0], backward=False):
                raise PluginError(f"the loss of validate {problem} ({definition_of(self._task.validate)})")
        return found[0]

    @contextmanager
    def _watched(self, name: str, method: Callable[..., Any]) -> Iterator[None]:
        """Raises PluginError if the task's method, called inside, has changed what later batches depend on (I2)."""
        weights, settings = self._weights_seen(), _torch_settings()
        yield
        if problem := self._change(weights, settings):
            raise PluginError(f"{name} {problem} ({definition_of(method)})")

    def _weights_seen(self) -> dict[str, tuple[int, int]]:
        """Changes with what is done to the weights in place, and with what is put in their stead."""
        return {name: (weight._version, weight.data_ptr()) for name, weight in self._named.items()}

    def _change(self, weights: Mapping[str, object], settings: Mapping[str, object]) -> str:
        if now := _first_difference(weights, self._weights_seen()):
            return f"changes {now}: only after_step may change weights"
        if now := _first_difference(settings, _torch_settings()):
            return f"changes torch's {now}: later batches would be computed with it; set it in create_task"
        return ""

    def _seed_generators(self, seed: int) -> None:
        """What a model draws (dropout) depends on run and batch alone (I2).

        Not torch.manual_seed: where a backend is not there it keeps each call, with its stack, for ever.
        """
        torch.default_generator.manual_seed(seed)
        if self._device.type != "cpu":
            with torch.accelerator.device_index(self._device.index):
                torch.get_device_module(self._device).manual_seed(seed)

    def _load(self, slot: Slot, version: int, attempt: int) -> TensorBatch:
        self._exchange.load(version)
        taken = self._prepared.pop(attempt, None) or self._batches.take(slot)
        return taken.for_current_stream()


def problem_of(loss: object, *, backward: bool) -> str:
    """Why what a task's `loss` gave can't be used; empty if it can."""
    if not isinstance(loss, Tensor):
        return f"gave {type(loss).__name__}, which is no tensor"
    if loss.numel() != 1:
        return f"gave a tensor of shape {tuple(loss.shape)}: it must be one number, the mean over the batch's samples"
    if loss.is_complex() or loss.is_meta:
        return f"gave a number that is {'complex' if loss.is_complex() else 'on the device meta'}"
    if backward and not loss.requires_grad:
        return "gave a number without gradient: it was computed from no weights, or under no_grad or detach"
    return ""


def _torch_settings() -> dict[str, object]:
    """Of this process, that a batch must leave as they were."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "number of threads": torch.get_num_threads(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
    }


def _first_difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    return next((name for name, value in before.items() if after[name] != value), "")


def _seed(run: int, batch: int) -> int:
    """Of torch's generator: other runs, and other batches of a run, draw other numbers."""
    digest = hashlib.blake2b(f"{run} {batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
