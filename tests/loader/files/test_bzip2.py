"""Files that bzip2 has compressed, also in several streams as pbzip2 writes them: read as what is in them."""

from __future__ import annotations

import bz2
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import samples_of
from tests.support.paths import VALIDATION
from tests.support.positions import encode, sample
from tests.support.refused_lines import up_to_damage

Capture = pytest.CaptureFixture[str]
GAMES = encode("pgn", sample(3000))


def in_streams(data: bytes, size: int = 20_000) -> bytes:
    return b"".join(bz2.compress(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("packed", [bz2.compress, in_streams, lambda data: bz2.compress(data) + bz2.compress(b"")])
def test_games_as_openbench_has_them_are_read(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    plain, path = tmp_path / "games.pgn", tmp_path / "games.pgn.bz2"
    plain.write_bytes(GAMES)
    path.write_bytes(packed(GAMES))
    assert list(entries(path)) == list(entries(plain))
    made = [tmp_path / "a.binpack", tmp_path / "b.binpack"]
    for source, out in zip((plain, path), made, strict=True):
        assert main(["convert", str(source), "-o", str(out)]) == 0
    assert made[0].read_bytes() == made[1].read_bytes()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.binpack.bz2", VALIDATION.read_bytes()),
        ("a.viri.bz2", encode("viriformat", sample(2000))),
        ("a.psv.bz2", encode("packedsfen", sample(2000))),
        ("a.txt.bz2", encode("text", sample(2000))),
        ("a.csv.bz2", b"label,a\n" + b"1,2\n" * 50_000),
        ("a.svm.bz2", b"1 2:3 7:1\n0 1:0.5\n" * 50_000),
    ],
)
def test_every_format_that_is_read_natively_may_be_like_that(
    tmp_path: Path, name: str, data: bytes, capsys: Capture
) -> None:
    path, plain = tmp_path / name, tmp_path / name.removesuffix(".bz2")
    path.write_bytes(in_streams(data, 1 << 18))
    plain.write_bytes(data)
    said = []
    for each in (path, plain):
        assert main(["verify", str(each)]) == 0
        said.append(capsys.readouterr().out.removeprefix(str(each)))
    assert said[0] == said[1]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_gets_the_same_batches_from_a_file_of_several_pieces(tmp_path: Path, threads: int) -> None:
    rng = random.Random(3)
    fens = [entry.fen for entry in sample(3000)]
    lines = [f"{rng.choice(fens)} | {rng.randint(-2999, 2999)} | 0.5\n" for _ in range(100_000)]
    data = "".join(lines).encode()
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.txt.bz2").write_bytes(in_streams(data, 1 << 19))
    assert (tmp_path / "a.txt.bz2").stat().st_size > 2 << 18
    config = data_config(batch_size=100, shuffle=False, threads=threads, chess={"features": "chess768"})
    batches = []
    for name in ("a.txt", "a.txt.bz2"):
        with open_stream(config, [tmp_path / name], 3) as stream:  # type: ignore[attr-defined]
            batches.append([tuple(samples_of(batch)) for batch in read_batches(stream, 150)])
    assert batches[0] == batches[1]


def test_a_file_that_is_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    text = encode("text", sample(20))
    data = bz2.compress(text[:700]) + bz2.compress(text[700:])
    whole = list(entries_of(tmp_path, text))
    path = tmp_path / "a.txt.bz2"
    ends = 0
    for size in range(10, len(data)):
        path.write_bytes(data[:size])
        read, error = up_to_damage(path)
        if error is None:  # behind the first stream, which ends within a line or not
            ends += 1
        assert read == whole[: len(read)]
    assert ends <= 1


def test_a_byte_that_is_another_one_is_seen(tmp_path: Path) -> None:
    text = encode("text", sample(200))
    data = bz2.compress(text)
    path = tmp_path / "a.txt.bz2"
    rng = random.Random(9)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[rng.randrange(10, len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        read, error = up_to_damage(path)
        assert error is not None or read == list(entries_of(tmp_path, text))


def entries_of(tmp_path: Path, text: bytes) -> list[object]:
    (tmp_path / "whole.txt").write_bytes(text)
    return list(entries(tmp_path / "whole.txt"))


def test_the_error_says_where_and_what(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.bz2"
    for tail, said in (
        (b"x", "expected another bzip2 stream"),
        (b"BZh9", "the file ends in the middle of a bzip2 stream"),
    ):
        path.write_bytes(bz2.compress(encode("text", sample(5))) + tail)
        with pytest.raises(DataError, match=f"bzip2 data can't be decoded behind line 5: {said}"):
            list(entries(path))


def test_it_is_not_written(tmp_path: Path, capsys: Capture) -> None:
    assert main(["convert", str(VALIDATION), "-o", str(tmp_path / "a.pgn.bz2")]) == 2
    assert ".bz2 is read, and not written: .gz or .zst compresses" in capsys.readouterr().err


def test_a_pipe_says_what_to_put_before(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "loader", "convert", "-", "-o", str(tmp_path / "a.binpack")]
    done = subprocess.run(run, input=bz2.compress(GAMES), capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"put `bzip2 -dc` before this command" in done.stderr
