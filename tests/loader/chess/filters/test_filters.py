"""The filters against an independent computation in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.interpolate import CubicHermiteSpline

from loader._native import Filter, win_draw_loss_probability
from loader.chess.filters import FilterConfig
from loader.chess.filters.curves import chances_by_ply, shares_by_piece_count
from loader.chess.filters.native_settings import filter_settings
from loader.chess.filters.viriformat import NO_LIMIT, ViriformatRules
from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.stream.data import open_stream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.support.binpack_file import BinpackFile
from tests.support.paths import DATA

RECORD = np.dtype(
    {
        "names": ["occupied", "planes", "score", "ply", "move", "flags"],
        "formats": ["<u8", "4<u4", "<i2", "<u2", "<u2", "<u2"],
    }
)
BLACK, IN_CHECK = 1, 2
RESULTS = np.array([0, 1, -128, -1])  # by bits 2 and 3 of the flags
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


def with_results(records: Records, given: Sequence[int]) -> None:
    """Writes results into records that have no flags."""
    records["flags"] = [RESULTS.tolist().index(result) << 2 for result in given]


def results(records: Records) -> npt.NDArray[np.int64]:
    return np.asarray(RESULTS[records["flags"] >> 2 & 3])


def captures(records: Records) -> npt.NDArray[np.bool_]:
    """Whether an enemy piece stands on the move's destination, an entry at a time."""
    found = []
    for occupied, colours, move, flags in zip(
        records["occupied"].tolist(),
        records["planes"][:, 0].tolist(),
        records["move"].tolist(),
        records["flags"].tolist(),
        strict=True,
    ):
        to = move >> 2 & 63
        before = (occupied & ((1 << to) - 1)).bit_count()
        found.append(bool(occupied >> to & 1) and (colours >> before & 1) != (flags & BLACK))
    return np.array(found, dtype=bool)


def keep_fixed(records: Records, filters: FilterConfig) -> npt.NDArray[np.bool_]:
    keep = (records["score"] != 32002) | (not filters.skip_no_score)
    keep &= records["ply"].astype(int) > filters.skip_ply_up_to
    keep &= ((records["flags"] & IN_CHECK) == 0) | (not filters.skip_in_check)
    if filters.skip_captures:
        keep &= ~captures(records)
    keep &= (records["move"] >> 14 != 1) | (not filters.skip_promotions)
    if filters.skip_zero_placeholders:
        keep &= ~zero_placeholders(records)
    score, result = records["score"].astype(int), results(records)
    scored = score != 32002
    keep &= ~scored | (abs(score) <= filters.max_score)
    for limit in (filters.max_score_against_result, filters.viriformat.max_eval_incorrectness):
        keep &= ~scored | (result != 0) | (abs(score) <= limit)
        keep &= ~scored | (score * result >= -limit)
    if filters.where:
        assert filters.where == WHERE
        keep &= (records["ply"] >= 16) & (abs(score) < 300) & ((records["flags"] & IN_CHECK) == 0)
    return np.asarray(keep) & keep_viriformat(records, filters.viriformat)


def zero_placeholders(records: Records) -> npt.NDArray[np.bool_]:
    """recipe-2026.md h, an entry at a time."""
    found, last_ply, last_score = [], -1, 32002
    for score, ply, result in zip(
        records["score"].tolist(), records["ply"].tolist(), results(records).tolist(), strict=True
    ):
        found.append(
            score == 0 and result != 0 and ply > last_ply and last_score != 32002 and not -100 <= last_score <= 100
        )
        last_ply = ply
        if score != 32002 and not found[-1]:
            last_score = score
    return np.array(found, dtype=bool)


def keep_viriformat(records: Records, rules: ViriformatRules) -> npt.NDArray[np.bool_]:
    keep = records["ply"].astype(int) >= rules.min_ply
    keep &= piece_counts(records) >= rules.min_pieces
    keep &= abs(records["score"].astype(int)) < rules.max_eval
    kinds = records["move"] >> 14  # normal, promotion, castling, en passant
    if rules.filter_tactical:
        keep &= ~captures(records) & (kinds % 2 == 0)
    if rules.filter_check:
        keep &= (records["flags"] & IN_CHECK) == 0
    if rules.filter_castling:
        keep &= kinds != 2
    return np.asarray(keep)


