"""`loader rescore` as its user sees it: with a scripted engine, killed, resumed, and with engines that fail."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import chess
import numpy as np
import pytest

from loader.chess.engines.engine import Engine, EngineSettings, Limits, Search
from loader.chess.engines.rescore_positions import RECORD, write_rescored
from loader.chess.engines.uci import internal_score
from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.positions.inputs import entries
from loader.chess.tools.convert import convert
from loader.cli.main import main
from loader.errors import EngineError
from tests.loader.conftest import write_random_games
from tests.support.paths import ROOT
from tests.support.programs.scripted_engine import write_engine
from tests.support.tools import need_program
from tests.support.wait import wait_for

Capture = pytest.CaptureFixture[str]
POSITIONS = 300


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In several chunks; one in twenty has no score."""
    path = tmp_path_factory.mktemp("games") / "old.binpack"
    write_random_games(path, POSITIONS, seed=1)
    return path


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_engine(tmp_path_factory.mktemp("engines") / "engine")


def command(games: Path, out: Path, engine: Path, *arguments: str) -> list[str]:
    return ["rescore", str(games), "-o", str(out), "--engine", str(engine), *arguments]


def made(games: Path, out: Path, engine: Path, *arguments: str) -> bytes:
    assert main(command(games, out, engine, *arguments)) == 0
    return out.read_bytes()


