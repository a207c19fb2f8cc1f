"""Self-play: rules of a game by a made-up player, and short runs of the real engine."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from itertools import permutations
from pathlib import Path

import chess
import pytest

from loader.chess.engines.book import Book
from loader.chess.engines.engine import Engine, EngineSettings, Limits, Search
from loader.chess.engines.game import (
    GameSettings,
    PlayedPosition,
    adjudicate,
    find_result_by_rules,
    play_game,
    play_to_end,
)
from loader.chess.engines.opening import Openings
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import EngineError


class RandomPlayer:
    """Plays any legal move; the score is what the test says, for white."""

    def __init__(self, score: int) -> None:
        self.score = score
        self.games = 0
        self.limits: set[Limits] = set()
        self._rng = random.Random(0)

    def new_game(self) -> None:
        self.games += 1
        self._rng = random.Random(0)

    def search(self, fen: str, moves: list[str], limits: Limits) -> Search:
        board = chess.Board(fen)
        for move in moves:
            board.push_uci(move)
        self.limits.add(limits)
        legal = list(board.legal_moves)
        return Search(self._rng.choice(legal).uci(), self.score if board.turn else -self.score)

    def fault(self, reason: str) -> EngineError:
        return EngineError(reason)


def played(score: int, ply: int) -> PlayedPosition:
    return PlayedPosition("", "", score if ply % 2 == 0 else -score, ply, ply % 2 == 0)


def game_of(scores: list[int], first_ply: int = 0) -> list[PlayedPosition]:
    """Scores from white's point of view."""
    return [played(score, first_ply + i) for i, score in enumerate(scores)]


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


def test_how_games_are_settled_is_a_matter_of_settings() -> None:
    longer = GameSettings(win_plies=12, draw_plies=3, draw_from_ply=0)
    assert adjudicate(game_of([2600] * 11), longer) is None
    assert adjudicate(game_of([2600] * 12), longer) == 1
    assert adjudicate(game_of([0, 8, -8]), longer) == 0
    never = GameSettings(win_plies=0, draw_plies=0, max_ply=1000)
    assert adjudicate(game_of([32000] * 500), never) is None
    assert adjudicate(game_of([0] * 500), never) is None


@pytest.mark.parametrize(
    ("fen", "result"),
    [
        ("7k/5KQ1/8/8/8/8/8/8 b - - 0 1", 1),
        ("7K/5kq1/8/8/8/8/8/8 w - - 0 1", -1),
        ("7k/5K2/6Q1/8/8/8/8/8 b - - 0 1", 0),
        ("7k/5K2/8/8/8/8/8/8 b - - 0 1", 0),
        ("7k/5K2/8/8/8/8/8/R7 b - - 100 90", 0),
        ("7k/5K2/8/8/8/8/8/R7 b - - 99 90", None),
        ("7k/8/6K1/8/8/8/8/Q7 w - - 99 90", None),  # mate in one: nobody has claimed a draw
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 100 90", 1),  # mate goes before the fifty moves
    ],
)
def test_games_end_by_the_rules(fen: str, result: int | None) -> None:
    assert find_result_by_rules(chess.Board(fen), Counter()) == result


def test_a_position_seen_three_times_is_a_draw() -> None:
    assert find_result_by_rules(chess.Board(), Counter({"a": 2})) is None
    assert find_result_by_rules(chess.Board(), Counter({"a": 3})) == 0


class Recital:
    """Plays the given moves."""

    def __init__(self, moves: list[str]) -> None:
        self._moves = moves

    def new_game(self) -> None: ...

    def search(self, fen: str, moves: list[str], limits: Limits) -> Search:  # noqa: ARG002
        return Search(self._moves[len(moves)], 2000)

    def fault(self, reason: str) -> EngineError:
        return EngineError(reason)


def test_a_repetition_counts_from_a_pawns_double_step_that_only_a_pinned_pawn_could_take() -> None:
    """As in python-chess and Stockfish; chess.js 1.4.0 and pyffish 0.0.90 take it for another position."""
    pinned = chess.Board("8/8/8/8/k3p2Q/8/3P4/K7 w - - 0 1")  # d2d4 e4d3 would leave the rank to the queen
    player = Recital(["d2d4", *["a4b5", "a1b1", "b5a4", "b1a1"] * 3])
    played, result = play_to_end(player, player, GameSettings(win_plies=0), pinned)
    assert (len(played), result) == (1 + 2 * 4, 0)


