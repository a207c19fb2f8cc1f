"""What happens before the first process of a run: files found, plan made, memory checked and reserved.

Every shortage is one clear line here, and nothing has been started or written yet but the run folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loader.sources import find_files
from pool.checkpoint.overrides import Override
from pool.config import Config
from pool.errors import ConfigError, PoolError, ResourceError
from pool.launch import Launch
from pool.protocol.identity import COORDINATOR, PLANNER, Peer
from pool.shm import segment
from pool.shm.memory import segment_sizes
from pool.supervisor.available import available_memory
from pool.supervisor.comparing import compare_model, compare_numerics, compare_optimizer
from pool.supervisor.forkserver import ForkServer
from pool.supervisor.memory_plan import memory_plan, mib, shortage, table
from pool.supervisor.overriding import overrides_of
from pool.supervisor.planning import ask_planner
from pool.supervisor.preflight import check_descriptors, check_disk, check_folder, check_trace
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
    check_folder(folder.path)
    check_trace(config.run.trace)
    checkpoint = folder.last_checkpoint()
    overrides = overrides_of(checkpoint, changes, folder)
    launch, forkserver = _launch(config, folder.path, folder.sockets, folder.logs, checkpoint, signals, overrides)
    try:
        check_disk(launch)
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
    return launch, forkserver


def check(config: Config) -> str:
    """All that `prepare` and `reserve` do short of making or starting anything: the memory plan as a table.

    Raises ConfigError, ResourceError, RunError; then the table is its first lines.
    """
    run_dir = Path(config.run.dir).expanduser().absolute()
    with tempfile.TemporaryDirectory(prefix="pool-check-") as logs:
        launch, forkserver = _launch(config, run_dir, run_dir, Path(logs), None)
        forkserver.end()
    check_disk(launch)
    rows, available = memory_plan(launch, segment_sizes(launch)), available_memory()
    if (problem := shortage(rows, available)) is not None:
        raise ResourceError(f"{table(rows, available)}\n{problem}")
    return table(rows, available)


def reserve(launch: Launch) -> tuple[dict[str, int], dict[str, int]]:
    """Makes the run's memory: descriptors and sizes by segment. Raises ResourceError if there is not enough."""
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
    segments: dict[str, int] = {}
    try:
        for name, size in sizes.items():
            segments[name] = segment.create(name, size, before_chunk)
    except (OSError, ResourceError) as error:
        for fd in segments.values():
            os.close(fd)
        if isinstance(error, ResourceError):
            raise
        raise ResourceError(
            f"shared memory can't be made: {error.strerror}\n{table(rows, available_memory())}"
        ) from None
    return segments, sizes


def _launch(
    config: Config,
    run_dir: Path,
    sockets: Path,
    logs: Path,
    checkpoint: Path | None,
    signals: StopSignals | None = None,
    overrides: tuple[Override, ...] = (),
) -> tuple[Launch, ForkServer]:
    try:
        train = tuple(find_files(config.data.train, "data.train"))
        validation = tuple(find_files(config.data.validation if config.train.validate_every else (), "data.validation"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    check_descriptors(config, len(train) + len(validation))
    step, start = resume_point(config, checkpoint, train)
    module = task_module(config.task)
    start_from = start_checkpoint(config.model, module, config.task) if checkpoint is None else None
    launch, forkserver = ask_planner(
        Launch(
            peer=Peer(PLANNER),
            config=config,
            run_dir=run_dir,
            sockets=sockets,
            coordinator=Peer(COORDINATOR),
            devices=config.pool.devices,
            train_files=train,
            validation_files=validation,
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
