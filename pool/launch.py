"""What a process of the run is told at its start: one JSON document, sent through its lifeline.

Made by the supervisor, read through `pool.lifeline`. Free of torch. Bulk memory comes as descriptors, named here; what
a process may only read, it can't map for writing (I4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from loader.files import DataFile
from loader.schema import BatchSchema
from pool.buckets.plan import Plan
from pool.checkpoint.overrides import Override
from pool.config import Config, parse_config
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import CursorState, Purpose


@dataclass(frozen=True)
class SegmentHandle:
    fd: int
    writable: bool


@dataclass(frozen=True)
class Launch:
    peer: Peer  # who the process is
    config: Config
    run_dir: Path  # through a descriptor of this process (`pool.run_dir`)
    address_key: str  # of the run's hubs
    coordinator: Peer  # the living coordinator
    coordinator_pid: int | None  # None if it is still to be started
    devices: tuple[str, ...]  # one a worker, `auto` resolved
    device_names: tuple[str, ...]  # what each of them is, for people; known from the planner on
    train_files: tuple[DataFile, ...]  # as they were when the run began; a worker is told of none
    validation_files: tuple[DataFile, ...]
    schema: BatchSchema | None  # known from the planner on
    plan: Plan | None
    segments: Mapping[str, SegmentHandle]
    bells: Mapping[str, int]  # descriptors
    step: int  # the run begins with
    start: CursorState  # where the first batch of that step begins
    checkpoint: Path | None  # to resume from, in `run_dir`
    snapshot: int | None  # index of the area to resume from instead: the coordinator's predecessor left it
    saved: int  # step of the newest checkpoint, -1: none
    state_nbytes: int  # of one such area; known from the planner on
    num_chunks: Mapping[Purpose, int]  # of each stream whose chunks are compared; known from the planner on
    fingerprint: Mapping[str, str]  # of what the run's bits depend on; known from the planner on
    overrides: tuple[Override, ...] = ()  # of the run's whole life, in the order of their steps
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes

    @property
    def files(self) -> Mapping[Purpose, tuple[DataFile, ...]]:
        return {"train": self.train_files, "validate": self.validation_files}

    def told_to(self, peer: Peer) -> Launch:
        """What a process is told. There may be very many files."""
        if peer.role == WORKER:
            return replace(self, peer=peer, train_files=(), validation_files=())
        return replace(self, peer=peer)

    def planned(self) -> tuple[BatchSchema, Plan]:
        """Schema and plan, which every process but the planner is given."""
        assert self.schema is not None
        assert self.plan is not None
        return self.schema, self.plan

    def to_json(self) -> bytes:
        """All but `run_dir`: the descriptor has another number in the process that reads this."""
        data = {
            "peer": asdict(self.peer),
            "config": self.config.model_dump(mode="json"),
            "address_key": self.address_key,
            "coordinator": asdict(self.coordinator),
            "coordinator_pid": self.coordinator_pid,
            "devices": self.devices,
            "device_names": self.device_names,
            "train_files": [_plain(file) for file in self.train_files],
            "validation_files": [_plain(file) for file in self.validation_files],
            "schema": None if self.schema is None else self.schema.to_dict(),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "segments": {name: asdict(handle) for name, handle in self.segments.items()},
            "bells": dict(self.bells),
            "step": self.step,
            "start": asdict(self.start),
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint.relative_to(self.run_dir)),
            "snapshot": self.snapshot,
            "saved": self.saved,
            "state_nbytes": self.state_nbytes,
            "num_chunks": dict(self.num_chunks),
            "fingerprint": dict(self.fingerprint),
            "overrides": [asdict(override) for override in self.overrides],
            "start_from": None if self.start_from is None else str(self.start_from),
        }
        return json.dumps(data).encode()

    @classmethod
    def from_json(cls, text: bytes, run_dir: Path) -> Launch:
        data: dict[str, Any] = json.loads(text)
        return cls(
            peer=Peer(**data["peer"]),
            config=parse_config(data["config"], "launch"),
            run_dir=run_dir,
            address_key=data["address_key"],
            coordinator=Peer(**data["coordinator"]),
            coordinator_pid=data["coordinator_pid"],
            devices=tuple(data["devices"]),
            device_names=tuple(data["device_names"]),
            train_files=tuple(DataFile(Path(path), *numbers) for path, *numbers in data["train_files"]),
            validation_files=tuple(DataFile(Path(path), *numbers) for path, *numbers in data["validation_files"]),
            schema=None if data["schema"] is None else BatchSchema.from_dict(data["schema"]),
            plan=None if data["plan"] is None else Plan.from_dict(data["plan"]),
            segments={name: SegmentHandle(**handle) for name, handle in data["segments"].items()},
            bells=data["bells"],
            step=data["step"],
            start=CursorState(**data["start"]),
            checkpoint=None if data["checkpoint"] is None else run_dir / data["checkpoint"],
            snapshot=data["snapshot"],
            saved=data["saved"],
            state_nbytes=data["state_nbytes"],
            num_chunks=data["num_chunks"],
            fingerprint=data["fingerprint"],
            overrides=tuple(Override(**override) for override in data["overrides"]),
            start_from=None if data["start_from"] is None else Path(data["start_from"]),
        )


def _plain(file: DataFile) -> tuple[str | int, ...]:
    path, *numbers = astuple(file)
    return (str(path), *numbers)
