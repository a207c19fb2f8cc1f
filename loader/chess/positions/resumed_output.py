"""A file that a tool writes piece by piece, and goes on with where an earlier process died.

FILE.part holds the file's own bytes, FILE.part.journal how many of them are whole and where in the input they end. A
compressed file is one of several frames (members of gzip), which end where pieces do, whoever wrote them: where a piece
ends depends on the blocks alone that the tool writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loader.chess.positions.format import Target
from loader.chess.positions.input import SourceFile
from loader.chess.positions.output import Framer, check_free, packer_of
from loader.chess.positions.pgn_comments import NO_SETTINGS
from loader.chess.positions.units import UnitBlock
from loader.errors import DataError, InterruptedBySignalError
from loader.files.delivery import deliver_part, is_part_delivered
from loader.files.fingerprint import fingerprint
from loader.files.journal import Settings
from loader.files.work_file import WorkFile, is_begun

PIECE = 8 << 20  # bytes, before they are compressed
BLOCKS = 1024  # that a piece has at most: a filter that lets little through has work to keep, too
Place = tuple[Any, ...]  # where in the input a tool goes on; as JSON can hold it

# Keys of the work's state.
_PLACE = "place"
_SKIPPED = "skipped"  # units behind it that are in the file
_UNITS = "units"  # of the file
_ENTRIES = "entries"
_LEFT_OUT = "left out"  # of each source, by chunk


class ResumedOutput:
    """A context manager; the file has its name after `publish`. Left without, the work is kept, unless it ends in an
    error about the data, which would come again.

    `settings`: what the bytes depend on. `start`: where in the input it begins. `needed`: says how many bytes the disk
    must have, and is asked for work that begins. `sources`: what was left out of them is kept with the work, too.
    `place`: of the block that is written next. `done`: an earlier process has given the file its name.
    Raises UsageError if something has the name, or the work is another command's; OSError if the disk has too little
    space.
    """

    def __init__(
        self,
        path: Path,
        target: Target,
        settings: Settings,
        start: Place,
        needed: Callable[[], int],
        sources: Sequence[SourceFile] = (),
    ) -> None:
        if not is_begun(path):
            check_free(path, needed())
        self._target = target
        self._framer = Framer(target.format)
        self._held: list[bytes] = []
        self._held_bytes = self._blocks = 0
        begin = {_PLACE: start, _SKIPPED: 0, _UNITS: 0, _ENTRIES: 0, _LEFT_OUT: [{} for _ in sources]}
        self._work = WorkFile(path, settings, begin)
        state = self._work.state
        self._sources = sources
        for source, left_out in zip(sources, state.get(_LEFT_OUT, ()), strict=False):
            source.left_out.add_json(left_out)
        self.place: Place = tuple(state[_PLACE])
        self.units, self.entries = int(state[_UNITS]), int(state[_ENTRIES])  # written, by `write`
        self._skipped = int(state[_SKIPPED])
        self._state = dict(state)  # behind what is held

    def __enter__(self) -> Self:
        try:
            self.done = is_part_delivered(self._work)
            if not self.done:
                check_free(self._work.path, 0)
        except BaseException:
            self._work.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _keep(self._work, error)
        finally:
            self._work.close()

    def write(self, block: UnitBlock, behind: Place) -> None:
        """The units that are at `place`, all of them, whoever wrote some; `behind`: where the next ones are."""
        skipped, self._skipped = self._skipped, 0
        block = block.part(skipped, len(block))
        for data, units in self._framer.add(block):
            place = {_PLACE: behind, _SKIPPED: 0}
            if units < len(block):
                place = {_PLACE: self.place, _SKIPPED: skipped + units}
            entries = int(block.entries[:units].sum())
            self._hold(data, {**place, _UNITS: self.units + units, _ENTRIES: self.entries + entries})
        self.units += len(block)
        self.entries += int(block.entries.sum())
        self._count_block(behind)

    def write_bytes(self, data: bytes, behind: Place) -> None:
        """Writes bytes that are those of a file already."""
        self._hold(data, {**self._state, _PLACE: behind})
        self._count_block(behind)

    def finish(self) -> None:
        """All that was written is kept, the end of the file too."""
        if not self.done:
            self._close_piece()

    def publish(self) -> None:
        """Gives the file its name. Raises UsageError if something has it meanwhile."""
        publish(self)

    def give_name(self) -> None:
        """Keeps the work. The first of two steps of `publish`, behind `finish`."""
        if not self.done:
            deliver_part(self._work)

    def remove_work(self) -> None:
        """The second one."""
        self._work.remove()

    def _count_block(self, behind: Place) -> None:
        self.place = behind
        self._blocks += 1
        if self._blocks >= BLOCKS:
            self._close_piece()

    def _hold(self, data: bytes, state: dict[str, Any]) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        self._state = state
        if self._held_bytes >= PIECE:
            self._commit()

    def _close_piece(self) -> None:
        state = {_PLACE: self.place, _SKIPPED: self._skipped, _UNITS: self.units, _ENTRIES: self.entries}
        data = self._framer.close()
        self._held.append(data)
        self._held_bytes += len(data)
        self._state = state
        self._commit()

    def _commit(self) -> None:
        parts, size = self._held, self._held_bytes
        self._held, self._held_bytes, self._blocks = [], 0, 0
        if self._target.packing and (size or not self._work.end):  # an empty piece is no frame more
            packer = packer_of(self._target.packing)
            packed = [packer.pack(part, last=False) for part in _emptied(parts)]
            parts = [*packed, packer.pack(b"", last=True)]
            size = sum(map(len, parts))
        left_out = [source.left_out.to_json() for source in self._sources]
        self._work.commit_parts(size, parts, {**self._work.state, **self._state, _LEFT_OUT: left_out})


def publish(*outputs: ResumedOutput) -> None:
    """Gives files that belong together their names, and removes their work then, the last one's last: if that is gone,
    all is done."""
    for out in outputs:
        out.finish()
    for out in outputs:
        out.give_name()
    for out in outputs:
        out.remove_work()


@contextmanager
def kept_work(work: WorkFile) -> Iterator[None]:
    """Ends work in an error about the data, which would come again; adds to others how much there is to go on with."""
    try:
        yield
    except BaseException as error:
        _keep(work, error)
        raise


def _keep(work: WorkFile, error: BaseException | None) -> None:
    if isinstance(error, DataError):
        work.remove()
    elif isinstance(error, InterruptedBySignalError | OSError) and work.end:
        error.add_note(f"{work.end:,} bytes of it are in {work.part}; the same command goes on")


def _emptied(parts: list[bytes]) -> Iterator[bytes]:
    """In their order; none is held longer than its turn."""
    parts.reverse()
    while parts:
        yield parts.pop()


def work_settings(command: str, sources: Sequence[SourceFile], target: Target) -> Settings:
    comments = next((source.format.comments for source in sources if source.format.comments is not None), NO_SETTINGS)
    return {
        "command": command,
        "files": fingerprint([source.known for source in sources if source.known is not None]),
        "format": f"{target.format.name} {target.packing or ''}".strip(),
        "piece": PIECE,
        "--on-bad-data": sources[0].rule.on_bad_data,
        **{f"--pgn-{name}": value for name, value in asdict(comments).items() if value is not None},
    }
