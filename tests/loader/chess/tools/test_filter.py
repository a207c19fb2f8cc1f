"""`loader filter`: the positions that pass are those of a stream, in any format that can hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loader.chess.filters import FilterConfig
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.format import target_from_name
from loader.chess.positions.input import open_sources
from loader.chess.tools.filter import filter_positions
from loader.stream.data import open_stream
from loader.stream.slots import allocate_slots, read_batches
from loader.stream.sources import data_config
from tests.support.loader_command import run_loader as run
from tests.support.paths import VALIDATION
from tests.support.positions import FORMATS, GAMES, RECORDS, SUFFIXES, VECTORS, read_positions, write_samples

POSITIONS = 3000
WHERE = "ply >= 16 and abs(score) < 300 and not in_check and not is_capture"
RANDOM = FilterConfig(
    where="not in_check", random_skip=0.5, piece_count=True, keep_by_ply=(0, 0.2, 40, 1), win_draw_loss=True
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample's first positions in every format."""
    return write_samples(tmp_path_factory.mktemp("formats"), POSITIONS) | {"binpack": VALIDATION}


def filtered(made: Path, sources: list[Path], filters: FilterConfig, seed: int = 1, threads: int = 1) -> bytes:
    filter_positions(open_sources(sources), target_from_name(made), made, filters, seed, threads)
    data = made.read_bytes()
    made.unlink()
    return data


