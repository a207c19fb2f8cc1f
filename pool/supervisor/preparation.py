"""What happens before the first process of a run: files found, plan made, memory checked and reserved.

Every shortage is one clear line here, and nothing has been started or written yet but the run folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pool.checkpoint.overrides import Override
from pool.config import Config
from pool.devices import idle_devices
from pool.errors import PoolError, ResourceError
from pool.launch import Launch
from pool.protocol.address import new_key
from pool.protocol.identity import COORDINATOR, PLANNER, Peer
from pool.shm import segment
from pool.shm.memory import SUMS, segment_sizes, write_sums
from pool.supervisor import data_files
from pool.supervisor.available import available_memory
from pool.supervisor.check_page import check_page
from pool.supervisor.comparing import compare_model, compare_numerics, compare_optimizer
from pool.supervisor.data_files import DataFiles
from pool.supervisor.forkserver import ForkServer
from pool.supervisor.memory_plan import memory_plan, mib, shortage, table
from pool.supervisor.overriding import overrides_of
from pool.supervisor.planning import ask_planner
from pool.supervisor.preflight import (
    check_current_folder,
    check_descriptors,
    check_disk,
    check_folder,
    check_trace,
    check_validation,
    disk_plan,
)
from pool.supervisor.resuming import resume_point, saved_state
from pool.supervisor.run_folder import RunFolder
from pool.supervisor.signals import StopSignals
from pool.tasks.registry import task_module
from pool.tasks.start import start_checkpoint


def prepare(
    config: Config,
    folder: RunFolder,
    signals: StopSignals,
    *,
    allow_different_numerics: bool = False,
    changes: Sequence[tuple[str, Any]] = (),
) -> tuple[Launch, ForkServer]:
    """What every process will be told, and where every process comes from. `changes`: of `--override`.

    Raises ConfigError, ResourceError, RunError; also for a signal to stop.
    """
    check_folder(folder.inside)
    check_trace(config)
    checkpoint = folder.last_checkpoint()
    overrides = overrides_of(checkpoint, changes, folder)
    files = _find_files(config, checkpoint)
    launch, forkserver = _launch(config, files, folder.inside, folder.logs, checkpoint, signals, overrides)
    try:
        for note in (*files.notes, *data_files.left_out(launch)):
            folder.note(note)
        check_disk(disk_plan(launch))
        if launch.start_from is not None:
            folder.note(f"starting with the weights of {launch.start_from}")
        if checkpoint is not None:
            saved = saved_state(checkpoint)
            compare_model(launch, checkpoint, saved)
            compare_optimizer(config, checkpoint, saved, folder, {key for key, _ in changes})
            compare_numerics(launch, checkpoint, saved, folder, allowed=allow_different_numerics)
    except PoolError:
        forkserver.end()
        raise
    if (idle := idle_devices(len(launch.devices), config.train.batches_per_step)) is not None:
        folder.note(idle)
    return launch, forkserver


def check(config: Config) -> str:
    """All that `prepare` and `reserve` do short of making or starting anything: a page about the run.

    Raises ConfigError, ResourceError, RunError; if memory or disk is too small the page is its first lines.
    """
    check_trace(config)
    run_dir = config.run_dir
    with tempfile.TemporaryDirectory(prefix="pool-check-") as logs:
        launch, forkserver = _launch(config, _find_files(config, None), Path(logs), Path(logs), None)
        forkserver.end()
    launch = replace(launch, run_dir=run_dir)
    rows, available = memory_plan(launch, segment_sizes(launch)), available_memory()
    disk = disk_plan(launch)
    page = check_page(launch, disk, table(rows, available))
    try:
        check_disk(disk)
    except ResourceError as error:
        raise ResourceError(f"{page}\n{error}") from None
    if (problem := shortage(rows, available)) is not None:
        raise ResourceError(f"{page}\n{problem}")
    return page


def reserve(launch: Launch) -> tuple[dict[str, int], dict[str, int]]:
    """Makes the run's memory: descriptors and sizes by segment. Raises ResourceError if there is not enough, RunError
    if the data are not those of the checkpoint."""
    sizes = segment_sizes(launch)
    rows = memory_plan(launch, sizes)
    remaining = sum(sizes.values())

    def before_chunk(nbytes: int) -> None:
        """Others take memory too; and in a control group the shortage would be a kill, not an error."""
        nonlocal remaining
        available = available_memory()
        if remaining > available.nbytes:
            raise ResourceError(
                f"not enough memory any more: {mib(remaining)} to reserve, {mib(available.nbytes)} available"
            )
        remaining -= nbytes

    if (problem := shortage(rows, available_memory())) is not None:
        raise ResourceError(problem)
    known = {}
    if launch.checkpoint is not None:
        known = data_files.saved_sums(launch, saved_state(launch.checkpoint), launch.checkpoint)
    segments: dict[str, int] = {}
    try:
        for name, size in sizes.items():
            segments[name] = segment.create(name, size, before_chunk)
        write_sums(segments[SUMS], launch.num_chunks, known)
    except (OSError, ResourceError) as error:
        for fd in segments.values():
            os.close(fd)
        if isinstance(error, ResourceError):
            raise
        raise ResourceError(
            f"shared memory can't be made: {error.strerror}\n{table(rows, available_memory())}"
        ) from None
    return segments, sizes


def _find_files(config: Config, checkpoint: Path | None) -> DataFiles:
    check_current_folder()
    check_validation(config)
    return data_files.find(config, None if checkpoint is None else saved_state(checkpoint))


def _launch(
    config: Config,
    files: DataFiles,
    run_dir: Path,
    logs: Path,
    checkpoint: Path | None,
    signals: StopSignals | None = None,
    overrides: tuple[Override, ...] = (),
) -> tuple[Launch, ForkServer]:
    check_descriptors(config)
    step, start = resume_point(config, checkpoint, files.train)
    module = task_module(config.task)
    start_from = start_checkpoint(config.model, module, config.task) if checkpoint is None else None
    launch, forkserver = ask_planner(
        Launch(
            peer=Peer(PLANNER),
            config=config,
            run_dir=run_dir,
            address_key=new_key(),
            coordinator=Peer(COORDINATOR),
            coordinator_pid=None,
            devices=config.pool.devices,
            device_names=(),
            train_files=files.train,
            validation_files=files.validation,
            schema=None,
            plan=None,
            segments={},
            bells={},
            step=step,
            start=start,
            checkpoint=checkpoint,
            snapshot=None,
            saved=-1 if checkpoint is None else step,
            state_nbytes=0,
            num_chunks={},
            fingerprint={},
            overrides=overrides,
            start_from=None if start_from is None else start_from.absolute(),
        ),
        logs,
        signals,
    )
    try:
        if launch.start_from is not None:
            compare_model(launch, launch.start_from, saved_state(launch.start_from))
    except PoolError:
        forkserver.end()
        raise
    return launch, forkserver
