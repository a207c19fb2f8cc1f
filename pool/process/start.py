"""The documents that the processes of a run are started with: one JSON document a role, with the settings that the role
uses.

Made by the supervisor (`pool.supervisor.prepare.run_plan`), sent and read through the lifeline. Free of torch. Bulk
memory comes as descriptors, named here; what a process may only read, it can't map for writing (I4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import PlainValidator, TypeAdapter

from loader.files.identity import DataFile
from loader.stream.data import Data
from loader.stream.interface import Cursor
from loader.stream.sources import data_class
from pool.checkpoint.overrides import Override
from pool.config.load import parse_config
from pool.config.sections import PoolDataConfig
from pool.config.tree import Config
from pool.device.cards import Card
from pool.exchange.exchange_choice import Exchange
from pool.exchange.groups import Groups
from pool.exchange.layout import Layout
from pool.machines.place import MachinePlace
from pool.metrics.layout import Measured
from pool.metrics.validation_pass import ValidationPass
from pool.process.document import from_json, to_json
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, WORKER, Peer
from pool.protocol.messages import Purpose
from pool.shm.memory_map import MemoryMap
from pool.shm.segment import SegmentHandle
from pool.task.net import Net, read_net

Files = tuple[DataFile, ...]


def _config(tree: Mapping[str, Any]) -> Config:
    return parse_config(tree, "start")


def _data_config(tree: Mapping[str, Any]) -> PoolDataConfig:
    return data_class(tree["source"], PoolDataConfig).model_validate_json(json.dumps(tree))


def run_data(config: Config, train_files: Files, validation_files: Files) -> dict[Purpose, Data]:
    """Returns the data of each stream of a run."""
    data, seed = config.data, config.run.seed
    return {"train": Data(data, train_files, seed), "validate": Data(data, validation_files, seed, validation=True)}


@dataclass(frozen=True, kw_only=True)
class Start:
    """The fields that every role has; a process gets its memory with them once the run has some."""

    peer: Peer  # the process itself
    run_dir: Path  # through a descriptor of this process (`pool.run_folder.access`)
    crash_points: tuple[str, ...] = ()  # testing.crash_points
    device_module: str = ""  # testing.device_module, if the process uses a device
    segments: Mapping[str, SegmentHandle] = field(default_factory=dict)
    bells: Mapping[str, int] = field(default_factory=dict)  # descriptors
    registers: bool = False  # its device copies from and to the segments itself

    def to_json(self) -> bytes:
        """Returns all but `run_dir`: the descriptor has another number in the process that reads this."""
        return to_json({**vars(self), "run_dir": ""})

    def in_folder(self, run_dir: Path) -> Self:
        """Returns the document as the process has it that holds the run folder as `run_dir`."""
        return replace(self, run_dir=run_dir)


@dataclass(frozen=True, kw_only=True)
class ResumingStart(Start):
    """The start of a process that reads the checkpoint which the run goes on from. It gets all settings: the planner
    tries them, the coordinator records them in checkpoints and compares them with those there."""

    config: Annotated[Config, PlainValidator(_config)]
    train_files: Files  # as they were when the run began
    validation_files: Files
    step: int  # the run begins with
    checkpoint: Path | None  # to resume from, in `run_dir`
    overrides: tuple[Override, ...] = ()  # since step 0, in the order of their steps

    @property
    def data(self) -> Mapping[Purpose, Data]:
        """The data of each stream."""
        return run_data(self.config, self.train_files, self.validation_files)

    def to_json(self) -> bytes:
        """Returns the checkpoint's path from the run folder on."""
        inside = None if self.checkpoint is None else self.checkpoint.relative_to(self.run_dir)
        return to_json({**vars(self), "run_dir": "", "checkpoint": inside})

    def in_folder(self, run_dir: Path) -> Self:
        checkpoint = None if self.checkpoint is None else run_dir / self.checkpoint
        return replace(self, run_dir=run_dir, checkpoint=checkpoint)


@dataclass(frozen=True, kw_only=True)
class PlannerStart(ResumingStart):
    only_check: bool = False  # devices that this machine lacks are to be said, and end nothing


@dataclass(frozen=True, kw_only=True)
class RunStart(Start):
    """The start of a process that lives as long as the run."""

    address_key: str  # of the run's hubs
    coordinator: Peer  # the living coordinator
    coordinator_pid: int | None = None  # None if it is still to be started
    memory: MemoryMap
    validation: ValidationPass
    traced: bool  # run.trace is set
    spins: bool  # cores are not scarce: who waits for the last of a step on a device may keep one busy


@dataclass(frozen=True, kw_only=True)
class FeederStart(RunStart):
    data_config: Annotated[PoolDataConfig, PlainValidator(_data_config)]
    seed: int
    files: Mapping[Purpose, Files]  # of each stream that the run has
    groups: Groups
    share: tuple[int, int]  # first and last + 1 of the places of a step whose groups are computed on this machine

    @property
    def data(self) -> Mapping[Purpose, Data]:
        """The data of each stream that the run has."""
        return {
            purpose: Data(self.data_config, files, self.seed, validation=purpose == "validate")
            for purpose, files in self.files.items()
        }

    def computes(self, batch: int) -> bool:
        """Tells whether a batch of training is for this machine."""
        return self.groups.place_of(batch) in range(*self.share)


@dataclass(frozen=True, kw_only=True)
class WorkerStart(RunStart):
    """A worker gets no files, since there may be very many."""

    device: str  # as pool.devices names it
    card: Card | None  # the device, if it is a GPU
    threads: int  # of torch
    own_kernels: bool
    dense_products: Literal["float32", "tf32", "bfloat16"]
    nets: tuple[Annotated[Net, PlainValidator(read_net)], ...]  # of each member
    on_meta: bool  # models are built without numbers
    layout: Layout
    measured: Measured  # by the task, in validations
    metrics_every: int  # steps between those whose own batches are measured; 0: none are
    total_steps: int
    borrows: bool  # weights and gradients lie in the coordinator's memory of the device
    fingerprint: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CoordinatorStart(RunStart, ResumingStart):
    layout: Layout
    measured: Measured  # by the task, in validations
    devices: tuple[str, ...]  # one a worker
    exchange: Exchange
    exchange_cards: tuple[Card | None, ...]  # the exchange's devices, if they are GPUs
    fingerprint: Mapping[str, str]
    cursor: Cursor  # where the first batch of the first step begins
    snapshot: int | None  # index of the area to resume from instead: the coordinator's predecessor left it
    saved: int  # step of the newest checkpoint, -1: none
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes
    deaths: tuple[DeathInBatch, ...] = ()  # of workers that ended the coordinator with them, in steps not done since
    place: MachinePlace | None = None  # of this machine among several
    validation_digests: tuple[str, ...] = ()  # of the content of each validation file


_ROLES: Mapping[str, type[Start]] = {
    PLANNER: PlannerStart,
    FEEDER: FeederStart,
    WORKER: WorkerStart,
    COORDINATOR: CoordinatorStart,
}


@cache
def _adapter(role: str) -> TypeAdapter[Any]:
    return TypeAdapter(_ROLES[role])


def prepare() -> None:
    """Makes what reads the documents, once for all processes that are forked from this one."""
    for role in _ROLES:
        _adapter(role)


def start_of(text: bytes, run_dir: Path) -> Start:
    """Reads the document of a process that holds the run folder as `run_dir`."""
    start: Start = from_json(_adapter(json.loads(text)["peer"]["role"]), text)
    return start.in_folder(run_dir)
