"""The stream of svmlight files: a function of files, settings, seed and batch number (I1), however they are packed."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import subprocess
import zlib
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from loader.errors import DataChangedError, DataError
from loader.files.identity import identify
from loader.rows.settings import RowsConfig
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.interface import Compared, Cursor, Filled, Stream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.loader.rows.many_rows import FEATURES, ManyRows, digests, make, samples_in, samples_of
from tests.loader.stream.batch_contents import digest
from tests.loader.stream.test_stream import run, wait

PACKINGS = ("plain", "gzip", "gzip members", "zstd")
TWO_FIELDS = {"low": (0, 20_000), "high": (20_000, FEATURES)}
CONFIG = data_config(
    source="rows", format="svmlight", batch_size=1000, window_chunks=4, rows={"num_features": FEATURES}
)
SETTINGS: dict[str, DataConfig] = {
    "shuffled": CONFIG,
    "in file order": CONFIG.model_copy(update={"shuffle": False}),
    "dropping tails": CONFIG.model_copy(update={"tail": "drop", "window_chunks": 7}),
    "two fields": CONFIG.model_copy(update={"rows": RowsConfig(fields=TWO_FIELDS, max_active={"low": 2, "high": 3})}),
}
ROWS = 150_000


@pytest.fixture(scope="module")
def rows() -> ManyRows:
    return make(ROWS)


@pytest.fixture(scope="module")
def files(rows: ManyRows, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same text in each packing: 9 MiB, of which some 4.5 MiB are left, so that there is a restart point."""
    folder = tmp_path_factory.mktemp("rows")
    found = {name: folder / name.replace(" ", "-") for name in PACKINGS}
    found["plain"].write_bytes(rows.text)
    found["gzip"].write_bytes(gzip.compress(rows.text, 1))
    part = len(rows.text) // 7  # which ends inside of a line
    parts = [rows.text[begin : begin + part] for begin in range(0, len(rows.text), part)]
    found["gzip members"].write_bytes(b"".join(gzip.compress(text, 1) for text in parts))
    if shutil.which("zstd") or "CI" in os.environ:
        subprocess.run(["zstd", "-q", "-1", found["plain"], "-o", found["zstd"]], check=True, timeout=60)
    else:  # a frame of blocks that are not compressed
        blocks = [rows.text[begin : begin + 100_000] for begin in range(0, len(rows.text), 100_000)]
        heads = [(len(block) << 3 | (block is blocks[-1])).to_bytes(3, "little") for block in blocks]
        frame = b"".join(head + block for head, block in zip(heads, blocks, strict=True))
        found["zstd"].write_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + frame)
    return found


@pytest.mark.parametrize(
    ("settings", "packing"),
    [*(("shuffled", packing) for packing in PACKINGS), *((settings, "gzip") for settings in list(SETTINGS)[1:])],
)
def test_the_stream_is_the_same_for_any_number_of_threads_and_from_any_cursor(
    settings: str, packing: str, files: dict[str, Path]
) -> None:
    config = SETTINGS[settings]
    expected: list[tuple[Filled, str]] = []
    for threads in (3, 1, 0):
        with closing(open_stream(config.model_copy(update={"threads": threads}), [files[packing]], seed=3)) as stream:
            slots = allocate_slots(stream.schema, 3)
            stream.attach(slots)
            assert isinstance(stream, Compared)
            assert packing != "gzip" or stream.num_chunks > 16, "there is a restart point"
            if not expected:
                expected = list(run(stream, slots, 160))
                assert expected[-1][0].cursor.epoch == 1
            pick = random.Random(threads)
            for start in [pick.randrange(156) for _ in range(4)]:
                stream.seek(expected[start][0].cursor)
                for (filled, hashed), (wanted, wanted_hash) in zip(
                    run(stream, slots, 4), expected[start : start + 4], strict=True
                ):
                    assert (filled.cursor, hashed) == (wanted.cursor, wanted_hash)


@pytest.mark.parametrize("packing", PACKINGS)
def test_batches_in_file_order_are_those_of_the_lines(packing: str, rows: ManyRows, files: dict[str, Path]) -> None:
    config = CONFIG.model_copy(update={"shuffle": False, "batch_size": 7000})
    expected = digests(rows, Data(config).schema(), {"features": [(0, FEATURES)]}, 25)
    with closing(open_stream(config, [files[packing]], seed=3)) as stream:
        assert [digest(batch) for batch in read_batches(stream, 25)] == list(expected)


