"""Labels by what files have in their place: data.rows.label_map, in every format."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from loader.errors import DataError
from loader.rows.readers import without_labels
from loader.rows.settings import RowsConfig
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config

WORDS = {"no": 0, "yes": 1}
NUMBERS = {"1": 0, "2": 1}
TRUTH = {"False": 0, "True": 1}


def svmlight(path: Path, labels: list[Any]) -> None:
    path.write_text("".join(f"{label} 1:1\n" for label in labels))


def csv(path: Path, labels: list[Any]) -> None:
    path.write_text("label,features\n" + "".join(f'"{label}",a\n' for label in labels))


def parquet(path: Path, labels: list[Any]) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"label": labels, "features": ["a"] * len(labels)}), path)


def npz(path: Path, labels: list[Any]) -> None:
    count = len(labels)
    arrays = {"data": np.ones(count), "indices": np.zeros(count, int), "indptr": np.arange(count + 1)}
    np.savez(path, **arrays, y=np.array(labels))  # type: ignore[arg-type]


FORMATS = {"a.svm": svmlight, "a.csv": csv, "a.parquet": parquet, "a.npz": npz}


def labels_of(path: Path, count: int, **rows: Any) -> list[float]:
    used = data_config(
        source="rows", batch_size=count, shuffle=False, rows={"num_features": 9, "values": False, **rows}
    )
    with closing(open_stream(used, [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        found: list[float] = batch.dense["label"].tolist()
        return found


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("given", "known"),
    [(["yes", "no", "yes"], WORDS), ([2, 1, 2], NUMBERS), (["True", "False", "True"], TRUTH)],
)
def test_a_label_is_the_number_of_its_text(name: str, given: list[Any], known: dict[str, int], tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name, given)
    assert labels_of(tmp_path / name, 3, label="binary", label_map=known) == [1, 0, 1]


@pytest.mark.parametrize("name", ["a.parquet", "a.npz"])
def test_typed_labels_are_named_by_their_values(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name, [True, False])
    assert labels_of(tmp_path / name, 2, label_map={"true": 7, "false": -1.5}) == [7, -1.5]
    FORMATS[name](tmp_path / name, [2.0, 0.5])
    assert labels_of(tmp_path / name, 2, label="class", num_classes=4, label_map={"2": 3, "0.5": 1}) == [3, 1]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a.svm", "line 2, column 1"),
        ("a.csv", "line 3, byte 1"),
        ("a.parquet", "row group 0: row 1"),
        ("a.npz", "row 1"),
    ],
)
def test_another_label_is_told_with_its_place(name: str, place: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name, ["yes", "maybe", "no", "maybe"])
    with pytest.raises(DataError) as caught:
        labels_of(tmp_path / name, 4, label="binary", label_map=WORDS)
    assert str(caught.value).endswith(f"{place}: expected a label of data.rows.label_map, no, yes; got 'maybe'")


def test_weights_stand_behind_mapped_labels(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("yes:0.5 1:1\nno 1:1\n")
    used = data_config(
        source="rows", batch_size=2, shuffle=False, rows={"num_features": 9, "weight": True, "label_map": WORDS}
    )
    with closing(open_stream(used, [tmp_path / "a.svm"], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["label"].tolist() == [1, 0]
        assert batch.dense["weight"].tolist() == [0.5, 1]


@pytest.mark.parametrize("name", FORMATS)
def test_a_prediction_reads_no_labels(name: str, tmp_path: Path) -> None:
    """Not even those that are none."""
    FORMATS[name](tmp_path / name, [5, 6])
    used = data_config(source="rows", batch_size=2, rows={"num_features": 9, "values": False, "label_map": WORDS})
    with closing(open_stream(without_labels(used), [tmp_path / name], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.dense["label"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"label": "binary", "label_map": {"a": 2}}, "label_map.a: 2 is no label: data.rows.label = 'binary'"),
        ({"label": "class", "label_map": {"a": 2}}, "label_map.a: 2 is no label: data.rows.label = 'class'"),
        ({"label": "class", "label_map": {"a": 0.5}}, "label_map.a: 0.5 is no label: data.rows.label = 'class'"),
        ({"label_map": {"a": 1e39}}, "label_map.a: 1e+39: expected a number that float32 holds"),
    ],
)
def test_a_map_to_what_is_no_label_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        RowsConfig.model_validate_json(json.dumps(settings))
    assert said in str(caught.value)
