"""`pool validate`: networks of any kind on the same positions, by one loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pool.commands.main import main
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.positions import read_fen
from tests.loader.conftest import write_random_games
from tests.loader.stream.test_in_order import scored
from tests.pool.analysis.test_predict import saved

STOCKFISH = {"task": "stockfish", "model": {"l1": 32}, "data": {"batch_size": 64, "threads": 1}}
PERSPECTIVE = {
    "task": "perspective",
    "model": {"width": 16},
    "data": {"batch_size": 50, "threads": 1, "chess": {"features": "chess768", "output_buckets": "single"}},
}


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("games") / "one.binpack"
    write_random_games(path, 150, seed=5)
    return path


def compared(capsys: Any, *words: object) -> list[dict[str, Any]]:
    assert main(["validate", *map(str, words), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_runs_and_files_are_compared_on_the_same_positions(game: Path, tmp_path: Path, capsys: Any) -> None:
    run, net, other = tmp_path / "run", tmp_path / "a.nnue", tmp_path / "other"
    saved(run, STOCKFISH)
    saved(other, PERSPECTIVE)
    assert main(["export", str(run), "-o", str(net)]) == 0
    assert main(["predict", str(run), "--data", str(game), "-o", str(tmp_path / "scores.tsv")]) == 0
    capsys.readouterr()
    found = compared(capsys, run, net, other, "--data", game)
    assert [row["loss"] for row in found] == sorted(row["loss"] for row in found)
    by_name = {row["net"]: row for row in found}
    assert by_name.keys() == {str(run), str(net), str(other)}
    assert (by_name[str(run)]["mean_difference"], by_name[str(run)]["largest_difference"]) == (0, 0)

    positions = scored(game)
    network = open_network(net)
    values = network.evaluate([read_fen(fen, network.inputs) for fen, _ in positions]).value
    floats = np.loadtxt(tmp_path / "scores.tsv", np.float32).astype(float)
    difference = np.abs(values - floats)
    assert by_name[str(net)]["samples"] == len(positions)
    assert by_name[str(net)]["mean_difference"] == pytest.approx(difference.mean(), abs=1e-3)
    assert by_name[str(net)]["largest_difference"] == pytest.approx(difference.max(), abs=1e-3)

    def win_probability(score: Any, scaling: float) -> Any:
        win, lost = (1 / (1 + np.exp(-(sign * score - 270) / scaling)) for sign in (1, -1))
        return (1 + win - lost) / 2

    wanted = win_probability(np.array([score for _, score in positions]), 380)
    loss = (np.abs(wanted - win_probability(values, 340)) ** 2.5).mean()
    assert by_name[str(net)]["loss"] == pytest.approx(loss, rel=1e-9)


def test_the_loss_is_that_of_the_command_line_for_all(game: Path, tmp_path: Path, capsys: Any) -> None:
    saved(tmp_path / "one", STOCKFISH)
    saved(tmp_path / "two", {**STOCKFISH, "loss": {"lambda_start": 0.0, "lambda_end": 0.0}})
    one, two = compared(capsys, tmp_path / "one", tmp_path / "two", "--data", game)
    assert (one["loss"], one["lambda"]) == (two["loss"], 1.0)  # the same weights
    changed = compared(capsys, tmp_path / "two", "--data", game, "--set", "loss.lambda_end=0.5")
    assert changed[0]["lambda"] == 0.5
    assert main(["validate", str(tmp_path / "one"), "--data", str(game)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "net",
        "loss",
        "mean",
        "difference",
        "largest",
        "difference",
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--data", "GAME", "--set", "train.steps=3"], "--set train.steps: validate takes keys of data and loss alone"),
        (["--data", "nothing-*.binpack"], "no file matches"),
        (["--data", "GAME", "--set", "loss.exponent=x"], "loss.exponent"),
        (["clicks", "--data", "GAME"], "validate: is for networks of stockfish, perspective"),
    ],
)
def test_what_can_not_be_compared_is_one_line(
    words: list[str], complaint: str, game: Path, tmp_path: Path, capsys: Any
) -> None:
    saved(tmp_path / "run", STOCKFISH)
    saved(tmp_path / "clicks", {"task": "clicks", "model": {"fields": {"user": 5}}})
    places = {"GAME": str(game), "clicks": str(tmp_path / "clicks")}
    first = [] if words[0] == "clicks" else [str(tmp_path / "run")]
    assert main(["validate", *first, *(places.get(word, word) for word in words)]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