def material(records: Records) -> npt.NDArray[np.int64]:
    """1, 3, 3, 5, 9 by the types in planes 1 to 3, of as many pieces as there are."""
    worth = np.array([1, 3, 3, 5, 9, 0])
    found = []
    for planes, count in zip(records["planes"], piece_counts(records), strict=True):
        types = sum((int(planes[i + 1]) >> np.arange(int(count)) & 1) << i for i in range(3))
        found.append(int(worth[types].sum()))
    return np.array(found)


def slow_chances(records: Records, filters: FilterConfig) -> npt.NDArray[np.float64]:
    """To be kept by keep_by_ply and what viriformat draws."""
    rules, ones = filters.viriformat, np.ones(len(records))
    chances = ones * (1 - rules.random_fen_skip_probability if rules.random_fen_skipping else 1)
    if filters.keep_by_ply:
        points = filters.keep_by_ply
        chances = chances * np.interp(records["ply"], points[::2], points[1::2])
    if rules.material_count_filtered:
        chances = chances * (1 - np.array(rules.material_count_probabilities))[piece_counts(records)]
    if rules.wdl_filtered:
        m = np.clip(material(records), rules.material_min, rules.material_max) / rules.mom_target
        a, b = (
            np.polyval(rules.wdl_model_params_a, m),
            np.polyval(rules.wdl_model_params_b, m) * rules.wdl_heuristic_scale,
        )
        score = records["score"].astype(float)
        win, loss = 1 / (1 + np.exp((a - score) / b)), 1 / (1 + np.exp((a + score) / b))
        draw = np.maximum(0, 1 - win - loss)
        chances = chances * np.choose(results(records) + 1, [loss, draw, win])
    return chances


def slow_filter(records: Records, filters: FilterConfig, seed: int, epoch: int, chunk: int) -> Records:
    key = philox([1, 0, 0, 0], [seed & MASK, seed >> 32])[:2]  # 1: the purpose of filtering
    keep = keep_fixed(records, filters)
    uniform = np.array([philox([i, chunk, epoch, 0], key) for i in range(len(records))]) / 2.0**32
    keep &= uniform[:, 0] < 1 / (filters.random_skip + 1)
    keep &= uniform[:, 3] < slow_chances(records, filters)
    if filters.win_draw_loss:
        probability = [
            slow_probability(*each)
            for each in zip(records["ply"].tolist(), records["score"].tolist(), results(records).tolist(), strict=True)
        ]
        keep &= uniform[:, 1] < probability
    if (filters.piece_count or filters.piece_count_curve) and keep.any():
        counts = piece_counts(records)
        wanted = 2 - ((np.arange(33) - 16) / 16) ** 2
        if filters.piece_count_curve:
            wanted = np.maximum(
                0, CubicHermiteSpline(range(0, 33, 8), filters.piece_count_curve, SLOPES)(np.arange(33))
            )
        histogram = np.bincount(counts[keep], minlength=33)
        there = histogram > 0
        ratio = wanted[there] / wanted.sum() * histogram.sum() / histogram[there]
        by_count = np.zeros(33)
        by_count[there] = max(1 / ratio.max(), filters.piece_count_least / ratio[ratio > 0].min()) * ratio
        keep &= uniform[:, 2] < by_count[counts]
    return records[keep]


