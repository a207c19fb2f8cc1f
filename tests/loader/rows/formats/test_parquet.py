"""Parquet files: contents as pyarrow and the same data as text have them, order as of any source, errors in a line."""

from __future__ import annotations

import contextlib
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from loader.errors import DataError
from loader.stream.config import DataConfig
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest

COUNT = 300
ROWS: dict[str, Any] = {
    "fields": {"user": [0, 1000], "words": [1000, 1500]}, "values": False, "dense": ["age"], "label": "binary",
    "columns": {"label": "clicked", "sparse": {"user": ["name", "number"]}},
}  # fmt: skip


def config(**keys: Any) -> DataConfig:
    return data_config(**{"source": "rows", "batch_size": 30, "window_chunks": 3, "rows": ROWS, **keys})


def columns() -> dict[str, Any]:
    random = np.random.default_rng(2)
    return {
        "clicked": [int(label) for label in random.integers(0, 2, COUNT)],
        "age": [None if i % 5 == 0 else i / 4 for i in range(COUNT)],
        "name": [None if i % 7 == 0 else f"ü{i % 11}" for i in range(COUNT)],
        "number": [int(number) for number in random.integers(-5, 5, COUNT)],
        "words": [None if i % 6 == 0 else [int(w) for w in random.permutation(500)[: i % 4]] for i in range(COUNT)],
    }


def write(path: Path, **changed: Any) -> Path:
    table = pyarrow.table({name: column for name, column in (columns() | changed).items() if column is not None})
    pyarrow.parquet.write_table(table, path, row_group_size=40)
    return path


def uint64_lists() -> Any:
    """Of hashes, which are numbers of 64 bits."""
    return pyarrow.array([[(1 << 63) + 5]] * COUNT, pyarrow.list_(pyarrow.uint64()))


