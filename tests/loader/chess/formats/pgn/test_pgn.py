"""Games in PGN, against python-chess: moves, results, and the scores that match programs and Lichess write."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import chess
import chess.pgn
import pytest

from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError
from loader.stream.data import Data
from loader.stream.sources import data_config
from tests.support.positions import encode, sample

Capture = pytest.CaptureFixture[str]
ODD = [  # many ways to one square, pins, en passant, promotions, castling
    "7k/6pp/8/Q3Q3/8/8/8/Q3Q1K1 w - - 0 1",
    "4k3/8/2N1N3/1N3N2/8/1N3N2/2N1N3/4K3 w - - 0 1",
    "4r2k/8/8/8/2N1N3/4K3/8/N3N3 w - - 4 9",
    "4k3/4r3/8/8/8/2N5/4N3/4K3 w - - 0 1",
    "8/8/8/KPp4r/8/8/8/7k w - c6 0 2",
    "rn1q1r2/P1P1P1Pk/8/8/8/8/p1p1p1pK/RN1Q1R2 b - - 0 40",
    "r3k2r/pppppppp/8/8/4r3/8/PPPP1PPP/R3K2R w KQkq - 0 1",
    "r3k2r/8/8/8/8/8/1p6/R3K2R w KQkq - 0 1",
]


def board_of(entry: Entry) -> chess.Board:
    return chess.Board(entry.fen, chess960=True)


def written(tmp_path: Path, text: str | bytes, name: str = "games.pgn") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def movetext(comments: str, result: str = "1-0") -> str:
    return f'[Event "one"]\n[Result "{result}"]\n\n{comments} {result}\n\n'


@cache
def played(seed: int) -> chess.pgn.Game:
    """A game of random moves with comments, glyphs and variations; some of Chess960, some from a position."""
    rng = random.Random(seed)
    board = chess.Board.from_chess960_pos(rng.randrange(960)) if seed % 3 == 0 else chess.Board()
    if seed % 3 == 1:
        for _ in range(rng.randrange(30)):
            board.push(rng.choice(list(board.legal_moves)))
        board = chess.Board(board.fen()) if any(board.legal_moves) else chess.Board()
    game = chess.pgn.Game()
    game.setup(board)
    game.headers["White"] = "Čech {[(;"
    game.headers["Result"] = rng.choice(("1-0", "0-1", "1/2-1/2", "*"))
    node: chess.pgn.GameNode = game
    for _ in range(rng.randrange(80)):
        moves = list(node.board().legal_moves)
        if not moves:
            break
        if rng.random() < 0.1:
            side = node.add_variation(rng.choice(moves), comment="+9.99/9 in a ( variation")
            if replies := list(side.board().legal_moves):
                side.add_variation(rng.choice(replies), nags=[4])
        node = node.add_main_variation(rng.choice(moves))
        if seed % 2:
            node.comment = rng.choice(
                ("book", f"{rng.randrange(-900, 900) / 100:+.2f}/{rng.randrange(40)} 0.1s", "", "+M9/3")
            )
        elif rng.random() < 0.8:
            pov = (
                chess.engine.Mate(rng.choice((-3, 2)))
                if rng.random() < 0.1
                else chess.engine.Cp(rng.randrange(-999, 999))
            )
            node.set_eval(chess.engine.PovScore(pov, chess.WHITE), rng.choice((None, 20)))
            node.comment = f"{node.comment} [%clk 0:00:30]"
        if rng.random() < 0.1:
            node.nags.add(rng.randrange(1, 140))
    return game


def text_of(game: chess.pgn.Game, columns: int | None = 80) -> str:
    return game.accept(chess.pgn.StringExporter(columns=columns))


def expected(game: chess.pgn.Game) -> Iterator[tuple[str, chess.Move, int, int | None]]:
    """Of each move of the game: the position, the move, and what the comments say."""
    white = {"1-0": 1, "0-1": -1, "1/2-1/2": 0}.get(game.headers["Result"])
    for node in game.mainline():
        board = node.parent.board()
        sign = 1 if board.turn else -1
        text = node.comment.split("/")[0]
        score = NO_SCORE
        if text.startswith(("+M", "-M")):
            score = 31991
        elif text[:1] in ("+", "-"):
            score = round(100 * float(text))
        elif isinstance(node.parent, chess.pgn.ChildNode) and (found := node.parent.eval()):
            relative = found.pov(board.turn)
            mate = relative.mate()
            plain, won, lost = relative.score() or 0, 32000 - (2 * (mate or 0) - 1), -32000 - 2 * (mate or 0)
            score = plain if mate is None else won if mate > 0 else lost
        yield board.fen(), node.move, score, None if white is None else white * sign


@pytest.mark.parametrize("columns", [80, None])
def test_games_are_what_python_chess_has_written(tmp_path: Path, columns: int | None) -> None:
    games = [played(seed) for seed in range(150)]
    path = written(tmp_path, "\n\n".join(text_of(game, columns) for game in games))
    found, wanted = list(entries(path)), [each for game in games for each in expected(game)]
    assert len(found) == len(wanted) > 4000
    for entry, (fen, move, score, result) in zip(found, wanted, strict=True):
        board = chess.Board(fen, chess960=True)
        assert board_of(entry) == board
        assert board.parse_uci(entry.move) == board.parse_uci(board.uci(move))
        assert (entry.score, entry.ply, entry.result) == (score, board.ply(), result)


def test_python_chess_reads_what_is_written(tmp_path: Path) -> None:
    first = written(tmp_path, "\n\n".join(text_of(played(seed)) for seed in range(60)))
    second = tmp_path / "again.pgn"
    assert main(["convert", str(first), "-o", str(second)]) == 0
    third = written(tmp_path, encode("pgn", entries(first)), "third.pgn")
    for path in (second, third):
        assert list(entries(path)) == list(entries(first))
    text = io.StringIO(third.read_text())
    assert max(map(len, third.read_text().splitlines())) <= 100  # a FEN may be longer than the 80 columns of moves
    wanted = [each for seed in range(60) for each in expected(played(seed))]
    found = []
    while game := chess.pgn.read_game(text):
        assert not game.errors
        found += [(node.parent.board().fen(), node.move) for node in game.mainline()]
    assert [(chess.Board(fen, chess960=True), move) for fen, move in found] == [
        (chess.Board(fen, chess960=True), move) for fen, move, *_ in wanted
    ]


def test_every_way_to_name_a_move(tmp_path: Path) -> None:
    texts, wanted = [], []
    for fen in ODD:
        board = chess.Board(fen)
        assert board.is_valid()
        for move in board.legal_moves:
            ways = {board.san(move), board.san(move).rstrip("+#"), board.lan(move), board.san(move) + "!?"}
            for way in sorted(ways) + (["0-0"] if board.san(move) == "O-O" else []):
                texts.append(f'[FEN "{fen}"]\n[SetUp "1"]\n\n1. {way} *\n')
                wanted.append(board.uci(move))
    assert [entry.move for entry in entries(written(tmp_path, "\n".join(texts)))] == wanted
    assert len(wanted) > 400


@pytest.mark.parametrize(
    ("comment", "score"),
    [
        ("+0.31/12 0.05s", 31),  # fastchess, cutechess, fishtest
        (" -12.5/30 1s, Black resigns", -1250),
        ("0.00/22 1.2s, Draw by 3-fold repetition", 0),
        ("-0.00/1", 0),
        ("+0.31\n0.05s", 31),
        ("+0.31 12/18 1234 5678", 31),  # OpenBench
        ("+1", NO_SCORE),
        ("0.17", NO_SCORE),
        ("+M5/20 0.1s", 31995),
        ("-M4", -31996),
        ("M1/9", NO_SCORE),
        ("+M9999/9", 32000 - 999),
        ("+999.99/9", 31000),  # below all mates
        ("+0.005/9", 0),
        ("+0.015/9", 2),
        ("book", NO_SCORE),
        ("", NO_SCORE),
        ("12 moves later", NO_SCORE),
        ("3.5 minutes", NO_SCORE),
        ("+- and wins", NO_SCORE),
        ("+3rd move", NO_SCORE),
        ("+1.", NO_SCORE),
        ("(+0.31)", NO_SCORE),
    ],  # comments.tsv has more, with their writers
)
def test_what_match_programs_write_behind_a_move(tmp_path: Path, comment: str, score: int) -> None:
    """The mover's, of the position before the move; whoever moves."""
    path = written(tmp_path, movetext(f"1. e4 {{{comment}}} e5 {{{comment}}} {{+9.99/9}}"))
    first, second = entries(path)
    assert first.score == score
    assert second.score == (999 if score == NO_SCORE else score)  # the first that says one


