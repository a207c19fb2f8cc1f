"""What a process of the run is told at its start: one JSON document, sent through its lifeline.

Made by the supervisor, read through `pool.lifeline`. Free of torch. Bulk memory comes as descriptors, named here; what
a process may only read, it can't map for writing (I4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loader.schema import BatchSchema
from pool.buckets.plan import Plan
from pool.checkpoint.overrides import Override
from pool.config import Config, parse_config
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer
from pool.protocol.messages import CursorState


@dataclass(frozen=True)
class SegmentHandle:
    fd: int
    writable: bool


@dataclass(frozen=True)
class Launch:
    peer: Peer  # who the process is
    config: Config
    run_dir: Path
    sockets: Path  # folder of the sockets
    coordinator: Peer  # the living coordinator
    devices: tuple[str, ...]  # one a worker, `auto` resolved
    train_files: tuple[Path, ...]
    validation_files: tuple[Path, ...]
    schema: BatchSchema | None  # known from the planner on
    plan: Plan | None
    segments: Mapping[str, SegmentHandle]
    bells: Mapping[str, int]  # descriptors
    step: int  # the run begins with
    start: CursorState  # where the first batch of that step begins
    checkpoint: Path | None  # to resume from
    snapshot: int | None  # index of the area to resume from instead: the coordinator's predecessor left it
    saved: int  # step of the newest checkpoint, -1: none
    state_nbytes: int  # of one such area; known from the planner on
    fingerprint: Mapping[str, str]  # of what the run's bits depend on; known from the planner on
    overrides: tuple[Override, ...] = ()  # of the run's whole life, in the order of their steps
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes

    @property
    def supervisor_socket(self) -> Path:
        return self.sockets / SUPERVISOR

    @property
    def coordinator_socket(self) -> Path:
        return self.sockets / COORDINATOR

    def planned(self) -> tuple[BatchSchema, Plan]:
        """Schema and plan, which every process but the planner is given."""
        assert self.schema is not None
        assert self.plan is not None
        return self.schema, self.plan

    def to_json(self) -> bytes:
        data = {
            "peer": asdict(self.peer),
            "config": self.config.model_dump(mode="json"),
            "run_dir": str(self.run_dir),
            "sockets": str(self.sockets),
            "coordinator": asdict(self.coordinator),
            "devices": self.devices,
            "train_files": [str(path) for path in self.train_files],
            "validation_files": [str(path) for path in self.validation_files],
            "schema": None if self.schema is None else self.schema.to_dict(),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "segments": {name: asdict(handle) for name, handle in self.segments.items()},
            "bells": dict(self.bells),
            "step": self.step,
            "start": asdict(self.start),
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
            "snapshot": self.snapshot,
            "saved": self.saved,
            "state_nbytes": self.state_nbytes,
            "fingerprint": dict(self.fingerprint),
            "overrides": [asdict(override) for override in self.overrides],
            "start_from": None if self.start_from is None else str(self.start_from),
        }
        return json.dumps(data).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Launch:
        data: dict[str, Any] = json.loads(text)
        return cls(
            peer=Peer(**data["peer"]),
            config=parse_config(data["config"], "launch"),
            run_dir=Path(data["run_dir"]),
            sockets=Path(data["sockets"]),
            coordinator=Peer(**data["coordinator"]),
            devices=tuple(data["devices"]),
            train_files=tuple(Path(path) for path in data["train_files"]),
            validation_files=tuple(Path(path) for path in data["validation_files"]),
            schema=None if data["schema"] is None else BatchSchema.from_dict(data["schema"]),
            plan=None if data["plan"] is None else Plan.from_dict(data["plan"]),
            segments={name: SegmentHandle(**handle) for name, handle in data["segments"].items()},
            bells=data["bells"],
            step=data["step"],
            start=CursorState(**data["start"]),
            checkpoint=None if data["checkpoint"] is None else Path(data["checkpoint"]),
            snapshot=data["snapshot"],
            saved=data["saved"],
            state_nbytes=data["state_nbytes"],
            fingerprint=data["fingerprint"],
            overrides=tuple(Override(**override) for override in data["overrides"]),
            start_from=None if data["start_from"] is None else Path(data["start_from"]),
        )
