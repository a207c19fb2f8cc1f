"""The process of `sparsepool.train`: the supervisor of a run, told on standard input what to do, as one JSON document.

It says where its run is on a descriptor of its own, and everything else as `pool train` does.
"""

from __future__ import annotations

import json
import os
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
    """Runs what standard input asks for; gives back the exit code."""
    return Program(
        "pool", "sparsepool", "A run that was started from Python.", (sys.modules[__name__],), EXIT_DATA
    ).main([COMMAND])


def register(app: typer.Typer) -> None:
    app.command(name=COMMAND)(run)


def run() -> None:
    """Trains."""
    from pool.config.changes import Change
    from pool.config.load import changed_config, load_config
    from pool.process.prctl import die_with_parent
    from pool.supervisor.train import train

    asked: dict[str, Any] = json.load(sys.stdin)
    die_with_parent(signal.SIGTERM)  # a notebook that is closed: the step is finished, and a checkpoint written
    if os.getppid() != asked["parent"]:
        return
    changes = [Change(key, value, is_toml=True) for key, value in asked["overrides"].items()]
    if asked["config"] is not None:
        given = [Change(key, value, is_toml=True) for key, value in asked["config"].items()]
        config = changed_config({}, [*sorted(given, key=lambda change: change.key.count(".")), *changes], "config")
    else:
        config = load_config(Path(asked["path"]), changes)
    with os.fdopen(asked["answer"], "w", encoding="utf-8", errors="surrogateescape") as answer:
        answer.write(str(config.run_dir))
    code = train(config, resume=asked["resume"], allow_different_numerics=asked["allow_different_numerics"])
    raise typer.Exit(code)
