"""Files with columns: contents as an independent reading has them, order as of any source, errors with their line."""

from __future__ import annotations

import csv
import gzip
import io
import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from loader import _native
from loader.errors import DataError
from loader.files.identity import identify
from loader.rows.formats.csv import whole_size
from loader.rows.readers import read_column_texts
from loader.stream.config import DataConfig
from loader.stream.data import open_stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import read_batches
from loader.stream.sources import data_config

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
        writer.writerow(
            [f"{random.integers(1, 4)}", age, user, first, second, "x" * random.integers(PADDING), f"{i % 2}"]
        )
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


PADDING = 15_000  # bytes of a line at most: 400 lines are some pieces of 1 MiB


@pytest.fixture(scope="module")
def text() -> str:
    return table(400)


@pytest.fixture
def path(text: str, tmp_path: Path) -> Path:
    (tmp_path / "clicks.csv").write_text(text, encoding="utf-8")
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


NUMBER = "expected a decimal number that float32 can hold, got"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,1,,a,b", ": expected 6 columns, got 5"),
        ("1,1,,a,b,c,d", ": expected 6 columns, got 7"),
        ("1;1;;a;b;c", ": expected 6 columns, got 1"),
        (" ", ": expected 6 columns, got 1"),
        ("2,1,,a,b,c", ", byte 1: expected a label of 0, 1 or -1 (data.rows.label), got '2'"),
        (",1,,a,b,c", f", byte 1: label: {NUMBER} ''"),
        ("nan,1,,a,b,c", f", byte 1: label: {NUMBER} 'nan'"),
        ("1,-1,,a,b,c", ", byte 3: expected a weight of 0 or more, got '-1'"),
        ("1,,,a,b,c", f", byte 3: weight: {NUMBER} ''"),
        ("1,1,1e39,a,b,c", f", byte 5: age: {NUMBER} '1e39'"),
        ("1,1,nan,a,b,c", f", byte 5: age: {NUMBER} 'nan'"),
        ("1,1,-inf,a,b,c", f", byte 5: age: {NUMBER} '-inf'"),
        ("1,1,1_0,a,b,c", f", byte 5: age: {NUMBER} '1_0'"),
        ("1,1,0x10,a,b,c", f", byte 5: age: {NUMBER} '0x10'"),
        ("1,1,1 2,a,b,c", f", byte 5: age: {NUMBER} '1 2'"),
        ("1,1,1e,a,b,c", f", byte 5: age: {NUMBER} '1e'"),
        ("1,1, ,a,b,c", f", byte 5: age: {NUMBER} ' '"),
        ("1,1,\u0661,a,b,c", f", byte 5: age: {NUMBER} '\\xd9\\xa1'"),
        ('1,1,"",a,"b\n', ", byte 10: quoted text does not end on its line; text with line breaks can't be read"),
        ('1,1,,"a"b,b,c', ", byte 9: expected ',' or the end of the line behind quoted text"),
        ('1,1,,"a""b,b,c', ", byte 6: quoted text does not end on its line"),
        ("1,1,,\udcff,b,c", ", byte 6: expected UTF-8 text"),
        ("1,1,,a,b,\udcc3", ", byte 10: expected UTF-8 text"),
        ("1,1,,a,\udced\udca0\udc80,c", ", byte 8: expected UTF-8 text"),
    ],
)
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_line_that_is_none_is_told_with_its_place(line: str, said: str, far: bool, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    good = GOOD * 30 if not far else GOOD.replace("c", "c" * 50_000) * 30  # of two pieces
    path.write_bytes((HEADER + good + "\n" + line + "\n" + GOOD).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError) as caught:
        read(config(shuffle=False), [path], 1)
    assert str(caught.value).startswith(f"{path}: line 33{said}")
    before = read(config(shuffle=False, on_bad_data="skip", batch_size=10), [path], 2) if far else []
    assert len(before) == (20 if far else 0)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (HEADER, 0),
        ("", 0),
        ("\n\n" + HEADER, None),
        (HEADER + GOOD.rstrip(), 1),
        (HEADER + "\n\r\n" + GOOD + "\n\n" + GOOD, 2),
        (HEADER.replace("\n", "\r\n") + GOOD.replace("\n", "\r\n") * 3, 3),
        ("\ufeff" + HEADER + GOOD, 1),
        ("\ufeff" + HEADER.replace("clicked", '"clicked"') + GOOD, 1),
        (HEADER.replace("age", " age "), 0),
        (HEADER.replace("\n", ",\n") + GOOD.replace("\n", ",\n"), 1),
        (HEADER + '"1"," 1 "," 5 ",a,b,c\n', 1),
        (HEADER + '1,1,,"a ""b"" c","",\n', 1),
        (HEADER + '1,1,,a "b,"",c""\n', 1),
        (HEADER + "1,1,,a\0b,b,c\n", 1),
        (HEADER + "1,1,-0," + "a" * 3_000_000 + ",b,c\n" + GOOD, 2),
    ],
)
def test_odd_files_are_read_or_refused(
    text: str, rows: int | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    limit = csv.field_size_limit(1 << 24)
    request.addfinalizer(lambda: csv.field_size_limit(limit))
    path = tmp_path / "odd.csv"
    path.write_bytes(text.encode())
    if rows is None:
        with pytest.raises(DataError, match=r"odd\.csv: line 1: no column 'clicked' .* there are $"):
            open_stream(config(), [path], 3)
        return
    if rows == 0:
        with pytest.raises(
            DataError, match=r"a whole epoch has no entry|there is nothing to read: no file has an entry"
        ):
            read(config(), [path], 1)
        return
    used = config(batch_size=rows, shuffle=False)
    found = read(used, [path], 1)
    wanted = [sample(row) for row in csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), strict=True) if any(row)]
    assert [row[0] for row in found] == [1.0] * rows
    assert found == wanted


