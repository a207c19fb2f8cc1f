"""Files that a user names may be anything: nothing is waited for that nobody will ever write."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.errors import DataError
from loader.files.identity import identify
from loader.files.regular import open_regular
from loader.files.user_file import read_user_file
from pool.checkpoint.digest import start_digest
from pool.config.load import load_config
from pool.errors import CheckpointError, ConfigError
from pool.machines.key import read_key
from pool.stages.key import digest_start
from pool.tasks.chess.perspective.network_file import check_readable
from pool.tasks.chess.stockfish.nnue_file import read_net
from pool.tasks.chess.stockfish.nnue_pytorch import read_checkpoint


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def device(_: Path) -> Path:
    return Path("/dev/zero")


def named_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


ODD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "pipe without a writer": (pipe, "is a pipe that nobody writes to|is not a regular file"),
    "folder": (folder, "(?i)is (a (directory|folder)|no folder of a run|no checkpoint folder)"),
    "device": (device, "is (neither|not) a regular file"),
    "socket": (named_socket, "is not a regular file"),
}


Errors = type[Exception] | tuple[type[Exception], ...]
READERS: dict[str, tuple[Callable[[Path], Any], Errors]] = {
    "text": (read_user_file, OSError),
    "binary": (open_regular, OSError),
    "config": (load_config, ConfigError),
    "net": (read_net, DataError),
    "checkpoint of torch": (read_checkpoint, DataError),
    "start of a run": (start_digest, (OSError, CheckpointError)),
    "start of a recipe": (lambda path: digest_start(str(path)), (ConfigError, CheckpointError)),
    "key": (read_key, ConfigError),
    "network of one task": (check_readable, DataError),
}


@pytest.mark.parametrize(("make", "complaint"), ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize(
    ("read", "error"),
    READERS.values(),
    ids=READERS.keys(),
)
def test_what_is_no_file_is_refused_at_once(
    read: Callable[[Path], Any], error: Errors, make: Callable[[Path], Path], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=complaint):
        read(make(tmp_path / "odd"))


@pytest.mark.parametrize("name", ["text", "config", "net", "checkpoint of torch"])
def test_a_file_that_memory_does_not_hold_is_refused_before_it_is_read(name: str, tmp_path: Path) -> None:
    read, error = READERS[name]
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 42)  # a hole: no block of the disk
    with pytest.raises(error, match=r"has (4,398,046,511,104 bytes|more than 2 GiB)|a zip archive is expected"):
        read(huge)


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "folder"])
def test_a_data_file_is_regular(kind: str, tmp_path: Path) -> None:
    make, complaint = ODD[kind]
    (tmp_path / "empty").touch()
    identify([tmp_path / "empty"])
    with pytest.raises(DataError, match=complaint):  # and not taken for an empty one
        identify([tmp_path / "empty", make(tmp_path / "odd")])


def test_a_pipe_is_read_to_its_end_if_somebody_writes() -> None:
    reading, writing = os.pipe()
    text = b"x" * 300_000

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(text)

    writer = threading.Thread(target=write)
    try:
        writer.start()
        assert read_user_file(Path(f"/dev/fd/{reading}")) == text
        writer.join()
    finally:
        os.close(reading)


def test_files_are_read_and_so_is_the_empty_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert read_user_file(tmp_path / "file") == b"abc"
    assert read_user_file(Path("/dev/null")) == b""
    with os.fdopen(open_regular(tmp_path / "file"), "rb") as file:
        assert file.read() == b"abc"
