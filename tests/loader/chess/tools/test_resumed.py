"""Tools that go on with what an earlier process has done: killed anywhere, they end with the same bytes."""

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
from loader.chess.positions import output, resumed_output
from loader.chess.positions.format import target_of
from loader.chess.positions.input import open_sources
from loader.chess.tools import dedupe as deduping
from loader.chess.tools import shuffle as shuffling
from loader.chess.tools.convert import convert
from loader.chess.tools.dedupe import Deduped, dedupe
from loader.chess.tools.filter import Passed, filter_positions
from loader.chess.tools.random_keys import Draws
from loader.chess.tools.repetitions import Limits
from loader.chess.tools.shuffle import shuffle
from loader.chess.tools.split import Part, part_paths, split
from loader.cli.main import main
from loader.errors import InterruptedBySignalError
from loader.files import work_file
from tests.loader.conftest import write_random_games
from tests.support.binpack_file import BinpackFile


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Random games as binpack, in 24 chunks, and as viriformat and packedsfen, in one."""
    folder = tmp_path_factory.mktemp("games")
    path = folder / "games.binpack"
    write_random_games(path, 3072, seed=1)
    for ending in ("viri", "psv.gz"):
        convert(open_sources([path]), target_of(folder / f"games.{ending}"), folder / f"games.{ending}")
    return [path, folder / "games.viri", folder / "games.psv.gz"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumed_output, "PIECE", 500)
    monkeypatch.setattr(output, "FULL_CHUNK", 700)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stop_at(call: int, calls: itertools.count[int], *_: object) -> None:
    if next(calls) == call:
        raise InterruptedBySignalError(signal.SIGTERM)


Tool = Callable[[list[Path], Path, int], object]  # files, FOLDER/made.ENDING or what is beside it, threads


def converted(files: list[Path], made: Path, threads: int) -> None:
    convert(open_sources(files), target_of(made), made, threads)


def filtered(files: list[Path], made: Path, threads: int) -> Passed:
    settings = FilterConfig(where="ply > 8", random_skip=0.5)
    return filter_positions(open_sources(files), target_of(made), made, settings, 3, threads)


def deduped(files: list[Path], made: Path, threads: int) -> Deduped:
    """With buckets on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deduping, "limits_of", lambda *_: Limits(2000, threads))
        return dedupe(open_sources([*files, files[0]]), target_of(made), made, 1 << 30, threads)


def in_two(files: list[Path], made: Path, threads: int) -> Sequence[Part]:
    number = 0 if made.suffix == ".binpack" else 1
    return split(open_sources(files)[number], target_of(made), part_paths(made, None), 0.4, 5, threads)


def shuffled(files: list[Path], made: Path, threads: int) -> int:
    """With buckets on disk, some of them in buckets of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffling, "_limits", lambda *_: (5000, threads))
        patch.setattr(shuffling, "BLOCK", 2)
        return shuffle(open_sources([files[0], files[2]]), target_of(made), made, 5, 1 << 30, threads)


TOOLS: dict[str, tuple[Tool, str]] = {
    "convert binpack": (converted, "binpack"),
    "convert viri": (converted, "viri"),
    "convert txt.gz": (converted, "txt.gz"),
    "filter binpack": (filtered, "binpack"),
    "filter bf.zst": (filtered, "bf.zst"),
    "dedupe psv": (deduped, "psv"),
    "shuffle binpack": (shuffled, "binpack"),
    "shuffle viri.zst": (shuffled, "viri.zst"),
    "shuffle psv": (shuffled, "psv"),
    "split binpack": (in_two, "binpack"),
    "split viri": (in_two, "viri"),
}


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


@pytest.mark.parametrize("tool", TOOLS)
def test_work_goes_on_wherever_the_process_died(
    tool: str, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process does more than a quarter of it, so each goes on with what those before it have done."""
    work, ending = TOOLS[tool]
    whole, made = tmp_path / "whole", tmp_path / "made"
    for folder in (whole, made):
        folder.mkdir()
    changes = Changes(-1)
    with monkeypatch.context() as patch:
        changes.counting(patch)
        said = str(work(games, whole / f"made.{ending}", 3))
    most, pick, deaths, answer = changes.count // 4, random.Random(tool), 0, tmp_path / "answer"

    def again() -> None:
        answer.write_text(str(work(games, made / f"made.{ending}", 1)))

    while dies(Changes(pick.randint(5, most), behind=pick.random() < 0.5), again):
        deaths += 1
        assert deaths < 100
        if names(made) == names(whole):  # behind the last change: only the answer is missing
            answer.write_text(said)
            break
    assert deaths > 0
    assert names(made) == names(whole)
    for name in names(made):
        assert (made / name).read_bytes() == (whole / name).read_bytes()
    assert any((made / name).stat().st_size > 1000 for name in names(made))
    assert answer.read_text().replace(str(made), str(whole)) == said


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


