"""Matches: the arithmetic of a score, and that a match depends on engines, networks and seed alone."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.chess.cli.match import describe_score, format_json
from loader.chess.engines.match import MatchScore
from loader.cli.main import main
from loader.errors import InterruptedBySignalError
from tests.support.programs.scripted_engine import write_engine

SETTINGS = ["--nodes", "10", "--games", "8"]


def played(results: list[list[int]]) -> MatchScore:
    score = MatchScore()
    for pair in results:
        score = score.add_pair(pair)
    return score


@pytest.fixture
def engines(tmp_path: Path) -> list[str]:
    """Two that play the same moves and have other names."""
    return [f"--engine={write_engine(tmp_path / name)}" for name in ("one", "other")]


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    numbers: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return numbers


def test_a_standing_counts_games_and_pairs() -> None:
    score = played([[1, -1], [1, 0], [0, 0], [1, 1], [-1, 0]])
    assert (score.wins, score.draws, score.losses) == (4, 4, 2)
    assert score.pairs == (0, 1, 2, 1, 1)
    assert score.score == 0.6
    assert score.elo == pytest.approx(70.437, abs=1e-3)


def test_the_error_is_that_of_pairs() -> None:
    """Whoever has White wins: that says nothing about the engines, and no pair differs from another."""
    even = played([[1, -1]] * 100)
    assert (even.elo, even.error) == (0.0, 0.0)
    assert "Elo +0.0 with no error known: all pairs ended alike" in describe_score(even)
    assert format_json(even) == '{"elo": 0.0, "score": 0.5, "wins": 100, "draws": 0, "losses": 100, "games": 200}\n'
    drawn = random.Random(1)
    pairs = [[drawn.choice([-1, 0, 1]) for _ in range(2)] for _ in range(400)]
    score = played(pairs)
    points = [(sum(pair) + 2) / 4 for pair in pairs]
    mean = sum(points) / 400
    deviation = math.sqrt(sum((each - mean) ** 2 for each in points)) / 400
    assert score.score == pytest.approx(mean)
    assert score.error == pytest.approx(deviation)
    slope = 400 / math.log(10) / (mean * (1 - mean))
    assert score.elo_error == pytest.approx(1.96 * deviation * slope, rel=0.01)


def test_all_or_nothing_has_finite_numbers() -> None:
    for pair in ([1, 1], [-1, -1]):
        score = played([pair] * 4)
        assert math.isfinite(score.elo)
        assert score.elo * pair[0] > 500


def test_the_stronger_one_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [f"--engine={write_engine(tmp_path / name, name)}" for name in ("lost", "loses")]
    assert main(["match", *sides, *SETTINGS, "--random-plies", "0"]) == 1
    assert "no opening has a score within 1000" in capsys.readouterr().err
    first, second = write_engine(tmp_path / "plays"), write_engine(tmp_path / "resigns", "loses")
    assert main(["match", f"--engine={first}", f"--engine={second}", *SETTINGS]) == 0
    assert result(capsys)["losses"] == 0


def test_the_number_of_threads_changes_nothing(engines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for threads, seed in (("1", "5"), ("3", "5"), ("1", "6")):
        assert main(["match", *engines, *SETTINGS, "--threads", threads, "--seed", seed]) == 0
        found.append(result(capsys))
    assert found[0] == found[1]
    assert found[0]["games"] == 8
    assert found[0]["elo"] == 0  # both play alike, and each has each side once


def test_an_engine_that_fails_is_started_again_and_the_games_are_played_anew(
    tmp_path: Path, engines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", *engines, *SETTINGS]) == 0
    wanted = result(capsys)
    crashing = write_engine(tmp_path / "crashing", "crash:450")
    assert main(["match", engines[0], f"--engine={crashing}", *SETTINGS]) == 0
    said = capsys.readouterr()
    assert "the engines are started again" in said.err
    assert json.loads(said.out.splitlines()[-1]) == wanted
    always = write_engine(tmp_path / "always", "crash:9")
    assert main(["match", engines[0], f"--engine={always}", *SETTINGS]) == 1
    assert "these games failed twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bounds", "accepted"), [("600,1000", "H0 accepted, +600 Elo"), ("-1000,-600", "H1 accepted, -600 Elo")]
)
def test_a_test_ends_the_match_behind_the_pair_that_decides_it_with_any_number_of_threads(
    bounds: str, accepted: str, engines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The engines play alike, so each pair speaks against both hypotheses, against one more: two pairs decide."""
    words = ["match", *engines, "--nodes=10", f"--sprt={bounds}"]
    found = []
    for threads in ("1", "3"):
        assert main([*words, f"--threads={threads}"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    numbers = json.loads(found[0].splitlines()[-1])
    assert accepted in found[0]
    assert numbers["sprt"]["accepted"] == accepted[:2]
    assert abs(numbers["llr"]) >= numbers["sprt"]["upper"] == -numbers["sprt"]["lower"]
    assert numbers["games"] == 4
    assert main([*words, "--games=2"]) == 0
    said = capsys.readouterr().out
    assert "not decided" in said
    assert json.loads(said.splitlines()[-1])["sprt"]["accepted"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_match_with_what_has_been_played(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[MatchScore]:
        yield MatchScore().add_pair([1, 0])
        raise InterruptedBySignalError(number)

    monkeypatch.setattr("loader.chess.engines.match.match", interrupted)
    assert main(["match", "--engine=x", "--engine=y"]) == 128 + number
    assert result(capsys)["games"] == 2


def test_networks_go_to_the_engines_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = write_engine(tmp_path / "engine")
    heard = tmp_path / "engine.options"
    heard.write_text("")
    (tmp_path / "a.nnue").write_text("")
    assert main(["match", str(tmp_path / "a.nnue"), f"--engine={engine}", "--games", "2", "--nodes", "10"]) == 0
    lines = [line for line in heard.read_text().splitlines() if "EvalFile" in line]
    assert set(lines) == {f"setoption name EvalFile value {tmp_path / 'a.nnue'}"}
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'a.nnue'} against {engine}\n")


def test_a_network_that_the_engine_can_not_load_plays_no_match(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = write_engine(tmp_path / "engine", "complains")
    (tmp_path / "a.nnue").write_text("")
    assert main(["match", str(tmp_path / "a.nnue"), f"--engine={engine}", "--games", "2", "--nodes", "10"]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"loader: {engine}: complains of its options: ERROR: the network file was not loaded\n"


def test_a_book_with_too_few_openings_is_refused(
    tmp_path: Path, engines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "book.epd"
    book.write_text("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n")
    assert main(["match", *engines, *SETTINGS, "--book", str(book)]) == 2
    assert "1 openings for 4 pairs of games" in capsys.readouterr().err
    assert main(["match", *engines, *SETTINGS, "--book", str(book), "--random-plies", "4"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--engine: give one, for two networks, or two"),
        (["--engine=x"], "both sides are the same: name a network or two, or two engines"),
        (["--engine=x", "--engine=x"], "both sides are the same"),
        (["--engine=x", "a.nnue"], "a.nnue: no such file"),
        (["--engine=x", "--engine=y", "--games=3"], "--games: 3 games are no pairs: give an even number"),
        (["--engine=x", "a", "b", "c"], "c: a match is of two networks"),
        (["--engine=x", "--engine=y", "--sprt=5"], "--sprt: '5' is not two numbers, as 0,5"),
        (["--engine=x", "--engine=y", "--sprt=5,x"], "--sprt: '5,x' is not two numbers, as 0,5"),
        (["--engine=x", "--engine=y", "--sprt=0,5,9"], "--sprt: '0,5,9' is not two numbers, as 0,5"),
        (["--engine=x", "--engine=y", "--sprt=5,0"], "--sprt: 5,0: the first is to be less than the second"),
        (["--engine=x", "--engine=y", "--sprt=nan,5"], "--sprt: nan,5: the first is to be less than the second"),
        (["--engine=x", "--engine=y", "--sprt=0,1e9"], "both within +-1000"),
    ],
    ids=str,
)
def test_mistakes_are_told_in_a_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_stockfish_with_more_nodes_is_no_weaker_than_a_scripted_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
    if found is None:
        pytest.skip("needs the engine: apt-get install stockfish")
    other = write_engine(tmp_path / "other")
    assert main(["match", f"--engine={found}", f"--engine={other}", "--games=60", "--nodes=200", "--sprt=0,200"]) == 0
    numbers = result(capsys)
    assert numbers["losses"] == 0
    assert numbers["sprt"]["accepted"] == "H1"
    assert numbers["games"] < 60
