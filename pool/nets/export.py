"""Exports the nets of one checkpoint, in a process of its own: `python -m pool.nets.export`, started by the
supervisor."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from loader.errors import SPACE_ERRORS, comes_from
from loader.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_RESOURCES
from loader.files.whole_file import temporary
from loader.plugins.error_text import error_line
from pool.checkpoint.folder import step_path
from pool.checkpoint.state import AVERAGE, FOLDER, read_state
from pool.errors import CheckpointError, PoolError
from pool.nets.record import NETS, net_name
from pool.process import lifeline
from pool.run_folder import files
from pool.run_folder.access import keep_others_from_writing, make_folder, shown
from pool.run_folder.room import has_room

# late imports: the supervisor loads this module, and never torch

_ROOM_ERRORS = (*SPACE_ERRORS, errno.EIO)  # the export is tried again


@dataclass(frozen=True)
class Export:
    run: Path  # the run folder, as this process has it
    step: int
    suffix: str  # of the files' names
    task: str
    members: int
    weights: str  # train.export_weights; empty: not set

    def arguments(self) -> list[str]:
        return [str(self.run), str(self.step), self.suffix, self.task, str(self.members), self.weights]

    @classmethod
    def parse(cls, arguments: list[str]) -> Export:
        run, step, suffix, task, members, weights = arguments
        return cls(Path(run), int(step), suffix, task, int(members), weights)


def write_nets(export: Export) -> None:
    """Writes the nets beside their place, and renames them when all are on the disk. Raises PoolError, OSError."""
    from pool.export.export import export_checkpoint
    from pool.export.member import Choice

    checkpoint = step_path(export.run / FOLDER, export.step)
    averaged = takes_average(checkpoint, export.weights)
    nets = export.run / NETS
    make_folder(nets)
    files.sweep(nets)  # of a predecessor that was killed
    beside = temporary(nets / net_name(export.step, ""))
    beside.mkdir(0o700)
    try:
        for m in range(export.members):
            name = net_name(export.step, export.suffix, m if export.members > 1 else None)
            member = m if export.members > 1 else None
            export_checkpoint(checkpoint, beside / name, None, export.task, Choice(member, averaged=averaged))
        written = sorted(beside.iterdir())
        for path in written:
            files.sync_file(path)
        for path in written:
            path.rename(nets / path.name)
        files.sync_folder(nets)
    except Exception as error:
        # Libraries and tasks of the user's say in their own ways that there is no room.
        if not comes_from(error, _ROOM_ERRORS) and has_room(nets):
            raise
        text = str(error) if isinstance(error, PoolError | OSError) else error_line(error)
        # Attempts that fail alike say the same: the file is named as it is called in the end.
        raise PoolError(text.replace(str(beside), str(nets)), EXIT_RESOURCES) from error
    finally:
        files.remove_quietly(beside)


def takes_average(checkpoint: Path, weights: str) -> bool:
    """Tells whether nets of a checkpoint have the averaged weights; `weights`: as in `Export`. Raises
    CheckpointError."""
    try:
        return weights != "newest" and (bool(weights) or AVERAGE in read_state(checkpoint).files)
    except OSError as error:
        raise CheckpointError(f"{checkpoint}: {error.strerror}") from None


def main(arguments: list[str]) -> int:
    """`arguments`: the pid of the supervisor, with which this process dies, and those of an `Export`. The exit code is
    EXIT_RESOURCES if the disk does not take the nets now."""
    parent, *rest = arguments
    lifeline.die_with_parent(int(parent))
    keep_others_from_writing()
    try:
        write_nets(Export.parse(rest))
    except (PoolError, OSError) as error:
        with suppress(OSError):  # the log is on the same disk
            os.write(2, f"{shown(str(error))}\n".encode(errors="backslashreplace"))
        is_full = comes_from(error, _ROOM_ERRORS)
        return EXIT_RESOURCES if is_full or getattr(error, "exit_code", EXIT_FAILED) == EXIT_RESOURCES else EXIT_FAILED
    return EXIT_DONE


def _leave(code: int) -> NoReturn:
    """Ends this process with that code, also if the log did not take what a library has printed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main(sys.argv[1:]))
