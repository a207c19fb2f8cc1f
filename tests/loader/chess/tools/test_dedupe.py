"""`loader dedupe`: each position once, the first one, whatever memory and threads there are."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loader import _native
from loader.chess.positions.entry import Entry
from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.tools import dedupe as deduping
from loader.chess.tools.dedupe import dedupe
from loader.chess.tools.external_sort.row_spill import Rows
from loader.chess.tools.repetitions import Limits
from tests.support.loader_command import run_loader as run
from tests.support.paths import VALIDATION
from tests.support.positions import SUFFIXES, encode, read_file, sample

DISTINCT = 2000


def key(entry: Entry) -> str:
    """Board, side, rights; the sample has no en-passant square that no pawn can take on."""
    return " ".join(entry.fen.split()[:4])


def firsts(found: Sequence[Entry]) -> list[Entry]:
    kept: dict[str, Entry] = {}
    for entry in found:
        kept.setdefault(key(entry), entry)
    return list(kept.values())


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Positions up to nine times, each time with another score, far from one another."""
    pick = random.Random(3)
    distinct = list({key(entry): entry for entry in sample(DISTINCT)}.values())
    drawn = [entry for entry in distinct for _ in range(pick.choice((1, 1, 2, 9)))]
    pick.shuffle(drawn)
    entries = [Entry(e.fen, e.move, i % 30000, e.ply, e.result) for i, e in enumerate(drawn)]
    path = tmp_path_factory.mktemp("repeated") / "repeated.psv"
    path.write_bytes(encode("packedsfen", entries))
    return path


def deduped(made: Path, files: Sequence[Path], rows: int | None = None, threads: int = 1) -> bytes:
    """`rows`: keys that are held."""
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr(deduping, "divide_memory", lambda *_: Limits(rows, threads))
        dedupe(open_sources(files), target_from_name(made), made, 1 << 33, threads)
    data = made.read_bytes()
    made.unlink()
    return data


def test_the_first_of_each_position_stays(repeated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, whole = tmp_path / "unique.psv", read_file("packedsfen", repeated)
    expected = firsts(whole)
    assert 1000 < len(expected) < len(whole) / 2
    assert run("dedupe", repeated, "-o", made) == 0
    assert read_file("packedsfen", made) == expected
    assert f"{len(expected):,} of {len(whole):,} positions kept" in capsys.readouterr().out
    again = tmp_path / "again.psv"
    assert run("dedupe", made, "-o", again) == 0
    assert again.read_bytes() == made.read_bytes()


def test_neither_memory_nor_threads_change_a_byte(repeated: Path, tmp_path: Path) -> None:
    """In memory; in one level of buckets; in several."""
    made, small = tmp_path / "made.psv", tmp_path / "small.psv"
    whole = deduped(made, [repeated, VALIDATION])
    for rows, threads in ((5000, 1), (300, 4)):
        assert deduped(made, [repeated, VALIDATION], rows, threads) == whole
    small.write_bytes(encode("packedsfen", sample(200)))
    assert deduped(made, [small, small], 1, 2) == deduped(made, [small, small])


def test_one_position_many_times_needs_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket tells equal keys apart, so their last level is read in parts."""
    path = tmp_path / "same.psv"
    path.write_bytes(encode("packedsfen", [entry for _ in range(15) for entry in sample(3)]))
    most: list[int] = []
    asked = _native.first_of_keys

    def first_of_keys(keys: Rows) -> npt.NDArray[np.uint8]:
        most.append(len(keys))
        return asked(keys)

    monkeypatch.setattr(_native, "first_of_keys", first_of_keys)
    made = tmp_path / "made.psv"
    assert len(deduped(made, [path] * 30, 50)) == 3 * 40
    assert max(most) <= 53


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "4k3/8/8/8/8/8/8/4K2R w K - 9 40", True),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "4k3/8/8/8/8/8/8/4K2R w - - 0 1", False),
        ("4k3/8/8/8/8/8/8/4K2R w - - 0 1", "4k3/8/8/8/8/8/8/4K2R b - - 0 1", False),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "4k3/8/8/3pP3/8/8/8/4K3 w - - 0 2", False),
        ("4k3/8/8/3p4/8/8/8/4K3 w - d6 0 2", "4k3/8/8/3p4/8/8/8/4K3 w - - 0 2", True),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "4k3/8/8/8/8/8/8/R3K2R w K - 0 1", False),
        ("4k3/8/8/8/8/8/8/4KRR1 w F - 0 1", "4k3/8/8/8/8/8/8/4KRR1 w G - 0 1", False),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1", True),
        ("8/8/8/8/k2Pp2Q/8/8/K7 b - d3 0 1", "8/8/8/8/k2Pp2Q/8/8/K7 b - - 0 1", True),  # the taking pawn is pinned
    ],
)
def test_what_makes_a_position(one: str, other: str, same: bool) -> None:
    writer = _native.KeyWriter()
    for fen in (one, other):
        writer.add(fen, "0000", 0, 0, 0)
    keys = writer.take_keys()
    assert _native.first_of_keys(keys).tolist() == [1, 0 if same else 1]
    hashes = _native.hash_keys(keys)
    assert (hashes[0] == hashes[1]) == same


def test_positions_are_the_same_in_every_format(tmp_path: Path) -> None:
    """What a format does not say counts as what it is read as."""
    for name in ("marlinformat", "packedsfen", "viriformat", "text"):
        path, made = tmp_path / f"some{SUFFIXES[name]}", tmp_path / f"{name}.binpack"
        path.write_bytes(encode(name, sample(500)))
        assert run("dedupe", VALIDATION, path, "-o", made, "--lossy") == 0
    assert len({(tmp_path / f"{name}.binpack").read_bytes() for name in ("marlinformat", "viriformat", "text")}) == 1


@pytest.mark.timeout(120)
def test_a_large_file_keeps_within_its_memory(repeated: Path, tmp_path: Path) -> None:
    """As a process: 64 MiB allowed for a million positions, whose keys alone take 32 MB and are held several times."""
    large = tmp_path / "large.psv"
    data = repeated.read_bytes()
    with large.open("wb") as file:
        for _ in range(1_000_000 * 40 // len(data)):
            file.write(data)
    made = tmp_path / "made.psv"
    command = [sys.executable, "-P", "-m", "loader", "dedupe", str(large), "-o", str(made), "--memory", "64MiB"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.returncode is None:
        if found := re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")):
            peak = max(peak, int(found[1]) << 10)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
    assert process.returncode == 0
    assert (16 << 20) < peak < (64 << 20)
    assert read_file("packedsfen", made) == firsts(read_file("packedsfen", repeated))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "made.viri"), "viriformat holds whole games, of which no position can be left out"),
        (("-o", "made.psv", "--memory", "1MiB"), "--memory: 1MiB is less than 64MiB"),
        (("-o", "made.psv", "--memory", "much"), "is no amount of memory"),
        (("-o", "made.bf"), "bulletformat has no room for what packedsfen has"),
        (("-o", "there.psv"), "exists, and is never replaced"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    arguments: Sequence[str],
    said: str,
    repeated: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.psv").touch()
    assert run("dedupe", repeated, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.psv"]


def test_a_failed_dedupe_leaves_nothing(repeated: Path, tmp_path: Path) -> None:
    damaged, made = tmp_path / "damaged.psv", tmp_path / "made.psv"
    damaged.write_bytes(repeated.read_bytes()[:-6])
    assert run("dedupe", damaged, "-o", made) == 1
    assert list(tmp_path.iterdir()) == [damaged]
