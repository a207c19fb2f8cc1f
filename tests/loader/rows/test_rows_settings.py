"""Settings of rows, and what an svmlight file is told to hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from loader.cli.main import main
from loader.formats.registry import resolve_format
from loader.rows.settings import RowsConfig
from loader.stream.data import Data, open_stream
from loader.stream.schema import SparseField
from loader.stream.sources import data_config
from tests.loader.rows.formats.odd_svmlight import FILES

SHARED = {"fields": {"a": [0, 5], "b": [5, 10], "c": [10, 11]}}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fields": {"a": [0, 10], "b": [5, 20]}}, "fields.b: [5, 20] begins inside of a, which ends at 10"),
        ({"fields": {"a": [1 << 70, (1 << 70) + 5]}}, f"expected feature numbers up to {1 << 62}"),
        ({"fields": {"a": [5, 5]}}, "fields.a: [5, 5]: expected 1 to 2147483648 features from 0 on"),
        ({"fields": {"a": [-1, 5]}}, "fields.a: [-1, 5]: expected 1 to 2147483648 features from 0 on"),
        (SHARED | {"shared_tables": {"t": ["a"]}}, "shared_tables.t: [a]: expected two fields or more, each once"),
        (SHARED | {"shared_tables": {"t": ["a", "a"]}}, "shared_tables.t: [a, a]: expected two fields or more, each"),
        (SHARED | {"shared_tables": {"t": ["a", "z"]}}, "shared_tables.t: 'z' is no field; the fields are a, b, c"),
        (SHARED | {"shared_tables": {"t": ["b", "a"]}}, "shared_tables.t: the numbers of b, a must follow one another"),
        (SHARED | {"shared_tables": {"t": ["b", "c"]}}, "shared_tables.t: b, c have different numbers of features"),
        (SHARED | {"shared_tables": {"a": ["a", "b"]}}, "shared_tables: 'a' can't be the name of a field or number"),
        (
            SHARED | {"shared_tables": {"t": ["a", "b"]}, "values": ["a"]},
            "shared_tables.t: data.rows.values names some of a, b; name all or none",
        ),
        (
            SHARED | {"shared_tables": {"t": ["a", "b"], "u": ["a", "b"]}},
            "shared_tables.u: 'a' shares another table, too",
        ),
        ({"shared_tables": {"t": ["features", "x"]}}, "shared_tables.t: 'features' is no field; the fields are"),
        ({"fields": {"label": [0, 5]}}, "'label' can't be the name of a field or number"),
        ({"fields": {"a.b": [0, 5]}}, "'a.b' can't be the name of a field or number"),
        ({"dense": ["features"]}, "'features' can't be the name of a field or number"),
        ({"fields": {"a": [0, 5]}, "max_active": {"b": 1}}, "max_active: has b; the fields are a: each needs a number"),
        ({"values": ["b"]}, "values: 'b' is no field; the fields are features"),
        ({"columns": {"sparse": {"a": "b"}}}, "columns.sparse.a: no field of data.rows.fields; there are features"),
        ({"columns": {"dense": {"a": "b"}}}, "columns.dense.a: no number of data.rows.dense; there are none"),
        ({"columns": {"weight": "w"}}, "columns.weight: 'w' is not read: data.rows.weight is false"),
        ({"columns": {"qid": 3}}, "columns.qid: 3 is not read: data.rows.qid is false"),
        ({"columns": {"layout": "criteo", "header": False}}, "header: False: layout = 'criteo' says it already"),
        ({"columns": {"layout": "criteo", "quote": ""}}, "quote: '': layout = 'criteo' says it already; set one"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        RowsConfig.model_validate_json(json.dumps(settings))
    assert said in str(caught.value)


def test_a_schema_has_the_fields_and_numbers_that_are_asked_for() -> None:
    rows = {"fields": {"b": [10, 13], "a": [0, 10.0]}, "max_active": {"a": 4, "b": 5}, "values": ["a"]}
    settings = RowsConfig.model_validate_json(json.dumps({**rows, "weight": True, "qid": True, "dense": ["age"]}))
    schema = Data(data_config(source="rows", batch_size=7, rows=settings.model_dump())).schema()
    assert schema.sparse == (
        SparseField("b", 3, max_active=3),
        SparseField("a", 10, max_active=4, values=True),
    )
    assert [(dense.name, dense.dtype) for dense in schema.dense] == [
        ("label", "float32"),
        ("weight", "float32"),
        ("age", "float32"),
        ("qid", "int64"),
    ]
    too_many = data_config(source="rows", batch_size=1 << 20, rows={"max_active": 5000})
    with pytest.raises(ValueError, match=r"data\.rows\.max_active: 5000 in 1048576 rows of a batch are more than"):
        Data(too_many).schema()


def test_a_format_of_another_family_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(FILES["plain"])
    with pytest.raises(ValueError, match=r"data\.format: 'binpack' holds records of chess, and data.source is rows"):
        Data(data_config(source="rows", format="binpack")).schema()
    assert resolve_format(path, setting="data.format") == "svmlight"
    (tmp_path / "rows.dat").write_bytes(FILES["qid"])
    assert resolve_format(tmp_path / "rows.dat", setting="data.format") == "svmlight"
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(ValueError, match="there is nothing to read"):
        open_stream(data_config(source="rows"), [empty], 1)


def test_svmlight_files_can_be_verified_inspected_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.svm.gz", tmp_path / "bad.svm"
    good.write_bytes(gzip.compress(b"# a comment\n+1 qid:3 2:.50 7:1e0\r\n-1\n1 7:1"))
    bad.write_bytes(FILES["numbers out of order"])
    assert main(["verify", str(good), str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{good}: ok, 3 entries\n"
    assert err == f"loader: {bad}: line 3, column 7: expected a feature number above the one before it, 3, got '0:1'\n"
    assert main(["dump", str(good)]) == 0
    assert capsys.readouterr().out == "1 qid:3 2:0.5 7:1\n-1\n1 7:1\n"
    assert main(["dump", "--limit", "1", str(bad)]) == 0
    assert capsys.readouterr().out == "1 0:0.5 3:2\n"
    assert main(["inspect", "--json", str(good)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "file": str(good), "bytes": good.stat().st_size, "entries": 3, "features": 3, "smallest_number": 2,
        "largest_number": 7, "longest_row": 2, "values": True, "labels": {"-1": 1, "1": 2}, "smallest_label": -1.0,
        "largest_label": 1.0,
    }  # fmt: skip
