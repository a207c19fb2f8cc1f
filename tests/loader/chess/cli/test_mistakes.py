"""What a user does wrong with the commands on files of positions ends with one line that names the file, and leaves
nothing behind."""

from __future__ import annotations

import errno
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loader.cli.main import main
from loader.exit_codes import EXIT_RESOURCES
from loader.files.new_file import NewFile
from tests.support.positions import SUFFIXES, encode, sample

COUNT = 50


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: few positions in every format, and files that are none."""
    monkeypatch.chdir(tmp_path)
    for name, suffix in SUFFIXES.items():
        (tmp_path / f"few{suffix}").write_bytes(encode(name, sample(COUNT)))
    (tmp_path / "packed.gz").write_bytes(gzip.compress((tmp_path / "few.viri").read_bytes()))
    (tmp_path / "noise").write_bytes(bytes(range(255, 0, -1)) * 9)
    (tmp_path / "empty.viri").touch()
    (tmp_path / "empty").touch()
    (tmp_path / "rules.toml").write_text('min_ply = "x"\n')
    (tmp_path / "engine").write_text("not a program")
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line; everything in the folder is as it was."""
    before = sorted(Path().iterdir())
    assert main(list(arguments)) != 0
    assert sorted(Path().iterdir()) == before
    captured = capsys.readouterr()
    assert captured.err.startswith("loader: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("command", ["count", "inspect", "dump", "verify"])
@pytest.mark.parametrize(("name", "said"), [("noise", "does not begin as any"), ("packed.gz", "its name does not say")])
def test_a_file_that_no_format_claims_is_not_taken_for_a_damaged_binpack(
    command: str, name: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.is_dir()
    line = error_of(capsys, command, name)
    assert said in line
    assert line.startswith(f"loader: {name}: ")
    assert "BINP" not in line


def test_the_format_that_is_named_reads_what_no_format_claims(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (folder / "packed.gz").exists()
    assert main(["count", "packed.gz", "--format", "viriformat"]) == 0
    assert f"{COUNT} positions" in capsys.readouterr().out
    assert main(["count", "empty"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("filter", "few.viri", "--viriformat", "rules.toml", "-o", "made.bf", "--lossy"), "rules.toml: min_ply: "),
        (("rescore", "few.viri", "-o", "made.viri", "--engine", "engine"), "./engine is the file here"),
        (
            ("generate", "-o", "made.bf", "--engine", "engine", "--positions", "1"),
            "made.bf: generate writes games as binpack, montyvalue, packedsfen, pgn, plain, viriformat: give",
        ),
    ],
)
def test_the_line_says_what_to_change(
    arguments: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.is_dir()
    assert said in error_of(capsys, *arguments)


@pytest.mark.parametrize("command", ["head", "sample"])
def test_what_was_written_is_said_of_a_file_and_not_of_a_pipe(
    command: str, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert folder.is_dir()
    assert main([command, "few.bf", "-o", "made.bf"]) == 0
    count = 10 if command == "head" else COUNT
    assert capfdbinary.readouterr().out == f"made.bf: bulletformat, {count} positions\n".encode()
    assert main([command, "few.bf", "-o", "-"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.out == Path("made.bf").read_bytes()
    assert not captured.err


def test_an_empty_file_has_no_statistics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    assert main(["inspect", "empty.viri"]) == 0
    assert re.search(r"positions +0\n\Z", capsys.readouterr().out)


@pytest.mark.parametrize("arguments", [("count", "few.viri"), ("dump", "few.viri"), ("head", "few.viri"), ("--help",)])
def test_standard_output_that_is_full_is_named(arguments: tuple[str, ...], folder: Path) -> None:
    command = [sys.executable, "-P", "-m", "loader", *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=folder, env=buffered, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "loader: standard output: No space left on device\n"
    assert done.returncode == EXIT_RESOURCES


def test_a_device_that_is_full_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    assert error_of(capsys, "convert", "few.viri", "-o", "/dev/full") == "loader: /dev/full: No space left on device\n"


def test_a_new_file_that_fails_is_named_as_its_user_has_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.bf"

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with NewFile(made) as file:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left") as raised:
            file.write(b"data")
    assert raised.value.filename == str(made)
    with pytest.raises(FileNotFoundError) as missing, NewFile(tmp_path / "no" / "made"):
        pass
    assert missing.value.filename == str(tmp_path / "no" / "made")
    assert not list(tmp_path.iterdir())