def digests(used: DataConfig, path: Path) -> list[str]:
    with closing(open_stream(used, [path], seed=3)) as stream:
        return [digest(batch) for batch in read_batches(stream, COUNT // 30)]


def test_numbers_and_lists_are_those_of_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    expected = columns()
    with closing(open_stream(config(shuffle=False, batch_size=COUNT), [path], seed=3)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["label"].tolist() == expected["clicked"]
        assert batch.dense["age"].tolist() == [age or 0 for age in expected["age"]]
        view = batch.sparse["words"]
        parts = np.split(view.features, view.offsets[1:COUNT])
        assert [sorted(part.tolist()) for part in parts] == [sorted(words or []) for words in expected["words"]]


def test_text_and_integers_are_hashed_as_in_a_text_file(tmp_path: Path) -> None:
    rows = ROWS | {"fields": {"user": [0, 1000]}}
    used = config(rows=rows, shuffle=False)
    as_text = tmp_path / "a.csv"
    there = columns()
    names = ["clicked", "age", "name", "number"]
    lines = zip(*(["" if each is None else str(each) for each in there[name]] for name in names), strict=True)
    as_text.write_text("\n".join(",".join(line) for line in [names, *lines]), encoding="utf-8")
    path = write(tmp_path / "a.parquet")
    assert digests(used, path) == digests(used, as_text)
    packed = write(tmp_path / "b.parquet", name=pyarrow.array(there["name"]).dictionary_encode())
    assert digests(used, packed) == digests(used, as_text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clicked": None}, "no column 'clicked' (data.rows.columns.label); there are age, name, number, words"),
        ({"clicked": ["a"] * COUNT}, "label: a column of numbers is expected, not of string; data"),
        ({"clicked": [None, *[1] * (COUNT - 1)]}, "row group 0: label: row 0 has none"),
        ({"clicked": [2] * COUNT}, "row group 0, row 0: expected a label of 0, 1 or -1 (data.rows.label)"),
        (
            {"number": [1.5] * COUNT},
            "user: a column of text, integers, booleans or dates is expected, one of",
        ),
        (
            {"words": [[1, None]] * COUNT},
            "row group 0: words: 40 features are missing within their lists, of row 0 the",
        ),
        ({"words": [*[[1]] * 45, *[[500]] * 255]}, "row group 1, row 5: words has feature 500; it has 0 to 499"),
        (
            {"words": uint64_lists()},
            "row group 0: words: features: 9223372036854775813 given; at most 92233720368547758",
        ),
        (
            {"words": [[[1]]] * COUNT},
            "words: a column of text, integers, booleans or dates is expected, on",
        ),
        ({"number": [[1]] * COUNT}, "user: a column of lists of integers is a field alone, and 2 are"),
        ({"clicked": [float("nan")] * COUNT}, "row group 0, row 0: label is not finite as float32: nan"),
        ({"age": [1e39] * COUNT}, "row group 0, row 0: age is not finite as float32: inf"),
    ],
)
def test_columns_of_another_kind_are_told(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.parquet", **changed)
    with pytest.raises(DataError) as caught:
        digests(config(shuffle=False), path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_columns_of_every_kind_of_text_and_list_are_read_alike(tmp_path: Path) -> None:
    same = columns() | {"words": [[i % 9, 100 + i] for i in range(COUNT)], "number": [None] * COUNT}
    path = write(tmp_path / "a.parquet", **same | {"number": pyarrow.array(same["number"], pyarrow.int64())})
    for changed in (
        {"words": pyarrow.array(same["words"], pyarrow.list_(pyarrow.int32(), 2))},
        {"words": pyarrow.array(same["words"], pyarrow.large_list(pyarrow.uint64()))},
        {"name": pyarrow.array(same["name"], pyarrow.large_string())},
        {"name": pyarrow.array(same["name"], pyarrow.string_view())},
        {"name": pyarrow.array(same["name"]).dictionary_encode()},
        {"name": pyarrow.array(same["name"]).cast(pyarrow.dictionary(pyarrow.uint8(), pyarrow.large_string()))},
        {"name": pyarrow.array(same["name"]).cast(pyarrow.dictionary(pyarrow.uint32(), pyarrow.large_string()))},
    ):
        other = write(tmp_path / "b.parquet", **same | {"number": pyarrow.nulls(COUNT)} | changed)
        assert digests(config(), other) == digests(config(), path)


def test_a_column_is_not_taken_for_another_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parts = [pyarrow.array([0, 1]), pyarrow.array([1, 0]), pyarrow.array(["a", "b"])]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(parts, names=["clicked", "clicked", "name"]), path)
    rows = {"num_features": 9, "values": False}
    for label, said in (
        ("clicked", "more than one column 'clicked' (data.rows.columns.label); there are clicked, clicked, name"),
        (1, "column 1 (data.rows.columns.label) shares its name 'clicked' with another"),
    ):
        used = config(rows=rows | {"columns": {"label": label, "sparse": {"features": "name"}}})
        with pytest.raises(DataError) as caught:
            digests(used, path)
        assert str(caught.value) == f"{path}: {said}"


def test_no_byte_of_a_file_makes_more_than_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    whole = path.read_bytes()
    for place in range(4, len(whole), max(1, len(whole) // 200)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            digests(config(), path)


def test_a_file_that_is_cut_or_damaged_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    whole = path.read_bytes()
    for data in (whole[:500], whole[:4] + b"\xff" * 600 + whole[604:]):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"a\.parquet: can't be read as parquet: "):
            digests(config(), path)


def test_a_package_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("clicked\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "loader.rows.formats.parquet.reader", raising=False)
    with pytest.raises(ValueError, match=r"needs the package pyarrow: pip install 'sparsepool\[parquet\]'"):
        open_stream(config(), [path], seed=3)


def test_a_file_without_rows_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    schema = pyarrow.schema([("label", pyarrow.int64()), ("features", pyarrow.string())])
    pyarrow.parquet.write_table(schema.empty_table(), path)
    used = data_config(source="rows", batch_size=2, rows={"values": False})
    message = r"a.parquet: (a whole epoch has no entry: there is none|there is nothing to read)"
    with pytest.raises(DataError, match=message), closing(open_stream(used, [path], 3)) as stream:
        list(read_batches(stream, 1))
