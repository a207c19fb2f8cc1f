"""Matrices: in npz files, and from a user's code."""

from __future__ import annotations

import logging
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from loader.errors import DataError
from loader.rows import blocks
from loader.rows.block import Rows
from loader.rows.source import RowsSource
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.support.data import rows_blocks
from tests.support.data.rows_blocks import FEATURES, ROWS, matrix

MODULE = "tests.support.data.rows_blocks"


def config(rows: dict[str, Any] | None = None, **keys: Any) -> DataConfig:
    rows = {"num_features": FEATURES, **(rows or {})}
    return data_config(**{"source": "rows", "batch_size": 30, "window_chunks": 4, "rows": rows, **keys})


def of_code(name: str, rows: dict[str, Any] | None = None, **keys: Any) -> DataConfig:
    return config({"blocks": f"{MODULE}:{name}", **(rows or {})}, **keys)


def read(used: DataConfig, paths: list[Path], count: int = ROWS // 30) -> tuple[Any, list[float]]:
    """The rows as a dense matrix, and the labels."""
    found, labels = [], []
    with closing(open_stream(used, paths, seed=3)) as stream:
        for batch in read_batches(stream, count):
            view = batch.sparse["features"]
            ends = [*view.offsets.tolist()[1:], view.features.size][: used.batch_size]
            indptr = [0, *ends]
            part = scipy.sparse.csr_matrix((view.values, view.features, indptr), (used.batch_size, FEATURES))
            found.append(part.toarray())
            labels += batch.dense["label"].tolist()
    return np.concatenate(found), labels


def save(path: Path, part: slice, **changed: Any) -> Path:
    found, labels = matrix()
    x = found[part]
    arrays = {"data": x.data, "indices": x.indices, "indptr": x.indptr, "shape": x.shape, "y": labels[part]}
    np.savez_compressed(path, **{name: array for name, array in (arrays | changed).items() if array is not None})
    return path


def test_a_folder_of_npz_files_is_its_matrix(tmp_path: Path) -> None:
    paths = [save(tmp_path / f"{first:03}.npz", slice(first, first + 70)) for first in range(0, ROWS, 70)]
    found, labels = read(config(shuffle=False), paths)
    expected, expected_labels = matrix()
    assert (found == expected.toarray()).all()
    assert labels == expected_labels.tolist()
    shuffled, labels = read(config(), paths)
    rows = sorted(map(tuple, np.column_stack([shuffled, labels]).tolist()))
    assert rows == sorted(map(tuple, np.column_stack([expected.toarray(), expected_labels]).tolist()))


@pytest.mark.parametrize("name", ["matrix", "Parts", "generator"])
def test_rows_of_a_users_code_are_a_source_as_any_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ROWS", 40)
    found, labels = read(of_code(name, shuffle=False), [])
    expected, expected_labels = matrix()
    assert (found == expected.toarray()).all()
    assert labels == expected_labels.tolist()
    assert Data(of_code(name), seed=3).samples_per_epoch() is None


def test_fields_numbers_and_zeros_are_as_the_settings_say() -> None:
    rows = {"fields": {"b": [20, 60], "a": [0, 20]}, "values": ["a"], "weight": True, "qid": True}
    used = of_code("with_ones", rows, shuffle=False, batch_size=ROWS)

    def with_ones() -> tuple[Any, dict[str, Any]]:
        found, dense = rows_blocks.with_weights()
        found[:, 20:] = (found[:, 20:] != 0).astype(np.float32)
        found.data[np.isin(found.indices, (7, 25))] = 0
        return found, dense

    rows_blocks.with_ones = with_ones  # type: ignore[attr-defined]
    with closing(open_stream(used, [], seed=3)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["weight"].tolist() == list(range(ROWS))
        assert batch.dense["qid"].tolist() == [row // 7 for row in range(ROWS)]
        found = with_ones()[0]
        assert batch.sparse["b"].features.tolist() == (found[:, 20:].nonzero()[1]).tolist()
        values = batch.sparse["a"].values
        assert values is not None
        assert sorted(values.tolist()) == sorted(found.data[found.indices < 20].tolist())


def test_a_generator_is_said_to_be_one_block(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        open_stream(of_code("generator"), [], 3).close()
    assert "is a generator: its rows are one block" in caplog.text
    (fact,) = RowsSource().describe_data(of_code("generator"), [])
    assert fact.text.startswith(f"{MODULE}:generator is a generator")
    assert not any(RowsSource().describe_data(of_code(name), []) for name in ("matrix", "nothing"))


def test_validations_have_blocks_of_their_own() -> None:
    used = of_code("matrix", {"validation_blocks": f"{MODULE}:Parts"})
    found = []
    for opened in (Data.from_paths(used, [], 3, validation=True).open(), open_stream(of_code("Parts"), [], 3)):
        with closing(opened) as stream:
            found.append([digest(batch) for batch in read_batches(stream, 5)])
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"data\.rows\.validation_blocks: nothing is named"):
        Data.from_paths(of_code("matrix"), [], 3, validation=True).open()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", f"data.rows.blocks: module '{MODULE}' has no nothing"),
        ("NOTHING", "is of type int, not a function; write module:function"),
        ("NoBlocks", "num_blocks() is 0; an integer of at least 1 is expected"),
        ("fails", "RuntimeError: no data"),
        ("slice", "has no slice"),
        ("too_few_labels", "label has the shape [3] for 300 rows of the matrix"),
        ("one_label", "label has the shape [] for 300 rows of the matrix"),
        ("dict", "has no dict"),
    ],
)
def test_code_that_gives_no_rows_is_told_in_one_line(name: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        open_stream(of_code(name), [], 3)
    assert said in str(caught.value)
    assert "data.rows.blocks" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Fails", f"{MODULE}:Fails: block 0: Fails.block: KeyError: 0 ({rows_blocks.__file__}:"),
        ("Leaves", f"{MODULE}:Leaves: block 0: Leaves.block: SystemExit: 3 ({rows_blocks.__file__}:"),
        ("stops", f"{MODULE}:stops: block 0: OSError: [Errno 5] gone ({rows_blocks.__file__}:"),
        ("Odd", f"{MODULE}:Odd: block 0: a block is loader.Rows or (csr_matrix, labels), not list"),
        ("Short", f"{MODULE}:Short: block 0: label has the shape [19] for 20 rows of the matrix"),
        ("beyond", f"{MODULE}:beyond: block 0: row 0 has feature number 60, which is in no field (data.rows.fields)"),
    ],
)
def test_a_block_that_fails_ends_the_stream_in_one_line(name: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read(of_code(name, shuffle=False), [])
    assert said in str(caught.value)


LABELS = np.array([0, 1])
ONE = (np.array([0, 1, 2]), np.array([3, 4]), None)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (5, "block 0: a block is loader.Rows or (csr_matrix, labels), not int"),
        (Rows([0, 1], {"features": ONE}), "block 0: dense and sparse of loader.Rows must be mappings of names"),  # type: ignore[arg-type]
        (Rows({"label": 3}, {"features": ONE}), "block 0: label: int64 [] given; a row of numbers is expected"),  # type: ignore[dict-item]
        (Rows({"label": [[1], [2, 3]]}, {"features": ONE}), "block 0: label: setting an array element with a sequence"),  # type: ignore[dict-item]
        (
            Rows({"label": np.array([0, np.nan])}, {"features": ONE}),
            "block 0, row 1: label is not finite as float32: nan",
        ),
        (Rows({"label": LABELS}, {"features": ONE[:2]}), "block 0: field features: a tuple of offsets, features, and"),  # type: ignore[dict-item]
        (
            Rows({"label": LABELS}, {"features": (ONE[0], ONE[1] + 0.5, None)}),
            "block 0: features: features: float64 [2]",
        ),
        (
            Rows({"label": LABELS}, {"features": (ONE[0][:2], ONE[1], None)}),
            "block 0: features has 2 offsets for 2 rows",
        ),
        (
            Rows({"label": LABELS}, {"features": (np.array([1, 1, 2]), ONE[1], None)}),
            "block 0: features.offsets go from 1 to 2; from 0 to 2 is expected, the number of features",
        ),
        (
            Rows({"label": LABELS}, {"features": (np.array([0, 1, 1]), ONE[1], None)}),
            "block 0: features.offsets go from 0 to 1; from 0 to 2 is expected, the number of features",
        ),
        (
            Rows({"label": LABELS}, {"features": (ONE[0], np.array([3, 1 << 63], np.uint64), None)}),
            "block 0: features: features: 9223372036854775808 given; at most 9223372036854775807 is expected",
        ),
        (
            Rows({"label": LABELS}, {"features": (ONE[0], np.array([3, -1]), None)}),
            "block 0, row 1: features has feature -1",
        ),
    ],
)
def test_rows_that_can_not_be_are_told(rows: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_blocks.Parts, "block", lambda *_: rows)
    with pytest.raises(DataError) as caught:
        read(of_code("Parts", shuffle=False), [])
    assert str(caught.value).startswith(f"{MODULE}:Parts: {said}")


