"""A worker and a coordinator whose exchange lies on fake GPUs, in one process: each has threads and streams of its own,
as they would have in processes of their own.

As in `rig`, memory that changes hands is overwritten with 0xFF as soon as its new owner may write it (I4): a gradient
slot when it was settled, a version of the weights when the next one was published. A step has two groups of batches;
the first is folded early. After the first step the worker dies, and what it had begun on the device still writes to its
slots when its successor's gradients come.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from loader.stream.schema import SparseBatch
from loader.stream.slots import allocate_slots
from pool.checkpoint.store import Checkpoint
from pool.config.load import parse_config
from pool.coordinator.exchange_setup.copies import FromDevices
from pool.coordinator.models import Models
from pool.coordinator.scheduler.actions import Fold, TakeBuffers, Update
from pool.coordinator.update.timing import Timing
from pool.device.batches import DeviceBatches
from pool.device.event_waiter import Arrivals
from pool.device.names import Device
from pool.ensemble.member import Member
from pool.exchange.contribution import Contribution
from pool.exchange.device import coordinator, homes, store, weights
from pool.exchange.device.placing import place_pieces
from pool.exchange.device.store import pieces
from pool.exchange.device.worker import DeviceWorker
from pool.exchange.groups import Groups
from pool.exchange.host.coordinator import HostCoordinator
from pool.exchange.host.lists import TouchedLists
from pool.exchange.host.streams import Streams
from pool.exchange.host.weights import CopiedWeights
from pool.exchange.interface import CoordinatorExchange, WorkerExchange
from pool.exchange.member_layout import Part
from pool.exchange.slot_layout import slot_layout
from pool.kernels.fold import Touched
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Assignment
from pool.task.factory import build_model
from pool.telemetry.trace import Trace
from pool.worker.compute import Computer
from pool.worker.faults import Faults
from tests.gpu.fake import fakegpu
from tests.gpu.fake.rig import GARBAGE, Inputs, Slot
from tests.support.toy_model import ToyTask

DEVICES = ("fakegpu:0", "fakegpu:1")
PER_STEP = 2  # groups
STEPS = 2
DIES_AFTER = 0  # step
Kind = Literal["host", "local", "remote", "shared", "shared rows"]


@dataclass
class DeviceCode:
    """The modules under test: the real ones, or copies with a bug."""

    coordinator: Any = coordinator
    homes: Any = homes
    store: Any = store
    weights: Any = weights


@dataclass(frozen=True)
class Trained:
    losses: list[float]
    tensors: dict[str, bytes]  # weights and state of the optimizer
    counted: fakegpu.Counters  # of the steps
    waits: dict[str, int]  # for the device, by who waited


class DeviceRig:
    """`host`: everything is exchanged in host memory; `local`: on the worker's device; `remote`: on another one;
    `shared`: pieces are shared out over the worker's device and another one, which is the first; `shared rows`: of an
    optimizer that leaves untouched rows alone."""

    def __init__(
        self,
        given: Inputs,
        kind: Kind,
        code: DeviceCode | None = None,
        *,
        batches_per_group: int = 1,
        early: bool = True,
        touched_only: bool = False,
        gradient_dtype: str = "float32",
    ) -> None:
        """`early`: the first group of a step is folded before the second is there; `touched_only`: the optimizer is
        that of `shared rows`."""
        self._given, self._kind, self._code = given, kind, code or DeviceCode()
        self._early, self._touched_only = early, touched_only or kind == "shared rows"
        self._is_shared = kind in ("shared", "shared rows")
        self._is_lent = self._is_shared or kind == "local"  # memory of the coordinator's, to the worker
        plan = given.plan
        self._slot_plan = slot_layout(plan, gradient_dtype)
        self._groups = Groups(PER_STEP * batches_per_group, batches_per_group)
        assert len(given.batches) == STEPS * self._groups.batches_per_step
        self._lists = TouchedLists(given.schema, 1, batches_per_group)
        self._place = Device("fakegpu", 1 if self._is_shared or kind == "remote" else 0)
        self._incarnation = 1
        self._dead: list[torch.Tensor] = []  # slots of the first life
        self._boss = ThreadPoolExecutor(1, initializer=_use_devices)
        self._janitor = ThreadPoolExecutor(1, initializer=_use_devices)
        self._host = {
            "ring": allocate_slots(given.schema, len(given.batches)),
            "halves": _memory(2, plan.nbytes),
            "slots": _memory(PER_STEP, self._slot_plan.nbytes),
            "lists": _memory(PER_STEP, max(1, self._lists.nbytes)),
        }
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        given = self._given
        torch.accelerator.set_device_index(self._place.index)
        for memory in self._all_host():
            assert fakegpu.host_register(memory.ctypes.data, memory.nbytes) == 0
        for slot, batch in zip(self._host["ring"], given.batches, strict=True):
            slot[:] = batch
        self._models: Models = self._boss.submit(self._made_committer).result()
        self.arrivals = Arrivals()
        self.computer = Computer(
            lambda: [Member(given.task, build_model(given.task, 1), seed=1, settings=())],
            [given.plan],
            given.schema,
            self._place,
            Faults(self._place, incarnation=2),
            DeviceBatches(given.schema, torch.device(self._place.torch_name), self.arrivals),
            self._join,
            trace=Trace(Path(), Peer(WORKER), on=False),
            total_steps=10,
        )
        self._boss.submit(self._begin).result()

    def make_late(self, name: str) -> None:
        """One of its streams; none if the name is empty."""
        worker, first = self._exchange._streams, self._homes.stores[0]
        streams = {
            "outward": lambda: worker.outward,
            "here": lambda: worker.here,
            "here of the first": self._boss.submit(lambda: first.here).result,
        }
        fakegpu.make_late(streams[name]() if name else None)

    def close(self) -> None:
        """Whatever has failed: nothing runs any more, and the devices are sound."""
        for thread in (self._boss, self._janitor):
            thread.shutdown(cancel_futures=True)
        fakegpu.mend()
        fakegpu.make_late(None)
        for memory in self._all_host():
            fakegpu.host_unregister(memory.ctypes.data)

    def train(self) -> Trained:
        losses: list[float] = []
        before, waits = fakegpu.counters(), self._waits()
        for step in range(STEPS):
            for place in range(PER_STEP):
                losses += self._train(step, place)
            self._boss.submit(self._commit, step).result()
            self._throw_away(step)
            if step == DIES_AFTER and self._kind != "host":
                self._die()
        counted = fakegpu.counters() - before
        waited = {who: count - waits.get(who, 0) for who, count in self._waits().items()}
        return Trained(losses, self._boss.submit(self._tensors).result(), counted, waited)

    def divided_state(self) -> dict[str, list[torch.Tensor]]:
        """Of the optimizer, the parts of what lies on several devices, by name."""
        return self._models.divided_state()

    def _waits(self) -> dict[str, int]:
        """By who waits; `autograd`: any other thread."""
        names = {
            self._boss.submit(threading.get_native_id).result(): "coordinator",
            self._janitor.submit(threading.get_native_id).result(): "others",
            self.arrivals.native_id: "arrivals",
            threading.get_native_id(): "worker",
        }
        found = dict.fromkeys([*names.values(), "autograd"], 0)
        for thread, count in fakegpu.waits_by_thread().items():
            found[names.get(thread, "autograd")] += count
        return found

    def _train(self, step: int, place: int) -> list[float]:
        batches = tuple(self._groups.batches(step, place))
        found = Contribution(batches, place, 0, place, (), self._incarnation)
        folded: dict[int, Future[None]] = {}

        def arrived(bucket: int) -> None:
            if self._dead and not folded:
                self._janitor.submit(_spoil, self._dead).result()
            folded[bucket] = self._boss.submit(self._take, step, bucket, found)

        computed = self.computer.train(
            [self._host["ring"][batch] for batch in batches],
            Assignment("train", step, batches, place, attempt=1 + PER_STEP * step + place, first=place == 0),
            frozen=(),
            announce=arrived,
        )
        for bucket in range(len(self._given.plan.buckets)):
            if bucket not in folded:
                arrived(bucket)
        for future in folded.values():
            future.result()
        if place == 0:
            self._boss.submit(self._take_buffers, step, found).result()
            if self._early:
                self._throw_away_slot(0)
        return [loss for outcome in computed.outcomes for loss in outcome.losses]

    # --- the coordinator's thread ---

    def _made_committer(self) -> Models:
        name = "pool.optim.SparseAdam" if self._touched_only else "pool.optim.Adam"
        settings = {"name": name, "args": {"lr": 0.01}}
        data = {"source": "synthetic", "batch_size": 64}
        config = parse_config({"task": "tests.support.toy", "data": data, "optimizer": settings}, "test")
        torch.manual_seed(3)
        task = Clipping(self._given.task)
        member = Member(task, task.build_model(), seed=1, settings=())
        return Models([config], [member], [self._given.plan], [self._made_exchange()], Timing(_NO_METRICS, _TRACE))

    def _made_exchange(self) -> CoordinatorExchange:
        plan, host, its = self._given.plan, self._host, self._code
        slots = {(0, number): slot for number, slot in enumerate(host["slots"])}
        if self._kind == "host":
            return HostCoordinator(
                plan,
                halves=host["halves"],
                gradient_slots=slots,
                slot_plan=self._slot_plan,
                compact=[0],
                touched_rows=self._touched_rows,
                publish=lambda _: None,
            )
        stores = [
            its.store.DeviceStore(
                torch.device(device), fakegpu.SharedMemory(), plan.nbytes, PER_STEP, self._slot_plan.nbytes
            )
            for device in (DEVICES if self._is_shared else DEVICES[:1])
        ]
        workers = {"local": [[0]], "remote": [[]]}.get(self._kind, [[], [0]])
        self._homes = its.homes.Homes(stores, workers)
        remote = its.coordinator.Remote(
            [torch.from_numpy(half) for half in host["halves"]],
            None,
            {key: torch.from_numpy(slot) for key, slot in slots.items()},
        )
        made: CoordinatorExchange = its.coordinator.DeviceCoordinator(
            plan,
            self._homes,
            place_pieces([plan], len(stores))[0],
            slot_part=Part(self._slot_plan, 0, 0, 0),
            touched_rows=self._touched_rows,
            publish=lambda _: None,
            remote=remote if self._kind == "remote" else None,
        )
        return made

    def _begin(self) -> None:
        self._models.initialize()
        self._models.begin(0)
        self._models.publish(0)

    def _take(self, step: int, bucket: int, found: Contribution) -> None:
        batches, last = self._groups.batches_per_step, found.place == PER_STEP - 1
        first = replace(found, batches=tuple(self._groups.batches(step, 0)), place=0, slot=0)
        contributions = (found,) if self._early else (first, found)
        fold = Fold(step, bucket, contributions, contributions[0].place == 0, last, batches)
        if last:
            self._models.ahead()  # as late as can be
            self._models.update(Update(step, bucket, batches, fold))
        elif self._early:
            self._models.fold(fold)

    def _take_buffers(self, step: int, found: Contribution) -> None:
        self._models.take_buffers(TakeBuffers(step, 0, found))
        if self._early:
            self._models.settle()

    def _commit(self, step: int) -> None:
        self._models.commit(step)
        self._models.publish(step + 1)

    def _tensors(self) -> dict[str, bytes]:
        copied = FromDevices([torch.device(device) for device in DEVICES]).begin(self._state())
        copied.wait()
        found = {**copied.state.weights, **copied.state.optimizer_tensors}
        return {name: tensor.detach().numpy().tobytes() for name, tensor in found.items()}

    def _state(self) -> Checkpoint:
        facts: dict[str, Any] = dict.fromkeys(field.name for field in fields(Checkpoint))
        tensors, _ = self._models.optimizer_state()
        state = {"weights": self._models.weights(), "optimizer_tensors": tensors, "average": {}}
        return Checkpoint(**{**facts, **state, "divided": self._models.divided_state()})

    # --- the worker ---

    def _join(self, model: nn.Module, where: torch.device) -> WorkerExchange:
        plan, streams = self._given.plan, Streams.of(where)
        slots = [torch.from_numpy(slot) for slot in self._host["slots"]]
        made: Any
        if self._is_lent:
            lent = self._boss.submit(self._homes.lend, 0, 1).result()
            made, slots = self._mapped(model, streams, lent.weights), pieces(lent.slots, self._slot_plan.nbytes)
        else:
            made = CopiedWeights(model, plan, streams, self._host["halves"])
        self._exchange = DeviceWorker(
            plan,
            made,
            streams,
            self.arrivals,
            slots=slots,
            slot_plan=self._slot_plan,
            lists=self._lists,
            list_memory=self._host["lists"],
        )
        return self._exchange

    def _mapped(self, model: nn.Module, streams: Streams, memory: torch.Tensor) -> Any:
        return self._code.weights.MappedWeights(
            model, self._given.plan, streams, pieces(memory, self._given.plan.nbytes)
        )

    def _die(self) -> None:
        """The next life has other memory, and what the first one had begun goes on."""
        if not self._is_lent:
            return
        self._dead = [self._homes.of_worker[0].slot(0, 1, number) for number in range(PER_STEP)]
        self._incarnation = 2
        lent = self._boss.submit(self._homes.lend, 0, 2).result()
        plan = self._given.plan
        replacement = DeviceWorker(
            plan,
            self._exchange._weights,
            self._exchange._streams,
            self.arrivals,
            slots=pieces(lent.slots, self._slot_plan.nbytes),
            slot_plan=self._slot_plan,
            lists=self._lists,
            list_memory=self._host["lists"],
        )
        self._exchange.__dict__.update(replacement.__dict__)

    # --- memory that changes hands ---

    def _throw_away(self, step: int) -> None:
        """After version step + 1 was published."""
        for batch in range(step * self._groups.batches_per_step, (step + 1) * self._groups.batches_per_step):
            self._host["ring"][batch].fill(GARBAGE)
        self._throw_away_slot(PER_STEP - 1)
        if self._touched_only:
            return  # the rows that it leaves alone are in both versions
        if not self._is_lent:
            self._host["halves"][step % 2].fill(GARBAGE)
        if self._kind != "host":
            self._janitor.submit(_spoil, [store.halves[step % 2] for store in self._homes.stores]).result()

    def _throw_away_slot(self, number: int) -> None:
        self._host["lists"][number].fill(GARBAGE)
        if self._is_lent:
            self._janitor.submit(_spoil, [self._homes.of_worker[0].slot(0, self._incarnation, number)]).result()
        else:
            self._host["slots"][number].fill(GARBAGE)

    def _touched_rows(self, contribution: Contribution, field: str) -> Touched:
        if self._lists.nbytes:
            return self._lists.read(self._host["lists"][contribution.slot], 0, field)
        (batch,) = contribution.batches
        return SparseBatch.view(self._given.schema, self._host["ring"][batch]).sparse[field].touched

    def _all_host(self) -> list[Slot]:
        return [memory for kind in self._host.values() for memory in kind]


class Clipping:
    """A task that changes, after each step, a parameter that is not stepped on the first of several devices."""

    def __init__(self, task: ToyTask) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def after_step(self, model: nn.Module) -> None:
        self._task.after_step(model)
        for name, parameter in model.named_parameters():
            if name == "extra.weight":  # a toy's
                parameter.clamp_(-0.2, 0.2)


class _NoMetrics:
    def measured(self, _: str) -> AbstractContextManager[None]:
        return nullcontext()


_NO_METRICS: Any = _NoMetrics()
_TRACE: Any = Trace(Path(), Peer(WORKER), on=False)


def _use_devices() -> None:
    for index in (1, 0):
        torch.accelerator.set_device_index(index)
        torch.accelerator.set_stream(torch.Stream(device=DEVICES[index]))


def _memory(count: int, nbytes: int) -> list[Slot]:
    """Whole pages each, zeros."""
    page = 4096
    size = -(-nbytes // page) * page
    whole = np.zeros((count * size + page,), np.uint8)
    begin = -whole.ctypes.data % page
    return [whole[begin + i * size :][:nbytes] for i in range(count)]


def _spoil(memory: list[torch.Tensor]) -> None:
    """By another process."""
    for tensor in memory:
        tensor.fill_(GARBAGE)
        torch.accelerator.synchronize(tensor.device)
