"""Our integers are those of the real engine (Stockfish 15.1), for its own network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnue_support import Engine, expected_integers, expected_print, sample_fens, slow_position

from pool.tasks.nnue.evaluate import evaluate
from pool.tasks.nnue.nnue_file import read_net, serialize_net

pytestmark = pytest.mark.engine


def test_the_engines_net_is_written_back_byte_for_byte(engine_net: Path) -> None:
    net = read_net(engine_net)
    assert net.l1 == 1024
    assert serialize_net(net) == engine_net.read_bytes()


def test_integers_equal_the_engines_for_400_positions(engine_net: Path, shared_data: Path) -> None:
    fens, expected = expected_integers(shared_data)
    result = evaluate(read_net(engine_net), [slow_position(fen) for fen in fens])
    found = np.concatenate([result.bucket[:, None], result.psqt, result.positional, result.value[:, None]], axis=1)
    assert len(fens) == 400
    assert np.array_equal(found, expected)


def test_every_printed_number_is_ours_for_200_positions(engine_path: str, engine_net: Path, shared_data: Path) -> None:
    fens = sample_fens(shared_data, 200)
    result = evaluate(read_net(engine_net), [slow_position(fen) for fen in fens])
    printed = 0
    with Engine(engine_path) as engine:
        for i, fen in enumerate(fens):
            found = engine.printed_eval(fen)
            if found is not None:
                assert found == expected_print(result, i, " b " in fen), fen
                printed += 1
    assert printed > 150
