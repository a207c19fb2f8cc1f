"""What every batch of a chess stream is like, whatever the settings."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loader.chess.filters import FilterConfig
from loader.stream.config import DataConfig
from loader.stream.data import Data, open_stream
from loader.stream.schema import ALIGNMENT, BatchSchema, SparseBatch
from loader.stream.slots import allocate_slots, read_batches, write_batch
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest

MIRRORED = (0, 1, 2, 3, *(4,) * 12, *(5,) * 16)
FEATURES: tuple[dict[str, Any], ...] = (
    {"features": "HalfKAv2_hm"},
    {"features": "HalfKAv2_hm^"},
    {"features": "SFNNv10"},
    {"features": "SFNNv16"},
    {"features": "chess768^ + threats + pawn_pairs", "king_buckets": [0] * 16 + [1] * 16},
    {"features": "chess704^ + threats_v11", "king_buckets": [0] * 16 + [1] * 16},
    {"features": "chess768"},
    {"features": "chess768^", "king_buckets": MIRRORED},
)
FIRST_RELATION = {102384: 22528, 86896: 22528, 66688: 2 * 768}  # by the number of inputs
RULES = {
    "single": lambda pieces: 0 * pieces,
    "stockfish": lambda pieces: (pieces - 1) // 4,
    "material_count_5": lambda pieces: (pieces - 2) // 7,
    "material_count_8": lambda pieces: (pieces - 2) // 4,
    "material_count_16": lambda pieces: (pieces - 2) // 2,
}

CONFIGS = st.builds(
    data_config,
    batch_size=st.integers(1, 700),
    window_chunks=st.integers(1, 30),
    shuffle=st.booleans(),
    chess=st.builds(
        lambda features, output_buckets, filters: {**features, "output_buckets": output_buckets, "filters": filters},
        st.sampled_from(FEATURES),
        st.sampled_from(list(RULES)),
        st.builds(FilterConfig, skip_captures=st.booleans(), random_skip=st.sampled_from([0.0, 3.0])),
    ),
)


@given(config=CONFIGS, seed=st.integers(0, 2**64 - 1))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_is_well_formed(config: DataConfig, seed: int, game_files: list[Path]) -> None:
    with closing(open_stream(config, game_files, seed)) as stream:
        for number, batch in enumerate(read_batches(stream, 3)):
            assert batch.number == number
            check_order(batch, config)
            check_rows(batch, stream.schema)
            check_against_numpy(batch, stream.schema)


def check_order(batch: SparseBatch, config: DataConfig) -> None:
    offsets = batch.bucket_offsets
    assert offsets[0] == 0
    assert offsets[-1] == config.batch_size
    rule = RULES[config.settings.output_buckets]
    assert len(offsets) == rule(32) + 2
    buckets = rule(batch.dense["piece_count"].astype(int))
    assert np.array_equal(buckets, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))


def check_rows(batch: SparseBatch, schema: BatchSchema) -> None:
    view = batch.sparse["features"]
    per_piece = 2 if schema.sparse[0].max_active == 64 else 1
    counts = np.tile(batch.dense["piece_count"].astype(int) * per_piece, 2)
    assert view.offsets[0] == 0
    sizes = np.diff(view.offsets)
    if schema.sparse[0].num_features > 65536:  # beside the pieces it has relations, as many of either colour
        assert np.array_equal(sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :])
        sizes = np.add.reduceat(view.features < FIRST_RELATION[schema.sparse[0].num_features], view.offsets[:-1])
    assert np.array_equal(sizes, counts)
    assert view.features.max() < schema.sparse[0].num_features


def check_against_numpy(batch: SparseBatch, schema: BatchSchema) -> None:
    """The whole slot, transposed form included, equals what the numpy writer makes of the rows."""
    view = batch.sparse["features"]
    (slot,) = allocate_slots(schema, 1)
    rows = {"features": (view.offsets, view.features)}
    write_batch(schema, slot, batch.number, rows, batch.dense, batch.bucket_offsets)
    assert digest(SparseBatch.view(schema, slot)) == digest(batch)


@pytest.mark.parametrize(("batch_size", "bag"), [(32768, "uint16"), (32769, "uint32")])
def test_a_batch_of_many_bags_has_wider_bag_numbers(batch_size: int, bag: str, game_files: list[Path]) -> None:
    config = data_config(batch_size=batch_size, window_chunks=100, chess={"features": "chess768"})
    with closing(open_stream(config, game_files, seed=0)) as stream:
        (batch,) = read_batches(stream, 1)
        assert batch.sparse["features"].bags.dtype == bag
        check_against_numpy(batch, stream.schema)


def test_regions_are_aligned_and_none_overlaps_another() -> None:
    for features in FEATURES:
        schema = Data(data_config(batch_size=1000, chess=features)).schema()
        end = 0
        for region in schema.regions.values():
            assert region.offset % ALIGNMENT == 0
            assert region.offset >= end
            end = region.offset + region.count * region.dtype.itemsize
        assert end <= schema.slot_bytes


def test_an_unknown_feature_set_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"data.chess.features: 'HalfKP' is none of HalfKAv2_hm, HalfKAv2_hm\^, SFNNv10, "
    ):
        Data(data_config(chess={"features": "HalfKP"})).schema()
