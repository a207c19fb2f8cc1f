"""What happens before the first process of a run: files found, plan made, memory checked and reserved.

Every shortage is one clear line here, and nothing has been started or written yet but the run folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from loader.schema import BatchSchema
from loader.sources import find_files
from pool.buckets.plan import Plan
from pool.checkpoint.fingerprint import differences
from pool.checkpoint.state import SavedState, read_state
from pool.config import Config
from pool.errors import CheckpointError, ConfigError, PoolError, RunError
from pool.launch import Launch, write_descriptor
from pool.protocol.identity import COORDINATOR, Peer
from pool.protocol.messages import CursorState
from pool.shm import segment
from pool.shm.memory import segment_sizes
from pool.supervisor.child import environment
from pool.supervisor.run_folder import RunFolder

MEMORY_SHARE = 0.8  # of what is available; the rest is for the processes themselves


def prepare(config: Config, folder: RunFolder, *, allow_different_numerics: bool = False) -> Launch:
    """What every process of the run will be told. Raises ConfigError, RunError."""
    try:
        train = tuple(find_files(config.data.train, "data.train"))
        validation = tuple(find_files(config.data.validation, "data.validation"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    checkpoint = folder.last_checkpoint()
    step, start = _resume_point(config, checkpoint)
    launch = Launch(
        peer=Peer("planner"),
        parent=os.getpid(),
        config=config,
        run_dir=folder.path,
        sockets=folder.sockets,
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
    )
    launch = _planned(launch)
    if checkpoint is not None:
        _compare_numerics(launch, checkpoint, folder, allowed=allow_different_numerics)
    return launch


def go_on(launch: Launch, folder: RunFolder, coordinator: Peer) -> Launch:
    """What a new coordinator is told when its predecessor died: the way a resumed run begins (I9)."""
    checkpoint = folder.last_checkpoint()
    step, start = _resume_point(launch.config, checkpoint)
    return replace(launch, coordinator=coordinator, step=step, start=start, checkpoint=checkpoint)


def reserve(launch: Launch) -> tuple[dict[str, int], dict[str, int]]:
    """Makes the run's memory: descriptors and sizes by segment. Raises RunError if there is not enough."""
    schema, plan = launch.planned()
    sizes = segment_sizes(launch.config, schema, plan, len(launch.devices))
    _check_memory(sizes)
    try:
        return {name: segment.create(name, size) for name, size in sizes.items()}, sizes
    except OSError as error:
        raise RunError(f"shared memory can't be made: {error.strerror}; {_memory_plan(sizes)}") from None


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


def _planned(launch: Launch) -> Launch:
    """Asks the planner, a process that knows torch."""
    spec = write_descriptor(launch.to_json())
    try:
        planner = subprocess.run(
            [sys.executable, "-m", "pool.roles", str(spec)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=[spec],
            process_group=0,
            env=environment(),
            check=False,
        )
    finally:
        os.close(spec)
    try:
        answer = json.loads(planner.stdout)
    except ValueError:
        last = planner.stderr.decode(errors="replace").strip().splitlines()[-5:]
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


def _check_memory(sizes: Mapping[str, int]) -> None:
    available = _available_memory()
    if sum(sizes.values()) > MEMORY_SHARE * available:
        raise RunError(
            f"not enough memory: {_memory_plan(sizes)}, and {_mib(available)} are available; lower "
            "data.batch_size, pool.ring_slots, train.batches_per_step, pool.gradient_slots or the model"
        )


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise RunError("/proc/meminfo has no MemAvailable")


def _memory_plan(sizes: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {_mib(size)}" for name, size in sizes.items())
    return f"the run needs {_mib(sum(sizes.values()))} ({parts})"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
