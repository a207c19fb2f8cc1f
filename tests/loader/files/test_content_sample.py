"""A sample of a file's content tells files of the same size apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.files.fingerprint import content_sample
from loader.files.identity import identify

SIZES = [0, 1, 1000, 1 << 16, 100_000, 1_000_001]


def sample(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    (file,) = identify([path])
    return content_sample(file, may_grow=False)


@pytest.mark.parametrize("size", SIZES)
def test_the_same_bytes_elsewhere_are_the_same(size: int, tmp_path: Path) -> None:
    content = bytes(i % 251 for i in range(size))
    assert sample(tmp_path / "a", content) == sample(tmp_path / "b", content)


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_another_byte_at_the_beginning_in_the_middle_or_at_the_end_is_seen(
    where: float, size: int, tmp_path: Path
) -> None:
    content = bytearray(size)
    before = sample(tmp_path / "a", bytes(content))
    content[int(where * (size - 1))] = 1
    assert sample(tmp_path / "a", bytes(content)) != before
