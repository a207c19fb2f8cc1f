"""Our integers are those of the real engine (Stockfish 15.1), and it plays with the nets that we write."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest
import torch

from pool.tasks.chess.stockfish import LossConfig, ModelConfig, create_task
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.nnue_file import read_net, serialize_net, write_net
from tests.pool.tasks.chess.stockfish.support import (
    Engine,
    expected_integers,
    expected_print,
    random_net,
    sample_fens,
    slow_position,
)

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


def test_every_printed_number_is_ours_for_200_positions(engine_path: str, engine_net: Path) -> None:
    fens = sample_fens(200)
    result = evaluate(read_net(engine_net), [slow_position(fen) for fen in fens])
    printed = 0
    with Engine(engine_path) as engine:
        for i, fen in enumerate(fens):
            found = engine.printed_eval(fen)
            if found is not None:
                assert found == expected_print(result, i, " b " in fen), fen
                printed += 1
    assert printed > 150


@pytest.fixture(scope="module")
def fresh_net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised net of the engine's width, as the task exports it."""
    torch.manual_seed(3)
    task = create_task(ModelConfig(factorized=True), LossConfig())
    path = tmp_path_factory.mktemp("fresh") / "fresh.nnue"
    task.export(task.build_model(), path, "Not trained yet.")
    return path


def assert_engine_agrees(engine_path: str, net_file: Path, fens: list[str]) -> None:
    result = evaluate(read_net(net_file), [slow_position(fen) for fen in fens])
    printed = 0
    with Engine(engine_path) as engine:
        engine.say(f"setoption name EvalFile value {net_file}")
        for i, fen in enumerate(fens):
            found = engine.printed_eval(fen)
            if found is not None:
                assert found == expected_print(result, i, " b " in fen), fen
                printed += 1
    assert printed > len(fens) // 2


def test_the_engine_loads_an_exported_net_and_agrees_with_us(engine_path: str, fresh_net: Path) -> None:
    assert_engine_agrees(engine_path, fresh_net, sample_fens(60))


def test_the_engine_agrees_about_large_and_noisy_weights(engine_path: str, tmp_path: Path) -> None:
    write_net(random_net(1024, seed=11), tmp_path / "noise.nnue")
    assert_engine_agrees(engine_path, tmp_path / "noise.nnue", sample_fens(60))


def test_the_engine_plays_a_whole_game_with_an_exported_net(engine_path: str, fresh_net: Path) -> None:
    board = chess.Board()
    said: list[str] = []
    with Engine(engine_path) as engine:
        engine.say(f"setoption name EvalFile value {fresh_net}")
        while not board.is_game_over(claim_draw=True) and len(board.move_stack) < 400:
            moves = " ".join(move.uci() for move in board.move_stack)
            engine.say(f"position startpos moves {moves}" if moves else "position startpos", "go nodes 300")
            lines = engine.read_until("bestmove")
            said += [line for line in lines if line.startswith("info string")]
            board.push_uci(lines[-1].split()[1])
    assert len(board.move_stack) > 20
    assert said
    assert all("NNUE evaluation using" in line for line in said)
