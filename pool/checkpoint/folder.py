"""The folder of a run's checkpoints: lists them, finds the newest undamaged one, and removes old ones.

A checkpoint is written under a temporary name and renamed to step-N when it is complete, and is renamed again before
it is removed. So a folder named step-N always holds a complete checkpoint. Free of torch.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loader.files.whole_file import temporary_path
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


IsNeeded = Callable[[int], bool]  # step -> whether a reader still needs its checkpoint


def keep_none(_: int) -> bool:
    """Returns False for every step: no checkpoint is kept for a reader."""
    return False


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a resume starts from, and the newer checkpoints that are damaged."""

    good: Path | None
    damaged: tuple[tuple[Path, str], ...]  # path and problem of each, newest first


def step_path(folder: Path, step: int) -> Path:
    """Returns the path of a step's checkpoint in `folder`, the folder of a run's checkpoints."""
    return folder / f"{PREFIX}{step:09d}"


def list_checkpoints(folder: Path) -> list[Path]:
    """Lists the complete checkpoints in a folder, the oldest first. Returns an empty list if there is no such folder.

    Raises OSError.
    """
    if not folder.is_dir():
        return []
    steps = {int(match[1]): path for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))}
    return [steps[step] for step in sorted(steps)]


def step_of(checkpoint: Path) -> int:
    """Returns the step in the name of a checkpoint's folder."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None, f"{checkpoint} is no checkpoint's name"
    return int(match[1])


def linked_step(folder: Path, name: str) -> int:
    """Returns the step of the checkpoint that the link `name` (`last` or `best`) points to.

    Returns -1 if there is no such link, or if its target does not exist or has another name than a checkpoint.
    """
    link = folder / name
    match = _NAME.fullmatch(str(link.readlink())) if link.is_symlink() else None
    return int(match[1]) if match and link.exists() else -1


def find_newest_undamaged(folder: Path) -> ResumePoint:
    """Finds the undamaged checkpoint with the highest step, and the damaged ones that are newer.

    Steps are taken from the folders' names. The link `last` is ignored, because it is moved after the rename and may
    point to an older checkpoint. Raises OSError. Raises CheckpointError if the newest undamaged checkpoint can't be
    read by this version, or has the name of another step: whether to skip or rename such a checkpoint is its owner's
    decision.
    """
    damaged = []
    for path in reversed(list_checkpoints(folder)):
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


def find_checkpoint(where: Path) -> Path:
    """Returns the checkpoint that a user means by the path `where`.

    `where` is a checkpoint, a run's folder or the folder checkpoints/ in it. Of a folder with several checkpoints,
    the target of its link `last` is returned, and without such a link the newest. Links (`last`, `best`, former
    bests) are followed only if they point to a checkpoint in the same folder, since a run makes no others. Raises
    CheckpointError.
    """
    try:
        for folder in (where, where / FOLDER):
            if os.path.lexists(folder / LAST):
                return _followed(folder / LAST)
            if there := list_checkpoints(folder):
                return _followed(there[-1])
        return _followed(where)
    except OSError as error:
        raise CheckpointError(f"{error.filename or where}: {error.strerror}") from None


def _followed(where: Path) -> Path:
    """Returns the checkpoint folder that `where` is or links to. Raises CheckpointError if it is none."""
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


def write_checkpoint(where: Path, step: int, write: Callable[[Path], object]) -> Path:
    """Writes the checkpoint of a step into the folder `where`. Returns its path.

    `write` fills a temporary folder, which is then read back, verified and renamed. Whatever fails, and wherever this
    process dies, the checkpoint is complete or absent. Raises OSError, CheckpointError, and what `write` raises.
    """
    make_folder(where)
    target = step_path(where, step)
    beside = temporary_path(target)
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


def rename_damaged(path: Path) -> Path:
    """Renames a damaged checkpoint to damaged-step-N, so that no later resume uses it. Returns the new path.

    Raises OSError.
    """
    for number in range(1000):
        aside = path.with_name(DAMAGED + path.name + (f".{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            return aside
    raise FileExistsError(f"{path.parent} has a thousand copies of {DAMAGED}{path.name}")


def set_link(folder: Path, name: str, checkpoint: Path) -> None:
    """Makes the link `name` (`last`, `best`) in a folder point to a checkpoint, and syncs the folder. Raises
    OSError."""
    files.replace_link(folder / name, checkpoint.name)
    files.sync_folder(folder)


def keep_former_best(folder: Path) -> str | None:
    """Adds a link former-best-step-N to the checkpoint that `best` points to. Returns the link's name.

    Called before validations on other data or of another metric choose a new best checkpoint. A checkpoint is not
    removed as long as such a link to it exists. Returns None if there is no best checkpoint. Raises OSError.
    """
    step = linked_step(folder, BEST)
    if step < 0:
        return None
    target = step_path(folder, step)
    name = f"{FORMER_BEST}{target.name}"
    set_link(folder, name, target)
    return name


def list_removable(folder: Path, keep: int, keep_every: int = 0, is_needed: IsNeeded = keep_none) -> list[Path]:
    """Lists the checkpoints that may be removed.

    Kept are the newest `keep`, the best and former bests, those whose step is a multiple of `keep_every` (0: no
    such), and those for whose step `is_needed` returns True. Raises OSError.
    """
    former = [path.name for path in folder.glob(f"{FORMER_BEST}*")]
    best = {linked_step(folder, name) for name in (BEST, *former)}

    def stays(step: int) -> bool:
        return step in best or (keep_every > 0 and step % keep_every == 0) or is_needed(step)

    return [path for path in list_checkpoints(folder)[:-keep] if not stays(step_of(path))]


def remove_old_checkpoints(folder: Path, keep: int, keep_every: int = 0, is_needed: IsNeeded = keep_none) -> None:
    """Removes the checkpoints that `list_removable` lists. A checkpoint that can't be removed stays until the next
    call."""
    with contextlib.suppress(OSError):
        for old in list_removable(folder, keep, keep_every, is_needed):
            remove_checkpoint(old)


def remove_checkpoint(checkpoint: Path) -> None:
    """Removes a checkpoint's folder. Raises OSError.

    The folder is renamed first, so that a half removed one never has the name of a checkpoint.
    """
    doomed = temporary_path(checkpoint)
    checkpoint.rename(doomed)
    files.remove(doomed)
