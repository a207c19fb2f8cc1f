"""The .nnue file: what is written is read back, and whatever is damaged is named with its offset (I8)."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loader.errors import DataError
from pool.tasks.chess.stockfish import halfka, nnue_file
from pool.tasks.chess.stockfish.nnue_file import Net, read_net, serialize_net, stack_type, write_net
from pool.tasks.chess.stockfish.versions import VERSIONS
from tests.pool.tasks.chess.stockfish.support import V5, random_net, same_net


@pytest.fixture(scope="module")
def net() -> Net:
    return random_net(8, seed=1)


@pytest.fixture(scope="module")
def data(net: Net) -> bytes:
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


# Bytes of the file but for the description, if nothing is compressed; hashes of transformer, stacks and file.
TABLE = {
    "SFNNv5": (47_001_424, 0x7F2344B8, 0x63336A4A, 0x1C102EF2),
    "SFNNv6": (70_136_656, 0x7F2340B8, 0x63336BCA, 0x1C102B72),
    "SFNNv8": (116_407_120, 0x7F2358B8, 0x633368CA, 0x1C103072),
    "SFNNv9": (139_542_352, 0x7F2354B8, 0x6333744A, 0x1C1020F2),
    "small": (6_514_768, 0x7F234DB8, 0x6333712A, 0x1C103C92),
    "SFNNv10": (131_329_360, 0x8F2344B8, 0x63336A4A, 0xEC102EF2),
    "SFNNv16": (115_114_576, 0xCB685313, 0x63337116, 0xA85B2205),
}


@pytest.mark.parametrize("name", TABLE)
def test_sizes_and_hashes_are_those_of_the_table(name: str) -> None:
    version = VERSIONS[name]
    size, *expected = TABLE[name]
    l1 = version.l1
    found = [of(version, l1) for of in (nnue_file.transformer_hash, nnue_file.stack_hash, nnue_file.network_hash)]
    assert found == expected
    kinds = version.kinds()
    arrays = sum(math.prod(shape) * kinds[array](0).nbytes for array, shape in version.shapes(l1).items())
    assert arrays + 12 + 4 + 8 * 4 == size
    assert {array for block in version.blocks for array in block.names} | set(stack_type(version, l1).names or ()) == {
        *version.shapes(l1),
        "hash",
    }


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("l1", [8, 16])
def test_a_net_of_every_version_reads_back_as_it_was_written(name: str, l1: int, tmp_path: Path) -> None:
    """Versions that differ in width alone are told apart by it: another width counts to the newest."""
    version = VERSIONS[name]
    written = random_net(l1, seed=l1, extreme=True, version=version)
    write_net(written, tmp_path / "x.nnue")
    read = read_net(tmp_path / "x.nnue")
    assert read.version.blocks == version.blocks
    assert same_net(replace(read, version=version), written)
    assert serialize_net(read) == (tmp_path / "x.nnue").read_bytes()


def test_the_width_says_which_version_it_is(tmp_path: Path) -> None:
    write_net(random_net(128, seed=1, version=VERSIONS["SFNNv9"]), tmp_path / "x.nnue")
    assert read_net(tmp_path / "x.nnue").version is VERSIONS["small"]


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
def test_any_description_survives(net: Net, data: bytes, description: bytes, tmp_path: Path) -> None:
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


def test_truncation_names_the_section_and_both_sizes(net: Net, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "short.nnue"
    path.write_bytes(data[:5000])
    assert refusal(path).offset == 5000
    end = 12 + len(net.description) + 4 + 2 * 8 + 2 * 8 * 22528
    assert f"inside transformer_weight, which ends at {end}; found 5000 bytes" in refusal(path).reason
    path.write_bytes(data[:-1])
    assert "inside stacks" in refusal(path).reason


def test_one_byte_too_many_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "long.nnue"
    path.write_bytes(data + b"\0")
    assert refusal(path).offset == len(data)
    assert "1 bytes too many" in refusal(path).reason


def test_wrong_version_and_hashes_are_named(net: Net, data: bytes, tmp_path: Path) -> None:
    start = 12 + len(net.description)
    stack = len(data) - (len(data) - start - 4 - 16 - halfka.INPUTS * (2 * 8 + 4 * 8))
    cases = {
        0: "version 0xdeadbeef, expected 0x7af32f20 or 0x6a448afa",
        4: "network hash 0xdeadbeef, expected",
        start: "transformer hash 0xdeadbeef; known are 0x7f2344b8 (SFNNv5), ",
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


def test_another_architecture_is_named(data: bytes, net: Net, tmp_path: Path) -> None:
    path = tmp_path / "other.nnue"
    path.write_bytes(replaced(data, 12 + len(net.description), nnue_file.transformer_hash(V5, 2560)))
    assert "another architecture" in refusal(path).reason
    raw = serialize_net(random_net(8, seed=1, version=VERSIONS["SFNNv16"]))
    path.write_bytes(raw.replace(b"COMPRESSED_LEB128", b"UNCOMPRESSED_____", 1))
    assert "its numbers are not compressed (LEB128), unlike those of SFNNv16" in refusal(path).reason


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "random.nnue"
    path.write_bytes(random.Random(seed).randbytes(10_000))
    assert refusal(path).offset == 0
    path.write_bytes(V5.word.to_bytes(4, "little") + random.Random(seed).randbytes(10_000))
    assert refusal(path).offset is not None


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).reason
    assert "No such file" in refusal(tmp_path / "missing.nnue").reason
    assert "not a regular file" in refusal(Path("/dev/null")).reason
    (tmp_path / "empty.nnue").touch()
    assert refusal(tmp_path / "empty.nnue").offset == 0


def test_a_net_that_can_not_be_written_leaves_nothing_behind(net: Net, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't be written: No such file"):
        write_net(net, tmp_path / "nowhere" / "x.nnue")
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataError, match="can't be written"):
        write_net(net, tmp_path / "taken")
    assert names(tmp_path) == ["taken"]


def test_a_pipe_is_not_replaced_by_a_net(net: Net, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="can't be written: it is not a regular file"):
        write_net(net, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_importing_the_file_format_does_not_import_torch() -> None:
    names = ("network", "nnue_file", "quantization")
    modules = ", ".join(("pool.tasks.chess.networks.eval", *(f"pool.tasks.chess.stockfish.{name}" for name in names)))
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
