"""The integer evaluator against a second one, written with Python's integers step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pool.tasks.chess.positions import Inputs, Position, read_fen
from pool.tasks.chess.quantization import truncating_divide
from pool.tasks.chess.stockfish import halfka
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.nnue_file import Net
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, VERSIONS
from tests.pool.tasks.chess.stockfish.support import random_net, sample_fens, slow_position

FENS = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k3/8/8/8/8/8/5p2/2K5 b q - 0 1",
    "1nk5/3p1N2/3b1N2/P2bp1pr/2p3P1/Rp3r2/2P2P2/2BK4 w - - 6 37",
    "8/k7/2K1R2p/3P1P1P/p7/8/8/2b5 w - - 4 74",
    "rn2k2r/pp3ppp/2p1b3/4q3/1b6/2N1B3/PPPQBPPP/R3K2R b KQkq - 5 11",
]


def wrap(value: int, bits: int = 32) -> int:
    """Two's complement."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def divide(value: int, divisor: int) -> int:
    return abs(value) // divisor * (1 if value >= 0 else -1)


def slow_terms(net: Net, position: Position, bucket: int) -> tuple[int, int]:
    """PSQT and positional term of one bucket, one number at a time."""
    version, half = net.version.name, net.l1 // 2
    psqt, inputs = [], []
    for features in (position.own, position.opponent):
        rows = [row for feature in features.tolist() for row in rows_of(net, feature)]
        sums = [
            wrap(int(net["transformer_bias"][j]) + sum(int(weight[j]) for weight, _ in rows), 16) for j in range(net.l1)
        ]
        if version in ("SFNNv10", "SFNNv16"):
            clamped = [min(max(value, 0), 255) for value in sums]
            inputs += [clamped[j] * clamped[j + half] // 512 for j in range(half)]
        else:
            clamped = [min(max(value, 0), 127) for value in sums]
            inputs += [clamped[j] * clamped[j + half] >> 7 for j in range(half)]
        psqt.append(wrap(sum(int(values[bucket]) for _, values in rows)))
    layers = layers_of_19 if version == "SFNNv16" else layers_of_15
    return divide(wrap(psqt[0] - psqt[1]), 2), layers(net, bucket, inputs)


def rows_of(net: Net, feature: int) -> Iterator[tuple[Any, Any]]:
    """Weights and PSQT values of an input."""
    names = [("transformer_weight", "psqt_weight"), ("threat_weight", "threat_psqt"), ("pair_weight", "pair_psqt")]
    for weight, psqt in names[: len(net.version.tables)]:
        if 0 <= feature < len(net[weight]):
            yield net[weight][feature], net[psqt][feature]
        feature -= len(net[weight])


def sums_of(net: Net, name: str, bucket: int, inputs: list[int]) -> list[int]:
    weight, bias = np.atleast_2d(net[f"{name}_weight"][bucket]), np.atleast_1d(net[f"{name}_bias"][bucket])
    rows = zip(weight.tolist(), bias.tolist(), strict=True)
    return [wrap(start + sum(w * x for w, x in zip(row, inputs, strict=False))) for row, start in rows]


def clipped(values: list[int], shift: int) -> list[int]:
    return [min(max(value >> shift, 0), 127) for value in values]


def layers_of_15(net: Net, bucket: int, inputs: list[int]) -> int:
    y = sums_of(net, "fc_0", bucket, inputs)
    hidden = [min(127, value * value >> 19) for value in y[:15]] + clipped(y[:15], 6)
    (total,) = sums_of(net, "fc_2", bucket, clipped(sums_of(net, "fc_1", bucket, hidden), 6))
    return wrap(total + divide(wrap(y[15] * 9600), 8128))


def layers_of_19(net: Net, bucket: int, inputs: list[int]) -> int:
    y = sums_of(net, "fc_0", bucket, inputs)
    first = [min(127, value * value >> 21) for value in y] + clipped(y, 7)
    z = sums_of(net, "fc_1", bucket, first)
    second = [min(127, value * value >> 19) for value in z] + clipped(z, 6)
    (total,) = sums_of(net, "fc_2", bucket, first + second)
    return divide(wrap(total + y[30] - y[31]) * 9600, 16384)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize(("l1", "extreme"), [(8, False), (32, True)])
def test_every_bucket_equals_the_step_by_step_evaluator(name: str, l1: int, extreme: bool) -> None:
    version = VERSIONS[name]
    net = random_net(l1, seed=7, extreme=extreme, version=version)
    positions = [read_fen(fen, Inputs(version.feature_set)) for fen in FENS]
    result = evaluate(net, positions)
    for i, position in enumerate(positions):
        for bucket in range(NUM_BUCKETS):
            psqt, positional = slow_terms(net, position, bucket)
            assert (result.psqt[i, bucket], result.positional[i, bucket]) == (psqt, positional)
            together = divide(psqt + positional, 16)
            apart = divide(psqt, 16) + divide(positional, 16)
            before_17 = name in ("SFNNv5", "SFNNv6", "SFNNv8")
            assert result.values[i, bucket] == (together if before_17 else apart)
        assert result.value[i] == result.values[i, result.bucket[i]]


def test_many_positions_at_once_equal_each_alone() -> None:
    net = random_net(32, seed=3)
    positions = [slow_position(fen) for fen in sample_fens(200)] * 6
    together = evaluate(net, positions)
    for i in (0, 17, 1023, 1024, 1199):
        alone = evaluate(net, [positions[i]])
        assert together.value[i] == alone.value[0]
        assert np.array_equal(together.positional[i], alone.positional[0])


def test_no_position_gives_no_result() -> None:
    assert evaluate(random_net(8, seed=1), []).psqt.shape == (0, 8)


def test_division_truncates_toward_zero() -> None:
    assert truncating_divide(np.array([-33, -1, 0, 1, 33]), 16).tolist() == [-2, 0, 0, 0, 2]


def test_virtual_features_follow_the_king_bucket() -> None:
    virtual = halfka.virtual_features()
    assert virtual[22468] == 10 * 64 + 4  # start position: king bucket 31, the own king on e1
    assert virtual[22524] == 11 * 64 + 60  # and the enemy's on e8
    assert virtual[21832] == 8  # own pawn on a2
    right_half = {plane * 64 + square for plane in range(12) for square in range(64) if square % 8 >= 4}
    assert set(virtual.tolist()) == {*range(640), *range(704, 768)} | {n for n in right_half if n // 64 == 10}


def test_slow_features_are_those_of_the_format_notes() -> None:
    start = slow_position(FENS[0])
    expected = [*range(21832, 21840), *range(21936, 21944), 21953, 21958, 22073, 22078, 22082, 22085]
    expected += [22202, 22205, 22208, 22215, 22328, 22335, 22339, 22459, 22468, 22524]
    assert sorted(start.own.tolist()) == sorted(start.opponent.tolist()) == expected
    other = slow_position(FENS[1])
    assert sorted(other.own.tolist()) == [21877, 22208, 22468, 22522]
    assert sorted(other.opponent.tolist()) == [21194, 21631, 21765, 21819]