@pytest.mark.parametrize(
    ("comment", "after_white", "after_black"),
    [
        ("[%eval 0.17] [%clk 0:30]", -17, 17),
        ("[%clk 0:30] [%eval -2.5,18]", 250, -250),
        ("[%eval 0]", 0, 0),
        ("[%eval 0.175]", -18, 18),  # python-chess 1.11.2 has none
        ("[%eval #3]", -31994, 31995),  # six plies if Black is to move, five if White is
        ("[%eval #-3]", 31995, -31994),
        ("[%eval #-0]", 32000, -32000),
    ],
)
def test_what_lichess_writes_is_white_s_view_of_the_position_behind_the_move(
    tmp_path: Path, comment: str, after_white: int, after_black: int
) -> None:
    path = written(tmp_path, movetext(f"1. e4 {{ {comment} }} 1... e5 {{ {comment} }} 2. Nf3"))
    assert [entry.score for entry in entries(path)] == [NO_SCORE, after_white, after_black]
    both = written(tmp_path, movetext(f"{{ {comment} }} 1. e4 {{ +0.01/3 {comment} }} 1... e5 {{+0.02/3}}"))
    assert [entry.score for entry in entries(both)] == [1, 2], "a score of the player itself counts more"


UCI = [  # positions, moves as UCI has them, and what they are
    ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "e1g1", "e1h1"),
    ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "e1h1", "e1h1"),
    ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "e1c1", "e1a1"),
    ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "e1f1", "e1f1"),
    ("r3k2r/8/8/8/8/8/8/4K3 b kq - 0 1", "e8c8", "e8a8"),
    ("4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1", "e1g1", "e1g1"),  # Chess960: onto its rook
    ("4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1", "e1b1", "e1b1"),
    ("4k3/8/8/8/8/8/8/1RK3R1 w GB - 0 1", "c1g1", "c1g1"),
    ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8q", "a7a8q"),
    ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8N", "a7a8n"),
    ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a8=q", "a7a8q"),
    ("7k/8/8/3Pp3/8/8/8/K7 w - e6 0 1", "d5e6", "d5e6"),
    ("7k/8/8/3Pp3/8/8/8/K7 w - e6 0 1", "dxe6e.p.", "d5e6"),
    ("7k/8/8/8/8/8/8/K5N1 w - - 0 1", "g1f3", "g1f3"),
    ("7k/8/8/8/8/5p2/8/K5N1 w - - 0 1", "g1xf3", "g1f3"),
]


