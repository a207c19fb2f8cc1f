"""Single entries lack something, or hold numbers beyond a format's: kept or named with their count, never made up."""

from __future__ import annotations

import json
import re
from pathlib import Path

import chess
import pytest

from loader import _native
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from tests.support.binpack_file import make_writer
from tests.support.positions import encode, read_file

Capture = pytest.CaptureFixture[str]
BOARD = "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R b"
KNOWN = f"{BOARD} KQkq - 3 20"
FENS = {  # and what they lack
    KNOWN: (),
    f"{BOARD} KQkq - 3 0": ("ply",),
    f"{BOARD} KQkq - 3": ("ply",),
    f"{BOARD} KQkq -": ("half-move clock", "ply"),
    f"{BOARD} KQkq": ("en passant", "half-move clock", "ply"),
    BOARD: ("castling rights", "en passant", "half-move clock", "ply"),
}
KEEPS = {
    ".txt": ("castling rights", "en passant", "half-move clock", "ply"),
    ".marlin": ("ply",),
    ".psv": (),
    ".binpack": (),
}


def lines(path: Path, fens: list[str]) -> Path:
    path.write_text("".join(f"{fen} | 10 | 0.5\n" for fen in fens))
    return path


def converted(source: Path, suffix: str, capsys: Capture, name: str = "out") -> tuple[Path, str]:
    target = source.parent / f"{name}{suffix}"
    assert main(["convert", str(source), "-o", str(target), "--lossy"]) == 0
    return target, capsys.readouterr().err


