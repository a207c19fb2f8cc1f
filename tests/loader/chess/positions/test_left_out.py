"""on_bad_data = "skip" leaves out the game, line or record that can't be used, and no other; all of it is counted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

import chess
import pytest

from loader.chess.positions.entry import Entry
from loader.chess.positions.file import BadDataPolicy
from loader.chess.positions.input import sum_skipped
from loader.chess.positions.inputs import open_input
from loader.chess.python_reader import PythonChunks
from loader.cli.main import main
from loader.errors import DataError
from loader.formats.format import Place
from loader.stream.data import open_stream
from loader.stream.skipped_data import SkippedData
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.support.positions import SUFFIXES, encode, make_writer

Capture = pytest.CaptureFixture[str]
Games = list[list[Entry]]
SKIP = BadDataPolicy("skip", every=True)
ENDINGS = {**SUFFIXES, "binpack": ".binpack", "lichess_evals": ".jsonl"}
IMPOSSIBLE = "a move that no piece can make there"


@cache
def games(count: int, seed: int = 1) -> Games:
    """Random games. Each begins with another number of the move, so that no two have an entry in common."""
    rng, played = random.Random(seed), []
    for number in range(count):
        board, game = chess.Board(), list[Entry]()
        board.fullmove_number = 1 + number
        for _ in range(rng.randint(3, 9)):
            move = rng.choice([each for each in board.legal_moves if not board.is_castling(each)])
            ply = 2 * board.fullmove_number - 2 + (board.turn == chess.BLACK)
            score = rng.randint(-300, 300)
            game.append(Entry(board.fen(en_passant="fen"), move.uci(), score, ply, 1 if board.turn else -1))
            board.push(move)
        played.append(game)
    return played


def with_other_bytes(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def spoiled_pgn(data: bytes, rng: random.Random) -> bytes:
    """A move that is not legal, half a game, no end of a comment, a tag that is cut."""
    text = data.decode()
    body = text.index("\n\n") + 2
    ways = [
        lambda: re.sub(r"^(\S+ )\S+", r"\1Kh5", text[body:]),
        lambda: text[body : body + (len(text) - body) // 3],
        lambda: text[body:].replace("}", "", 1) if "}" in text else "Kh5 1-0\n\n",
    ]
    way = rng.randrange(4)
    return (text[: body - 20] if way == 3 else text[:body] + ways[way]()).encode()


def spoiled_plain(data: bytes, rng: random.Random) -> bytes:
    lines = data.decode().split("\n")
    ways = [
        lambda: [*lines[:1], "move h8h1", *lines[2:]],
        lambda: [*lines[:2], "score x", *lines[3:]],
        lambda: [*lines[: rng.randint(1, 4)], ""],
    ]
    return "\n".join(ways[rng.randrange(3)]()).encode()


def spoiled_text(data: bytes, rng: random.Random) -> bytes:
    line = data.decode()
    ways = [line.replace("|", "", 1), line.replace(" w ", " x ").replace(" b ", " x "), line[:30] + "\n", "\0\n"]
    return ways[rng.randrange(len(ways))].encode()


def spoiled_words(header: int) -> Callable[[bytes, random.Random], bytes]:
    """A move from an empty square; a header that is none."""

    def spoil(data: bytes, rng: random.Random) -> bytes:
        moves = (len(data) - header - 4) // 4
        if rng.random() < 0.3:
            return with_other_bytes(data, 0, b"\xff" * 16)
        at = header + 4 * rng.randrange(moves)
        impossible = 28 | 29 << 6 if header == 32 else 28 << 10 | 29 << 4  # e4f4, which nobody can at the start
        return with_other_bytes(data, at if moves < 2 else header, impossible.to_bytes(2, "little"))

    return spoil


Spoil = Callable[[bytes, random.Random], bytes]
WHOLE_GAMES: dict[str, Spoil] = {
    "pgn": spoiled_pgn,
    "viriformat": spoiled_words(32),
    "montyvalue": spoiled_words(43),
}
SINGLE: dict[str, Spoil] = {"plain": spoiled_plain, "text": spoiled_text}


def written(name: str, path: Path, count: int, bad: int, seed: int) -> tuple[Games, int]:
    """Writes units, of which `bad` are spoiled. Returns what stays, and how many positions do not."""
    rng = random.Random(seed)
    units = games(count) if name in WHOLE_GAMES else [[entry] for game in games(count) for entry in game][:count]
    chosen = set(rng.sample(range(len(units)), bad))
    spoil = {**WHOLE_GAMES, **SINGLE}[name]
    parts = [encode(name, unit) for unit in units]
    path.write_bytes(b"".join(spoil(part, rng) if i in chosen else part for i, part in enumerate(parts)))
    kept = [unit for i, unit in enumerate(units) if i not in chosen]
    return kept, sum(len(units[i]) for i in chosen)


def plies(kept: Games) -> list[int | None]:
    return [entry.ply for game in kept for entry in game]


@pytest.mark.parametrize("name", [*WHOLE_GAMES, *SINGLE])
@pytest.mark.parametrize(("bad", "seed"), [(1, 1), (30, 2), (300, 3)])
def test_all_others_of_a_thousand_stay(name: str, bad: int, seed: int, tmp_path: Path, capsys: Capture) -> None:
    path, out = tmp_path / f"x{SUFFIXES[name]}", tmp_path / f"out{SUFFIXES[name]}"
    kept, _ = written(name, path, 1000, bad, seed)
    assert main(["convert", str(path), "-o", str(tmp_path / "stopped.txt"), "--lossy"]) == 1
    capsys.readouterr()
    assert main(["convert", str(path), "-o", str(out), "--on-bad-data", "skip"]) == 0
    printed = capsys.readouterr().err
    source = open_input(path, policy=SKIP)
    found = [entry for file, chunk in source.chunks() for entry in file.entries(chunk)]
    assert [entry.ply for entry in found] == plies(kept)
    assert [entry.score for entry in found] == [entry.score for game in kept for entry in game]
    assert main(["verify", str(out)]) == 0
    units = sum(int(each.replace(",", "")) for each in re.findall(r"left out: .*? in ([\d,]+) games?", printed))
    lines = sum(int(each.replace(",", "")) for each in re.findall(r"left out: .*?: ([\d,]+) positions?;", printed))
    assert (units if name in WHOLE_GAMES else lines) == bad
    assert "the first: " in printed
    capsys.readouterr()
    assert main(["count", str(out)]) == 0
    assert f"{len(plies(kept)):,} positions" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*WHOLE_GAMES, *SINGLE])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_stream_has_all_others(name: str, threads: int, tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIXES[name]}"
    kept, lost = written(name, path, 1000, 40, seed=7)
    count = len(plies(kept))
    config = data_config(batch_size=count, on_bad_data="skip", shuffle=False, threads=threads)
    with closing(open_stream(config, [path], seed=1)) as stream:
        first, second = read_batches(stream, 2)
        scores = first.dense["score"].tolist()
        left_out = stream.skipped()
    assert scores == second.dense["score"].tolist() == [entry.score for game in kept for entry in game]
    assert sum(each.units for each in left_out) == 40
    if name not in ("pgn",):  # of text that is cut, nobody knows how many it had
        assert sum(each.samples for each in left_out) == lost


# A move that no piece can make, in each format with moves: the file, the offset of the damage, and what stays.
FEN, NEXT = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "4k3/8/8/8/4P3/8/8/4K3 b - - 0 1"


def with_bad_move(name: str, good: Entry) -> tuple[bytes, int]:
    """Returns three units, the second with a move that no piece can make, and the offset of that damage."""
    one = b"" if name == "lichess_evals" else encode(name, [good])
    if name in ("viriformat", "montyvalue"):
        header = {"viriformat": 32, "montyvalue": 43}[name]
        word = 28 | 29 << 6 if name == "viriformat" else 28 << 10 | 29 << 4
        return one + with_other_bytes(one, header, word.to_bytes(2, "little")) + one, len(one) + header
    if name == "packedsfen":
        return one + with_other_bytes(one, 34, (29 | 28 << 6).to_bytes(2, "little")) + one, len(one)
    if name == "plain":
        return one + one.replace(b"move e2e4", b"move e4f4") + one, len(one)
    if name == "pgn":
        bad = one.replace(b"1. e4", b"1. Kf4")
        return one + bad + one, len(one) + bad.index(b"Kf4")
    if name == "lichess_evals":
        one = f'{{"fen": "{FEN}", "evals": [{{"pvs": [{{"cp": 31, "line": "e2e4 e8e7"}}], "depth": 9}}]}}\n'.encode()
        return one + one.replace(b"e2e4", b"e4f4") + one, len(one)
    assert name == "binpack"
    stem = one[8:]
    bad = with_other_bytes(stem, 24, (28 << 8 | 29 << 2).to_bytes(2, "big"))
    payload = stem + bad + stem
    return b"BINP" + len(payload).to_bytes(4, "little") + payload, 8 + len(stem)


@pytest.mark.parametrize("name", ["binpack", "lichess_evals", "packedsfen", "pgn", "plain", "viriformat", "montyvalue"])
def test_a_move_that_no_piece_can_make_is_damage_at_its_offset(name: str, tmp_path: Path, capsys: Capture) -> None:
    known = name != "lichess_evals"
    good = Entry(FEN, "e2e4", 31, 0, 1 if known else None)
    data, offset = with_bad_move(name, good)
    path = tmp_path / f"x{ENDINGS[name]}"
    path.write_bytes(data)
    assert main(["verify", str(path)]) == 1
    assert f"offset {offset}: " in capsys.readouterr().err
    with pytest.raises(DataError) as raised:
        [entry for file, chunk in open_input(path).chunks() for entry in file.entries(chunk)]
    assert raised.value.offset == offset
    assert (IMPOSSIBLE in raised.value.reason) or name == "pgn"
    for command in ("convert", "shuffle", "filter --skip-in-check", "dedupe"):
        verb, *options = command.split()
        out = tmp_path / f"{verb}.{'plain' if known else 'txt'}"
        options += [] if known else ["--lossy"]
        assert main([verb, str(path), "-o", str(out), *options]) == 1
        capsys.readouterr()
        assert main([verb, str(path), "-o", str(out), *options, "--on-bad-data", "skip"]) == 0
        printed = capsys.readouterr()
        assert "left out: " in printed.err
        assert (
            f": 1 position{' in 1 game' if name in ('pgn', 'viriformat', 'montyvalue') else ''}; the first"
            in printed.err
        )
    source = open_input(path, policy=SKIP)
    moves = [entry.move for file, chunk in source.chunks() for entry in file.entries(chunk)]
    assert moves == ["e2e4", "e2e4"]
    (kind,) = sum_skipped([source])
    assert (kind.samples, kind.offset) == (1, offset)


@pytest.mark.parametrize(
    "move",
    ["e1g1", "e1c1", "e1h1", "0000", "e5d6", "a7a8q", "a7b8n", "a7b8q", "e1e2", "b1c3", "h4d8"],
)
def test_every_kind_of_move_that_a_piece_can_make_is_read(move: str, tmp_path: Path) -> None:
    path = tmp_path / "x.plain"
    fen = "1n2k3/P7/8/3pP3/7Q/8/8/RN2K2R w KQ d6 0 1".replace("RN2", "R3" if move == "e1c1" else "RN2")
    path.write_text(f"fen {fen}\nmove {move}\nscore 0\nply 0\nresult 0\ne\n")
    (entry,) = [entry for file, chunk in open_input(path).chunks() for entry in file.entries(chunk)]
    assert entry.move == move.replace("e1h1", "e1g1")


@pytest.mark.parametrize("move", ["e2e5", "e1g1", "a7a8", "a2a1q", "e5f6", "h4g6", "e1e8", "h4h4", "c3c4", "e8e7"])
def test_a_move_that_none_can_make_is_refused_from_python_too(move: str) -> None:
    with pytest.raises(ValueError, match=r"a move that no piece|castling without"):
        make_writer("plain").add("1n2k3/P7/8/3pP3/7Q/8/P3P3/RN2KB1R w KQ d6 0 1", move, 0, 0, 0)


TAGS = '[Event "Game"]\n[Site "?"]\n[Result "1-0"]\n\n'


@pytest.mark.parametrize(
    ("text", "kept", "left_out"),
    [
        (f"{TAGS}1. e4 e5 1-0{TAGS}1. d4 1-0\n", 3, 0),  # no newline between two games
        (f"{TAGS}1. e4 e5 2. N{TAGS}1. d4 1-0\n", 1, 1),  # cut, and the next one behind it
        (f"{TAGS}1. e4 {{+0.31/12 0.0{TAGS}1. d4 1-0\n", 1, 1),  # cut in a comment
        (f'[Event "Ga{TAGS}1. d4 1-0\n', 1, 1),  # cut in a tag
        (f'{TAGS}1. e4 e5 1-0\n\n[Event "Game"]\n[Whi{TAGS}1. d4 1-0\n', 3, 1),
        (f"{TAGS}1. e4 e5\n{TAGS}1. d4 1-0\n", 1, 1),
        (f"{TAGS}1. d4 1-0\n\n{TAGS}1. e4 e5 2.", 1, 1),  # the last one
        (f'{TAGS}1. d4 1-0\n\n[Event "Ga', 1, 1),
        (f'{TAGS}1. d4 {{see [Event "Game"] of 1990}} d5 1-0\n', 2, 0),  # a remark is none
    ],
)
def test_where_a_game_begins_behind_one_that_was_cut(text: str, kept: int, left_out: int, tmp_path: Path) -> None:
    path = tmp_path / "x.pgn"
    path.write_text(text)
    source = open_input(path, "pgn", policy=SKIP)
    assert sum(1 for file, chunk in source.chunks() for _ in file.entries(chunk)) == kept
    assert sum(kind.units for kind in sum_skipped([source])) == left_out


def test_games_keep_their_bytes_beside_one_that_is_left_out(tmp_path: Path) -> None:
    game = '[Event "Game"]\n[White "somebody"]\n[Result "1-0"]\n\n1. e4 {a remark} (1. d4) e5 1-0\n\n'
    path, out = tmp_path / "x.pgn", tmp_path / "out.pgn"
    path.write_text(game + game.replace("e5", "Ke5") + game)
    assert main(["convert", str(path), "-o", str(out), "--on-bad-data", "skip"]) == 0
    assert out.read_text() == game + game


def test_a_pipe_leaves_the_same_out(tmp_path: Path, capsys: Capture) -> None:
    path, out = tmp_path / "x.pgn", tmp_path / "out.pgn"
    written("pgn", path, 200, 5, seed=3)
    assert main(["convert", str(path), "-o", str(out), "--on-bad-data", "skip"]) == 0
    printed = capsys.readouterr().err
    with path.open("rb") as opened:
        piped = tmp_path / "piped.pgn"
        assert main(["convert", f"/dev/fd/{opened.fileno()}", "-o", str(piped), "--on-bad-data", "skip"]) == 0
    assert piped.read_bytes() == out.read_bytes()
    assert re.search(r"left out: .*? in \d+ games?", capsys.readouterr().err)[0] in printed  # type: ignore[index]


class PythonReader:
    """A reader of a user's own: entries as they are given."""

    name, num_chunks = "own", 1

    def __init__(self, found: Sequence[Entry]) -> None:
        self._found = found

    def place(self, chunk: int) -> Place:
        return Place(Path("own.data"), chunk)

    def read(self, chunk: int) -> Sequence[Entry]:
        assert chunk == 0
        return self._found


def test_an_entry_of_a_reader_in_python_is_judged_too() -> None:
    good = [Entry(FEN, "e2e4", 31, 0, 1), Entry(FEN, "0000", 30, 0, 1)]
    reader = PythonReader([good[0], Entry(FEN, "e2e5", 0, 0, 1), good[1]])
    records, fault, left_out = PythonChunks(reader).read(0)
    assert (len(records), left_out) == (0, [])
    assert fault is not None
    assert IMPOSSIBLE in fault[1]
    records, fault, left_out = PythonChunks(reader, skips=True).read(0)
    assert (len(records), fault) == (2, None)
    (kind,) = [SkippedData(*each) for each in left_out]
    assert (kind.samples, kind.file) == (1, "own.data")
    assert IMPOSSIBLE in kind.reason
