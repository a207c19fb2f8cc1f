"""`loader convert`, `split`, `shuffle`, `head`, `sample`, `count`: files of positions, moved."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.chess.positions import output as outputs
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.format import Target, named_format, target_from_name
from loader.chess.positions.input import open_sources, read_all_units
from loader.chess.positions.inputs import entries
from loader.chess.positions.units import START_OF_FILE, UnitBlock, concatenate, find_game_starts
from loader.chess.tools import shuffle as shuffling
from loader.chess.tools.convert import check_conversion, convert, read_first_units, sample_units
from loader.chess.tools.external_sort.spill import Buckets, Spill, sort_by_draw
from loader.chess.tools.external_sort.unnamed_file import UnnamedFile
from loader.chess.tools.shuffle import shuffle
from loader.chess.tools.split import split, split_paths
from loader.cli.amounts import parse_bytes, parse_share
from loader.errors import DataError, UsageError
from tests.loader.chess.formats.test_vectors import CONVERSIONS, EN_PASSANT_IF_TAKEN, vector
from tests.support.binpack_file import BinpackFile
from tests.support.loader_command import run_loader as run
from tests.support.paths import VALIDATION
from tests.support.positions import FORMATS, GAMES, SUFFIXES, rewritten, write_samples

POSITIONS = 3000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample's first positions in every format."""
    return write_samples(tmp_path_factory.mktemp("formats"), POSITIONS) | {"binpack": VALIDATION}


def ended(process: subprocess.Popen[Any]) -> bool:
    """Looked at every 5 ms."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.005)
    return process.returncode is not None


def units_in(path: Path) -> list[bytes]:
    """A file's records, lines, games or chains."""
    (source,) = open_sources([path])
    block = concatenate(list(read_all_units([source], source.format, 1)))
    return [bytes(block.bytes[begin:end]) for begin, end in zip(block.begins, block.ends, strict=True)]


# What is converted.

WITH_VECTORS = [name for name in FORMATS if name not in ("pgn", "plain")]  # test_pgn.py and test_plain.py


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_vectors_become_one_another_through_the_command(name: str, tmp_path: Path) -> None:
    """Games know only en-passant squares that a pawn can take on (test_vectors.py says where that shows)."""
    for into in WITH_VECTORS:
        made = tmp_path / f"made{SUFFIXES[into]}"
        code = run("convert", vector(name), "-o", made, "--to", into, "--lossy", "--threads", "2")
        if into in GAMES and name in ("bulletformat", "marlinformat", "text"):
            assert code == 2
            assert not made.exists()
            continue
        assert code == 0
        assert made.read_bytes() == rewritten(name, vector(name), into)
        known = (name, into) in CONVERSIONS and (name not in EN_PASSANT_IF_TAKEN or into in GAMES)
        if known or into in (name, "bulletformat"):
            assert made.read_bytes() == vector(into).read_bytes()


