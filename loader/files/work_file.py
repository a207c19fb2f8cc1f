"""Unfinished work of a command, kept in FILE.part so that the same command can continue it and finish FILE.

Pieces of data are appended and committed one by one. FILE.part.journal (journal.py) tells a later process how much of
FILE.part is complete, however the earlier process died. What follows the complete part is cut off. Both files are
locked, so one process at a time works on them; the kernel releases the locks when it dies.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loader.errors import DataError, UsageError
from loader.files import journal
from loader.files.journal import Settings, State
from loader.files.resumable import open_to_write, write_at
from loader.files.whole_file import is_temporary, sync_folder

UNFINISHED = "unfinished"  # key of the state: name of the result while it is written
SYNC_SECONDS = 5.0  # between two fsyncs; a power failure loses at most so much work


def part_path(path: Path) -> Path:
    """Returns the path of the file with the unfinished work for `path`, FILE.part. Raises UsageError if `path` is no
    name of a file."""
    if not path.name:
        raise UsageError(f"{path}: is a folder, not a file")
    return path.with_name(f"{path.name}.part")


def journal_path(path: Path) -> Path:
    part = part_path(path)
    return part.with_name(f"{part.name}.journal")


def has_unfinished_work(path: Path) -> bool:
    """Returns whether files with unfinished work for `path` exist, complete or not."""
    return os.path.lexists(part_path(path)) or os.path.lexists(journal_path(path))


def unfinished_nbytes(path: Path) -> int:
    """Returns the size of the unfinished work for `path` in bytes, including a piece whose writer died."""
    part = part_path(path)
    return part.stat(follow_symlinks=False).st_size if os.path.lexists(part) else 0


class WorkFile:
    """The unfinished work for one file, opened by one process. A context manager: leaving it keeps the work, if there
    is any.

    `state`: the command's own state as of the last commit, or `initial` for new work. Work that is `done` has only to
    be removed.

    Raises UsageError if another process has the work open, if it was begun with other settings, or if the files there
    are something else. Raises DataError if the work is damaged; OSError.
    """

    def __init__(self, path: Path, settings: Settings, initial: State) -> None:
        self.path = path
        self.part = part_path(path)
        self.journal = journal_path(path)
        self.state: dict[str, Any] = dict(initial)
        self.end = 0  # bytes of the part that are committed
        self.done = False  # the result is delivered, and the process died before it had removed the work
        self._journal_end = 0
        self._created: set[Path] = set()  # files that this process has created
        self._has_work = True  # the files hold more than a header written by this process
        self._last_sync = time.monotonic()
        self._part_fd = self._journal_fd = -1
        try:
            self._part_fd = self._open_locked(self.part)
            # Also locked: another process's `remove` may have unlinked only the part.
            self._journal_fd = self._open_locked(self.journal)
            self._open_work(settings)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def commit(self, piece: bytes, state: State) -> None:
        """Appends a piece, which may be empty, and the state that goes with it. If OSError is raised, neither is
        changed."""
        self.commit_parts(len(piece), [piece], state)

    def commit_parts(self, size: int, parts: Iterable[bytes | memoryview], state: State) -> None:
        """Commits a piece of `size` bytes as `commit` does. The piece is given in consecutive parts, so that it need
        not fit into memory."""
        end = self.end

        def write_parts() -> Iterator[bytes | memoryview]:
            nonlocal end
            for part in parts:
                write_at(self._part_fd, part, end, self.part)
                end += len(part)
                yield part

        try:
            line = journal.commit_line(self.end + size, write_parts(), state)
            assert end == self.end + size, "the parts have `size` bytes together"
            write_at(self._journal_fd, line, self._journal_end, self.journal)
        except OSError:
            self._truncate_to_commit()
            raise
        self._has_work = True
        self.end = end
        self._journal_end += len(line)
        self.state = dict(state)
        if time.monotonic() - self._last_sync > SYNC_SECONDS:
            self.sync()

    def read(self, offset: int, buffer: memoryview) -> None:
        """Fills the buffer with committed bytes of the part from `offset` on. Raises DataError if the part has become
        shorter."""
        remaining = buffer
        while remaining:
            count = os.preadv(self._part_fd, [remaining], offset)
            if not count:
                raise DataError(self.part, "has become shorter", offset)
            remaining, offset = remaining[count:], offset + count

    def sync(self) -> None:
        """Flushes everything that has been committed to the disk."""
        os.fdatasync(self._part_fd)
        os.fdatasync(self._journal_fd)
        # Written after the flush, since the disk may store the end of a file before its beginning.
        write_at(self._journal_fd, journal.SYNCED, self._journal_end, self.journal)
        self._journal_end += len(journal.SYNCED)
        self._last_sync = time.monotonic()

    def remove(self) -> None:
        """Removes the work once its result is delivered. The journal is removed last, since a part without one can't be
        identified."""
        if not self.done:
            write_at(self._journal_fd, journal.done_line(self.state), self._journal_end, self.journal)
            os.fdatasync(self._journal_fd)
            self.done = True
        self.remove_unfinished()
        self.part.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)
        # Files of these names are another process's from now on.
        self._created = set()
        self._has_work = True

    def remove_unfinished(self) -> None:
        """Removes what an earlier process has written of the result, under the temporary name that the state holds."""
        name = str(self.state.get(UNFINISHED, ""))
        if is_temporary(name) and name.startswith(f".{self.path.name}."):
            self.path.with_name(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the files and releases their locks. Keeps the work, and files that were refused; removes files that
        hold no work."""
        for descriptor, path in ((self._part_fd, self.part), (self._journal_fd, self.journal)):
            if descriptor < 0:
                continue
            is_new_and_empty = path in self._created and os.fstat(descriptor).st_size == 0
            if not self._has_work or is_new_and_empty:
                path.unlink(missing_ok=True)
        for descriptor in (self._journal_fd, self._part_fd):  # the part's lock is released last
            if descriptor >= 0:
                os.close(descriptor)
        self._journal_fd = self._part_fd = -1

    def _open_locked(self, path: Path) -> int:
        """Opens and locks the file of this name, and returns the descriptor. Tries again if another process has removed
        the file in between. Raises UsageError if another process has the lock."""
        while True:
            if not os.path.lexists(path):
                self._created.add(path)
            descriptor = open_to_write(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._refuse_hard_link(descriptor, path)
                if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                raise UsageError(f"{self.part}: another process is at work on it") from None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _refuse_hard_link(self, descriptor: int, path: Path) -> None:
        """Raises UsageError if the file has a second name (hard link), as writing to it would change another file. Only
        the result itself may be that name."""
        status = os.fstat(descriptor)
        is_result = os.path.lexists(self.path) and os.path.samestat(status, self.path.lstat())
        max_names = 2 if is_result else 1
        if status.st_nlink > max_names:
            raise UsageError(f"{path}: is a hard link, so it is another file, too: move it away")

    def _open_work(self, settings: Settings) -> None:
        """Reads the journal, and continues the work that it describes or begins new work. Raises UsageError for files
        that belong to other work."""
        with open(self._journal_fd, "rb", closefd=False) as file:
            lines = iter(lambda: file.readline(journal.MAX_LINE_BYTES), b"")
            header = next(lines, b"")
            old_settings = journal.read_header(header)
            committed = None if old_settings is None else self._replay(len(header), lines)
        is_empty = os.fstat(self._part_fd).st_size == 0
        if old_settings is None or committed is None:
            if not is_empty or not journal.may_be_torn_header(header):
                raise UsageError(f"{self.part}: {self.journal.name} is not its journal; move both away")
            self._start_new_work(settings)
        elif committed.done and old_settings == settings and os.path.lexists(self.path):
            self.done = True
            self.state = dict(committed.state or self.state)
        elif committed.done or is_empty:
            self._start_new_work(settings)
        else:
            self._refuse_other_settings(old_settings, settings)
            self.end = committed.end
            self._journal_end = committed.journal_end
            self.state = dict(committed.state or self.state)
            self._truncate_to_commit()

    def _replay(self, header_nbytes: int, lines: Iterator[bytes]) -> journal.Committed:
        try:
            return journal.replay(header_nbytes, lines, self._read_part)
        except journal.DamagedError as error:
            reason = f"is not what {self.journal.name} says was written; remove it to begin anew"
            raise DataError(self.part, reason, error.offset) from None

    def _refuse_other_settings(self, old_settings: Settings, settings: Settings) -> None:
        differences = ", ".join(_describe_differences(old_settings, settings))
        if differences:
            advice = "give those, or remove it to begin anew"
            raise UsageError(f"{self.part}: was begun with other settings: {differences}; {advice}")

    def _read_part(self, offset: int, count: int) -> bytes:
        return os.pread(self._part_fd, count, offset)

    def _start_new_work(self, settings: Settings) -> None:
        """Empties both files and writes the journal's header to the disk."""
        header = journal.header_line(settings)
        os.ftruncate(self._part_fd, 0)
        os.ftruncate(self._journal_fd, 0)
        write_at(self._journal_fd, header, 0, self.journal)
        self._journal_end = len(header)
        self._has_work = False
        os.fsync(self._journal_fd)
        sync_folder(self.part.parent)

    def _truncate_to_commit(self) -> None:
        """Cuts both files after the last commit."""
        os.ftruncate(self._part_fd, self.end)
        os.ftruncate(self._journal_fd, self._journal_end)


def _describe_differences(old: Settings, new: Settings) -> Iterator[str]:
    """Yields the settings that differ, as text with the old and the new value."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield f"{key} {_format_setting(old.get(key))} (now {_format_setting(new.get(key))})"


def _format_setting(value: object) -> str:
    return "none" if value is None else str(value)
