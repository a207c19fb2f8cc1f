"""`pool rescore`: a network's evaluations as scores, for any network, in any format, killed and gone on with."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.inputs import entries
from loader.cli.main import main as loader_main
from loader.files.work_file import WorkFile
from pool.commands.main import main
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.networks.rescore import WinRate
from pool.tasks.chess.positions import read_fen
from pool.tasks.chess.training.loss import win_probability
from tests.loader.conftest import write_random_games
from tests.pool.analysis.test_predict import saved
from tests.pool.tasks.chess.networks.test_validate import PERSPECTIVE, STOCKFISH
from tests.support.paths import ROOT
from tests.support.wait import wait_for

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in twenty has no score."""
    path = tmp_path_factory.mktemp("games") / "old.binpack"
    write_random_games(path, 400, seed=3)
    return path


def network(folder: Path, settings: dict[str, Any] = STOCKFISH) -> Path:
    saved(folder / "run", settings)
    net = folder / ("a.nnue" if settings is STOCKFISH else "a.bin")
    assert main(["export", str(folder / "run"), "-o", str(net)]) == 0
    return net


def listed(path: Path) -> list[Any]:
    return list(entries(path))


def expected(net: Path, games: Path, scale: float = 1.0, config: Path | None = None) -> list[int]:
    opened, before = open_network(net, config_file=config), listed(games)
    values = opened.evaluate([read_fen(entry.fen, opened.inputs) for entry in before]).value
    scores = np.clip(np.rint(values * scale), -32000, 32000).astype(int)
    return [
        entry.score if entry.score == NO_SCORE else score for entry, score in zip(before, scores.tolist(), strict=True)
    ]


