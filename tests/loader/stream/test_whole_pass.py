"""A pass that ends: every sample once, in one order, wherever it is entered, and however slots come."""

from __future__ import annotations

import gzip
import select
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.stream.config import DataConfig
from loader.stream.data import Data
from loader.stream.interface import Cursor, Filled
from loader.stream.schema import SparseBatch
from loader.stream.single_pass import SinglePass
from loader.stream.slots import Slot, allocate_slots
from loader.stream.sources import data_config
from tests.support.paths import SAMPLE

ROWS = 337


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three files, one compressed; the label of row n is n."""
    folder = tmp_path_factory.mktemp("rows")
    lines = [f"{row} {row % 50}:1 {50 + row % 7}:2\n".encode() for row in range(ROWS)]
    parts = (b"".join(lines[:100]), b"".join(lines[100:101]), b"".join(lines[101:]))
    found = []
    for number, part in enumerate(parts):
        path = folder / (f"{number}.svm.gz" if number == 2 else f"{number}.svm")
        path.write_bytes(gzip.compress(part) if number == 2 else part)
        found.append(path)
    return found


def config(batch_size: int, **keys: Any) -> DataConfig:
    rows = {"num_features": 60}
    return data_config(**{"source": "rows", "batch_size": batch_size, "window_chunks": 1, "rows": rows, **keys})


def taken(stream: SinglePass, slots: list[Slot], count: int) -> list[tuple[Filled, SparseBatch]]:
    """The next batches, each copied before its slot is given again."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    found: list[tuple[Filled, SparseBatch]] = []
    while len(found) < count:
        if (filled := stream.take()) is None:
            poll.poll()
            continue
        header = int(SparseBatch.view(stream.schema, slots[filled.slot]).number)
        assert header == filled.batch
        samples = min(stream.schema.batch_size, ROWS - filled.batch * stream.schema.batch_size)
        schema = replace(stream.schema, batch_size=samples)
        found.append((filled, SparseBatch.view(schema, slots[filled.slot]).copy()))
        stream.give(filled.slot)
    return found


def labels(batches: list[tuple[Filled, SparseBatch]]) -> list[int]:
    return [int(label) for _, batch in batches for label in batch.dense["label"]]


@given(batch_size=st.integers(1, 400), entered=st.integers(0, 400), slots=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_every_row_comes_once_wherever_the_pass_is_entered(
    paths: list[Path], batch_size: int, entered: int, slots: int
) -> None:
    batches = -(-ROWS // batch_size)
    with closing(SinglePass(Data.from_paths(config(batch_size), paths, 3, validation=True), ROWS)) as stream:  # type: ignore[arg-type]
        memory = allocate_slots(stream.schema, slots)
        stream.attach(memory)
        stream.seek(Cursor())
        for slot in range(slots):
            stream.give(slot)
        whole = taken(stream, memory, batches)
        assert labels(whole) == list(range(ROWS))
        assert [filled.batch for filled, _ in whole] == list(range(batches))
        assert [len(batch.sparse["features"].offsets) - 1 for _, batch in whole][:-1] == [batch_size] * (batches - 1)
        assert stream.take() is None
        begin = whole[entered % batches][0].cursor
        stream.seek(begin)
        for slot in range(slots):
            stream.give(slot)
        assert labels(taken(stream, memory, batches - begin.batch)) == list(range(begin.batch * batch_size, ROWS))


def test_a_seek_takes_back_the_slot_for_what_is_left(paths: list[Path]) -> None:
    with closing(SinglePass(Data.from_paths(config(200), paths, 3, validation=True), ROWS)) as stream:  # type: ignore[arg-type]
        memory = allocate_slots(stream.schema, 2)
        stream.attach(memory)
        for _ in range(20):
            stream.seek(Cursor())
            stream.give(0)
            stream.give(1)
            taken(stream, memory, 1)
        stream.seek(Cursor())
        stream.give(0)
        stream.give(1)
        assert labels(taken(stream, memory, 2)) == list(range(ROWS))


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_a_share_of_the_rows_is_what_an_endless_stream_of_it_begins_with(paths: list[Path], share: float) -> None:
    used = config(1, validation_share=share, shuffle=False)
    count = Data.from_paths(used, paths, 3, validation=True).count_samples()
    expected: list[int] = []
    with closing(Data.from_paths(used, paths, 3, validation=True).open()) as endless:
        slots = allocate_slots(endless.schema, 1)
        endless.attach(slots)
        for _ in range(count + 1):
            endless.give(0)
            while endless.take() is None:
                pass
            expected.append(int(SparseBatch.view(endless.schema, slots[0]).dense["label"][0]))
    *expected, again = expected
    assert again == expected[0]  # of the next pass
    assert len(set(expected)) == count
    with closing(
        SinglePass(Data.from_paths(config(count + 1, validation_share=share), paths, 3, validation=True), count)
    ) as stream:  # type: ignore[arg-type]
        memory = allocate_slots(stream.schema, 1)
        stream.attach(memory)
        stream.seek(Cursor())
        stream.give(0)
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLIN)
        assert poll.poll(60_000)
        assert stream.take() is not None
        view = SparseBatch.view(replace(stream.schema, batch_size=count), memory[0])
        assert view.dense["label"].tolist() == expected


def test_positions_that_pass_the_filters_come_once_in_batches_of_any_size() -> None:
    """The last batch has its samples in output buckets, too."""
    files = [SAMPLE / "validation.binpack"]
    used = data_config(batch_size=1000, chess={"filters": {"skip_in_check": True, "random_skip": 1.0}})
    count = Data.from_paths(used, files, 5).count_samples()
    assert count % 1000
    sums = []
    for batch_size in (1000, 2048, count):
        sized = used.model_copy(update={"batch_size": batch_size})
        with closing(SinglePass(Data.from_paths(sized, files, 5, validation=True), count)) as stream:  # type: ignore[arg-type]
            memory = allocate_slots(stream.schema, 2)
            stream.attach(memory)
            stream.seek(Cursor())
            stream.give(0)
            stream.give(1)
            poll = select.poll()
            poll.register(stream.fileno(), select.POLLIN)
            scores = []
            for number in range(-(-count // batch_size)):
                while (filled := stream.take()) is None:
                    poll.poll()
                size = min(batch_size, count - number * batch_size)
                view = SparseBatch.view(replace(Data(sized).schema(), batch_size=size), memory[filled.slot])
                assert view.bucket_offsets[0] == 0
                assert view.bucket_offsets[-1] == size
                scores.append(view.dense["score"].copy())
                stream.give(filled.slot)
            sums.append(np.sort(np.concatenate(scores)))
    assert all(np.array_equal(sums[0], other) for other in sums[1:])
