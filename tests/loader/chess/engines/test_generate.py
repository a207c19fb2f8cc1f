"""`loader generate` as its user sees it: with a scripted engine, interrupted, resumed, and with files in its way."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.chess.cli.position_progress import LineReport, RateMeter, format_duration
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.files import work_file
from tests.support.looked_into import verify
from tests.support.paths import ROOT
from tests.support.programs.scripted_engine import write_engine
from tests.support.wait import wait_for

Capture = pytest.CaptureFixture[str]
SHORT = ("--max-ply", "20", "--random-plies", "4", "--win-plies", "0", "--draw-plies", "0")


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """One that never fails; in a folder of its own."""
    (tmp_path / "engines").mkdir()
    return write_engine(tmp_path / "engines" / "engine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For what the command makes."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def command(out: Path, engine: Path, *arguments: str, positions: int = 200) -> list[str]:
    return ["generate", "-o", str(out), "--engine", str(engine), "--positions", str(positions), *SHORT, *arguments]


def made(out: Path, engine: Path, *arguments: str, positions: int = 200) -> bytes:
    """The bytes of an undisturbed command."""
    assert main(command(out, engine, *arguments, positions=positions)) == 0
    return out.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["/", ".", ""])
def test_a_folder_is_no_name_of_an_output(name: str, engine: Path, capsys: Capture) -> None:
    assert main(command(Path(name), engine)) == 2
    assert capsys.readouterr().err == f"loader: {Path(name)}: is a folder, not a file\n"


def test_a_name_that_is_no_text_is_one_like_others(engine: Path, folder: Path, capsys: Capture) -> None:
    out = folder / os.fsdecode(b"x\xff")
    assert made(out, engine, positions=20)
    assert capsys.readouterr().out.startswith(f"{folder}/x\\udcff: 20 positions")


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "device"])
def test_what_exists_is_never_replaced(kind: str, engine: Path, folder: Path, capsys: Capture) -> None:
    path = Path("/dev/null") if kind == "device" else folder / "x.binpack"
    if kind == "file":
        path.write_bytes(b"hours of work")
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(folder / "nowhere")
    assert main(command(path, engine)) == 2
    advice = "exists, and is never replaced; give another name, --append, or move it away"
    if kind == "device":
        advice = "is no file, and generate writes one, so that it can be gone on with: name it"
    assert capsys.readouterr().err == f"loader: {path}: {advice}\n"
    assert names(folder) == ([] if kind == "device" else [path.name])
    assert kind != "file" or path.read_bytes() == b"hours of work"


def test_the_file_does_not_depend_on_the_number_of_engines(engine: Path, folder: Path, capsys: Capture) -> None:
    assert made(folder / "1", engine, "--engines", "1") == made(folder / "3", engine, "--engines", "3")
    assert made(folder / "other", engine, "--seed", "1") != (folder / "1").read_bytes()
    assert names(folder) == ["1", "3", "other"]
    assert len(list(entries(folder / "1"))) == 200
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].startswith(f"{folder / '1'}: 200 positions of 1")
    assert captured.err == ""


@pytest.mark.parametrize("reported", ["nodes:6", "nodes:150"])
def test_an_engine_that_ignores_nodes_is_named_once(
    reported: str, folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    program = write_engine(tmp_path / "engine", reported)
    made(folder / "1", program, "--nodes", "150", "--engines", "2")
    warning = f"loader: warning: {program}: does not keep to `go nodes 150`: it reports nodes 6"
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("loader: warning")]
    assert [line[: len(warning)] for line in warnings] == ([warning] if reported == "nodes:6" else [])


def test_an_engine_that_complains_of_an_option_makes_nothing(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    program = write_engine(tmp_path / "engine", "complains")
    assert main(command(folder / "1", program, "--option", "EvalFile=x.nnue")) == 1
    assert "complains of its options: ERROR: the network file was not loaded" in capsys.readouterr().err
    assert not (folder / "1").exists()


@pytest.fixture(scope="module")
def held_engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that stops answering after a few games, while there is a file `hold` beside it."""
    return write_engine(tmp_path_factory.mktemp("engines") / "engine", "held")