@pytest.mark.parametrize(("fen", "word", "move"), UCI)
def test_moves_may_be_as_uci_has_them(tmp_path: Path, fen: str, word: str, move: str) -> None:
    side = "1." if " w " in fen else "1..."
    (entry,) = entries(written(tmp_path, f'[FEN "{fen}"]\n[SetUp "1"]\n\n{side} {word} *\n'))
    board = chess.Board(entry.fen, chess960=True)
    assert board.parse_uci(entry.move) == board.parse_uci(move)


@pytest.mark.parametrize("word", ["g1e2", "e1g1", "e7e5", "e2e5", "e3e4", "e2e4q", "e1c1", "a1c1"])
def test_moves_as_uci_has_them_must_be_legal(tmp_path: Path, word: str) -> None:
    with pytest.raises(DataError, match=f"'{word}' is no legal move there"):
        list(entries(written(tmp_path, movetext(f"1. {word}"))))


def test_games_of_python_chess_as_uci_has_them(tmp_path: Path) -> None:
    """With castling as the king's move, or in Chess960 onto its rook."""
    games = [played(seed) for seed in range(60)]
    texts = []
    for game in games:
        moves = [node.parent.board().uci(node.move) for node in game.mainline()]
        kept = [
            f'[{tag} "{game.headers[tag]}"]' for tag in ("FEN", "SetUp", "Variant", "Result") if tag in game.headers
        ]
        texts.append("\n".join([*kept, "", *moves, game.headers["Result"], ""]))
    as_san = written(tmp_path, "\n\n".join(text_of(game) for game in games))
    found = list(entries(written(tmp_path, "\n\n".join(texts), "uci.pgn")))
    assert [(entry.fen, entry.move) for entry in found] == [(entry.fen, entry.move) for entry in entries(as_san)]


