"""The toy task with helpers: each process that makes the task forks one in its group, one that leaves it, and a daemon.

They write their pids to files in the folder that the environment variable HELPERS names, and wait for ever.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import toy
from tests.support.toy import LossConfig, ModelConfig

if TYPE_CHECKING:
    from pool.task.task import Task

__all__ = ["LossConfig", "ModelConfig", "create_task"]


def create_task(model: ModelConfig, loss: LossConfig) -> Task:
    for prepare in (lambda: None, os.setsid, _be_a_daemon):
        _fork(prepare)
    return toy.create_task(model, loss)


def _fork(prepare: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        prepare()
        (Path(os.environ["HELPERS"]) / str(os.getpid())).touch()
        while True:
            signal.pause()


def _be_a_daemon() -> None:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
