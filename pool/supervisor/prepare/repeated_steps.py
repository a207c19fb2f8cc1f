"""Repeats the first steps of a run with this build of sparsepool, in a temporary folder, to compare the bits of the
weights."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pool.config.load import CONFIG
from pool.run_folder.first_steps import FirstSteps, read_first_steps

log = logging.getLogger(__name__)

TIMEOUT = 600.0  # most seconds that the steps may take
_LOOK_SECONDS = 0.1
# What a run shows, tells others and keeps: nothing of it changes the weights of the first steps.
_WITHOUT = {
    "train.checkpoint_every": "0",
    "train.checkpoint_minutes": "0",
    "train.export_every": "0",
    "train.on_end": "[]",
    "train.on_export": "[]",
    "run.sinks": "[]",
    "telemetry.prometheus": "",
}


def first_steps_agree(run_dir: Path) -> bool:
    """Repeats the first steps of the run in `run_dir`, with the config with which it was begun.

    Returns whether the weights have the recorded bits. Returns False also if nothing is recorded, or if the steps can't
    be repeated now.
    """
    recorded = read_first_steps(run_dir)
    if recorded is None:
        return False
    with tempfile.TemporaryDirectory(prefix="pool-first-steps-") as folder:
        repeated = _repeat(recorded, Path(folder) / "run")
    return repeated is not None and (repeated.steps, repeated.digest) == (recorded.steps, recorded.digest)


def _repeat(recorded: FirstSteps, run_dir: Path) -> FirstSteps | None:
    """Runs the first steps in a new folder. Returns what the run has recorded, or None if it has ended early or took
    too long."""
    run_dir.mkdir()
    (run_dir / CONFIG).write_text(json.dumps(recorded.config), encoding="utf-8")
    deadline = time.monotonic() + TIMEOUT
    with _running(run_dir) as process:
        while process.poll() is None and time.monotonic() < deadline:
            if (repeated := read_first_steps(run_dir)) is not None:
                return repeated
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_SECONDS)
    return read_first_steps(run_dir)


@contextlib.contextmanager
def _running(run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs `pool train` in a folder that has a config, for the length of a `with`. The run is killed at the end."""
    sets = [word for key, value in _WITHOUT.items() for word in ("--set", f"{key}={value}")]
    ends_with_this = ["-m", "pool.process.become", str(os.getpid()), sys.executable]
    command = [sys.executable, *ends_with_this, "-m", "pool", "train", "--resume", str(run_dir), *sets]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            _, errors = process.communicate()
            log.info("the first steps were done again: exit code %s %s", process.returncode, errors.strip())
