"""What must be there before the first step, or the run ends with one line now and not an hour later.

Memory, room for checkpoints, descriptors, a folder that can be written. That data files can be read is the
planner's to see.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from pool.checkpoint import files
from pool.checkpoint.folder import checkpoints
from pool.checkpoint.state import FOLDER
from pool.config import Config
from pool.errors import ConfigError, ResourceError, RunError
from pool.launch import Launch
from pool.supervisor.memory_plan import mib

_DESCRIPTORS = 64  # of a process of a run: libraries, log, segments, sockets
_MOST_WORKERS = 100  # two descriptors each go to the coordinator in one message, and the kernel lets 253 pass
_DESCRIPTORS_OF_A_WORKER = 8  # in supervisor and coordinator
_STATE = 1 << 20  # of a checkpoint, beside its tensors


def check_descriptors(config: Config, data_files: int) -> None:
    """Raises the limit as far as it may be raised; ResourceError if that is too little, or if there are more devices
    than the coordinator can be given the memory and the bells of."""
    if len(config.pool.devices) > _MOST_WORKERS:
        raise ResourceError(f"pool.devices: {len(config.pool.devices)} workers; more than {_MOST_WORKERS} can't be had")
    need = _DESCRIPTORS + _DESCRIPTORS_OF_A_WORKER * max(2, len(config.pool.devices)) + data_files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise ResourceError(
            f"not enough file descriptors: the run needs {need}, and RLIMIT_NOFILE (ulimit -n) allows {hard}; "
            "raise it, or use fewer data files or pool.devices"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def check_trace(path: str) -> None:
    """A file can be made there when the run has ended. Raises ConfigError."""
    to = Path(path).expanduser()
    if path and (to.is_dir() or to.is_fifo() or not to.parent.is_dir() or not os.access(to.parent, os.W_OK)):
        raise ConfigError(f"run.trace: {path} can't be written: it must be a file in a folder that is there")


def check_folder(run_dir: Path) -> None:
    """A file can be made where checkpoints will be; none is left. Raises ConfigError."""
    folder = run_dir / FOLDER
    probe = files.temporary(folder / "probe")
    try:
        is_new = not folder.exists()
        folder.mkdir(mode=0o700, exist_ok=True)
        files.write_new(probe, [b"x"])
        probe.unlink()
        if is_new:
            folder.rmdir()
    except OSError as error:
        files.remove_quietly(probe)
        raise ConfigError(
            f"run.dir: {error.filename or folder}: checkpoints can't be written there: {error.strerror}"
        ) from None


def check_disk(launch: Launch) -> None:
    """Room for the checkpoints that are kept and the one that is being written. Raises RunError."""
    train = launch.config.train
    size = launch.state_nbytes + _STATE
    due = 1 if train.checkpoint_every == 0 else 1 + (train.steps - launch.step) // train.checkpoint_every
    best = 1 if launch.validation_files else 0
    folder = launch.run_dir / FOLDER
    there = len(checkpoints(folder))
    kept = train.keep_checkpoints + best + (train.steps // train.keep_every if train.keep_every else 0)
    more = min(max(0, kept - there) + 1, due + best)
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        space = os.statvfs(place)
    except OSError as error:
        raise RunError(f"{place}: {error.strerror}") from None
    free = space.f_bavail * space.f_frsize
    if more * size > free:
        raise ResourceError(
            f"not enough room on the disk of {place}: {more} more checkpoints of {mib(size)} are to be written, and "
            f"{mib(free)} are free; lower train.keep_checkpoints, raise train.keep_every, or choose another run.dir"
        )
