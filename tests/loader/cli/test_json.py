"""JSON for programs: each line is one object that a strict reader takes, whatever numbers the data have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.cli.main import main
from loader.command_line.json_line import json_line

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


def strict(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def with_null(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: with_null(each) for key, each in value.items()}
    return [with_null(each) for each in value] if isinstance(value, list | tuple) else value


@given(PLAIN, st.booleans())
def test_any_value_is_one_line_of_strict_json(value: Any, ascii_only: bool) -> None:
    text = json_line(value, ascii_only=ascii_only)
    assert strict(text) == with_null(value)
    assert text.endswith("\n")
    assert text.count("\n") == 1


def test_numbers_that_are_not_finite_are_null_in_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,nan\n2,inf\n3,-inf\n", encoding="utf-8")
    assert main(["inspect", "--json", str(tmp_path / "a.csv")]) == 0
    columns = strict(capsys.readouterr().out)["columns"]
    assert [(each["name"], each["smallest"], each["largest"]) for each in columns] == [("x", 1, 3), ("y", None, None)]


def test_numbers_that_are_not_finite_are_null_in_dumped_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"a": [1.5, math.inf], "b": [[math.nan, 2.0], [-math.inf]], "c": ["é", None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert main(["dump", str(tmp_path / "a.parquet")]) == 0
    text = capsys.readouterr().out
    assert [strict(line) for line in text.splitlines()] == [
        {"a": 1.5, "b": [None, 2.0], "c": "é"},
        {"a": None, "b": [None], "c": None},
    ]
    assert "é" in text
    assert main(["inspect", "--json", str(tmp_path / "a.parquet")]) == 0
    strict(capsys.readouterr().out)