FAULTS = [
    ("1. e4 Nf4 1-0", 4, "'Nf4' is no legal move there"),
    ("1. e4 x7 1-0", 4, "'x7' is no move"),
    ("1. e4 -- 1-0", 4, "'--' is no move"),
    ("1. O-O 1-0", 4, "'O-O' is no legal move there"),
    ("1. Nf3 d6\n2. Nc3 d5 3. Nd4 a6 4. Nb5 1-0", 5, "'Nb5' may be several moves there"),
    ("1. e4\n{ no end 1-0", 5, "a comment has no end"),
    ("1. e4\n(1. d4 {) 1-0", 5, "a comment has no end"),
    ("1. e4 (1. d4 (1. c4) 1-0", 4, "a variation has no end"),
    ("1. e4 ) 1-0", 4, "')' is no move"),
    ("1. e4 e5", 4, "the game has no end: 1-0, 0-1, 1/2-1/2 or *"),
    ("1. e4 1-0 2. d4", 4, "behind the result stands '2.': the next game begins with tags"),
    ("1. e4 0-1", 4, "ends with '0-1', and its tag Result says '1-0'"),
    ("1. e4 {[%eval 17,3]} 1-0", 4, "an evaluation is [%eval 0.17] in pawns or [%eval #-3], not '[%eval 17,3]'"),
    ("1. e4 {[%eval high]} 1-0", 4, "not '[%eval high]'"),
    ("1. e4 {[%eval .5]} 1-0", 4, "not '[%eval .5]'"),  # 50 to python-chess 1.11.2
    ("1. e4 {[%eval 5.]} 1-0", 4, "not '[%eval 5.]'"),  # 500 to python-chess 1.11.2
    ("1. e4 {[%eval 0.1", 4, "a comment has no end"),
]
TAG_FAULTS = [
    ('[FEN "8/8 w - -"]', "the FEN: a rank has not 8 squares"),
    ('[FEN "8/8/8/8/8/8/8/K6K w - - 0 1"]', "the FEN: a side has not exactly one king"),
    ('[FEN "8/8/8/8/8/8/8/K6k w - - 0 40000"]', "the move number is beyond 32768"),
    ('[Variant "Atomic"]', "a game of 'Atomic', which is other chess"),
    ('[Site "here]', 'a tag is [Name "value"], not \'[Site "here]\''),
    ('[Result "0-1"]', "the tag Result says '1-0' and '0-1'"),
    ('[FEN "4k3/8/8/8/8/8/8/4K3 w - - 0 1"]\n[FEN "4k3/8/8/8/8/8/8/4K3 b - - 0 1"]', "the tag FEN says '4k3/"),
    ('[Site "here"] [Round "1"]', 'a tag is [Name "value"], not'),
]


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize(("moves", "line", "said"), FAULTS)
def test_damage_is_told_with_game_and_line(
    tmp_path: Path, moves: str, line: int, said: str, packing: str, capsys: Capture
) -> None:
    good = movetext("1. e4")
    text = (good + movetext("1. d4") + movetext("MOVES").replace("MOVES 1-0", moves) + good).encode()
    path = written(tmp_path, gzip.compress(text) if packing else text, f"games.pgn{packing}")
    assert main(["verify", str(path)]) == 1
    told = capsys.readouterr()
    assert f"game 3: line {line} of the game: " in told.err + told.out
    with pytest.raises(DataError) as raised:
        list(entries(path))
    assert said in str(raised.value)
    found = []
    with pytest.raises(DataError):
        found += list(entries(path))
    assert main(["convert", str(path), "-o", str(tmp_path / "out.pgn")]) == 1
    assert not (tmp_path / "out.pgn").exists()


@pytest.mark.parametrize(("tag", "said"), TAG_FAULTS)
def test_damage_in_tags_is_told(tmp_path: Path, tag: str, said: str) -> None:
    path = written(tmp_path, movetext("1. e4") + movetext("1. e4").replace("\n\n", f"\n{tag}\n\n", 1))
    found: list[Entry] = []
    with pytest.raises(DataError, match=r"game 2: line \d of the game: ") as raised:
        found.extend(entries(path))
    assert said in str(raised.value)


@pytest.mark.parametrize("tag", ["?", "-", "", "*"])
def test_a_tag_that_is_no_result_is_damage_where_the_moves_have_none(tag: str, tmp_path: Path) -> None:
    path = written(tmp_path, movetext("1. e4", "*").replace('Result "*"', f'Result "{tag}"'))
    assert [entry.result for entry in entries(path)] == [None]
    path.write_text(path.read_text().replace(f'Result "{tag}"', 'Result "1:0"'))
    with pytest.raises(DataError, match="the tag Result says '1:0', not 1-0, 0-1, 1/2-1/2 or"):
        list(entries(path))


