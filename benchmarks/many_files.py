"""Opening of binpack files as large as Stockfish's: 40 of 20 GB, sparse, all chunks without entries.

The files are names of one sparse file with a header for each MiB, 75 MB on disk. What is measured is what a run and
its check do before the first chunk is read: find all chunks, and open the stream. The first figure is with the file's
pages out of the system's memory, as on a first day; each later one with them in it.
"""

from __future__ import annotations

import argparse
import os
import struct
import tempfile
import time
from pathlib import Path

from loader.stream.data import open_stream
from loader.stream.sources import data_config

CHUNK = 1 << 20  # bytes of a payload
CHUNKS = 19_000  # of a file


def make_files(folder: Path, count: int, chunks: int = CHUNKS) -> list[Path]:
    """Writes one sparse file, and gives it so many names."""
    first = folder / "0.binpack"
    with first.open("wb") as file:
        for chunk in range(chunks):
            file.seek(chunk * (CHUNK + 8))
            file.write(b"BINP" + struct.pack("<I", CHUNK))
        file.truncate(chunks * (CHUNK + 8))
    others = [folder / f"{number}.binpack" for number in range(1, count)]
    for other in others:
        os.link(first, other)
    return [first, *others]


def drop_pages(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    config = data_config(batch_size=100, chess={"features": "chess768"})
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder), args.files)
        open_stream(config, files[:1], 1).close()  # type: ignore[attr-defined]
        drop_pages(files[0])
        for _ in range(args.runs):
            before, begin = resident(), time.perf_counter()
            stream = open_stream(config, files, 1)
            seconds, more = time.perf_counter() - begin, resident() - before
            print(f"{stream.num_chunks:,} chunks: {seconds:.2f} s, {more / 1e6:.0f} MB")  # type: ignore[attr-defined]
            stream.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