@pytest.fixture(scope="module")
def long_file(held_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What it makes of 300 positions, undisturbed."""
    return made(tmp_path_factory.mktemp("long") / "x", held_engine, positions=300)


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Children get every signal, also if this process was started to ignore some."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)}
    for number in before:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "KILL"])
def test_the_same_command_goes_on_after_a_signal(name: str, held_engine: Path, folder: Path, long_file: bytes) -> None:
    out, part, hold = folder / "x", folder / "x.part", held_engine.with_name("hold")
    hold.touch()
    arguments = [sys.executable, "-m", "loader", *command(out, held_engine, positions=300)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: part.exists() and part.stat().st_size > 200, "some games")
        process.send_signal(signal.Signals[f"SIG{name}"])
        _, err = process.communicate(timeout=60)
    hold.unlink()
    assert process.returncode == {"INT": 130, "TERM": 143, "HUP": 129, "KILL": -9}[name]
    assert names(folder) == ["x.part", "x.part.journal"]
    verdict = verify(part)
    assert verdict.ok
    if name != "KILL":
        said = "interrupted" if name == "INT" else f"interrupted by SIG{name}"
        games = part.read_bytes().count(b"BINP")
        left = f"{verdict.entries:,} of 300 positions ({games} games) are in {part}; the same command goes on"
        assert err == f"loader: {said}; {left}\n"
    assert made(out, held_engine, "--engines", "2", positions=300) == long_file
    assert names(folder) == ["x"]


def test_other_settings_do_not_go_on_with_the_work(engine: Path, folder: Path, capsys: Capture) -> None:
    out = folder / "x"
    half = leave_work(out, engine, "--seed", "1")
    other = write_engine(engine.parent / "other", "garbage")
    for arguments, words in (
        (("--seed", "2"), "--seed 1 (now 2)"),
        (("--seed", "1", "--option", "EvalFile=x"), "--option none (now EvalFile=x)"),
        (("--seed", "1", "--engine", str(other)), "--engine engine (sha256"),
    ):
        assert main(command(out, engine, *arguments)) == 2
        assert words in capsys.readouterr().err
        assert (folder / "x.part").read_bytes() == half
    assert made(out, engine, "--seed", "1", "--timeout", "50") == made(folder / "whole", engine, "--seed", "1")


def leave_work(out: Path, engine: Path, *arguments: str, games: int = 5) -> bytes:
    """A command that finds no space after some games, in the middle of the next one's bytes. Gives back the part."""
    real = os.pwrite

    def full_disk(descriptor: int, data: bytes, offset: int) -> int:
        if part.read_bytes().count(b"BINP") > games:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:50], offset)

    part = Path(f"{out}.part")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", full_disk)
        assert main(command(out, engine, *arguments)) == 71
    assert verify(part).ok
    assert part.read_bytes().count(b"BINP") == games
    return part.read_bytes()


def test_a_full_disk_is_one_line_and_loses_nothing(engine: Path, folder: Path, capsys: Capture) -> None:
    leave_work(folder / "x", engine)
    part = folder / "x.part"
    positions = verify(part).entries
    left = f"{positions} of 200 positions (5 games) are in {part}; the same command goes on"
    assert capsys.readouterr().err == f"loader: {part}: No space left on device; {left}\n"


def test_a_network_of_the_same_name_and_another_content_is_another_setting(
    engine: Path, folder: Path, capsys: Capture
) -> None:
    net = engine.parent / "my.nnue"
    net.write_bytes(b"first")
    half = leave_work(folder / "x", engine, "--option", f"EvalFile={net}")
    net.write_bytes(b"second")
    assert main(command(folder / "x", engine, "--option", f"EvalFile={net}")) == 2
    assert f"--option EvalFile={net} (sha256" in capsys.readouterr().err
    assert (folder / "x.part").read_bytes() == half


def test_append_adds_other_games_and_keeps_the_bytes_that_are_there(engine: Path, folder: Path) -> None:
    first = made(folder / "x", engine, "--append")
    second = made(folder / "x", engine, "--append")
    assert second[: len(first)] == first
    assert verify(folder / "x").entries == 400
    assert len({entry.fen for entry in entries(folder / "x")}) > 350
    (folder / "y").write_bytes(first)
    assert made(folder / "y", engine, "--append", "--engines", "2") == second
    assert names(folder) == ["x", "y"]


@pytest.mark.parametrize("content", [b"no binpack", b"BINP\1\0\0\0"])
def test_a_file_that_is_not_whole_is_not_appended_to(
    content: bytes, engine: Path, folder: Path, capsys: Capture
) -> None:
    (folder / "x").write_bytes(content)
    assert main(command(folder / "x", engine, "--append")) == 1
    assert capsys.readouterr().err.startswith(f"loader: {folder / 'x'}: offset 0: ")
    assert names(folder) == ["x"]
    assert (folder / "x").read_bytes() == content


def test_an_append_that_is_interrupted_goes_on(engine: Path, folder: Path) -> None:
    first = made(folder / "x", engine)
    (folder / "y").write_bytes(first)
    leave_work(folder / "x", engine, "--append")
    assert (folder / "x").read_bytes() == first
    assert made(folder / "x", engine, "--append") == made(folder / "y", engine, "--append")


