"""Files that no format reads: the line says so, and what decompresses them, never what a parser makes of such bytes."""

from __future__ import annotations

import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.cli.main import main
from loader.errors import DataError
from loader.exit_codes import EXIT_FAILED
from loader.files.identity import identify
from loader.formats.registry import bundled_formats, load_format
from loader.stream.data import open_stream
from loader.stream.sources import data_config
from tests.support.paths import SAMPLE

SVM = b"1 2:3 7:1\n0 1:0.5\n" * 50
RECORDS = bytes(range(256)) * 20


def zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", data)
    return made.getvalue()


UNREAD: dict[str, Callable[[bytes], bytes]] = {
    "xz -dc": lzma.compress,
    "unzip -p": zipped,
    "lz4 -dc": lambda data: b"\x04\x22\x4d\x18" + data,
    "7z e -so": lambda data: b"7z\xbc\xaf\x27\x1c" + data,
}
NAMES = (
    "data",
    "data.svm",
    "data.csv",
    "data.parquet",
    "data.binpack",
    "data.psv",
    "data.txt",
    "data.viri",
    "data.xz",
)


@pytest.mark.parametrize("data", [SVM, b""], ids=["rows", "nothing"])
@pytest.mark.parametrize("program", UNREAD)
def test_a_command_names_what_decompresses(
    program: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        path = tmp_path / name
        path.write_bytes(UNREAD[program](data))
        for command in ("verify", "count", *(("inspect", "dump") if name == "data.psv" else ())):
            assert main([command, str(path)]) == EXIT_FAILED
            assert (
                f"loader: {path}: is compressed in a way that is not read: decompress it first, with `{program}`"
                in (capsys.readouterr().err)
            )


@pytest.mark.parametrize("format", [None, *(name for name in bundled_formats() if name != "npz")])
@pytest.mark.parametrize("program", UNREAD)
def test_training_names_what_decompresses(program: str, format: str | None, tmp_path: Path) -> None:
    """Whatever the format is said to be."""
    path = tmp_path / "data.svm"
    path.write_bytes(UNREAD[program](SVM))
    family = "rows" if format is None else load_format(format).FAMILY
    own = {"chess": {"features": "chess768"}} if family == "chess" else {"rows": {"num_features": 8}}
    config = data_config(source=family, format=format, batch_size=4, **own)
    with pytest.raises(DataError, match=f"is compressed in a way .*`{program}`"):
        open_stream(config, identify([path]), 0)


@pytest.mark.parametrize(
    ("name", "content"), [("data.xyz", RECORDS), ("data", b"hello\nworld\n"), ("x.tfrecord", RECORDS)]
)
def test_an_ending_that_no_format_has_is_not_taken_for_svmlight(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    config = data_config(source="rows", batch_size=4, rows={"num_features": 8})
    with pytest.raises(
        DataError, match=r"does not begin as any of the formats csv, npz, parquet, svmlight; data\.format"
    ):
        open_stream(config, identify([tmp_path / name]), 0)


def test_a_file_of_another_family_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "positions").write_bytes((SAMPLE / "train.binpack").read_bytes())
    config = data_config(source="rows", batch_size=4, rows={"num_features": 8})
    with pytest.raises(DataError, match="is in binpack, which holds records of chess, and those of rows are read here"):
        open_stream(config, identify([tmp_path / "positions"]), 0)
