"""Training real networks on real positions, through real processes, up to a net that the engine plays with."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import chess
import pytest

from pool.tasks.chess.positions import Inputs, read_fen
from pool.tasks.chess.stockfish.inference import evaluate
from pool.tasks.chess.stockfish.nnue_file import read_net, write_net
from tests.pool.tasks.chess.stockfish.support import Engine, expected_print, random_net, sample_fens
from tests.support.paths import ROOT
from tests.support.refusals import refused
from tests.support.runs import STOCKFISH, Ended, WholeRun, run_well
from tests.support.warm import call_pool

pytestmark = pytest.mark.runs


def validation_losses(ended: Ended) -> dict[int, float]:
    """Step -> held-out loss."""
    return {r["step"]: r["validation_loss"] for r in ended.metrics() if "validation_loss" in r}


LONGER = {
    **STOCKFISH,
    "data.batch_size": 2048,
    "data.chess.features": "HalfKAv2_hm^",
    "model.factorized": True,
    "schedule.name": "torch.optim.lr_scheduler.ExponentialLR",
    "schedule.args.gamma": 0.97,
    "train.batches_per_step": 2,
    "train.validate_every": 200,
    "train.validation_batches": 4,
}


@pytest.fixture(scope="module")
def from_scratch(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """200 steps of the test recipe."""
    return run_well(tmp_path_factory.mktemp("scratch") / "run", {**LONGER, "train.steps": 200})


def test_the_held_out_loss_falls_by_forty_percent_in_200_steps(from_scratch: Ended) -> None:
    losses = validation_losses(from_scratch)
    assert losses[200] < 0.6 * losses[0]


@pytest.mark.engine
def test_a_net_started_from_the_engines_has_a_far_lower_loss(
    from_scratch: Ended, engine_net: Path, tmp_path: Path
) -> None:
    settings = {**LONGER, "model.l1": 1024, "model.start_from": str(engine_net), "train.steps": 1}
    started = run_well(tmp_path / "run", {**settings, "optimizer.args.lr": 1e-6})
    losses = validation_losses(from_scratch)
    assert validation_losses(started)[0] < 0.5 * losses[200] < 0.5 * losses[0]


@pytest.mark.parametrize("devices", [["fake:0"], ["fake:0", "fake:1", "fake:2", "fake:3"]])
def test_one_and_four_workers_train_the_same_net_bit_for_bit(
    devices: list[str], whole_run: WholeRun, tmp_path: Path
) -> None:
    """I1, I2 with real data, all filters that draw lots on, and validation in between."""
    settings = {**STOCKFISH, "data.chess.filters.win_draw_loss": True, "data.chess.filters.random_skip": 0.5}
    two = whole_run({**settings, "data.threads": 2})
    other = run_well(tmp_path / "other", {**settings, "data.threads": 1, "pool.devices": devices})
    assert other.digest() == two.digest()
    assert validation_losses(other) == validation_losses(two)
    assert set(validation_losses(two)) == {0, 3, 6}


@pytest.mark.parametrize("tail", ["flow", "drop"])
def test_resume_in_the_middle_of_an_epoch_equals_an_uninterrupted_run(tail: str, tmp_path: Path) -> None:
    """I1, I9: the cursor in the checkpoint is all that the stream needs."""
    settings = {**STOCKFISH, "data.batch_size": 6000, "train.steps": 12, "data.tail": tail}  # about 1.4 epochs
    whole = run_well(tmp_path / "whole", settings)
    run_well(tmp_path / "cut", {**settings, "train.steps": 7})
    assert run_well(tmp_path / "cut", settings, "--resume").digest() == whole.digest()


def test_a_resumed_run_does_not_need_the_net_that_it_began_with(tmp_path: Path) -> None:
    net = tmp_path / "first.nnue"
    write_net(random_net(32, seed=1), net)
    settings = {**STOCKFISH, "train.steps": 2, "data.validation": [], "model.start_from": str(net)}
    del settings["train.validate_every"]
    run_well(tmp_path / "run", settings)
    net.unlink()
    resumed = run_well(tmp_path / "run", {**settings, "train.steps": 3}, "--resume")
    assert len(resumed.metrics()) == 3
    again = refused(tmp_path / "other", settings)
    assert again.exit_code == 69
    assert str(net) in str(again)


def pool(*arguments: str) -> str:
    done = call_pool(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo_net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net trained by the recipe of `make demo`, for fewer steps."""
    folder = tmp_path_factory.mktemp("demo")
    demo = tomllib.loads((ROOT / "configs/demo.toml").read_text(encoding="utf-8"))
    assert demo["model"]["l1"] == 1024
    overrides = [f"--set=run.dir={folder / 'run'}", "--set=train.steps=25"]
    pool("train", "configs/demo.toml", *overrides)
    pool("export", str(folder / "run/checkpoints/last"), "-o", str(folder / "net.nnue"))
    return folder / "net.nnue"


@pytest.mark.engine
def test_a_net_trained_by_the_demo_recipe_agrees_with_the_engine(demo_net: Path, engine_path: str) -> None:
    fens = sample_fens(100)
    evaluation = evaluate(read_net(demo_net), [read_fen(fen, Inputs("HalfKAv2_hm")) for fen in fens])
    with Engine(engine_path) as engine:
        engine.say(f"setoption name EvalFile value {demo_net}")
        for i, fen in enumerate(fens):
            printed = engine.printed_eval(fen)
            if printed is not None:
                assert printed == expected_print(evaluation, i, fen.split()[1] == "b")


@pytest.mark.engine
def test_a_net_trained_by_the_demo_recipe_plays_a_whole_game(demo_net: Path, engine_path: str) -> None:
    board = chess.Board()
    with Engine(engine_path) as engine:
        engine.say(f"setoption name EvalFile value {demo_net}", "ucinewgame", "isready")
        engine.read_until("readyok")
        while not board.is_game_over(claim_draw=True) and board.ply() < 300:
            moves = " ".join(move.uci() for move in board.move_stack)
            engine.say(f"position startpos{' moves ' + moves if moves else ''}", "go nodes 200")
            lines = engine.read_until("bestmove")
            assert not any("ERROR" in line for line in lines), lines
            board.push_uci(lines[-1].split()[1])
    assert board.ply() > 20


def test_eval_prints_the_demo_net_for_programs(demo_net: Path) -> None:
    line = json.loads(pool("eval", str(demo_net), "--fen", chess.STARTING_FEN, "--json"))
    assert line["bucket"] == 7
    assert line["psqt"] == [0] * 8
    assert len(line["positional"]) == 8