@pytest.mark.parametrize("settings", [STOCKFISH, PERSPECTIVE], ids=["stockfish", "perspective"])
def test_scores_are_the_evaluations_and_nothing_else_changes(
    games: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    net, out = network(tmp_path, settings), tmp_path / "new.binpack"
    assert main(["rescore", str(net), str(games), "-o", str(out), "--scale", "7.5", "--threads", "3"]) == 0
    before, after = listed(games), listed(out)
    assert [entry.score for entry in after] == expected(net, games, 7.5)
    for one, other in zip(before, after, strict=True):
        assert (one.fen, one.move, one.result) == (other.fen, other.move, other.result)
    assert sum(entry.score == NO_SCORE for entry in after) > 0
    assert not list(tmp_path.glob("*.part*"))


def test_win_rates_become_the_scores_of_lc0(games: Path, tmp_path: Path) -> None:
    """The numbers of the page of formulas; and of a network, whose evaluations are one curve of scores then."""
    q = np.array([0.05, 0.1, 0.5, 0.75, 0.9, 0.99])
    rate = WinRate(0, 400)
    found = rate.in_units_of_lc0(400 * np.log((1 + q) / (1 - q)))
    assert np.rint(found).tolist() == [33, 66, 331, 524, 901, 5540]
    assert np.rint(rate.in_units_of_lc0(np.array([0, 1_000_000, -1_000_000]))).tolist() == [0, 26624, -26624]
    with_offset = WinRate(270, 340).in_units_of_lc0(np.array([300]))
    own = win_probability(torch.tensor([300.0], dtype=torch.float64), 270, 340)
    assert with_offset == pytest.approx(rate.in_units_of_lc0(400 * torch.logit(own).numpy()))
    net, out = network(tmp_path, PERSPECTIVE), tmp_path / "new.binpack"
    assert main(["rescore", str(net), str(games), "-o", str(out), "--win-rate", "0,400"]) == 0
    evaluations = np.array(expected(net, games))
    scores = np.rint(rate.in_units_of_lc0(evaluations)).astype(int)
    wanted = np.where(evaluations == NO_SCORE, NO_SCORE, scores)
    assert [entry.score for entry in listed(out)] == wanted.tolist()
    assert len(set(wanted.tolist())) > 20


def test_a_checkpoint_teaches_as_the_file_that_it_is_exported_as(games: Path, tmp_path: Path) -> None:
    net = network(tmp_path)
    for name, teacher in (("a", net), ("b", tmp_path / "run")):
        assert main(["rescore", str(teacher), str(games), "-o", str(tmp_path / f"{name}.binpack")]) == 0
    assert (tmp_path / "a.binpack").read_bytes() == (tmp_path / "b.binpack").read_bytes()


def test_other_formats_and_several_files_keep_their_order(games: Path, tmp_path: Path) -> None:
    net, text, out = network(tmp_path), tmp_path / "old.txt", tmp_path / "new.txt"
    assert loader_main(["convert", str(games), "-o", str(text), "--lossy"]) == 0
    assert main(["rescore", str(net), str(text), str(games), "-o", str(out), "--lossy"]) == 0
    scores = [entry.score for entry in listed(out)]
    of_games = expected(net, games)
    assert scores[-len(of_games) :] == of_games


def test_killed_it_goes_on_and_makes_the_same_bytes(games: Path, tmp_path: Path) -> None:
    net, many, out, whole = (
        network(tmp_path),
        tmp_path / "many.binpack",
        tmp_path / "out.binpack",
        tmp_path / "w.binpack",
    )
    with many.open("wb") as file:
        for _ in range(60):
            with games.open("rb") as part:
                shutil.copyfileobj(part, file)
    words = ["rescore", str(net), str(many), "--threads", "1"]
    assert main([*words, "-o", str(whole)]) == 0
    journal = tmp_path / "out.binpack.part.journal"
    command = [sys.executable, "-m", "pool", *words, "-o", str(out)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: process.poll() is not None or (journal.exists() and journal.stat().st_size > 300), "work")
        process.send_signal(signal.SIGKILL)
    if journal.exists() or not out.exists():  # else it was done before it could be killed
        assert main([*words, "-o", str(out), "--threads", "2"]) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_work_that_another_command_began_is_refused_and_says_what_differs(
    games: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, out, config = network(tmp_path, PERSPECTIVE), tmp_path / "out.binpack", tmp_path / "net.toml"
    (tmp_path / "a.bin.json").unlink()
    text = """task = "perspective"
model.width = 16
data.train = ["games.binpack"]
data.chess = { features = "chess768", output_buckets = "single" }
"""
    config.write_text(text)
    words = ["rescore", str(net), str(games), "-o", str(out), "--config", str(config)]

    def stop(_: WorkFile) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WorkFile, "sync", stop)  # all scores are there, and no file
        assert main(words) == 130
    capsys.readouterr()
    config.write_text(f"{text}loss.output_unit = 200.0\n")
    for option, more in (("--config", []), ("--scale", ["--scale", "2"]), ("--win-rate", ["--win-rate", "0,400"])):
        assert main([*words, *more]) != 0
        assert option in capsys.readouterr().err
    config.write_text(text)
    assert main(words) == 0
    assert [entry.score for entry in listed(out)] == expected(net, games, config=config)


@pytest.mark.parametrize(
    ("settings", "ending", "said"),
    [
        (STOCKFISH, "binpack", ""),
        (STOCKFISH, "txt", r"its format has centipawns, the network internal units \(361 = one pawn\): --scale"),
        (PERSPECTIVE, "txt", ""),
        (PERSPECTIVE, "binpack", "its format has Stockfish's internal units, the network .*: --scale"),
    ],
)
def test_units_that_are_not_those_of_the_format_are_said(
    settings: dict[str, Any], ending: str, said: str, games: Path, tmp_path: Path, capsys: Capture
) -> None:
    net, out = network(tmp_path, settings), tmp_path / f"out.{ending}"
    words = ["rescore", str(net), str(games), "-o", str(out), *(["--lossy"] if ending == "txt" else [])]
    capsys.readouterr()
    assert main(words) == 0
    error = capsys.readouterr().err
    assert re.search(said, error) if said else "--scale" not in error
    out.unlink()
    assert main([*words, "--scale", "0.5"]) == 0
    assert "--scale" not in capsys.readouterr().err


def test_what_it_can_not_do_is_one_line(games: Path, tmp_path: Path, capsys: Capture) -> None:
    net, out = network(tmp_path), tmp_path / "out.binpack"
    out.write_bytes(b"mine")
    for words, message in (
        ([str(net), str(games), "-o", str(out)], r"out\.binpack: exists, and is never replaced"),
        (
            [str(tmp_path / "no.nnue"), str(games), "-o", str(tmp_path / "x.binpack")],
            r"no\.nnue: can\'t be read: No such file",
        ),
        ([str(net), str(tmp_path / "no.binpack"), "-o", str(tmp_path / "x.binpack")], r"no\.binpack: No such file"),
        ([str(net), str(games), "-o", str(tmp_path / "x.binpack"), "--member", "1"], "of one network"),
        (
            [str(net), str(games), "-o", str(tmp_path / "x.binpack"), "--scale", "2", "--win-rate", "0,400"],
            "one of --scale and --win-rate",
        ),
        ([str(net), str(games), "-o", str(tmp_path / "x.binpack"), "--win-rate", "400"], "'400' is not two numbers"),
        ([str(net), str(games), "-o", str(tmp_path / "x.binpack"), "--win-rate", "nan,1"], "nan,1: the offset is to"),
    ):
        capsys.readouterr()
        assert main(["rescore", *words]) != 0
        error = capsys.readouterr().err
        assert re.search(message, error), error
        assert error.count("\n") == 1
    assert out.read_bytes() == b"mine"
