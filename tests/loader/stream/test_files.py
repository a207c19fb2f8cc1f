"""Files that are written to, cut, replaced, or many: what a stream says, and what it never does."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from loader import _native
from loader.chess.positions.file import fault_of_walk, raise_fault
from loader.errors import DataChangedError, DataError
from loader.files.identity import DataFile, check_unchanged, identify
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.native_stream import NativeStream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.support.binpack_file import BinpackFile
from tests.support.data.binpack_data import chunks, make_files, other_chunk
from tests.support.looked_into import verify

CONFIG = data_config(batch_size=32, window_chunks=1, threads=1)
GROWING = CONFIG.model_copy(update={"growing": "ignore_new"})


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return make_files(tmp_path)


def opened(config: DataConfig, files: tuple[DataFile, ...], words: np.ndarray | None = None) -> NativeStream:
    stream = open_stream(config, files, seed=1)
    assert isinstance(stream, NativeStream)
    if words is not None:
        stream.compare_with(words)
    return stream


def epoch(config: DataConfig, files: tuple[DataFile, ...], words: np.ndarray | None = None) -> list[str]:
    """Digests of about an epoch's batches."""
    with closing(opened(config, files, words)) as stream:
        return [digest(batch) for batch in read_batches(stream, 100)]


def append(file: Path) -> None:
    with file.open("ab") as out:
        out.write(chunks(1)[0])


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 10)


def replace(file: Path) -> None:
    beside = file.with_suffix(".new")
    beside.write_bytes(file.read_bytes())
    beside.replace(file)


def overwrite(file: Path, number: int = 0) -> None:
    """A chunk by another good one of the same length."""
    whole = BinpackFile(file)
    offset, size = whole.chunk(number)
    data = file.read_bytes()
    with file.open("r+b") as out:
        out.seek(offset)
        out.write(other_chunk(data[offset : offset + 8 + size]))


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "has grown": (append, r"has grown: \d+ bytes now, \d+ at the start"),
    "has been cut": (cut, r"has been cut: \d+ bytes now, \d+ at the start"),
    "is another file": (replace, r"has been replaced by another file"),
    "was written to": (overwrite, r"has been written to at 20.* UTC, last before the start at 20.* UTC"),
    "was touched": (Path.touch, r"has been written to"),
    "is gone": (Path.unlink, r"No such file"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_changes_is_named_with_what_changed(
    change: Callable[[Path], None], words: str, files: list[Path]
) -> None:
    known = identify(files)
    check_unchanged(known, may_grow=False)
    change(files[1])
    with pytest.raises(DataChangedError, match=f"b.binpack: .*{words}"):
        check_unchanged(known, may_grow=False)
    with pytest.raises(DataChangedError, match=f"b.binpack: .*{words}"):
        open_stream(CONFIG, known, seed=1)


@pytest.mark.parametrize("on_bad_data", ["stop", "skip"])
@pytest.mark.parametrize("change", [change for change, _ in CHANGES.values()], ids=CHANGES.keys())
def test_nothing_of_a_file_that_has_changed_gets_into_a_batch(
    change: Callable[[Path], None], on_bad_data: str, files: list[Path]
) -> None:
    """Nor is it called damaged and left out: the stream would depend on the moment (I1)."""
    config = CONFIG.model_copy(update={"on_bad_data": on_bad_data})
    known = identify(files)
    expected = epoch(config, known)
    read: list[str] = []

    def read_on(stream: NativeStream) -> None:
        for number, batch in enumerate(read_batches(stream, 100)):
            if number == 5:
                change(files[0])
                change(files[1])
            read.append(digest(batch))

    with closing(opened(config, known)) as stream, pytest.raises(DataChangedError, match=r"[ab]\.binpack"):
        read_on(stream)
    assert 5 <= len(read) < 100
    assert read == expected[: len(read)]


def test_a_file_may_grow_and_is_read_up_to_its_size_at_the_start(files: list[Path]) -> None:
    known = identify(files)
    expected = epoch(GROWING, known)
    append(files[0])
    assert epoch(GROWING, known) == expected
    check_unchanged(known, may_grow=True)


@pytest.mark.parametrize("look", ["at the name", "while reading"])
def test_a_growing_files_time_may_be_newer_than_its_size(look: str, files: list[Path]) -> None:
    """A write at the end changes the time first, and the size when bytes are there."""
    known = identify(files)
    files[0].touch()
    writer = threading.Timer(0.1, append, [files[0]])
    writer.start()
    if look == "at the name":
        check_unchanged(known, may_grow=True)
    else:
        _native.open_entries(_native.binpack(), files[0], known[0].identity, may_grow=True)
    writer.join()


@pytest.mark.parametrize("year", [1800, 1970, 2200, 2400])
def test_any_time_that_a_file_system_keeps_is_a_files_time(year: int, files: list[Path]) -> None:
    """1970 is what archives and images have that are built reproducibly."""
    seconds = (year - 1970) * 31_556_952
    os.utime(files[0], ns=(0, seconds * 10**9))
    known = identify(files)
    assert known[0].modified is not None
    assert epoch(CONFIG, known)
    check_unchanged(known, may_grow=False)
    os.utime(files[0], ns=(0, seconds * 10**9 + 10))
    if files[0].stat().st_mtime_ns != known[0].modified:
        with pytest.raises(DataChangedError, match="has been written to"):
            check_unchanged(known, may_grow=False)


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "has grown"])
def test_a_file_that_may_grow_may_not_change_otherwise(name: str, files: list[Path]) -> None:
    known = identify(files)
    CHANGES[name][0](files[0])
    with pytest.raises(DataChangedError):
        check_unchanged(known, may_grow=True)


