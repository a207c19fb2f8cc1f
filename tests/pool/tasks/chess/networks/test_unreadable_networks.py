"""Files that are no networks, whatever they are: every command that reads one ends at once, with one line."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA, EXIT_USAGE
from pool.commands.main import PROGRAM
from pool.tasks.chess.networks.network_files import open_network
from tests.loader.files.test_named_files import device, named_socket, pipe

NAMES = ("x.nnue", "x.pt", "x.ckpt", "x.bin", "x.raw.bin", "x.weights.bin")


def huge(path: Path) -> Path:
    """A file of 4 TiB that takes no block of the disk."""
    path.touch()
    os.truncate(path, 1 << 42)
    return path


def zeros(path: Path) -> Path:
    path.symlink_to(device(path))
    return path


@pytest.mark.parametrize("make", [pipe, zeros, named_socket, huge])
@pytest.mark.parametrize("name", NAMES)
def test_commands_name_what_is_no_network(
    name: str, make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(make(tmp_path / name))
    for command in (
        ["eval", path, "--fen", "startpos"],
        ["inspect", path],
        ["convert", path, "-o", str(tmp_path / "run")],
    ):
        code = PROGRAM.main(command)
        said = capsys.readouterr()
        assert code in (EXIT_DATA, EXIT_USAGE), said.err
        assert said.err.startswith(f"pool: {path}"), said.err
        assert said.err.count("\n") == 1, said.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("pack", "program"), [(gzip.compress, "gzip -dc"), (bz2.compress, "bzip2 -dc")])
@pytest.mark.parametrize("name", ["x.nnue", "x.nnue.gz", "x.pt", "x.ckpt", "x.bin", "x.bin.gz"])
def test_a_compressed_network_is_named_with_the_command_that_helps(
    name: str, pack: Callable[[bytes], bytes], program: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(pack(bytes(1000)))
    with pytest.raises(DataError, match=rf"is compressed, and .* is read as it is: {program} {tmp_path / name} > "):
        open_network(tmp_path / name)