@pytest.mark.parametrize("batch_size", [500, 70_000])
def test_fields_are_ranges_of_numbers_with_tables_of_their_own(batch_size: int, rows: ManyRows, tmp_path: Path) -> None:
    """With more rows than a uint16 counts, too; a field may have no values."""
    path = tmp_path / "rows.svm"
    ones = rows.text.replace(b":0.", b":1#")[: 200 * 62]  # only the first feature of a row is left
    path.write_bytes(b"".join(line.split(b"#")[0] + b"\n" for line in ones.splitlines()))
    few = rows.of(np.arange(200))
    binary = data_config(
        source="rows", format="svmlight", batch_size=100, shuffle=False, rows={"num_features": 10_000, "values": False}
    )
    with closing(open_stream(binary, [path], seed=3)) as stream:
        expected = digests(few, stream.schema, {"features": [(0, 10_000)]}, 3)
        assert [digest(batch) for batch in read_batches(stream, 3)] == list(expected)
    path.write_bytes(rows.text)
    ranges = {"high": (20_000, FEATURES), "low": (3, 20_000), "lowest": (0, 3)}  # of which one is often empty
    fields = {"fields": ranges, "max_active": 2}
    config = data_config(source="rows", format="svmlight", batch_size=batch_size, shuffle=False, rows=fields)
    with closing(open_stream(config, [path], seed=3)) as stream:
        assert [field.name for field in stream.schema.sparse] == list(ranges)
        tables = {name: [range_of] for name, range_of in ranges.items()}
        assert [digest(batch) for batch in read_batches(stream, 4)] == list(digests(rows, stream.schema, tables, 4))


