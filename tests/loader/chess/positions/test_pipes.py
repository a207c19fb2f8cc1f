"""Commands between pipes: the same as of files, whatever comes in pieces of any size."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loader.chess.filters import FilterConfig
from loader.chess.positions.format import named_format
from loader.chess.positions.input import Source, open_sources, read_all_units
from loader.chess.positions.inputs import open_input
from loader.chess.positions.units import concatenate
from loader.chess.positions.verify import dump, verify
from loader.chess.tools.filter import PassingUnits
from loader.errors import DataError, InterruptedBySignalError
from tests.support.loader_command import run_loader as run
from tests.support.paths import VALIDATION
from tests.support.positions import SUFFIXES, encode, sample
from tests.support.runs import elsewhere

FORMATS = ("viriformat", "bulletformat", "text", "binpack", "pgn", "plain")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of several chunks."""
    folder = tmp_path_factory.mktemp("pipes")
    paths = {name: folder / f"large{suffix}" for name, suffix in {**SUFFIXES, "binpack": ".binpack"}.items()}
    for name in FORMATS:
        data = VALIDATION.read_bytes() if name == "binpack" else encode(name, sample(2000))
        paths[name].write_bytes(data * (2_300_000 // len(data) if name != "binpack" else 3))
    return paths


@contextmanager
def piped(data: bytes, step: int = 1 << 16) -> Iterator[Path]:
    """A pipe out of which these come."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as end:
            try:
                for begin in range(0, len(data), step):
                    end.write(data[begin : begin + step])
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield Path(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
        writer.join(20)
        assert not writer.is_alive(), "nobody reads, and the pipe is open"


def chunks_of(source: Source) -> list[bytes]:
    return [bytes(file.read_units(chunk).bytes) for file, chunk in source.chunks()]


@pytest.mark.parametrize("name", FORMATS)
def test_a_pipe_has_the_chunks_of_the_file(name: str, files: dict[str, Path]) -> None:
    data = files[name].read_bytes()
    given = None if name != "bulletformat" else name  # 32 bytes that may be marlinformat's
    expected = chunks_of(open_sources([files[name]])[0])
    assert len(expected) > 2
    for step in (1 << 16, 999_983):
        with piped(data, step) as pipe:
            source = open_input(pipe, given)
            assert not source.is_empty
            assert chunks_of(source) == expected
            source.check_end()
            assert source.offset(len(expected)) == len(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damage_in_a_pipe_is_told_as_in_the_file(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    whole = files[name].read_bytes()
    damaged = tmp_path / files[name].name
    place = 1_700_000 if name != "binpack" else len(whole) - 9000
    for data in (whole[:-5], whole[:place] + b"\xff" * 40 + whole[place + 40 :]):
        damaged.write_bytes(data)
        verdict = verify(open_sources([damaged])[0], threads=2)
        assert not verdict.ok
        with piped(data) as pipe:
            found = verify(open_input(pipe, name), threads=2)
            assert replace(found, file=verdict.file) == verdict
        with piped(data) as pipe:
            assert dumped(open_input(pipe, name)) == dumped(open_sources([damaged])[0])


def dumped(source: Source) -> tuple[str, int | None, str]:
    """What is printed before the damage, hashed; where that is, and what."""
    lines = hashlib.sha256()
    try:
        for block in dump(source):
            lines.update(block)
    except DataError as error:
        return lines.hexdigest(), error.offset, error.reason
    raise AssertionError("no damage")


def test_random_filters_leave_the_same_of_a_pipe(files: dict[str, Path]) -> None:
    filters = FilterConfig(random_skip=2.0, where="ply > 10", piece_count=True)
    target, found = named_format("packedsfen"), []
    sources: list[Source] = [*open_sources([files["viriformat"], files["binpack"]])]
    with piped(files["viriformat"].read_bytes()) as one, piped(files["binpack"].read_bytes()) as two:
        for inputs in (sources, [open_input(one, needed=["ply"]), open_input(two, needed=["ply"])]):
            passing = PassingUnits(inputs, target, filters, seed=5, threads=2)
            units = concatenate(list(passing))
            assert passing.passed.kept == len(units) < passing.passed.read
            found.append((units.bytes.tobytes(), passing.passed))
    assert found[0] == found[1]


def test_a_conversion_of_a_pipe_has_the_bytes_of_one_of_the_file(files: dict[str, Path]) -> None:
    for name, into in (("viriformat", "binpack"), ("binpack", "viriformat"), ("text", "bulletformat")):
        target = named_format(into)
        expected = concatenate(list(read_all_units(open_sources([files[name]]), target, 1)))
        with piped(files[name].read_bytes()) as pipe:
            made = concatenate(list(read_all_units([open_input(pipe)], target, 2)))
        assert made.bytes.tobytes() == expected.bytes.tobytes()


class Stdout:
    """Standard output whose bytes are kept, or that is a terminal."""

    encoding, terminal = "utf-8", False

    def __init__(self) -> None:
        self.buffer = io.BytesIO()
        self.buffer.isatty = lambda: self.terminal  # type: ignore[method-assign]

    def write(self, text: str) -> int:
        return self.buffer.write(text.encode())

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        pass


def test_dashes_and_named_pipes_are_outputs_and_nothing_else_goes_there(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, fifo = tmp_path / "made.psv", tmp_path / "fifo"
    options = ("--where", "ply > 40", "--to", "packedsfen", "--threads", "2")
    assert run("filter", files["binpack"], "-o", made, *options) == 0
    capsys.readouterr()
    os.mkfifo(fifo)
    for place in ("-", "/dev/stdout", fifo):
        got: list[bytes] = []
        reader = threading.Thread(target=lambda got=got: got.append(fifo.read_bytes()))
        if place == fifo:
            reader.start()
        with monkeypatch.context() as patch:
            out = Stdout()
            patch.setattr(sys, "stdout", out)
            assert run("filter", files["binpack"], "-o", place, *options) == 0
        if place == fifo:
            reader.join()
        assert (got[0] if place == fifo else out.buffer.getvalue()) == made.read_bytes()
        assert "positions kept" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "made.psv"]


def test_what_a_pipe_can_not_do_is_one_line(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    viri = files["viriformat"].read_bytes()
    made = tmp_path / "made.bf"
    cases: list[tuple[bytes, tuple[object, ...], str]] = [
        (b"\x1f\x8b\x08 and more", ("count", "PIPE"), "is compressed, and comes out of a pipe: put `gzip -dc`"),
        (b"no data at all, or none of ours", ("count", "PIPE"), "does not begin as any of the formats"),
        (b"", ("convert", "PIPE", "-o", made), "there is nothing to read"),
        (viri, ("convert", "PIPE", "PIPE", "-o", made), "is a pipe, and given twice"),
        (viri, ("count", "PIPE", "--format", "pgm"), "'pgm' is none of the formats"),
        (viri, ("shuffle", "PIPE", "-o", made), "is a pipe, which can be read once, and here a file is needed"),
        (viri, ("dedupe", "PIPE", "-o", made), "loader convert - -o FILE"),
        (viri, ("shuffle", files["viriformat"], "-o", "-"), "-: is no file, and this command writes one"),
        (viri, ("filter", "PIPE", "-o", made, "--where", "ply >"), "--where: "),
    ]
    for data, arguments, said in cases:
        with piped(data) as pipe:
            assert run(*(pipe if each == "PIPE" else each for each in arguments)) in (1, 2), arguments
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    out = Stdout()
    out.terminal = True
    monkeypatch.setattr(sys, "stdout", out)
    assert run("head", files["viriformat"]) == 2
    assert "is not for a terminal" in capsys.readouterr().err
    assert not out.buffer.getvalue()
    assert not list(tmp_path.iterdir())


def test_a_signal_ends_the_waiting_for_a_pipe() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, VALIDATION.read_bytes()[:5000])

        def stop() -> None:
            raise InterruptedBySignalError(signal.SIGTERM)

        source = open_input(Path(f"/dev/fd/{reading}"))
        source.call_while_waiting(stop)
        with pytest.raises(InterruptedBySignalError):
            list(source.chunks())
    finally:
        os.close(reading)
        os.close(writing)


def test_a_command_whose_reader_ends_early_ends_quietly(files: dict[str, Path], tmp_path: Path) -> None:
    """The docs' chains of commands run in tests/project/test_docs_run.py."""
    loader, large = f"{shlex.quote(sys.executable)} -P -m loader", shlex.quote(str(files["viriformat"]))
    commands = f"{loader} convert - -o - < {large} | head -c 100 | wc -c; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, env=elsewhere(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["100", "141"]
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())