WHERE = "ply >= 16 and abs(score) < 300 and not in_check"
CURVE = (-0.2, 0.45, 1.0, 0.95, 0.75)
SLOPES = np.array([0.65, 0.6, 0.25, -0.125, -0.2]) / 8  # between the points beside each
VIRIFORMAT = ViriformatRules(
    min_ply=4, min_pieces=20, max_eval=600, filter_tactical=True, filter_check=True, filter_castling=True
)
FILTERS = {
    "nothing": FilterConfig(skip_no_score=False),
    "no score": FilterConfig(),
    "fixed": FilterConfig(skip_in_check=True, skip_captures=True, skip_promotions=True, skip_ply_up_to=8),
    "check only": FilterConfig(skip_in_check=True),
    "promotions only": FilterConfig(skip_promotions=True),
    "random": FilterConfig(random_skip=1.5),
    "win, draw, loss": FilterConfig(win_draw_loss=True),
    "piece count": FilterConfig(piece_count=True),
    "where": FilterConfig(where=WHERE),
    "scores": FilterConfig(max_score=500, max_score_against_result=200),
    "plies by chance": FilterConfig(keep_by_ply=(3, 0.1, 30, 0.25, 60, 0.9)),
    "zero placeholders": FilterConfig(skip_zero_placeholders=True, skip_no_score=False),
    "piece count by a curve": FilterConfig(piece_count_curve=CURVE),
    "piece count as nnue-pytorch has it": FilterConfig(piece_count_curve=CURVE, piece_count_least=0.025),
    "piece count exactly": FilterConfig(piece_count=True, piece_count_least=0.0),
    "viriformat": FilterConfig(viriformat=VIRIFORMAT),
    "viriformat by chance": FilterConfig(
        viriformat=ViriformatRules(
            max_eval_incorrectness=300,
            random_fen_skipping=True,
            random_fen_skip_probability=0.2,
            wdl_filtered=True,
            material_count_filtered=True,
            material_count_probabilities=tuple(i / 64 for i in range(33)),
        )
    ),
    "all new": FilterConfig(
        where=WHERE, keep_by_ply=(0, 0.1, 40, 0.9), piece_count_curve=CURVE, win_draw_loss=True, random_skip=0.1
    ),
    "all": FilterConfig(
        skip_zero_placeholders=True,
        skip_in_check=True,
        skip_captures=True,
        skip_ply_up_to=0,
        random_skip=0.5,
        win_draw_loss=True,
        piece_count=True,
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
            for field in ("score", "ply"):
                assert batch.dense[field].tolist() == wanted[field].tolist()
            assert batch.dense["result"].tolist() == results(wanted).tolist()


def test_zeros_that_stand_for_no_score_are_found() -> None:
    """score, ply, result of entries in the order of the file; whether it is kept."""
    entries = [
        (0, 6, 1, 1),  # nothing is before it
        (101, 7, -1, 1),
        (0, 8, 1, 0),
        (0, 9, -1, 0),  # behind a placeholder the score before it still counts
        (32002, 10, 1, 1),  # as it does behind no score
        (0, 11, -1, 0),
        (0, 3, 1, 1),  # another game
        (0, 4, -1, 1),  # whose first score was a zero
        (-101, 5, 0, 1),
        (0, 6, 0, 1),  # of a draw
        (100, 7, 1, 1),
        (0, 8, 1, 1),
        (-4000, 9, 1, 1),
        (0, 9, 1, 1),  # the ply has not grown
    ]
    records = np.zeros(len(entries), RECORD)
    scores, plies, wanted, _ = zip(*entries, strict=True)
    records["score"], records["ply"] = scores, plies
    with_results(records, wanted)
    settings = filter_settings(FilterConfig(skip_zero_placeholders=True, skip_no_score=False))
    chosen = Filter(settings, 5).choose(records.view(np.uint8).reshape(-1, 32), 0)
    assert chosen.tolist() == [kept for *_, kept in entries]
    assert zero_placeholders(records).tolist() == [not kept for *_, kept in entries]


def test_the_least_share_is_that_of_the_most_frequent_piece_count() -> None:
    records = np.zeros(8000, RECORD)
    records["occupied"] = np.where(np.arange(8000) % 80, 2**16 - 1, 2**15 - 1)  # of 80, 79 have 16 pieces
    counts = piece_counts(records)
    kept = {}
    for least in (0.0, 0.1, 0.5, 1.0):
        settings = filter_settings(FilterConfig(piece_count=True, piece_count_least=least))
        chosen = Filter(settings, 5).choose(records.view(np.uint8).reshape(-1, 32), 0).astype(bool)
        assert chosen[counts == 15].all()  # wanted as often, and rare
        kept[least] = chosen[counts == 16].mean()
    assert kept == pytest.approx({0.0: 1 / 79, 0.1: 0.1, 0.5: 0.5, 1.0: 1.0}, abs=0.02)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"piece_count_least": 1.5}, "less than or equal to 1"),
        ({"where": "plies > 3"}, "column 1: 'plies' is no name; there are ply, score"),
        ({"keep_by_ply": (0, 0.5, 20)}, "an odd number of numbers"),
        ({"keep_by_ply": (20, 0.5, 20, 1)}, "the plies do not ascend"),
        ({"keep_by_ply": (0, 1.5)}, "a chance one from 0 to 1"),
        ({"piece_count_curve": (0, 1)}, "2 numbers; needed are 5"),
        ({"piece_count_curve": (0, 0, 0, 0, 0)}, "no share is above 0"),
        ({"viriformat": "absent.toml"}, "absent.toml: No such file"),
        ({"viriformat": {"material_count_probabilities": (0.5,)}}, "1 numbers; needed are 33"),
        ({"viriformat": {"material_min": 9, "material_max": 8}}, "material_min: 9 is above material_max = 8"),
        (
            {"viriformat": {"wdl_filtered": True, "wdl_model_params_b": (0, 0, 0, 0)}},
            "wdl_model_params_b: the model's width is not above 0",
        ),
    ],
)
def test_a_filter_that_can_not_be_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="validation error") as refused:
        FilterConfig(**keys)
    assert said in str(refused.value)