@pytest.mark.parametrize("name", ["binpack", "viriformat", "packedsfen"])
def test_what_passes_is_what_training_would_read(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    """In order, as a stream with the same seed has it in its first epoch; over two files."""
    made = tmp_path / "made.psv"
    sources = [files[name], files["packedsfen"]]
    passed = filter_positions(open_sources(sources), target_from_name(made), made, RANDOM, 7, 2)
    found = read_positions(made)
    assert len(found) == passed.kept
    assert 0.02 < passed.kept / passed.read < 0.5
    size = 64
    config = data_config(batch_size=size, shuffle=False, chess={"features": "chess768", "filters": RANDOM.model_dump()})
    with open_stream(config, sources, 7) as stream:  # type: ignore[attr-defined]
        slots = allocate_slots(stream.schema, 3)
        stream.attach(slots)
        for number, batch in enumerate(read_batches(stream, len(found) // size, slots)):
            expected = found[number * size : (number + 1) * size]
            for field in ("score", "ply"):
                assert sorted(batch.dense[field].tolist()) == sorted(getattr(entry, field) for entry in expected)


@pytest.mark.parametrize("name", ["binpack", *FORMATS])
def test_every_format_is_filtered_into_every_format_that_can_hold_it(
    name: str, files: dict[str, Path], tmp_path: Path
) -> None:
    whole = read_positions(files[name])
    where = "abs(score) < 300 and not in_check and pawns > 3"
    kept = None
    for into, suffix in {"binpack": ".binpack", **SUFFIXES}.items():
        made = tmp_path / f"made{suffix}.zst" if into == "text" else tmp_path / f"made{suffix}"
        code = run("filter", files[name], "-o", made, "--where", where, "--lossy", "--threads", "2")
        if into in GAMES:
            assert code == 2
            continue
        assert code == 0
        scores = [entry.score for entry in read_positions(made if into != "text" else unpacked(made))]
        kept = kept or scores
        assert scores == kept
    assert kept is not None
    assert len(kept) < len(whole)
    iterator = iter(entry.score for entry in whole)
    assert all(score in iterator for score in kept)  # in the order of the file


def unpacked(path: Path) -> Path:
    plain = path.with_suffix("")
    assert run("convert", path, "-o", plain) == 0
    return plain


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_records_of_the_same_format_keep_their_bytes(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    """Those that are the users' own included."""
    size = RECORDS[name]
    data = bytearray(files[name].read_bytes())
    if name in ("bulletformat", "marlinformat"):
        data[size - 1 :: size] = b"\x07" * len(data[size - 1 :: size])
    marked = tmp_path / files[name].name
    marked.write_bytes(data)
    made = tmp_path / f"made{SUFFIXES[name]}"
    assert run("filter", marked, "-o", made, "--where", "score > 50") == 0
    passing = [i for i, e in enumerate(read_positions(marked)) if e.score > 50 and e.score != 32002]
    expected = [bytes(data[i * size :][:size]) for i in passing]
    assert made.read_bytes() == b"".join(expected)


def test_neither_threads_nor_anything_but_seed_and_files_matter(files: dict[str, Path], tmp_path: Path) -> None:
    made = tmp_path / "made.psv"
    sources = [files["viriformat"], files["packedsfen"]]
    one = filtered(made, sources, RANDOM)
    assert filtered(made, sources, RANDOM, threads=4) == one
    assert filtered(made, sources, RANDOM, seed=2) != one


def test_a_filter_file_of_viriformat_keeps_what_viriformat_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """543 of 829 positions by viriformat 3.0.0 itself."""
    rules = tmp_path / "filter.toml"
    rules.write_text("min_ply = 16\nfilter_castling = false\nrandom_fen_skip_probability = 0.0\n")
    made = tmp_path / "made.bf"
    assert run("filter", VECTORS / "games.viri", "-o", made, "--viriformat", rules, "--keep-no-score", "--lossy") == 0
    assert "543 of 829 positions kept (65.5%)" in capsys.readouterr().out
    assert made.stat().st_size == 543 * 32


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{viri}", "-o", "made.viri"), "viriformat holds whole games, of which no position can be left out: write "),
        (
            ("{bf}", "-o", "made.bf", "--where", "ply > 3"),
            "--where: it needs the ply, which bulletformat does not have",
        ),
        (("{bf}", "-o", "made.bf", "--where", "is_capture"), "--where: is_capture needs the move"),
        (("{bf}", "-o", "made.bf", "--where", "white_to_move"), "white_to_move needs the side to move"),
        (("{bf}", "-o", "made.bf", "--skip-captures"), "--skip-captures: it needs the move, which bulletformat"),
        (("{bf}", "-o", "made.bf", "--viriformat", "{toml}"), "--viriformat: min_ply needs the ply"),
        (("{viri}", "-o", "made.bf", "--where", "plies > 3"), "--where: column 1: 'plies' is no name; there are ply"),
        (("{viri}", "-o", "made.bf", "--keep-by-ply", "1,x"), "--keep-by-ply: '1,x' is no list of numbers"),
        (("{viri}", "-o", "made.bf", "--keep-by-ply", "1"), "--keep-by-ply: an odd number"),
        (("{viri}", "-o", "made.bf", "--keep-by-ply", "nan,1"), "--keep-by-ply"),
        (("{viri}", "-o", "made.bf", "--piece-count-curve", "1,2"), "--piece-count-curve: 2 numbers"),
        (("{viri}", "-o", "made.bf", "--viriformat", "absent.toml"), "--viriformat: absent.toml: No such file"),
        (("{viri}", "-o", "made.bf", "--viriformat", "{viri}"), "--viriformat: "),
        (("{viri}", "-o", "made.bf", "--where", "score > 0"), "bulletformat has no room for what viriformat has: move"),
        (("{viri}", "-o", "{there}"), "exists, and is never replaced"),
        (("{there}", "-o", "made.psv"), "there is nothing to read"),
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
    (tmp_path / "there.psv").touch()
    (tmp_path / "filter.toml").write_text("")
    names = {"viri": files["viriformat"], "bf": files["bulletformat"], "there": "there.psv", "toml": "filter.toml"}
    assert run("filter", *(argument.format(**names) for argument in arguments)) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    (error,) = [line for line in lines if not line.startswith("loader: scores keep their numbers")]
    assert said in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["filter.toml", "there.psv"]


def test_a_failed_filter_leaves_nothing(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.psv"
    for name in ("viriformat", "packedsfen", "binpack"):
        damaged = tmp_path / f"damaged{files[name].suffix}"
        damaged.write_bytes(files[name].read_bytes()[:-6])
        assert run("filter", damaged, "-o", made, "--where", "score > 0") == 1
        assert "offset" in capsys.readouterr().err
        damaged.unlink()
    text = tmp_path / "no-number.txt"
    text.write_text("4k3/8/8/8/8/8/8/4K2R w | 5 | 1.0\n")
    assert run("filter", text, "-o", tmp_path / "made.txt", "--where", "ply > 3") == 1
    assert "no ply is known, and a filter needs it" in capsys.readouterr().err
    text.unlink()

    def tick(_done: int, _whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filter_positions(open_sources([files["packedsfen"]]), target_from_name(made), made, RANDOM, 1, 1, tick)
    assert not list(tmp_path.iterdir())


def test_chains_of_what_is_left_stay_chains(files: dict[str, Path], tmp_path: Path) -> None:
    made = tmp_path / "made.binpack"
    assert run("filter", files["viriformat"], "-o", made, "--where", "ply < 30 or ply >= 60") == 0
    whole = read_positions(files["viriformat"])
    expected = [entry for entry in whole if entry.ply not in range(30, 60) and entry.score != 32002]
    assert [(e.move, e.score, e.ply, e.result) for e in read_positions(made)] == [
        (e.move, e.score, e.ply, e.result) for e in expected
    ]
    (source,) = open_sources([made])
    block = source.read_units(0)
    assert np.median(block.entries) > 20


@pytest.mark.parametrize("into", [".binpack", ".viri", ".psv", ".pgn"])
def test_marked_positions_stay_without_their_score(
    into: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chains and games stay whole, and training reads what the filter keeps."""
    source, made, filtered = tmp_path / f"source{into}", tmp_path / f"made{into}", tmp_path / "filtered.binpack"
    assert run("convert", VALIDATION, "-o", source) == 0
    options = ["--where", "score > 50", "--random-skip", "1", "--seed", "7"]
    capsys.readouterr()
    assert run("filter", source, "-o", made, "--mark", *options) == 0
    said = capsys.readouterr().out
    assert run("filter", source, "-o", filtered, *options) == 0
    assert said.split(": ")[1] == capsys.readouterr().out.split(": ")[1]
    before, after = read_positions(source), read_positions(made)
    assert [replace(entry, score=NO_SCORE) for entry in before] == [replace(entry, score=NO_SCORE) for entry in after]
    kept = [(entry.move, entry.score, entry.ply) for entry in after if entry.score != NO_SCORE]
    assert kept == [(entry.move, entry.score, entry.ply) for entry in read_positions(filtered)]
    assert 0 < len(kept) < len(before)
    assert all(old.score == new.score for old, new in zip(before, after, strict=True) if new.score != NO_SCORE)
