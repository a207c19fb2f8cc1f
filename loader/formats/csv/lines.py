"""A text file in blocks of whole lines, each of which is read alone."""

from __future__ import annotations

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.files.part import read_part

BLOCK = 1 << 20  # bytes: block i has the lines that begin in [i * BLOCK, (i + 1) * BLOCK)
LONGEST_LINE = 1 << 24
_MARK = b"\xef\xbb\xbf"  # of UTF-8, at a file's beginning
_PACKED = {b"\x1f\x8b": "gzip -dk", b"\x28\xb5\x2f\xfd": "zstd -d"}


class Lines:
    """Of one file. Raises DataError for one that is compressed."""

    def __init__(self, file: DataFile, *, may_grow: bool) -> None:
        self.file = file
        self._may_grow = may_grow
        self.num_blocks = -(-file.size // BLOCK)
        head = self._bytes(0, min(4, file.size))
        for magic, program in _PACKED.items():
            if head.startswith(magic):
                raise DataError(file.path, f"is compressed, and columns are read as plain text: {program} {file.path}")

    def first(self) -> bytes:
        """The first line, without its end."""
        return self.block(0).split(b"\n", 1)[0].removesuffix(b"\r")

    def block(self, number: int) -> bytes:
        """Whole lines, the last perhaps without an end; none if a longer line goes through the whole block."""
        begin, end = number * BLOCK, min((number + 1) * BLOCK, self.file.size)
        before = min(begin, 1)
        data = self._bytes(begin - before, end)
        if before:
            border = data.find(b"\n")
            if border in (-1, len(data) - 1):
                return b""
            data = data[border + 1 :]
        while end < self.file.size and not data.endswith(b"\n"):
            more = self._bytes(end, min(end + BLOCK, self.file.size))
            line_end = more.find(b"\n") + 1
            data += more[:line_end] if line_end else more
            end += line_end or len(more)
            if len(data) > LONGEST_LINE + BLOCK:
                raise DataError(self.file.path, f"a line is longer than {LONGEST_LINE} bytes", number * BLOCK)
        return data if before else data.removeprefix(_MARK)

    def lines_before(self, number: int) -> int:
        """How many lines begin before block `number`: reads the file up to there."""
        count = 0
        for block in range(number):
            data = self.block(block)
            count += data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
        return count

    def _bytes(self, begin: int, end: int) -> bytes:
        """Raises DataChangedError, OSError."""
        return read_part(self.file, begin, end, may_grow=self._may_grow)


def whole_size(file: DataFile) -> int:
    """Of the file up to its last line end."""
    lines = Lines(file, may_grow=True)
    for number in reversed(range(lines.num_blocks)):
        data = lines.block(number)
        if data.endswith(b"\n"):
            return file.size
        if (border := data.rfind(b"\n")) >= 0:
            return file.size - (len(data) - border - 1)
        if data:  # one line that has no end: what is before the block is whole
            return file.size - len(data)
    return 0
