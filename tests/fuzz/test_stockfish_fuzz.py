"""Any bytes as a .nnue file: an error with a place in the file, or a net of which the same file is made (I8)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loader.errors import DataError
from pool.tasks.chess.stockfish.nnue_file import read_net, serialize_net
from pool.tasks.chess.stockfish.versions import padded
from tests.pool.tasks.chess.stockfish.support import V5, random_net

L1 = 8
DESCRIPTION = "fuzz"
HEADER = 12 + len(DESCRIPTION) + 4  # with the transformer's hash
STACK = 4 + 4 * 16 + 16 * padded(L1) + 4 * 32 + 32 * 32 + 4 + 32
MAX_SECONDS = 1.0  # of CPU, for one file


@pytest.fixture(scope="module")
def whole() -> bytes:
    return serialize_net(replace(random_net(L1, seed=1), description=DESCRIPTION))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.nnue"


def check(path: Path, data: bytes) -> DataError | None:
    """Reads `data` as a file; gives back the error, if it is one."""
    path.write_bytes(data)
    begin = time.process_time()
    error: DataError | None = None
    try:
        net = read_net(path)
    except DataError as caught:
        error = caught
    assert time.process_time() - begin < MAX_SECONDS
    if error is None:
        assert serialize_net(net) == data
        return None
    assert error.file == str(path)
    assert error.offset is not None
    assert 0 <= error.offset <= len(data)
    assert error.reason
    return error


def patched(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def checked_places(size: int) -> list[int]:
    """Every byte that the reader looks at: the header and the hashes of the layer stacks."""
    stacks = size - 8 * STACK
    return [*range(HEADER), *(stacks + i * STACK + byte for i in range(8) for byte in range(4))]


def test_every_byte_with_a_meaning_of_its_own_may_be_wrong(whole: bytes, path: Path) -> None:
    assert check(path, whole) is None
    for at in checked_places(len(whole)):
        for value in (0, 255, whole[at] ^ 1, whole[at] ^ 128):
            error = check(path, patched(whole, at, value))
            in_text = 12 <= at < 12 + len(DESCRIPTION)
            assert (error is None) == (in_text or value == whole[at]), (at, value)


def test_a_file_may_end_anywhere(whole: bytes, path: Path) -> None:
    rng = random.Random(1)
    lengths = [*range(HEADER + 8), *(rng.randrange(len(whole)) for _ in range(100)), len(whole) - 1]
    for length in lengths:
        error = check(path, whole[:length])
        assert error is not None
        assert error.offset is not None


def mutants(whole: bytes, count: int) -> Iterator[bytes]:
    """Random changes; half of them lengthen or shorten the description and mend its length."""
    rng = random.Random(2)
    places = checked_places(len(whole))
    for number in range(count):
        data = bytearray(whole)
        if number % 2:
            text = rng.randbytes(rng.randrange(64))
            data[8 : 12 + len(DESCRIPTION)] = len(text).to_bytes(4, "little") + text
        for _ in range(rng.randrange(3)):
            at = rng.choice((rng.randrange(len(data)), rng.choice(places)))
            data[at] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        if rng.random() < 0.2:
            data += rng.randbytes(rng.randrange(1, 9))
        yield bytes(data)


def test_mutants_give_an_error_or_the_same_file(whole: bytes, path: Path) -> None:
    refused = sum(check(path, mutant) is not None for mutant in mutants(whole, 400))
    assert 100 < refused < 350


def test_short_random_bytes_behind_a_right_version_are_refused(path: Path) -> None:
    rng = random.Random(3)
    for _ in range(300):
        data = V5.word.to_bytes(4, "little") + rng.randbytes(rng.randrange(60))
        assert check(path, data) is not None
