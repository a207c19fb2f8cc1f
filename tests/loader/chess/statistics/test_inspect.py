"""`loader inspect` of positions: its numbers are those of a slow count, whatever the format; pictures are drawn."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from loader import _native
from loader.chess.filters import CASTLING, MOVE, PLY, SIDE, FilterConfig
from loader.chess.positions.entry import Entry
from loader.chess.positions.format import named_format, target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.statistics.calibration import Calibration
from loader.chess.tools.filter import filter_positions
from loader.chess.views import ZERO
from tests.support.loader_command import run_loader as run
from tests.support.looked_into import inspect
from tests.support.paths import VALIDATION
from tests.support.positions import FORMATS, sample, write_samples

POSITIONS = 1500
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
MATERIAL = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
PHASE = {chess.PAWN: 0, chess.KNIGHT: 1, chess.BISHOP: 1, chess.ROOK: 2, chess.QUEEN: 4, chess.KING: 0}
MIRRORED = [rank * 4 + file for rank in range(8) for file in range(4)]
NEEDED = {"plies": PLY, "ply": PLY, "moves": MOVE, "captures": MOVE, "white_to_move": SIDE, "duplicates": CASTLING}
OWN = {"file", "format", "lacks", "bytes", "chunks", "bytes_per_entry", "unit", "units", "length"}  # of each file
OWN |= {"score_unit", "score_view", "result_view", "read"}
Found = dict[str, Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same positions in every format; one of them compressed."""
    folder = tmp_path_factory.mktemp("inspected")
    paths = write_samples(folder, POSITIONS, (*FORMATS, "binpack"))
    paths["packed"] = folder / "packed.viri.gz"
    paths["packed"].write_bytes(gzip.compress(paths["viriformat"].read_bytes()))
    return paths


def kind_of_move(board: chess.Board, move: chess.Move) -> str:
    if board.is_castling(move):
        return "castling"
    return "en_passant" if board.is_en_passant(move) else "promotion" if move.promotion else "normal"


def slowly(read: tuple[Entry, ...]) -> Found:
    """By python-chess, position by position."""
    tables: dict[str, Counter[Any]] = {name: Counter() for name in ("pieces", "phases", "materials", "own", "other")}
    moves, results, between = (
        Counter(dict.fromkeys(("normal", "promotion", "castling", "en_passant", "none"), 0)),
        Counter(loss=0, draw=0, win=0),
        Counter[str](),
    )
    keys, captures, checks, white = set(), 0, 0, 0
    for entry in read:
        board, move = chess.Board(entry.fen), chess.Move.from_uci(entry.move)
        pieces = [piece.piece_type for piece in board.piece_map().values()]
        tables["pieces"][len(pieces)] += 1
        tables["phases"][min(24, sum(PHASE[piece] for piece in pieces))] += 1
        tables["materials"][sum(MATERIAL[piece] for piece in pieces)] += 1
        flip = 0 if board.turn else 56
        tables["own"][(board.king(board.turn) or 0) ^ flip] += 1
        tables["other"][(board.king(not board.turn) or 0) ^ flip] += 1
        moves[kind_of_move(board, move)] += 1
        captures += board.piece_at(move.to_square) is not None and not board.is_castling(move)
        checks += board.is_check()
        white += board.turn
        assert entry.result is not None
        result = ("loss", "draw", "win")[entry.result + 1]
        results[result] += 1
        if -300 <= entry.score < -200:
            between[result] += 1
        keys.add(
            (
                board.board_fen(),
                board.turn,
                board.castling_rights,
                board.ep_square if board.has_legal_en_passant() else None,
            )
        )
    return (
        {"moves": moves, "results": results, "between": between, "different": len(keys)}
        | tables
        | {
            "captures": captures,
            "in_check": checks,
            "white_to_move": white,
        }
    )


def counted(numbers: list[int]) -> Counter[int]:
    return Counter({value: count for value, count in enumerate(numbers) if count})


def test_the_numbers_are_those_of_a_slow_count(files: dict[str, Path]) -> None:
    statistics = inspect(files["binpack"], king_buckets=MIRRORED)
    found, slow = statistics.to_dict(), slowly(sample(POSITIONS))
    assert found["entries"] == POSITIONS
    for name in ("moves", "results", "captures", "in_check", "white_to_move"):
        assert found[name] == slow[name], name
    for name, numbers in (
        ("pieces", "piece_counts"),
        ("phases", "phases"),
        ("materials", "materials"),
        ("own", "own_king"),
        ("other", "opponent_king"),
    ):
        assert counted(found[numbers]) == slow[name], name
    plies = Counter(entry.ply for entry in sample(POSITIONS))
    assert counted(found["plies"]) == plies
    assert found["duplicates"]["different"] == slow["different"]
    interval = statistics.calibration().interval(-300, -200)
    assert Counter(loss=interval.loss, draw=interval.draw, win=interval.win) == slow["between"]
    buckets: Counter[int] = Counter()
    for name, flip in (("own", 0), ("other", 56)):
        for square, count in slow[name].items():
            file, rank = (square ^ flip) % 8, (square ^ flip) // 8
            buckets[rank * 4 + min(file, 7 - file)] += count
    assert counted(found["king_buckets"]) == buckets


def test_the_win_rate_model_is_that_of_the_filter(files: dict[str, Path]) -> None:
    """Its mean over a step's positions, but for what its steps of 25 units and 8 plies make of it."""
    told = _native.win_draw_loss_probability
    wanted = [
        told(entry.ply, entry.score, 1) + 0.5 * told(entry.ply, entry.score, 0)
        for entry in sample(POSITIONS)
        if entry.ply is not None and 100 <= entry.score < 300
    ]
    model = inspect(files["binpack"]).calibration().interval(100, 300).model
    assert model == pytest.approx(np.mean(wanted), abs=0.02)