def until_damage(path: Path) -> tuple[list[Entry], DataError | None]:
    found: list[Entry] = []
    try:
        found.extend(entries(path, "pgn"))
    except DataError as error:
        return found, error
    return found, None


def test_a_file_may_end_anywhere(tmp_path: Path) -> None:
    """Games that are whole are read, and what is left behind the last of them is damage, if it says anything."""
    games = [
        movetext("1. e4 {+0.1/1} e5 (1... d5)"),
        movetext("1. d4 ; a\n", "1/2-1/2"),
        movetext("{x} 1. Nf3 Nf6", "*"),
    ]
    text = "".join(games).encode()
    moves = (2, 1, 2)
    ends, at = [], 0
    for game in games:
        at += len(game.encode())
        ends.append(at - 2)  # without the empty line
    for length in range(len(text) + 1):
        path = written(tmp_path, text[:length])
        whole = sum(end <= length for end in ends)
        rest = text[ends[whole - 1] if whole else 0 : length]
        found, error = until_damage(path)
        assert error is None or (ends[whole - 1] if whole else 0) <= (error.offset or 0) <= length
        assert len(found) == sum(moves[:whole])
        assert (error is not None) == bool(rest.strip())


def test_what_says_nothing_is_passed_over(tmp_path: Path) -> None:
    """Byte order marks, line ends of DOS, escapes, comments up to the end of a line, glyphs, text of Latin-1."""
    first = (
        b'\xef\xbb\xbf%made by hand\r\n\r\n[Event "caf\xe9 ["]\r\n[Result "1-0"]\r\n\r\n%1. d4\r\n'
        b"{ [Event is no tag } 1.e4 $14 !! ; 1... d5 (\r\n1...e5 (2. Nf3 {)} (2. d4) Nc6) 2.\r\nNf3 1-0\r\n"
    )
    second = (
        b'\xef\xbb\xbf[Event "no moves"]\n\n*\n\n[White "no Event"]\n\n{+1.0/1}\n'
        b"1. d4 {\n[%eval\n1.5]} e.p. Nf6 1-0\x1a"
    )
    found = list(entries(written(tmp_path, first + second)))
    assert [(entry.move, entry.score, entry.result) for entry in found] == [
        ("e2e4", NO_SCORE, 1),
        ("e7e5", NO_SCORE, -1),
        ("g1f3", NO_SCORE, 1),
        ("d2d4", NO_SCORE, 1),
        ("g8f6", -150, -1),
    ]


@pytest.mark.parametrize(
    ("said", "ends", "result"),
    [("*", "1-0", 1), ("1-0", "*", 1), ("?", "0-1", -1), ("", "*", None), ("*", "*", None), ("1/2-1/2", "1/2-1/2", 0)],
)
def test_a_result_is_what_tag_or_end_say(tmp_path: Path, said: str, ends: str, result: int | None) -> None:
    tag = f'[Result "{said}"]\n' if said else ""
    (entry,) = entries(written(tmp_path, f'[Event "x"]\n{tag}\n1. e4 {ends}'))
    assert entry.result == result


def test_a_file_is_known_by_its_first_tag_or_its_name(tmp_path: Path, capsys: Capture) -> None:
    text = movetext("1. e4 e5")
    for name in ("games.pgn", "games.dat", "games.pgn.gz"):
        path = written(tmp_path, gzip.compress(text.encode()) if name.endswith("gz") else text, name)
        assert main(["count", str(path)]) == 0
        assert "2" in capsys.readouterr().out
    bare = written(tmp_path, "1. e4 e5 1-0\n", "bare.pgn")
    assert len(list(entries(bare))) == 2


def test_games_without_scores_are_trained_on_only_if_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, movetext("1. e4 e5 2. Nf3") * 50 + movetext("1. d4 {+0.3/1}", "*") * 7)
    for skip, samples in ((True, 7), (False, 157)):
        keys = {"features": "chess768", "filters": {"skip_no_score": skip}}
        assert Data.from_paths(data_config(batch_size=1, chess=keys), [path], 1).samples_per_epoch() == samples


