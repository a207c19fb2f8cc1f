"""The process that `sparsepool.train` starts: the supervisor of a run. It reads what to do from standard input, one
line of JSON.

The end of standard input stops the run, since it means that the call of `train` has ended, in whatever way. The child
writes the folder of its run to a descriptor that it was given, and everything else where `pool train` does.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import typer

from loader.command_line.program import Program
from loader.exit_codes import EXIT_DATA

# late imports: an interruption while they are loaded ends as in the command

COMMAND = "run"


def main() -> int:
    """Runs what standard input asks for, and returns the exit code."""
    return Program(
        "pool", "sparsepool", "A run that was started from Python.", (sys.modules[__name__],), EXIT_DATA
    ).main([COMMAND])


def register(app: typer.Typer) -> None:
    app.command(name=COMMAND)(run)


def run() -> None:
    """Trains."""
    from pool.config.changes import Change
    from pool.config.load import apply_changes, load_config
    from pool.process.prctl import die_with_parent
    from pool.supervisor.train import train

    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # the caller was interrupted while it wrote
        return
    request: dict[str, Any] = json.loads(line)
    die_with_parent(signal.SIGTERM)  # if a notebook is closed, finishes the step and writes a checkpoint
    _stop_when_closed(sys.stdin.fileno())
    if os.getppid() != request["parent"]:
        return
    overrides = [Change(key, value, is_toml=True) for key, value in request["overrides"].items()]
    if request["config"] is not None:
        settings = [Change(key, value, is_toml=True) for key, value in request["config"].items()]
        settings.sort(key=lambda change: change.key.count("."))  # tables before single keys in them
        config = apply_changes({}, [*settings, *overrides], "config")
    else:
        config = load_config(Path(request["path"]), overrides)
    with os.fdopen(request["answer"], "w", encoding="utf-8", errors="surrogateescape") as answer:
        answer.write(str(config.run_dir))
    code = train(config, resume=request["resume"], allow_different_numerics=request["allow_different_numerics"])
    raise typer.Exit(code)


def _stop_when_closed(descriptor: int) -> None:
    """Has the kernel send SIGTERM to this process when the caller's end of the pipe `descriptor` closes. Sends it at
    once if that end is closed already."""
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(descriptor, 0)
    if poll.poll(0):  # POLLHUP is always reported
        os.kill(os.getpid(), signal.SIGTERM)