def test_rows_have_one_origin_and_files_come_first(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", slice(0, 60))
    assert read(of_code("fails"), [path], 2)[0].shape == (60, FEATURES)
    with pytest.raises(ValueError, match=r"rows come from synthetic\.num_rows, too; set one of them"):
        of_code("matrix", {"synthetic": {"num_rows": 5}})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y": None}, "no array 'y'; there are data, indices, indptr, shape"),
        ({"y": np.zeros(3)}, "label has the shape [3] for 70 rows"),
        ({"y": np.array(3.0)}, "y has the shape []; a row of numbers is expected"),
        ({"y": np.array([{}] * 70)}, "y has Python objects; numbers are expected"),
        ({"shape": np.array([69, 60])}, "shape is [69, 60], and indptr has 70 rows"),
        ({"indptr": np.array(3)}, "indptr has the shape []; a row of numbers is expected"),
        ({"indptr": np.arange(71)[::-1]}, "indptr must ascend from 0 to"),
        ({"indices": np.zeros(3)}, "indptr and indices must be rows of integers"),
        ({"data": np.zeros(3)}, "data has the shape [3]; ["),
        (
            {"indices": np.full(matrix()[0][:70].nnz, 1 << 63, np.uint64)},
            "row 0 has feature number 9223372036854775808,",
        ),
        ({"format": b"coo"}, "the matrix is not in the csr format"),
    ],
)
def test_an_archive_that_is_no_matrix_is_told(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = save(tmp_path / "bad.npz", slice(0, 70), **changed)
    with pytest.raises(DataError) as caught:
        read(config(), [path])
    assert str(caught.value).startswith(f"{path}: can't be used as npz: {said}")


def test_what_an_array_claims_is_compared_with_what_is_there(tmp_path: Path) -> None:
    path = save(tmp_path / "bad.npz", slice(0, 70), y=None)
    with zipfile.ZipFile(path, "a") as archive, archive.open("y.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"y has 0 bytes, and its header says float64 \[1000000000000\]"):
        read(config(), [path])
    np.save(tmp_path / "one.npy", np.zeros(70))
    path.write_bytes((tmp_path / "one.npy").read_bytes())
    with pytest.raises(DataError, match=r"can't be used as npz: File is not a zip file"):
        read(config(), [path])


def test_query_numbers_beyond_64_bits_are_not_wrapped_around(tmp_path: Path) -> None:
    path = save(tmp_path / "bad.npz", slice(0, 70), qid=np.full(70, (1 << 64) - 1, np.uint64))
    with pytest.raises(DataError, match=r"qid: 18446744073709551615 given; at most 9223372036854775807 is expected"):
        read(config({"qid": True}), [path])


def test_damaged_archives_are_told_and_left_out_on_demand(tmp_path: Path) -> None:
    good = save(tmp_path / "good.npz", slice(0, 60))
    bad = tmp_path / "bad.npz"
    for data in (good.read_bytes()[:500], b"", b"PK\x03\x04" + b"x" * 50, good.read_bytes()[:-100] + b"x" * 100):
        bad.write_bytes(data)
        with pytest.raises(DataError, match=r"bad\.npz: can't be used as npz: "):
            read(config(), [good, bad])
        read(config(on_bad_data="skip"), [good, bad], 2)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"data\.rows\.blocks: 'no_such:make': no module 'no_such', neither in the current"
    ):
        open_stream(of_code("", {"blocks": "no_such:make"}), [], 3)
