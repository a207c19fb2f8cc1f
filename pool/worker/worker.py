"""The worker process, from start to end: take an assignment, compute it, announce it, take the next.

Reads the ring and the weights, writes its own gradient slots and nothing else (I4). Dies by signal: there is
nothing to clean up (I6).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn

from loader.plugins.words import told
from pool import _native, numerics
from pool.accelerator.added import add_devices
from pool.accelerator.arrivals import Arrivals
from pool.accelerator.batches import DeviceBatches
from pool.accelerator.page_lock import page_lock
from pool.buckets.parts import member_of_parameter
from pool.crash_points import crash_point
from pool.devices import Device, parse_device
from pool.errors import ResourceError
from pool.exchange.host.device import DeviceWorker
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import WorkerExchange
from pool.members.making import make_members
from pool.nn.memory import memory_of_device, out_of_memory
from pool.process.launch import Launch
from pool.protocol.messages import Assignment
from pool.shm.memory import Memory
from pool.telemetry.trace import Trace
from pool.worker.batches import Batches, HostBatches
from pool.worker.faults import Faults
from pool.worker.job import Job
from pool.worker.mailbox import Mailbox, Todo
from pool.worker.step import Computed, Computer
from pool.worker.warned import tell_of_warnings


def start(launch: Launch) -> Callable[[], NoReturn]:
    return Worker(launch).run


class Worker:
    def __init__(self, launch: Launch) -> None:
        config, index = launch.config, launch.peer.index
        planned = launch.planned
        spec = planned.devices[index]
        device = parse_device(spec, config.testing.device_module)
        add_devices(config.testing.device_module)
        torch.set_num_threads(config.num_worker_threads(spec, len(planned.devices)))
        numerics.check_worker(planned.fingerprint, launch.peer, device)
        _native.keep_freed_memory()  # or every large activation costs fresh pages
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        self._launch = launch
        self._memory = memory = Memory(launch.memory_map(), launch.segments)
        self._arrivals: Arrivals | None = None
        if device.is_accelerator:
            self._open(device)
        trace = Trace(launch.run_dir, launch.peer, on=bool(config.run.trace))
        self._mailbox = Mailbox(launch, memory.worker_end(launch.peer, launch.bells), trace)
        tell_of_warnings(self._mailbox.say)
        self._computer = Computer(
            lambda: make_members(config.members()),
            planned.plans,
            planned.schema,
            device,
            Faults(device, launch.peer.incarnation),
            self._batches(device),
            self._join,
            trace=trace,
            total_steps=config.train.steps,
        )
        self._in_work = memory.in_work(index)
        self._raised = memory.raised(index)
        if self._computer.how:
            self._mailbox.say(self._computer.how)

    def _open(self, device: Device) -> None:
        """Begins to use the device. Raises ResourceError if it has no memory for that."""
        try:
            torch.accelerator.set_device_index(device.index)  # new tensors, seeds and libraries are this device's
            torch.zeros(1, device=device.torch_name)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            raise ResourceError(
                f"{self._launch.peer}: {device.torch_name} has no memory left to begin with: {told(error)}"
                f"{memory_of_device()}; free it, or name another device in pool.devices"
            ) from None
        self._memory.register(page_lock)
        self._arrivals = Arrivals()

    def _batches(self, device: Device) -> Batches:
        schema = self._launch.planned.schema
        if self._arrivals is None:
            return HostBatches(schema)
        return DeviceBatches(schema, torch.device(device.torch_name), self._arrivals)

    def _join(self, model: nn.Module, device: torch.device) -> WorkerExchange:
        planned, halves = self._launch.planned, self._memory.weight_halves()
        plan, lists, member_of = planned.plan, self._launch.touched_lists(), member_of_parameter(planned.plans)
        slots, average = self._memory.gradient_slots(self._launch.peer.index), self._memory.average()
        if self._arrivals is None:
            return HostWorker(
                model, plan, halves=halves, slots=slots, average=average, lists=lists, member_of=member_of
            )
        return DeviceWorker(
            model,
            plan,
            device,
            self._arrivals,
            halves=halves,
            slots=slots,
            average=average,
            lists=lists,
            member_of=member_of,
        )

    def run(self) -> NoReturn:
        self._mailbox.start()
        incarnation = 0
        while True:
            job, todo = self._mailbox.next_job()
            if job.incarnation != incarnation:
                incarnation = job.incarnation
                self._computer.forget_weights()
            assignment = job.assignment
            crash_point("worker.before_batch")
            self._in_work[1], self._in_work[0] = assignment.batch, assignment.attempt
            crash_point("worker.batch_begun")
            with self._mailbox.computing():
                try:
                    computed = self._do(job, todo)
                except BaseException as error:
                    self._ended_by(error, assignment)
                    raise
            if computed is None:
                self._in_work[0] = 0
                continue
            crash_point("worker.batch_computed")
            self._in_work[0] = 0
            crash_point("worker.before_finish")
            self._mailbox.finish(job, computed.outcomes, computed.absent)
            crash_point("worker.after_finish")

    def _do(self, job: Job, todo: Todo) -> Computed | None:
        """What came out, None if it is only prepared."""
        assignment = job.assignment
        if todo == "prepare":
            self._prepare(job)
            return None
        slots = [self._memory.batch_slot(assignment.purpose, batch) for batch in assignment.batches]
        if assignment.purpose == "validate":
            place = self._memory.collected(self._launch.peer.index, assignment.batch)
            return self._computer.validate(slots[0], assignment.step, place, self._launch.planned.measured)
        return self._computer.train(
            slots,
            assignment,
            frozen=job.frozen,
            announce=lambda bucket: self._mailbox.bucket(job, bucket),
            begin=self._begin,
            meanwhile=self._prepare_next,
        )

    def _begin(self, batch: int) -> None:
        """The next of an assignment's batches."""
        self._in_work[1] = batch

    def _prepare(self, job: Job) -> None:
        assignment = job.assignment
        slot = self._memory.batch_slot(assignment.purpose, assignment.batch)
        self._computer.prepare(slot, assignment.attempt, lambda: self._mailbox.prepared(job))

    def _prepare_next(self) -> None:
        """While a device computes: the next batch is copied beside that."""
        if self._arrivals is not None and (job := self._mailbox.next_to_prepare()) is not None:
            self._prepare(job)

    def _ended_by(self, error: BaseException, assignment: Assignment) -> None:
        """Leaves the exception's text in the worker's segment. This process may be damaged and ends; the coordinator
        has the batch computed by another. Raises ResourceError if memory has run out."""
        text = told(error)
        if out_of_memory(error):
            launch = self._launch
            raise ResourceError(
                f"{launch.peer} ({launch.planned.devices[launch.peer.index]}) ran out of memory in batch "
                f"{self._in_work[1]}: {text}{memory_of_device()}; lower data.batch_size or model sizes"
            ) from None
        self._raised.say(assignment.attempt, f"{text}; traceback in {_log()}")


def _log() -> str:
    """Where this process's output goes, wherever that has been moved."""
    try:
        return str(Path("/proc/self/fd/2").readlink())
    except OSError:
        return "no log"
