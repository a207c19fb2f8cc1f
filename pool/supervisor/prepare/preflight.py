"""Checks what a run needs before it starts: descriptors, a current folder, a run folder and a trace file that can be
written.

A shortage ends the run with one line now instead of an hour later. Memory is checked by `memory_plan`, the disk by
`disk_plan`. Whether data files can be read the planner finds out.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from loader.files.whole_file import temporary_path
from loader.stream.sources import create_source
from pool.checkpoint.state import AVERAGE, FOLDER
from pool.config.tree import Config
from pool.errors import ConfigError, ResourceError, exit_code_of
from pool.run_folder import files
from pool.run_folder.access import make_folder
from pool.supervisor.prepare.resume import saved_state

_DESCRIPTORS = 64  # descriptors of any process of a run: libraries, log, segments, sockets
_MOST_WORKERS = 100  # the coordinator is sent two descriptors for each in one message, which may have 253
_DESCRIPTORS_OF_A_WORKER = 8  # more descriptors in supervisor and coordinator


def check_descriptors(config: Config) -> None:
    """Raises this process's limit of open descriptors to what the run needs, if the hard limit allows it.

    Raises ResourceError if the limit is too low, or if there are more devices than the coordinator can be sent
    descriptors for: memory and signals of each.
    """
    if len(config.pool.devices) > _MOST_WORKERS:
        raise ResourceError(f"pool.devices: {len(config.pool.devices)} workers; more than {_MOST_WORKERS} can't be had")
    need = _DESCRIPTORS + _DESCRIPTORS_OF_A_WORKER * max(2, len(config.pool.devices))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise ResourceError(
            f"not enough file descriptors: the run needs {need}, and RLIMIT_NOFILE (ulimit -n) allows {hard}; "
            "raise it, or use fewer pool.devices"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def check_current_folder() -> None:
    """Checks that the current folder exists, which libraries and relative paths need. Raises ConfigError."""
    try:
        Path.cwd()
    except OSError as error:
        raise ConfigError(f"the current folder can't be found, change to another: {error.strerror}") from None


def check_validation(config: Config) -> None:
    """Checks that a run with validations has data for them. Raises ConfigError.

    A source that generates samples has data without files.
    """
    can_generate = create_source(config.data.source).can_generate
    if config.train.validate_every and not config.can_validate and not can_generate:
        raise ConfigError(
            f"train.validate_every: {config.train.validate_every}, but data.validation names no file; name one, or "
            "leave train.validate_every out"
        )
    if config.validate_every > 0:
        return
    _check_unused("train.early_stopping", config.train.early_stopping, "train.early_stopping")
    for member in config.members:
        _check_unused("schedule.plateau.patience", member.schedule.plateau.patience, "[schedule.plateau]")


def _check_unused(key: str, value: float | None, setting: str) -> None:
    """Raises ConfigError if a value is set that needs validations, in a run without. `setting`: what to leave out."""
    if value is not None:
        raise ConfigError(
            f"{key}: {value}, but there are no validations; name files in data.validation or set "
            f"train.validate_every, or leave {setting} out"
        )


def check_start_weights(config: Config, checkpoint: Path | None) -> None:
    """Checks that averaged weights exist if the run is to begin with them. Raises ConfigError.

    `checkpoint`: of another run, with whose weights this run begins, or None.
    """
    if config.train.start_weights == "newest":
        return
    if checkpoint is None:
        raise ConfigError('train.start_weights: "averaged", but model.start_from names no folder of a checkpoint')
    if AVERAGE not in saved_state(checkpoint).files:
        raise ConfigError(f'train.start_weights: "averaged", but {checkpoint} has no averaged weights (train.average)')


def check_trace(config: Config) -> None:
    """Checks that the trace file can be written when the run ends. Raises ConfigError."""
    path = config.trace_file
    if path is None:
        return
    is_no_file = path.exists() and not path.is_file()
    if is_no_file or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(f"run.trace: {path} can't be written: it must be a file in a folder that is there")


def check_folder(run_dir: Path) -> None:
    """Checks that checkpoints can be written to the run folder, by writing a file and removing it. Raises
    ConfigError."""
    folder = run_dir / FOLDER
    probe = temporary_path(folder / "probe")
    try:
        is_new = not folder.exists()
        make_folder(folder)
        files.write_new(probe, [b"x"])
        probe.unlink()
        if is_new:
            folder.rmdir()
    except OSError as error:
        files.remove_quietly(probe)
        raise ConfigError(
            f"run.dir: {error.filename or folder}: checkpoints can't be written there: {error.strerror}",
            exit_code_of(error),
        ) from None
