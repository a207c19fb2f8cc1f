"""The stream of a chess file: a function of files, settings, seed and batch number (I1)."""

from __future__ import annotations

import random
import select
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from loader import _native
from loader.chess.filters import FilterConfig
from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.stream.data import open_stream
from loader.stream.interface import Filled, PassesOver, Stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import Slot, allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.support.binpack_file import BinpackFile

KEEP_ALL = FilterConfig(skip_no_score=False)
SOME = FilterConfig(skip_captures=True, skip_ply_up_to=3, random_skip=0.5, win_draw_loss=True, piece_count=True)
ENTRIES = 3072  # of game_files
CHUNKS = 24

SETTINGS = {
    "shuffled": data_config(batch_size=100, window_chunks=5, chess={"filters": KEEP_ALL}),
    "dropping tails": data_config(batch_size=100, window_chunks=5, tail="drop"),
    "in file order": data_config(batch_size=100, window_chunks=5, shuffle=False),
    "in file order, dropping tails": data_config(batch_size=100, window_chunks=7, shuffle=False, tail="drop"),
    "filtered": data_config(batch_size=30, window_chunks=5, chess={"features": "HalfKAv2_hm^", "filters": SOME}),
    "windows smaller than batches": data_config(batch_size=300, window_chunks=1, chess={"features": "chess768"}),
    "batches of one": data_config(batch_size=1, window_chunks=2, chess={"filters": KEEP_ALL}),
    "more than an epoch in a batch": data_config(batch_size=5000, window_chunks=4, chess={"filters": KEEP_ALL}),
}


def wait(stream: Stream) -> Filled:
    ready = select.poll()
    ready.register(stream.fileno(), select.POLLIN)
    while (filled := stream.take()) is None:
        assert ready.poll(60_000), "no batch in a minute"
    return filled


def run(stream: Stream, slots: Sequence[Slot], count: int) -> Iterator[tuple[Filled, str]]:
    """The next `count` batches, with the slots handed round as a trainer would."""
    given = min(count, len(slots))
    for slot in range(given):
        stream.give(slot)
    for _ in range(count):
        filled = wait(stream)
        batch = SparseBatch.view(stream.schema, slots[filled.slot])
        assert batch.number == filled.batch == filled.cursor.batch
        yield filled, digest(batch)
        if given < count:
            stream.give(filled.slot)
            given += 1


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_stream_is_the_same_for_any_number_of_threads_and_from_any_cursor(
    settings: str, game_files: list[Path]
) -> None:
    config = SETTINGS[settings]
    count = 8 if config.batch_size == 5000 else 90
    expected: list[tuple[Filled, str]] = []
    for threads in (1, 2, 5):
        with closing(open_stream(config.model_copy(update={"threads": threads}), game_files, seed=3)) as stream:
            slots = allocate_slots(stream.schema, 3)
            stream.attach(slots)
            found = list(run(stream, slots, count))
            expected = expected or found
            assert [(f.cursor, f.next_cursor, h) for f, h in found] == [
                (f.cursor, f.next_cursor, h) for f, h in expected
            ]
            pick = random.Random(threads)
            for start in [pick.randrange(count) for _ in range(20 if threads == 2 else 3)]:
                stream.seek(expected[start][0].cursor)
                for (filled, hashed), (wanted, wanted_hash) in zip(
                    run(stream, slots, min(4, count - start)), expected[start:], strict=False
                ):
                    assert (filled.cursor, hashed) == (wanted.cursor, wanted_hash)
    assert [f.cursor for f, _ in expected][1:] == [f.next_cursor for f, _ in expected][:-1]
    assert expected[-1][0].next_cursor.epoch >= 1 or config.batch_size == 1


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_stream_that_passes_over_batches_makes_the_others_as_ever(settings: str, game_files: list[Path]) -> None:
    config = SETTINGS[settings]
    count = 6 if config.batch_size == 5000 else 90
    with closing(open_stream(config, game_files, seed=3)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        expected = list(run(stream, slots, count))
    pick = random.Random(settings)
    passed = [pick.random() < 0.7 for _ in range(count)]
    with closing(open_stream(config, game_files, seed=3)) as stream:
        assert isinstance(stream, PassesOver)
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        for batch in range(count):
            (stream.pass_over if passed[batch] else stream.give)(batch % 3)
            slot = slots[batch % 3]
            if passed[batch]:
                slot[:] = 0xAB
            filled = wait(stream)
            assert (filled.cursor, filled.next_cursor) == (
                expected[batch][0].cursor,
                expected[batch][0].next_cursor,
            )
            if passed[batch]:
                assert (slot == 0xAB).all()
            else:
                assert digest(SparseBatch.view(stream.schema, slot)) == expected[batch][1]


def test_another_seed_gives_another_stream(game_files: list[Path]) -> None:
    first, second = (
        [digest(batch) for batch in read_batches(open_stream(SETTINGS["shuffled"], game_files, seed), 5)]
        for seed in (1, 2)
    )
    assert not set(first) & set(second)


Sample = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...]]


