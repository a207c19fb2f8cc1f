"""Comments of moves as programs and people write them: the score that each gives, or why it gives none."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from loader import _native
from loader.chess.positions.entry import NO_SCORE, parse_entry
from loader.chess.positions.file import fault_of_walk

# For each setting what a comment behind a move of Black is: a score of its player; `behind`, White's score of the
# position behind the move; `none` and why; `damage`. "=": as if nothing is set.
TABLE = Path(__file__).with_name("comments.tsv")
SETTINGS = ("not set", "view=mover", "view=white", "unit=pawns", "unit=centipawns")
REASONS = {
    "no comment": "no comment",
    "commands": "a comment of commands alone, as [%clk 0:05:00]",
    "book": "a move of a book",
    "remark": "a remark",
    "no sign": "a number without a sign or a depth, as 8.50",
    "whole": "a whole number, as +31 or 31/12",
    "comma": "a decimal comma, as +0,31",
    "mate": "a mate in moves or plies, as M2",
}
FAULTS = {
    "whole number": "has a whole number, which may be of pawns or of centipawns; say which by data.chess.pgn.unit",
    "decimal comma": "has a decimal comma; if that is what it is, set data.chess.pgn.unit (--pgn-unit) to pawns",
    "evaluation": "an evaluation is [%eval 0.17] in pawns or [%eval #-3], not '[%eval ",
}


def rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def codec_of(setting: str) -> _native.Codec:
    key, _, value = setting.partition("=")
    return _native.pgn(**{key: value}) if value else _native.pgn()


class Game:
    """A game of `1. e4 e5 2. Nf3` with other text behind its moves."""

    def __init__(self, moves: str, setting: str = "not set") -> None:
        text = f'[Event "x"]\n[Result "1-0"]\n\n{moves} 1-0\n'.encode()
        walk = _native.ChunkWalk(_native.hold_entries(codec_of(setting), Path("x.pgn"), text, 0, 0), 0)
        self.scores = [parse_entry(line).score for line in walk.lines(99).decode().splitlines()]
        self.reasons = dict(walk.unscored)
        fault = fault_of_walk(walk)
        self.fault = None if fault is None else fault[1]


def outcome(comment: str, setting: str) -> str:
    """What the comment is, in the words of the table."""
    game = Game(f"1. e4 {{book}} e5 {{{comment}}} 2. Nf3", setting)
    if game.fault is not None:
        return f"damage: {next(name for name, words in FAULTS.items() if words in game.fault)}"
    first, own, behind = game.scores
    assert first == NO_SCORE
    if own != NO_SCORE:
        assert behind == NO_SCORE
        return str(own)
    if behind != NO_SCORE:
        return f"behind {behind}"  # White's, which moves there
    (reason,) = [name for name, words in REASONS.items() if words in own_reasons(game)]
    return f"none: {reason}"


def own_reasons(game: Game) -> list[str]:
    """Of the move alone: the first is of a book, and the last has no comment."""
    counts = dict(game.reasons)
    for other in ("a move of a book", "no comment"):
        counts[other] -= 1
    return [reason for reason, count in counts.items() if count]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['writer']}: {row['comment']}")
def test_a_comment_is_what_its_writer_means(row: dict[str, str]) -> None:
    expected = {name: row["not set"] if row[name] == "=" else row[name] for name in SETTINGS}
    assert {name: outcome(row["comment"], name) for name in SETTINGS} == expected


def test_the_table_names_who_writes_each_form() -> None:
    assert len({row["comment"] for row in rows()}) >= 60
    assert all(row["writer"] for row in rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['writer']}: {row['comment']}")
def test_white_s_comments_are_those_of_black_turned(row: dict[str, str]) -> None:
    """A score of the player's is the same whoever plays; White's is the player's own then."""
    comment, asked = row["comment"], row["not set"]
    game = Game(f"1. e4 {{{comment}}} e5")
    if asked.startswith("damage"):
        assert game.fault is not None
    elif asked.startswith("none"):
        assert game.scores == [NO_SCORE, NO_SCORE]
    elif not asked.startswith("behind") and "wv=" not in comment:
        assert game.scores == [int(asked), NO_SCORE]


ANNOTATED = "1. e4 { 0.25 } e5 { 0.30 } 2. Nf3 { -1.20 } Nc6 { -0.75 }"


def test_an_annotator_writes_a_sign_of_negative_numbers_alone() -> None:
    """So a sign says nothing in a game with positive numbers without one: all are White's, behind the move."""
    assert Game(ANNOTATED).scores == [NO_SCORE] * 4
    assert Game(ANNOTATED).reasons == {REASONS["no sign"]: 4}
    assert Game(ANNOTATED, "view=white").scores == [NO_SCORE, -25, 30, 120]
    assert Game(ANNOTATED, "view=mover").scores == [25, 30, -120, -75]
    others = "1. e4 { +0.25 } e5 { 0.00 } 2. Nf3 { -1.20/7 } Nc6 { -0.75 }"
    assert Game(others).scores == [25, NO_SCORE, -120, -75], "zero has no sign"


def test_who_counts_one_mate_in_moves_counts_all_so() -> None:
    """+M2 can't be plies: the side that mates makes the last one."""
    mates = "1. e4 {+M3/9 1s} e5 {-M2/9 1s} 2. Nf3 {+M2/9 1s} Nc6 {-M1/9 1s}"
    assert Game(mates).scores == [NO_SCORE] * 4
    assert Game(mates).reasons == {REASONS["mate"]: 4}
    assert Game(mates, "unit=centipawns").scores == [31995, -31996, 31997, -31998]
    plies = "1. e4 {+M5/9 1s} e5 {-M4/9 1s} 2. Nf3 {+M3/9 1s} Nc6 {-M2/9 1s}"
    assert Game(plies).scores == [31995, -31996, 31997, -31998]


@pytest.mark.parametrize(
    ("comments", "score"),
    [
        ("{book} {+0.31/12 1s}", 31),  # the first that has a score
        ("{+0.31/12 1s} {+0.99/13 1s}", 31),
        ("{a remark} {[%clk 0:01:00]} {-M4/9}", -31996),
        ("{[%clk 0:01:00] +0.31/12}", 31),
    ],
)
def test_of_several_comments_the_first_with_a_score_counts(comments: str, score: int) -> None:
    assert Game(f"1. e4 e5 {comments}").scores == [NO_SCORE, score]


def test_a_comment_up_to_the_end_of_a_line_is_one() -> None:
    game = Game("1. e4 ; +0.31/12 1s\ne5 ; book\n2. Nf3 ; 31/12\nNc6 ; [%eval 0.17]\n3. Bb5 (3. a3 ; +0.9/9\n) a6")
    assert game.fault is None
    assert game.scores == [31, NO_SCORE, NO_SCORE, NO_SCORE, 17, NO_SCORE]
    assert game.reasons[REASONS["book"]] == game.reasons[REASONS["whole"]] == 1


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_score_that_is_written_is_read(setting: str) -> None:
    """By all settings, as White moves: what this project writes can't be read two ways."""
    for score in (*range(-32000, -30990), *range(-1000, 1000, 7), *range(30990, 32001)):
        writer = _native.pgn().make_writer()
        writer.add("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "e2e4", score, 0, 1)
        writer.finish()
        walk = _native.ChunkWalk(_native.hold_entries(codec_of(setting), Path("x.pgn"), writer.take(), 0, 0), 0)
        written = 31000 if 31000 < score < 31001 else score
        assert parse_entry(walk.lines(1).decode().rstrip("\n")).score == written
