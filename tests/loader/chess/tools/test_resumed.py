"""Tools that are killed or interrupted: a file is whole or not there, and a shuffle goes on with its buckets."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loader.chess.filters import FilterConfig
from loader.chess.positions import output
from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.tools import dedupe as deduping
from loader.chess.tools import shuffle as shuffling
from loader.chess.tools.convert import convert
from loader.chess.tools.dedupe import DedupeResult, dedupe
from loader.chess.tools.filter import FilterResult, filter_positions
from loader.chess.tools.random_keys import RandomKeys
from loader.chess.tools.repetitions import Limits
from loader.chess.tools.shuffle import shuffle
from loader.chess.tools.split import SplitFile, split, split_paths
from loader.cli.main import main
from loader.errors import InterruptedBySignalError
from loader.files import work_file
from loader.files.interruption import Interruption
from loader.files.whole_file import is_temporary
from tests.loader.conftest import write_random_games
from tests.support.binpack_file import BinpackFile


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Random games as binpack, in 24 chunks, and as viriformat and packedsfen, in one."""
    folder = tmp_path_factory.mktemp("games")
    path = folder / "games.binpack"
    write_random_games(path, 3072, seed=1)
    for ending in ("viri", "psv.gz"):
        convert(open_sources([path]), target_from_name(folder / f"games.{ending}"), folder / f"games.{ending}")
    return [path, folder / "games.viri", folder / "games.psv.gz"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "FRAME", 500)
    monkeypatch.setattr(output, "FULL_CHUNK", 700)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stop_at(call: int, calls: itertools.count[int], *_: object) -> None:
    if next(calls) == call:
        raise InterruptedBySignalError(signal.SIGTERM)


Tool = Callable[[list[Path], Path, int], object]  # files, FOLDER/made.ENDING or what is beside it, threads


def converted(files: list[Path], made: Path, threads: int) -> None:
    convert(open_sources(files), target_from_name(made), made, threads)


def filtered(files: list[Path], made: Path, threads: int) -> FilterResult:
    settings = FilterConfig(where="ply > 8", random_skip=0.5)
    return filter_positions(open_sources(files), target_from_name(made), made, settings, 3, threads)


def deduped(files: list[Path], made: Path, threads: int) -> DedupeResult:
    """With buckets on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deduping, "divide_memory", lambda *_: Limits(2000, threads))
        return dedupe(open_sources([*files, files[0]]), target_from_name(made), made, 1 << 30, threads)


def in_two(files: list[Path], made: Path, threads: int) -> Sequence[SplitFile]:
    number = 0 if made.suffix == ".binpack" else 1
    return split(open_sources(files)[number], target_from_name(made), split_paths(made, None), 0.4, 5, threads)


def shuffled(files: list[Path], made: Path, threads: int) -> int:
    """With buckets on disk, some of them in buckets of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffling, "_divide_memory", lambda *_: shuffling._Limits(5000, threads))
        patch.setattr(shuffling, "BLOCK", 100)
        return shuffle(open_sources([files[0], files[2]]), target_from_name(made), made, 5, 1 << 30, threads)


BEGIN_ANEW: dict[str, tuple[Tool, str]] = {
    "convert binpack": (converted, "binpack"),
    "convert txt.gz": (converted, "txt.gz"),
    "filter binpack": (filtered, "binpack"),
    "filter bf.zst": (filtered, "bf.zst"),
    "dedupe psv": (deduped, "psv"),
    "split viri": (in_two, "viri"),
}
SHUFFLES = ("binpack", "viri.zst", "psv")


