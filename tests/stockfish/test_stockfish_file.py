"""The .nnue file: what is written is read back, and whatever is damaged is named with its offset (I8)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from loader.errors import DataError
from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.quantized.nnue_file import NnueNet, read_net, serialize_net, write_net
from tests.stockfish.support import random_net, same_net


@pytest.fixture(scope="module")
def net() -> NnueNet:
    return random_net(8, seed=1)


@pytest.fixture(scope="module")
def data(net: NnueNet) -> bytes:
    return serialize_net(net)


def refusal(path: Path) -> DataError:
    """The error that reading ends in: one line that begins with the file's name."""
    with pytest.raises(DataError) as caught:
        read_net(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    return caught.value


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def replaced(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + value.to_bytes(4, "little") + data[offset + 4 :]


def test_hashes_of_stockfish_15_1() -> None:
    assert arch.network_hash(1024) == 0x1C102EF2
    assert arch.transformer_hash(1024) == 0x7F2344B8
    assert arch.stack_hash(1024) == 0x63336A4A


@pytest.mark.parametrize("l1", [8, 32, 40])
def test_a_net_of_any_width_reads_back_as_it_was_written(l1: int, tmp_path: Path) -> None:
    written = random_net(l1, seed=l1, extreme=True)
    write_net(written, tmp_path / "x.nnue")
    read = read_net(tmp_path / "x.nnue")
    assert same_net(read, written)
    assert read.l1 == l1
    assert serialize_net(read) == (tmp_path / "x.nnue").read_bytes()
    assert names(tmp_path) == ["x.nnue"]


@pytest.mark.parametrize("description", [b"", b"Gr\xc3\xbc\xc3\x9fe", b"\xff\x00 not text"])
def test_any_description_survives(net: NnueNet, data: bytes, description: bytes, tmp_path: Path) -> None:
    length = len(net.description)
    changed = replaced(data, 8, len(description))[:12] + description + data[12 + length :]
    (tmp_path / "x.nnue").write_bytes(changed)
    assert serialize_net(read_net(tmp_path / "x.nnue")) == changed


def test_truncation_at_any_length_is_refused_with_an_offset(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "short.nnue"
    rng = random.Random(1)
    lengths = [*range(120), *(rng.randrange(len(data)) for _ in range(100)), *range(len(data) - 40, len(data))]
    for length in sorted(set(lengths), reverse=True):
        os.truncate(path, length) if path.exists() else path.write_bytes(data[:length])
        error = refusal(path)
        assert error.offset is not None, length
        assert error.offset <= length


def test_truncation_names_the_section_and_both_sizes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "short.nnue"
    path.write_bytes(data[:5000])
    assert refusal(path).offset == 5000
    assert f"inside transformer_weight; expected {len(data)} bytes, found 5000" in refusal(path).reason
    path.write_bytes(data[:-1])
    assert "inside stacks" in refusal(path).reason


def test_one_byte_too_many_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "long.nnue"
    path.write_bytes(data + b"\0")
    assert refusal(path).offset == len(data)
    assert "1 bytes too many" in refusal(path).reason


def test_wrong_version_and_hashes_are_named(net: NnueNet, data: bytes, tmp_path: Path) -> None:
    start = 12 + len(net.description)
    stack = len(data) - (len(data) - start - 4 - 16 - arch.NUM_FEATURES * (2 * 8 + 4 * 8))
    cases = {
        0: "version 0xdeadbeef, expected 0x7af32f20",
        4: "network hash 0xdeadbeef, expected",
        start: "transformer hash 0xdeadbeef, expected",
        stack: "hash of layer stack 0 is 0xdeadbeef, expected",
    }
    path = tmp_path / "wrong.nnue"
    for offset, reason in cases.items():
        path.write_bytes(replaced(data, offset, 0xDEADBEEF))
        assert refusal(path).offset == offset
        assert reason in refusal(path).reason


def test_a_description_longer_than_the_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "long.nnue"
    path.write_bytes(replaced(data, 8, 0xFFFFFFF0))
    assert refusal(path).offset == 8
    assert "4294967280" in refusal(path).reason


def test_another_architecture_is_named(data: bytes, net: NnueNet, tmp_path: Path) -> None:
    path = tmp_path / "other.nnue"
    path.write_bytes(replaced(data, 12 + len(net.description), arch.transformer_hash(2560)))
    assert "another architecture" in refusal(path).reason
    header = b"".join(value.to_bytes(4, "little") for value in (arch.VERSION, arch.network_hash(2560), 0))
    body = arch.transformer_hash(2560).to_bytes(4, "little") + b"COMPRESSED_LEB128" + bytes(1000)
    path.write_bytes(header + body)
    assert "compressed" in refusal(path).reason


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "random.nnue"
    path.write_bytes(random.Random(seed).randbytes(10_000))
    assert refusal(path).offset == 0
    path.write_bytes(arch.VERSION.to_bytes(4, "little") + random.Random(seed).randbytes(10_000))
    assert refusal(path).offset is not None


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).reason
    assert "No such file" in refusal(tmp_path / "missing.nnue").reason
    assert "not a regular file" in refusal(Path("/dev/null")).reason
    (tmp_path / "empty.nnue").touch()
    assert refusal(tmp_path / "empty.nnue").offset == 0


def test_a_net_that_can_not_be_written_leaves_nothing_behind(net: NnueNet, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't be written: No such file"):
        write_net(net, tmp_path / "nowhere" / "x.nnue")
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataError, match="can't be written"):
        write_net(net, tmp_path / "taken")
    assert names(tmp_path) == ["taken"]


def test_a_pipe_is_not_replaced_by_a_net(net: NnueNet, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="can't be written: it is not a regular file"):
        write_net(net, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_importing_the_file_format_does_not_import_torch() -> None:
    names = ("networks", "quantized.nnue_file", "quantized.quantize")
    modules = ", ".join(("pool.tasks.chess.evaluating", *(f"pool.tasks.stockfish.{name}" for name in names)))
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