def first(openings: Openings, number: int) -> chess.Board:
    return next(openings.openings_of_game(number))


def test_openings_are_a_function_of_seed_and_number() -> None:
    fens = [first(Openings("1", 8), number).fen() for number in range(20)]
    assert fens == [first(Openings("1", 8), number).fen() for number in range(20)]
    assert len({*fens, *(first(Openings("2", 8), number).fen() for number in range(20))}) == 40


def test_every_position_of_a_book_is_used_before_one_comes_again() -> None:
    fens = ("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "4k3/8/8/8/8/8/3P4/4K3 b - - 0 1", "4k3/8/8/8/8/8/2P5/4K3 w - - 0 9")
    book = Book(Path("book"), "", fens, (1, 2, 3))
    openings = Openings("1", 0, book)
    drawn = [first(openings, number).fen() for number in range(6)]
    assert sorted(drawn[:3]) == sorted(drawn[3:]) == sorted(fens)
    assert {tuple(book.order(f"{seed}")) for seed in range(50)} == {tuple(x) for x in permutations(range(3))}
    deeper = Openings("1", 4, book)
    assert [len(first(deeper, number).move_stack) for number in range(4)] == [4, 4, 4, 4]


def test_a_game_without_an_opening_that_is_playable_is_the_engines_fault() -> None:
    with pytest.raises(EngineError, match="no opening has a score within 1000"):
        play_game(RandomPlayer(score=1001), GameSettings(), Openings("1", 8).openings_of_game(0))


@pytest.mark.parametrize(
    ("move", "words"),
    [("e2e5", "'e2e5' is not a legal move"), ("0000", "is not a legal move"), (None, "'no move' is"), ("x", "'x' is")],
)
def test_a_move_that_is_not_legal_ends_the_game(move: str | None, words: str) -> None:
    player = RandomPlayer(score=0)
    player.search = lambda *_: Search(move, 0)  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=words):
        play_game(player, GameSettings(), Openings("1", 0).openings_of_game(0))


@pytest.mark.parametrize("number", [0, 1])
def test_a_game_is_one_chain_with_results_for_the_side_to_move(number: int) -> None:
    player = RandomPlayer(score=200)
    settings, openings = GameSettings(Limits(nodes=7, depth=3)), Openings("3", 8)
    game = play_game(player, settings, openings.openings_of_game(number))
    assert game == play_game(player, settings, openings.openings_of_game(number))
    assert player.limits == {Limits(nodes=7, depth=3)}
    board = chess.Board(game[0].fen)
    assert game[0].result is not None
    white_result = game[0].result if board.turn else -game[0].result
    for i, entry in enumerate(game):
        assert entry.fen == board.fen()
        assert entry.ply == 8 + number + i == board.ply()
        assert entry.score == (200 if board.turn else -200)
        assert entry.result == (white_result if board.turn else -white_result)
        board.push_uci(entry.move)


def test_a_won_score_ends_the_game_as_a_win() -> None:
    settings = GameSettings(opening_score=32_000)
    game = play_game(RandomPlayer(score=2600), settings, Openings("1", 8).openings_of_game(0))
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
        assert entry.ply is not None
        assert entry.ply % 2 == (0 if board.turn else 1)
        assert entry.ply >= 8


@pytest.mark.engine
def test_the_engine_finds_a_mate_and_scores_it_in_plies(stockfish: Path) -> None:
    with Engine(EngineSettings(str(stockfish))) as engine:
        assert engine.name.startswith("Stockfish")
        engine.new_game()
        back_rank = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
        assert engine.search(back_rank, [], Limits(nodes=2000)) == Search("a1a8", 31_999)
        assert engine.search(back_rank, [], Limits(depth=6)) == Search("a1a8", 31_999)
        assert engine.search(back_rank, ["a1a8"], Limits(nodes=100)) == Search(None, -32_000)