def plies(path: Path, capsys: Capture) -> list[str]:
    assert main(["dump", str(path)]) == 0
    return [line.split("\t")[3] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("suffix", KEEPS)
def test_what_lines_lack_stays_open_or_is_named_with_its_count(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    source = lines(tmp_path / "in.txt", list(FENS))
    target, told = converted(source, suffix, capsys)
    for part in KEEPS[".txt"]:
        count = 0 if part in KEEPS[suffix] else sum(part in lacked for lacked in FENS.values())
        found = re.findall(rf"^loader: {part} unknown, written as \w+: (\d) positions?$", told, re.M)
        assert found == ([str(count)] if count else [])
    known = "ply" in KEEPS[suffix]
    assert plies(target, capsys) == ["39", *(["none" if known else "1"] * 5)]


def test_text_comes_back_as_it_was(tmp_path: Path, capsys: Capture) -> None:
    """Over a format that keeps it, too, as far as it does."""
    fens = [fen for fen in FENS if not fen.endswith(" 0")]
    source = lines(tmp_path / "in.txt", fens)
    whole, _ = converted(source, ".txt", capsys)
    assert whole.read_text() == source.read_text()
    marlin, _ = converted(source, ".marlin", capsys)
    back, _ = converted(marlin, ".txt", capsys, "back")
    fens_back = [line.split(" | ")[0] for line in back.read_text().splitlines()]
    assert fens_back[0] == KNOWN
    assert all(len(fen.split()) == 5 for fen in fens_back[1:])


@pytest.mark.parametrize("suffix", [".txt", ".marlin"])
def test_a_filter_by_ply_refuses_an_unknown_one(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    target, _ = converted(lines(tmp_path / "in.txt", list(FENS)), suffix, capsys)
    assert main(["filter", str(target), "-o", str(tmp_path / "kept.txt"), "--skip-ply-up-to", "16"]) == 1
    assert "no ply is known, and a filter needs it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "fen", "said"),
    [
        ("clock < 80", f"{BOARD} KQkq -", "the FEN has no half-move clock, and a filter needs it"),
        ("castling_rights > 0", BOARD, "the FEN has no castling rights, and a filter needs them"),
    ],
)
def test_a_filter_refuses_an_entry_that_lacks_what_it_asks_for(
    name: str, fen: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    source = lines(tmp_path / "in.txt", [KNOWN, fen])
    assert main(["filter", str(source), "-o", str(tmp_path / "kept.txt"), "--where", name]) == 1
    assert said in capsys.readouterr().err


OF_ONE_ENTRY = {  # formats of text, with one entry whose FEN is to be filled in
    "a.csv": "fen,score,result\n{fen},10,1-0\n",
    "a.plain": "fen {fen}\nmove e7e5\nscore 10\nply 1\nresult 0\ne\n",
    "a.pgn": '[SetUp "1"]\n[FEN "{fen}"]\n[Result "1-0"]\n\n1... e5 {{+0.31/12 0.05s}} 1-0\n',
    "a.jsonl": '{{"fen":"{fen}","evals":[{{"pvs":[{{"cp":31,"line":"e7e5"}}],"knodes":2,"depth":3}}]}}\n',
}


@pytest.mark.parametrize("name", OF_ONE_ENTRY)
def test_every_format_of_text_refuses_it(name: str, tmp_path: Path, capsys: Capture) -> None:
    """And takes an entry that has it."""
    for fen, code in ((f"{BOARD} KQkq - 3 1", 0), (f"{BOARD} KQkq -", 1)):
        (tmp_path / name).write_text(OF_ONE_ENTRY[name].format(fen=fen))
        kept = ["-o", str(tmp_path / f"kept-{code}.txt"), "--where", "clock == 3", "--lossy"]
        assert main(["filter", str(tmp_path / name), *kept]) == code, capsys.readouterr().err
    assert "the FEN has no half-move clock, and a filter needs it" in capsys.readouterr().err


def test_a_filter_by_the_clock_refuses_a_format_without_one(tmp_path: Path, capsys: Capture) -> None:
    boards, _ = converted(lines(tmp_path / "in.txt", [KNOWN] * 2), ".bf", capsys)
    assert main(["filter", str(boards), "-o", str(tmp_path / "kept.bf"), "--where", "clock < 80"]) == 2
    assert "clock needs the half-move clock, which bulletformat does not have" in capsys.readouterr().err


def test_boards_alone_have_no_ply_behind_a_conversion(tmp_path: Path, capsys: Capture) -> None:
    boards, _ = converted(lines(tmp_path / "in.txt", [KNOWN] * 2), ".bf", capsys)
    marlin, _ = converted(boards, ".marlin", capsys)
    assert plies(marlin, capsys) == ["none", "none"]


def test_inspect_counts_plies_that_are_known(tmp_path: Path, capsys: Capture) -> None:
    source = lines(tmp_path / "in.txt", list(FENS))
    assert main(["inspect", "--json", str(source)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ply"]["min"], found["ply"]["max"], found["no_ply"]) == (39, 39, len(FENS) - 1)
    source = lines(source, [BOARD])
    assert main(["inspect", str(source)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"without ply.*1 \(100", told)


@pytest.mark.parametrize(("name", "number_at"), [("viriformat", 26), ("montyvalue", 36)])
def test_games_without_a_move_number_have_no_ply(name: str, number_at: int, tmp_path: Path, capsys: Capture) -> None:
    fens = ("4k3/8/8/8/8/3P4/8/4K3 w - - 0 40", "4k3/8/8/8/3P4/8/8/4K3 b - - 0 40")
    data = bytearray(encode(name, [_entry(fens[0], "d3d4", 78), _entry(fens[1], "e8e7", 79)]))
    data[number_at : number_at + 2] = b"\0\0"
    path = tmp_path / {"viriformat": "x.viri", "montyvalue": "x.montyvalue"}[name]
    path.write_bytes(data)
    assert plies(path, capsys) == ["none", "none"]
    other, told = converted(path, ".montyvalue" if path.suffix == ".viri" else ".viri", capsys)
    assert "unknown" not in told
    assert plies(other, capsys) == ["none", "none"]
    back, _ = converted(other, path.suffix, capsys, "back")
    assert back.read_bytes() == data
    _, told = converted(path, ".binpack", capsys)
    assert told.splitlines()[1:] == ["loader: ply unknown, written as 0: 2 positions"]


MOST_CLOCK = {".txt": 65535, ".binpack": 65535, ".marlin": 255, ".psv": 127}


@pytest.mark.parametrize("suffix", MOST_CLOCK)
def test_clocks_are_kept_or_cut_with_their_count(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    clocks = [0, 100, 127, 128, 255, 256, 300, 511, 512, 4000, 65535]
    source = lines(tmp_path / "in.txt", [f"4k3/8/8/8/8/8/8/4K2R w - - {clock} 5000" for clock in clocks])
    target, told = converted(source, suffix, capsys)
    most = MOST_CLOCK[suffix]
    cut = sum(clock > most for clock in clocks)
    said = f"loader: half-move clock beyond {most}, written as {most}: {cut} positions\n"
    assert (said in told) == (cut != 0)
    assert main(["dump", str(target)]) == 0
    found = [int(line.split("\t")[0].split()[4]) for line in capsys.readouterr().out.splitlines()]
    assert found == [min(clock, most) for clock in clocks]


@pytest.mark.parametrize("name", ["viriformat", "montyvalue"])
def test_clocks_of_games_count_on_past_255(name: str, tmp_path: Path) -> None:
    before, after = "4k3/8/8/8/8/8/8/4K3 w - - 255 200", "4k3/8/8/8/8/8/4K3/8 b - - 256 200"
    game = [_entry(before, "e1e2", 398), _entry(after, "e8e7", 399)]
    path = tmp_path / ("x.viri" if name == "viriformat" else "x.montyvalue")
    path.write_bytes(encode(name, game))
    assert [entry.fen.split()[4] for entry in read_file(name, path)] == ["255", "256"]


def test_a_move_number_beyond_any_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = lines(tmp_path / "in.txt", [f"{BOARD} KQkq - 3 {number}" for number in (32768, 32769)])
    assert main(["verify", str(path)]) == 1
    assert "line 2: the move number is beyond 32768; 1 good entries before it" in capsys.readouterr().err
    path = lines(path, [f"{BOARD} KQkq - 3 70000"])
    assert main(["verify", str(path)]) == 1


def test_plies_of_a_chain_stay_at_the_largest(tmp_path: Path) -> None:
    fens = ["4k3/8/8/8/8/8/8/4K3 w - - 0 1", "4k3/8/8/8/8/8/4K3/8 b - - 0 1", "8/4k3/8/8/8/8/4K3/8 w - - 0 1"]
    steps = [(fens[0], "e1e2"), (fens[1], "e8e7"), (fens[2], "e2e1"), ("8/4k3/8/8/8/8/8/4K3 b - - 0 1", "e7e8")]
    writer = make_writer()
    count = 65535 - 16383 + 3
    for number in range(count):
        writer.add(*steps[number % 4], 0, min(16383 + number, 65535), 0)
    writer.finish()
    path = tmp_path / "long.binpack"
    path.write_bytes(writer.take())
    assert writer.chains == 1
    assert [entry.ply for entry in entries(path)][-4:] == [65534, 65535, 65535, 65535]


def _entry(fen: str, move: str, ply: int) -> Entry:
    return Entry(fen, move, 0, ply, 0)


CASTLING = {  # a game by its moves, as `loader dump` writes them
    "1rk4r/8/8/8/8/8/3P1P2/R3KR2 w FAhb - 0 1": ("e1a1", "c8h8"),
    "4k2r/8/8/8/8/8/8/R3K1R1 w GAk - 0 1": ("e1a1", "e8h8"),
    "2k4r/8/8/8/8/8/8/4K2R w Kk - 0 1": ("e1h1", "c8h8"),
    "4k2r/8/8/8/8/8/8/R3K3 w Qk - 0 1": ("e1c1", "e8g8"),
}


@pytest.mark.parametrize("name", ["viriformat", "montyvalue"])
@pytest.mark.parametrize("fen", CASTLING)
def test_castling_is_written_one_way_in_a_game(fen: str, name: str, tmp_path: Path, capsys: Capture) -> None:
    moves = CASTLING[fen]
    writer = getattr(_native, name)().make_writer()
    writer.add(fen, moves[0], 0, 0, 0)
    board = chess.Board(fen, chess960=True)
    board.push_uci(moves[0])
    writer.add(board.fen(), moves[1], 0, 1, 0)
    writer.finish()
    path = tmp_path / ("x.viri" if name == "viriformat" else "x.montyvalue")
    path.write_bytes(writer.take())
    assert main(["dump", str(path)]) == 0
    assert tuple(line.split("\t")[1] for line in capsys.readouterr().out.splitlines()) == moves
    with path.open("rb") as opened:
        assert main(["dump", f"/dev/fd/{opened.fileno()}", "--format", name]) == 0
    assert tuple(line.split("\t")[1] for line in capsys.readouterr().out.splitlines()) == moves


def test_positions_in_parquet_are_refused_and_where_it_says_how_to_convert_them(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "a b.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 61)
    assert main(["convert", str(path), "-o", str(tmp_path / "out.txt")]) == 1
    said = capsys.readouterr().err
    assert "is in parquet, which holds records of rows, and those of chess are read here; " in said
    assert "docs/how-to/bring-your-data.md says what can be converted" in said
