"""Columns of Parquet files of any type: booleans, dates, lists of texts, NaN and null, read as the pages say."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader import _native
from loader.errors import DataError
from loader.rows.columns import ColumnsConfig
from loader.rows.feature_hash import hash_columns
from loader.rows.formats.parquet.file import dump, inspect
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config

SIZE = 1 << 30  # rows of a table, so that no two texts share one
NOON = datetime(2024, 1, 31, 12, 0, 0, 250000)
NOON_IN_BERLIN = NOON.replace(tzinfo=timezone(timedelta(hours=1)))


def features_of(path: Path, columns: dict[str, Any], **settings: Any) -> list[set[int]]:
    """The features of each row of a file with these columns, all of one field."""
    table = pyarrow.table({"label": [0] * len(next(iter(columns.values()))), **columns})
    pyarrow.parquet.write_table(table, path)
    rows = {"num_features": SIZE, "values": False, "columns": {"sparse": {"features": list(columns)}, **settings}}
    used = data_config(source="rows", batch_size=table.num_rows, shuffle=False, rows=rows)
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        view = batch.sparse["features"]
        offsets = view.offsets[: table.num_rows + 1].tolist()
        parts = [view.features[begin:end].tolist() for begin, end in pairwise(offsets)]
    assert all(len(part) == len(set(part)) for part in parts)
    return [set(part) for part in parts]


def hashes(*rows: list[str], seed: int = 0) -> list[set[int]]:
    return [{_native.xxh64(text.encode(), seed) % SIZE for text in row} for row in rows]


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pyarrow.array([True, None, False]), [["true"], [], ["false"]]),
        (pyarrow.array([date(2024, 1, 31), None], pyarrow.date32()), [["2024-01-31"], []]),
        (pyarrow.array([date(2024, 1, 31), None], pyarrow.date64()), [["2024-01-31"], []]),
        (pyarrow.array([NOON.replace(microsecond=0), None], pyarrow.timestamp("s")), [["2024-01-31 12:00:00"], []]),
        (pyarrow.array([NOON.replace(microsecond=0)], pyarrow.timestamp("ns")), [["2024-01-31 12:00:00"]]),
        (pyarrow.array([NOON], pyarrow.timestamp("ms")), [["2024-01-31 12:00:00.25"]]),
        (pyarrow.array([NOON], pyarrow.timestamp("ns")), [["2024-01-31 12:00:00.25"]]),
        (pyarrow.array([NOON_IN_BERLIN], pyarrow.timestamp("us", "+01:00")), [["2024-01-31 11:00:00.25Z"]]),
        (pyarrow.array([17, None], pyarrow.decimal128(10, 0)), [["17"], []]),
        (pyarrow.array([17, -3], pyarrow.decimal32(5, 0)), [["17"], ["-3"]]),
        (pyarrow.array([(1 << 64) - 1], pyarrow.uint64()), [[str((1 << 64) - 1)]]),
        (pyarrow.array([17, None, 17]).dictionary_encode(), [["17"], [], ["17"]]),
        (pyarrow.array([["a", "b", "a"], [], None, ["", None]]), [["a", "b"], [], [], []]),
        (pyarrow.array([["a", "b"], None], pyarrow.list_(pyarrow.string(), 2)), [["a", "b"], []]),
        (pyarrow.array([["a"], ["b", "a"]], pyarrow.large_list(pyarrow.large_string())), [["a"], ["b", "a"]]),
        (pyarrow.array([[True], [False, None]]), [["true"], ["false"]]),
        (pyarrow.array([[date(2024, 1, 31)]]), [["2024-01-31"]]),
    ],
)  # fmt: skip
def test_a_category_is_its_text(column: Any, texts: list[list[str]], tmp_path: Path) -> None:
    assert features_of(tmp_path / "a.parquet", {"c": column}) == hashes(*texts)


def test_a_missing_value_in_a_list_is_a_category_on_demand_and_a_missing_list_is_empty(tmp_path: Path) -> None:
    column = pyarrow.array([["a", None], None, [], ["-"]])
    found = features_of(tmp_path / "a.parquet", {"c": column}, missing=["-"], missing_category="feature")
    assert found == hashes(["a", ""], [], [], [""])


def test_lists_of_texts_and_other_columns_are_a_field_together(tmp_path: Path) -> None:
    columns = {"c": pyarrow.array(["a", None, "b"]), "words": pyarrow.array([["a", "b"], ["a"], None])}
    first, second = hashes(["a"], [], ["b"]), hashes(["a", "b"], ["a"], [], seed=1)
    expected = [one | two for one, two in zip(first, second, strict=True)]
    assert features_of(tmp_path / "a.parquet", columns) == expected


def test_a_row_group_without_rows_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pyarrow.parquet.ParquetWriter(
        path, pyarrow.schema([("label", pyarrow.int64()), ("features", pyarrow.list_(pyarrow.string()))])
    ) as writer:
        for labels in ([], [1, 0]):
            writer.write_table(
                pyarrow.table({"label": labels, "features": [["a"]] * len(labels)}, schema=writer.schema),
                row_group_size=2,
            )
    used = data_config(source="rows", batch_size=2, shuffle=False, rows={"num_features": SIZE, "values": False})
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["label"].tolist() == [1, 0]


@pytest.mark.parametrize("kind", [pyarrow.float16(), pyarrow.float32(), pyarrow.float64()])
def test_nan_is_a_number_that_is_missing(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ages = pyarrow.array([1.5, float("nan"), None], kind)
    pyarrow.parquet.write_table(pyarrow.table({"label": [0.0, 1.0, 0.0], "features": ["a"] * 3, "age": ages}), path)
    rows = {"num_features": 9, "values": False, "dense": ["age"], "columns": {"missing_number": -2.0}}
    used = data_config(source="rows", batch_size=3, shuffle=False, rows=rows)
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["age"].tolist() == [1.5, -2, -2]
    found = inspect(path, None).columns[2]
    assert (found.kind, found.missing, found.distinct, found.smallest, found.largest) == ("number", 2, 1, 1.5, 1.5)


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pyarrow.array([1.5]), "double"),
        (pyarrow.array([[1.5]]), "double"),
        (pyarrow.array([b"a"]), "binary"),
        (pyarrow.array([{"a": 1}]), "struct<"),
        (pyarrow.array([timedelta(1)]), "duration"),
        (pyarrow.array([NOON.time()]), "time64"),
        (pyarrow.array([[["a"]]]), "list<"),
    ],
)
def test_what_is_no_category_is_refused_by_its_type(column: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"features: a column of text, .* not of {named}"):
        features_of(tmp_path / "a.parquet", {"c": column})


TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "", None]), max_size=4), max_size=6)


@given(TEXTS, TEXTS, st.integers(1, 5), st.booleans())
def test_a_field_has_each_feature_of_its_texts_once(
    one: list[list[str | None]], two: list[list[str | None]], size: int, absent: bool
) -> None:
    rows = min(len(one), len(two))
    settings = ColumnsConfig(missing_category="feature" if absent else "none")
    columns = [
        (list(chain(*column[:rows])), np.cumsum([0, *map(len, column[:rows])], dtype=np.int64)) for column in (one, two)
    ]
    offsets, features, values = hash_columns(columns, size, settings)
    assert values is None
    assert len(offsets) == rows + 1
    for row in range(rows):
        expected = {
            _native.xxh64((text or "").encode(), seed) % size
            for seed, column in enumerate((one, two))
            for text in column[row]
            if text or absent
        }
        assert features[offsets[row] : offsets[row + 1]].tolist() == sorted(expected)


def test_timestamps_of_int96_beyond_2262_are_themselves(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = [datetime(9999, 12, 31), datetime(2024, 1, 31, 12, 0, 0, 250000), datetime(1000, 1, 1), None]
    table = pyarrow.table({"label": [0] * 4, "features": pyarrow.array(times, pyarrow.timestamp("us"))})
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert "optional int96" in str(pyarrow.parquet.ParquetFile(path).metadata.schema)
    used = data_config(source="rows", batch_size=4, shuffle=False, rows={"num_features": SIZE, "values": False})
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        found = batch.sparse["features"].features.tolist()
    texts = ["9999-12-31 00:00:00", "2024-01-31 12:00:00.25", "1000-01-01 00:00:00"]
    assert found == [_native.xxh64(text.encode(), 0) % SIZE for text in texts]
    assert b"9999-12-31" in b"".join(dump(path, None))


@pytest.mark.parametrize("make", [pyarrow.decimal32, pyarrow.decimal64, pyarrow.decimal128, pyarrow.decimal256])
def test_decimals_are_numbers(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    prices = pyarrow.array([Decimal("1.25"), None, Decimal("-2.50"), Decimal("1.25")], make(5, 2))
    pyarrow.parquet.write_table(pyarrow.table({"label": [0, 1, 0, 1], "price": prices}), path)
    (_, column) = inspect(path, None).columns
    assert (column.kind, column.missing, column.smallest, column.largest, column.distinct) == (
        "number",
        1,
        -2.5,
        1.25,
        2,
    )
    rows = {"dense": ["price"], "values": False, "columns": {"missing_number": -1, "sparse": {"features": "label"}}}
    used = data_config(source="rows", batch_size=4, shuffle=False, rows=rows)
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["price"].tolist() == [1.25, -1, -2.5, 1.25]


def test_a_query_number_that_a_float_cannot_tell_from_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    used = data_config(
        source="rows",
        batch_size=2,
        shuffle=False,
        rows={"qid": True, "columns": {"sparse": {"features": "label"}}, "values": False},
    )
    for largest in (float((1 << 53) - 1), float(1 << 53), -float(1 << 60)):
        pyarrow.parquet.write_table(pyarrow.table({"label": [0, 1], "qid": [1.0, largest]}), path)
        with closing(open_stream(used, [path], seed=1)) as stream:
            if abs(largest) < 1 << 53:
                (batch,) = read_batches(stream, 1)
                assert batch.dense["qid"].tolist() == [1, int(largest)]
                continue
            with pytest.raises(DataError, match=r"qid: the column is of double, .* write the column as int64"):
                list(read_batches(stream, 1))
