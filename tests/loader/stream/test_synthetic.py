"""The synthetic source: a stream with no chess and no files, and the numpy writer of slots."""

from __future__ import annotations

import select
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from loader.files.paths import find_files
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import create_source, data_config
from loader.stream.synthetic import hidden_weights
from tests.loader.stream.batch_contents import digest

CONFIG = data_config(source="synthetic", batch_size=64)


def test_batch_k_is_a_function_of_seed_and_k() -> None:
    first = [digest(batch) for batch in read_batches(open_stream(CONFIG, [], seed=7), 10)]
    again = open_stream(CONFIG, [], seed=7)
    slots = allocate_slots(again.schema, 3)
    again.attach(slots)
    for start in (6, 0, 9, 3):
        again.seek(Cursor(batch=start))
        for number, batch in enumerate(read_batches(again, min(4, 10 - start), slots), start=start):
            assert batch.number == number
            assert digest(batch) == first[number]
    assert [digest(batch) for batch in read_batches(open_stream(CONFIG, [], seed=8), 10)] != first


def test_the_columns_of_a_batch_are_the_transpose_of_its_rows() -> None:
    (batch,) = read_batches(open_stream(CONFIG, [], seed=1), 1)
    view = batch.sparse["features"]
    rows = {(int(f), bag) for bag in range(64) for f in view.features[view.offsets[bag] : view.offsets[bag + 1]]}
    columns = {
        (int(f), int(bag))
        for j, f in enumerate(view.touched)
        for bag in view.bags[view.touched_offsets[j] : view.touched_offsets[j + 1]]
    }
    assert rows == columns
    assert len(rows) == len(view.features) == len(view.bags)
    assert np.all(np.diff(view.touched.astype(int)) > 0)
    assert view.features.dtype == np.uint16


def test_the_target_is_the_sum_of_hidden_weights() -> None:
    (batch,) = read_batches(open_stream(CONFIG, [], seed=1), 1)
    view = batch.sparse["features"]
    for bag in range(64):
        features = view.features[view.offsets[bag] : view.offsets[bag + 1]].astype(np.int64)
        assert 1 <= len(features) <= 8
        assert batch.dense["target"][bag] == pytest.approx(hidden_weights(features).sum(), abs=1e-6)


def test_values_are_drawn_beside_the_same_features() -> None:
    with_values = data_config(source="synthetic", batch_size=64, synthetic={"values": True})
    (plain,), (batch,) = (list(read_batches(open_stream(config, [], seed=1), 1)) for config in (CONFIG, with_values))
    view = batch.sparse["features"]
    assert view.values is not None
    assert view.column_values is not None
    assert np.array_equal(view.features, plain.sparse["features"].features)
    assert plain.sparse["features"].values is None
    rows = {
        (int(view.features[k]), bag): view.values[k]
        for bag in range(64)
        for k in range(view.offsets[bag], view.offsets[bag + 1])
    }
    columns = {
        (int(feature), int(view.bags[k])): view.column_values[k]
        for j, feature in enumerate(view.touched)
        for k in range(view.touched_offsets[j], view.touched_offsets[j + 1])
    }
    assert rows == columns
    assert view.values.dtype == np.float32
    assert -1 <= view.values.min() < -0.9 < 0.9 < view.values.max() <= 1
    weights = hidden_weights(view.features.astype(np.int64)) * view.values
    sums = np.add.reduceat(weights, view.offsets[:-1].astype(np.int64))
    np.testing.assert_allclose(batch.dense["target"], sums, atol=1e-6)


def test_the_descriptor_is_readable_while_a_batch_waits() -> None:
    stream = open_stream(CONFIG, [], seed=1)
    stream.attach(allocate_slots(stream.schema, 2))
    ready = select.poll()
    ready.register(stream.fileno(), select.POLLIN)
    assert not ready.poll(0)
    stream.give(1)
    stream.give(0)
    assert [filled.slot for filled in (stream.take(),) if filled] == [1]
    assert ready.poll(0)
    assert [filled.slot for filled in (stream.take(),) if filled] == [0]
    assert not ready.poll(0)
    assert stream.take() is None
    stream.close()


def test_more_active_than_there_are_is_named() -> None:
    config = data_config(source="synthetic", synthetic={"num_features": 10, "max_active": 11})
    with pytest.raises(ValueError, match=r"data.synthetic.max_active: 11 is more than num_features, 10"):
        Data(config).schema()


@pytest.mark.parametrize("source", ["nothing", "no.such.module:thing", "loader.config:nothing", ":x"])
def test_an_unknown_source_is_named(source: str) -> None:
    with pytest.raises(ValueError, match=r"data.source: "):
        Data(CONFIG.model_copy(update={"source": source})).schema()


def test_patterns_give_files_in_order_and_misses_name_the_key(tmp_path: Path) -> None:
    for name in ("b1.binpack", "a.binpack", "b2.binpack", "b[3].binpack"):
        (tmp_path / name).touch()
    found = find_files([f"{tmp_path}/b?.binpack", f"{tmp_path}/a.binpack", f"{tmp_path}/b[3].binpack"], "data.train")
    assert [file.name for file in found] == ["b1.binpack", "b2.binpack", "a.binpack", "b[3].binpack"]
    with pytest.raises(ValueError, match=r"data.train: no file matches '.*c\*'"):
        find_files([f"{tmp_path}/c*"], "data.train")


def test_samples_for_validations_are_of_the_same_kind_and_others() -> None:
    trained, validated = (
        next(iter(read_batches(Data(CONFIG, seed=7, validation=validation).open(), 1))) for validation in (False, True)
    )
    assert digest(trained) != digest(validated)
    view = validated.sparse["features"]
    weights = hidden_weights(view.features[: view.offsets[1]].astype(np.int64))
    assert validated.dense["target"][0] == np.float32(weights.sum())
    assert create_source("synthetic").can_generate
    assert not create_source("chess").can_generate


def test_rows_for_validations_are_of_the_same_model_and_others() -> None:
    config = data_config(source="rows", batch_size=64, rows={"num_features": 50, "synthetic": {"num_rows": 1000}})
    batches = []
    for validation in (False, True, True):
        with closing(Data(config, seed=7, validation=validation).open()) as stream:
            batches.append(digest(next(iter(read_batches(stream, 1)))))
    assert batches[0] != batches[1] == batches[2]
