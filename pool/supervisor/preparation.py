"""What happens before the first process of a run: files found, plan made, memory checked and reserved.

Every shortage is one clear line here, and nothing has been started or written yet but the run folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from loader.schema import BatchSchema
from loader.sources import find_files
from pool.buckets.plan import Plan
from pool.checkpoint.fingerprint import differences
from pool.checkpoint.state import SavedState, read_state
from pool.config import Config
from pool.errors import EXIT_INTERRUPTED, CheckpointError, ConfigError, PoolError, RunError
from pool.launch import Launch, write_descriptor
from pool.protocol.identity import COORDINATOR, Peer
from pool.protocol.messages import CursorState
from pool.shm import segment
from pool.shm.memory import segment_sizes
from pool.supervisor.available import available_memory
from pool.supervisor.child import environment
from pool.supervisor.memory_plan import memory_plan, mib, shortage, table
from pool.supervisor.preflight import check_descriptors, check_disk, check_folder
from pool.supervisor.run_folder import RunFolder
from pool.supervisor.signals import StopSignals

SIGNAL_SECONDS = 0.1  # how often a signal is looked for while the planner works


def prepare(
    config: Config, folder: RunFolder, signals: StopSignals, *, allow_different_numerics: bool = False
) -> Launch:
    """What every process of the run will be told. Raises ConfigError, RunError; also for a signal to stop."""
    check_folder(folder.path)
    checkpoint = folder.last_checkpoint()
    launch = _launch(config, folder.path, folder.sockets, checkpoint, signals)
    check_disk(launch)
    if checkpoint is not None:
        _compare_numerics(launch, checkpoint, folder, allowed=allow_different_numerics)
    return launch


def check(config: Config) -> str:
    """All that `prepare` and `reserve` do short of making or starting anything: the memory plan as a table.

    Raises ConfigError, RunError; then the table is its first lines.
    """
    run_dir = Path(config.run.dir).expanduser().absolute()
    launch = _launch(config, run_dir, run_dir, None)
    check_disk(launch)
    rows, available = memory_plan(launch, _sizes(launch)), available_memory()
    if (problem := shortage(rows, available)) is not None:
        raise RunError(f"{table(rows, available)}\n{problem}")
    return table(rows, available)


def go_on(launch: Launch, folder: RunFolder, coordinator: Peer) -> Launch:
    """What a new coordinator is told when its predecessor died: the way a resumed run begins (I9)."""
    checkpoint = folder.last_checkpoint()
    step, start = _resume_point(launch.config, checkpoint)
    return replace(launch, coordinator=coordinator, step=step, start=start, checkpoint=checkpoint)


def reserve(launch: Launch) -> tuple[dict[str, int], dict[str, int]]:
    """Makes the run's memory: descriptors and sizes by segment. Raises RunError if there is not enough."""
    sizes = _sizes(launch)
    rows = memory_plan(launch, sizes)
    remaining = sum(sizes.values())

    def before_chunk(nbytes: int) -> None:
        """Others take memory too; and in a control group the shortage would be a kill, not an error."""
        nonlocal remaining
        available = available_memory()
        if remaining > available.nbytes:
            raise RunError(
                f"not enough memory any more: {mib(remaining)} to reserve, {mib(available.nbytes)} available"
            )
        remaining -= nbytes

    if (problem := shortage(rows, available_memory())) is not None:
        raise RunError(problem)
    segments: dict[str, int] = {}
    try:
        for name, size in sizes.items():
            segments[name] = segment.create(name, size, before_chunk)
    except (OSError, RunError) as error:
        for fd in segments.values():
            os.close(fd)
        if isinstance(error, RunError):
            raise
        raise RunError(f"shared memory can't be made: {error.strerror}\n{table(rows, available_memory())}") from None
    return segments, sizes


def _sizes(launch: Launch) -> dict[str, int]:
    schema, plan = launch.planned()
    return segment_sizes(launch.config, schema, plan, len(launch.devices))


def _launch(
    config: Config, run_dir: Path, sockets: Path, checkpoint: Path | None, signals: StopSignals | None = None
) -> Launch:
    try:
        train = tuple(find_files(config.data.train, "data.train"))
        validation = tuple(find_files(config.data.validation if config.train.validate_every else (), "data.validation"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    check_descriptors(config, len(train) + len(validation))
    step, start = _resume_point(config, checkpoint)
    return _planned(
        Launch(
            peer=Peer("planner"),
            parent=os.getpid(),
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
            step=step,
            start=start,
            checkpoint=checkpoint,
            fingerprint={},
        ),
        signals,
    )


def _resume_point(config: Config, checkpoint: Path | None) -> tuple[int, CursorState]:
    if checkpoint is None:
        return 0, CursorState(0, 0, 0, 0)
    saved = _read_state(checkpoint)
    if saved.step > config.train.steps:
        raise ConfigError(f"train.steps: {config.train.steps} is less than the {saved.step} steps done already")
    given = config.model_dump(mode="json")
    for key in _RESULT_KEYS:
        section, _, name = key.partition(".")
        if saved.config[section][name] != given[section][name]:
            raise ConfigError(
                f"{key}: {given[section][name]} now, {saved.config[section][name]} in {checkpoint}; "
                "a resumed run must take the same batches"
            )
    return saved.step, saved.cursor


def _read_state(checkpoint: Path) -> SavedState:
    try:
        return read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None


_RESULT_KEYS = (
    "run.seed",
    "data.source",
    "data.features",
    "data.batch_size",
    "data.shuffle",
    "data.window_chunks",
    "data.tail",
    "data.filters",
    "train.batches_per_step",
)


def _compare_numerics(launch: Launch, checkpoint: Path, folder: RunFolder, *, allowed: bool) -> None:
    """Other numerics give other bits (I2), so they have to be asked for."""
    different = differences(_read_state(checkpoint).fingerprint, launch.fingerprint)
    if not different:
        return
    if not allowed:
        raise ConfigError(
            f"other numerics than those of {checkpoint}: {different}; the run would not end with the bits "
            "it would have had; --allow-different-numerics goes on all the same"
        )
    folder.note(f"other numerics: {different}; the run is bit for bit the same only up to step {launch.step}")


def _planned(launch: Launch, signals: StopSignals | None) -> Launch:
    """Asks the planner, a process that knows torch."""
    spec = write_descriptor(launch.to_json())
    try:
        planner = subprocess.Popen(
            [sys.executable, "-m", "pool.roles", str(spec)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[spec],
            process_group=0,
            env=environment(),
        )
    finally:
        os.close(spec)
    output, errors = _wait_for(planner, signals)
    try:
        answer = json.loads(output)
    except ValueError:
        last = errors.decode(errors="replace").strip().splitlines()[-5:]
        raise RunError("\n".join([f"the planner ended with code {planner.returncode}:", *last])) from None
    if "error" in answer:
        raise PoolError(answer["error"], answer["exit_code"])
    return replace(
        launch,
        schema=BatchSchema.from_dict(answer["schema"]),
        plan=Plan.from_dict(answer["plan"]),
        devices=tuple(answer["devices"]),
        fingerprint=answer["fingerprint"],
    )


def _wait_for(planner: subprocess.Popen[bytes], signals: StopSignals | None) -> tuple[bytes, bytes]:
    """What it wrote. There is nothing to keep yet: the first signal ends it, and the run."""
    with planner:
        try:
            while signals is None or signals.count == 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return planner.communicate(timeout=SIGNAL_SECONDS)
        finally:
            planner.kill()  # nothing happens to one that has ended
        planner.communicate()
    raise RunError("stopped before the first step", EXIT_INTERRUPTED)
