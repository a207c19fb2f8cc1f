"""The folder of a run's checkpoints: which there are, which is the newest good one, which are too old.

A checkpoint is renamed before it is removed, so a folder named step-N was once complete. Free of torch.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loader.files.whole_file import temporary
from pool.checkpoint.state import BEST, FOLDER, LAST, STATE, verify
from pool.crash_points import crash_point
from pool.errors import CheckpointError, DamagedCheckpointError
from pool.run_folder import files
from pool.run_folder.access import FOLDER_MODE, make_folder

DAMAGED = "damaged-"
PREFIX = "step-"
FORMER_BEST = "former-best-"
_NAME = re.compile(rf"{PREFIX}(\d{{9,}})")
_LINK = re.compile(rf"{LAST}|{BEST}|{FORMER_BEST}{PREFIX}\d{{9,}}")


Wanted = Callable[[int], bool]  # of a step: whether somebody has still to read its checkpoint


def nothing_wanted(_: int) -> bool:
    return False


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a resume goes on from, and those that it can't go on from though they are newer."""

    good: Path | None
    damaged: tuple[tuple[Path, str], ...]  # newest first, with what is wrong


def step_path(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX}{step:09d}"


def checkpoints(folder: Path) -> list[Path]:
    """Oldest first. Raises OSError."""
    if not folder.is_dir():
        return []
    steps = {int(match[1]): path for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))}
    return [steps[step] for step in sorted(steps)]


def step_of(checkpoint: Path) -> int:
    """Returns the step that the name of a checkpoint's folder says."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None, f"{checkpoint} is no checkpoint's name"
    return int(match[1])


def linked_step(folder: Path, name: str) -> int:
    """Returns the step of the checkpoint that `last` or `best` points to, which is written to the end; -1 if there is
    none."""
    link = folder / name
    match = _NAME.fullmatch(str(link.readlink())) if link.is_symlink() else None
    return int(match[1]) if match and link.exists() else -1


def newest_good(folder: Path) -> ResumePoint:
    """Finds the newest good checkpoint by step, whatever `last` points to: that is moved after the rename, and may be
    left behind.

    Raises OSError; CheckpointError if the newest that is not damaged was written by something else: to go back from
    it, or to rename it, is its owner's to decide.
    """
    damaged = []
    for path in reversed(checkpoints(folder)):
        try:
            step = verify(path).step
        except DamagedCheckpointError as error:
            damaged.append((path, str(error)))
        except CheckpointError as error:
            raise CheckpointError(f"{error}; to resume from an older checkpoint move {path.name} away") from None
        else:
            if step_path(folder, step) != path:
                raise CheckpointError(
                    f"{path}: is a checkpoint of step {step}: give it the name {step_path(folder, step).name}"
                )
            return ResumePoint(path, tuple(damaged))
    return ResumePoint(None, tuple(damaged))


def locate(where: Path) -> Path:
    """The checkpoint that a user means: `where` itself, or the newest of a run's folder or of its checkpoints/.

    `last`, `best` and former bests are links that a run makes within its folder; where one points elsewhere something
    else has made it. Raises CheckpointError.
    """
    try:
        for folder in (where, where / FOLDER):
            if os.path.lexists(folder / LAST):
                return _followed(folder / LAST)
            if there := checkpoints(folder):
                return _followed(there[-1])
        return _followed(where)
    except OSError as error:
        raise CheckpointError(f"{error.filename or where}: {error.strerror}") from None


def _followed(where: Path) -> Path:
    if _LINK.fullmatch(where.name) and where.is_symlink():
        target = where.readlink()
        if not _NAME.fullmatch(str(target)):
            raise CheckpointError(f"{where}: points to {target}, not to a checkpoint beside it")
        where = where.with_name(target.name)
    if not where.exists():
        raise CheckpointError(f"{where}: there is no such folder")
    if not (where / STATE).exists():
        raise CheckpointError(f"{where}: is no checkpoint folder: it has no {STATE}")
    return where


def put(where: Path, step: int, write: Callable[[Path], object]) -> Path:
    """Puts the checkpoint of a step into `where`: `write` fills a folder beside its place, which is read back and
    renamed. Whatever fails, or wherever this process dies, the checkpoint is there as a whole or not at all. Raises
    OSError, CheckpointError, and what `write` raises."""
    make_folder(where)
    target = step_path(where, step)
    beside = temporary(target)
    try:
        beside.mkdir(mode=FOLDER_MODE)
        write(beside)
        verify(beside)
        crash_point("coordinator.checkpoint_verified")
        beside.rename(target)
        crash_point("coordinator.checkpoint_renamed")
    except BaseException:
        files.remove_quietly(beside)
        raise
    return target


def set_aside(path: Path) -> Path:
    """Renames a damaged checkpoint, so that no later resume takes it. Raises OSError."""
    for number in range(1000):
        aside = path.with_name(DAMAGED + path.name + (f".{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            return aside
    raise FileExistsError(f"{path.parent} has a thousand copies of {DAMAGED}{path.name}")


def point(folder: Path, name: str, checkpoint: Path) -> None:
    """Makes `last` or `best` a link to a checkpoint. Raises OSError."""
    files.replace_link(folder / name, checkpoint.name)
    files.sync_folder(folder)


def keep_former_best(folder: Path) -> str | None:
    """Makes a link to the best checkpoint before another one becomes the best, by other validations: it stays as long
    as the link. Returns the link's name; None if there is no best one. Raises OSError."""
    step = linked_step(folder, BEST)
    if step < 0:
        return None
    target = step_path(folder, step)
    name = f"{FORMER_BEST}{target.name}"
    point(folder, name, target)
    return name


def old_checkpoints(folder: Path, keep: int, keep_every: int = 0, wanted: Wanted = nothing_wanted) -> list[Path]:
    """Returns all but the newest `keep`, the best and former bests, those of each `keep_every` steps (0: none), and
    those whose steps are `wanted`. Raises OSError."""
    former = [path.name for path in folder.glob(f"{FORMER_BEST}*")]
    best = {linked_step(folder, name) for name in (BEST, *former)}

    def stays(step: int) -> bool:
        return step in best or (keep_every > 0 and step % keep_every == 0) or wanted(step)

    return [path for path in checkpoints(folder)[:-keep] if not stays(step_of(path))]


def remove_old(folder: Path, keep: int, keep_every: int = 0, wanted: Wanted = nothing_wanted) -> None:
    """Removes the `old_checkpoints`. What can't be removed now stays for the next time."""
    with contextlib.suppress(OSError):
        for old in old_checkpoints(folder, keep, keep_every, wanted):
            remove(old)


def remove(checkpoint: Path) -> None:
    """Renames it first: what has the name of a checkpoint is whole. Raises OSError."""
    doomed = temporary(checkpoint)
    checkpoint.rename(doomed)
    files.remove(doomed)
