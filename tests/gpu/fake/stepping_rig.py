"""A worker and a coordinator that makes versions of the weights, with an exchange in host memory or on fake GPUs."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pool.checkpoint.store import Checkpoint
from pool.config.load import parse_config
from pool.coordinator.exchange_setup.copies import StateCopy
from pool.coordinator.models import Models
from pool.coordinator.scheduler.actions import CopyBuffers, Reduce, Update
from pool.coordinator.update.stopwatch import Stopwatch
from pool.ensemble.member import Member
from pool.exchange.device.owners import assign_owners
from pool.exchange.device.store import split_memory
from pool.exchange.groups import Contribution, Groups
from pool.exchange.interface import CoordinatorExchange
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Assignment
from pool.telemetry.trace import Trace
from tests.gpu.fake import fakegpu
from tests.gpu.fake.rig import GARBAGE, Code, Inputs, WorkerRig
from tests.support.toy_model import ToyTask

DEVICES = ("fakegpu:0", "fakegpu:1")
PER_STEP = 2  # groups
STEPS = 2
DIES_AFTER = 0  # step
Kind = Literal["host", "local", "one process", "remote", "shared", "shared rows"]


@dataclass(frozen=True)
class Trained:
    losses: list[float]
    tensors: dict[str, bytes]  # weights and state of the optimizer
    counted: fakegpu.Counters  # of the steps
    waits: dict[str, int]  # for the device, by who waited
    snapshot: dict[str, bytes]  # the same after the first step, if it was asked for


class SteppingRig(WorkerRig):
    """A step has two groups of batches; the first is added up early. After the first step the worker dies, and what it
    had begun on the device still writes to its slots when its successor's gradients come.

    `host`: everything is exchanged in host memory; `local`: on the worker's device; `one process`: there, and neither
    role waits for the device in between, or outlives the other; `remote`: on another one;
    `shared`: shards are divided out over the worker's device and another one, which is the first; `shared rows`: of an
    optimizer that leaves untouched rows alone."""

    def __init__(
        self,
        given: Inputs,
        kind: Kind,
        code: Code | None = None,
        *,
        batches_per_group: int = 1,
        early: bool = True,
        touched_only: bool = False,
        gradient_dtype: str = "float32",
        snapshot: bool = False,
    ) -> None:
        """`early`: the first group of a step is added up before the second is there; `touched_only`: the optimizer is
        that of `shared rows`; `snapshot`: the state after the first step is copied while the second is made (`host`,
        `one process`)."""
        assert not snapshot or kind in ("host", "one process"), "others do not order who writes behind the copy"
        self._takes_snapshot = snapshot
        self._snapshot: StateCopy | None = None
        self._kind = kind
        self._early, self._touched_only = early, touched_only or kind == "shared rows"
        self._is_shared = kind in ("shared", "shared rows")
        self._is_exported = self._is_shared or kind in (
            "local",
            "one process",
        )  # memory of the coordinator's, to the worker
        self._groups = Groups(PER_STEP * batches_per_group, batches_per_group)
        assert len(given.batches) == STEPS * self._groups.batches_per_step
        self._incarnation = 1
        self._dead: list[Tensor] = []  # slots of the first life
        self._boss = ThreadPoolExecutor(1, initializer=_use_devices)
        self._janitor = ThreadPoolExecutor(1, initializer=_use_devices)
        super().__init__(
            given,
            DEVICES[1 if self._is_shared or kind == "remote" else 0],
            code,
            ring_slots=len(given.batches),
            batches_per_group=batches_per_group,
            gradient_dtype=gradient_dtype,
        )
        try:
            for slot, batch in zip(self._ring, given.batches, strict=True):
                slot[:] = batch
            self._models: Models = self._boss.submit(self._made_models).result()
            devices = [torch.device(device) for device in DEVICES]
            self._copies = self._code.copies.DeviceCopies(devices)
            self._begin_worker()
            self._boss.submit(self._begin).result()
        except BaseException:
            self.close()
            raise

    def make_late(self, name: str) -> None:
        """One of its streams; none if the name is empty."""
        own = self._streams
        streams = {
            "outward": lambda: own.outward,
            "here": lambda: own.current_stream,
            "here of the first": self._boss.submit(lambda: self._stores.first.current_stream).result,
            "copies": lambda: self._copies._streams[torch.device(DEVICES[0])],
            "here of the last": self._boss.submit(lambda: self._stores.all[-1].current_stream).result,
        }
        fakegpu.make_late(streams[name]() if name else None)

    def close(self) -> None:
        """Whatever has failed."""
        for thread in (self._boss, self._janitor):
            thread.shutdown(cancel_futures=True)
        super().close()

    def train(self) -> Trained:
        losses: list[float] = []
        before, waits = fakegpu.counters(), self._waits()
        for step in range(STEPS):
            for place in range(PER_STEP):
                losses += self._train(step, place)
            self._boss.submit(self._commit, step).result()
            self._throw_away(step)
            if step == DIES_AFTER and self._kind not in ("host", "one process"):
                self._die()
        counted = fakegpu.counters() - before
        waited = {who: count - waits.get(who, 0) for who, count in self._waits().items()}
        taken = {} if self._snapshot is None else self._boss.submit(_bytes_of, self._snapshot).result()
        return Trained(losses, self._boss.submit(self._tensors).result(), counted, waited, taken)

    def divided_state(self) -> dict[str, list[torch.Tensor]]:
        """Of the optimizer, the parts of what lies on several devices, by name."""
        return self._models.divided_state()

    def _waits(self) -> dict[str, int]:
        """By who waits; `autograd`: any other thread."""
        names = {
            self._boss.submit(threading.get_native_id).result(): "coordinator",
            self._janitor.submit(threading.get_native_id).result(): "others",
            self.event_waiter.native_id: "event waiter",
            threading.get_native_id(): "worker",
        }
        waits = dict.fromkeys([*names.values(), "autograd"], 0)
        for thread, count in fakegpu.waits_by_thread().items():
            waits[names.get(thread, "autograd")] += count
        return waits

    def _train(self, step: int, place: int) -> list[float]:
        batches = tuple(self._groups.batches(step, place))
        contribution = Contribution(batches, place, 0, place, (), self._incarnation)
        reduced: dict[int, Future[None]] = {}

        def arrived(bucket: int) -> None:
            if self._dead and not reduced:
                self._janitor.submit(_spoil, self._dead).result()
            reduced[bucket] = self._boss.submit(self._take, step, bucket, contribution)

        computed = self.computer.train(
            [self._place(batch) for batch in batches],
            Assignment("train", step, batches, place, attempt=1 + PER_STEP * step + place, first=place == 0),
            frozen=(),
            on_bucket=arrived,
        )
        for bucket in range(len(self._given.plan.buckets)):
            if bucket not in reduced:
                arrived(bucket)
        for future in reduced.values():
            future.result()
        if place == 0:
            self._boss.submit(self._take_buffers, step, contribution).result()
            if self._early:
                self._throw_away_slot(0)
        return [loss for outcome in computed.outcomes for loss in outcome.losses]

    # --- the coordinator's thread ---

    def _made_models(self) -> Models:
        name = "pool.optim.SparseAdam" if self._touched_only else "pool.optim.Adam"
        settings = {"name": name, "args": {"lr": 0.01}}
        data = {"source": "synthetic", "batch_size": 64}
        config = parse_config({"task": "tests.support.toy", "data": data, "optimizer": settings}, "test")
        torch.manual_seed(3)
        task = Clipping(self._given.task)
        member = Member(task, task.build_model(), seed=1, settings=())
        return Models([config], [member], [self._given.plan], [self._made_exchange()], Stopwatch(_NO_METRICS, _TRACE))

    def _made_exchange(self) -> CoordinatorExchange:
        plan, its = self._given.plan, self._code
        if self._kind == "host":
            return self._host_coordinator()
        stores = [
            its.store.DeviceStore(
                torch.device(device),
                fakegpu.SharedMemory().allocate,
                plan.nbytes,
                PER_STEP,
                self._slot_nbytes,
                in_one_process=self._kind == "one process",
            )
            for device in (DEVICES if self._is_shared else DEVICES[:1])
        ]
        workers = {"local": [[0]], "one process": [[0]], "remote": [[]]}.get(self._kind, [[], [0]])
        self._stores = its.owners.DeviceStores(stores, workers)
        made: CoordinatorExchange = its.coordinator.DeviceCoordinator(
            self._layout.member_layouts[0],
            self._stores,
            assign_owners([plan], len(stores))[0],
            touched_rows=self._touched_rows,
            publish=lambda _: None,
            remote=self._host_memory if self._kind == "remote" else None,
        )
        return made

    def _begin(self) -> None:
        self._models.initialize()
        self._models.start(0)
        self._models.publish(0)

    def _take(self, step: int, bucket: int, contribution: Contribution) -> None:
        batches, last = self._groups.batches_per_step, contribution.group_index == PER_STEP - 1
        first = replace(contribution, batches=tuple(self._groups.batches(step, 0)), group_index=0, slot=0)
        contributions = (contribution,) if self._early else (first, contribution)
        places = range(contribution.group_index + 1)
        reduction = Reduce(step, bucket, contributions, places, contributions[0].group_index == 0, last, batches)
        if last:
            self._models.copy_early()  # as late as can be
            self._models.buckets[bucket].update(Update(step, bucket, batches, reduction))
        elif self._early:
            self._models.buckets[bucket].reduce(reduction)

    def _take_buffers(self, step: int, contribution: Contribution) -> None:
        self._models.members[0].copy_buffers(CopyBuffers(step, 0, contribution))
        if self._early:
            self._models.wait_until_read()

    def _commit(self, step: int) -> None:
        self._models.commit(step)
        if self._snapshot is not None:
            self._snapshot.protect()
        elif self._takes_snapshot:
            self._snapshot = self._copy_of_state()
        self._models.publish(step + 1)

    def _tensors(self) -> dict[str, bytes]:
        return _bytes_of(self._copy_of_state())

    def _copy_of_state(self) -> StateCopy:
        copied: StateCopy = self._copies.start(self._state())
        return copied

    def _state(self) -> Checkpoint:
        facts: dict[str, Any] = dict.fromkeys(field.name for field in fields(Checkpoint))
        tensors, _ = self._models.optimizer_state()
        state = {"weights": self._models.weights(), "optimizer_tensors": tensors, "average": {}}
        return Checkpoint(**{**facts, **state, "divided": self._models.divided_state()})

    # --- the worker ---

    def _weights_and_slots(self, model: nn.Module) -> tuple[Any, list[Tensor]]:
        if not self._is_exported:
            return super()._weights_and_slots(model)
        plan, exported = self._given.plan, self._exported()
        if exported.shared_streams is not None:
            self._streams = replace(
                self._streams, outward=exported.shared_streams.writing, stepping=exported.shared_streams.stepping
            )
        mapped = self._code.weights.MappedWeights(
            model, plan, self._streams, split_memory(exported.weights, plan.nbytes)
        )
        return mapped, split_memory(exported.slots, self._slot_nbytes)

    def _exported(self) -> Any:
        return self._boss.submit(self._stores.export_memory, 0, self._incarnation).result()

    def _die(self) -> None:
        """The next life has other memory, and what the first one had begun goes on."""
        if not self._is_exported:
            return
        self._dead = [self._stores.of_worker[0].slot(0, 1, number) for number in range(PER_STEP)]
        self._incarnation = 2
        replacement = self._device_worker(
            self._exchange._weights, split_memory(self._exported().slots, self._slot_nbytes)
        )
        self._exchange.__dict__.update(replacement.__dict__)

    # --- memory that changes hands ---

    def _throw_away(self, step: int) -> None:
        """After version step + 1 was published."""
        for batch in range(step * self._groups.batches_per_step, (step + 1) * self._groups.batches_per_step):
            self._place(batch).fill(GARBAGE)
        self._throw_away_slot(PER_STEP - 1)
        if self._touched_only:
            return  # the rows that it leaves alone are in both versions
        if not self._is_exported:
            self._halves[step % 2].fill(GARBAGE)
        if self._kind == "one process":  # where the next version is written, in its stream
            self._boss.submit(self._stores.first.halves[step % 2].fill_, GARBAGE).result()
        elif self._kind != "host":
            self._janitor.submit(_spoil, [store.halves[step % 2] for store in self._stores.all]).result()

    def _throw_away_slot(self, number: int) -> None:
        self._slots[number][self._slot_nbytes if self._is_exported else 0 :].fill(GARBAGE)
        if self._is_exported and self._kind != "one process":
            self._janitor.submit(_spoil, [self._stores.of_worker[0].slot(0, self._incarnation, number)]).result()


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


def _bytes_of(copied: StateCopy) -> dict[str, bytes]:
    copied.wait()
    tensors = {**copied.state.weights, **copied.state.optimizer_tensors}
    return {name: tensor.detach().numpy().tobytes() for name, tensor in tensors.items()}


def _use_devices() -> None:
    for index in (1, 0):
        torch.accelerator.set_device_index(index)
        torch.accelerator.set_stream(torch.Stream(device=DEVICES[index]))


def _spoil(memory: list[torch.Tensor]) -> None:
    """By another process."""
    for tensor in memory:
        tensor.fill_(GARBAGE)
        torch.accelerator.synchronize(tensor.device)
