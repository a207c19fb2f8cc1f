"""Computes groups of batches on one device: forward, loss and backward of each batch, and validations.

No sockets. The results depend on nothing but the weights, the batches and the step (I2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.plugins.error_text import PluginError, definition_location
from loader.stream.schema import BatchSchema, SparseBatch
from pool.crash_points import crash_point
from pool.device.names import Device
from pool.device.precision import DenseProducts, autocast_forward
from pool.device.timeline import COMPUTES, NoTimeline, Timeline
from pool.ensemble.bindings import Bindings
from pool.ensemble.execution import Execution, SequentialMembers
from pool.ensemble.execution_choice import choose_execution
from pool.ensemble.factory import join_models
from pool.ensemble.member import Member
from pool.exchange.interface import GroupBatch, WorkerExchange
from pool.exchange.layout import Layout
from pool.exchange.tensors import untrained_tensors
from pool.metrics.layout import Measured, is_measured
from pool.nn.batch import TensorBatch
from pool.nn.generators import seed_for_purpose
from pool.nn.sparse_linear import SparseLinear
from pool.protocol.messages import Assignment, Outcome
from pool.task.attributes import move_to_device
from pool.task.task import Progress
from pool.telemetry.trace import Trace
from pool.worker.batches import BatchLoader, LoadedBatch
from pool.worker.faults import Faults
from pool.worker.gradients import GradientWriter
from pool.worker.train_metrics import TrainMetrics

log = logging.getLogger(__name__)

Slot = npt.NDArray[np.uint8]

MakeExchange = Callable[[nn.Module, torch.device], WorkerExchange]

MAX_PREPARED = 2  # batches: older ones belong to assignments that were revoked


@dataclass(frozen=True)
class Computed:
    """The result of an assignment: losses and metrics of its batches. The gradients lie in the gradient slot."""

    outcomes: tuple[Outcome, ...]  # one for each batch
    absent: tuple[int, ...] = ()  # parameters that got no gradient


class Computer:
    """Computes batches with the members (networks of an ensemble; often only one) on the worker's device."""

    def __init__(
        self,
        make_members: Callable[[], Iterable[Member]],
        layout: Layout,
        device: Device,
        faults: Faults,
        batch_loader: BatchLoader,
        make_exchange: MakeExchange,
        *,
        trace: Trace,
        total_steps: int,
        dense_products: DenseProducts = "float32",
        metrics: TrainMetrics = TrainMetrics(),  # noqa: B008 (frozen)
        timeline: Timeline | None = None,
    ) -> None:
        """Makes the members' networks on the device and connects them to the exchange.

        `make_exchange`: connects the module that holds all their models to the exchange, from which weights come and to
        which gradients go; `timeline`: of the device, for traces.
        """
        self._schema = layout.schema
        self._device = torch.device(device.torch_name)
        self._batch_loader = batch_loader
        self._faults = faults
        self._trace = trace
        self._timeline = timeline or NoTimeline()
        self._total_steps = total_steps
        self._dense_products = dense_products
        self._metrics = metrics
        self._members = tuple(make_members())
        self._model = join_models([member.model for member in self._members])
        self._exchange = make_exchange(self._model, self._device)
        for member in self._members:
            move_to_device(member.attributes, self._device)
        self._execution: Execution = SequentialMembers(self._members, self._device)
        self.execution_line = ""  # for the user: how several members are computed, and the reason
        if len(self._members) > 1:
            self._execution, self.execution_line = choose_execution(self._members, self._schema, self._execution)
            log.info(self.execution_line)
        self._writer = GradientWriter(self._model, layout.plans, self._exchange)
        self._bindings = [Bindings(member.model, member.attributes) for member in self._members]
        self._buffers = [[tensor.detach() for _, tensor in untrained_tensors(member.model)] for member in self._members]
        self._tables = [module for module in self._model.modules() if isinstance(module, SparseLinear)]
        self._prepared: dict[tuple[int, int], LoadedBatch] = {}  # by attempt and number of the batch
        self._ones: dict[tuple[int, torch.dtype], Tensor] = {}

    def prepare(self, slot: Slot, attempt: int, on_read: Callable[[], object] = lambda: None) -> None:
        """Does the part of a training batch that needs no weights: copies the batch to a GPU, and prepares the lookups
        in tables. `train` with the same `attempt` (number of an assignment) takes less time then.

        Calls `on_read` when nothing reads the batch's ring slot any more before `train` does: at once, or later in
        another thread.
        """
        loaded = self._batch_loader.load(slot)
        with self._trace.span("prepare", batch=loaded.batch.number):
            for table in self._tables:
                table.prepare(loaded.batch.sparse[table.field])
        self._prepared[attempt, loaded.batch.number] = loaded
        while len(self._prepared) > MAX_PREPARED:
            oldest = next(iter(self._prepared))
            del self._prepared[oldest]
        loaded.call_when_read(on_read)

    def train(
        self,
        slots: Sequence[Slot],
        assignment: Assignment,
        *,
        frozen: Collection[int],
        on_bucket: Callable[[int], object],
        on_batch: Callable[[int], object] = lambda _: None,
        while_computing: Callable[[], object] = lambda: None,
    ) -> Computed:
        """Runs forward and backward of each batch of an assignment, and writes the gradients to its gradient slot.

        `slots`: memory of the batches; `frozen`: members that are not trained any more, whose losses mean nothing;
        `on_bucket`: called with each bucket whose gradients are complete; `on_batch`: called with the number of each
        batch before it is computed; `while_computing`: called when all work is queued on the device, before this thread
        waits for results. Raises PluginError.
        """
        step = assignment.step

        def report_bucket(bucket: int) -> None:
            crash_point("worker.before_bucket")
            on_bucket(bucket)
            crash_point("worker.after_bucket")
            self._faults.inject(step, "bucket")

        group = self._describe_group(slots, assignment)
        self._writer.start_group(assignment.gradient_slot, group, report_bucket, frozen)
        losses, metrics = [], []
        for index, (slot, number) in enumerate(zip(slots, assignment.batches, strict=True)):
            on_batch(number)
            with self._trace.span("load", step=step):
                batch = self._load(slot, step, assignment.attempt)
            losses.append(self._train_batch(batch, step))
            if assignment.first and index == 0:
                self._exchange.put_buffers()
            metrics.append(self._measure_train_metrics(batch, step, frozen))
            if self._device.type != "cpu" and index + 1 < len(slots):
                self.prepare(slots[index + 1], assignment.attempt)
        absent = self._writer.end_group()
        while_computing()
        with self._trace.span("is it finite?", step=step):
            outcomes = self._writer.read_outcomes(_concatenate(losses).view(len(losses), -1))
        outcomes = [_without_frozen(outcome, frozen) for outcome in outcomes]
        measured = zip(outcomes, metrics, strict=True)
        return Computed(tuple(replace(outcome, metrics=values) for outcome, values in measured), absent)

    def _describe_group(self, slots: Sequence[Slot], assignment: Assignment) -> list[GroupBatch]:
        """Returns, for each batch of an assignment, the table rows that it touches and the members that leave it
        out."""
        group = []
        for slot, number in zip(slots, assignment.batches, strict=True):
            views = SparseBatch.view(self._schema, slot).sparse
            touched = {name: view.touched for name, view in views.items()}
            left_out = {each.member for each in assignment.left_out if each.batch == number}
            group.append(GroupBatch(touched, left_out))
        return group

    def _train_batch(self, batch: TensorBatch, step: int) -> Tensor:
        """Runs forward and backward of a batch, and returns the losses of all members."""
        crash_point("worker.before_forward")
        self._model.train()
        span = self._timeline.start_span()
        losses = _concatenate(self._losses(batch, step, self._writer.start_batch()))
        self._timeline.end_span(span, COMPUTES, "batch", batch=batch.number)
        self._writer.end_batch()
        self._restore_tensors("loss")
        return losses

    def _measure_train_metrics(self, batch: TensorBatch, step: int, frozen: Collection[int]) -> tuple[float, ...]:
        """Returns the metrics of a training batch, for each member all metrics, with the weights that its gradients
        were computed with. Returns none in a step that is not measured."""
        if not is_measured(step, self._metrics.every):
            return ()
        self._model.eval()
        return self._metrics.compute(
            self._members, self._schema, frozen, lambda arrays: self._measure(batch, step, arrays)
        )

    def _losses(self, batch: TensorBatch, step: int, frozen: Collection[int]) -> list[Tensor]:
        """Runs forward and backward of a batch for all members, and returns their losses. `frozen`: members that take
        no part in it."""
        self._faults.start_batch(step)
        execution = self._execution.losses(batch, Progress(step, self._total_steps), frozen)
        all_losses: list[Tensor] = []
        num_done = 0
        while num_done < len(self._members):
            with self._trace.span("forward", step=step, batch=batch.number), self._forward_pass():
                losses = next(execution)
            losses = self._faults.inject_nan(losses, num_done)
            self._faults.inject(step, "backward")
            crash_point("worker.before_backward")
            with self._trace.span("backward", step=step, batch=batch.number):
                if losses.requires_grad:
                    self._backward(losses)
            members = range(num_done, num_done + len(losses))
            losses = losses.detach()
            all_losses.append(losses)
            self._writer.end_members(members, losses)
            num_done += len(losses)
        return all_losses

    def _forward_pass(self) -> AbstractContextManager[object]:
        """Returns the context in which a forward pass runs. It sets the precision in which dense matrices are
        multiplied."""
        return autocast_forward(self._device, self._dense_products)

    def _backward(self, losses: Tensor) -> None:
        """Runs backward of the sum of the losses.

        With a gradient as its argument, torch imports sympy, which takes half a second of each worker's start. On a GPU
        it gets one nevertheless, because that saves launches.
        """
        if self._device.type == "cpu":
            losses.sum().backward()  # type: ignore[no-untyped-call]
        else:
            losses.backward(self._ones_like(losses))  # type: ignore[no-untyped-call]

    def _ones_like(self, losses: Tensor) -> Tensor:
        """Returns ones like `losses`, which are the gradient of their sum. They are made once for each number of
        losses."""
        key = len(losses), losses.dtype
        if key not in self._ones:
            self._ones[key] = torch.ones_like(losses)
        return self._ones[key]

    def validate(
        self, slot: Slot, version: int, metric_slot: Slot, measured: Measured, samples: int | None = None
    ) -> Computed:
        """Computes the losses of a validation batch, and again with the averaged weights if the run has them.

        `metric_slot`: memory for the arrays that metrics are made of, laid out as `measured` says, where results with
        averaged weights are written, too; `samples`: the size of the batch if it is smaller than the others. Raises
        PluginError.
        """
        members = len(self._members)
        schema = self._schema if samples is None else replace(self._schema, batch_size=samples)
        batch = self._load(slot, version, attempt=0, schema=schema)
        self._model.eval()
        losses = self._measure(batch, version, measured.of_members(metric_slot, members, samples))
        if measured.averages:
            averages, arrays = measured.of_averages(metric_slot, members, samples)
            self._exchange.load_average(version)
            averages[:] = self._measure(batch, version, arrays)
        return Computed((Outcome(tuple(losses)),))

    def _measure(
        self, batch: TensorBatch, version: int, collected: Sequence[Mapping[str, npt.NDArray[Any]]]
    ) -> list[float]:
        """Returns the loss of each member with the weights that are loaded, without gradients. `collected`: for each
        member, the arrays that its metrics fill."""
        progress = Progress(version, self._total_steps)
        with torch.no_grad(), self._trace.span("validate", version=version), self._forward_pass():
            losses = [
                self._measure_member(member, batch, progress, arrays)
                for member, arrays in zip(self._members, collected, strict=True)
            ]
        self._restore_tensors("validate" if collected[0] else "loss")
        return self._exchange.read_results(torch.stack([loss.reshape(()) for loss in losses]), ())[0]

    def _measure_member(
        self, member: Member, batch: TensorBatch, progress: Progress, arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Tensor:
        """Returns one member's loss in a batch, without backward, and fills the arrays for its metrics if it has any.
        Random numbers depend on the member's seed and the batch alone."""
        seed_for_purpose(member.seed, f"validation {batch.number}", self._device)
        return member.measure(batch, progress, arrays) if arrays else member.loss(batch, progress, backward=False)

    def _restore_tensors(self, method: str) -> None:
        """Restores tensors that the task's code has replaced, so that each batch begins with the weights that were
        loaded, and leaves its buffers where they are read (I2).

        `method`: the task's method that was called. Raises PluginError if it has changed something that can't be
        restored.
        """
        for member, bindings, buffers in zip(self._members, self._bindings, self._buffers, strict=True):
            problem = bindings.restore_tensors(buffers)
            if problem:
                raise PluginError(f"{method} {problem} ({definition_location(getattr(member.task, method))})")

    def forget_weights(self) -> None:
        """Forgets weights and batches that were copied to the device. After the coordinator's death they may be of a
        version that was never completed."""
        self._exchange.forget_version()
        self._prepared = {}

    def _load(self, slot: Slot, version: int, attempt: int, schema: BatchSchema | None = None) -> TensorBatch:
        """Loads a version of the weights, and returns the batch on the device, prepared or not."""
        self._exchange.load(version)
        number = SparseBatch.view(schema or self._schema, slot).number
        loaded = self._prepared.pop((attempt, number), None)
        if loaded is None:
            loaded = self._batch_loader.load(slot, schema)
        return loaded.for_current_stream()


def _concatenate(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors. A single one is returned without a copy."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _without_frozen(outcome: Outcome, frozen: Collection[int]) -> Outcome:
    """Returns a batch's outcome in which nothing of `frozen` members, which are not trained any more, counts as not
    finite."""
    unsound = tuple("" if member in frozen else what for member, what in enumerate(outcome.nonfinite))
    return Outcome(outcome.losses, unsound)
