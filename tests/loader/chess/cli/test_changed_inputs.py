"""Inputs that change while a command reads them: it ends with a line that names the file, and leaves nothing behind.

What is done to the file is done after the command has opened it, when a chunk is about to be read: never the result of
two states of one file, never a wait for a pipe that nobody writes to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loader.chess.engines.rescore_settings import content_digest
from loader.cli.main import main
from loader.errors import DataError
from loader.exit_codes import EXIT_FAILED
from loader.files.identity import identify
from loader.formats import parallel
from loader.formats.registry import load_format
from tests.support.looked_into import dump
from tests.support.paths import VALIDATION
from tests.support.positions import SUFFIXES, encode, sample

Change = Callable[[Path], None]


def append(file: Path) -> None:
    with file.open("ab") as out:
        out.write(file.read_bytes()[:4000])


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def zero(file: Path) -> None:
    with file.open("r+b") as out:
        out.seek(file.stat().st_size // 2)
        out.write(bytes(1000))


def touch(file: Path) -> None:
    os.utime(file, ns=(0, 10**9))


def replace(file: Path) -> None:
    beside = file.with_name("beside")
    beside.write_bytes(file.read_bytes())
    beside.replace(file)


def remove(file: Path) -> None:
    file.unlink()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES: tuple[Change, ...] = (append, cut, zero, touch, replace, remove, pipe, folder)
WRITES = ("-o", "made.psv", "--lossy")
COMMANDS: dict[str, tuple[str, ...]] = {
    "count": (),
    "verify": (),
    "inspect": (),
    "convert": WRITES,
    "head": ("-n", "1000000", *WRITES),
    "sample": ("-n", "5", *WRITES),
    "filter": ("--where", "not in_check", *WRITES),
    "dedupe": WRITES,
    "shuffle": WRITES,
    "split": ("--validation", "20%", "--by-record"),
}
INPUTS = ("packedsfen", "text", "viriformat", "binpack", "compressed")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of several chunks, of each way in which files are read."""
    made = tmp_path_factory.mktemp("inputs")
    paths = {name: made / f"some{SUFFIXES[name]}" for name in ("packedsfen", "text", "viriformat")}
    for name, path in paths.items():
        path.write_bytes(encode(name, sample(3000)) * 20)
    paths["binpack"] = made / "some.binpack"
    paths["binpack"].write_bytes(VALIDATION.read_bytes() * 3)
    paths["compressed"] = made / f"packed{SUFFIXES['packedsfen']}.zst"
    assert main(["convert", str(paths["packedsfen"]), "-o", str(paths["compressed"])]) == 0
    return paths


@pytest.fixture
def change_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Calls a function when a command is about to read its chunk of that number."""

    def arm(number: int, change: Callable[[], object]) -> None:
        asked = 0

        class Pool(ThreadPoolExecutor):
            def submit(self, *arguments: Any, **named: Any) -> Any:
                nonlocal asked
                if asked == number:
                    change()
                asked += 1
                return super().submit(*arguments, **named)

        monkeypatch.setattr(parallel, "ThreadPoolExecutor", Pool)

    return arm


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_that_changes_ends_the_command(
    command: str,
    change: Change,
    inputs: dict[str, Path],
    change_before: Callable[[int, Callable[[], object]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = INPUTS[(list(COMMANDS).index(command) + CHANGES.index(change)) % len(INPUTS)]
    file = Path(inputs[kind].name)
    file.write_bytes(inputs[kind].read_bytes())
    os.utime(file, ns=(0, 0))
    of_one_chunk = kind in ("viriformat", "compressed")
    change_before(0 if of_one_chunk else CHANGES.index(change) % 2, lambda: change(file))
    assert main([command, str(file), *COMMANDS[command]]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert captured.out == ""
    notes = ("loader: left out", "loader: not known", "loader: scores keep their numbers")
    lines = [line for line in captured.err.splitlines() if not line.startswith(notes)]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith(f"loader: {file}")
    assert {path.name for path in tmp_path.iterdir()} <= {file.name}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["packedsfen", "text", "binpack", "svmlight", "csv"])
def test_an_input_that_changes_ends_a_dump(kind: str, change: Change, inputs: dict[str, Path], tmp_path: Path) -> None:
    if kind in inputs:
        file = tmp_path / inputs[kind].name
        file.write_bytes(inputs[kind].read_bytes())
    else:
        file = tmp_path / f"some.{kind}"
        line = f"1 2:3 #{'comment' * 100}\n" if kind == "svmlight" else "1,2\n"
        file.write_text("label,a\n" * (kind == "csv") + line * (1_150_000 // len(line)))
    os.utime(file, ns=(0, 0))
    of_rows = getattr(load_format(kind), "dump", None)
    blocks: Any = dump(file) if of_rows is None else of_rows(file, None)
    next(blocks)
    change(file)
    with pytest.raises(DataError, match=file.name):
        list(blocks)


@pytest.mark.parametrize("command", ["count", "verify", "inspect"])
def test_a_file_that_becomes_a_pipe_before_its_turn_is_not_waited_for(
    command: str,
    inputs: dict[str, Path],
    change_before: Callable[[int, Callable[[], object]], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    second = tmp_path / "second.psv"
    second.write_bytes(encode("packedsfen", sample(10)))
    change_before(0, lambda: pipe(second))
    assert main([command, str(inputs["packedsfen"]), str(second)]) == EXIT_FAILED
    assert "second.psv: is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [*SUFFIXES, "binpack", "svmlight", "csv"])
def test_a_file_that_is_gone_or_a_folder_is_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The native part says why, in every format's binding."""
    (tmp_path / "folder").mkdir()
    for name, said in (("gone", "No such file"), ("folder", "is a folder")):
        for command in ("verify", "dump"):
            assert main([command, str(tmp_path / name), "--format", kind]) == EXIT_FAILED
            assert said in capsys.readouterr().err


@pytest.mark.parametrize("change", CHANGES)
def test_rescore_takes_no_digest_of_a_file_that_has_changed(
    change: Change, inputs: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "some.psv"
    file.write_bytes(inputs["packedsfen"].read_bytes())
    (known,) = identify([file])
    change(file)
    with pytest.raises((DataError, OSError), match=re.escape(str(file))):
        content_digest([known])