@pytest.fixture(scope="module")
def whole(games: Path, engine: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What an undisturbed command makes."""
    return made(games, tmp_path_factory.mktemp("whole") / "new.binpack", engine)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def printed(fen: str) -> int:
    """The centipawns that the scripted engine prints."""
    return zlib.crc32(chess.Board(fen).fen().encode()) % 401 - 200


@pytest.mark.parametrize(("ending", "units"), [("binpack", 361), ("viri", 100), ("txt.gz", 100), ("pgn", 100)])
def test_scores_are_the_engines_in_the_formats_units_and_all_else_stays(
    ending: str, units: int, games: Path, engine: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"new.{ending}"
    made(games, out, engine, "--threads", "3", "--lossy")
    back = tmp_path / "back.binpack"
    convert(open_sources([out]), target_from_name(back), back)
    found, before = list(entries(back)), list(entries(games))
    assert len(found) == POSITIONS
    for new, old in zip(found, before, strict=True):
        assert (new.fen.split()[0], new.result) == (old.fen.split()[0], old.result)
        assert new.move == old.move or ending == "txt.gz"
        wanted = NO_SCORE if old.score == NO_SCORE else internal_score("cp", printed(old.fen), units)
        assert new.score == wanted
    assert {old.score == NO_SCORE for old in before} == {True, False}
    if ending == "binpack":  # nothing else differs
        assert [(new.fen, new.ply) for new in found] == [(old.fen, old.ply) for old in before]


def test_killed_at_ten_random_moments_it_makes_the_same_bytes(
    engine: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With other numbers of threads each time; an engine stops answering after 100 positions."""
    held = write_engine(tmp_path_factory.mktemp("held") / "engine", "held")
    pick, many = random.Random(7), held.with_name("many.binpack")
    write_random_games(many, 1200, seed=3)
    out, part = tmp_path / "new.binpack", tmp_path / "new.binpack.part"
    sequential = ("--nodes", "100000")
    held.with_name("hold").touch()
    for _ in range(10):
        size = (part.stat().st_size if part.exists() else 0) + RECORD.itemsize * pick.randrange(1, 60)
        arguments = command(many, out, held, *sequential, "--threads", str(pick.choice((1, 1, 2))))
        process = subprocess.Popen([sys.executable, "-m", "loader", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
        wait_for(partial(is_as_long, part, size), "scores")
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -9
        assert names(tmp_path) == ["new.binpack.part", "new.binpack.part.journal"]
    held.with_name("hold").unlink()
    assert made(many, out, held, *sequential) == made(many, held.with_name("whole.binpack"), engine, "--threads", "3")
    assert names(tmp_path) == ["new.binpack"]


def is_as_long(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size >= size


def test_a_signal_keeps_the_scores_and_says_how_many(games: Path, tmp_path: Path) -> None:
    held = write_engine(tmp_path / "held", "held")
    held.with_name("hold").touch()
    (tmp_path / "out").mkdir()
    out, part = tmp_path / "out/new.binpack", tmp_path / "out/new.binpack.part"
    arguments = [sys.executable, "-m", "loader", *command(games, out, held)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: part.exists() and part.stat().st_size > 100, "some scores")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    left = rf"{part.stat().st_size // RECORD.itemsize} of 300 positions have their scores in {re.escape(str(part))}"
    assert re.fullmatch(rf"loader: interrupted; {left}; the same command goes on\n", err)


def searches_of(monkeypatch: pytest.MonkeyPatch, allowed: int) -> list[str]:
    """The positions that engines search from now on; behind so many every engine fails."""
    searched: list[str] = []
    search = Engine.search

    def counted(self: Engine, fen: str, moves: list[str], limits: Limits) -> Search:
        if len(searched) >= allowed:
            raise EngineError("no power")
        searched.append(fen)
        return search(self, fen, moves, limits)

    monkeypatch.setattr(Engine, "search", counted)
    return searched


def test_other_settings_do_not_go_on_with_the_work(games: Path, engine: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new.binpack"
    with pytest.MonkeyPatch.context() as patch:
        searches_of(patch, 150)
        assert main(command(games, out, engine)) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("loader: an engine fails at the start position, too: no power; before at ")
    assert told.endswith(f"positions have their scores in {out}.part; the same command goes on")
    half = Path(f"{out}.part").read_bytes()
    for program, arguments, words in (
        (write_engine(tmp_path / "other"), (), "--engine engine"),
        (engine, ("--nodes", "7"), "--nodes 5000 (now 7)"),
        (engine, ("--units-per-100cp", "208"), "--units-per-100cp 361 (now 208)"),
    ):
        assert main(command(games, out, program, *arguments)) == 2
        assert words in capsys.readouterr().err
        assert Path(f"{out}.part").read_bytes() == half


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "a finished line taken out": lambda lines: lines[:3] + lines[4:],
    "lines put in": lambda lines: [NEW, *lines[:5], NEW, *lines[5:]],
    "a line changed": lambda lines: [*lines[:2], NEW, *lines[3:]],
    "other scores": lambda lines: [re.sub(r"\| -?\d{1,4} ", "| 5 ", line) for line in lines],
    "another order": lambda lines: lines[::-1],
    "twice": lambda lines: lines + lines,
}
NEW = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1 | 1 | 0.5\n"


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_finished_is_kept_while_its_positions_are_in_the_files(
    change: str, engine: Path, tmp_path: Path, capsys: Capture
) -> None:
    games, text, out = tmp_path / "games.binpack", tmp_path / "games.txt", tmp_path / "new.binpack"
    write_random_games(games, 200, seed=5)
    assert main(["convert", str(games), "-o", str(text), "--lossy"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        searches_of(patch, 120)
        assert main(command(text, out, engine)) == 1
    lines = text.read_text().splitlines(keepends=True)
    finished = {line.split(" |")[0] for line in lines[: Path(f"{out}.part").stat().st_size // RECORD.itemsize]}
    assert len(finished) > 50
    text.write_text("".join(CHANGES[change](lines)))
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        searched = searches_of(patch, 10000)
        result = made(text, out, engine)
    assert f"{out}.part: the files have changed; scores of positions that they still have are kept" in (
        capsys.readouterr().err
    )
    assert finished.isdisjoint(searched[1:])  # the first one tries the engine
    assert result == made(text, tmp_path / "undisturbed.binpack", engine)


@pytest.mark.parametrize(
    ("script", "limit", "why"),
    [
        ("refuses:4", (), "the engine failed twice"),
        ("sticks:2", ("--timeout", "1"), "the engine failed twice"),
        ("mute:4", (), "the engine printed no exact one"),
    ],
)
def test_positions_without_a_score_are_marked_or_left_out_and_listed(
    script: str, limit: tuple[str, ...], why: str, engine: Path, tmp_path: Path, capsys: Capture
) -> None:
    games, text = tmp_path / "games.binpack", tmp_path / "games.txt"
    write_random_games(games, 150, seed=6)
    assert main(["convert", str(games), "-o", str(text), "--lossy"]) == 0
    text.write_text(text.read_text().replace("\n", "\n\n", 9))  # lines are named, not entries
    odd = write_engine(tmp_path / "odd", script)
    good = made(text, tmp_path / "good.txt", engine).decode().splitlines()
    capsys.readouterr()
    marked = made(text, tmp_path / "marked.txt", odd, "--threads", "2", *limit).decode().splitlines()
    out, err = capsys.readouterr()
    different = [place for place, (one, other) in enumerate(zip(good, marked, strict=True)) if one != other]
    assert 0 < len(different) < 20
    assert f" {len(different)} without a score in " in out
    listed = [line for line in err.splitlines() if line.startswith("loader: no score: ")]
    lines = text.read_text().splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if line]
    for place, line in zip(different, listed, strict=True):
        assert abs(int(marked[place].split(" | ")[1])) == NO_SCORE
        fen = lines[numbers[place] - 1].split(" |")[0]
        assert line == f"loader: no score: {why}: {text}: line {numbers[place]}: {fen}"
    dropped = made(text, tmp_path / "dropped.txt", odd, "--drop-unscored", *limit).decode().splitlines()
    assert dropped == [line for place, line in enumerate(marked) if place not in different]
    assert f" {len(different)} without a score (left out) in " in capsys.readouterr().out


def test_a_position_of_a_binary_file_is_named_by_its_number(tmp_path: Path, capsys: Capture) -> None:
    """Also of a later file and chunk."""
    first, second = tmp_path / "first.binpack", tmp_path / "second.binpack"
    for seed, path in enumerate((first, second)):
        write_random_games(path, POSITIONS, seed)
    odd = write_engine(tmp_path / "odd", "mute:3")
    out = tmp_path / "new.binpack"
    assert main(["rescore", str(first), str(second), "-o", str(out), "--engine", str(odd)]) == 0
    told = re.findall(r"printed no exact one: (\S+): position (\d+): (.*)", capsys.readouterr().err)
    assert {name for name, _, _ in told} == {str(first), str(second)}
    everything = {str(path): list(entries(path)) for path in (first, second)}
    assert [everything[name][int(number) - 1].fen for name, number, _ in told] == [fen for _, _, fen in told]


def test_an_engine_that_crashes_now_and_then_changes_nothing(
    games: Path, whole: bytes, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.chess.engines.engine_pool.TRIES", 50)
    crashing = write_engine(tmp_path / "crashing", "crash:90")
    assert made(games, tmp_path / "new.binpack", crashing) == whole
    assert "the engine has ended with exit code 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        (None, (), "can't be started: No such file or directory"),
        (("crash:1",), (), "the engine has ended with exit code 5, no bestmove; its last words: segmentation fault"),
        (("hang:1",), ("--timeout", "2"), "no bestmove within 2 s"),
        (("unscored:1",), (), "bestmove without a score"),
        (("complains",), ("--option", "EvalFile=x.nnue"), "complains of its options: ERROR: the network file was not"),
    ],
)
def test_an_engine_that_is_none_is_one_line_and_leaves_nothing(
    script: tuple[str, ...] | None, arguments: tuple[str, ...], said: str, games: Path, tmp_path: Path, capsys: Capture
) -> None:
    program = tmp_path / "engine" if script is None else write_engine(tmp_path / "engine", *script)
    (tmp_path / "out").mkdir()
    assert main(command(games, tmp_path / "out/new.binpack", program, *arguments)) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"loader: {program}: {said}")
    assert err.count("\n") == 1
    assert names(tmp_path / "out") == []


def test_what_can_not_be_written_is_said_before_an_engine_works(
    games: Path, engine: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(command(games, tmp_path / "new.bf", engine)) == 2
    assert "bulletformat has no room for what binpack has: move" in capsys.readouterr().err
    there = tmp_path / "there.binpack"
    there.write_bytes(b"mine")
    assert main(command(games, there, engine)) == 2
    assert (
        capsys.readouterr().err
        == f"loader: {there}: exists, and is never replaced: give another name, or move it away\n"
    )
    assert main(command(games, tmp_path / "x.binpack", engine, "--option", "Threads=4")) == 2
    assert "an engine has one thread; more engines: --threads" in capsys.readouterr().err
    assert names(tmp_path) == ["there.binpack"]


@pytest.mark.parametrize("to", ["viri", "bf", "marlin", "psv", "txt", "montyvalue"])
def test_with_the_scores_that_there_are_it_is_a_conversion(to: str, games: Path, tmp_path: Path) -> None:
    target, sources = target_from_name(tmp_path / f"x.{to}"), open_sources([games])
    convert(sources, target, tmp_path / f"x.{to}")
    scores = np.array([entry.score for entry in entries(games)], np.int16)
    assert b"".join(write_rescored(sources, target.format, scores)) == (tmp_path / f"x.{to}").read_bytes()


MATES = (
    Entry("6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1", "e1e8", 5, 0, 1),  # mate in one
    Entry("4R1k1/5ppp/8/8/8/8/8/K7 b - - 0 1", "g8h8", 5, 1, -1),  # is mated: the move is not played
)


def test_stockfish_gives_each_position_the_score_of_a_new_game(games: Path, tmp_path: Path) -> None:
    program = os.environ.get("STOCKFISH") or "/usr/games/stockfish"
    if not Path(program).exists():
        program = need_program("stockfish", "stockfish")
    few = tmp_path / "few.binpack"
    assert main(["head", str(games), "-o", str(few), "-n", "2"]) == 0
    mate = tmp_path / "mate.txt"
    mate.write_text(f"{MATES[0].fen} | 5 | 1.0\n")
    out = tmp_path / "new.binpack"
    arguments = ["rescore", str(few), str(mate), "-o", str(out), "--engine", program, "--nodes", "300"]
    assert main([*arguments, "--threads", "2"]) == 0
    found = list(entries(out))
    with Engine(EngineSettings(program)) as engine:
        for entry in reversed(found):
            engine.new_game()
            assert entry.score in (NO_SCORE, engine.search(entry.fen, [], Limits(nodes=300)).score)
    assert found[-1].score == 32000 - 1
    assert len(found) > 20
