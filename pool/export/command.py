"""Builds the command line of `pool export`, for processes that never import torch."""

from __future__ import annotations

from pathlib import Path

from loader.plugins.modules import module_command
from pool.checkpoint.state import AVERAGE, read_state
from pool.errors import CheckpointError
from pool.task.registry import is_bundled


def export_command(
    checkpoint: Path, output: Path, task: str, weights: str | None, member: int | None = None, *options: str
) -> list[str]:
    """Returns the command that exports a network of a checkpoint.

    `weights`: averaged or newest; None means the averaged ones if the checkpoint has any. `member`: number of a
    member of an ensemble. Raises CheckpointError.
    """
    arguments = ["export", str(checkpoint), "-o", str(output), *options]
    if weights == "averaged" or (weights is None and _has_average(checkpoint)):
        arguments.append("--ema")
    if member is not None:
        arguments += ["--member", str(member)]
    if not is_bundled(task):
        arguments += ["--task", task]
    return module_command("pool", *arguments)


def _has_average(checkpoint: Path) -> bool:
    try:
        return AVERAGE in read_state(checkpoint).files
    except OSError as error:
        raise CheckpointError(f"{checkpoint}: {error.strerror}") from None
