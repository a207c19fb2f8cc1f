"""Self-play: rules of a game by a made-up player, and short runs of the real engine."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import chess
import pytest

from loader.binpack import Entry, entries
from loader.cli import main
from loader.errors import EngineError
from loader.selfplay.engine import Engine, Search, internal_score, parse_score
from loader.selfplay.game import GameSettings, Played, adjudicate, play_game, random_opening, result_by_rules

Capture = pytest.CaptureFixture[str]


class RandomPlayer:
    """Plays any legal move; the score is what the test says, for white."""

    def __init__(self, score: int) -> None:
        self.score = score
        self.games = 0
        self.nodes: set[int] = set()
        self._rng = random.Random(0)

    def new_game(self) -> None:
        self.games += 1
        self._rng = random.Random(0)

    def search(self, fen: str, moves: list[str], nodes: int) -> Search:
        board = chess.Board(fen)
        for move in moves:
            board.push_uci(move)
        self.nodes.add(nodes)
        legal = list(board.legal_moves)
        return Search(self._rng.choice(legal).uci(), self.score if board.turn else -self.score)


def played(score: int, ply: int) -> Played:
    return Played("", "", score if ply % 2 == 0 else -score, ply, ply % 2 == 0)


def game_of(scores: list[int], first_ply: int = 0) -> list[Played]:
    """Scores from white's point of view."""
    return [played(score, first_ply + i) for i, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("kind", "value", "score"),
    [
        ("cp", 0, 0),
        ("cp", 100, 361),
        ("cp", -100, -361),
        ("cp", 1, 4),
        ("cp", -1, -4),
        ("cp", 50_000, 31_000),
        ("cp", -50_000, -31_000),
        ("mate", 1, 31_999),
        ("mate", 3, 31_995),
        ("mate", 0, -32_000),
        ("mate", -1, -31_998),
        ("mate", -2, -31_996),
    ],
)
def test_scores_become_internal_units(kind: str, value: int, score: int) -> None:
    assert internal_score(kind, value, 361) == score


def test_the_score_of_an_info_line_is_found_wherever_it_stands() -> None:
    assert parse_score("info depth 3 score cp -12 nodes 5 pv e2e4") == ("cp", -12, True)
    assert parse_score("info score mate 2 upperbound depth 3") == ("mate", 2, False)
    assert parse_score("info string no score here") is None
    assert parse_score("info currmove e2e4 currmovenumber 1") is None


def test_games_are_settled_by_several_scores_in_a_row_for_one_side() -> None:
    settings = GameSettings()
    assert adjudicate(game_of([2500, 2600, 2700, 3000]), settings) == 1
    assert adjudicate(game_of([-2500, -2600, -2700, -3000]), settings) == -1
    assert adjudicate(game_of([2500, 2600, 2499, 3000]), settings) is None
    assert adjudicate(game_of([2500, 2600, 2700]), settings) is None
    assert adjudicate(game_of([0] * 10, first_ply=71), settings) == 0
    assert adjudicate(game_of([0] * 10, first_ply=60), settings) is None
    assert adjudicate(game_of([9] + [0] * 9, first_ply=100), settings) is None
    assert adjudicate(game_of([500], first_ply=400), settings) == 0


@pytest.mark.parametrize(
    ("fen", "result"),
    [
        ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", 1),
        ("7K/5kq1/8/8/8/8/8/8 w - - 0 1", -1),
        ("7k/5K2/6Q1/8/8/8/8/8 b - - 0 1", 0),
        ("7k/5K2/8/8/8/8/8/8 b - - 0 1", 0),
        ("7k/5K2/8/8/8/8/8/R7 b - - 100 90", 0),
        ("7k/5K2/8/8/8/8/8/R7 b - - 99 90", None),
    ],
)
def test_games_end_by_the_rules(fen: str, result: int | None) -> None:
    assert result_by_rules(chess.Board(fen), Counter()) == result


def test_a_position_seen_three_times_is_a_draw() -> None:
    assert result_by_rules(chess.Board(), Counter({"a": 2})) is None
    assert result_by_rules(chess.Board(), Counter({"a": 3})) == 0


