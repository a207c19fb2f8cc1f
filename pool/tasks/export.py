"""From a checkpoint to the file that the network's user reads."""

from __future__ import annotations

from pathlib import Path

from loader.errors import DataError
from loader.plugins.words import told
from pool.errors import PoolError
from pool.tasks.choosing import One
from pool.tasks.trained import Trained, load_trained


def export_checkpoint(
    where: Path,
    output: Path,
    description: str,
    task: str | None,
    *,
    member: One | None = None,
    average: bool = False,
) -> Trained:
    """Writes the network of a checkpoint, or of the newest of a run's folder; returns it.

    `task`: the caller's name for the task, needed unless it is built in; `member`: which of an
    ensemble; `average`: that of all. Raises
    CheckpointError for a bad checkpoint, ConfigError for another task or for several members of which none is chosen,
    PoolError for weights that the format can't hold.
    """
    found = load_trained(where, task, member=member, average=average)
    _check_output(output)
    try:
        found.task.export(found.model, output, description)
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}") from None
    except DataError as error:  # it names the file
        raise PoolError(str(error)) from None
    except ValueError as error:
        raise PoolError(f"{output}: not written: {error}") from None
    except Exception as error:
        raise PoolError(f"{output}: not written: {told(error)}") from None
    if not output.exists():
        raise PoolError(f"{output}: not written: the method `export` of the task {found.name} makes no file")
    return found


def _check_output(output: Path) -> None:
    """What is no regular file is not written to: a pipe would be waited for, a device overwritten."""
    if output.is_dir():
        raise PoolError(f"{output}: is a folder; name a file")
    if output.exists() and not output.is_file():
        raise PoolError(f"{output}: is not a regular file")
