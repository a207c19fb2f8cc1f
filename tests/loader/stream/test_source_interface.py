"""What a source of the user's own must offer, and what it may write: a fault is one line that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.files.paths import find_files
from loader.stream.config import DataConfig
from loader.stream.data import open_stream
from loader.stream.schema import BatchSchema, DenseField, SparseBatch, SparseField
from loader.stream.slots import allocate_slots, write_batch
from loader.stream.source import Source
from loader.stream.sources import data_config
from loader.stream.synthetic import SyntheticSource, SyntheticStream

CONFIG = data_config(source="synthetic", synthetic={"num_features": 50, "max_active": 4}, batch_size=3)
SCHEMA = BatchSchema(
    3, (SparseField("f", num_features=10, max_active=3),), (DenseField("x", "int16"), DenseField("y", "float32")), 2
)
Batch = dict[str, Any]


class WithoutSchema(Source):
    open = SyntheticSource.open
    origin = SyntheticSource.origin


class WithoutOpen(Source):
    schema = SyntheticSource.schema
    origin = SyntheticSource.origin


class WithoutOrigin(Source):
    schema = SyntheticSource.schema
    open = SyntheticSource.open


class NotDerived:
    schema = SyntheticSource.schema
    open = SyntheticSource.open
    origin = SyntheticSource.origin


class WithAnotherCount(SyntheticSource):
    def count_samples(self, config: DataConfig) -> int:  # type: ignore[override]
        raise AssertionError(config)


class Raises(SyntheticSource):
    def __init__(self) -> None:
        raise RuntimeError("no luck")


class WithAnotherOpen(SyntheticSource):
    def open(self, config: DataConfig) -> Any:  # type: ignore[override]
        raise AssertionError(config)


class SkippedIsNumber(SyntheticSource):
    def open(self, *args: Any) -> Any:
        stream = super().open(*args)
        vars(stream)["skipped"] = 5
        return stream


class NoSchema(SyntheticSource):
    def open(self, *args: Any) -> Any:
        stream = super().open(*args)
        del stream.schema
        return stream


@pytest.mark.parametrize(
    ("source", "lack"),
    [
        ("WithoutSchema", r"WithoutSchema.schema is missing: a source must have schema\(config\)"),
        ("WithoutOpen", r"WithoutOpen.open is missing: a source must have open\(config, files, seed\)"),
        (
            "WithoutOrigin",
            r"WithoutOrigin.origin is missing: a source must have origin\(config, files, seed, cursor\)",
        ),
        (
            "WithAnotherOpen",
            r"WithAnotherOpen.open can't be called with \(config, files, seed\): too many positional arguments \(",
        ),
        ("NotDerived", r"an object of NotDerived is no source: derive that class from loader.Source"),
        ("WithAnotherCount", r"count_samples can't be called with \(config, files, seed\): too many positional"),
        ("Raises", r"RuntimeError: no luck \(.*test_source_interface.py:\d+, in __init__\)"),
        ("SkippedIsNumber", r"open: SyntheticStream.skipped must be a function of \(\), not 5"),
        ("NoSchema", r"open: SyntheticStream.schema is missing: a stream must have it"),
        ("CONFIG", r"must be a function of \(\), not DataConfig\(.*; allowed: module:factory"),
        ("Nothing", r"module 'tests.loader.stream.test_source_interface' has no Nothing"),
    ],
)
def test_a_source_that_lacks_a_method_is_named_with_the_method(source: str, lack: str) -> None:
    config = CONFIG.model_copy(update={"source": f"tests.loader.stream.test_source_interface:{source}"})
    with pytest.raises(ValueError, match=rf"data.source: .*{lack}"):
        open_stream(config, [], seed=1)


@pytest.mark.parametrize("name", ["schema", "attach", "seek", "give", "take", "skipped", "fileno", "close"])
def test_each_part_of_a_stream_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "schema":
        monkeypatch.setattr(SyntheticSource, "open", lambda *_: object())
    else:
        monkeypatch.delattr(SyntheticStream, name)
    with pytest.raises(ValueError, match=rf"\.{name} is missing: a stream must have "):
        open_stream(CONFIG, [], seed=1)


def test_a_folder_as_data_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.binpack").touch()
    for pattern, named in ((tmp_path, tmp_path), (tmp_path / "*", tmp_path / "more")):
        with pytest.raises(ValueError, match=rf"data.train: '{named}' is a folder; .*'{named}/\*'"):
            find_files([str(pattern)], "data.train")


# --- batches written with numpy ---


def good() -> Batch:
    """Bags {1, 9}, {}, {0, 4, 9}."""
    return {
        "rows": {"f": (np.array([0, 2, 2, 5]), np.array([1, 9, 0, 4, 9]))},
        "dense": {"x": np.array([-32768, 0, 32767]), "y": np.array([0.5, 1, 2])},
        "bucket_offsets": np.array([0, 1, 3]),
    }


def rows(offsets: Any, features: Any) -> Callable[[Batch], None]:
    return lambda batch: batch["rows"].update(f=(np.array(offsets), np.array(features)))


def dense(**values: Any) -> Callable[[Batch], None]:
    return lambda batch: batch["dense"].update({name: np.array(value) for name, value in values.items()})


def buckets(*offsets: int) -> Callable[[Batch], None]:
    return lambda batch: batch.update(bucket_offsets=np.array(offsets))


FAULTS: list[tuple[Callable[[Batch], None], str]] = [
    (lambda batch: batch["rows"].clear(), "sparse fields: none given, the schema has f"),
    (dense(z=[1, 2, 3]), "dense fields: x, y, z given, the schema has x, y"),
    (lambda batch: batch["dense"].pop("x"), "dense fields: y given, the schema has x, y"),
    (rows([0, 2, 5], [1, 9, 0, 4, 9]), r"f.offsets: shape \[3\]; \[4\] is expected"),
    (rows([0, 2, 2, 4], [1, 9, 0, 4, 9]), "f.offsets: runs from 0 to 4; 0 to 5 is expected"),
    (rows([1, 2, 2, 5], [1, 9, 0, 4, 9]), "f.offsets: runs from 1 to 5"),
    (rows([0, 3, 2, 5], [1, 9, 0, 4, 9]), r"f.offsets: falls from 3 to 2 at \[2\]"),
    (rows([0.0, 2, 2, 5], [1, 9, 0, 4, 9]), "f.offsets: float64 .* whole numbers"),
    (rows([0, 2, 2, 5], [1, 9, 0, 4, 10]), r"f.features: \[4\] is 10; allowed are 0 to 9"),
    (rows([0, 2, 2, 5], [1, -9, 0, 4, 9]), r"f.features: \[1\] is -9; allowed are 0 to 9"),
    (rows([0, 2, 2, 5], [1, 9, 0, 4.5, 9]), "f.features: float64 .* whole numbers"),
    (rows([0, 2, 2, 5], [1, 9, 4, 0, 4]), "f.features: bag 2 has feature 4 twice"),
    (rows([0, 0, 0, 4], [1, 2, 3, 4]), "f.features: bag 2 has 4; the schema's max_active is 3"),
    (dense(x=[1, 2]), r"x: shape \[2\]; a batch has \[3\]"),
    (dense(x=[1, 2, 32768]), "x: sample 2 is 32768; int16 holds -32768 to 32767"),
    (dense(x=[1.5, 2, 3]), "x: float64 .* whole numbers"),
    (dense(y=["a", "b", "c"]), "y: <U1 given, the schema has float32"),
    (buckets(0, 3), r"bucket_offsets: shape \[2\]; \[3\] is expected"),
    (buckets(0, 4, 3), "bucket_offsets: falls from 4 to 3"),
    (buckets(0, 1, 2), "bucket_offsets: runs from 0 to 2; 0 to 3 is expected"),
]


@pytest.mark.parametrize(("spoil", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_batch_that_does_not_fit_its_schema_is_refused_by_field(spoil: Callable[[Batch], None], said: str) -> None:
    (slot,) = allocate_slots(SCHEMA, 1)
    write_batch(SCHEMA, slot, 0, **good())
    batch = good()
    spoil(batch)
    with pytest.raises(ValueError, match=said):
        write_batch(SCHEMA, slot, 1, **batch)


WITH_VALUES = BatchSchema(3, (SparseField("f", num_features=10, max_active=3, values=True),), ())
OFFSETS, FEATURES = np.array([0, 2, 2, 5]), np.array([9, 1, 0, 4, 9])


def test_values_are_written_in_both_orders_whatever_they_are() -> None:
    """Zeros and what is not finite stay: whoever computes with the batch finds it out."""
    values = np.array([np.inf, -0.0, 1e-45, np.nan, -3])
    (slot,) = allocate_slots(WITH_VALUES, 1)
    write_batch(WITH_VALUES, slot, 0, {"f": (OFFSETS, FEATURES, values)}, {})
    view = SparseBatch.view(WITH_VALUES, slot).sparse["f"]
    assert view.values is not None
    assert view.column_values is not None
    assert view.values.tobytes() == values.astype(np.float32).tobytes()
    assert view.touched.tolist() == [0, 1, 4, 9]
    assert view.bags.tolist() == [2, 0, 2, 0, 2]
    assert view.column_values.tobytes() == values[[2, 1, 3, 0, 4]].astype(np.float32).tobytes()


def test_a_field_without_values_has_no_place_for_them() -> None:
    assert [name for name in WITH_VALUES.regions if name not in SCHEMA.regions] == ["f.values", "f.column_values"]
    (slot,) = allocate_slots(SCHEMA, 1)
    write_batch(SCHEMA, slot, 0, **good())
    view = SparseBatch.view(SCHEMA, slot).sparse["f"]
    assert view.values is view.column_values is None
    assert set(view.arrays()) == {"offsets", "features", "touched", "touched_offsets", "bags"}


@pytest.mark.parametrize(
    ("schema", "parts", "said"),
    [
        (WITH_VALUES, (OFFSETS, FEATURES), "f: 2 arrays given; offsets, features, values are expected"),
        (SCHEMA, (OFFSETS, FEATURES, np.ones(5)), "f: 3 arrays given; offsets, features are expected"),
        (WITH_VALUES, (OFFSETS, FEATURES, np.ones(4)), r"f.values: float64 \[4\] given; \[5\] numbers are expected"),
        (WITH_VALUES, (OFFSETS, FEATURES, np.ones((5, 1))), r"f.values: float64 \[5, 1\] given"),
        (WITH_VALUES, (OFFSETS, FEATURES, np.array(list("abcde"))), "f.values: <U1 "),
        (WITH_VALUES, (OFFSETS, np.array([9, 1, 4, 0, 4]), np.ones(5)), "f.features: bag 2 has feature 4 twice"),
    ],
)
def test_values_that_do_not_fit_the_field_are_refused(
    schema: BatchSchema, parts: tuple[np.ndarray, ...], said: str
) -> None:
    (slot,) = allocate_slots(schema, 1)
    dense = good()["dense"] if schema is SCHEMA else {}
    with pytest.raises(ValueError, match=said):
        write_batch(schema, slot, 0, {"f": parts}, dense)


def test_a_slot_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match=f"a slot is {SCHEMA.slot_bytes} bytes"):
        write_batch(SCHEMA, np.zeros(64, np.uint8), 0, **good())