def test_an_engine_that_crashes_now_and_then_changes_nothing_in_the_file(
    engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.chess.engines.engine_pool.TRIES", 50)
    whole = made(folder / "whole", engine, positions=120)
    capsys.readouterr()
    crashing = write_engine(engine.parent / "crashing", "crash:30")
    assert made(folder / "x", crashing, positions=120) == whole
    told = [line for line in capsys.readouterr().err.splitlines() if "positions, " not in line]  # but progress
    assert len(told) >= 3
    for line in told:
        assert "crashing: the engine has ended with exit code 5, no bestmove; its last words: segmentation" in line
        assert line.endswith("; the engine is started again")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("illegal:6", "'e1e8' is not a legal move in "),
        ("null:6", "'no move' is not a legal move in "),
        ("crash:6", "the engine has ended with exit code 5"),
        ("lost", "no opening has a score within 1000"),
    ],
)
def test_an_engine_that_fails_in_every_game_ends_the_command(
    kind: str, words: str, engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.chess.engines.opening.TRIES", 5)
    monkeypatch.setattr("loader.chess.engines.generate.FAILURES", 2)
    failing = write_engine(engine.parent / "failing", kind)
    assert main(command(folder / "x", failing)) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(f"loader: 2 games in a row have failed, at last with: {failing}: {words}")
    assert [line for line in told if "is dropped" in line] == ["loader: game 0 is dropped", "loader: game 1 is dropped"]
    assert names(folder) == []


def test_an_engine_that_hangs_is_waited_for_as_long_as_the_user_says(
    engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.chess.engines.engine_pool.TRIES", 1)
    monkeypatch.setattr("loader.chess.engines.generate.FAILURES", 1)
    hanging = write_engine(engine.parent / "hanging", "hang:6")
    assert main(command(folder / "x", hanging, "--timeout", "3")) == 1
    assert f"1 games in a row have failed, at last with: {hanging}: no bestmove within 3 s" in capsys.readouterr().err


def test_an_engine_that_can_not_search_at_all_is_said_before_the_first_game(
    engine: Path, folder: Path, capsys: Capture
) -> None:
    crashing = write_engine(engine.parent / "crashing", "crash:1")
    assert main(command(folder / "x", crashing)) == 1
    reason = "the engine has ended with exit code 5, no bestmove; its last words: segmentation fault, as it were"
    assert capsys.readouterr().err == f"loader: {crashing}: {reason}\n"
    assert names(folder) == []


def test_a_game_that_fails_twice_is_dropped_by_its_number_and_told(engine: Path, folder: Path, capsys: Capture) -> None:
    failing = write_engine(engine.parent / "failing", "refuses:30")
    whole = made(folder / "whole", failing, "--engines", "2")
    captured = capsys.readouterr()
    dropped = [line for line in captured.err.splitlines() if line.endswith("is dropped")]
    assert len(dropped) >= 2
    assert captured.err.count("the engine is started again") == 2 * len(dropped)
    assert re.search(rf"200 positions of \d+ games, {len(dropped)} dropped in", captured.out)
    leave_work(folder / "x", failing, games=4)
    commits = [json.loads(line) for line in (folder / "x.part.journal").read_text().splitlines()[1:]]
    numbers = [number for commit in commits for number in commit[2].get("dropped before this", ())]
    assert dropped[: len(numbers)] == [f"loader: game {number} is dropped" for number in numbers]
    assert made(folder / "x", failing) == whole


def test_a_move_without_a_score_is_played_and_marked(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    """No game is dropped, and the file does not depend on who plays."""
    mute = write_engine(tmp_path / "mute", "mute:10")
    whole = made(folder / "whole.binpack", mute)
    assert "dropped" not in "".join(capsys.readouterr())
    assert made(folder / "again.binpack", mute, "--engines", "3") == whole
    scores = [entry.score for entry in entries(folder / "whole.binpack")]
    assert 0 < scores.count(NO_SCORE) < 60
    assert all(abs(score) < 32001 for score in scores if score != NO_SCORE)


def test_progress_tells_rate_and_time_left(capsys: Capture) -> None:
    now = 0.0
    report = LineReport(10_000, lambda: now)
    for second in range(0, 26):
        now = float(second)
        report.progress(1000 + 100 * second, f"{10 + second} games")
    assert capsys.readouterr().err.splitlines() == [
        "loader: 2,000 of 10,000 positions, 20 games, 100/s, 0:01:20 left",
        "loader: 3,000 of 10,000 positions, 30 games, 100/s, 0:01:10 left",
    ]
    assert RateMeter(10).update(0, "0 games") == "0 of 10 positions, 0 games"
    assert format_duration(3_600_000) == "1,000:00:00"


def test_a_program_that_is_no_engine_is_one_line_and_leaves_no_file(folder: Path, capsys: Capture) -> None:
    for program, reason in (("/bin/true", "the engine has ended"), ("/nowhere/engine", "can't be started")):
        assert main(["generate", "-o", str(folder / "x"), "--engine", program, "--positions", "5"]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"loader: {program}: {reason}")
        assert err.count("\n") == 1
    assert names(folder) == []


BAD_COMMANDS = {
    "there is no option Net; there are: Clear Hash, EvalFile": ("--option", "Net=x"),
    "Invalid value for --option: 'x\\ny=1': an option is given as NAME=VALUE": ("--option", "x\ny=1"),
    "an engine has one thread; more engines: --engines": ("--option", "Threads=2"),
    "hash is given twice": ("--option", "hash=1", "--option", "Hash=2"),
}


@pytest.mark.parametrize("words", BAD_COMMANDS)
def test_wrong_options_are_one_line_and_exit_code_2(words: str, engine: Path, folder: Path, capsys: Capture) -> None:
    assert main(command(folder / "x", engine, *BAD_COMMANDS[words])) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert names(folder) == []


def test_the_book_begins_the_games(engine: Path, folder: Path, capsys: Capture) -> None:
    book = engine.parent / "book.epd"
    fens = [entry.fen for entry in list(entries(ROOT / "configs/sample/validation.binpack"))[100:110]]
    book.write_text("\n".join(fens))
    made(
        folder / "x", engine, "--book", str(book), "--random-plies", "0", "--opening-score", "32000", "--max-ply", "500"
    )
    starts = {entry.fen for entry in entries(folder / "x")}
    assert starts & set(fens)
    book.write_text("\n".join([*fens, "8/8/8/8/8/8/8/8 w - -"]))
    assert main(command(folder / "y", engine, "--book", str(book), "--max-ply", "500")) == 1
    assert "book.epd: line 11: no legal position" in capsys.readouterr().err


def test_a_missing_python_chess_is_said_with_what_to_install(
    engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)
    assert main(command(folder / "x", engine)) == 2
    assert capsys.readouterr().err == "loader: loader generate needs python-chess: pip install 'sparsepool[generate]'\n"


def test_a_death_while_packing_is_made_good_by_the_same_command(
    engine: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made(folder / "whole", engine)
    with monkeypatch.context() as patch:
        patch.setattr(work_file.WorkFile, "remove", lambda _: None)
        assert made(folder / "x", engine) == whole
    assert names(folder) == ["whole", "x", "x.part", "x.part.journal"]
    assert main(command(folder / "x", engine)) == 0
    assert (folder / "x").read_bytes() == whole


def test_a_death_before_all_of_the_work_is_removed_is_made_good_by_the_same_command(
    engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made(folder / "x", engine)
    games = re.search(r"of (\d+) games", capsys.readouterr().out)
    assert games
    (folder / "x").unlink()
    with monkeypatch.context() as patch:  # the journal is removed last
        remove = Path.unlink
        patch.setattr(Path, "unlink", lambda path, **how: path.suffix != ".journal" and remove(path, **how))
        assert made(folder / "x", engine) == whole
    assert names(folder) == ["x", "x.part.journal"]
    capsys.readouterr()
    assert made(folder / "x", engine) == whole
    assert f"200 positions of {games[1]} games in" in capsys.readouterr().out
    assert names(folder) == ["x"]


@pytest.mark.parametrize("lacking", ["processes", "threads"])
def test_no_game_is_dropped_because_the_system_can_start_no_more(
    lacking: str, engine: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_work(folder / "x", engine, games=2)
    capsys.readouterr()
    started = itertools.count(1)
    calls = {"processes": (subprocess.Popen, "__init__"), "threads": (threading.Thread, "start")}
    owner, name = calls[lacking]
    start = getattr(owner, name)

    def limited(*arguments: Any, **options: Any) -> None:
        if next(started) > 3:
            raise BlockingIOError(errno.EAGAIN, "no more") if lacking == "processes" else RuntimeError("no more")
        start(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, limited)
        assert main(command(folder / "x", engine, "--engines", "8")) == 1
    reason = {"processes": f"{engine}: can't be started: no more", "threads": "--engines 8: no more after 3"}[lacking]
    told = capsys.readouterr().err
    assert re.fullmatch(rf"loader: {re.escape(reason)}; \d+ of 200 positions .* the same command goes on\n", told)
    assert made(folder / "x", engine) == made(folder / "whole", engine)


def test_the_journal_names_settings_and_state(engine: Path, folder: Path) -> None:
    leave_work(folder / "x", engine, "--seed", "7")
    header, *commits = [json.loads(line) for line in (folder / "x.part.journal").read_text().splitlines()]
    assert header["settings"]["--seed"] == 7
    assert header["settings"]["--nodes"] == 150
    assert [commit[2]["games"] for commit in commits if isinstance(commit, list)] == list(range(1, len(commits) + 1))
    assert (folder / "x.part").stat().st_size == commits[-1][0]
