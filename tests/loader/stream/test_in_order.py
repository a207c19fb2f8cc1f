"""Every sample once, in the files' order, whatever the output buckets and however the count divides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader._native import extract_fen
from loader.files.identity import identify
from loader.stream.config import DataConfig
from loader.stream.data import Data
from loader.stream.interface import Cursor, Filled
from loader.stream.schema import BatchSchema, DenseField, SparseField
from loader.stream.sequential import read_in_file_order
from loader.stream.slots import Slot, write_batch
from loader.stream.source import Source
from loader.stream.sources import data_config, source_config_class
from tests.loader.conftest import ENTRIES
from tests.support.looked_into import dump

FEATURES = "chess768"


def scored(file: Path) -> list[tuple[str, int]]:
    """FEN and score of the positions that have one, in the file's order."""
    lines = [line.split("\t") for line in b"".join(dump(file)).decode().splitlines()]
    return [(line[0], int(line[2])) for line in lines if int(line[2]) != 32002]


@pytest.mark.parametrize("batch_size", [100, 1, 5000])
def test_chess_positions_come_in_their_order(batch_size: int, game_files: list[Path]) -> None:
    config = source_config_class("chess", DataConfig).model_validate(
        {"batch_size": batch_size, "chess": {"features": FEATURES}}
    )
    files = game_files[1:]
    expected = [position for file in files for position in scored(file)]
    found = []
    for batch, order in read_in_file_order(Data(config, identify(files))):
        view = batch.sparse["features"]
        buckets = (batch.dense["piece_count"].astype(int) - 1) // 4
        assert np.array_equal(np.repeat(np.arange(8), np.diff(batch.bucket_offsets)), buckets)
        for place in np.argsort(order):
            own = view.features[view.offsets[place] : view.offsets[place + 1]]
            opponents = view.features[view.offsets[len(order) + place] : view.offsets[len(order) + place + 1]]
            found.append((sorted(own.tolist()), sorted(opponents.tolist()), int(batch.dense["score"][place])))
    assert len(found) == len(expected) > 0.9 * sum(ENTRIES[1:])
    for sample, (fen, score) in zip(found, expected, strict=True):
        own, opponents, _, _ = extract_fen(fen, FEATURES)
        assert sample == (sorted(own.tolist()), sorted(opponents.tolist()), score)


class Numbers(Source):
    """A source of one bucket, whose samples are 0 .. count - 1 over and over; a window has all of them."""

    count = 10

    def schema(self, config: DataConfig) -> BatchSchema:
        return BatchSchema(
            config.batch_size, (SparseField("features", 50, 2, values=True),), (DenseField("number", "int32"),)
        )

    def open(self, config: DataConfig, files: Any, seed: int) -> Any:  # noqa: ARG002
        return NumberStream(self.schema(config))

    def origin(self, *_: Any) -> dict[str, Any]:
        return {}


class NumberStream:
    def __init__(self, schema: BatchSchema) -> None:
        self.schema = schema
        self._event = os.eventfd(0, os.EFD_NONBLOCK)
        self._entry = self._epoch = self._batch = 0
        self._done: list[Filled] = []

    def attach(self, slots: Sequence[Slot]) -> None:
        self._slots = slots

    def seek(self, cursor: Cursor) -> None:
        self._batch, self._epoch, self._entry = cursor.batch, cursor.epoch, cursor.entry

    def give(self, slot: int) -> None:
        here, numbers = self._cursor(), []
        for _ in range(self.schema.batch_size):
            numbers.append(self._entry)
            self._entry = (self._entry + 1) % Numbers.count
            self._epoch += self._entry == 0
        self._batch += 1
        rows = {"features": (np.arange(len(numbers) + 1), np.array(numbers), np.array(numbers, np.float32) / 2)}
        write_batch(self.schema, self._slots[slot], here.batch, rows, {"number": np.array(numbers, np.int32)})
        self._done.append(Filled(slot, here.batch, here, self._cursor()))

    def _cursor(self) -> Cursor:
        return Cursor(self._batch, self._epoch, 0, self._entry)

    def take(self) -> Filled | None:
        return self._done.pop(0) if self._done else None

    def skipped(self) -> Sequence[Any]:
        return ()

    def fileno(self) -> int:
        return self._event

    def close(self) -> None:
        os.close(self._event)


@pytest.mark.parametrize(("batch_size", "sizes"), [(5, [5, 5]), (4, [4, 4, 2]), (10, [10]), (11, [10]), (30, [10])])
def test_samples_of_one_bucket_come_in_whole_batches_and_a_rest(batch_size: int, sizes: list[int]) -> None:
    config = DataConfig(source=f"{__name__}:Numbers", batch_size=batch_size)
    numbers, found = [], []
    for batch, order in read_in_file_order(Data(config)):
        assert order.tolist() == list(range(len(order)))
        view = batch.sparse["features"]
        assert view.values is not None
        assert view.features.tolist() == (2 * view.values).tolist() == batch.dense["number"].tolist()
        found.append(len(order))
        numbers += batch.dense["number"].tolist()
    assert (found, numbers) == (sizes, list(range(10)))


@pytest.mark.parametrize("batch_size", [3, 4, 5, 30])
def test_a_pass_ends_with_its_last_sample_though_chunks_without_any_follow(batch_size: int, tmp_path: Path) -> None:
    for name, text in (("a.svm", "".join(f"{row} 1:1\n" for row in range(10))), ("b.svm", "# none\n"), ("c.svm", "\n")):
        (tmp_path / name).write_text(text)
    rows = {"num_features": 10, "label": "real"}
    config = data_config(source="rows", batch_size=batch_size, window_chunks=1, rows=rows)
    data = Data(config, identify(sorted(tmp_path.iterdir())))
    numbers = [batch.dense["label"][np.argsort(order)].tolist() for batch, order in read_in_file_order(data)]
    assert sum(numbers, []) == list(range(10))  # noqa: RUF017 (few)
    assert [len(batch) for batch in numbers[:-1]] == [batch_size] * (len(numbers) - 1)
