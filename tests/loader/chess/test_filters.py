"""The filters against an independent computation in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loader._native import BinpackFile, win_draw_loss_probability
from loader.batch.slots import allocate_slots, read_batches
from loader.chess.filters import FilterConfig
from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.sources import data_config, open_stream

RECORD = np.dtype(
    {
        "names": ["occupied", "planes", "score", "ply", "move", "result", "flags"],
        "formats": ["<u8", "4<u4", "<i2", "<u2", "<u2", "i1", "u1"],
    }
)
IN_CHECK, CAPTURE, PROMOTION = 2, 4, 8
MASK = 2**32 - 1
Records = npt.NDArray[np.void]


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10, written from the paper."""
    c, (low, high) = list(counter), key
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ low, second & MASK, first >> 32 ^ c[3] ^ high, first & MASK]
        low, high = (low + 0x9E3779B9) & MASK, (high + 0xBB67AE85) & MASK
    return c


def test_the_python_philox_meets_the_published_vectors() -> None:
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    counter, key = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    assert philox(counter, key) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def slow_probability(ply: int, score: int, result: int) -> float:
    m = min(240, ply) / 64
    a = ((-3.68389304 * m + 30.07065921) * m - 60.52878723) * m + 149.53378557
    b = 1.5 * (((-2.0181857 * m + 15.85685038) * m - 29.83452023) * m + 47.59078827)
    x = max(-2000.0, min(2000.0, 100 * score / 208))
    win, loss = 1 / (1 + math.exp((a - x) / b)), 1 / (1 + math.exp((a + x) / b))
    return {1: win, -1: loss, 0: 1 - win - loss}[result]


def records_of(files: list[Path]) -> list[Records]:
    """The entries of each chunk, all files in order."""
    return [
        file.decode(chunk)[0].view(RECORD).ravel()
        for file in map(BinpackFile, files)
        for chunk in range(file.num_chunks)
    ]


def piece_counts(records: Records) -> npt.NDArray[np.int64]:
    return np.array([int(occupied).bit_count() for occupied in records["occupied"]], dtype=np.int64)


def keep_fixed(records: Records, filters: FilterConfig) -> npt.NDArray[np.bool_]:
    keep = (records["score"] != 32002) | (not filters.skip_no_score)
    keep &= records["ply"].astype(int) > filters.skip_ply_up_to
    for flag, on in (
        (IN_CHECK, filters.skip_in_check),
        (CAPTURE, filters.skip_captures),
        (PROMOTION, filters.skip_promotions),
    ):
        keep &= ((records["flags"] & flag) == 0) | (not on)
    return np.asarray(keep)


def slow_filter(records: Records, filters: FilterConfig, seed: int, epoch: int, chunk: int) -> Records:
    key = philox([1, 0, 0, 0], [seed & MASK, seed >> 32])[:2]  # 1: the purpose of filtering
    keep = keep_fixed(records, filters)
    uniform = np.array([philox([i, chunk, epoch, 0], key) for i in range(len(records))]) / 2.0**32
    keep &= uniform[:, 0] < 1 / (filters.random_skip + 1)
    if filters.win_draw_loss:
        probability = [slow_probability(int(r["ply"]), int(r["score"]), int(r["result"])) for r in records]
        keep &= uniform[:, 1] < probability
    if filters.piece_count and keep.any():
        counts = piece_counts(records)
        wanted = 2 - ((np.arange(33) - 16) / 16) ** 2
        histogram = np.bincount(counts[keep], minlength=33)
        there = histogram > 0
        ratio = wanted[there] / wanted.sum() * histogram.sum() / histogram[there]
        by_count = np.zeros(33)
        by_count[there] = max(1 / ratio.max(), 0.1 / ratio.min()) * ratio
        keep &= uniform[:, 2] < by_count[counts]
    return records[keep]


FILTERS = {
    "nothing": FilterConfig(skip_no_score=False),
    "no score": FilterConfig(),
    "fixed": FilterConfig(skip_in_check=True, skip_captures=True, skip_promotions=True, skip_ply_up_to=8),
    "check only": FilterConfig(skip_in_check=True),
    "promotions only": FilterConfig(skip_promotions=True),
    "random": FilterConfig(random_skip=1.5),
    "win, draw, loss": FilterConfig(win_draw_loss=True),
    "piece count": FilterConfig(piece_count=True),
    "all": FilterConfig(
        skip_in_check=True, skip_captures=True, skip_ply_up_to=0, random_skip=0.5, win_draw_loss=True, piece_count=True
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_survivors_are_those_of_an_independent_computation(name: str, game_files: list[Path]) -> None:
    filters, seed = FILTERS[name], 123456789012345
    chunks = records_of(game_files)
    expected = [
        slow_filter(records, filters, seed, epoch, number) for epoch in (0, 1) for number, records in enumerate(chunks)
    ]
    survivors = np.concatenate(expected)
    size = 16
    config = data_config(
        batch_size=size, window_chunks=7, shuffle=False, chess={"features": "chess768", "filters": filters}
    )
    with closing(open_stream(config, game_files, seed)) as stream:
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        for number, batch in enumerate(read_batches(stream, len(survivors) // size, slots)):
            wanted = survivors[number * size : (number + 1) * size]
            wanted = wanted[np.argsort((piece_counts(wanted) - 1) // 4, kind="stable")]
            for field in ("score", "ply", "result"):
                assert batch.dense[field].tolist() == wanted[field].tolist()


def test_keep_probabilities_equal_the_table(shared_data: Path) -> None:
    lines = (shared_data / "wld-keep-probability.tsv").read_text().splitlines()[1:]
    assert len(lines) > 100
    for line in lines:
        ply, score, result, probability = line.split("\t")
        assert win_draw_loss_probability(int(ply), int(score), int(result)) == pytest.approx(
            float(probability), abs=1e-11
        )


def test_keep_probabilities_equal_the_library_exponential_everywhere() -> None:
    for ply in (0, 1, 63, 64, 200, 239, 240, 241, 16383):
        for score in (*range(-4400, 4400, 37), -32768, 32767):
            for result in (-1, 0, 1):
                wanted = slow_probability(ply, score, result)
                assert win_draw_loss_probability(ply, score, result) == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_expected_survivors_of_real_data(shared_data: Path) -> None:
    (records,) = records_of([shared_data / "small.binpack"])
    trainer = FilterConfig(skip_in_check=True, skip_captures=True)
    kept = records[keep_fixed(records, trainer)]
    assert len(kept) == 324_094
    expected = sum(
        map(win_draw_loss_probability, kept["ply"].tolist(), kept["score"].tolist(), kept["result"].tolist())
    )
    assert expected == pytest.approx(196_572.4, abs=0.05)


def test_the_survivors_of_real_data_are_as_many_as_expected(shared_data: Path) -> None:
    filters = FilterConfig(skip_in_check=True, skip_captures=True, win_draw_loss=True)
    config = data_config(batch_size=4096, chess={"features": "chess768", "filters": filters})
    with ChessSource().open(config, identify([shared_data / "small.binpack"]), seed=5) as stream:
        next(read_batches(stream, 1))
        read, kept, _ = stream.progress()
    assert read % 434_921 == 0
    assert kept * 434_921 / read == pytest.approx(196_572.4, abs=1000)  # the standard deviation is below 220
