"""Files of positions in every format: what the stream gives, what is refused, what is kept beside them."""

from __future__ import annotations

import gzip
import itertools
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from loader import _native
from loader.chess.positions import game_index
from loader.chess.positions.entry import Entry, parse_entry
from loader.chess.readers import open_readers
from loader.cli.main import main
from loader.errors import DataError
from loader.files.identity import identify
from loader.formats.registry import load_format, resolve_format
from loader.stream.data import Data, open_stream
from loader.stream.interface import Cursor
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.batch_contents import digest
from tests.loader.stream.test_stream import samples_of
from tests.support.positions import FORMATS, GAMES, RECORDS, SUFFIXES, encode, read_file, sample, write_samples

COUNT = 3000
SEED = 7


def config(**keys: Any) -> Any:
    settings = {"batch_size": 250, "window_chunks": 2, "chess": {"features": "chess768"}} | keys
    return data_config(**settings)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same entries in all formats."""
    return write_samples(tmp_path_factory.mktemp("positions"), COUNT, ("binpack", *FORMATS))


def digests(paths: list[Path], count: int, **keys: Any) -> list[str]:
    with open_stream(config(**keys), paths, SEED) as stream:  # type: ignore[attr-defined]
        return [digest(batch) for batch in read_batches(stream, count)]


@pytest.mark.parametrize("name", FORMATS)
def test_entries_come_back_as_far_as_the_format_has_them(name: str, files: dict[str, Path]) -> None:
    read = read_file(name, files[name])
    assert len(read) == COUNT
    lacks = load_format(name).LACKS  # type: ignore[attr-defined]
    for entry, known in zip(read, sample(COUNT), strict=True):
        assert (entry.score, entry.result) == (known.score, known.result)
        assert entry.move == ("0000" if "move" in lacks else known.move)
        assert entry.ply == (None if "ply" in lacks else known.ply)
        if "side to move" not in lacks:
            assert entry.fen.split()[:3] == known.fen.split()[:3]
    assert encode(name, read) == files[name].read_bytes()
    assert resolve_format(files[name], setting="data.format") == name


@pytest.mark.parametrize("name", FORMATS)
def test_in_file_order_the_stream_is_that_of_binpack(name: str, files: dict[str, Path]) -> None:
    """But for what the format lacks: a sample's ply and side."""
    made: list[Any] = []
    known: list[Any] = []
    for each, samples in ((name, made), ("binpack", known)):
        with open_stream(config(shuffle=False), [files[each]], SEED) as stream:  # type: ignore[attr-defined]
            for batch in read_batches(stream, COUNT // 250):
                samples += [(score, result, *rest) for score, result, _, *rest in samples_of(batch)]
    if "side to move" in load_format(name).LACKS:  # type: ignore[attr-defined]
        made, known = ([(*sample[:3], *sample[4:]) for sample in samples] for samples in (made, known))
    assert made == known


def _packed(path: Path, program: str) -> Path:
    data = path.read_bytes()
    if program == "gzip":
        made = path.with_name(f"{path.name}.gz")
        made.write_bytes(gzip.compress(data, 1))
        return made
    made = path.with_name(f"{path.name}.zst")
    subprocess.run(["zstd", "-q", "-1", str(path), "-o", str(made)], check=True, timeout=60)
    return made


def test_several_formats_serve_one_run(files: dict[str, Path]) -> None:
    paths = [files["viriformat"], files["binpack"], files["bulletformat"], files["text"]]
    with open_stream(config(), paths, SEED) as stream:  # type: ignore[attr-defined]
        scores = [score for batch in read_batches(stream, 4 * COUNT // 250) for score in batch.dense["score"].tolist()]
    assert sorted(scores) == sorted(4 * [entry.score for entry in sample(COUNT)])
    assert Data.from_paths(config(), paths, SEED).samples_per_epoch() == pytest.approx(4 * COUNT, rel=0.01)
    assert Data(config(), identify(paths)).window_nbytes() > 0


@pytest.mark.parametrize(
    ("filters", "name", "part"),
    [
        ({"skip_captures": True}, "bulletformat", "move"),
        ({"skip_promotions": True}, "marlinformat", "move"),
        ({"skip_captures": True}, "text", "move"),
        ({"skip_ply_up_to": 0}, "bulletformat", "ply"),
        ({"win_draw_loss": True}, "bulletformat", "ply"),
        ({"skip_zero_placeholders": True}, "bulletformat", "ply"),
    ],
)
def test_a_filter_that_needs_what_files_lack_is_refused(
    filters: dict[str, Any], name: str, part: str, files: dict[str, Path]
) -> None:
    (key,) = filters
    chosen = config(chess={"features": "chess768", "filters": filters})
    said = rf"data\.chess\.filters\.{key}: it needs the {part}, which files in {name} do not have"
    with pytest.raises(ValueError, match=said):
        open_stream(chosen, [files["viriformat"], files[name]], SEED)
    open_stream(chosen, [files["viriformat"], files["packedsfen"]], SEED).close()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("text", b"4k3/8/8/8/8/8/8/4K2R w K - | 12 | 1.0\n"),
        ("marlinformat", None),
    ],
)
def test_an_unknown_ply_is_damage_if_a_filter_needs_it(
    name: str, data: bytes | None, files: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / f"no-number{SUFFIXES[name]}"
    record = files["marlinformat"].read_bytes()[:32]
    path.write_bytes(data or record[:26] + b"\0\0" + record[28:])
    wanted = config(batch_size=1, chess={"filters": {"skip_ply_up_to": 3}})
    for settings, good in ((config(), True), (wanted, False)):
        (reader,) = open_readers(settings, identify([path]))
        if good:
            assert len(list(reader.read(0))) == 1
        else:
            with pytest.raises(DataError, match=r"offset 0: .*no ply is known"):
                list(reader.read(0))


@pytest.mark.parametrize("program", ["gzip", "zstd"])
@pytest.mark.parametrize("name", FORMATS)
def test_compressed_files_give_the_same_entries(
    name: str, program: str, files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / files[name].name
    plain.write_bytes(files[name].read_bytes())
    try:
        packed = _packed(plain, program)
    except FileNotFoundError:
        pytest.skip("the program zstd is not installed")
    assert read_file(name, packed) == read_file(name, plain)
    assert resolve_format(packed, setting="data.format") == name
    order = next(fact.text for fact in Data(config(), identify([packed])).describe() if fact.topic == "order")
    assert "are compressed: positions are read in the order of the files" in order
    cut = packed.read_bytes()
    packed.write_bytes(cut[: len(cut) * 2 // 3])
    assert main(["verify", str(packed)]) == 1
    said = capsys.readouterr().err
    assert f"{packed}: offset " in said
    assert said.count("\n") == 1


def test_where_games_begin_is_kept_beside_a_file(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(game_index, "MIN_NBYTES", 0)
    for name in GAMES:
        path = tmp_path / files[name].name
        path.write_bytes(files[name].read_bytes() * 100)
        index = path.with_name(f".{path.name}.borders")
        known = digests([path], 20)
        assert index.exists()
        assert list(tmp_path.glob("*.tmp")) == []
        _, _, data = index.read_bytes().partition(b"\n")
        begins = np.frombuffer(data, "<u8").tolist()
        assert begins[0] == 0
        assert (begins[-1] == path.stat().st_size) == (name != "pgn")  # whose last game might go on
        assert len(begins) > 2
        assert all(end - begin >= 1 << 20 for begin, end in itertools.pairwise(begins[:-1]))
        assert digests([path], 20) == known
        whole = index.read_bytes()
        for wrong in (whole[:-8], whole.replace(b'"version": 1', b'"version": 0'), whole[:-1] + b"\xff"):
            index.write_bytes(wrong)
            assert digests([path], 20) == known, "it is made anew"
            assert index.read_bytes() == whole
        # Another file of that name, as long.
        games = files[name].read_bytes()
        path.write_bytes(games * 50 + encode(name, read_file(name, files[name])[::-1])[: len(games)] * 50)
        path.write_bytes(path.read_bytes()[: 100 * len(games)])
        (reader,) = open_readers(config(on_bad_data="skip"), identify([path]))
        assert reader.num_chunks
        assert index.read_bytes() != whole
    assert not caplog.records


def test_verify_and_dump_neither_trust_nor_write_where_games_begin(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(game_index, "MIN_NBYTES", 0)
    for name in GAMES:
        path = tmp_path / files[name].name
        path.write_bytes(files[name].read_bytes() * 100)
        index = path.with_name(f".{path.name}.borders")
        assert main(["verify", str(path)]) == main(["dump", str(path), "--limit", "1"]) == 0
        assert not index.exists()
        (reader,) = open_readers(config(), identify([path]))
        assert reader.num_chunks > 1
        kept, times = index.read_bytes(), path.stat()
        data = bytearray(path.read_bytes())
        border = int(np.frombuffer(kept.partition(b"\n")[2], "<u8")[1])
        at = data.rindex(b"\n", 0, border - 2) + 1 if name == "pgn" else border - 4
        data[at] = 255  # the game before it has no end any more
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so the index passes for the file's
        capsys.readouterr()
        said = []
        for _ in range(2):
            assert main(["verify", str(path)]) == main(["dump", str(path)]) == 1
            said.append(capsys.readouterr())
            index.unlink(missing_ok=True)
        assert said[0] == said[1]
        assert f"{path}: offset {at}: " in said[0].err
        assert not index.exists()


def test_a_folder_that_takes_no_index_costs_a_line(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(game_index, "MIN_NBYTES", 0)
    path = tmp_path / files["viriformat"].name
    path.write_bytes(files["viriformat"].read_bytes())
    (tmp_path / f".{path.name}.borders").mkdir()
    with caplog.at_level(logging.WARNING):
        known = digests([path], 5)
    monkeypatch.undo()
    assert digests([path], 5) == known
    (record,) = caplog.records[:1]
    assert "not written" in record.getMessage()
    assert list(tmp_path.glob(".*.tmp")) == []


def test_a_file_that_may_be_of_several_formats_is_named(
    tmp_path: Path, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bulletformat record that is one of marlinformat, too; its name says nothing."""
    records = files["bulletformat"].read_bytes()
    parts = [records[at : at + 32] for at in range(0, len(records), 32)]
    both = next(part for part in parts if _native.marlinformat().begins_a_file(part))
    path = tmp_path / "position.dat"
    path.write_bytes(both)
    with pytest.raises(ValueError, match=r"may be of any of the formats bulletformat, marlinformat; data"):
        open_stream(config(), [path], SEED)
    open_stream(config(format="bulletformat"), [path], SEED).close()
    assert main(["verify", str(path)]) == 2
    assert capsys.readouterr().err.endswith("bulletformat, marlinformat; --format says which\n")


def test_a_growing_file_counts_up_to_its_last_whole_unit(files: dict[str, Path], tmp_path: Path) -> None:
    for name in FORMATS:
        whole = files[name].read_bytes()
        path = tmp_path / files[name].name
        path.write_bytes(whole + whole[:17])
        (file,) = identify([path])
        assert load_format(name).whole_size(file) == len(whole)  # type: ignore[attr-defined]


def test_an_origin_names_chunk_and_offset(files: dict[str, Path]) -> None:
    found = Data.from_paths(config(shuffle=False), [files["viriformat"]], SEED).origin(Cursor(0, 0, 0, 0))
    assert found["chunks"] == [{"file": str(files["viriformat"]), "chunk": 0, "offset": 0}]


def test_records_of_one_size_are_chunks_of_a_mebibyte(files: dict[str, Path], tmp_path: Path) -> None:
    for name, size in RECORDS.items():
        path = tmp_path / files[name].name
        path.write_bytes(files[name].read_bytes() * 30)
        file = _native.open_entries(getattr(_native, name)(), path)
        assert file.num_chunks == -(-path.stat().st_size // ((1 << 20) // size * size))
        assert file.offset(1) % size == 0


@pytest.mark.parametrize("name", ["marlinformat", "montyvalue", "text", "viriformat"])
def test_chess960_keeps_its_rooks(name: str, tmp_path: Path) -> None:
    """Castling on either side, king b1, rooks a1 and e1."""
    entries = [
        Entry("rk2r3/pppppppp/8/8/8/8/PPPPPPPP/RK2R3 w EAea - 0 1", "b1e1", 5, 0, 1),
        Entry("rk2r3/pppppppp/8/8/8/8/PPPPPPPP/R4RK1 b ea - 1 1", "b8a8", -5, 1, -1),
        Entry("2kr1r2/8/8/8/8/8/8/RK2R3 w EA - 0 9", "b1a1", 7, 16, 0),
    ]
    path = tmp_path / f"games{SUFFIXES[name]}"
    path.write_bytes(encode(name, entries))
    read = read_file(name, path)
    if name in GAMES:
        assert [entry.move for entry in read] == [entry.move for entry in entries]
    assert [entry.fen.split()[:3] for entry in read] == [entry.fen.split()[:3] for entry in entries]
    if name in GAMES:  # the second entry was played to
        assert encode(name, read) == path.read_bytes()


@pytest.mark.parametrize("name", ["binpack", "packedsfen"])
def test_chess960_is_refused_where_it_has_no_room(name: str) -> None:
    entry = Entry("rk2r3/pppppppp/8/8/8/8/PPPPPPPP/RK2R3 w EAea - 0 1", "b1c1", 5, 0, 1)
    with pytest.raises(ValueError, match=r"can't be stored: rk2r3"):
        encode(name, [entry])


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        ("viriformat", Entry(chess.STARTING_FEN, "0000", 0, 0, 0), "needs the move that was played"),
        ("montyvalue", Entry(chess.STARTING_FEN, "e2e5", 0, 0, 0), "a move that no piece can make"),
        ("packedsfen", Entry(chess.STARTING_FEN, "e1e2", 0, 0, 0), "a move that no piece can make"),
        ("marlinformat", Entry("4k3/8/8/8/8/8/8/4K3 b - - 0 1", "0000", -32768, 1, 0), "no opposite"),
        ("text", Entry("4k3/8/8/8/8/8/8/4K3 b - - 0 1", "0000", -32768, 1, 0), "no opposite"),
        ("marlinformat", Entry("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "0000", 0, 0, 0), "castling right without"),
        ("viriformat", Entry("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "e1e2", 0, 0, 0), "en-passant square without"),
    ],
)
def test_what_a_format_can_not_hold_is_refused(name: str, entry: Entry, said: str) -> None:
    writer = getattr(_native, name)().make_writer()
    with pytest.raises(ValueError, match=said):
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    assert (writer.entries, writer.take()) == (0, b"")


def test_dump_and_inspect_serve_every_format(
    files: dict[str, Path], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in FORMATS:
        assert main(["dump", str(files[name]), "--limit", "3"]) == 0
        lines = capsysbinary.readouterr().out.decode().splitlines()
        assert [parse_entry(line).score for line in lines] == [entry.score for entry in sample(3)]
        assert main(["inspect", str(files[name])]) == 0
        assert f"{COUNT:,} of " in capsysbinary.readouterr().out.decode()
        assert main(["inspect", "--json", str(files[name])]) == 0
        assert f'"entries": {COUNT}'.encode() in capsysbinary.readouterr().out


def test_a_right_that_no_rook_can_have_keeps_its_letter(tmp_path: Path) -> None:
    """Found by libFuzzer: h would be another right than k, with the king there."""
    path = tmp_path / "odd.txt"
    path.write_text("qrbrn2k/3pbppp/1p2p2n/pN6/3P4/5P1N/PPP3PP/R1BQKB1R w KQkq - 1 8 | 5 | 0.5\n")
    (read,) = read_file("text", path)
    assert read.fen.split()[2] == "HAkb"
    path.write_bytes(encode("text", [read]))
    assert read_file("text", path) == [read]