def test_a_file_of_viriformat_is_read_as_viriformat_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "filter.toml"
    path.write_text("max_eval_incorrectness = 4294967295\nfilter_tactical = false\nrandom_fen_skip_probability = 1\n")
    rules = FilterConfig(viriformat=str(path)).viriformat  # type: ignore[arg-type]
    assert (rules.min_ply, rules.min_pieces, rules.max_eval) == (16, 4, 31339)
    assert (rules.filter_tactical, rules.filter_check, rules.filter_castling) == (False, True, False)
    assert rules.max_eval_incorrectness == NO_LIMIT
    for text, said in (("min_plies = 3", "min_plies: unknown key; there are min_ply, "), ("=", "not TOML")):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            FilterConfig(viriformat=str(path))  # type: ignore[arg-type]


def test_curves_meet_their_points() -> None:
    chances = chances_by_ply((2, 0.25, 6, 0.75))
    assert chances == [0.25, 0.25, 0.25, 0.375, 0.5, 0.625, 0.75, 0.75]
    assert shares_by_piece_count((0, 0.4, 1, 1, 0.75))[::8] == [0, 0.4, 1, 1, 0.75]
    assert min(shares_by_piece_count(CURVE)) == 0


def test_keep_probabilities_equal_the_table() -> None:
    lines = (DATA / "wld-keep-probability.tsv").read_text().splitlines()[1:]
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
    expected = sum(map(win_draw_loss_probability, kept["ply"].tolist(), kept["score"].tolist(), results(kept).tolist()))
    assert expected == pytest.approx(196_572.4, abs=0.05)


def test_the_survivors_of_real_data_are_as_many_as_expected(shared_data: Path) -> None:
    filters = FilterConfig(skip_in_check=True, skip_captures=True, win_draw_loss=True)
    config = data_config(batch_size=4096, chess={"features": "chess768", "filters": filters})
    with ChessSource().open(config, identify([shared_data / "small.binpack"]), seed=5) as stream:
        next(read_batches(stream, 1))
        read, kept, _ = stream.progress()
    assert read % 434_921 == 0
    assert kept * 434_921 / read == pytest.approx(196_572.4, abs=1000)  # the standard deviation is below 220
