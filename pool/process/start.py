"""Defines the start documents of a run's processes: one JSON document for each role, with the settings that the role
uses.

The supervisor makes them (`pool.supervisor.prepare.run_plan`) and sends them through the lifeline. Free of torch.
Shared memory comes as descriptors, which the document names. A process can't map memory for writing that it may only
read (I4).
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
from loader.stream.sources import source_config_class
from pool.checkpoint.overrides import Override
from pool.config.load import parse_config
from pool.config.sections import PoolDataConfig
from pool.config.tree import Config
from pool.device.cards import Card
from pool.exchange.exchange_choice import Exchange
from pool.exchange.groups import Groups
from pool.exchange.layout import Layout
from pool.machines.rank import MachineRank
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
    return source_config_class(tree["source"], PoolDataConfig).model_validate_json(json.dumps(tree))


def run_data(config: Config, train_files: Files, validation_files: Files) -> dict[Purpose, Data]:
    """Returns the data of a run's two streams, training and validation."""
    data, seed = config.data, config.run.seed
    return {"train": Data(data, train_files, seed), "validate": Data(data, validation_files, seed, validation=True)}


@dataclass(frozen=True, kw_only=True)
class Start:
    """Fields of every start document. The document gets the process's shared memory when the run has some."""

    peer: Peer  # the process itself
    run_dir: Path  # path through a descriptor of this process (`pool.run_folder.access`)
    crash_points: tuple[str, ...] = ()  # testing.crash_points
    device_module: str = ""  # testing.device_module, if the process uses a device
    segments: Mapping[str, SegmentHandle] = field(default_factory=dict)
    signal_fds: Mapping[str, int] = field(default_factory=dict)  # descriptors by name
    registers: bool = False  # registers segments with its device, which then copies from and to them directly

    def to_json(self) -> bytes:
        """Encodes the document as JSON without `run_dir`, since the descriptor in that path has another number in the
        process that reads the document."""
        return to_json({**vars(self), "run_dir": ""})

    def in_folder(self, run_dir: Path) -> Self:
        """Returns the document with `run_dir` set to the path at which the reading process holds the run folder."""
        return replace(self, run_dir=run_dir)


@dataclass(frozen=True, kw_only=True)
class ResumingStart(Start):
    """Start document of a process that reads the checkpoint from which the run resumes.

    The process gets all settings. The planner tries them out. The coordinator records them in checkpoints and compares
    them with those in the checkpoint.
    """

    config: Annotated[Config, PlainValidator(_config)]
    train_files: Files  # as they were when the run began
    validation_files: Files
    step: int  # the run begins with
    checkpoint: Path | None  # to resume from, in `run_dir`
    overrides: tuple[Override, ...] = ()  # since step 0, in the order of their steps

    @property
    def data(self) -> Mapping[Purpose, Data]:
        """Returns the data of each stream."""
        return run_data(self.config, self.train_files, self.validation_files)

    def to_json(self) -> bytes:
        """Encodes the document as JSON, with the checkpoint's path relative to the run folder."""
        inside = None if self.checkpoint is None else self.checkpoint.relative_to(self.run_dir)
        return to_json({**vars(self), "run_dir": "", "checkpoint": inside})

    def in_folder(self, run_dir: Path) -> Self:
        """Returns the document with `run_dir`, and the checkpoint's path in it."""
        checkpoint = None if self.checkpoint is None else run_dir / self.checkpoint
        return replace(self, run_dir=run_dir, checkpoint=checkpoint)


@dataclass(frozen=True, kw_only=True)
class PlannerStart(ResumingStart):
    """Start document of the planner."""

    only_check: bool = False  # devices that this machine lacks are reported, and are no error


@dataclass(frozen=True, kw_only=True)
class RunStart(Start):
    """Start document of a process that lives as long as the run."""

    address_key: str  # secret from which the addresses of the run's hubs are made
    coordinator: Peer  # the living coordinator
    coordinator_pid: int | None = None  # None: it is not started yet
    memory: MemoryMap
    validation: ValidationPass
    traced: bool  # run.trace is set
    spins: bool  # cores are not scarce: a thread that waits for the end of a step on a device may keep one busy


@dataclass(frozen=True, kw_only=True)
class FeederStart(RunStart):
    """Start document of the feeder."""

    data_config: Annotated[PoolDataConfig, PlainValidator(_data_config)]
    seed: int
    files: Mapping[Purpose, Files]  # files of each stream that the run has
    groups: Groups
    share: tuple[int, int]  # first and last + 1 of the indices of a step's groups that this machine computes

    @property
    def data(self) -> Mapping[Purpose, Data]:
        """Returns the data of each stream that the run has."""
        return {
            purpose: Data(self.data_config, files, self.seed, validation=purpose == "validate")
            for purpose, files in self.files.items()
        }

    def computes(self, batch: int) -> bool:
        """Tells whether a training batch is computed on this machine. `batch`: number of the batch."""
        return self.groups.group_index(batch) in range(*self.share)


@dataclass(frozen=True, kw_only=True)
class WorkerStart(RunStart):
    """Start document of a worker. It lists no data files, since there may be very many."""

    device: str  # as pool.devices names it
    card: Card | None  # the device, if it is a GPU
    threads: int  # number of torch's threads
    own_kernels: bool
    dense_products: Literal["float32", "tf32", "bfloat16"]
    nets: tuple[Annotated[Net, PlainValidator(read_net)], ...]  # of each member
    on_meta: bool  # models are built on torch's meta device, without numbers
    layout: Layout
    measured: Measured  # by the task, in validations
    metrics_every: int  # steps between measurements of metrics on training batches; 0: none
    total_steps: int
    imports_memory: bool  # weights and gradients lie in device memory that the coordinator exports
    fingerprint: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CoordinatorStart(RunStart, ResumingStart):
    """Start document of the coordinator."""

    layout: Layout
    measured: Measured  # by the task, in validations
    devices: tuple[str, ...]  # one for each worker
    exchange: Exchange
    exchange_cards: tuple[Card | None, ...]  # the exchange's devices, if they are GPUs
    fingerprint: Mapping[str, str]
    cursor: Cursor  # where the first batch of the first step begins
    snapshot: int | None  # index of the snapshot area to resume from instead of a checkpoint
    saved: int  # step of the newest checkpoint, -1: none
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes
    deaths: tuple[DeathInBatch, ...] = ()  # deaths of workers in the coordinator's process, in steps not done since
    rank: MachineRank | None = None  # this machine's rank among several; None: there is one machine
    validation_digests: tuple[str, ...] = ()  # digest of the content of each validation file


_ROLES: Mapping[str, type[Start]] = {
    PLANNER: PlannerStart,
    FEEDER: FeederStart,
    WORKER: WorkerStart,
    COORDINATOR: CoordinatorStart,
}


@cache
def _adapter(role: str) -> TypeAdapter[Any]:
    return TypeAdapter(_ROLES[role])


def build_parsers() -> None:
    """Builds the parsers of all start documents, once for all processes that are forked from this one."""
    for role in _ROLES:
        _adapter(role)


def decode_start(text: bytes, run_dir: Path) -> Start:
    """Decodes the start document of a process. `run_dir`: path at which the process holds the run folder."""
    start: Start = from_json(_adapter(json.loads(text)["peer"]["role"]), text)
    return start.in_folder(run_dir)
