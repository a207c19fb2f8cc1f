"""A worker's computing part on the fake GPU, with a feeder and a coordinator that use their rights at once, in one
process: each has threads and streams of its own, as it would have in a process of its own.

Memory that changes hands (I4) is overwritten with 0xFF as soon as its new owner may write it: a ring slot when its
batch has been read, a gradient slot when it was taken or settled, a version of the weights when the next one was
published. What is announced is read at that moment. So whatever is touched too early or too late gives other numbers.

The coordinator of a `TakingRig` is given versions of the weights, and takes gradients; that of a `SteppingRig`
(`stepping_rig`) makes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from loader.stream.data import open_stream
from loader.stream.schema import BatchSchema, SparseBatch
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from pool.coordinator.exchange_setup import copies
from pool.device import batches, event_waiter
from pool.device.names import parse_device
from pool.device.precision import DenseProducts
from pool.device.timeline import NoTimeline, Timeline, open_timeline
from pool.ensemble.member import Member
from pool.exchange.device import coordinator, owners, store, weights, worker
from pool.exchange.device.weights import Streams
from pool.exchange.groups import Contribution, Groups
from pool.exchange.host import coordinator as host
from pool.exchange.host.worker import HostWorker
from pool.exchange.host_memory import HostMemory
from pool.exchange.interface import CoordinatorExchange, WorkerExchange
from pool.exchange.layout import Layout
from pool.exchange.plan import Plan, build_plan
from pool.exchange.tensors import bucket_rows, tensor_specs, trained_parameters, view_array_as_tensors
from pool.kernels.reduction import Touched, find_rows
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Assignment
from pool.task.factory import build_model
from pool.telemetry.trace import Trace
from pool.worker import compute
from pool.worker.batches import BatchLoader, HostBatchLoader
from pool.worker.faults import Faults
from tests.gpu.fake import fakegpu
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

Slot = npt.NDArray[np.uint8]

GARBAGE = 0xFF


@dataclass(frozen=True)
class Mode:
    """How the streams run."""

    settings: Mapping[str, int] = field(default_factory=dict)
    late: str = ""  # this stream of the rig

    def begin(self, seed: int) -> None:
        """For streams that are made from now on; `seed`: of the delays."""
        fakegpu.configure(**{"delay_us": 0, "bytes_per_us": 0, "lazy": 0, **self.settings, "seed": seed})


MODES: Mapping[str, Mode] = {
    "at once": Mode(),
    "slow bus": Mode({"bytes_per_us": 5}),
    "only what is waited for": Mode({"lazy": 1}),
    "short delays": Mode({"delay_us": 300}),
    "long delays": Mode({"delay_us": 3000}),
    "batches are late": Mode(late="batches"),
    "inward is late": Mode(late="inward"),
    "outward is late": Mode(late="outward"),
    "computing is late": Mode(late="here"),
}


@dataclass
class Code:
    """The modules under test: the real ones, or copies with a bug."""

    event_waiter: Any = event_waiter
    batches: Any = batches
    coordinator: Any = coordinator
    copies: Any = copies
    owners: Any = owners
    host: Any = host
    step: Any = compute
    store: Any = store
    weights: Any = weights
    worker: Any = worker


@dataclass
class Inputs:
    """Of `count` batches and as many versions of the weights."""

    task: ToyTask
    schema: BatchSchema
    plan: Plan
    batches: list[Slot]
    weights: list[Slot]


@cache
def inputs(count: int = 5, *, infinite_gradient_of_batch: int = -1) -> Inputs:
    stream = open_stream(data_config(source="synthetic", batch_size=64), [], 42)
    slots = [batch.slot.copy() for batch in read_batches(stream, count)]
    stream.close()
    loss = LossConfig(infinite_gradient_of_batch=infinite_gradient_of_batch)
    task = ToyTask(ModelConfig(batch_norm=True), loss)
    torch.manual_seed(3)
    model = task.build_model()
    plan = build_plan(*tensor_specs(model), [256, 1 << 14], split_tables=True)
    assert len(plan.buckets) > 5, "several buckets, the table cut in rows"
    versions = []
    for version in range(count):
        half = np.zeros(plan.nbytes, np.uint8)
        for place, (_, parameter) in zip(
            view_array_as_tensors(half, plan.parameters), trained_parameters(model), strict=True
        ):
            place.copy_(parameter.detach() * (1 + 0.1 * version))
        for place, (_, buffer) in zip(view_array_as_tensors(half, plan.buffers), model.named_buffers(), strict=True):
            place.copy_(buffer)
        versions.append(half)
    return Inputs(task, stream.schema, plan, slots, versions)


class WorkerRig:
    """The worker, and the memory of the host that it shares with others."""

    def __init__(
        self,
        given: Inputs,
        name: str,
        code: Code | None,
        *,
        ring_slots: int,
        batches_per_group: int,
        gradient_dtype: str,
        dense_products: DenseProducts = "float32",
        trace: Trace | None = None,
    ) -> None:
        """`name`: of a torch device."""
        self._given = given
        self._code = code or Code()
        self._device = parse_device(name)
        self._layout = Layout(given.schema, (given.plan,), gradient_dtype, batches_per_group)
        self._lists = self._layout.touched_lists
        self._slot_nbytes = self._layout.slot_plan.nbytes  # gradients; then come lists
        self._ring = allocate_slots(given.schema, ring_slots)
        self._halves = _memory(2, given.plan.nbytes)
        self._slots = _memory(2, self._slot_nbytes + self._lists.nbytes)
        self._dense_products: DenseProducts = dense_products
        self._trace = trace or Trace(Path(), Peer(WORKER), on=False)
        self._timeline: Timeline = NoTimeline()
        if self._device.is_accelerator:
            torch.accelerator.set_device_index(self._device.index)
            for memory in self._page_locked:
                assert fakegpu.host_register(memory.ctypes.data, memory.nbytes) == 0

    def _begin_worker(self) -> None:
        given, device = self._given, self._device
        self._batches: BatchLoader = HostBatchLoader(given.schema)
        if device.is_accelerator:
            where = torch.device(device.torch_name)
            self.event_waiter = self._code.event_waiter.EventWaiter()
            self._timeline = open_timeline(self._trace, where, self.event_waiter)
            self._batches = self._code.batches.DeviceBatchLoader(given.schema, where, self.event_waiter, self._timeline)
        self.computer = self._code.step.Computer(
            lambda: [Member(given.task, build_model(given.task, 1), seed=1, settings=())],
            self._layout,
            device,
            Faults(device, incarnation=2),
            self._batches,
            self._join,
            trace=self._trace,
            total_steps=10,
            dense_products=self._dense_products,
            timeline=self._timeline,
        )

    def close(self) -> None:
        """Nothing runs any more, and the devices are sound."""
        if self._device.is_accelerator:
            fakegpu.mend()
            fakegpu.make_late(None)
            for memory in self._page_locked:
                fakegpu.host_unregister(memory.ctypes.data)

    _exchange: Any  # a DeviceWorker of self._code

    def _join(self, model: nn.Module, where: torch.device) -> WorkerExchange:
        if not self._device.is_accelerator:
            return HostWorker(model, self._layout, halves=self._halves, slots=self._slots)
        self._streams = Streams.create(where)
        worker: WorkerExchange = self._device_worker(*self._weights_and_slots(model))
        self._exchange = worker
        return worker

    def _weights_and_slots(self, model: nn.Module) -> tuple[Any, list[Tensor]]:
        """The model's weights, and the worker's gradient slots."""
        copied = self._code.weights.CopiedWeights(model, self._given.plan, self._streams, self._halves)
        return copied, [torch.from_numpy(slot[: self._slot_nbytes]) for slot in self._slots]

    def _device_worker(self, its_weights: Any, slots: Sequence[Tensor]) -> Any:
        return self._code.worker.DeviceWorker(
            self._layout,
            its_weights,
            self._streams,
            self.event_waiter,
            slots=slots,
            list_memory=[slot[self._slot_nbytes :] for slot in self._slots],
            timeline=self._timeline,
        )

    def _host_coordinator(self) -> CoordinatorExchange:
        rounds = self._layout.gradient_dtype != "float32"
        made: CoordinatorExchange = self._code.host.HostCoordinator(
            self._layout.member_layouts[0],
            self._host_memory,
            compact=[0] if self._device.is_accelerator or rounds else [],
            touched_rows=self._touched_rows,
            publish=lambda _: None,
        )
        return made

    @property
    def _host_memory(self) -> HostMemory:
        return HostMemory(self._halves, {(0, number): slot for number, slot in enumerate(self._slots)})

    def _touched_rows(self, contribution: Contribution, field: str) -> Touched:
        if self._lists.nbytes:
            return self._lists.read(self._slots[contribution.slot][self._slot_nbytes :], 0, field)
        (batch,) = contribution.batches
        return SparseBatch.view(self._given.schema, self._listed(batch)).sparse[field].touched

    def _listed(self, batch: int) -> Slot:
        """Where the coordinator reads which rows a batch touches."""
        return self._place(batch)

    def _place(self, batch: int) -> Slot:
        """Of a batch in the ring."""
        return self._ring[batch % len(self._ring)]

    @property
    def _page_locked(self) -> list[Slot]:
        return [*self._ring, *self._halves, *self._slots]


@dataclass
class Done:
    """What has come of one group of batches."""

    losses: list[float]
    unsound: list[str]
    announced: list[int]
    gradients: dict[int, list[Tensor]]  # by bucket: of its parameters, rows that were not touched zero
    buffers: list[Tensor]


class TakingRig(WorkerRig):
    """`train` takes groups of the batches of `inputs` one after the other, the next batch prepared meanwhile; group g
    with version g of the weights."""

    def __init__(
        self,
        given: Inputs,
        name: str = "fakegpu:0",
        code: Code | None = None,
        *,
        batches_per_group: int = 1,
        gradient_dtype: str = "float32",
        dense_products: DenseProducts = "float32",
        trace: Trace | None = None,
    ) -> None:
        """`name`: of a torch device."""
        super().__init__(
            given,
            name,
            code,
            ring_slots=2 * batches_per_group,
            batches_per_group=batches_per_group,
            gradient_dtype=gradient_dtype,
            dense_products=dense_products,
            trace=trace,
        )
        self._groups = Groups(len(given.batches), batches_per_group)
        self._begin_worker()
        self._taker = self._host_coordinator()

    def make_late(self, name: str) -> None:
        """One of its streams; none if the name is empty."""
        own = self._streams
        assert not isinstance(self._batches, HostBatchLoader)
        streams: dict[str, torch.Stream] = {"inward": own.inward, "outward": own.outward, "here": own.current_stream}
        streams["batches"] = self._batches._stream  # type: ignore[attr-defined]
        fakegpu.make_late(streams[name] if name else None)

    def train(self, meanwhile: Callable[[], object] = lambda: None) -> list[Done]:
        """All groups."""
        done = []
        self._fill(0)
        self._publish(0)
        for group in range(self._groups.groups_per_step):
            done.append(self._train(group, meanwhile))
        return done

    def reuse(self) -> str:
        """BatchLoader that are dropped as soon as work with them is queued: which of them came out wrong; empty if
        none."""
        targets = []
        for slot in self._given.batches:
            locked = self._ring[0]
            locked[:] = slot
            read = threading.Event()
            loaded = self._batches.load(locked)
            loaded.call_when_read(read.set)
            target = loaded.for_current_stream().dense["target"]
            for _ in range(3):
                target = target + 0.0
            targets.append(target)
            del loaded
            read.wait()
        for k, (target, slot) in enumerate(zip(targets, self._given.batches, strict=True)):
            wanted = SparseBatch.view(self._given.schema, slot).dense["target"]
            if not np.array_equal(target.cpu().numpy(), wanted):
                return f"batch {k}: its memory was used for another"
        return ""

    def _train(self, group: int, meanwhile: Callable[[], object]) -> Done:
        announced: list[int] = []
        gradients: dict[int, list[Tensor]] = {}
        batches, slot = tuple(self._groups.batches(0, group)), group % 2

        def arrived(bucket: int) -> None:
            gradients[bucket] = self._take(batches, slot, bucket)
            announced.append(bucket)

        def prepare_next() -> None:
            meanwhile()
            if group + 1 < self._groups.groups_per_step:
                self._fill(group + 1)
                place = self._place(self._groups.batches(0, group + 1).start)
                self.computer.prepare(place, group + 2, on_read=lambda: place.fill(GARBAGE))

        self._fill(group)
        self._halves[1 - slot].fill(GARBAGE)
        computed = self.computer.train(
            [self._place(batch) for batch in batches],
            Assignment("train", group, batches, slot, attempt=group + 1, first=True),
            frozen=(),
            on_bucket=arrived,
            while_computing=prepare_next,
        )
        for batch in batches:
            self._place(batch).fill(GARBAGE)
        if not self._device.is_accelerator:
            prepare_next()
        for bucket in range(len(self._given.plan.buckets)):
            if bucket not in announced:
                gradients[bucket] = self._take(batches, slot, bucket)
        buffers = [
            tensor.clone() for tensor in view_array_as_tensors(self._slots[slot], self._layout.slot_plan.buffers)
        ]
        self._slots[slot].fill(GARBAGE)
        if group + 1 < self._groups.groups_per_step:
            self._publish(group + 1)
        self._halves[slot].fill(GARBAGE)
        losses, unsound = (
            [each.losses[0] for each in computed.outcomes],
            [each.nonfinite[0] for each in computed.outcomes],
        )
        return Done(losses, unsound, announced, gradients, buffers)

    def _listed(self, batch: int) -> Slot:
        """Its place in the ring is the next one's by then."""
        return self._given.batches[batch]

    def _fill(self, group: int) -> None:
        """The feeder's: the batches in their slots."""
        for batch in self._groups.batches(0, group):
            self._place(batch)[:] = self._given.batches[batch]

    def _publish(self, version: int) -> None:
        self._halves[version % 2][:] = self._given.weights[version]

    def _take(self, batches: tuple[int, ...], slot: int, bucket: int) -> list[Tensor]:
        """A bucket's gradients as the coordinator finds them now."""
        plan = self._given.plan
        gradients = []
        for parameter in plan.buckets[bucket].parameters:
            shard = self._taker.shard(plan.buckets[bucket], parameter)
            out = bucket_rows(torch.zeros(plan.parameters[parameter].shape), plan.buckets[bucket]).clone()
            taken = shard.read_gradients([Contribution(batches, 0, 0, slot, ())])
            shard.reduce(out, taken, scale=1.0, touched_only=False)
            gradients.append(out)
        return gradients


