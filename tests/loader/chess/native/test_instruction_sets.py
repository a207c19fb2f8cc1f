"""Every instruction set that this CPU has gives the same batches, byte for byte."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader._native import set_simd_level, simd_levels
from loader.chess.filters import FilterConfig
from loader.stream.config import DataConfig
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.support.paths import SAMPLE

FEATURES: tuple[dict[str, Any], ...] = (
    {"features": "HalfKAv2_hm"},
    {"features": "HalfKAv2_hm^"},
    {"features": "SFNNv10"},
    {"features": "SFNNv16"},
    {"features": "SFNNv16^"},
    {"features": "chess768^ + threats + pawn_pairs", "king_buckets": [0] * 16 + [1] * 16},
    {"features": "chess704^ + threats_v11", "king_buckets": [0] * 16 + [1] * 16},
    {"features": "chess768", "output_buckets": "single"},
    {"features": "chess768^", "king_buckets": tuple(range(31, -1, -1)), "output_buckets": "material_count_8"},
    {"features": "chess768", "king_buckets": tuple(range(64))},
)
ALL_FILTERS = FilterConfig(
    skip_captures=True, skip_in_check=True, random_skip=0.5, win_draw_loss=True, piece_count=True
)

pytestmark = pytest.mark.usefixtures("restored_level")


def digests_by_level(config: DataConfig, files: list[Path], count: int) -> dict[str, list[str]]:
    found = {}
    for level in simd_levels():
        set_simd_level(level)
        with closing(open_stream(config, files, seed=5)) as stream:
            found[level] = [digest(batch) for batch in islice(read_batches(stream, count), count)]
    return found


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("batch_size", [1, 3, 64, 500, 16384, 32768, 32769])
def test_batches_are_the_same(features: dict[str, Any], batch_size: int) -> None:
    """Below 352 positions fewer inputs fit than there are; above 32,768, bags are numbered in 32 bits."""
    config = data_config(batch_size=batch_size, chess=features)
    expected, *others = digests_by_level(config, [SAMPLE / "train.binpack"], 3).values()
    assert len(set(expected)) == 3
    assert all(other == expected for other in others)


@pytest.mark.parametrize("shuffle", [True, False])
def test_filtered_batches_of_many_chunks_are_the_same(shuffle: bool, game_files: list[Path]) -> None:
    config = data_config(batch_size=50, window_chunks=7, shuffle=shuffle, chess={"filters": ALL_FILTERS})
    expected, *others = digests_by_level(config, game_files, 20).values()
    assert all(other == expected for other in others)