@pytest.mark.parametrize("rest", [2, 7, 50], ids=["in the magic", "in the header", "in the payload"])
def test_a_chunk_that_is_half_written_at_the_start_is_not_counted_in(rest: int, files: list[Path]) -> None:
    expected = epoch(GROWING, identify(files))
    whole = files[1].stat().st_size
    with files[1].open("ab") as out:
        out.write(chunks(1)[0][:rest])
    known = Data(GROWING, identify(files)).trim_files().files
    assert [file.size for file in known] == [files[0].stat().st_size, whole]
    assert epoch(GROWING, known) == expected
    with files[1].open("ab") as out:
        out.write(chunks(1)[0][rest:])
    assert epoch(GROWING, known) == expected
    assert Data(CONFIG, identify(files)).trim_files().files == identify(files)


def test_damage_at_the_end_of_a_growing_file_is_still_damage(files: list[Path]) -> None:
    with files[1].open("ab") as out:
        out.write(b"junk of a length that is no header")
    known = Data(GROWING, identify(files)).trim_files().files
    with pytest.raises(DataError, match="expected a chunk, which begins with b'BINP'") as raised:
        epoch(GROWING, known)
    assert not isinstance(raised.value, DataChangedError)


def test_a_chunk_with_other_bytes_than_before_ends_the_stream(files: list[Path]) -> None:
    """Wherever its file lies now: the table may come from a checkpoint."""
    words = np.zeros(10, np.uint64)
    expected = epoch(CONFIG, identify(files), words)
    assert (words >> np.uint64(32) == 1).all()
    table = words.copy()
    assert epoch(CONFIG, identify(files), words) == expected
    assert (words == table).all()
    overwrite(files[1], 3)
    offset, _ = BinpackFile(files[1]).chunk(3)
    with pytest.raises(DataChangedError, match=f"b.binpack: offset {offset}: this chunk has other bytes"):
        epoch(CONFIG, identify(files), words)
    assert (words == table).all()


def test_a_table_of_another_number_of_chunks_is_refused(files: list[Path]) -> None:
    with pytest.raises(ValueError, match="9 words for 10 chunks"):
        opened(CONFIG, identify(files), np.zeros(9, np.uint64))


def test_a_file_that_is_cut_while_it_is_verified_is_an_answer(files: list[Path]) -> None:
    """And not SIGBUS."""
    file = _native.open_entries(_native.binpack(), files[0])
    os.truncate(files[0], 100)
    with pytest.raises(DataError, match="has been cut: 100 bytes now"):
        raise_fault(fault_of_walk(_native.ChunkWalk(file, 0)))
    assert not verify(files[0]).ok


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_descriptors_and_mappings_are_read(tmp_path: Path) -> None:
    """The kernel allows 65,530 mappings, and here as many descriptors as a process has anyway and a few."""
    count = 66_000
    first = tmp_path / "first.binpack"
    first.write_bytes(chunks(1, entries_each=3)[0])
    paths = []
    for number in range(count):
        if number % 60_000 == 0:  # ext4 allows 65,000 names of a file
            base = tmp_path / f"base{number}"
            base.write_bytes(first.read_bytes())
        paths.append(tmp_path / f"{number}.binpack")
        paths[-1].hardlink_to(base)
    with few_descriptors(len(list(Path("/proc/self/fd").iterdir())) + 20):
        known = identify(paths)
        config = CONFIG.model_copy(update={"batch_size": 1000, "window_chunks": 2000})
        with closing(opened(config, known, np.zeros(count, np.uint64))) as stream:
            slots = allocate_slots(stream.schema, 2)
            stream.attach(slots)
            assert sum(1 for _ in read_batches(stream, 20, slots)) == 20