@pytest.mark.parametrize("values", [True, ["rest"]])
@pytest.mark.parametrize("batch_size", [500, 40_000])
def test_fields_that_share_a_table_are_bags_of_one(
    batch_size: int, values: bool | list[str], rows: ManyRows, tmp_path: Path
) -> None:
    """With more bags than a uint16 counts, too, and fields before, between and behind, in another order than theirs."""
    path = tmp_path / "rows.svm"
    path.write_bytes(rows.text if values is True else re.sub(rb"([0-3]\d{4}):0\.\d{6}", rb"\1:1", rows.text))
    ones = rows if values is True else replace(rows, values=np.ones_like(rows.values))
    ranges = {
        "rest": (36_000, FEATURES), "candidate": (12_000, 24_000), "history": (0, 12_000), "between": (24_000, 28_000),
        "left": (28_000, 32_000), "right": (32_000, 36_000),
    }  # fmt: skip
    shared = {"items": ["history", "candidate"], "sides": ["left", "right"]}
    fields = {"fields": ranges, "shared_tables": shared, "max_active": 2, "values": values}
    config = data_config(source="rows", format="svmlight", batch_size=batch_size, shuffle=False, rows=fields)
    names = ("rest", "items", "between", "sides")
    tables = {name: [ranges[field] for field in shared.get(name, [name])] for name in names}
    with closing(open_stream(config, [path], seed=3)) as stream:
        assert [(field.name, field.bags_per_sample) for field in stream.schema.sparse] == [
            (name, len(bags)) for name, bags in tables.items()
        ]
        assert [digest(batch) for batch in read_batches(stream, 4)] == list(digests(ones, stream.schema, tables, 4))


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_each_row_occurs_exactly_once_in_an_epoch(packing: str, rows: ManyRows, files: dict[str, Path]) -> None:
    expected = Counter(samples_in(rows))
    with closing(open_stream(CONFIG, [files[packing]], seed=3)) as stream:
        epoch = [sample for batch in read_batches(stream, ROWS // 1000) for sample in samples_of(batch)]
    assert Counter(epoch) == expected
    assert epoch != samples_in(rows)
    # Chunks of a compressed file are not permuted, so its first batch is from its first window.
    window = set(samples_in(rows)[: ROWS * 4 // 10])
    assert (set(epoch[:1000]) <= window) == (packing == "gzip")


def take_all(stream: Stream) -> NoReturn:
    """Until there is a fault."""
    while True:
        wait(stream)


def read_up_to_a_fault(stream: Stream) -> tuple[list[tuple[float, ...]], DataError]:
    read = []
    try:
        for batch in read_batches(stream, 1000):
            read += samples_of(batch)
    except DataError as error:
        return read, error
    raise AssertionError("there is no fault")


def with_bad_line(text: bytes, line: int) -> bytes:
    begin = 62 * (line - 1)
    assert text[begin - 1 : begin] == b"\n"
    return text[: begin + 2] + b"x" + text[begin + 3 :]


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_an_error_has_its_line_in_whatever_order_pieces_are_read(packing: str, rows: ManyRows, tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    bad = with_bad_line(rows.text, 91_234)
    path.write_bytes(bad if packing == "plain" else gzip.compress(bad, 1))
    for threads, cursor in ((1, Cursor()), (3, Cursor()), (2, Cursor(window=1))):
        with closing(open_stream(CONFIG.model_copy(update={"threads": threads}), [path], seed=5)) as stream:
            stream.attach(allocate_slots(stream.schema, 160))
            stream.seek(cursor)
            for slot in range(160):
                stream.give(slot)
            with pytest.raises(DataError) as caught:
                take_all(stream)
    reason = "line 91234, column 3: expected a feature number, got 'x"
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert caught.value.file == str(path)


def test_a_bad_line_alone_is_left_out_and_reported_once(rows: ManyRows, tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    path.write_bytes(with_bad_line(rows.text, 91_234))
    config = CONFIG.model_copy(update={"on_bad_data": "skip"})
    with closing(open_stream(config, [path], seed=5)) as stream:
        stream.attach(slots := allocate_slots(stream.schema, 4))
        epochs = [[sample for batch in read_batches(stream, 120, slots) for sample in samples_of(batch)] for _ in "ab"]
        told = stream.skipped()
    assert [(kind.reason.partition(":")[0], kind.samples, kind.units) for kind in told] == [
        ("line 91234, column 3", 1, 1)
    ]
    there = samples_in(rows)
    missing = {there[91_233]} - set(there[:91_233] + there[91_234:])
    assert not missing & set(epochs[0] + epochs[1])
    assert len(set(epochs[0] + epochs[1])) == len(set(there) - missing)


def test_a_damaged_compressed_file_is_good_up_to_the_damage(
    rows: ManyRows, files: dict[str, Path], tmp_path: Path
) -> None:
    whole = files["gzip"].read_bytes()
    path = tmp_path / "cut.gz"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    config = CONFIG.model_copy(update={"shuffle": False})
    with closing(open_stream(config, [path], seed=5)) as stream:
        read, error = read_up_to_a_fault(stream)
    assert "gzip data can't be decoded behind line " in error.reason
    assert error.reason.endswith("the file ends in the middle of a gzip member")
    there = zlib.decompressobj(31).decompress(whole[: len(whole) * 2 // 3]).count(b"\n")
    assert len(read) == there // 1000 * 1000
    assert read == samples_in(rows)[: len(read)]


@pytest.mark.parametrize("packing", ["plain", "zstd"])
def test_other_lines_than_when_they_were_read_first_are_a_change(
    packing: str, files: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(files[packing].read_bytes())
    with open_stream(CONFIG, [path], seed=5) as stream:  # type: ignore[attr-defined]
        words = np.zeros(stream.num_chunks, np.uint64)
        stream.compare_with(words)
        list(read_batches(stream, 1))
    assert words.any()
    words[words != 0] ^= np.uint64(1)
    with open_stream(CONFIG, [path], seed=5) as stream:  # type: ignore[attr-defined]
        stream.compare_with(words)
        with pytest.raises(DataChangedError, match="have other bytes than when they were read first"):
            list(read_batches(stream, 1))
    known = identify([path])
    path.write_bytes(b"0\n" + path.read_bytes()[2:] if packing == "plain" else path.read_bytes() + b"x")
    with pytest.raises(DataChangedError):
        open_stream(CONFIG, known, seed=5)


def test_a_growing_file_counts_up_to_its_last_whole_line(rows: ManyRows, tmp_path: Path) -> None:
    path = tmp_path / "growing.svm"
    path.write_bytes(rows.text[: 62 * 3000 + 17])
    config = CONFIG.model_copy(update={"growing": "ignore_new", "shuffle": False})
    known = Data(config, identify([path])).trim_files().files
    assert known[0].size == 62 * 3000
    path.write_bytes(rows.text[: 62 * 5000])
    with closing(open_stream(config, known, seed=5)) as stream:
        read = [sample for batch in read_batches(stream, 4) for sample in samples_of(batch)]
    assert read == samples_in(rows)[:3000] + samples_in(rows)[:1000]


def test_an_estimate_and_an_origin_come_from_the_same_pieces(files: dict[str, Path]) -> None:
    for packing in PACKINGS:
        there = Data.from_paths(CONFIG, [files[packing]], 3).samples_per_epoch()
        assert there == pytest.approx(ROWS, rel=0.15)
        origin = Data.from_paths(CONFIG, [files[packing]], 3).origin(Cursor(epoch=2, window=1))
        numbers = [chunk["chunk"] for chunk in origin["chunks"]]
        assert len(numbers) == 4
        assert (numbers == [4, 5, 6, 7]) == (packing != "plain")