@pytest.mark.parametrize(
    ("name", "others", "said"),
    [
        ("convert", ("{viri}",), "files 1, "),
        ("filter", ("--where", "ply > 9"), '--where "ply > 8" (now "ply > 9")'),
        ("filter", ("--seed", "2"), "--seed 0 (now 2)"),
        ("split", ("--validation", "30%"), "--validation 0.4 (now 0.3)"),
    ],
)
def test_other_options_are_refused_in_one_line(
    name: str,
    others: tuple[str, ...],
    said: str,
    games: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = command(name, games)
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
    with monkeypatch.context() as patch:
        patch.setattr(work_file.WorkFile, "remove", lambda _: None)
        convert(open_sources(games[:1]), target_of(made), made)
    whole = made.read_bytes()
    assert names(tmp_path) == ["made.viri", "made.viri.part", "made.viri.part.journal"]
    convert(open_sources(games[:1]), target_of(made), made)
    assert names(tmp_path) == ["made.viri"]
    assert made.read_bytes() == whole


def test_a_full_disk_keeps_what_is_done(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, calls, pick = tmp_path / "made.viri", itertools.count(), random.Random(1).randrange(20, 60)
    real = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if next(calls) > pick:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:400], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert main(["convert", str(games[0]), "-o", str(made)]) == 71
    assert "No space left on device; " in (said := capsys.readouterr().err)
    assert said.endswith(f"bytes of it are in {made}.part; the same command goes on\n")
    assert main(["convert", str(games[0]), "-o", str(made)]) == 0
    convert(open_sources(games[:1]), target_of(tmp_path / "whole.viri"), tmp_path / "whole.viri")
    assert made.read_bytes() == (tmp_path / "whole.viri").read_bytes()


def test_a_conversion_to_binpack_fills_its_chunks_on_any_number_of_threads(
    games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FULL_CHUNK", 5000)
    one, four = tmp_path / "one.binpack", tmp_path / "four.binpack"
    convert(open_sources(games), target_of(one), one, 1)
    convert(open_sources(games), target_of(four), four, 4)
    assert one.read_bytes() == four.read_bytes()
    file = BinpackFile(one)
    assert file.num_chunks > 3
    assert all(file.chunk(chunk)[1] >= 5000 for chunk in range(file.num_chunks - 1))


@pytest.mark.parametrize("ending", ["viri", "binpack", "bf.gz"])
def test_a_shuffle_goes_on_with_its_buckets_and_with_what_is_written(
    ending: str, games: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at ticks of both passes; in memory, where all of it fits, it is the same."""
    monkeypatch.setattr(shuffling, "BLOCK", 2)
    files = [games[0], games[2]]
    whole, made = tmp_path / f"whole.{ending}", tmp_path / f"made.{ending}"
    entries = shuffle(open_sources(files), target_of(whole), whole, 5, 1 << 30, 2)
    monkeypatch.setattr(shuffling, "_limits", lambda _memory, threads: (5_000, threads))
    stops, sizes = 0, {name: set[int]() for name in (f"made.{ending}.part", f"made.{ending}.buckets.part")}
    while not made.exists():
        try:
            made_entries = shuffle(
                open_sources(files),
                target_of(made),
                made,
                5,
                1 << 30,
                1,
                partial(stop_at, 7 + 2 * stops, itertools.count(1)),
            )
        except InterruptedBySignalError:
            stops += 1
            assert stops < 400
            for name, found in sizes.items():
                found.add(path.stat().st_size if (path := tmp_path / name).exists() else 0)
    assert all(len(found) > 2 for found in sizes.values()), "each pass has gone on"
    assert made_entries == entries
    assert made.read_bytes() == whole.read_bytes()
    assert names(tmp_path) == sorted([whole.name, made.name])


def test_draws_begin_anywhere() -> None:
    whole = Draws(3).next(50)
    for first in range(12):
        assert (Draws(3, first).next(20) == whole[first : first + 20]).all()
