"""The mark of no score (32002) has no side: it stays what it is where scores are White's."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparsepool

BLACK = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"


@pytest.mark.parametrize("mark", [32002, -32002])
def test_white_s_mark_is_the_mover_s(tmp_path: Path, mark: int) -> None:
    path = tmp_path / "marked.txt"
    path.write_text(f"{BLACK} | {mark} | 0.5\n{BLACK} | 31 | 0.5\n")
    blocks = sparsepool.open(path).blocks()
    assert [int(score) for block in blocks for score in block["score"]] == [32002, -31]
