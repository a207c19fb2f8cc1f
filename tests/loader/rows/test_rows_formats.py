"""Rows from readers that are written in Python: a format of a user's own, and a known model."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.errors import DataError
from loader.rows.block import Rows
from loader.rows.settings import RowsConfig, SyntheticRowsConfig
from loader.rows.synthetic import draw_rows, true_probabilities
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.rows.many_rows import FEATURES, digests, make
from tests.loader.stream.batch_contents import digest
from tests.support.data import rows_format

JSON = "tests.support.data.rows_format"
RANGES = {"low": (0, 20_000), "high": (20_000, FEATURES)}
CONFIG = data_config(
    source="rows", format=JSON, batch_size=50, window_chunks=3, shuffle=False, rows={"fields": RANGES, "max_active": 2}
)
CLICKS = RowsConfig(
    fields={"user": (0, 3000), "item": (3000, 5000)}, values=("item",), label="binary",
    synthetic=SyntheticRowsConfig(num_rows=20_000, active=5),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = make(150)
    lines = []
    for label, numbers, values in zip(rows.labels, rows.numbers.tolist(), rows.values.tolist(), strict=True):
        pairs = list(zip(numbers, values, strict=True))[::-1]  # in any order
        fields = {
            name: {str(number - begin): value for number, value in pairs if begin <= number < end}
            for name, (begin, end) in RANGES.items()
        }
        lines.append(json.dumps([float(label), fields]) + "\n")
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    return tmp_path / "rows.jsonl"


def test_a_format_of_a_users_own_is_read_as_those_in_the_tree(path: Path) -> None:
    with closing(open_stream(CONFIG, [path], seed=3)) as stream:
        assert [digest(batch) for batch in read_batches(stream, 5)] == list(
            digests(make(150), stream.schema, {name: [range_of] for name, range_of in RANGES.items()}, 5)
        )
    shuffled = CONFIG.model_copy(update={"shuffle": True})
    found = set()
    for threads in (1, 3):
        with closing(open_stream(shuffled.model_copy(update={"threads": threads}), [path], seed=3)) as stream:
            found.add(tuple(digest(batch) for batch in read_batches(stream, 7)))
    assert len(found) == 1
    assert Data.from_paths(CONFIG, [path], 3).samples_per_epoch() == 150
    assert Data.from_paths(CONFIG, [path], 3).origin(Cursor(window=1))["chunks"] == [
        {"file": str(path), "chunk": 3, "offset": None}
    ]


Sparse = dict[str, tuple[Any, Any, Any]]


def rows_with(change: Callable[[dict[str, Any], Sparse], object]) -> Rows:
    """Three rows, of which something is changed."""
    dense: dict[str, Any] = {"label": np.array([0.0, 1.0, 0.0])}
    low = (np.array([0, 1, 2, 4]), np.array([5, 6, 7, 8]), np.array([1.0, 2.0, 3.0, 4.0]))
    sparse: Sparse = {"low": low, "high": (np.zeros(4, int), np.zeros(0, int), None)}
    change(dense, sparse)
    return Rows(dense, sparse)


def low(**changed: Any) -> Callable[[dict[str, Any], Sparse], object]:
    names = ("offsets", "features", "values")

    def change(_: dict[str, Any], sparse: Sparse) -> None:
        arrays = dict(zip(names, sparse["low"], strict=True)) | changed
        sparse["low"] = (arrays["offsets"], arrays["features"], arrays["values"])

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda dense, _: dense.pop("label"), "label is missing"),
        (lambda dense, _: dense.update(label=np.array(["a"])), "label: <U1 [1] given; a row of numbers is expected"),
        (lambda dense, _: dense.update(label=np.array([0, np.nan, 1])), "row 1: label is not finite as float32: nan"),
        (lambda dense, _: dense.update(label=[0, 0.5, 1]), "row 1: expected a label of 0, 1 or -1 (data.rows.label)"),
        (lambda _, sparse: sparse.pop("low"), "field low is missing; there are high"),
        (low(offsets=[0, 1, 2]), "low has 3 offsets for 3 rows: one more than rows"),
        (low(offsets=[0, 1, 2, 5]), "low.offsets go from 0 to 5; from 0 to 4 is expected"),
        (low(offsets=[0, 5, 2, 4]), "row 0: low.offsets go from 0 to 5, of 4 features"),
        (low(offsets=[0, 2, 1, 4]), "row 1: low.offsets go from 2 to 1, of 4 features"),
        (low(offsets=[-1, 1, 2, 4]), "low.offsets go from -1 to 4; from 0 to 4 is expected"),
        (low(offsets=[0, 0, 0, 4]), "row 2: low has 4 features, more than the 2 of data.rows.max_active"),
        (low(features=[5, 6, 7, 20_000]), "row 2: low has feature 20000; it has 0 to 19999"),
        (low(features=[5, -1, 7, 8]), "row 1: low has feature -1; it has 0 to 19999"),
        (low(features=[5, 6, 8, 8]), "row 2: low has feature 8 twice"),
        (
            low(features=np.array([5.0, 6.0, 7.0, 8.0])),
            "low: features: float64 [4] given; a row of numbers is expected",
        ),
        (low(values=[1.0]), "low has 1 values for 4 features"),
        (low(values=[1.0, 1e39, 3.0, 4.0]), "row 1: low: the value of feature 6 is not finite as float32: inf"),
    ],
)
def test_rows_that_are_none_are_refused_with_their_place(
    change: Callable[[dict[str, Any], Sparse], object], said: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = list(rows_format.JsonReader.read(rows_format.JsonReader([_file(path)]), 0))
    monkeypatch.setattr(rows_format.JsonReader, "read", lambda *_: iter([*good, rows_with(change)]))
    settings = CONFIG.settings.model_copy(update={"label": "binary"})
    with (
        closing(open_stream(CONFIG.model_copy(update={"rows": settings}), [path], seed=3)) as stream,
        pytest.raises(DataError) as caught,
    ):
        list(read_batches(stream, 2))
    assert str(caught.value).startswith(f"{path}: chunk 0, block 2{',' if said.startswith('row') else ''}")
    assert said in str(caught.value)


def _file(path: Path) -> Any:
    from loader.files.identity import identify

    return identify([path])[0]


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (KeyError, ("x",), "KeyError: 'x'"),
        (OSError, (5, "Input/output error"), "Input/output error"),
        (DataError, ("other.jsonl", "bad", 7), "other.jsonl: offset 7: bad"),
    ],
)
def test_what_a_reader_raises_ends_the_stream_in_one_line(
    kind: type[Exception], arguments: tuple[Any, ...], said: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise kind(*arguments)

    monkeypatch.setattr(rows_format.JsonReader, "read", fails)
    with closing(open_stream(CONFIG, [path], seed=3)) as stream, pytest.raises(DataError) as caught:
        list(read_batches(stream, 1))
    assert said in str(caught.value)


def test_rows_of_a_known_model_need_no_file_and_are_a_function_of_their_settings() -> None:
    config = data_config(source="rows", batch_size=1000, rows=CLICKS.model_dump())
    found = set()
    for threads in (1, 3):
        with closing(open_stream(config.model_copy(update={"threads": threads}), [], seed=3)) as stream:
            found.add(tuple(digest(batch) for batch in read_batches(stream, 25)))
    assert len(found) == 1
    assert Data(config, seed=3).samples_per_epoch() == 20_000
    origin = Data(config, seed=3).origin(Cursor())
    assert {chunk["file"] for chunk in origin["chunks"]} == {"data.rows.synthetic"}
    with pytest.raises(ValueError, match=r"data\.train: no file is given; .* data\.rows\.synthetic\.num_rows"):
        open_stream(data_config(source="rows"), [], seed=3)


def test_more_classes_than_can_be_drawn_are_refused_before_any_is() -> None:
    rows = {**CLICKS.model_dump(), "label": "class", "num_classes": 1025}
    with pytest.raises(ValueError, match=r"data\.rows\.num_classes: 1025, but .* at most 1024 classes"):
        open_stream(data_config(source="rows", rows=rows), [], seed=3)


def test_numbers_that_svmlight_files_have_not_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(ValueError, match=r"data\.rows\.dense: 'age', but svmlight files have no further numbers"):
        open_stream(data_config(source="rows", rows={"dense": ["age"]}), [path], seed=3)


def test_labels_are_as_likely_as_the_known_model_says() -> None:
    rows = draw_rows(CLICKS, 0)
    chances = true_probabilities(CLICKS, dict(rows.sparse))
    assert np.allclose(chances.sum(axis=1), 1)
    order = np.argsort(chances[:, 1])
    for tenth in np.array_split(order, 10):
        assert rows.dense["label"][tenth].mean() == pytest.approx(chances[tenth, 1].mean(), abs=0.06)
    several = CLICKS.model_copy(update={"label": "class", "num_classes": 4})
    drawn = draw_rows(several, 0)
    expected = true_probabilities(several, dict(drawn.sparse)).mean(axis=0)
    assert np.bincount(drawn.dense["label"], minlength=4) / 8192 == pytest.approx(expected, abs=0.02)


def test_the_true_model_tells_most_pairs_of_labels_apart_and_not_all() -> None:
    few = CLICKS.model_copy(update={"synthetic": SyntheticRowsConfig(num_rows=600, active=5)})
    rows = draw_rows(few, 0)
    scores = true_probabilities(few, dict(rows.sparse))[:, 1]
    ones, zeros = scores[rows.dense["label"] == 1], scores[rows.dense["label"] == 0]
    pairs = (ones[:, None] > zeros).mean() + 0.5 * (ones[:, None] == zeros).mean()
    assert 0.7 < pairs < 0.95
