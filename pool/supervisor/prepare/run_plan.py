"""Holds all that the supervisor knows of a run: settings, data files, the planner's answer, where the run begins.

From this plan each process gets its start document (`pool.process.start`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.stream.data import Data
from loader.stream.interface import Cursor
from pool.checkpoint.overrides import Override
from pool.config.tree import Config
from pool.device.names import describe_idle_devices, parse_device
from pool.exchange.groups import Groups
from pool.exchange.layout import Layout
from pool.machines.rank import MachineRank
from pool.metrics.validation_pass import ValidationPass
from pool.process.plan_result import Planned
from pool.process.start import CoordinatorStart, FeederStart, Files, PlannerStart, RunStart, WorkerStart
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Purpose
from pool.shm.memory_map import MemoryMap


@dataclass(frozen=True)
class RunPlan:
    """Describes a run completely. A changed plan is a new object, such as for a restarted coordinator."""

    config: Config
    run_dir: Path
    address_key: str  # secret from which the addresses of the run's hubs are made
    coordinator: Peer  # the living coordinator
    data: Mapping[Purpose, Data]  # data of each stream, with the files as they were when the run began
    step: int  # the run begins with
    cursor: Cursor  # where the first batch of that step begins
    checkpoint: Path | None  # to resume from, in `run_dir`
    snapshot: int | None  # index of the snapshot area to resume from instead of a checkpoint
    saved: int  # step of the newest checkpoint, -1: none
    answer: Planned | None = None  # the planner's answer; None: not received yet
    overrides: tuple[Override, ...] = ()  # since step 0, in the order of their steps
    only_check: bool = False  # devices that this machine lacks are reported, and are no error
    start_from: Path | None = None  # another run's checkpoint, whose weights a run that begins takes
    deaths: tuple[DeathInBatch, ...] = ()  # deaths of workers in the coordinator's process, in steps not done since
    rank: MachineRank | None = None  # this machine's rank among several; None: there is one machine
    validation_digests: tuple[str, ...] = ()  # digest of the content of each validation file
    validation_samples: int | None = None  # number of samples of a validation that takes all

    @property
    def planned(self) -> Planned:
        """Returns the planner's answer, which must have been received."""
        assert self.answer is not None
        return self.answer

    @property
    def train_files(self) -> Files:
        return self.data["train"].files

    @property
    def validation_files(self) -> Files:
        return self.data["validate"].files

    @property
    def decoding_threads(self) -> int:
        """Returns the number of threads that decode each stream of data."""
        return self.config.num_decoding_threads(self.planned.devices)

    @property
    def validation(self) -> ValidationPass:
        """Returns the number of samples of a validation, in batches or exactly."""
        batches, size = self.config.train.validation_batches, self.config.data.batch_size
        if batches == "all":
            return ValidationPass(self.validation_samples or size, size, ends=True)
        return ValidationPass(batches * size, size)

    @property
    def groups(self) -> Groups:
        """Returns how a step's batches are divided into groups (batches whose gradients one worker adds up)."""
        train = self.config.train
        return Groups(train.batches_per_step, train.batches_per_group)

    @property
    def idle_devices(self) -> str | None:
        """Returns a line for the user if devices stand idle at the end of each step, else None."""
        train = self.config.train
        return describe_idle_devices(len(self.planned.devices), train.batches_per_step, train.batches_per_group)

    @property
    def layout(self) -> Layout:
        """Returns the layout of batches, weights and gradients in shared memory."""
        train, planned = self.config.train, self.planned
        return Layout(planned.schema, planned.plans, train.gradient_dtype, train.batches_per_group)

    def memory_map(self) -> MemoryMap:
        """Returns the memory map of the run, from which the sizes of all shared memory segments follow."""
        config, planned, layout = self.config, self.planned, self.layout
        return MemoryMap(
            train_slots=config.num_ring_slots,
            slot_nbytes=planned.schema.slot_bytes,
            weights_nbytes=layout.plan.nbytes,
            slot_gradients_nbytes=layout.slot_plan.nbytes,
            gradient_slots=config.pool.gradient_slots,
            workers=len(planned.devices),
            state_nbytes=planned.state_nbytes,
            num_chunks=planned.num_chunks,
            collected_nbytes=planned.measured.collected_nbytes(len(planned.plans)),
            members=len(planned.plans),
            averages=config.train.average.kind is not None,
            batches_per_group=config.train.batches_per_group,
            train_metrics=len(planned.measured.metrics) if config.train.metrics_every else 0,
            lists_nbytes=layout.touched_lists.nbytes,
            workers_without_slots=planned.exchange.workers_without_slots,
        )

    def guests(self, process: Peer) -> tuple[Peer, ...]:
        """Returns the roles that run in a process besides its own: the coordinator's process may also run the only
        worker."""
        plays_worker = process.role == COORDINATOR and self.planned.exchange.one_process
        return (Peer(WORKER, 0, process.incarnation),) if plays_worker else ()

    # --- what each process is given ---

    def planner_start(self, peer: Peer) -> PlannerStart:
        """Returns the planner's start document."""
        return PlannerStart(
            peer=peer,
            run_dir=self.run_dir,
            crash_points=self.config.testing.crash_points,
            only_check=self.only_check,
            **self._resuming(),
        )

    def start_document(self, peer: Peer) -> RunStart:
        """Returns the start document of a feeder, worker or coordinator. Its memory is added when it is sent."""
        if peer.role == FEEDER:
            return self._feeder_start(peer)
        return self._worker_start(peer) if peer.role == WORKER else self._coordinator_start(peer)

    def _feeder_start(self, peer: Peer) -> FeederStart:
        """Returns the feeder's start document, with the share of each step that this machine computes."""
        validates, groups, rank = self.config.has_validations, self.groups, self.rank
        share = range(groups.groups_per_step) if rank is None else groups.share(rank.machine, rank.num_machines)
        return FeederStart(
            **self._running(peer, uses_device=False),
            data_config=self.config.data.model_copy(update={"threads": self.decoding_threads}),
            seed=self.config.run.seed,
            files={purpose: data.files for purpose, data in self.data.items() if purpose == "train" or validates},
            groups=groups,
            share=(share.start, share.stop),
        )

    def _worker_start(self, peer: Peer) -> WorkerStart:
        """Returns a worker's start document, with the settings of its device."""
        config, planned = self.config, self.planned
        spec = planned.devices[peer.index]
        return WorkerStart(
            **self._running(peer, uses_device=parse_device(spec).is_accelerator),
            device=spec,
            card=planned.card(spec),
            threads=config.num_worker_threads(spec, len(planned.devices)),
            own_kernels=config.pool.own_kernels,
            dense_products=config.pool.dense_products,
            nets=tuple(member.net for member in config.members),
            on_meta=planned.on_meta,
            layout=self.layout,
            measured=planned.measured,
            metrics_every=config.train.metrics_every,
            total_steps=config.train.steps,
            imports_memory=peer.index in planned.exchange.workers_on_devices,
            fingerprint=planned.fingerprint,
        )

    def _coordinator_start(self, peer: Peer) -> CoordinatorStart:
        """Returns the coordinator's start document, with the point where it begins or resumes."""
        assert peer.role == COORDINATOR
        planned, exchange = self.planned, self.planned.exchange
        return CoordinatorStart(
            **self._running(peer, uses_device=exchange.on_device),
            **self._resuming(),
            layout=self.layout,
            measured=planned.measured,
            devices=planned.devices,
            exchange=exchange,
            exchange_cards=tuple(planned.card(name) for name in exchange.devices),
            fingerprint=planned.fingerprint,
            cursor=self.cursor,
            snapshot=self.snapshot,
            saved=self.saved,
            start_from=self.start_from,
            deaths=self.deaths,
            rank=self.rank,
            validation_digests=self.validation_digests,
        )

    def _running(self, peer: Peer, *, uses_device: bool) -> dict[str, Any]:
        """Returns the fields of RunStart. `uses_device`: the process uses an accelerator."""
        return {
            "peer": peer,
            "run_dir": self.run_dir,
            "crash_points": self.config.testing.crash_points,
            "device_module": self.config.testing.device_module if uses_device else "",
            "registers": uses_device,
            "address_key": self.address_key,
            "coordinator": self.coordinator,
            "memory": self.memory_map(),
            "validation": self.validation,
            "traced": bool(self.config.run.trace),
            "spins": self.config.has_cores_to_spin(self.planned.devices),
        }

    def _resuming(self) -> dict[str, Any]:
        """Returns the fields of ResumingStart."""
        return {
            "config": self.config,
            "train_files": self.train_files,
            "validation_files": self.validation_files,
            "step": self.step,
            "checkpoint": self.checkpoint,
            "overrides": self.overrides,
        }
