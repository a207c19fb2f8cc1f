"""Makes the worker's parts and connects them: the device, the networks on it, and their memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NoReturn

import torch
from torch import nn

from pool import _native, numerics
from pool.crash_points import crash_point
from pool.device.batches import DeviceBatchLoader
from pool.device.event_waiter import EventWaiter
from pool.device.names import Device, parse_device
from pool.device.page_lock import page_lock
from pool.device.precision import apply_arithmetic
from pool.device.shared_memory import get_shared_memory
from pool.device.startup import hide_other_devices, naming_lost_devices, open_device
from pool.device.timeline import NoTimeline, Timeline, open_timeline
from pool.ensemble.factory import build_members
from pool.ensemble.member import Member
from pool.exchange.device.memory_exporter import import_memory
from pool.exchange.device.store import ExportedMemory, split_memory
from pool.exchange.device.weights import CopiedWeights, DeviceWeights, MappedWeights, Streams
from pool.exchange.device.worker import DeviceWorker
from pool.exchange.host.worker import HostWorker
from pool.exchange.interface import WorkerExchange
from pool.process.start import WorkerStart
from pool.shm.memory import Memory
from pool.telemetry.trace import Trace
from pool.worker.batches import BatchLoader, HostBatchLoader
from pool.worker.compute import Computer
from pool.worker.faults import Faults
from pool.worker.mailbox import Mailbox
from pool.worker.train_metrics import TrainMetrics
from pool.worker.user_warnings import show_warnings_to_user
from pool.worker.worker import Worker


def begin(start: WorkerStart, exported: Future[ExportedMemory] | None = None) -> Callable[[], NoReturn]:
    """Makes the worker and returns the function that runs its endless loop.

    `exported`: if the coordinator is in the same process, yields the GPU memory that it shares with the worker. Raises
    as `assemble` does.
    """
    with naming_lost_devices(start.device):
        return assemble(start, exported).run


def assemble(start: WorkerStart, exported: Future[ExportedMemory] | None = None) -> Worker:
    """Makes a worker, with its networks on its device. `exported`: as in `begin`. Raises RunError, ResourceError,
    LostDeviceError."""
    torch.set_num_threads(start.threads)
    device = _open_device(start)
    torch.set_deterministic_debug_mode("error")  # what use_deterministic_algorithms does, without 1 s of imports
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    memory = Memory(start.memory, start.segments)
    trace = Trace(start.run_dir, start.peer, on=start.traced)
    event_waiter: EventWaiter | None = None
    timeline: Timeline = NoTimeline()
    if device.is_accelerator:
        memory.register(page_lock)
        event_waiter = EventWaiter()
        timeline = open_timeline(trace, torch.device(device.torch_name), event_waiter)
    mailbox = Mailbox(start, memory.worker_signals(start.peer, start.signal_fds), trace)
    show_warnings_to_user(mailbox.notify_user)
    computer = Computer(
        partial(_make_members, start),
        start.layout,
        device,
        Faults(device, start.peer.incarnation),
        _make_batch_loader(start, device, event_waiter, timeline),
        partial(_make_exchange, start, memory, event_waiter, timeline, exported),
        trace=trace,
        total_steps=start.total_steps,
        dense_products=start.dense_products,
        metrics=TrainMetrics(start.measured, start.metrics_every),
        timeline=timeline,
    )
    # After the models were made: their weights' memory, replaced by shared memory, has gone back to the system.
    _native.keep_freed_memory()  # or every large activation costs fresh pages
    if computer.execution_line:
        mailbox.notify_user(computer.execution_line)
    return Worker(start, memory, mailbox, computer, copies_batches=event_waiter is not None)


def _open_device(start: WorkerStart) -> Device:
    """Opens the worker's device, and chooses how it computes. Raises RunError, LostDeviceError."""
    (device,) = hide_other_devices([parse_device(start.device)], [start.card])
    if device.is_accelerator:
        way_out = "name another device in pool.devices"
        open_device(torch.device(device.torch_name), str(start.peer), start.device, way_out)
    apply_arithmetic(own_kernels=start.own_kernels, dense_products=start.dense_products)
    numerics.check_worker(start.fingerprint, start.peer, device)
    return device


def _make_members(start: WorkerStart) -> list[Member]:
    """Makes the networks that the worker computes. Raises RunError if they are not those that the run began with."""
    members = list(build_members(start.nets, start.layout.plans, on_meta=start.on_meta))
    numerics.check_members(start.fingerprint, start.peer, members, start.dense_products)
    return members


def _make_batch_loader(
    start: WorkerStart, device: Device, event_waiter: EventWaiter | None, timeline: Timeline
) -> BatchLoader:
    """Makes the object that brings batches to the device: as views of the ring on a CPU, as copies on a GPU."""
    schema = start.layout.schema
    if event_waiter is None:
        return HostBatchLoader(schema)
    return DeviceBatchLoader(schema, torch.device(device.torch_name), event_waiter, timeline)


def _make_exchange(
    start: WorkerStart,
    memory: Memory,
    event_waiter: EventWaiter | None,
    timeline: Timeline,
    exported: Future[ExportedMemory] | None,
    model: nn.Module,
    device: torch.device,
) -> WorkerExchange:
    """Makes the worker's end of the exchange, from which `model` gets its weights and to which its gradients go.

    On a GPU the weights are read in the coordinator's device memory, if the run is set up so, else copied from host
    memory.
    """
    layout, index = start.layout, start.peer.index
    halves, average, slots = memory.weight_halves(), memory.average(), memory.gradient_slots(index)
    if event_waiter is None:
        return HostWorker(model, layout, halves=halves, slots=slots, average=average)
    plan, slot_nbytes, streams = layout.plan, layout.slot_plan.nbytes, Streams.create(device)
    weights: DeviceWeights
    if start.imports_memory:
        imported = _import_memory(start, device) if exported is None else exported.result()
        shared = imported.shared_streams
        if shared is not None:
            streams = replace(streams, outward=shared.writing, stepping=shared.stepping)
        crash_point("worker.memory_borrowed")
        weights = MappedWeights(model, plan, streams, split_memory(imported.weights, plan.nbytes))
        slots_on_device = split_memory(imported.slots, slot_nbytes)
    else:
        weights = CopiedWeights(model, plan, streams, halves, average)
        slots_on_device = [torch.from_numpy(slot[:slot_nbytes]) for slot in slots]
    return DeviceWorker(
        layout,
        weights,
        streams,
        event_waiter,
        slots=slots_on_device,
        list_memory=memory.touched_lists(index),
        timeline=timeline,
        spins=start.spins,
    )


def _import_memory(start: WorkerStart, device: torch.device) -> ExportedMemory:
    """Maps the device memory that the coordinator's process exports to this worker."""
    shared = get_shared_memory(device.type)
    assert shared is not None, f"memory of {device} can't be shared"
    return import_memory(start.address_key, start.coordinator, device, shared)
