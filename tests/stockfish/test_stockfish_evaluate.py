"""The integer evaluator against a second one, written with Python's integers step by step."""

from __future__ import annotations

import numpy as np
import pytest

from pool.tasks.chess.positions import Position
from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.quantized.evaluate import evaluate, truncating_divide
from pool.tasks.stockfish.quantized.nnue_file import NnueNet
from tests.stockfish.support import random_net, sample_fens, slow_position

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


def slow_terms(net: NnueNet, position: Position, bucket: int) -> tuple[int, int]:
    """PSQT and positional term of one bucket, one number at a time."""
    half = net.l1 // 2
    psqt, inputs = [], []
    for features in (position.own, position.opponent):
        sums = [
            wrap(int(net.transformer_bias[j]) + sum(int(net.transformer_weight[f, j]) for f in features), 16)
            for j in range(net.l1)
        ]
        clamped = [min(max(value, 0), 127) for value in sums]
        inputs += [clamped[j] * clamped[j + half] >> 7 for j in range(half)]
        psqt.append(wrap(sum(int(net.psqt_weight[f, bucket]) for f in features)))
    y = [
        wrap(int(net.fc_0_bias[bucket, o]) + sum(int(net.fc_0_weight[bucket, o, i]) * inputs[i] for i in range(net.l1)))
        for o in range(16)
    ]
    hidden = [min(127, value * value >> 19) for value in y[:15]]
    hidden += [min(max(value >> 6, 0), 127) for value in y[:15]]
    total = int(net.fc_2_bias[bucket])
    for o in range(32):
        row = net.fc_1_weight[bucket, o].tolist()
        z = wrap(int(net.fc_1_bias[bucket, o]) + sum(w * x for w, x in zip(row, hidden, strict=False))) >> 6
        total += int(net.fc_2_weight[bucket, o]) * min(max(z, 0), 127)
    skip = divide(wrap(y[15] * 9600), 8128)
    return divide(wrap(psqt[0] - psqt[1]), 2), wrap(total + skip)


@pytest.mark.parametrize(("l1", "extreme"), [(8, False), (32, False), (32, True), (72, True)])
def test_every_bucket_equals_the_step_by_step_evaluator(l1: int, extreme: bool) -> None:
    net = random_net(l1, seed=7, extreme=extreme)
    positions = [slow_position(fen) for fen in FENS]
    result = evaluate(net, positions)
    for i, position in enumerate(positions):
        for bucket in range(arch.NUM_BUCKETS):
            assert (result.psqt[i, bucket], result.positional[i, bucket]) == slow_terms(net, position, bucket)
        used = result.bucket[i]
        assert result.value[i] == divide(int(result.psqt[i, used] + result.positional[i, used]), 16)


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
    virtual = arch.virtual_features()
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