def difference(found: Sequence[Done], wanted: Sequence[Done]) -> str:
    """Where they differ by more than rounding; empty if nowhere."""
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if not np.allclose(a.losses, b.losses, rtol=1e-5, equal_nan=True):
            return f"group {k}: losses {a.losses}, not {b.losses}"
        if a.unsound != b.unsound:
            return f"group {k}: unsound {a.unsound!r}, not {b.unsound!r}"
        for bucket, tensors in b.gradients.items():
            for i, tensor in enumerate(tensors):
                if not torch.allclose(a.gradients[bucket][i], tensor, rtol=1e-4, atol=1e-5, equal_nan=True):
                    return f"group {k}: gradient {i} of bucket {bucket}"
        for i, buffer in enumerate(b.buffers):
            if not torch.allclose(a.buffers[i], buffer, rtol=1e-4, atol=1e-6):
                return f"group {k}: buffer {i}"
    return ""


def touched_bytes(given: Inputs, k: int, bucket: int) -> int:
    """Of the table's rows that batch k touched in a bucket."""
    rows = given.plan.buckets[bucket].rows
    assert rows is not None
    begin, end = find_rows(SparseBatch.view(given.schema, given.batches[k]).sparse["features"].touched, *rows)
    return 64 * (end - begin)


def _memory(count: int, nbytes: int) -> list[Slot]:
    """Whole pages each, zeros."""
    page = 4096
    size = -(-nbytes // page) * page
    whole = np.zeros((count * size + page,), np.uint8)
    begin = -whole.ctypes.data % page
    return [whole[begin + i * size :][:nbytes] for i in range(count)]
