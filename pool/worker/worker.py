"""The worker process, from start to end: takes the next job, computes its gradients, announces them.

A worker reads the ring and the weights, and writes its own gradient slots and nothing else (I4). The process ends by a
signal: there is nothing to clean up (I6).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn

from loader.plugins.error_text import error_line
from pool import _native, numerics
from pool.crash_points import crash_point
from pool.device.batches import DeviceBatches
from pool.device.event_waiter import Arrivals
from pool.device.lost import device_lost
from pool.device.memory import memory_of_device, out_of_memory
from pool.device.names import Device, parse_device
from pool.device.page_lock import page_lock
from pool.device.precision import choose_computing
from pool.device.shared_memory import shared_memory_of
from pool.device.startup import naming_lost_devices, open_device, own_devices
from pool.device.timeline import Bars, NoBars, bars_of
from pool.ensemble.factory import make_members
from pool.ensemble.member import Member
from pool.errors import LostDeviceError, ResourceError, RunError
from pool.exchange.device.lender import borrow
from pool.exchange.device.store import LentMemory, pieces
from pool.exchange.device.weights import CopiedWeights, DeviceWeights, MappedWeights, Streams
from pool.exchange.device.worker import DeviceWorker
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import WorkerExchange
from pool.kernels.cuda.compiler import CompileError
from pool.process.start import WorkerStart
from pool.protocol.messages import Assignment
from pool.shm.memory import Memory
from pool.telemetry.trace import Trace
from pool.worker.batches import Batches, HostBatches
from pool.worker.compute import Computed, Computer
from pool.worker.faults import Faults
from pool.worker.job import Job
from pool.worker.mailbox import Mailbox, Todo
from pool.worker.train_metrics import TrainMetrics
from pool.worker.user_warnings import tell_of_warnings


def begin(start: WorkerStart, lent: Future[LentMemory] | None = None) -> Callable[[], NoReturn]:
    """Makes the worker and returns its endless loop. `lent`: memory that a coordinator in the same process lends."""
    with naming_lost_devices(start.device):
        return Worker(start, lent).run


class Worker:
    """Computes one job after the other on one device."""

    def __init__(self, start: WorkerStart, lent: Future[LentMemory] | None) -> None:
        (device,) = own_devices([parse_device(start.device)], [start.card])
        torch.set_num_threads(start.threads)
        if device.is_accelerator:
            way_out = "name another device in pool.devices"
            open_device(torch.device(device.torch_name), str(start.peer), start.device, way_out)
        choose_computing(own_kernels=start.own_kernels, dense_products=start.dense_products)
        numerics.check_worker(start.fingerprint, start.peer, device)
        torch.set_deterministic_debug_mode("error")  # what use_deterministic_algorithms does, without 1 s of imports
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        self._start = start
        self._lent = lent
        self._memory = memory = Memory(start.memory, start.segments)
        trace = Trace(start.run_dir, start.peer, on=start.traced)
        self._arrivals: Arrivals | None = None
        self._bars: Bars = NoBars()
        if device.is_accelerator:
            memory.register(page_lock)
            self._arrivals = Arrivals()
            self._bars = bars_of(trace, torch.device(device.torch_name), self._arrivals)
        self._mailbox = Mailbox(start, memory.worker_end(start.peer, start.bells), trace)
        tell_of_warnings(self._mailbox.say)
        self._computer = Computer(
            self._make_members,
            start.layout,
            device,
            Faults(device, start.peer.incarnation),
            self._make_batch_loader(device),
            self._make_exchange,
            trace=trace,
            total_steps=start.total_steps,
            dense_products=start.dense_products,
            metrics=TrainMetrics(start.measured, start.metrics_every),
            bars=self._bars,
        )
        # After the models were made: their weights' memory, replaced by shared memory, has gone back to the system.
        _native.keep_freed_memory()  # or every large activation costs fresh pages
        self._in_work = memory.in_work(start.peer.index)
        self._raised = memory.raised(start.peer.index)
        if self._computer.how:
            self._mailbox.say(self._computer.how)

    def _make_members(self) -> list[Member]:
        """Makes the networks. Raises RunError if they are not those that the run began with."""
        start = self._start
        members = list(make_members(start.nets, start.layout.plans, on_meta=start.on_meta))
        numerics.check_members(start.fingerprint, start.peer, members, start.dense_products)
        return members

    def _make_batch_loader(self, device: Device) -> Batches:
        """Makes what brings batches to the device: views of the ring on a CPU, copies elsewhere."""
        schema = self._start.layout.schema
        if self._arrivals is None:
            return HostBatches(schema)
        return DeviceBatches(schema, torch.device(device.torch_name), self._arrivals, self._bars)

    def _make_exchange(self, model: nn.Module, device: torch.device) -> WorkerExchange:
        """Makes the worker's end of the exchange: where `model` finds its weights and leaves its gradients."""
        start, layout, memory = self._start, self._start.layout, self._memory
        halves, average, index = memory.weight_halves(), memory.average(), start.peer.index
        slots = memory.gradient_slots(index)
        if self._arrivals is None:
            return HostWorker(model, layout, halves=halves, slots=slots, average=average)
        plan, slot_nbytes, streams = layout.plan, layout.slot_plan.nbytes, Streams.of(device)
        weights: DeviceWeights
        if start.borrows:
            lent = self._borrow_memory(device) if self._lent is None else self._lent.result()
            if lent.queues is not None:
                streams = replace(streams, outward=lent.queues.writing, stepping=lent.queues.stepping)
            crash_point("worker.memory_borrowed")
            weights = MappedWeights(model, plan, streams, pieces(lent.weights, plan.nbytes))
            places = pieces(lent.slots, slot_nbytes)
        else:
            weights = CopiedWeights(model, plan, streams, halves, average)
            places = [torch.from_numpy(slot[:slot_nbytes]) for slot in slots]
        return DeviceWorker(
            layout,
            weights,
            streams,
            self._arrivals,
            slots=places,
            list_memory=memory.touched_lists(index),
            bars=self._bars,
            spins=start.spins,
        )

    def _borrow_memory(self, device: torch.device) -> LentMemory:
        """Maps the memory of the device that the coordinator's process lends."""
        shared = shared_memory_of(device.type)
        assert shared is not None, f"memory of {device} can't be shared"
        return borrow(self._start.address_key, self._start.coordinator, device, shared)

    def run(self) -> NoReturn:
        """Does jobs for ever. Raises what ends the process."""
        self._mailbox.start()
        incarnation = 0
        while True:
            job, todo = self._mailbox.next_job()
            if job.incarnation != incarnation:
                incarnation = job.incarnation
                self._computer.forget_weights()
            assignment = job.assignment
            crash_point("worker.before_batch")
            self._in_work.begin(assignment)
            crash_point("worker.batch_begun")
            with self._mailbox.computing():
                try:
                    computed = self._run_job(job, todo)
                except BaseException as error:
                    self._report_failure(error, assignment)
                    raise
            if computed is None:
                self._in_work.end()
                continue
            crash_point("worker.batch_computed")
            self._in_work.end()
            crash_point("worker.before_finish")
            self._mailbox.finish(job, computed.outcomes, computed.absent)
            crash_point("worker.after_finish")

    def _run_job(self, job: Job, todo: Todo) -> Computed | None:
        """Computes a job, or only prepares it, and returns None then."""
        assignment = job.assignment
        if todo == "prepare":
            self._prepare(job)
            return None
        slots = [self._memory.batch_slot(assignment.purpose, batch) for batch in assignment.batches]
        if assignment.purpose == "validate":
            place = self._memory.collected(self._start.peer.index, assignment.batch)
            size = self._start.validation.size(assignment.batch)
            samples = None if size == self._start.validation.batch_size else size
            return self._computer.validate(slots[0], assignment.step, place, self._start.measured, samples)
        return self._computer.train(
            slots,
            assignment,
            frozen=job.frozen,
            announce=lambda bucket: self._mailbox.bucket(job, bucket),
            begin=self._in_work.next,
            meanwhile=self._prepare_next,
        )

    def _prepare(self, job: Job) -> None:
        """Does what the job's first batch needs no weights for."""
        assignment = job.assignment
        slot = self._memory.batch_slot(assignment.purpose, assignment.batch)
        self._computer.prepare(slot, assignment.attempt, lambda: self._mailbox.prepared(job))

    def _prepare_next(self) -> None:
        """Begins to copy the next batch to a device that still computes this one."""
        if self._arrivals is not None and (job := self._mailbox.next_to_prepare()) is not None:
            self._prepare(job)

    def _report_failure(self, error: BaseException, assignment: Assignment) -> None:
        """Leaves the exception's text in the worker's shared memory, for the coordinator, which has another worker
        compute the batch. This process ends, as it may be damaged.

        Raises ResourceError if memory has run out, LostDeviceError if the device can't be used any more, RunError if a
        kernel can't be compiled.
        """
        text, peer, spec = error_line(error), self._start.peer, self._start.device
        if isinstance(error, CompileError):
            raise RunError(
                f"{peer} ({spec}): a kernel can't be compiled: {text}; "
                f"pool.own_kernels = false computes with torch's own operations; all that was said is in {_log_path()}"
            ) from None
        if device_lost(error):
            self._in_work.end()  # not the batch's fault
            raise LostDeviceError(f"{spec} can't be used: {text}", [spec]) from None
        if out_of_memory(error):
            raise ResourceError(
                f"{peer} ({spec}) ran out of memory in batch "
                f"{self._in_work.held.batch}: {text}{memory_of_device()}; lower data.batch_size or model sizes"
            ) from None
        self._raised.say(assignment.attempt, f"{text}; traceback in {_log_path()}")


def _log_path() -> str:
    """Returns the path of this process's output, wherever that has been moved."""
    try:
        return str(Path("/proc/self/fd/2").readlink())
    except OSError:
        return "no log"
