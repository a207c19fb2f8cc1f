"""Files with columns: contents as an independent reading has them, order as of any source, errors with their line."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from loader.batch.schema import SparseBatch
from loader.batch.slots import allocate_slots, read_batches
from loader.config import DataConfig
from loader.errors import DataError
from loader.files.identity import identify
from loader.formats.csv import lines, whole_size
from loader.sources import data_config, open_stream, samples_per_epoch
from tests.loader.stream.batch_contents import digest
from tests.loader.stream.test_stream import run

SIZES = {"user": 1000, "tags": 50}
ROWS: dict[str, Any] = {
    "fields": {"user": [0, 1000], "tags": [1000, 1050]},
    "values": False,
    "label": "binary",
    "weight": True,
    "dense": ["age"],
    "columns": {"label": "clicked", "sparse": {"tags": ["first", "second"]}, "seed": 5},
}
Sample = tuple[float, float, float, tuple[int, ...], tuple[int, ...]]


def config(columns: dict[str, Any] | None = None, **keys: Any) -> DataConfig:
    rows = ROWS | {"columns": ROWS["columns"] | (columns or {})}
    return data_config(**{"source": "rows", "batch_size": 50, "window_chunks": 3, "rows": rows, **keys})


def feature(text: str, size: int, seed: int) -> int:
    return int(xxhash.xxh64(text.encode(), seed=seed).intdigest() % size)


def sample(row: dict[str, str]) -> Sample:
    tags = {feature(row[name], 50, 5 + i) for i, name in enumerate(("first", "second")) if row[name]}
    user = (feature(row["user"], 1000, 5),) if row["user"] else ()
    age = float(np.float32(row["age"] or 0))
    return float(row["clicked"]), float(row["weight"]), age, user, tuple(sorted(tags))


def table(count: int) -> str:
    """Comma separated, of lines that have any length, with quotes and with missing values."""
    random = np.random.default_rng(7)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["weight", "age", "user", "first", "second", "unused", "clicked"])
    for i in range(count):
        user = ["", f"ü{random.integers(300)}", f'{i % 7}, "{random.integers(30)}"'][random.integers(3)]
        age = ["", f"{random.normal():.4f}", "1e3"][random.integers(3)]
        first, second = (["", *"abcdef"][k] for k in random.integers(7, size=2))
        writer.writerow([f"{random.integers(1, 4)}", age, user, first, second, "x" * random.integers(40), f"{i % 2}"])
    return text.getvalue()


def samples_of(batch: SparseBatch) -> list[Sample]:
    fields: list[list[tuple[int, ...]]] = []
    for name in SIZES:
        view = batch.sparse[name]
        offsets = view.offsets.tolist()
        fields.append(
            [
                tuple(view.features[a:b].tolist())
                for a, b in zip(offsets, [*offsets[1:], view.features.size], strict=False)
            ]
        )
    dense = [batch.dense[name].tolist() for name in ("label", "weight", "age")]
    return list(zip(*dense, *(field[: len(dense[0])] for field in fields), strict=True))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lines, "BLOCK", 700)
    (tmp_path / "clicks.csv").write_text(table(400), encoding="utf-8")
    return tmp_path / "clicks.csv"


def read(used: DataConfig, paths: Sequence[Path], count: int) -> list[Sample]:
    with closing(open_stream(used, paths, seed=3)) as stream:
        return [row for batch in read_batches(stream, count) for row in samples_of(batch)]


def test_rows_are_those_of_an_independent_reading(path: Path) -> None:
    expected = [sample(row) for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))]
    assert read(config(shuffle=False), [path], 8) == expected
    windows = path.with_name("windows.csv")
    windows.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert read(config(shuffle=False), [windows], 8) == expected
    tabs = path.with_name("clicks.tsv")
    tabs.write_text("\n".join("\t".join(row) for row in csv.reader(io.StringIO(path.read_text()))), encoding="utf-8")
    assert read(config({"quote": ""}, shuffle=False), [tabs], 8) == expected
    bare = path.with_name("bare.csv")
    bare.write_text(path.read_text().partition("\n")[2])
    numbers = {"header": False, "label": 6, "weight": 0, "dense": {"age": 1}, "sparse": {"user": 2, "tags": [3, 4]}}
    assert read(config(numbers, shuffle=False), [bare], 8) == expected
    assert sorted(read(config(), [path], 8)) == sorted(expected)


def test_order_and_seek_are_those_of_any_source(path: Path) -> None:
    found = set()
    for threads in (1, 3):
        with closing(open_stream(config(threads=threads), [path], seed=3)) as stream:
            found.add(tuple(digest(batch) for batch in read_batches(stream, 12)))
    assert len(found) == 1
    (digests,) = found
    with closing(open_stream(config(), [path], seed=3)) as stream:
        slots = allocate_slots(stream.schema, 4)
        stream.attach(slots)
        expected = [(filled.cursor, hashed) for filled, hashed in run(stream, slots, 12)]
        assert [hashed for _, hashed in expected] == list(digests)
        stream.seek(expected[5][0])
        assert [(filled.cursor, hashed) for filled, hashed in run(stream, slots, 7)] == expected[5:]
    assert samples_per_epoch(config(), [path], 3) == pytest.approx(400, rel=0.1)


def test_blocks_of_any_size_are_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.csv"
    text = b"".join(b"x" * length + b"\n" for length in (0, 3, 3, 7, 0, 0, 30, 1, 3, 3, 2))
    for whole in (text, text + b"no end", b"x" * 20):
        path.write_bytes(whole)
        (file,) = identify([path])
        for size in range(1, 25):
            monkeypatch.setattr(lines, "BLOCK", size)
            there = lines.Lines(file, may_grow=False)
            blocks = [there.block(number) for number in range(there.num_blocks)]
            assert b"".join(blocks) == whole
            assert all(block.endswith(b"\n") for block in [block for block in blocks if block][:-1])
            before = [len(b"".join(blocks[:number]).splitlines()) for number in range(len(blocks))]
            assert [there.lines_before(number) for number in range(len(blocks))] == before


def test_missing_values_are_as_the_settings_say(path: Path) -> None:
    few = path.with_name("few.csv")
    few.write_text("clicked,weight,age,user,first,second\n1,1,NA,NA,,x\n")
    rules = {"missing": ["NA", ""], "missing_number": -7.5, "missing_category": "feature"}
    tags = tuple(sorted({feature("", 50, 5), feature("x", 50, 6)}))
    used = config(rules, shuffle=False, batch_size=1)
    assert read(used, [few], 1) == [(1.0, 1.0, -7.5, (feature("", 1000, 5),), tags)]


def test_a_file_of_criteo_needs_the_name_of_its_layout_only(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    columns = ["1", *map(str, range(-1, 12)), *(f"{number:08x}" for number in range(26))]
    columns[5], columns[20] = "", ""
    path.write_text("\t".join(columns) + "\n")
    rows = {"dense": ["I1", "I5"], "num_features": 1 << 30, "values": False, "columns": {"layout": "criteo"}}
    used = data_config(source="rows", format="csv", batch_size=1, rows=rows)
    with closing(open_stream(used, [path], seed=3)) as stream:
        (batch,) = read_batches(stream, 1)
        found = {name: numbers.tolist() for name, numbers in batch.dense.items()}
        features = batch.sparse["features"].features.tolist()
    assert found == {"label": [1.0], "I1": [-1.0], "I5": [0.0]}
    assert features == sorted(feature(text, 1 << 30, i) for i, text in enumerate(columns[14:]) if text)


def test_a_hash_is_xxh64_of_the_text() -> None:
    assert feature("", 1 << 64, 0) == 0xEF46DB3751D8E999  # of the algorithm's own description


HEADER = "clicked,weight,age,user,first,second\n"
GOOD = "1,1,,a,b,c\n"


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        (GOOD + "1,1,,a,b\n", {}, "expected 6 columns, got 5"),
        (GOOD + "2,1,,a,b,c\n", {}, "expected a label of 0, 1 or -1 (data.rows.label), got 2"),
        (GOOD + ",1,,a,b,c\n", {}, "label: expected a number that float32 can hold, got ''"),
        (GOOD + "1,-1,,a,b,c\n", {}, "expected a weight of 0 or more, got -1"),
        (GOOD + "1,1,1e39,a,b,c\n", {}, "age: expected a number that float32 can hold, got '1e39'"),
        (GOOD + "1,1,nan,a,b,c\n", {}, "age: expected a number that float32 can hold, got 'nan'"),
        (GOOD + "1,1,1_0,a,b,c\n", {}, "age: expected a number that float32 can hold, got '1_0'"),
        (GOOD + '1,1,,"a\nb",b,c\n', {}, "quoted text does not end on its line; text with line breaks can't be read"),
        (GOOD + '1,1,,"a"b,b,c\n', {}, "',' expected after '\"'"),
        (GOOD + "1,1,,\xff,b,c\n", {}, "byte 5 is no UTF-8 text"),
    ],
)
def test_a_line_that_is_none_is_told_with_its_number(
    text: str, columns: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK", 64)
    path = tmp_path / "bad.csv"
    path.write_bytes((HEADER + GOOD * 30 + "\n" + text).encode("latin-1"))
    with pytest.raises(DataError) as caught:
        read(config(columns, shuffle=False), [path], 1)
    assert str(caught.value).startswith(f"{path}: line 34: {said}")
    before = read(config(columns, shuffle=False, on_bad_data="skip", batch_size=10), [path], 3)
    assert len(before) == 30


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": "klicked"}, "line 1: no column 'klicked' (data.rows.columns.label); there are clicked, weight, age"),
        ({"label": 6}, "line 1: no column 6 (data.rows.columns.label): there are 0 to 5"),
        ({"header": False}, "line 1: no column 'clicked' (data.rows.columns.label): without a header, a column is"),
        ({"delimiter": ";"}, "line 1: no column 'clicked' (data.rows.columns.label); there are clicked,weight,age"),
    ],
)
def test_columns_that_are_not_there_are_told(columns: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + GOOD)
    with pytest.raises(DataError) as caught:
        open_stream(config(columns), [path], seed=3)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_compressed_text_is_refused_and_left_out_on_demand(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    packed = path.with_name("clicks.csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match=r"is compressed, and columns are read as plain text: gzip -dk /"):
        open_stream(config(), [path, packed], seed=3)
    open_stream(config(on_bad_data="skip"), [path, packed], seed=3).close()
    assert "is left out (data.on_bad_data)" in caplog.text


def test_a_growing_file_ends_with_its_last_whole_line(path: Path) -> None:
    size = path.stat().st_size
    for more in (b"", b"1,1,,a", b"1,1,," + b"a" * 5000):
        path.write_bytes(path.read_bytes()[:size] + more)
        assert whole_size(identify([path])[0]) == size


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"delimiter": "\n"}, "delimiter = '\\n': expected one ASCII character that ends no line"),
        ({"delimiter": '"'}, "quote = '\"': the delimiter is the same"),
        ({"label": -1}, "label"),
        ({"sparse": {"tags": []}}, "sparse.tags"),
    ],
)
def test_settings_that_make_no_sense_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        config(columns)
    assert said in str(caught.value)