@pytest.mark.parametrize("name", GAMES)
def test_games_keep_their_borders_through_binpack_and_back(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    binpack, back = tmp_path / "games.binpack", tmp_path / f"back{SUFFIXES[name]}.zst"
    assert run("convert", files[name], "-o", binpack) == 0
    assert run("convert", binpack, "-o", back) == 0
    assert units_in(back) == units_in(files[name])


@pytest.mark.parametrize("ending", ["", ".zst", ".gz"])
def test_a_file_of_the_same_format_keeps_its_bytes(ending: str, files: dict[str, Path], tmp_path: Path) -> None:
    for name in ("viriformat", "marlinformat"):
        made, plain = tmp_path / f"made{SUFFIXES[name]}{ending}", tmp_path / f"plain{SUFFIXES[name]}"
        assert run("convert", files[name], files[name], "-o", made) == 0
        assert run("convert", made, "-o", plain) == 0
        assert plain.read_bytes() == files[name].read_bytes() * 2
    if ending == ".gz":
        assert gzip.decompress(made.read_bytes()) == plain.read_bytes()


def test_chunks_of_binpack_end_with_the_first_chain_behind_a_mebibyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the writer's do: a file that it wrote is copied to the same bytes."""
    made = tmp_path / "made.binpack"
    assert run("convert", VALIDATION, "-o", made) == 0
    assert made.read_bytes() == VALIDATION.read_bytes()
    monkeypatch.setattr(outputs, "FULL_CHUNK", 5000)
    small = tmp_path / "small.binpack"
    convert(open_sources([VALIDATION]), target_from_name(small), small)
    assert units_in(small) == units_in(VALIDATION)
    file = BinpackFile(small)
    sizes = [file.chunk(chunk)[1] for chunk in range(file.num_chunks)]
    longest = max(map(len, units_in(VALIDATION)))
    assert len(sizes) > 5
    assert all(5000 <= size < 5000 + longest for size in sizes[:-1])


def test_what_is_lost_is_named_and_refused(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.marlin"
    assert run("convert", files["viriformat"], "-o", made) == 2
    assert "marlinformat has no room for what viriformat has: move; --lossy leaves it out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run("convert", files["viriformat"], "-o", made, "--lossy") == 0
    assert "left out, marlinformat has no room for it: move" in capsys.readouterr().err
    change = check_conversion(open_sources([files["bulletformat"]]), named_format("text"), lossy=False)
    assert change.lost == []
    assert "castling rights" in change.made_up


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("convert", "{viri}", "-o", "made.epd"), "its ending names no format"),
        (("convert", "{viri}", "-o", "made.viri.gz.zst"), "its ending names no format"),
        (("convert", "{viri}", "-o", "made.bf", "--to", "text"), "its ending says bulletformat, and --to says text"),
        (("convert", "{viri}", "-o", "made.x", "--to", "pgm"), "is none of the formats"),
        (("convert", "{viri}", "-o", "{there}"), "exists, and is never replaced"),
        (("convert", "{viri}", "-o", "no/made.viri"), "there is no folder no"),
        (("convert", "absent.viri", "-o", "made.viri"), "absent.viri: No such file"),
        (("convert", "{there}", "-o", "made.viri"), "there is nothing to read"),
        (("split", "{bf}", "--validation", "2%"), "does not say which positions are of a game"),
        (("split", "{viri}", "--validation", "2"), "is no share between 0 and 1"),
        (("split", "{viri}", "--validation", "nan"), "is no share between 0 and 1"),
        (("shuffle", "{viri}", "-o", "made.viri", "--memory", "1MiB"), "is less than 64MiB"),
        (("shuffle", "{viri}", "-o", "made.viri", "--memory", "lots"), "is no amount of memory"),
        (("head", "{viri}", "{bf}"), "files of several formats"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    arguments: tuple[str, ...],
    said: str,
    files: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.viri").touch()
    names = {"viri": files["viriformat"], "bf": files["bulletformat"], "there": tmp_path / "there.viri"}
    assert run(*(argument.format(**names) for argument in arguments)) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.viri"]


def test_damage_ends_a_tool_with_file_and_offset_and_leaves_nothing(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.viri"
    damaged.write_bytes(files["viriformat"].read_bytes()[:-6])
    for command in ("convert", "shuffle"):
        for ending in (".viri", ".binpack"):
            assert run(command, damaged, "-o", tmp_path / f"made{ending}") == 1
            assert re.search(r"damaged\.viri: offset \d+: the data end within a game", capsys.readouterr().err)
    assert run("split", damaged, "--validation", "0.5") == 1
    cut = tmp_path / "cut.binpack"
    cut.write_bytes(VALIDATION.read_bytes() + b"BINP\0")
    with pytest.raises(DataError, match="offset 38313"):
        convert(open_sources([cut]), target_from_name(tmp_path / "made.viri"), tmp_path / "made.viri")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.binpack", "damaged.viri"]


def test_a_signal_ends_the_work_and_leaves_nothing(tmp_path: Path, files: dict[str, Path]) -> None:
    def tick(_done: int, _whole: int) -> None:
        raise KeyboardInterrupt

    made = tmp_path / "made.viri"
    for work in (
        lambda: convert(open_sources([files["viriformat"]]), target_from_name(made), made, 1, tick),
        lambda: shuffle(open_sources([files["viriformat"]]), target_from_name(made), made, 1, 1 << 33, 1, tick),
    ):
        with pytest.raises(KeyboardInterrupt):
            work()
        assert not list(tmp_path.iterdir())


# Split.


@pytest.mark.parametrize("name", ["viriformat", "montyvalue", "binpack"])
def test_no_game_is_on_both_sides_of_a_split(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / files[name].name
    path.write_bytes(files[name].read_bytes())
    assert run("split", path, "--validation", "25%", "--seed", "1", "--threads", "2") == 0
    train, validation = (units_in(part) for part in split_paths(path, None))
    whole = units_in(path)
    assert len(train) > len(validation) > 0
    places = {unit: i for i, unit in enumerate(whole)}
    assert len(places) == len(whole)
    assert Counter(train) + Counter(validation) == Counter(whole)
    for part in (train, validation):
        assert [places[unit] for unit in part] == sorted(places[unit] for unit in part)


def test_a_game_in_several_parts_stays_on_one_side(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter breaks games; so do ends of chunks. As binpack, and as viriformat made of it; a shuffle mixes parts."""
    parts, viri, mixed = (tmp_path / name for name in ("parts.binpack", "parts.viri", "mixed.binpack"))
    assert run("filter", files["viriformat"], "-o", parts, "--random-skip", "0.5", "--keep-no-score") == 0
    assert run("convert", parts, "-o", viri) == 0
    (whole,) = open_sources([files["viriformat"]])
    games = int(sum(len(block) for block in read_all_units([whole], whole.format, 1)))
    for path in (parts, viri):
        assert run("split", path, "--validation", "0.5", "--seed", "2") == 0
        assert "may be on both sides" not in capsys.readouterr().err
        sides = [Counter(units_in(part)) for part in split_paths(path, None)]
        (source,) = open_sources([path])
        (block,) = read_all_units([source], source.format, 1)
        new, _ = find_game_starts(source.format, block, START_OF_FILE)
        assert games * 0.9 <= new.sum() <= games < len(block) / 5
        units = [bytes(block.bytes[begin:end]) for begin, end in zip(block.begins, block.ends, strict=True)]
        for game in np.split(np.arange(len(block)), np.flatnonzero(new)[1:]):
            assert {units[i] in sides[1] for i in game} in ({True}, {False})
    assert run("filter", files["packedsfen"], "-o", mixed, "--random-skip", "20") == 0
    assert run("split", mixed, "--validation", "0.5") == 0
    assert "mixed.binpack: most chains have one position" in capsys.readouterr().err


def test_a_split_is_a_function_of_its_seed(files: dict[str, Path], tmp_path: Path) -> None:
    (source,) = open_sources([files["viriformat"]])
    made = {}
    for i, (seed, threads) in enumerate(((1, 1), (1, 4), (2, 1))):
        folder = tmp_path / str(i)
        folder.mkdir()
        paths = split_paths(source.path, folder)
        split(source, Target(source.format), paths, 0.3, seed, threads)
        made[i] = [path.read_bytes() for path in paths]
    assert made[0] == made[1] != made[2]


# Shuffle.


def shuffled(path: Path, made: Path, seed: int, held: int | None = None, threads: int = 1) -> list[bytes]:
    """`held`: bytes of units at once."""
    with pytest.MonkeyPatch.context() as patch:
        if held is not None:
            patch.setattr(shuffling, "_divide_memory", lambda *_: shuffling._Limits(held, threads))
        shuffle(open_sources([path]), target_from_name(made), made, seed, 4 << 30, threads)
    units = units_in(made)
    made.unlink()
    return units


@pytest.mark.parametrize("name", ["viriformat", "bulletformat", "text", "binpack"])
def test_a_shuffle_depends_on_neither_memory_nor_threads(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    made = tmp_path / files[name].name
    whole = shuffled(files[name], made, 1)
    assert Counter(whole) == Counter(units_in(files[name]))
    assert whole != units_in(files[name])
    for held, threads in ((100_000, 1), (9_000, 4), (500, 1)):  # in one level of buckets; in several
        assert shuffled(files[name], made, 1, held, threads) == whole
    assert shuffled(files[name], made, 2) != whole


@pytest.mark.parametrize(("name", "bins"), [("bulletformat", 10), ("viriformat", 4)])
def test_places_of_a_shuffle_are_uniform(name: str, bins: int, files: dict[str, Path], tmp_path: Path) -> None:
    """Chi-square of where units come from against where they go to, over seeds; and of neighbours."""
    units = units_in(files[name])
    places = {unit: i for i, unit in enumerate(units)}
    counts, beside, seeds = np.zeros((bins, bins)), 0, 5 if name == "bulletformat" else 25
    for seed in range(seeds):
        order = np.array([places[unit] for unit in shuffled(files[name], tmp_path / files[name].name, seed, 20_000)])
        np.add.at(counts, (order * bins // len(order), np.arange(len(order)) * bins // len(order)), 1)
        beside += int((np.diff(order) == 1).sum())
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / counts.sum()
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (bins - 1) ** 2
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5
    assert beside < 4 * seeds + 10  # about one in an order


def test_equal_draws_keep_the_order_of_the_input(tmp_path: Path) -> None:
    data = np.arange(40, dtype=np.uint8)
    block = UnitBlock(data, np.arange(1, 41, dtype=np.uint64), np.ones(40, np.uint32))
    with UnnamedFile(tmp_path) as file:
        spill = Spill(file)
        for begin in (0, 20):
            draws = np.full(20, 7 << 56, np.uint64)
            spill.add(Buckets.of_blocks([(block.slice(begin, begin + 20), draws)], 56))
        assert [bucket for bucket in range(256) if spill.size(bucket)] == [7]
        assert b"".join(bytes(part.bytes) for part in sort_by_draw(spill.read(7))) == bytes(data)
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(120)
def test_a_shuffle_of_a_large_file_keeps_within_its_memory(files: dict[str, Path], tmp_path: Path) -> None:
    """As a process: 64 MiB allowed, of which some twenty are free for data, for a file of 38 MB and its tables."""
    large = tmp_path / "large.bf"
    with large.open("wb") as file:
        for _ in range(400):
            file.write(files["bulletformat"].read_bytes())
    sums = []
    for memory, threads in (("64MiB", 4), ("4GiB", 1)):
        made = tmp_path / "made.bf"
        command = [sys.executable, "-P", "-m", "loader", "shuffle", str(large), "-o", str(made)]
        process = subprocess.Popen([*command, "--memory", memory, "--threads", str(threads), "--seed", "3"])
        peak = 0
        while not ended(process):
            if found := re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")):
                peak = max(peak, int(found[1]) << 10)
        assert process.returncode == 0
        assert memory != "64MiB" or (16 << 20) < peak < (64 << 20)
        sums.append(made.read_bytes())
        made.unlink()
    assert sums[0] == sums[1]
    assert len(sums[0]) == large.stat().st_size


# Head, sample, count.


def test_a_sample_is_drawn_from_all_alike(files: dict[str, Path]) -> None:
    sources = open_sources([files["bulletformat"]])
    kind = sources[0].format
    units = units_in(files["bulletformat"])
    places = {unit: i for i, unit in enumerate(units)}
    counts = np.zeros(10)
    for seed in range(20):
        block = sample_units(sources, kind, 100, seed, threads=2)
        drawn = [places[bytes(block.bytes[b:e])] for b, e in zip(block.begins, block.ends, strict=True)]
        assert drawn == sorted(drawn)
        assert len(set(drawn)) == 100
        counts += np.bincount(np.array(drawn) * 10 // len(units), minlength=10)
    assert float(((counts - 200) ** 2 / 200).sum()) < 9 + 4 * 18**0.5
    assert len(sample_units(sources, kind, 10**6, 1)) == len(units)


def test_head_and_count_take_whole_games(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "head.viri"
    assert run("head", files["viriformat"], "-n", "3", "-o", made) == 0
    assert units_in(made) == units_in(files["viriformat"])[:3]
    assert sum(len(block) for block in read_first_units(open_sources([VALIDATION]), named_format("binpack"), 7)) == 7
    capsys.readouterr()
    assert run("count", VALIDATION, made) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("binpack, 15,000 positions in 165 chains")
    assert out[1].endswith("positions in 3 games")


def test_a_pipe_gets_the_bytes_of_the_file(files: dict[str, Path]) -> None:
    """As a process, through standard output; a reader that goes away ends it silently."""
    command = [sys.executable, "-P", "-m", "loader", "convert", str(files["viriformat"]), "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == files["viriformat"].read_bytes()
    assert not done.stderr


def test_a_terminated_command_leaves_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    """As a process: stopped as soon as its file is begun."""
    large, folder = tmp_path / "large.bf", tmp_path / "out"
    folder.mkdir()
    with large.open("wb") as file:
        for _ in range(250):
            file.write(files["bulletformat"].read_bytes())
    made = folder / "made.bf"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "loader", "shuffle", large, "-o", made], stderr=subprocess.PIPE, text=True
    )
    while not os.listdir(folder) and not ended(process):  # noqa: PTH208 (a name may vanish meanwhile)
        pass
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert error == "loader: interrupted by SIGTERM\n"
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("64MiB", 64 << 20), ("1.5g", 15 * 10**8), ("2 GB", 2 * 10**9), ("100", 100)]
)
def test_amounts_of_memory(text: str, size: int) -> None:
    assert parse_bytes(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1XiB", "1e9", "b"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text, "--memory")


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.5", 0.5), (" 12.5 % ", 0.125)])
def test_shares(text: str, share: float) -> None:
    assert parse_share(text, "--validation") == share


@pytest.mark.parametrize("into", [".binpack", ".viri", ".txt"])
def test_scores_are_scaled_on_the_way(into: str, tmp_path: Path) -> None:
    """Also into the same format; as `score_scale` does it in training, to which the mark of no score is no number."""
    source, made = tmp_path / f"source{into}", tmp_path / f"made{into}.gz"
    assert run("convert", VALIDATION, "-o", source, "--lossy") == 0
    assert run("convert", source, "-o", made, "--scale", "2.5") == 0
    before, after = list(entries(source)), list(entries(made))
    wanted = [
        each.score if each.score == NO_SCORE else max(-32000, min(32000, round(each.score * 2.5))) for each in before
    ]
    assert [each.score for each in after] == wanted
    assert [replace(each, score=0) for each in after] == [replace(each, score=0) for each in before]
    for scale in ("0", "-1", "nan", "x"):
        assert run("convert", source, "-o", tmp_path / f"other{into}", "--scale", scale) == 2
