"""`loader inspect`, `verify` and `dump` of csv, npz and parquet files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from loader.cli.main import main
from tests.loader.rows.formats.parquet_exits import COMMANDS, exit_codes, write_table

Capture = pytest.CaptureFixture[str]
CSV = 'clicked,user,price\n1,u1,2.5\n0,"a, b",\n\n1,ü,-1e3\n'
JSON_ROW = '{"clicked": 1, "user": "u1", "price": 2.5, "tags": [3, 4]}\n'


def parquet(path: Path) -> Path:
    columns = {
        "clicked": [1, 0, 1],
        "user": ["u1", "a, b", "ü"],
        "price": [2.5, None, -1e3],
        "tags": [[3, 4], None, []],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def npz(path: Path, **changed: Any) -> Path:
    arrays: dict[str, Any] = {
        "data": [1, 0.5, 1],
        "indices": [2, 7, 7],
        "indptr": [0, 2, 2, 3],
        "y": [1, -1, 0.25],
        "shape": [3, 9],
    }
    made: dict[str, Any] = {name: np.array(array) for name, array in (arrays | changed).items()}
    np.savez(path, **made)
    return path


def said(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(list(map(str, arguments)))
    return code, *capsys.readouterr()


def test_good_files_are_whole_and_printed_row_by_row(tmp_path: Path, capsys: Capture) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    plain.write_text("\ufeff" + CSV.replace("\n", "\r\n"))
    packed.write_bytes(gzip.compress(CSV.encode()))
    matrix, table = npz(tmp_path / "a.npz"), parquet(tmp_path / "a.parquet")
    files = [plain, packed, matrix, table]
    assert said(capsys, "verify", *files) == (0, "".join(f"{file}: ok, 3 entries\n" for file in files), "")
    assert said(capsys, "dump", plain)[1] == '1,u1,2.5\n0,"a, b",\n1,ü,-1e3\n'
    assert said(capsys, "dump", packed, "--limit", 2)[1] == '1,u1,2.5\n0,"a, b",\n'
    assert said(capsys, "dump", matrix)[1] == "1 2:1 7:0.5\n-1\n0.25 7:1\n"
    assert said(capsys, "dump", matrix, "--limit", 1)[1] == "1 2:1 7:0.5\n"
    assert said(capsys, "dump", table, "--limit", 1)[1] == JSON_ROW
    assert said(capsys, "dump", table)[1].splitlines()[2] == '{"clicked": 1, "user": "ü", "price": -1000.0, "tags": []}'


def test_columns_are_told_in_numbers(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    for file, wanted in ((path, {"clicked", "user", "price"}), (parquet(tmp_path / "a.parquet"), {"tags"})):
        found = json.loads(said(capsys, "inspect", "--json", file)[1])
        columns = {column["name"]: column for column in found["columns"]}
        assert found["entries"] == 3
        assert found["bytes"] == file.stat().st_size
        assert wanted <= columns.keys()
        price, user = columns["price"], columns["user"]
        assert [price[key] for key in ("kind", "missing", "smallest", "largest", "distinct")] == [
            "number",
            1,
            -1e3,
            2.5,
            2,
        ]
        assert [user[key] for key in ("kind", "missing", "smallest", "distinct")] == ["text", 0, None, 3]
        code, out, _ = said(capsys, "inspect", file)
        assert code == 0
        assert "2: price" in out
        assert "number, -1000 to 2.5, 2 values, 1 missing" in out
    tags = {column["name"]: column for column in found["columns"]}["tags"]
    assert [tags[key] for key in ("kind", "missing", "smallest", "largest", "longest")] == ["list", 1, 3, 4, 2]


def test_columns_that_no_batch_takes_are_told_by_their_type(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.parquet"
    pair = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    columns = {
        "place": pyarrow.array([{"x": 1}, None]),
        "words": pyarrow.array([[("a", 1)], []], pair),
        "id": pyarrow.array([b"0123456789abcdef", None], pyarrow.uuid()),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    code, out, error = said(capsys, "inspect", path)
    assert (code, error) == (0, "")
    assert "0: place  struct<x: int64>, 1 missing" in out
    assert "1: words  map<string, int64" in out
    assert "2: id     extension<arrow.uuid>, 1 missing" in out


def test_times_in_nanoseconds_are_shown_whole(tmp_path: Path, capsys: Capture) -> None:
    moment, short = 1_700_000_000_123_456_789, 123_456_789
    columns = {
        "at": pyarrow.array([moment, None], pyarrow.timestamp("ns")),
        "took": pyarrow.array([short, short], pyarrow.duration("ns")),
        "clock": pyarrow.array([short, 0], pyarrow.time64("ns")),
        "all": pyarrow.array([[moment], []], pyarrow.list_(pyarrow.timestamp("ns"))),
        "in": pyarrow.array([{"at": moment}, None], pyarrow.struct([("at", pyarrow.timestamp("ns"))])),
        "coarse": pyarrow.array([1_700_000_000, None], pyarrow.timestamp("s")),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    first = json.loads(said(capsys, "dump", tmp_path / "a.parquet")[1].splitlines()[0])
    text = "2023-11-14 22:13:20.123456789"
    assert first == {
        "at": text,
        "took": short,
        "clock": "00:00:00.123456789",
        "all": [text],
        "in": {"at": text},
        "coarse": "2023-11-14 22:13:20",
    }
    code, out, error = said(capsys, "inspect", tmp_path / "a.parquet")
    assert (code, error) == (0, "")
    assert "timestamp[ns], 1 missing" in out


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_a_text_without_letters_is_missing_in_tables_of_both_kinds(kind: str, tmp_path: Path, capsys: Capture) -> None:
    texts = ["a", "", "b", "", "a"]
    array = pyarrow.array(texts)
    array = array.dictionary_encode() if kind == "dictionary" else array.cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"x": array, "y": range(5)}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{text},{row}\n" for row, text in enumerate(texts)))
    for name in ("a.csv", "a.parquet"):
        column = json.loads(said(capsys, "inspect", "--json", tmp_path / name)[1])["columns"][0]
        assert [column[key] for key in ("kind", "missing", "distinct")] == ["text", 2, 2]


def test_what_is_no_number_has_no_place_among_them(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,x,y\n1,nan,nan\n0,inf,NaN\n1,2,nan\n0,-1,nan\n1,NaN,nan\n")
    columns = {column["name"]: column for column in json.loads(said(capsys, "inspect", "--json", path)[1])["columns"]}
    assert [columns["x"][key] for key in ("kind", "smallest", "largest")] == ["number", -1.0, None]
    assert [columns["y"][key] for key in ("kind", "smallest", "largest")] == ["number", None, None]
    assert "number, -1 to inf" in said(capsys, "inspect", path)[1]


def test_features_of_an_archive_are_told_in_numbers(tmp_path: Path, capsys: Capture) -> None:
    found = json.loads(said(capsys, "inspect", "--json", npz(tmp_path / "a.npz"))[1])
    assert (found["entries"], found["features"], found["largest_number"], found["longest_row"]) == (3, 3, 7, 2)
    assert (found["values"], found["labels"]) == (True, {"-1": 1, "0.25": 1, "1": 1})


def test_damage_is_told_with_its_place(tmp_path: Path, capsys: Capture) -> None:
    text, packed, table = tmp_path / "a.csv", tmp_path / "b.csv.gz", parquet(tmp_path / "a.parquet")
    text.write_text(CSV + "1,u,3,4\n")
    packed.write_bytes(gzip.compress(CSV.encode())[:-6])
    table.write_bytes(table.read_bytes()[:-20])
    matrix = npz(tmp_path / "a.npz", y=[1, np.nan, 0])
    other = npz(tmp_path / "b.npz", indices=[2, 2, 7])
    for file, reason in (
        (text, "line 6: expected 3 columns, got 4"),
        (packed, "gzip data can't be decoded behind line 5: the file ends in the middle of a gzip member"),
        (table, "can't be read as parquet: "),
        (matrix, "row 1: label is not finite as float32: nan"),
        (other, "row 0: features has feature 2 twice"),
        (tmp_path / "none.csv", "No such file or directory"),
        (tmp_path / "none.parquet", "No such file or directory"),
        (tmp_path / "none.npz", "No such file or directory"),
    ):
        for command in ("verify", "inspect", "dump"):
            code, _, error = said(capsys, command, file)
            assert code == 1
            assert error.startswith(f"loader: {file}: "), error
            assert reason in error
            assert error.count("\n") == 1
    assert said(capsys, "dump", text)[1] == CSV.partition("\n")[2].replace("\n\n", "\n")


THREADS = """
import sys
from pathlib import Path
import loader.rows.formats.parquet.file  # and what begins threads of its own: numpy's
from loader.cli.main import main
before = set(Path("/proc/self/task").iterdir())
assert main(sys.argv[1:]) == 0
after = {(path / "comm").read_text().strip() for path in set(Path("/proc/self/task").iterdir()) - before}
assert after <= {"jemalloc_bg_thd"}, after  # of a library in C, which knows no memory of Python
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_no_thread_of_another_library_holds_memory_of_python_when_a_command_ends(command: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet")
    done = subprocess.run([sys.executable, "-c", THREADS, command, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_on_parquet_end_with_their_exit_code_on_a_busy_machine(tmp_path: Path) -> None:
    assert exit_codes(write_table(tmp_path / "a.parquet"), calls=1) == {0}
