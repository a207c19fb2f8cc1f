"""What the stream does with damage, misuse and an early end: one clear answer, never a hang (I8)."""

from __future__ import annotations

import gc
import select
from contextlib import closing
from pathlib import Path

import pytest

from loader.chess.filters import FilterConfig
from loader.chess.settings import ChessConfig
from loader.errors import DataError
from loader.stream.data import open_stream
from loader.stream.interface import Cursor, Stream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.support.binpack_file import BinpackFile

CONFIG = data_config(batch_size=50, window_chunks=4, chess={"filters": FilterConfig(skip_no_score=False)})
CHUNK = 128  # entries of a chunk of game_files


def readable(stream: Stream, timeout_ms: int = 60_000) -> bool:
    ready = select.poll()
    ready.register(stream.fileno(), select.POLLIN)
    return bool(ready.poll(timeout_ms))


def damaged(source: Path, target: Path, chunk: int, header: bool) -> int:
    """Copies a file with one chunk spoilt; gives back the offset that must be named."""
    offset, _ = BinpackFile(source).chunk(chunk)
    data = bytearray(source.read_bytes())
    if header:
        data[offset] ^= 1
    else:
        data[offset + 8 : offset + 16] = bytes(8)  # the first stem has no pieces
        offset += 8
    target.write_bytes(data)
    return offset


@pytest.mark.parametrize("header", [False, True], ids=["chunk", "header"])
@pytest.mark.parametrize("threads", [1, 3])
def test_damage_ends_the_stream_after_every_batch_before_it(
    header: bool, threads: int, game_files: list[Path], tmp_path: Path
) -> None:
    config = CONFIG.model_copy(update={"threads": threads, "shuffle": False})
    bad = tmp_path / "bad.binpack"
    offset = damaged(game_files[0], bad, chunk=6, header=header)
    good = 6 * CHUNK // config.batch_size
    expected = [digest(batch) for batch in read_batches(open_stream(config, game_files, seed=1), good)]
    with closing(open_stream(config, [bad, game_files[1]], seed=1)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        for _ in range(2):
            assert [digest(batch) for batch in read_batches(stream, good, slots)] == expected
            for _ in range(2):  # it stays so
                assert readable(stream)
                with pytest.raises(DataError, match=f"^{bad}: offset {offset}: ") as caught:
                    stream.take()
                assert (caught.value.file, caught.value.offset) == (str(bad), offset)
            stream.seek(Cursor())


def test_a_shuffled_window_with_damage_gives_nothing(game_files: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.binpack"
    offset = damaged(game_files[0], bad, chunk=2, header=False)
    with closing(open_stream(CONFIG.model_copy(update={"window_chunks": 100}), [bad], seed=1)) as stream:
        stream.attach(allocate_slots(stream.schema, 1))
        stream.give(0)
        assert readable(stream)
        with pytest.raises(DataError, match=f"offset {offset}: .*king"):
            stream.take()


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "no file has an entry"), (b"PNG\r\n\x1a\nxxxx", "offset 0: expected a chunk")]
)
def test_a_file_without_one_good_chunk_is_refused_at_once(content: bytes, reason: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.binpack"
    bad.write_bytes(content)
    with pytest.raises(DataError, match=f"^{bad}: .*{reason}"):
        open_stream(CONFIG, [bad], seed=1)
    with pytest.raises(DataError, match="is a folder"):
        open_stream(CONFIG, [tmp_path], seed=1)


def test_filters_that_keep_nothing_are_an_error_and_not_a_hang(game_files: list[Path]) -> None:
    config = CONFIG.model_copy(update={"chess": ChessConfig(filters=FilterConfig(skip_ply_up_to=20000))})
    with closing(open_stream(config, game_files, seed=1)) as stream:
        stream.attach(allocate_slots(stream.schema, 1))
        assert readable(stream)
        with pytest.raises(DataError, match=r"games0.binpack and 2 more: a whole epoch has no entry"):
            stream.take()


def test_dropping_tails_of_epochs_smaller_than_a_batch_is_an_error(game_files: list[Path]) -> None:
    config = CONFIG.model_copy(update={"batch_size": 4000, "tail": "drop"})
    with closing(open_stream(config, game_files, seed=1)) as stream:
        stream.attach(allocate_slots(stream.schema, 1))
        assert readable(stream)
        with pytest.raises(DataError, match=r"3072 entries .* less than a batch of 4000"):
            stream.take()


def test_a_cursor_that_points_nowhere_is_refused(game_files: list[Path]) -> None:
    with closing(open_stream(CONFIG, game_files, seed=1)) as stream:
        with pytest.raises(ValueError, match="no slots yet"):
            stream.seek(Cursor())
        slots = allocate_slots(stream.schema, 1)
        stream.attach(slots)
        with pytest.raises(ValueError, match="cursor: window 6 is not one of the 6 windows"):
            stream.seek(Cursor(window=6))
        with pytest.raises(ValueError, match="is no cursor"):
            stream.seek(Cursor(entry=-1))
        stream.seek(Cursor(batch=10, window=2, entry=513))
        assert readable(stream)
        with pytest.raises(ValueError, match="cursor: window 2 of epoch 0 has only 512 entries"):
            stream.take()
        stream.seek(Cursor(batch=10, epoch=7, window=2, entry=512))
        (batch,) = read_batches(stream, 1, slots)
        assert batch.number == 10


def test_slots_are_checked(game_files: list[Path]) -> None:
    with closing(open_stream(CONFIG, game_files, seed=1)) as stream:
        slots = allocate_slots(stream.schema, 2)
        with pytest.raises(ValueError, match="a slot must have"):
            stream.attach([slots[0][:-1]])
        stream.attach(slots)
        with pytest.raises(ValueError, match="attached once"):
            stream.attach(slots)
        with pytest.raises(ValueError, match="slot 2 is not attached"):
            stream.give(2)
        stream.give(1)
        with pytest.raises(ValueError, match=r"slot 1 is the stream's already \(I4\)"):
            stream.give(1)


def test_the_descriptor_is_readable_only_while_something_waits(game_files: list[Path]) -> None:
    with closing(open_stream(CONFIG, game_files, seed=1)) as stream:
        stream.attach(allocate_slots(stream.schema, 2))
        assert not readable(stream, 0)
        stream.give(0)
        stream.give(1)
        assert readable(stream)
        taken: list[int] = []
        while len(taken) < 2:
            assert readable(stream)
            if (filled := stream.take()) is not None:
                taken.append(filled.slot)
        assert taken == [0, 1]
        assert not readable(stream, 0)
        assert stream.take() is None


def count_in(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def test_closing_under_load_leaves_no_thread_and_no_descriptor(game_files: list[Path]) -> None:
    gc.collect()  # streams of failed `take`s, which their tracebacks hold
    threads = count_in("/proc/self/task")
    files = count_in("/proc/self/fd")
    for taken in range(6):
        stream = open_stream(CONFIG.model_copy(update={"threads": 5}), game_files, seed=1)
        slots = allocate_slots(stream.schema, 4)
        stream.attach(slots)
        for slot in range(4):
            stream.give(slot)
        for _ in range(taken):
            if readable(stream) and (filled := stream.take()) is not None:
                stream.give(filled.slot)
        if taken % 2:
            stream.seek(Cursor(batch=3, window=1))
            stream.give(0)
        stream.close()
        stream.close()
        assert count_in("/proc/self/task") == threads
        before = [bytes(slot) for slot in slots]
        del stream
        assert [bytes(slot) for slot in slots] == before
    assert count_in("/proc/self/fd") == files
