"""Odd svmlight files: each is read as scikit-learn reads it, or refused: file, line, column, what was expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loader import _native
from loader.cli.main import main
from loader.rows.fields import row_shape
from loader.rows.settings import RowsConfig
from tests.loader.rows.formats.odd_svmlight import FILES
from tests.loader.rows.formats.sklearn_verdicts import READ, REFUSED, Row

FEATURES = 300_000
ANY = RowsConfig(num_features=FEATURES, max_active=FEATURES)
FLOAT = "a decimal number, got"
RANGE = f"expected a feature number of a field, 0 to {FEATURES - 1} (data.rows.fields, data.rows.zero_based), got"
CUT = "the file ends in the middle of a gzip member"

# Rounded once; scikit-learn rounds to double before.
OTHERWISE: dict[str, list[Row]] = {
    "between two floats": [(1.0, {0: 1.0000001192092896, 1: 1.000000238418579, 2: 1.000000238418579})]
}
REFUSALS = {  # good rows before it, and why
    "CR alone": (0, "line 1, column 14: expected ':' and a value behind feature number '0'"),
    "qid behind a feature": (0, "line 1, column 9: expected a feature number, got 'qid:7'"),
    "qid that is no number": (0, "line 1, column 7: expected a query number, a whole number below 2^63, got 'x'"),
    "no label": (0, f"line 1, column 1: expected a label, {FLOAT} '0:1'"),
    "two labels": (0, "line 1, column 4: expected ':' and a value behind feature number '2'"),
    "list of labels": (0, f"line 1, column 1: expected a label, {FLOAT} '1,2'"),
    "label nan": (0, f"line 1, column 1: expected a label, {FLOAT} 'nan'"),
    "1e39": (0, "line 1, column 5: expected a value that float32 holds, got '1e39'"),
    "inf": (0, f"line 1, column 5: expected a value, {FLOAT} 'inf'"),
    "nan": (0, f"line 1, column 11: expected a value, {FLOAT} 'nan'"),
    "hexadecimal": (0, f"line 1, column 5: expected a value, {FLOAT} '0x10'"),
    "underscores": (0, f"line 1, column 5: expected a value, {FLOAT} '1_000'"),
    "an exponent without digits": (0, f"line 1, column 5: expected a value, {FLOAT} '1e'"),
    "number out of range": (0, f"line 1, column 9: {RANGE} '1000000:1'"),
    "number with a sign": (0, "line 1, column 3: expected a feature number, got '+3:1'"),
    "negative number": (0, "line 1, column 3: expected a feature number, got '-3:1'"),
    "20 digits in a feature number": (0, f"line 1, column 3: {RANGE} '12345678901234567890:1'"),
    "numbers out of order": (
        2, "line 3, column 7: expected a feature number above the one before it, 3, got '0:1'",
    ),
    "number twice": (0, "line 1, column 7: expected a feature number above the one before it, 3, got '3:1'"),
    "no colon": (0, "line 1, column 8: expected ':' and a value behind feature number '3'"),
    "no value": (0, f"line 1, column 9: expected a value, {FLOAT} the end of the line"),
    "blank behind the colon": (0, f"line 1, column 5: expected a value, {FLOAT} nothing"),
    "two colons": (0, f"line 1, column 5: expected a value, {FLOAT} '1:1'"),
    "NUL": (0, f"line 1, column 5: expected a value, {FLOAT} '1\\x00'"),
    "text": (0, f"line 1, column 1: expected a label, {FLOAT} 'label,feature'"),
    "gzip and rubbish": (
        2, "gzip data can't be decoded behind line 2: expected another gzip member or the end of the file",
    ),
    "gzip cut in its data": (1, f"gzip data can't be decoded behind line 1: {CUT}"),
    "gzip cut in its trailer": (2, f"gzip data can't be decoded behind line 2: {CUT}"),
    "gzip cut in its header": (0, f"gzip data can't be decoded behind line 0: {CUT}"),
    "gzip with a wrong checksum": (
        2, "gzip data can't be decoded behind line 2: the checksum of a gzip member is wrong: what was decoded before "
        "it may be, too",
    ),
}  # fmt: skip
# Read there, refused here: what is not finite can't be trained on, and what nobody means is a mistake.
STRICTER = {
    "qid that is no number", "label nan", "1e39", "inf", "nan", "underscores", "number out of range",
    "number with a sign",
}  # fmt: skip


def rows_of(path: Path, settings: RowsConfig) -> tuple[list[Row], tuple[str, str] | None]:
    """The rows up to the first fault, and its file and reason."""
    reader = _native.SvmlightReader([_native.LineFile(path)])
    rows: list[Row] = []
    for chunk in range(reader.num_chunks):
        (label, *_), _, ((offsets, features, values),), fault = _native.read_rows(reader, chunk, row_shape(settings))
        assert values is not None
        for row in range(len(label)):
            part = slice(offsets[row], offsets[row + 1])
            rows.append((float(label[row]), dict(zip(features[part].tolist(), values[part].tolist(), strict=True))))
        if fault is not None:
            return rows, (fault[0], fault[1])
    return rows, None


def test_the_table_has_every_file() -> None:
    assert set(FILES) == set(READ) | REFUSED
    assert set(REFUSALS) == REFUSED | STRICTER
    assert set(READ) >= STRICTER
    assert len(FILES) >= 50


@pytest.mark.parametrize("name", FILES)
def test_an_odd_file_is_read_as_elsewhere_or_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.svm"
    path.write_bytes(FILES[name])
    rows, fault = rows_of(path, ANY)
    if name in REFUSALS:
        good, reason = REFUSALS[name]
        assert (len(rows), fault) == (good, (str(path), reason))
        return
    assert fault is None
    assert rows == OTHERWISE.get(name, READ[name])
    assert str(rows) == str(OTHERWISE.get(name, READ[name])), "zeros have signs"


@pytest.mark.parametrize(
    ("line", "settings", "reason"),
    [
        ("1 0:1", {"zero_based": False}, "column 3: expected a feature number from 1 on, got 0: data.rows.zero"),
        ("1 1:1 11:1", {"zero_based": False}, "column 7: expected a feature number of a field, 1 to 10 (data.rows"),
        ("1 3:1", {"fields": {"a": (0, 2), "b": (5, 9)}}, "column 3: expected a feature number of a field, 0 to 1, 5"),
        ("2 3:1", {"label": "binary"}, "column 1: expected a label of 0, 1 or -1 (data.rows.label), got '2'"),
        ("2 3:1", {"label": "class"}, "column 1: expected a class number from 0 to data.rows.num_classes - 1, got '2'"),
        (".5 3:1", {"label": "class"}, "column 1: expected a class number from 0 to data.rows.num_classes - 1, got"),
        ("1:2 3:1", {}, "column 1: expected a label, a decimal number, got '1:2'"),
        ("1:-2 3:1", {"weight": True}, "column 3: expected a weight of 0 or more, got '-2'"),
        ("1 3:2", {"values": False}, "column 5: expected a value of 1 or 0, since field 'features' has no values"),
        ("1 1:1 2:1 3:1", {"max_active": 2}, "column 11: expected at most 2 features in field 'features' (data.rows"),
    ],
)  # fmt: skip
def test_what_the_settings_exclude_is_refused_by_their_names(
    line: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.svm"
    path.write_text(f"0 5:1\n{line}\n" if settings.get("values", True) and "fields" not in settings else f"0\n{line}\n")
    shape = row_shape(RowsConfig(**{"num_features": 10, **settings}))
    fault = _native.read_rows(_native.SvmlightReader([_native.LineFile(path)]), 0, shape)[-1]
    assert fault is not None
    assert fault[1].startswith(f"line 2, {reason}"), fault[1]


@pytest.mark.parametrize(("row", "got"), [("1 1:1", "'1:1'"), ("1:2 ", "the end of the line"), ("1:2 #", "nothing")])
def test_a_row_has_a_query_number_if_they_are_read_and_none_is_made_up(row: str, got: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text(f"0 qid:0 5:1\n{row}\n")
    settings: dict[str, Any] = {"num_features": 10, "weight": True}
    reader = _native.SvmlightReader([_native.LineFile(path)])
    fault = _native.read_rows(reader, 0, row_shape(RowsConfig(**settings, qid=True)))[-1]
    assert fault is not None
    assert re.fullmatch(
        rf"line 2, column \d: expected qid:NUMBER behind the label \(data.rows.qid\), got {got}", fault[1]
    )
    assert _native.read_rows(reader, 0, row_shape(RowsConfig(**settings)))[-1] is None


def test_query_numbers_are_printed_as_they_stand(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 qid:0 5:1\n0 5:1\n-1 qid:-9223372036854775807 1:2\n0 qid:7\n")
    assert main(["dump", str(path)]) == 0
    assert capsysbinary.readouterr().out == path.read_bytes()


def test_weights_classes_and_queries_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("2:0.5 qid:7 1:1 2:0\n0 qid:0 5:1\n1:3 qid:-1 4:1.0\n")
    settings = RowsConfig(
        num_features=5, label="class", num_classes=3, weight=True, qid=True, values=False, zero_based=False
    )
    reader = _native.SvmlightReader([_native.LineFile(path)])
    (label, weight), qid, ((offsets, features, values),), fault = _native.read_rows(reader, 0, row_shape(settings))
    assert fault is None
    assert values is None
    assert qid is not None
    assert (label.tolist(), weight.tolist(), qid.tolist()) == ([2, 0, 1], [0.5, 1, 3], [7, 0, -1])
    assert (offsets.tolist(), features.tolist()) == ([0, 1, 2, 3], [0, 4, 3])
