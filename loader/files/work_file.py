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
    """Tells whether there is unfinished work for `path`, or what remains of it after a process died."""
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
        self._line_end = 0
        self._made: set[Path] = set()  # files that this process has created
        self._kept = True  # the files hold more than a header written by this process
        self._synced = time.monotonic()
        self._data = self._lines = -1
        try:
            self._data = self._locked(self.part)
            self._lines = self._locked(self.journal)  # also locked: another's `remove` may have unlinked only the part
            self._go_on(settings)
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
        """Commits as `commit` a piece of `size` bytes that is cut into consecutive parts, so that it need not be in
        memory whole."""
        place = self.end

        def written() -> Iterator[bytes | memoryview]:
            nonlocal place
            for part in parts:
                write_at(self._data, part, place, self.part)
                place += len(part)
                yield part

        try:
            line = journal.commit_line(self.end + size, written(), state)
            assert place == self.end + size, "a piece has the size that was said"
            write_at(self._lines, line, self._line_end, self.journal)
        except OSError:
            self._cut()
            raise
        self._kept = True
        self.end += size
        self._line_end += len(line)
        self.state = dict(state)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def read(self, offset: int, rest: memoryview) -> None:
        """Fills the buffer `rest` with committed bytes of the part from `offset` on. Raises DataError if the part has
        become shorter."""
        while rest:
            count = os.preadv(self._data, [rest], offset)
            if not count:
                raise DataError(self.part, "has become shorter", offset)
            rest, offset = rest[count:], offset + count

    def sync(self) -> None:
        """Flushes everything that has been committed to the disk."""
        os.fdatasync(self._data)
        os.fdatasync(self._lines)
        # Written after the flush, since the disk may store the end of a file before its beginning.
        write_at(self._lines, journal.SYNCED, self._line_end, self.journal)
        self._line_end += len(journal.SYNCED)
        self._synced = time.monotonic()

    def remove(self) -> None:
        """Removes the work once its result is delivered. The journal is removed last, since a part without one can't be
        identified."""
        if not self.done:
            write_at(self._lines, journal.done_line(self.state), self._line_end, self.journal)
            os.fdatasync(self._lines)
            self.done = True
        self.remove_unfinished()
        self.part.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)
        self._made, self._kept = set(), True  # files of these names are another process's from now on

    def remove_unfinished(self) -> None:
        """Removes what an earlier process has written of the result, under the temporary name that the state holds."""
        name = str(self.state.get(UNFINISHED, ""))
        if is_temporary(name) and name.startswith(f".{self.path.name}."):
            self.path.with_name(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the files and releases their locks. Keeps the work, and files that were refused; removes files that
        hold no work."""
        for descriptor, path in ((self._data, self.part), (self._lines, self.journal)):
            if descriptor >= 0 and (not self._kept or (path in self._made and os.fstat(descriptor).st_size == 0)):
                path.unlink(missing_ok=True)
        for descriptor in (self._lines, self._data):  # the part's lock is released last
            if descriptor >= 0:
                os.close(descriptor)
        self._lines = self._data = -1

    def _locked(self, path: Path) -> int:
        """Opens and locks the file of this name, and returns the descriptor. Tries again if another process has removed
        the file in between. Raises UsageError if another process has the lock."""
        while True:
            if not os.path.lexists(path):
                self._made.add(path)
            descriptor = open_to_write(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._refuse_shared(descriptor, path)
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

    def _refuse_shared(self, descriptor: int, path: Path) -> None:
        """Raises UsageError if the file has a second name (hard link), as writing to it would change another file. Only
        the result itself may be that name."""
        status = os.fstat(descriptor)
        is_result = os.path.lexists(self.path) and os.path.samestat(status, self.path.lstat())
        if status.st_nlink > (2 if is_result else 1):
            raise UsageError(f"{path}: is a hard link, so it is another file, too: move it away")

    def _go_on(self, settings: Settings) -> None:
        """Reads the journal, and continues the work that it describes or begins new work. Raises UsageError for files
        that belong to other work."""
        with open(self._lines, "rb", closefd=False) as file:
            lines = iter(lambda: file.readline(journal.LONGEST_LINE), b"")
            first = next(lines, b"")
            begun_with = journal.read_header(first)
            whole = None if begun_with is None else self._replay(len(first), lines)
        empty = os.fstat(self._data).st_size == 0
        if whole is not None and whole.done and begun_with == settings and os.path.lexists(self.path):
            self.done = True
            self.state = dict(whole.state or self.state)
        elif begun_with is None and not (empty and journal.may_be_torn_header(first)):
            raise UsageError(f"{self.part}: {self.journal.name} is not its journal; move both away")
        elif begun_with is None or whole is None or whole.done or empty:
            self._begin(settings)
        else:
            self._refuse_others(begun_with, settings)
            self.end, self._line_end = whole.end, whole.journal_end
            self.state = dict(whole.state or self.state)
            self._cut()

    def _replay(self, begin: int, lines: Iterator[bytes]) -> journal.Committed:
        try:
            return journal.replay(begin, lines, self._read)
        except journal.DamagedError as error:
            reason = f"is not what {self.journal.name} says was written; remove it to begin anew"
            raise DataError(self.part, reason, error.offset) from None

    def _refuse_others(self, begun_with: Settings, settings: Settings) -> None:
        if differences := ", ".join(_differences(begun_with, settings)):
            advice = "give those, or remove it to begin anew"
            raise UsageError(f"{self.part}: was begun with other settings: {differences}; {advice}")

    def _read(self, offset: int, count: int) -> bytes:
        return os.pread(self._data, count, offset)

    def _begin(self, settings: Settings) -> None:
        """Empties both files and writes the journal's header to the disk."""
        header = journal.header_line(settings)
        os.ftruncate(self._data, 0)
        os.ftruncate(self._lines, 0)
        write_at(self._lines, header, 0, self.journal)
        self._line_end = len(header)
        self._kept = False
        os.fsync(self._lines)
        sync_folder(self.part.parent)

    def _cut(self) -> None:
        """Cuts both files after the last commit."""
        os.ftruncate(self._data, self.end)
        os.ftruncate(self._lines, self._line_end)


def _differences(old: Settings, new: Settings) -> Iterator[str]:
    """Yields the settings that differ, as text with the old and the new value."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield f"{key} {_shown(old.get(key))} (now {_shown(new.get(key))})"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