def test_openings_are_a_function_of_the_seed() -> None:
    openings = [random_opening(random.Random(f"1/{i}"), 8).fen() for i in range(20)]
    assert openings == [random_opening(random.Random(f"1/{i}"), 8).fen() for i in range(20)]
    assert len(set(openings)) == 20


@pytest.mark.parametrize("number", [0, 1])
def test_a_game_is_one_chain_with_results_for_the_side_to_move(number: int) -> None:
    player = RandomPlayer(score=200)
    game = play_game(player, GameSettings(nodes=7), seed=3, number=number)
    assert game == play_game(player, GameSettings(nodes=7), seed=3, number=number)
    assert player.nodes == {7}
    board = chess.Board(game[0].fen)
    white_result = game[0].result if board.turn else -game[0].result
    for i, entry in enumerate(game):
        assert entry.fen == board.fen()
        assert entry.ply == 8 + number + i == board.ply()
        assert entry.score == (200 if board.turn else -200)
        assert entry.result == (white_result if board.turn else -white_result)
        board.push_uci(entry.move)


def test_a_won_score_ends_the_game_as_a_win() -> None:
    settings = GameSettings(opening_score=32_000)
    game = play_game(RandomPlayer(score=2600), settings, seed=1, number=0)
    assert [entry.result for entry in game] == [1, -1, 1, -1]


@pytest.fixture(scope="module")
def stockfish() -> Path:
    """Debian puts it into /usr/games, which is not on every PATH."""
    found = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
    assert found is not None, "this test needs the engine: apt-get install stockfish"
    return Path(found)


@pytest.mark.engine
def test_the_engine_makes_the_same_file_on_any_number_of_processes(stockfish: Path, tmp_path: Path) -> None:
    for engines in (1, 2):
        out = tmp_path / f"{engines}.binpack"
        command = ["generate", "-o", str(out), "--engine", str(stockfish), "--positions", "150", "--nodes", "40"]
        assert main([*command, "--seed", "5", "--engines", str(engines)]) == 0
    assert (tmp_path / "1.binpack").read_bytes() == (tmp_path / "2.binpack").read_bytes()
    made = list(entries(tmp_path / "1.binpack"))
    assert len(made) == 150
    check_entries(made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.binpack", "2.binpack"]


def check_entries(made: list[Entry]) -> None:
    for entry in made:
        board = chess.Board(entry.fen)
        assert board.is_legal(chess.Move.from_uci(entry.move))
        assert entry.ply % 2 == (0 if board.turn else 1)
        assert entry.ply >= 8


@pytest.mark.engine
def test_the_engine_finds_a_mate_and_scores_it_in_plies(stockfish: Path) -> None:
    with Engine(stockfish, 361) as engine:
        engine.new_game()
        found = engine.search("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", [], 2000)
        assert found == Search("a1a8", 31_999)
        assert engine.search("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", ["a1a8"], 100) == Search(None, -32_000)


def test_a_program_that_is_no_engine_is_one_line_and_leaves_no_file(tmp_path: Path, capsys: Capture) -> None:
    for program, reason in (("/bin/true", "the engine has ended"), ("/nowhere/engine", "can't be started")):
        command = ["generate", "-o", str(tmp_path / "x.binpack"), "--engine", program, "--positions", "5"]
        assert main(command) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"loader: {program}: {reason}")
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "device"])
def test_what_exists_is_never_replaced(kind: str, tmp_path: Path, capsys: Capture) -> None:
    path = Path("/dev/null") if kind == "device" else tmp_path / "x.binpack"
    if kind == "file":
        path.write_bytes(b"hours of work")
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    assert main(["generate", "-o", str(path), "--engine", "/bin/true", "--positions", "5"]) == 2
    assert (
        capsys.readouterr().err == f"loader: {path}: exists, and is never replaced; give another name or move it away\n"
    )
    assert list(tmp_path.iterdir()) == ([] if kind == "device" else [path])
    assert kind != "file" or path.read_bytes() == b"hours of work"


def test_an_engine_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.selfplay.engine.ANSWER_SECONDS", 0.05)
    with pytest.raises(EngineError, match="no uciok within"):
        Engine("/bin/cat", 361)
