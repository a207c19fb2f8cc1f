"""What a process of the run is told at its start: one JSON document, sent through its lifeline.

Made by the supervisor, read through the lifeline. Free of torch. Bulk memory comes as descriptors, named here; what a
process may only read, it can't map for writing (I4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, TypeAdapter

from loader.files.identity import DataFile
from loader.stream.interface import Cursor
from pool.checkpoint.overrides import Override
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.exchange.host.lists import TouchedLists
from pool.exchange.member_layout import joined
from pool.exchange.plan import Plan
from pool.exchange.slot_layout import slot_layout
from pool.process.document import from_json, to_json
from pool.process.plan_result import Planned
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Purpose
from pool.shm.memory_map import MemoryMap
from pool.shm.segment import SegmentHandle


@dataclass(frozen=True)
class Launch:
    peer: Peer  # the process itself
    config: Annotated[Config, PlainValidator(lambda tree: parse_config(tree, "launch"))]
    run_dir: Path  # through a descriptor of this process (`pool.run_folder.opening`)
    address_key: str  # of the run's hubs
    coordinator: Peer  # the living coordinator
    coordinator_pid: int | None  # None if it is still to be started
    train_files: tuple[DataFile, ...]  # as they were when the run began; a worker is told of none
    validation_files: tuple[DataFile, ...]
    segments: Mapping[str, SegmentHandle]
    bells: Mapping[str, int]  # descriptors
    step: int  # the run begins with
    start: Cursor  # where the first batch of that step begins
    checkpoint: Path | None  # to resume from, in `run_dir`
    snapshot: int | None  # index of the area to resume from instead: the coordinator's predecessor left it
    saved: int  # step of the newest checkpoint, -1: none
    answer: Planned | None  # the planner's; None: it has still to answer
    overrides: tuple[Override, ...] = ()  # since step 0, in the order of their steps
    only_check: bool = False  # devices that this machine lacks are to be said, and end nothing
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes

    @property
    def files(self) -> Mapping[Purpose, tuple[DataFile, ...]]:
        return {"train": self.train_files, "validate": self.validation_files}

    def told_to(self, peer: Peer) -> Launch:
        """The launch of one process. A worker gets no files, since there may be very many."""
        if peer.role == WORKER:
            return replace(self, peer=peer, train_files=(), validation_files=())
        return replace(self, peer=peer)

    @property
    def planned(self) -> Planned:
        """What every process but the planner is told."""
        assert self.answer is not None
        return self.answer

    def memory_map(self) -> MemoryMap:
        planned = self.planned
        return MemoryMap(
            train_slots=self.config.num_ring_slots,
            slot_nbytes=planned.schema.slot_bytes,
            weights_nbytes=planned.plan.nbytes,
            slot_gradients_nbytes=joined(self.slot_plans()).nbytes,
            gradient_slots=self.config.pool.gradient_slots,
            workers=len(planned.devices),
            state_nbytes=planned.state_nbytes,
            num_chunks=planned.num_chunks,
            collected_nbytes=planned.measured.collected_nbytes(len(planned.plans)),
            members=len(planned.plans),
            averages=self.config.train.average.kind is not None,
            batches_per_group=self.config.train.batches_per_group,
            lists_nbytes=self.touched_lists().nbytes,
            local=planned.exchange.without_room,
        )

    def slot_plans(self) -> tuple[Plan, ...]:
        """Where the gradients of each member lie in a gradient slot."""
        return tuple(slot_layout(plan, self.config.train.gradient_dtype) for plan in self.planned.plans)

    def touched_lists(self) -> TouchedLists:
        """Where a group's lists lie in a gradient slot."""
        planned = self.planned
        return TouchedLists(planned.schema, len(planned.plans), self.config.train.batches_per_group)

    def to_json(self) -> bytes:
        """All but `run_dir`: the descriptor has another number in the process that reads this."""
        inside = None if self.checkpoint is None else self.checkpoint.relative_to(self.run_dir)
        return to_json({**vars(self), "run_dir": "", "checkpoint": inside})

    @classmethod
    def from_json(cls, text: bytes, run_dir: Path) -> Launch:
        told = from_json(_LAUNCH, text)
        checkpoint = None if told.checkpoint is None else run_dir / told.checkpoint
        return replace(told, run_dir=run_dir, checkpoint=checkpoint)


_LAUNCH = TypeAdapter(Launch)
