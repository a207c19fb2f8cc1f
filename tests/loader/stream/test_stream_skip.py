"""data.on_bad_data: a damaged chunk ends the stream or is left out, and the stream stays a function (I1, I8)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from loader.chess.filters import FilterConfig
from loader.chess.settings import ChessConfig
from loader.errors import DataError
from loader.stream.data import open_stream
from loader.stream.interface import Cursor, Filled
from loader.stream.skipped_data import SkippedData
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import run
from tests.loader.stream.test_stream_faults import damaged, readable
from tests.support.binpack_file import BinpackFile
from tests.support.damage import DAMAGES, Damage

SKIP = data_config(
    batch_size=50, window_chunks=4, on_bad_data="skip", chess={"filters": FilterConfig(skip_no_score=False)}
)
BAD_CHUNKS = (3, 6)  # of the first file, so that two windows in file order have one
SETTINGS = {
    "shuffled": SKIP,
    "in file order": SKIP.model_copy(update={"shuffle": False}),
    "dropping tails": SKIP.model_copy(update={"tail": "drop", "window_chunks": 1}),
    "filtered": SKIP.model_copy(update={"chess": ChessConfig(filters=FilterConfig(random_skip=0.5, piece_count=True))}),
}


@pytest.fixture
def bad_files(game_files: list[Path], tmp_path: Path) -> list[Path]:
    """Damage in two chunks of the first file, and in a header of the second, behind its fifth chunk."""
    first, second = tmp_path / "first.binpack", tmp_path / "second.binpack"
    damaged(game_files[0], first, BAD_CHUNKS[0], header=False)
    damaged(first, first, BAD_CHUNKS[1], header=False)
    damaged(game_files[1], second, 5, header=True)
    return [first, second, game_files[2]]


def without_damage(files: Sequence[Path], folder: Path) -> list[Path]:
    """The same files with an empty chunk instead of each damaged one, and of all that is lost behind a header."""
    repaired = []
    for path in files:
        file, data, kept = BinpackFile(path), path.read_bytes(), b""
        for chunk in range(file.num_chunks):
            offset, size = file.chunk(chunk)
            good = file.count(chunk)[2] is None
            kept += data[offset : offset + 8 + size] if good else b"BINP" + bytes(4)
        kept += b"BINP" + bytes(4) if file.header_damage is not None else b""
        repaired.append(folder / f"repaired-{path.name}")
        repaired[-1].write_bytes(kept)
    return repaired


def places(skipped: Sequence[SkippedData]) -> list[tuple[str, int | None]]:
    return [(error.file, error.offset) for error in skipped]


def bad_places(files: Sequence[Path]) -> list[tuple[str, int | None]]:
    """In file order."""
    first, second = BinpackFile(files[0]), BinpackFile(files[1])
    assert second.header_damage is not None
    stems = [(str(files[0]), first.chunk(chunk)[0] + 8) for chunk in BAD_CHUNKS]
    return [*stems, (str(files[1]), second.header_damage.offset)]


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_is_left_is_the_same_stream_for_any_threads_and_from_any_cursor(
    settings: str, bad_files: list[Path], tmp_path: Path
) -> None:
    config, count = SETTINGS[settings], 90
    with closing(open_stream(config, without_damage(bad_files, tmp_path), seed=3)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        expected: list[tuple[Filled, str]] = list(run(stream, slots, count))
        assert not stream.skipped()
    assert expected[-1][0].next_cursor.epoch >= 1
    for threads in (1, 2, 5):
        with closing(open_stream(config.model_copy(update={"threads": threads}), bad_files, seed=3)) as stream:
            stream.attach(slots)
            for (filled, hashed), (wanted, wanted_hash) in zip(run(stream, slots, count), expected, strict=True):
                assert (filled.cursor, filled.next_cursor) == (wanted.cursor, wanted.next_cursor)
                assert hashed == wanted_hash
            assert sorted(places(stream.skipped()), key=str) == sorted(bad_places(bad_files), key=str)
            pick = random.Random(threads)
            for start in [pick.randrange(count) for _ in range(8)]:
                stream.seek(expected[start][0].cursor)
                for (filled, hashed), (wanted, wanted_hash) in zip(
                    run(stream, slots, min(4, count - start)), expected[start:], strict=False
                ):
                    assert (filled.cursor, hashed) == (wanted.cursor, wanted_hash)
            assert not stream.skipped()  # each was told once


def test_damage_is_told_in_stream_order_before_the_first_batch_behind_it(bad_files: list[Path]) -> None:
    expected = bad_places(bad_files)
    with closing(open_stream(SETTINGS["in file order"], bad_files, seed=1)) as stream:
        slots = allocate_slots(stream.schema, 1)
        stream.attach(slots)
        told: list[SkippedData] = []
        for batch in read_batches(stream, 40, slots):
            told += stream.skipped()
            entries = (batch.number + 1) * 50
            behind = (entries > 3 * 128, entries > 5 * 128, entries > 15 * 128)  # of each damaged place
            assert len(told) >= sum(behind)
    assert places(told) == expected
    assert "king" in told[0].reason
    assert "expected a chunk, which begins with b'BINP'" in told[2].reason


def test_stop_is_the_default_and_names_the_first_damage(bad_files: list[Path]) -> None:
    config = SKIP.model_copy(update={"on_bad_data": data_config().on_bad_data, "shuffle": False})
    with closing(open_stream(config, bad_files, seed=1)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        assert len(list(read_batches(stream, 3 * 128 // 50, slots))) == 7
        stream.give(0)
        assert readable(stream)
        with pytest.raises(DataError) as caught:
            stream.take()
        assert [(caught.value.file, caught.value.offset)] == bad_places(bad_files)[:1]
        assert not stream.skipped()


@pytest.mark.parametrize("shuffle", [True, False])
def test_with_every_chunk_damaged_the_stream_ends_and_does_not_hang(
    shuffle: bool, game_files: list[Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.binpack"
    bad.write_bytes(game_files[2].read_bytes())
    for chunk in range(4):
        damaged(bad, bad, chunk, header=False)
    config = SKIP.model_copy(update={"shuffle": shuffle, "window_chunks": 1})
    with closing(open_stream(config, [bad], seed=1)) as stream:
        stream.attach(allocate_slots(stream.schema, 1))
        for cursor in (Cursor(), Cursor(window=2)):
            stream.seek(cursor)
            stream.give(0)
            assert readable(stream)
            with pytest.raises(DataError, match=f"^{bad}: a whole epoch has no entry.*; 4 of 4 chunks are damaged"):
                stream.take()
        assert len(stream.skipped()) == 4


def test_a_file_without_a_good_header_is_left_out_unless_it_is_the_only_one(
    game_files: list[Path], tmp_path: Path
) -> None:
    junk = tmp_path / "junk.binpack"
    junk.write_bytes(b"no binpack")
    with pytest.raises(DataError, match="offset 0: expected a chunk, which begins with b'BINP'"):
        open_stream(SKIP, [junk], seed=1)
    with pytest.raises(DataError, match="offset 0: expected a chunk, which begins with b'BINP'"):
        open_stream(SKIP.model_copy(update={"on_bad_data": "stop"}), [junk, game_files[0]], seed=1)
    with closing(open_stream(SKIP, [junk, game_files[0]], seed=1)) as stream:
        list(read_batches(stream, 1536 // 50))
        assert places(stream.skipped()) == [(str(junk), 0)]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_skip_loses_of_a_damaged_file_the_chunks_that_hold_the_damage(damage: Damage, tmp_path: Path) -> None:
    """Entries of an epoch are those of its good chunks, damage is named where stop names it."""
    path = tmp_path / "damaged.binpack"
    path.write_bytes(damage.content)
    file = BinpackFile(path)
    counts = [file.count(chunk) for chunk in range(file.num_chunks)]
    good = sum(entries for entries, _, damage in counts if damage is None)
    offsets = [damage.offset for _, _, damage in counts if damage is not None]
    offsets += [file.header_damage.offset] if file.header_damage is not None else []
    assert sum(entries for entries, _, _ in counts) >= damage.entries
    if file.num_chunks == 0:
        return
    config = SKIP.model_copy(update={"shuffle": False, "tail": "drop", "batch_size": 1})
    with closing(open_stream(config, [path], seed=1)) as stream:
        slots = allocate_slots(stream.schema, 4)
        stream.attach(slots)
        if good == 0:
            assert readable(stream)
            with pytest.raises(DataError, match="chunks are damaged"):
                stream.take()
        else:
            *_, (last, _) = run(stream, slots, good)
            assert last.next_cursor.epoch == 1 or offsets
            stream.seek(last.next_cursor)
            (following,) = read_batches(stream, 1, slots)
            assert following.number == good
        assert [error.offset for error in stream.skipped()] == offsets
