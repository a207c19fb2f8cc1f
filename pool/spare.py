"""A process that has imported all that takes long and waits to be told who it is: restarts in a fraction of a second.

Opens no device and starts no thread of its own, so that it can still become anybody.
"""

from __future__ import annotations

import importlib

from pool.launch import Launch
from pool.tasks.registry import task_module

# Every torch optimizer imports the compiler when it is made.
_SLOW = ("torch", "torch._dynamo", "pool.worker.worker", "pool.coordinator.coordinator")


def run(launch: Launch) -> None:
    """Imports what a worker or a coordinator of this run imports."""
    for name in _SLOW:
        importlib.import_module(name)
    task_module(launch.config.task).create_task(launch.config.model, launch.config.loss)
