"""Engines that answer, and engines that do not: each failure is one error that names the program, within a time."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import chess
import pytest

from loader.chess.engines.engine import Engine, EngineSettings, Limits, Search
from loader.chess.engines.engine_pool import check_engine
from loader.chess.engines.line_process import StoppedError
from loader.chess.engines.uci import (
    Info,
    Option,
    Score,
    format_setoption,
    internal_score,
    parse_complaint,
    parse_info,
    parse_option,
    parse_setting,
)
from loader.errors import EngineError, EngineStartError, UsageError
from loader.files.interruption import record_stop_signals
from tests.support.programs.scripted_engine import write_engine
from tests.support.wait import wait_for

START = 3.0  # seconds: longer than the program takes to say its first words
SEARCH = 0.5


@pytest.mark.parametrize(
    ("kind", "value", "score"),
    [
        ("cp", 0, 0),
        ("cp", 100, 361),
        ("cp", -100, -361),
        ("cp", 1, 4),
        ("cp", -1, -4),
        ("cp", 50_000, 31_000),
        ("cp", -(10**30), -31_000),
        ("mate", 1, 31_999),
        ("mate", 3, 31_995),
        ("mate", 0, -32_000),
        ("mate", -1, -31_998),
        ("mate", -2, -31_996),
        ("mate", 10**30, 31_001),
        ("mate", -(10**30), -31_001),
    ],
)
def test_scores_become_internal_units(kind: str, value: int, score: int) -> None:
    assert internal_score(kind, value, 361) == score


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("info depth 3 score cp -12 nodes 5 pv e2e4", Score("cp", -12)),
        ("info score mate 2 upperbound depth 3", Score("mate", 2, is_exact=False)),
        ("info score cp 20 wdl 500 400 100 upperbound nodes 7", Score("cp", 20, is_exact=False)),
        ("info score cp 20 lowerbound wdl 500 400 100 nodes 7", Score("cp", 20, is_exact=False)),
        ("info score cp 20 ebf 1.9 lowerbound nodes 7 pv e2e4", Score("cp", 20, is_exact=False)),
        ("info score lowerbound cp 20 nodes 7", Score("cp", 20, is_exact=False)),
        ("info wdl 1 2 3 upperbound score cp 20", Score("cp", 20, is_exact=False)),
        ("info score cp 20 wdl 500 400 100 nodes 7", Score("cp", 20)),
        ("info score cp 20 string not a lowerbound", Score("cp", 20)),
        ("info pv e2e4 e7e5 score cp 5 hashfull 3", Score("cp", 5)),
        ("info multipv 1 score cp 5", Score("cp", 5)),
        ("info multipv 2 score cp 5", None),
        ("info score cp 5 multipv 2 pv e2e4", None),
        ("info string no score here", None),
        ("info string the book has score cp 30", None),
        ("info depth 3 string score cp 30", None),
        ("information score cp 30", None),
        ("debug score cp 30", None),
        ("info score cp", None),
        ("info score", None),
        ("info score cp x", None),
        ("info score cp nodes 5", None),
        ("info score cp " + "9" * 5000, None),
        ("info currmove e2e4 currmovenumber 1", None),
    ],
)
def test_the_score_of_the_best_move_is_found_wherever_it_stands(line: str, score: Score | None) -> None:
    info = parse_info(line)
    assert (None if info is None else info.score) == score


def test_the_order_of_keys_changes_nothing() -> None:
    for order in itertools.permutations(("depth 3", "nodes 7", "score cp 20 wdl 1 2 3 upperbound", "ebf 2")):
        assert parse_info(f"info {' '.join(order)} pv e2e4") == Info(Score("cp", 20, is_exact=False), 7, 3)


@pytest.mark.parametrize(
    ("line", "is_complaint"),
    [
        ("info string ERROR: The network file x.nnue was not loaded successfully.", True),
        ("info string error loading the book", True),
        ("No such option: EvalFile", True),
        ("info string could not open /nets/x.nnue", True),
        ("info string EvalFile is not readable, the embedded network is used", True),
        ("info string NNUE evaluation using /nets/x.nnue", False),
        ("info string large pages are not available", False),
        ("info string Found 510 tablebases, 0 errors", False),
        ("", False),
    ],
)
def test_complaints_about_options_are_told_from_remarks(line: str, is_complaint: bool) -> None:
    assert (parse_complaint(line, [("EvalFile", "/nets/x.nnue")]) is not None) == is_complaint


def test_an_engine_that_complains_of_an_option_is_not_played_with(tmp_path: Path) -> None:
    program = str(write_engine(tmp_path / "engine", "complains"))
    Engine(EngineSettings(program)).close()
    words = "engine: complains of its options: ERROR: the network file was not loaded"
    with pytest.raises(EngineStartError, match=words):
        Engine(EngineSettings(program, (("EvalFile", "x.nnue"),)))


@pytest.mark.parametrize(
    ("script", "limits", "problem"),
    [
        ("nodes:6", Limits(nodes=150), "does not keep to `go nodes 150`: it reports nodes 6"),
        ("nodes:2000000", Limits(nodes=150), "does not keep to `go nodes 150`: it reports nodes 2000000"),
        ("nodes:140", Limits(nodes=150), None),
        ("nodes:100", Limits(nodes=1), None),
        ("nodes:6", Limits(depth=1), None),
        ("nodes:6", Limits(depth=4), "does not keep to `go depth 4`: it reports depth 1"),
        ("nodes:6", Limits(nodes=150, depth=1), None),
        ("mute:0", Limits(nodes=150), None),
    ],
)
def test_an_engine_that_does_not_keep_a_limit_is_told_of(
    script: str, limits: Limits, problem: str | None, tmp_path: Path
) -> None:
    program = str(write_engine(tmp_path / "engine", script))
    lines: list[str] = []
    with record_stop_signals() as interruption:
        check_engine(EngineSettings(program), limits, interruption, lines.append)
    start = f"warning: {program}: {problem}: its scores and games are not those"
    assert [line[: len(start)] for line in lines] == ([] if problem is None else [start])


@pytest.mark.engine
def test_stockfishes_bounds_behind_wdl_are_no_scores() -> None:
    """The scores that it prints with and without UCI_ShowWDL are the same: so must be those that are read."""
    stockfish = shutil.which("stockfish", path=f"{os.environ['PATH']}:/usr/games")
    if stockfish is None:
        pytest.skip("stockfish is not installed")
    scores: list[list[int | None]] = []
    for shows_wdl in ("false", "true"):
        with Engine(EngineSettings(stockfish, (("UCI_ShowWDL", shows_wdl),))) as engine:
            scores.append([])
            for moves in ([], ["e2e4"], ["e2e4", "e7e5"], ["d2d4", "g8f6", "c2c4"], ["f2f3", "e7e5"]):
                for nodes in (150, 700, 2000):
                    engine.new_game()
                    scores[-1].append(engine.search(chess.STARTING_FEN, moves, Limits(nodes=nodes)).score)
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("option name Hash type spin default 16 min 1 max 33554432", Option("Hash", "spin", 1, 33554432)),
        ("option name Debug Log File type string default", Option("Debug Log File", "string")),
        ("option name S type combo default A B var A B var C", Option("S", "combo", None, None, ("A B", "C"))),
        ("option name Clear Hash type button", Option("Clear Hash", "button")),
        ("option name X type number", None),
        ("option type spin", None),
        ("id name Engine", None),
    ],
)
def test_an_engines_options_are_read(line: str, option: Option | None) -> None:
    assert parse_option(line) == option


OFFERED = (
    Option("Hash", "spin", 1, 64),
    Option("Style", "combo", None, None, ("Solid", "Very Risky")),
    Option("Ponder", "check"),
    Option("Clear Hash", "button"),
    Option("EvalFile", "string"),
)


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("hash=64", "setoption name Hash value 64"),
        ("Style=very risky", "setoption name Style value very risky"),
        ("Ponder=true", "setoption name Ponder value true"),
        ("Clear Hash", "setoption name Clear Hash"),
        ("EvalFile=/a b/=.nnue", "setoption name EvalFile value /a b/=.nnue"),
    ],
)
def test_options_are_set_as_the_engine_names_them(setting: str, line: str) -> None:
    assert format_setoption(OFFERED, *parse_setting(setting)) == line


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("Net=x", "there is no option Net; there are: Clear Hash, EvalFile, Hash, Ponder, Style"),
        ("Hash=0", "option Hash: a number from 1 to 64, not '0'"),
        ("Hash=65", "a number from 1 to 64"),
        ("Hash=x", "a number from 1 to 64"),
        ("Hash=" + "9" * 5000, "a number from 1 to 64"),
        ("Style=Risky", "one of Solid, Very Risky, not 'Risky'"),
        ("Ponder=1", "true or false, not '1'"),
        ("Clear Hash=1", "a button takes no value"),
        ("=x", "NAME=VALUE"),
        ("EvalFile=x\nquit", "NAME=VALUE"),
    ],
)
def test_an_option_that_the_engine_does_not_have_is_refused(setting: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        format_setoption(OFFERED, *parse_setting(setting))


def test_options_arrive_and_the_search_answers(tmp_path: Path) -> None:
    program = write_engine(tmp_path / "engine", "garbage")
    (tmp_path / "engine.options").touch()
    with Engine(EngineSettings(str(program), (("evalfile", "my.nnue"), ("Hash", "2")))) as engine:
        assert engine.name == "Scripted 1"
        engine.new_game()
        found = engine.search(chess.STARTING_FEN, ["e2e4"], Limits(nodes=1))
    assert found.move is not None
    assert found.score is not None
    assert abs(found.score) <= internal_score("cp", 200, 361)
    lines = (tmp_path / "engine.options").read_text().splitlines()
    assert lines == [f"setoption name {each}" for each in ("Threads value 1", "EvalFile value my.nnue", "Hash value 2")]


def test_an_unknown_option_is_said_with_those_there_are(tmp_path: Path) -> None:
    program = str(write_engine(tmp_path / "engine"))
    with pytest.raises(UsageError, match="engine: there is no option Net; there are: Clear Hash, EvalFile, Hash, Po"):
        Engine(EngineSettings(program, (("Net", "x"),)))


STARTS = {
    "start": "the engine has ended with exit code 3, no uciok; its last words: terminate called: no network",
    "silent": "no uciok within 3 s",
    "unready": "no readyok within 3 s; its last words: uciok",
}


@pytest.mark.parametrize("kind", STARTS)
def test_an_engine_that_does_not_get_ready_is_given_up(kind: str, tmp_path: Path) -> None:
    program = str(write_engine(tmp_path / "engine", kind))
    with pytest.raises(EngineError) as raised:
        Engine(EngineSettings(program, timeout=START if kind != "start" else 60))
    assert str(raised.value) == f"{program}: {STARTS[kind]}"


@pytest.mark.parametrize(
    ("program", "words"), [("/bin/true", "has ended with exit code 0"), ("/bin", "can't be start")]
)
def test_a_program_that_is_no_engine_is_said_to_be_none(program: str, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        Engine(EngineSettings(program))


SEARCHES = {
    "crash:2": "the engine has ended with exit code 5, no bestmove; its last words: segmentation fault, as it were",
    "hang:2": "no bestmove within 0.5 s",
    "flood:2": "no bestmove within 0.5 s; its last words: info string all is well",
    "endless:2": "a line without an end",
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_an_engine_that_does_not_finish_a_search_is_given_up(kind: str, tmp_path: Path) -> None:
    program = str(write_engine(tmp_path / "engine", kind))
    with Engine(EngineSettings(program)) as engine:
        engine.search(chess.STARTING_FEN, [], Limits(nodes=1))
        if "within" in SEARCHES[kind]:
            engine._settings = EngineSettings(program, timeout=SEARCH)
        with pytest.raises(EngineError) as raised:
            engine.search(chess.STARTING_FEN, [], Limits(nodes=1))
    assert str(raised.value).startswith(f"{program}: {SEARCHES[kind]}")


def test_a_move_without_a_score_is_an_answer(tmp_path: Path) -> None:
    with Engine(EngineSettings(str(write_engine(tmp_path / "engine", "mute:100")))) as engine:
        found = engine.search(chess.STARTING_FEN, [], Limits(nodes=1))
    assert found.move is not None
    assert found.score is None


@pytest.mark.parametrize(("exact", "score"), [("", None), ("info depth 1 score cp 7", 7)])
def test_a_bound_is_no_score(exact: str, score: int | None, tmp_path: Path) -> None:
    program = tmp_path / "engine"
    answers = f"{exact}\ninfo depth 2 score cp 99 wdl 1 2 3 lowerbound\nbestmove e2e4"
    program.write_text(
        "#!/bin/sh\nwhile read -r word rest; do case $word in uci) echo uciok;; isready) echo readyok;; "
        f"go) echo '{answers}';; esac; done\n"
    )
    program.chmod(0o755)
    with Engine(EngineSettings(str(program), units_per_100cp=100)) as engine:
        found = engine.search(chess.STARTING_FEN, [], Limits(nodes=1))
    assert (found.move, found.score) == ("e2e4", score)


def test_the_errors_among_the_last_words_are_told(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    said = ("info string fine", "info string ERROR: no network", "info string ERROR: x.nnue is not there", "goodbye")
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in said))
    program.chmod(0o755)
    with pytest.raises(EngineError, match=r"words: info string ERROR: no network info string ERROR: x\.nnue is not"):
        Engine(EngineSettings(str(program)))


def test_a_wait_ends_when_the_caller_is_to_stop(tmp_path: Path) -> None:
    stop = os.eventfd(1)
    with pytest.raises(StoppedError):
        Engine(EngineSettings(str(write_engine(tmp_path / "engine", "silent"))), stop)
    os.close(stop)


def test_what_an_engine_has_started_ends_with_it(tmp_path: Path) -> None:
    """As a script that runs the engine."""
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\nsleep 1000 &\necho $! > $0.pid\necho uciok\necho readyok\nwait\n")
    program.chmod(0o755)
    with Engine(EngineSettings(str(program))):
        child = int(Path(f"{program}.pid").read_text())
        assert Path(f"/proc/{child}").exists()
    wait_for(lambda: _ended(child), "the script's child has ended")


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_a_null_move_is_no_move(tmp_path: Path) -> None:
    with Engine(EngineSettings(str(write_engine(tmp_path / "engine", "null:1")))) as engine:
        assert engine.search(chess.STARTING_FEN, [], Limits(depth=1)) == Search(None, 4)