class Changes:
    """Counts what is done to files; the process ends at one of them, before it is done or behind it."""

    def __init__(self, last: int, *, behind: bool = False) -> None:
        self.count = 0
        self._last = last
        self._behind = behind

    def counting(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("pwrite", "link", "unlink"):
            patch.setattr(os, name, partial(self._called, getattr(os, name)))

    def _called(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.count += 1
        if self.count == self._last and not self._behind:
            os._exit(9)
        found = function(*arguments, **named)
        if self.count == self._last:
            os._exit(9)
        return found


def dies(changes: Changes, work: Callable[[], object]) -> bool:
    """Whether a process of its own that does the work ends at its change of a file."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            changes.counting(patch)
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.parametrize("tool", BEGIN_ANEW)
def test_a_file_is_whole_or_not_there_wherever_the_process_died(tool: str, games: list[Path], tmp_path: Path) -> None:
    """What is left has a temporary name, and the same command makes the file."""
    work, ending = BEGIN_ANEW[tool]
    whole = tmp_path / "whole"
    whole.mkdir()
    changes = Changes(-1)
    with pytest.MonkeyPatch.context() as patch:
        changes.counting(patch)
        work(games, whole / f"made.{ending}", 3)
    pick = random.Random(tool)
    for number in (*pick.sample(range(1, changes.count), 4), changes.count):
        made = tmp_path / f"made {number}"
        made.mkdir()
        again = partial(work, games, made / f"made.{ending}", 1)
        assert dies(Changes(number, behind=pick.random() < 0.5), again)
        there = [name for name in names(made) if not is_temporary(name)]
        for name in there:
            assert (made / name).read_bytes() == (whole / name).read_bytes()
        if not there:
            again()
            for name in names(whole):
                assert (made / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("ending", SHUFFLES)
def test_a_shuffle_goes_on_wherever_the_process_died(
    ending: str, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, made = tmp_path / "whole", tmp_path / "made"
    for folder in (whole, made):
        folder.mkdir()
    changes = Changes(-1)
    with monkeypatch.context() as patch:
        changes.counting(patch)
        entries = shuffled(games, whole / f"made.{ending}", 3)
    pick, deaths, answer = random.Random(ending), 0, tmp_path / "answer"

    def again() -> None:
        answer.write_text(str(shuffled(games, made / f"made.{ending}", 1)))

    while dies(Changes(pick.randint(5, changes.count), behind=pick.random() < 0.5), again):
        deaths += 1
        assert deaths < 100
        if names(made) == names(whole):  # behind the last change: only the answer is missing
            answer.write_text(str(entries))
            break
    assert deaths > 0
    assert names(made) == names(whole) == [f"made.{ending}"]
    assert (made / f"made.{ending}").read_bytes() == (whole / f"made.{ending}").read_bytes()
    assert (whole / f"made.{ending}").stat().st_size > 1000
    assert answer.read_text() == str(entries)


COMMANDS = {
    "convert": ("-o", "made.viri"),
    "shuffle": ("-o", "made.viri"),
    "filter": ("--where", "ply > 8", "-o", "made.binpack"),
    "dedupe": ("-o", "made.binpack"),
    "split": ("--validation", "40%", "--into", "."),
    "rescore": ("--engine", "no-engine", "-o", "made.binpack"),
}


def command(name: str, games: list[Path]) -> list[str]:
    return [name, str(games[0]), *COMMANDS[name]]


def without_units(text: str) -> str:
    """Leaves out the notes on units of scores."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("loader: scores keep their numbers"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_without_room_is_said_before_the_work(
    name: str, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert main(command(name, games)) == 71
    said = without_units(capsys.readouterr().err)
    assert re.fullmatch(r"loader: .*: about (\d+,\d+ bytes|\d+\.\d MB) are needed, and 1,000 bytes are free\n", said)
    assert not names(tmp_path)


@pytest.mark.parametrize(("others", "said"), [(("{viri}",), "files 1, "), (("--seed", "2"), "--seed 0 (now 2)")])
def test_other_options_are_refused_in_one_line(
    others: tuple[str, ...],
    said: str,
    games: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shuffling, "_divide_memory", lambda _memory, threads: shuffling._Limits(5_000, threads))
    given = command("shuffle", games)
    assert dies(Changes(8), lambda: main(given))
    there = {path: (tmp_path / path).read_bytes() for path in names(tmp_path)}
    assert main([*given, *(each.format(viri=games[1]) for each in others)]) == 2
    error = without_units(capsys.readouterr().err)
    assert f"was begun with other settings: {said}" in error
    assert error.endswith("; give those, or remove it to begin anew\n")
    assert error.count("\n") == 1
    assert {path: (tmp_path / path).read_bytes() for path in names(tmp_path)} == there


def test_a_death_between_the_name_and_the_end_of_the_work_is_made_good(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.viri"
    monkeypatch.setattr(shuffling, "_divide_memory", lambda _memory, threads: shuffling._Limits(5_000, threads))

    def again() -> int:
        return shuffle(open_sources(games[:1]), target_from_name(made), made, 5, 1 << 30)

    with monkeypatch.context() as patch:
        patch.setattr(work_file.WorkFile, "remove", lambda _: None)
        entries = again()
    whole = made.read_bytes()
    assert names(tmp_path) == ["made.viri", "made.viri.part", "made.viri.part.journal"]
    assert again() == entries
    assert names(tmp_path) == ["made.viri"]
    assert made.read_bytes() == whole


@pytest.mark.parametrize("name", ["convert", "filter", "dedupe", "split"])
def test_a_signal_leaves_nothing_and_says_so(
    name: str, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Interruption, "check", partial(stop_at, 3, itertools.count(1)))
        assert main(command(name, games)) == 128 + signal.SIGTERM
    files = ("games.validation.binpack", "games.train.binpack") if name == "split" else COMMANDS[name][-1:]
    notes = "; ".join(f"{file} was not written" for file in files)
    assert without_units(capsys.readouterr().err) == f"loader: interrupted by SIGTERM; {notes}\n"
    assert not names(tmp_path)
    assert main(command(name, games)) == 0
    assert names(tmp_path)


class FullDisk:
    """Writes some bytes at a time, and none behind a number of calls."""

    def __init__(self, calls: int) -> None:
        self._left = calls
        self._write = os.pwrite

    def write(self, descriptor: int, data: bytes, offset: int) -> int:
        self._left -= 1
        if self._left < 0:
            raise OSError(28, "No space left on device")
        return self._write(descriptor, data[:400], offset)


def test_a_full_disk_leaves_nothing_of_a_conversion(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", FullDisk(30).write)
        assert main(command("convert", games)) == 71
    assert without_units(capsys.readouterr().err) == "loader: made.viri: No space left on device\n"
    assert not names(tmp_path)


def test_a_full_disk_keeps_the_buckets_of_a_shuffle(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = tmp_path / "whole" / "made.viri"
    whole.parent.mkdir()
    shuffle(open_sources(games[:1]), target_from_name(whole), whole, 0, 1 << 30)
    monkeypatch.setattr(shuffling, "_divide_memory", lambda _memory, threads: shuffling._Limits(5_000, threads))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", FullDisk(60).write)
        assert main(command("shuffle", games)) == 71
    assert "No space left on device; " in (said := capsys.readouterr().err)
    assert said.endswith("bytes of it are in made.viri.part; the same command goes on\n")
    assert main(command("shuffle", games)) == 0
    assert (tmp_path / "made.viri").read_bytes() == whole.read_bytes()


def test_a_conversion_to_binpack_fills_its_chunks_on_any_number_of_threads(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FULL_CHUNK", 5000)
    one, four = tmp_path / "one.binpack", tmp_path / "four.binpack"
    convert(open_sources(games), target_from_name(one), one, 1)
    convert(open_sources(games), target_from_name(four), four, 4)
    assert one.read_bytes() == four.read_bytes()
    file = BinpackFile(one)
    assert file.num_chunks > 3
    assert all(file.chunk(chunk)[1] >= 5000 for chunk in range(file.num_chunks - 1))


@pytest.mark.parametrize(("ending", "held", "block"), [("viri", 500, 2), ("binpack", 500, 2), ("bf.gz", 5000, 200)])
def test_a_shuffle_goes_on_with_its_buckets(
    ending: str, held: int, block: int, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at ticks of both passes; in memory, where all of it fits, it is the same."""
    monkeypatch.setattr(shuffling, "BLOCK", block)
    files = [games[0], games[2]]
    whole, made = tmp_path / f"whole.{ending}", tmp_path / f"made.{ending}"
    entries = shuffle(open_sources(files), target_from_name(whole), whole, 5, 1 << 30, 2)
    monkeypatch.setattr(shuffling, "_divide_memory", lambda _memory, threads: shuffling._Limits(held, threads))
    sizes: list[int] = []
    while not made.exists():
        stop = partial(stop_at, 5 + 2 * len(sizes), itertools.count(1))
        try:
            made_entries = shuffle(open_sources(files), target_from_name(made), made, 5, 1 << 30, 1, stop)
        except InterruptedBySignalError:
            part = tmp_path / f"made.{ending}.part"
            sizes.append(part.stat().st_size if part.exists() else 0)
            assert len(sizes) < 400
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 2, "the first pass has gone on"
    assert sizes[-1] == sizes[-2], "the second one has been stopped"
    assert made_entries == entries
    assert made.read_bytes() == whole.read_bytes()
    assert names(tmp_path) == sorted([whole.name, made.name])


def test_draws_begin_anywhere() -> None:
    whole = RandomKeys(3).next(50)
    for first in range(12):
        assert (RandomKeys(3, first).next(20) == whole[first : first + 20]).all()
