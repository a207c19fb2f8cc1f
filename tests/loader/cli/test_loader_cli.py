"""The `loader` command: what it prints, where, and with which exit code."""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loader.cli.main import main
from tests.loader.chess.formats.binpack_bytes import EXAMPLE

Capture = pytest.CaptureFixture[str]
READING = ("inspect", "verify", "dump")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.binpack"
    path.write_bytes(EXAMPLE)
    return path


def one_line(captured: str) -> str:
    assert captured.count("\n") == 1, captured
    return captured.rstrip("\n")


def make_missing(path: Path) -> None:
    """Nothing there."""


def make_folder(path: Path) -> None:
    path.mkdir()


def make_random(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(65_536))


def make_cut(path: Path) -> None:
    path.write_bytes(EXAMPLE[:-1])


def make_oversized(path: Path) -> None:
    path.write_bytes(b"BINP\xff\xff\xff\xff" + EXAMPLE)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


BAD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (make_missing, "No such file or directory"),
    "folder": (make_folder, "is a folder, not a file"),
    "random bytes": (make_random, "offset 0: expected a chunk, which begins with b'BINP'"),
    "cut": (make_cut, "offset 0: expected the 56 bytes of the chunk, got 55"),
    "oversized": (make_oversized, "offset 0: expected a chunk of at most 104857600 bytes, got one of 4294967295"),
    "device": (make_device, "is not a regular file"),
}


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_one_line_on_stderr_and_exit_code_1(
    kind: str, command: str, tmp_path: Path, capsys: Capture
) -> None:
    make, reason = BAD_FILES[kind]
    path = tmp_path / "bad.binpack"
    make(path)
    assert main([command, str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert one_line(captured.err).startswith(f"loader: {path}: {reason}")


@pytest.fixture
def nobody() -> Iterator[None]:
    """Another user's rights: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("nobody")
def test_an_unreadable_file_is_one_line_on_stderr(tmp_path_factory: pytest.TempPathFactory, capsys: Capture) -> None:
    user = os.geteuid()
    if user == 65_534:
        os.seteuid(0)
    path = tmp_path_factory.mktemp("unreadable") / "secret.binpack"
    path.write_bytes(EXAMPLE)
    path.chmod(0)
    main(["verify", str(path)])  # imports what it needs while it may
    capsys.readouterr()
    os.seteuid(user)
    assert main(["verify", str(path)]) == 1
    assert one_line(capsys.readouterr().err).startswith(f"loader: {path}: Permission denied")


def test_an_empty_file_is_fine(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.binpack"
    path.touch()
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: ok, 0 entries\n"
    assert main(["dump", str(path)]) == 0
    assert main(["inspect", str(path)]) == 0


USAGE_ERRORS = {
    "Missing argument": ["inspect"],
    "No such command": ["frobnicate"],
    "No such option": ["dump", "--colour", "file"],
    "Invalid value for '--limit'": ["dump", "--limit", "x", "file"],
    "Missing option '--engine'": ["generate", "-o", "x", "--positions", "5"],
    "Invalid value for '--positions'": ["generate", "-o", "x", "--engine", "e", "--positions", "0"],
}


@pytest.mark.parametrize("reason", USAGE_ERRORS)
def test_a_wrong_command_line_is_one_line_on_stderr_and_exit_code_2(reason: str, capsys: Capture) -> None:
    assert main(USAGE_ERRORS[reason]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert reason in one_line(captured.err)


def test_the_version_is_told(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"loader {importlib.metadata.version('sparsepool')}\n"


@pytest.mark.parametrize("command", [[], ["inspect"], ["verify"], ["dump"], ["generate"]])
def test_help_explains_itself(command: list[str], capsys: Capture) -> None:
    assert main([*command, "--help"]) == 0
    assert "Usage: loader" in capsys.readouterr().out


def test_verify_goes_on_after_a_damaged_file_and_says_so_at_the_end(
    example: Path, tmp_path: Path, capsys: Capture
) -> None:
    make_random(tmp_path / "bad.binpack")
    assert main(["verify", str(tmp_path / "bad.binpack"), str(example)]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{example}: ok, 11 entries\n"
    assert captured.err.endswith("0 good entries before it\n")


def test_json_is_one_object_a_line(example: Path, capsys: Capture) -> None:
    assert main(["verify", "--json", str(example), str(example), "/nowhere"]) == 1
    captured = capsys.readouterr()
    first, second, third = map(json.loads, captured.out.splitlines())
    assert captured.err == ""
    assert first == second == {"file": str(example), "ok": True, "entries": 11, "offset": None, "reason": None}
    assert (third["ok"], third["reason"]) == (False, "No such file or directory")
    assert main(["inspect", "--json", str(example)]) == 0
    statistics = json.loads(capsys.readouterr().out)
    assert (statistics["chunks"], statistics["unit"], statistics["units"], statistics["entries"]) == (1, "chain", 1, 11)
    assert statistics["score"]["max"] == 300
    assert statistics["no_score"] == 1
    assert statistics["results"] == {"loss": 5, "draw": 0, "win": 6}
    assert statistics["piece_counts"][32] == 5


def test_inspect_is_plain_where_nobody_looks(example: Path, capsys: Capture) -> None:
    assert main(["inspect", str(example)]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "positions      11 of 5.818 bytes" in out


def test_the_good_entries_before_the_damage_are_dumped(
    example: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    example.write_bytes(EXAMPLE + b"BINP")
    assert main(["dump", str(example)]) == 1
    captured = capsysbinary.readouterr()
    assert captured.out.count(b"\n") == 11
    assert captured.err.endswith(b"offset 64: expected the 8 bytes that a chunk begins with, got 4\n")


def test_dump_stops_quietly_when_its_reader_has_gone(example: Path) -> None:
    example.write_bytes(EXAMPLE * 5000)
    command = [sys.executable, "-m", "loader", "dump", str(example)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"rnbqkbnr/")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from loader.cli.main import main; main(['--help'])\n"
        "heavy = {'torch', 'numpy', 'chess', 'rich', 'pydantic', 'loader._native'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_name_that_is_not_utf8_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.binpack")
    path.write_bytes(EXAMPLE)
    command = [sys.executable, "-m", "loader", "dump", "--limit", "1", str(path)]
    assert subprocess.run(command, check=True, capture_output=True).stdout.endswith(b"\te2e4\t35\t0\t1\n")


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("command", READING)
def test_closed_standard_streams_are_no_error(command: str, redirection: str, example: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m loader {command} {shlex.quote(str(example))} {redirection}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("program", ["loader", "pool"])
def test_help_for_a_reader_who_has_gone_ends_as_if_by_sigpipe(program: str) -> None:
    """`head` may leave before anything is written."""
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", program, "--help"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