def samples_of(batch: SparseBatch) -> Iterator[Sample]:
    view = batch.sparse["features"]
    dense = [batch.dense[name].tolist() for name in ("score", "result", "ply", "piece_count", "side_to_move")]
    size = len(dense[0])
    bags = [tuple(sorted(bag.tolist())) for bag in np.split(view.features, view.offsets[1:-1])]
    for sample in range(size):
        score, result, ply, pieces, side = (field[sample] for field in dense)
        yield score, result, ply, pieces, side, bags[sample], bags[size + sample]


def samples_in_chunk(file: BinpackFile, chunk: int, features: str) -> Iterator[Sample]:
    for line in file.lines(chunk):
        fen, _, score, ply, result = line.split("\t")
        own, opponent, pieces, black = _native.extract_fen(fen, features)
        bags = tuple(sorted(own.tolist())), tuple(sorted(opponent.tolist()))
        yield int(score), int(result), int(ply), pieces, int(black), *bags


def samples_in(files: list[Path], features: str) -> Iterator[Sample]:
    for path in files:
        file = BinpackFile(path)
        for chunk in range(file.num_chunks):
            yield from samples_in_chunk(file, chunk, features)


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_entry_occurs_exactly_once_in_an_epoch(shuffle: bool, game_files: list[Path]) -> None:
    config = data_config(batch_size=64, window_chunks=5, shuffle=shuffle, chess={"filters": KEEP_ALL})
    expected = Counter(samples_in(game_files, config.settings.features))
    assert expected.total() == ENTRIES
    orders = []
    with closing(open_stream(config, game_files, seed=3)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        for _ in range(3):
            epoch = [sample for batch in read_batches(stream, ENTRIES // 64, slots) for sample in samples_of(batch)]
            assert Counter(epoch) == expected
            orders.append(epoch)
    assert (orders[0] != orders[1] != orders[2]) == shuffle


def test_shuffling_spreads_a_window_over_its_batches(game_files: list[Path]) -> None:
    config = data_config(batch_size=64, window_chunks=CHUNKS, chess={"filters": KEEP_ALL})
    with closing(open_stream(config, game_files, seed=3)) as stream:
        plies = [batch.dense["ply"].mean() for batch in read_batches(stream, ENTRIES // 64)]
    with closing(open_stream(config.model_copy(update={"shuffle": False}), game_files, seed=3)) as stream:
        in_order = [batch.dense["ply"].mean() for batch in read_batches(stream, ENTRIES // 64)]
    assert np.std(plies) < np.std(in_order) / 3


def test_progress_counts_entries_and_batches(game_files: list[Path]) -> None:
    with ChessSource().open(SETTINGS["filtered"], identify(game_files), seed=3) as stream:
        list(read_batches(stream, 10))
        read, kept, built = stream.progress()
    assert built == 10
    assert 300 <= kept < read