@pytest.mark.parametrize("name", [*FORMATS, "packed"])
def test_each_format_gives_the_same_numbers_as_far_as_it_has_them(
    name: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", "--json", files["binpack"], files[name]) == 0
    whole, found = map(json.loads, capsys.readouterr().out.splitlines())
    kind = named_format("viriformat" if name == "packed" else name)
    for key in (whole.keys() | found.keys()) - OWN:
        if NEEDED.get(key) in kind.lacks:
            assert key == "duplicates" or key not in found
        elif key == "calibration" and PLY in kind.lacks:
            assert found[key] == [
                {**each, "model": None} for each in whole[key] if each["loss"] + each["draw"] + each["win"]
            ]
        else:
            assert found[key] == whole[key], key
    assert ("length" in found) == kind.keeps_games
    assert run("inspect", files[name]) == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert all(part in text.splitlines()[1] for part in (kind.name, *(set(kind.lacks) & {MOVE, PLY, SIDE})))


def test_what_a_filter_would_leave_is_what_it_leaves(files: dict[str, Path], tmp_path: Path) -> None:
    filters = FilterConfig(where="ply >= 16", skip_in_check=True, random_skip=1.0, piece_count=True)
    statistics = inspect(files["binpack"], filters, seed=3, threads=2)
    left = {each.name: each.entries for each in statistics.filter_counts}
    assert list(left) == ["skip_no_score", "skip_in_check", "random_skip", "piece_count", "where", "together"]
    for name, alone in (("together", filters), ("where", FilterConfig(where="ply >= 16", skip_no_score=False))):
        made = tmp_path / f"{name}.psv"
        filter_positions(open_sources([files["binpack"]]), target_from_name(made), made, alone, seed=3)
        assert left[name] == made.stat().st_size // 40


def test_threads_change_nothing(files: dict[str, Path], game_files: list[Path]) -> None:
    for path in (game_files[0], files["viriformat"]):
        assert inspect(path, threads=1).to_dict() == inspect(path, threads=3).to_dict()


def test_repetitions_are_estimated_from_a_sample_that_does_not_depend_on_who_counts() -> None:
    """A third of 12,000 positions twice, by two censuses that hold 512 positions."""
    source = open_sources([VALIDATION])[0]
    whole, parts = _native.Census(most_keys=512), [_native.Census(most_keys=512) for _ in range(2)]
    for part in (whole, *parts):
        source.copy_to(0, part)
        part.finish()
    source.copy_to(0, whole)
    whole.finish()
    parts[0].add_census(parts[1])
    for census in (whole, parts[0]):
        assert census.one_in > 1
        assert 256 <= census.different <= 512
    assert [(each.sampled, each.different, each.one_in) for each in (whole,)] == [
        (each.sampled, each.different, each.one_in) for each in parts[:1]
    ]
    assert whole.different / whole.sampled == pytest.approx(0.5, abs=0.05)


def test_the_nearest_curve_is_found() -> None:
    scores = np.arange(-2000, 2001, 50)
    won = np.round(1e5 / (1 + np.exp(-scores / 234.0)))
    results = np.zeros((3, 65536), np.uint64)
    results[0, scores + ZERO], results[2, scores + ZERO] = 1e5 - won, won
    assert Calibration(results, None).scale() == pytest.approx(234.0, rel=0.005)
    assert Calibration(np.zeros((3, 65536), np.uint64), None).scale() is None


def test_damage_is_told_as_verify_tells_it(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*FORMATS, "binpack", "packed"):
        path = tmp_path / files[name].name
        data = files[name].read_bytes()
        path.write_bytes(data[: len(data) - 7])
        said = []
        for command in ("verify", "inspect"):
            code = run(command, path)
            said.append((code, capsys.readouterr().err))
        assert said[0] == said[1], name


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--skip-captures"], "--skip-captures: it needs the move, which text does not have"),
        (["--where", "ply >"], "--where: "),
        (["--king-buckets", "0,1,2"], "--king-buckets: 3 numbers; allowed are 64, or 32 for files a to d"),
        (["--king-buckets", "a,b"], "--king-buckets: 'a,b' is neither numbers"),
        (["--king-buckets", "none.toml"], "--king-buckets: none.toml: No such file"),
        (["--king-buckets", ",".join(["64"] * 32)], "--king-buckets: "),
    ],
)
def test_what_can_not_be_told_is_refused_in_one_line(
    options: list[str], reason: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", files["text"], *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"loader: {reason}")
    assert captured.err.count("\n") == 1


def test_pictures_are_drawn(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "pictures"
    command = ["inspect", files["binpack"], "--pictures", folder]
    if not HAS_MATPLOTLIB:
        assert run(*command) == 2
        assert capsys.readouterr().err == (
            "loader: --pictures: needs matplotlib, which is not installed: pip install 'sparsepool[pictures]'\n"
        )
        return
    assert run(*command, "--king-buckets", ",".join(map(str, MIRRORED))) == 0
    for name in ("scores", "positions", "kings"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    assert run("inspect", files["bulletformat"], "--pictures", folder) == 2
    assert "scores.png: exists, and is never replaced" in capsys.readouterr().err
    assert run("inspect", files["bulletformat"], "--pictures", tmp_path / "others") == 0
    assert run("inspect", files["bulletformat"], files["text"], "--pictures", folder) == 2
    assert run("inspect", files["bulletformat"], "--pictures", files["text"]) == 2
    (tmp_path / "empty.binpack").touch()
    assert run("inspect", tmp_path / "empty.binpack", "--pictures", tmp_path / "none") == 0
    assert not (tmp_path / "none").exists()