@pytest.mark.parametrize("quote", ['"', "'", ""])
@given(rows=st.lists(st.lists(st.text(max_size=6), min_size=3, max_size=3), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_lines_are_cut_as_pythons_csv_cuts_them(quote: str, rows: list[list[str]]) -> None:
    cut = _native.CsvCut(";", quote, header=False)
    for row in rows:
        texts = [re.sub(r"[\r\n\0]", "", text) for text in row]
        if not quote:
            texts = [text.replace(";", ",") for text in texts]
        line = io.StringIO()
        style: Any = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        csv.writer(line, delimiter=";", lineterminator="", **style).writerow(texts)
        assert [text.decode() for text in cut.split(line.getvalue().encode())] == texts
        loose = ";".join(texts)
        try:
            expected = next(csv.reader([loose], delimiter=";", strict=True, **style), [""])
        except csv.Error:
            with pytest.raises(ValueError, match=r"byte \d+: "):
                cut.split(loose.encode())
        else:
            assert [text.decode() for text in cut.split(loose.encode())] == (expected or [""])


@given(text=st.binary(max_size=40), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_the_hash_is_that_of_the_package_xxhash(text: bytes, seed: int) -> None:
    assert _native.xxh64(text, seed) == xxhash.xxh64(text, seed=seed).intdigest()


@given(data=st.binary(max_size=30) | st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300, deadline=None)
def test_text_is_utf_8_as_python_takes_it(data: bytes) -> None:
    line = b"1," + data.replace(b"\n", b"").replace(b",", b"").replace(b"\r", b"")
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(line + b"\n")
        file.flush()
        rows = {"num_features": 9, "values": False, "columns": {"header": False, "label": 0, "sparse": {"features": 1}}}
        more = {"quote": "", "float_ids": "text"}
        used = data_config(source="rows", batch_size=1, rows=rows | {"columns": rows["columns"] | more})  # type: ignore[operator]
        try:
            line.decode()
            read_one = True
        except UnicodeDecodeError:
            read_one = False
        with closing(open_stream(used, [Path(file.name)], 3)) as stream:
            if read_one:
                assert len(list(read_batches(stream, 1))) == 1
                return
            with pytest.raises(DataError, match=r"line 1, byte \d+: expected UTF-8 text"):
                list(read_batches(stream, 1))


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


def test_compressed_files_are_read_in_their_order(path: Path) -> None:
    expected = read(config(shuffle=False), [path], 8)
    for name, packed in (("a.csv.gz", gzip.compress(path.read_bytes())), ("b.csv.zst", zstd(path))):
        file = path.with_name(name)
        file.write_bytes(packed)
        assert read(config(shuffle=False), [file], 8) == expected
        assert sorted(read(config(), [file], 8)) == sorted(expected)
    (path.with_name("cut.csv.gz")).write_bytes(gzip.compress(path.read_bytes())[:-9])
    with pytest.raises(
        DataError, match=r"gzip data can't be decoded behind line \d+: the file ends in the middle of a"
    ):
        read(config(), [path.with_name("cut.csv.gz")], 9)


def zstd(path: Path) -> bytes:
    return subprocess.run(["zstd", "-c", path], check=True, capture_output=True).stdout


def test_a_file_whose_header_lacks_a_column_is_left_out_on_demand(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = path.with_name("other.csv")
    other.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"other\.csv: line 1: no column 'clicked'"):
        open_stream(config(), [path, other], seed=3)
    open_stream(config(on_bad_data="skip"), [path, other], seed=3).close()
    assert "is left out (data.on_bad_data)" in caplog.text


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("header", [True, False])
def test_a_column_is_read_beside_the_rows_from_the_same_files(
    header: bool, end: str, mark: str, tmp_path: Path
) -> None:
    text = mark + ('"na,me",label' + end) * header + end * header + f'"a,1",1{end}{end}b,0{end}'
    contents = {"a.csv": text.encode(), "empty.csv": b"", "b.csv.gz": gzip.compress(text.encode())}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    columns = {"header": header, "label": 1, "sparse": {"user": 0}}
    rows = {"fields": {"user": [0, 1000]}, "values": False, "columns": columns}
    used = data_config(source="rows", batch_size=4, shuffle=False, rows=rows)
    files = identify([tmp_path / name for name in contents])
    found = list(read_column_texts(used, files, "na,me" if header else "0"))
    assert found == ["a,1", "b"] * 2
    with closing(open_stream(used, files, 3)) as stream:
        (batch,) = (batch.copy() for batch in read_batches(stream, 1))
    assert batch.sparse["user"].features.tolist() == [feature(text, 1000, 0) for text in found]


def test_a_growing_file_ends_with_its_last_whole_line(path: Path) -> None:
    size = path.stat().st_size
    for more in (b"", b"1,1,,a", b"1,1,," + b"a" * 5000):
        path.write_bytes(path.read_bytes()[:size] + more)
        assert whole_size(identify([path])[0]) == size


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"delimiter": "\n"}, "delimiter: '\\n': expected one ASCII character that ends no line"),
        ({"delimiter": '"'}, "delimiter: '\"': the quote is the same"),
        ({"delimiter": "5"}, "delimiter: '5': expected one ASCII character that ends no line and no number has"),
        ({"quote": "-"}, "quote: '-': expected one ASCII character that ends no line and no number has"),
        ({"label": -1}, "label"),
        ({"sparse": {"tags": []}}, "sparse.tags"),
    ],
)
def test_settings_that_make_no_sense_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        config(columns)
    assert said in str(caught.value)


@pytest.mark.parametrize("word", ["null", "NaN", "NULL", "None", "<NA>", "n/a", "\\N", "-"])
def test_a_word_for_missing_is_named_with_the_setting_for_it(word: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"label,price,features\n1,2,a\n0,{word},b\n")
    rows: dict[str, Any] = {"dense": ["price"], "values": False}
    with pytest.raises(DataError, match=r"line 3, byte 3: price: .*: if that stands .* data.rows.columns.missing"):
        read_all(path, rows)
    rows["columns"] = {"missing": ["", word], "missing_number": 7}
    with closing(open_stream(data_config(source="rows", batch_size=2, shuffle=False, rows=rows), [path], 3)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["price"].tolist() == [2, 7]


@pytest.mark.parametrize("content", ["label,features\n", "label,features", "", "\n\n"])
def test_a_file_without_rows_says_so(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    message = r"a.csv: (a whole epoch has no entry: there is none|there is nothing to read|line 1: no column)"
    with pytest.raises(DataError, match=message):
        read_all(path, {"values": False})


def read_all(path: Path, rows: dict[str, Any]) -> None:
    with closing(open_stream(data_config(source="rows", batch_size=2, rows=rows), [path], 3)) as stream:
        list(read_batches(stream, 1))
