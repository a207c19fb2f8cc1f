"""Settings for PGN comments that can be read two ways, and what commands say of moves without a score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from loader.chess.engines.book import read_book
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.inputs import entries
from loader.chess.positions.pgn_comments import PgnComments
from loader.cli.main import main
from loader.errors import DataError
from loader.files.identity import identify
from loader.stream.data import Data
from loader.stream.data_facts import DataFact
from loader.stream.sources import data_config

Capture = pytest.CaptureFixture[str]
ENGINE = "1. e4 {31/12 5ms} e5 {-28/13 6ms} 2. Bc4 {M5/12 5ms} Nc6 {-M4/12 7ms}"
MIXED = (
    "1. e4 {book} e5 {book} 2. Nf3 {+0.31/12 1s} Nc6 3. Bb5 {50/50} a6 {M2} 4. Ba4 {+0,5} Nf6 {8.50} 5. O-O {a plan}"
)
REASONS = {
    "a move of a book": 2,
    "no comment": 1,
    "a whole number, as +31 or 31/12": 1,
    "a mate in moves or plies, as M2": 1,
    "a decimal comma, as +0,31": 1,
    "a number without a sign or a depth, as 8.50": 1,
    "a remark": 1,
}


def written(folder: Path, moves: str, name: str = "games.pgn", tags: str = "", games: int = 1) -> Path:
    path = folder / name
    path.write_text(f'[Event "x"]\n[Result "1-0"]\n{tags}\n{moves} 1-0\n\n' * games)
    return path


def scores(path: Path) -> Sequence[int]:
    return [entry.score for entry in entries(path)]


COMMANDS = {  # with files and options in place of {}
    "convert": "convert {} -o {out}.txt --lossy",
    "head": "head {} -o {out}.txt --lossy",
    "sample": "sample {} -o {out}.txt --lossy",
    "count": "count {}",
    "verify": "verify {}",
    "dump": "dump {}",
    "inspect": "inspect {}",
    "filter": "filter {} -o {out}.binpack --max-score 30000",
    "shuffle": "shuffle {} -o {out}.viri",
    "dedupe": "dedupe {} -o {out}.binpack",
    "split": "split {} --validation 50%",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_reads_games_reads_comments_as_it_is_told(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path, ENGINE, games=4)
    words = COMMANDS[command].replace("{out}", str(tmp_path / "out"))
    assert main(words.replace("{}", str(path)).split()) == 1
    printed = capsys.readouterr()
    assert "the comment '31/12 5ms' has a whole number, which may be of pawns or of centipawns; say which by " in (
        printed.out + printed.err
    )
    assert main(words.replace("{}", f"{path} --pgn-unit centipawns").split()) == 0
    assert main(["verify", str(written(tmp_path, "", "none.txt")), "--format", "text", "--pgn-view", "white"]) == 2
    assert "--pgn-view and --pgn-unit are for PGN, which none of the files is" in capsys.readouterr().err


def test_games_written_anew_need_no_setting(tmp_path: Path) -> None:
    path, made = written(tmp_path, ENGINE), tmp_path / "made.pgn"
    assert main(["convert", str(path), "--pgn-unit", "centipawns", "-o", str(made)]) == 0
    assert scores(made) == [31, -28, 31991, -31992]
    assert list(entries(made)) == list(entries(path, comments=PgnComments(unit="centipawns")))


def test_work_with_other_settings_is_not_gone_on_with(tmp_path: Path, capsys: Capture) -> None:
    path, made = written(tmp_path, ENGINE), tmp_path / "made.txt"
    made.with_name("made.txt.part").touch()
    for unit, code in (("pawns", 0), ("centipawns", 2)):
        assert main(["convert", str(path), "--lossy", "--pgn-unit", unit, "-o", str(made)]) == code
    assert "made.txt" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["viri", "pgn", "pgn.gz", "binpack"])
def test_a_conversion_says_how_many_moves_have_no_score_and_why(tmp_path: Path, ending: str, capsys: Capture) -> None:
    path = written(tmp_path, MIXED, games=3)
    assert main(["convert", str(path), "-o", str(tmp_path / f"made.{ending}")]) == 0
    told = capsys.readouterr().err
    for reason, count in REASONS.items():
        assert f"no score, {reason}: {3 * count} positions\n" in told


def test_inspect_counts_moves_without_a_score_by_the_reason(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, MIXED, games=3)
    assert main(["inspect", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["no_score_reasons"] == {reason: 3 * count for reason, count in REASONS.items()}
    assert told["no_score"] == sum(told["no_score_reasons"].values()) == 24
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert all(f"{reason}: {3 * count} (" in shown for reason, count in REASONS.items())


@pytest.mark.parametrize("view", ["mover", "white"])
def test_inspect_names_the_view_that_comments_look_like_by_any_setting(
    view: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "games.pgn"
    signs = {"w": "+", "b": "-" if view == "mover" else "+"}  # White is ahead
    path.write_text(
        "".join(
            f'[Event "x"]\n[FEN "4k3/8/8/8/8/8/Q7/4K3 {side} - - 0 {number}"]\n\n1. {king} {{{sign}9.00/12}} 1-0\n\n'
            for number in range(1, 61)
            for side, king, sign in (("w", "Ke2", signs["w"]), ("b", "Kf8", signs["b"]))
        )
    )
    for setting in ([], ["--pgn-view=mover"], ["--pgn-view=white"]):
        assert main(["inspect", str(path), *setting]) == 0
        is_right = (setting or ["--pgn-view=mover"]) == [f"--pgn-view={view}"]
        name = {"mover": "the mover's", "white": "White's"}[view]
        words = "as each comment has it (pgn); material agrees" if is_right else f"but looks like {name}:"
        assert words in capsys.readouterr().out


def test_a_run_is_told_of_moves_without_a_score_at_its_start(tmp_path: Path) -> None:
    files = identify([written(tmp_path, MIXED, f"{number}.pgn", games=3) for number in range(20)])
    facts = Data.from_paths(data_config(), files).describe()
    assert DataFact("score view", "the mover's in comments of PGN; White's in [%eval] and wv=") in facts
    # Three games in each of those that are looked at.
    assert DataFact("scores", "168 of 189 moves have none, in the first MiB of 7 of 20 PGN files:") in facts
    assert all(DataFact("scores", f"  {reason}: {21 * count}") in facts for reason, count in REASONS.items())
    white = Data.from_paths(data_config(chess={"pgn": {"view": "white"}}), files).describe()
    assert DataFact("score view", "White's in comments of PGN; White's in [%eval] and wv=") in white


def test_training_reads_comments_by_its_settings(tmp_path: Path) -> None:
    path = written(tmp_path, ENGINE, games=50)
    plain = data_config(batch_size=1, chess={"features": "chess768"})
    with pytest.raises(DataError, match=r"data\.chess\.pgn\.unit \(--pgn-unit\)"):
        Data.from_paths(plain, [path], 1).samples_per_epoch()
    told = data_config(batch_size=1, chess={"features": "chess768", "pgn": {"unit": "centipawns"}})
    assert Data.from_paths(told, [path], 1).samples_per_epoch() == 200


@pytest.mark.parametrize(
    ("name", "chess960"),
    [
        ("?", False),
        ("", False),
        ("Standard", False),
        ("From Position", False),
        ("normal", False),
        ("Chess960", True),
        ("fischerandom", True),
        ("Fischer Random", True),
        ("Freestyle Chess", True),
        ("Atomic", None),
        ("Crazyhouse", None),
    ],
)
def test_games_and_opening_books_know_the_same_variants(tmp_path: Path, name: str, chess960: bool | None) -> None:
    fen = "bbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w HFhf - 0 1"
    tags = f'[Variant "{name}"]\n' + (f'[FEN "{fen}"]\n[SetUp "1"]\n' if chess960 else "")
    path = written(tmp_path, "1. e4 e5", tags=tags)
    if chess960 is None:
        for read in (lambda: list(entries(path)), lambda: read_book(path)):
            with pytest.raises(DataError, match="other chess"):
                read()
        return
    assert [entry.move for entry in entries(path)] == ["e2e4", "e7e5"]
    assert [entry.score for entry in entries(path)] == [NO_SCORE] * 2
    (position,) = read_book(path).positions
    assert position.startswith("bbqnnrkr" if chess960 else "rnbqkbnr")