def test_positions_that_no_game_can_have_are_left_out_with_their_game(tmp_path: Path, capsys: Capture) -> None:
    bad = movetext("1. Kb1").replace("\n\n", '\n[FEN "8/8/8/8/8/8/8/K1PPk3 w - - 0 1"]\n\n', 1)
    no_king = movetext("1. Kb1").replace("\n\n", '\n[FEN "8/8/8/8/8/8/8/K7 w - - 0 1"]\n\n', 1)
    path = written(tmp_path, movetext("1. e4") + bad + no_king + movetext("1. d4"))
    assert main(["convert", str(path), "-o", str(tmp_path / "out.viri"), "--on-bad-data", "skip"]) == 0
    assert [entry.move for entry in entries(tmp_path / "out.viri")] == ["e2e4", "d2d4"]
    assert main(["convert", str(path), "-o", str(tmp_path / "other.viri")]) == 1
    assert "game 2: a pawn on the first or last rank" in capsys.readouterr().err


@pytest.mark.parametrize(
    "moves",
    [
        "1. e4! e5?! 2. Nf3+-",
        "1. e4 +/- e5 = 2. Nf3 +/=",
        "1. e4± e5 ∞ 2. Nf3!=/+",
        "1. e4 $14 e5⩲ 2. Nf3 $1 -/+",
    ],
)
def test_glyphs_of_annotators_count_for_nothing(moves: str, tmp_path: Path) -> None:
    path = written(tmp_path, movetext(moves))
    assert [entry.move for entry in entries(path)] == ["e2e4", "e7e5", "g1f3"]


@pytest.mark.parametrize("command", ["convert", "shuffle"])
def test_lines_between_games_are_left_out_without_the_game_before_them(
    tmp_path: Path, command: str, capsys: Capture
) -> None:
    rest = "<html>502</html>\n1. e4 e5 1-0\n\n"
    path = written(tmp_path, movetext("1. e4") + rest + movetext("1. d4") + rest)
    assert main([command, str(path), "-o", str(tmp_path / "out.pgn"), "--on-bad-data", "skip"]) == 0
    assert sorted(entry.move for entry in entries(tmp_path / "out.pgn")) == ["d2d4", "e2e4"]
    assert "left out: damaged: 4 positions in 2 games" in capsys.readouterr().err
    assert main(["count", str(path), "--on-bad-data", "skip"]) == 0
    assert "2 positions in 2 games" in capsys.readouterr().out
    assert main(["count", str(path)]) == 1
    assert "game 1: line 6 of the game: behind the result stands '<html>502</html>'" in capsys.readouterr().err


def test_inspect_counts_what_it_leaves_out(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path, movetext("1. e4") + movetext("1. Ke3 e5") + movetext("1. d4"))
    assert main(["inspect", str(path)]) == 1
    assert "'Ke3' is no legal move there" in capsys.readouterr().err
    assert main(["inspect", str(path), "--on-bad-data", "skip"]) == 0
    printed = capsys.readouterr()
    assert "games          2; positions each: 1 to 1" in printed.out
    assert "score          no position has one\n" in printed.out
    assert "    left out     damaged: 2 positions in 1 game; the first: " in printed.out
    assert main(["inspect", "--json", str(path), "--on-bad-data", "skip"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["score"] is None
    assert told["read"][-1]["topic"] == "left out"


@pytest.mark.parametrize("into", ["binpack", "viri", "montyvalue", "psv"])
def test_games_become_other_formats_and_come_back(tmp_path: Path, into: str) -> None:
    first = written(tmp_path, encode("pgn", sample(2000)))
    made, back = tmp_path / f"made.{into}", tmp_path / "back.pgn.zst"
    assert main(["convert", str(first), "-o", str(made)]) == 0
    assert main(["convert", str(made), "-o", str(back)]) == 0
    assert list(entries(back)) == list(entries(first))


def test_pieces_of_a_file_end_with_games(tmp_path: Path) -> None:
    """Of a plain file and of a compressed one alike."""
    text = "".join(
        movetext(f"1. e4 {{game {n} {'x' * (n % 997)}}} e5 {{+0.{n % 90 + 10}/3}}") for n in range(4000)
    ).encode()
    assert len(text) > 2 << 20
    plain, packed = written(tmp_path, text), written(tmp_path, gzip.compress(text), "games.pgn.gz")
    found = list(entries(plain))
    assert len(found) == 8000
    assert list(entries(packed)) == found
    keys = {"features": "chess768"}
    assert Data.from_paths(data_config(batch_size=1, chess=keys), [plain, packed], 1).samples_per_epoch() == 8000, (
        "half have a score"
    )
