"""Expressions of filters against a slow evaluation in Python."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import chess
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader import _native
from loader.chess.filters import PARTS
from loader.chess.filters.where import compile_condition
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from tests.support.paths import VALIDATION

VALUES = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
PHASES = {chess.KNIGHT: 1, chess.BISHOP: 1, chess.ROOK: 2, chess.QUEEN: 4}
RIGHTS = ("-", "K", "Q", "k", "q", "Kq", "Qk", "KQk", "Qkq")
ODD = [  # what the sample has none or few of
    Entry("8/P6k/8/8/8/8/8/K7 w - - 0 60", "a7a8q", 900, 118, 1),
    Entry("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "e5d6", -32768, 2, -1),
    Entry("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 9", "e8c8", 32767, 17, 0),
    *(Entry(f"r3k2r/8/8/8/8/8/8/R3K2R {side} {rights} - 0 9", "0000", 1, 17, 0) for side in "wb" for rights in RIGHTS),
    Entry("4k3/8/8/8/8/8/4r3/4K3 w - - 0 40", "e1e2", 0, 65535, 0),
    *(Entry(f"4k3/8/8/8/8/8/4r3/4K3 w - - {clock} 90", "e1e2", 3, 178, 0) for clock in (1, 63, 64, 99, 100, 126)),
    *(Entry(f"4k3/8/8/8/8/8/4r3/4K3 w - - {clock} 90", "e1e2", 3, 178, None) for clock in (127, 128, 255, 65535)),
    Entry("QQQQQQQQ/QQQQQQQQ/8/8/8/8/7k/K7 w - - 0 1", "0000", 32002, 0, 1),
    Entry("4k3/8/8/8/8/8/4r3/4K3 w - - 0 40", "e1e2", 3, 78, None),
]


@cache
def positions() -> tuple[list[Entry], npt.NDArray[np.uint8]]:
    """A few hundred, and the same as records."""
    found = [*ODD, *random.Random(1).sample(list(entries(VALIDATION)), 300)]
    return found, _native.pack_records([(e.fen, e.move, e.score, e.ply, e.result) for e in found])


def slow_values(entry: Entry) -> Mapping[str, float]:
    """What each name stands for."""
    board = chess.Board(entry.fen)
    move = chess.Move.from_uci(entry.move)
    pieces = list(board.piece_map().values())
    material = {color: sum(VALUES[p.piece_type] for p in pieces if p.color == color) for color in chess.COLORS}
    kings = {color: board.king(color) or 0 for color in chess.COLORS}
    flip = 0 if board.turn else 56
    passing = board.is_en_passant(move)
    taken = board.piece_at(move.to_square) if move else None
    assert entry.ply is not None
    return {
        "ply": entry.ply,
        "score": entry.score,
        "result": -128 if entry.result is None else entry.result,
        "piece_count": len(pieces),
        **{f"{chess.piece_name(k)}s": sum(p.piece_type == k for p in pieces) for k in range(chess.PAWN, chess.KING)},
        "material": sum(material.values()),
        "own_material": material[board.turn],
        "opponent_material": material[not board.turn],
        "phase": min(24, sum(PHASES.get(p.piece_type, 0) for p in pieces)),
        "own_king": kings[board.turn] ^ flip,
        "opponent_king": kings[not board.turn] ^ flip,
        "white_king": kings[chess.WHITE],
        "black_king": kings[chess.BLACK],
        "white_to_move": board.turn,
        "has_score": entry.score != 32002,
        "has_result": entry.result is not None,
        "in_check": board.is_check(),
        "castling_rights": chess.popcount(board.castling_rights),
        "can_castle_short": board.has_kingside_castling_rights(board.turn),
        "can_castle_long": board.has_queenside_castling_rights(board.turn),
        "opponent_can_castle_short": board.has_kingside_castling_rights(not board.turn),
        "opponent_can_castle_long": board.has_queenside_castling_rights(not board.turn),
        "clock": min(board.halfmove_clock, 127),
        "is_capture": passing or (taken is not None and taken.color != board.turn),
        "is_en_passant": passing,
        "is_promotion": move.promotion is not None,
        "is_castling": board.is_castling(move),
    }


@cache
def slow_table() -> list[Mapping[str, float]]:
    return [slow_values(entry) for entry in positions()[0]]


NAMES = {name: (is_condition, part) for name, is_condition, part, _ in _native.where_names()}
NUMBERS = [name for name, (is_condition, _) in NAMES.items() if not is_condition]
CONDITIONS = [name for name, (is_condition, _) in NAMES.items() if is_condition]


def test_each_name_is_what_python_chess_says() -> None:
    found, records = positions()
    assert set(slow_table()[0]) == set(NAMES)
    for name, values in ((name, [slow[name] for slow in slow_table()]) for name in NAMES):
        if name in CONDITIONS:
            assert compile_condition(name).holds(records).tolist() == values, name
            assert 0 < sum(values) < len(found), name
            continue
        for limit in sorted(set(values))[:: max(1, len(set(values)) // 10)]:
            holds = compile_condition(f"{name} <= {limit}").holds(records)
            assert holds.tolist() == [value <= limit for value in values], name
    assert {part for _, part in NAMES.values()} <= {"", *PARTS}


Value = Callable[[Mapping[str, float]], Any]
Node = tuple[str, int, Value]  # text, how tightly it holds together, value
OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, PRIMARY = range(8)
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def divided(a: float, b: float) -> float:
    """As IEEE 754 divides."""
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


ARITHMETIC: dict[str, tuple[int, Callable[[float, float], float]]] = {
    "+": (SUM, operator.add),
    "-": (SUM, operator.sub),
    "*": (PRODUCT, operator.mul),
    "/": (PRODUCT, divided),
}


def within(node: Node, least: int) -> str:
    return node[0] if node[1] >= least else f"({node[0]})"


def constant(value: float) -> Node:
    return repr(value), PRIMARY, lambda _: value


def square(number: int) -> Node:
    return chess.square_name(number), PRIMARY, lambda _: number


def name_of(name: str) -> Node:
    return name, PRIMARY, lambda values: values[name]


def negated(a: Node) -> Node:
    return f"-{within(a, SIGN)}", SIGN, lambda values: -float(a[2](values))


def combined(sign: str, a: Node, b: Node) -> Node:
    level, function = ARITHMETIC[sign]
    text = f"{within(a, level)} {sign} {within(b, level + 1)}"
    return text, level, lambda values: function(float(a[2](values)), float(b[2](values)))


def called(function: str, arguments: list[Node]) -> Node:
    def value(values: Mapping[str, float]) -> float:
        numbers = [float(argument[2](values)) for argument in arguments]
        first = numbers[0]
        if function == "abs":
            return abs(first)
        if function == "min":
            return first if first < numbers[1] else numbers[1]
        if function == "max":
            return first if first > numbers[1] else numbers[1]
        if not math.isfinite(first):
            return math.nan if function == "file" else first
        rank = float(np.floor(first / 8))
        return rank + 1 if function == "rank" else first - 8 * rank + 1

    return f"{function}({', '.join(argument[0] for argument in arguments)})", PRIMARY, value


def compared(operands: list[Node], signs: list[str]) -> Node:
    text = within(operands[0], SUM)
    for sign, operand in zip(signs, operands[1:], strict=False):
        text += f" {sign} {within(operand, SUM)}"

    def value(values: Mapping[str, float]) -> bool:
        numbers = [float(operand[2](values)) for operand in operands]
        return all(COMPARISONS[sign](a, b) for sign, (a, b) in zip(signs, itertools.pairwise(numbers), strict=False))

    return text, COMPARISON, value


def joined(word: str, a: Node, b: Node) -> Node:
    level = AND if word == "and" else OR
    text = f"{within(a, level)} {word} {within(b, level + 1)}"
    if word == "and":
        return text, level, lambda values: bool(a[2](values)) and bool(b[2](values))
    return text, level, lambda values: bool(a[2](values)) or bool(b[2](values))


def inverted(a: Node) -> Node:
    return f"not {within(a, NOT)}", NOT, lambda values: not a[2](values)


numbers = st.recursive(
    st.one_of(
        st.integers(0, 40000).map(constant),
        st.floats(0, 100, allow_nan=False).map(constant),
        st.integers(0, 63).map(square),
        st.sampled_from(NUMBERS).map(name_of),
    ),
    lambda inner: st.one_of(
        inner.map(negated),
        st.builds(combined, st.sampled_from(sorted(ARITHMETIC)), inner, inner),
        st.builds(called, st.sampled_from(["abs", "file", "rank"]), inner.map(lambda a: [a])),
        st.builds(called, st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=2)),
    ),
    max_leaves=6,
)
comparisons = st.builds(
    compared,
    st.lists(numbers, min_size=4, max_size=4),
    st.lists(st.sampled_from(sorted(COMPARISONS)), min_size=1, max_size=3),
).filter(lambda node: bool(node[0]))
conditions = st.recursive(
    st.one_of(comparisons, st.sampled_from(CONDITIONS).map(name_of)),
    lambda inner: st.one_of(inner.map(inverted), st.builds(joined, st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(conditions)
def test_an_expression_means_what_python_makes_of_it(node: Node) -> None:
    text, _, value = node
    holds = compile_condition(text).holds(positions()[1])
    assert holds.tolist() == [bool(value(values)) for values in slow_table()], text


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ply <>=!+-*/(),.0123456789e andornotscabfi_\n&|%#é", max_size=40))
def test_any_text_is_a_condition_or_is_refused_with_a_column(text: str) -> None:
    said = ""
    try:
        condition = compile_condition(text)
    except ValueError as error:
        said = str(error)
    if not said:
        holds = condition.holds(positions()[1])
        assert set(holds.tolist()) <= {0, 1}
        assert [condition.holds(record[None])[0] for record in positions()[1][:9]] == holds[:9].tolist()
        return
    assert 1 <= int(said.removeprefix("column ").partition(":")[0]) <= len(text.encode()) + 1
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 1: a number, a name or ( is expected, not the end"),
        ("scor > 1", "column 1: 'scor' is no name; there are ply, score, result, piece_count, "),
        ("ply > 1 and Score > 1", "column 13: 'Score' is no name"),
        ("score", "column 1: a filter is a condition, as score > 0, and 'score' begins a number"),
        ("ply > 1 and 3", "column 13: 'and' joins conditions, and '3' begins a number"),
        ("ply + in_check > 1", "column 7: '+' joins numbers, and 'in_check' begins a condition"),
        ("in_check == 1", "column 1: only numbers are compared, and 'in_check' begins a condition"),
        ("1 < 2 < in_check", "column 9: only numbers are compared"),
        ("not ply", "column 5: not needs a condition, and 'ply' begins a number"),
        ("-(ply > 1) > 1", "column 3: only a number has a sign, and 'ply' begins a condition"),
        ("abs(in_check) > 1", "column 5: abs() is of numbers, and 'in_check' begins a condition"),
        ("abs ply > 1", "column 5: 'ply' has no place here"),
        ("min(ply) > 1", "column 1: min() takes 2 numbers, not 1"),
        ("(ply > 1", "column 1: '(' was never closed"),
        ("ply > 1)", "column 8: ')' has no place here"),
        ("ply > 1 ply", "column 9: 'ply' has no place here"),
        ("ply = 1", "column 5: instead of = write =="),
        ("ply > 1 && in_check", "column 9: instead of & write and"),
        ("!in_check", "column 1: instead of ! write not, or !="),
        ("ply <> 1", "column 5: instead of <> write !="),
        ("ply % 2 == 0", "column 5: instead of % write +, -, * or /: there is no remainder"),
        ("ply > 1x", "column 7: '1x' is no number"),
        ("ply > 1e999", "column 7: '1e999' is no number"),
        ("ply > .", "column 7: '.' is no number"),
        ("ply >", "column 6: a number, a name or ( is expected, not the end"),
        (" \n ply > > 1", "column 10: '>' has no place here"),
        ("ply > 1 # early", "column 9: # has no meaning here"),
        ("ply ≥ 1", "column 5: this character has no meaning here"),
        ("(" * 101 + "in_check" + ")" * 101, "the expression is nested too deeply"),
        ("not " * 200 + "in_check", "the expression is nested too deeply"),
        ("0 <" * 200 + "ply", "the expression is nested too deeply"),
        ("in_check or " * 400 + "in_check", "column 4097: an expression has 4,096 characters at most"),
    ],
)
def test_what_is_no_condition_is_told_with_its_column(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="column") as refused:
        compile_condition(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("ply ** 2 > 1", 5),
        ("ply // 2 > 1", 5),
        ("(ply, 1)", 1),
        ("abs(ply,) > 1", 8),
        ("abs(*ply) > 1", 5),
        ("(abs)(ply) > 1", 1),
        ("ply(1) > 1", 1),
        ("abs > 1", 1),
        ("ply in e4", 5),
        ("ply is e4", 5),
        ("True", 1),
        ("ply if in_check else score", 5),
        ("ply > 1_000", 7),
        ("ply > 0x10", 7),
        ("ply > 007", 7),
        ("ply > 1j", 7),
        ("ply > 1 or'x'", 11),
        ("ply\\\n > 1", 4),
        ("ply > 1; in_check", 8),
        ("-" * 4000 + "1", 1),
    ],
)
def test_what_python_knows_besides_is_refused(text: str, column: int) -> None:
    with pytest.raises(ValueError, match=f"^column {column}: "):
        compile_condition(text)


def test_the_longest_expressions_are_conditions() -> None:
    records = positions()[1]
    assert compile_condition("1+" * 2040 + "1 > 2040").holds(records).all()
    assert compile_condition("0 <=" * 99 + "ply").holds(records).all()
    assert not compile_condition("in_check and " * 300 + "not in_check").holds(records).any()
    assert compile_condition("(" * 100 + "ply >= 0" + ")" * 100).holds(records).all()


WORDS = [*NAMES, "again", "negate", "abs", "file", "not", "+", "/", "min", "<", "==", "and", "or"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.floats(), st.sampled_from([*WORDS, "x"])), max_size=9))
def test_any_program_runs_or_is_refused(postfix: list[float | str]) -> None:
    try:
        condition = _native.Where(postfix)
    except ValueError:
        return
    assert set(condition.holds(positions()[1]).tolist()) <= {0, 1}


def test_a_program_is_refused_that_would_leave_its_registers() -> None:
    assert _native.Where([0.0] * 128 + ["+"] * 127).holds(positions()[1]).tolist() == [0] * len(positions()[0])
    refused: list[tuple[list[float | str], str]] = [
        ([0.0] * 129 + ["+"] * 128, "nested too deeply"),
        ([1.0, "+"], "too few operands"),
        (["negate"], "too few operands"),
        ([1.0, 1.0], "one value"),
        ([], "one value"),
        (["ply", "again", "<"], "before again"),
        (["ply", 1.0, "<", "again", "again", "<", "<"], "before again"),
        (["again"], "before again"),
        (["ply", "x", "+"], "x is neither a name nor an operation"),
    ]
    for postfix, why in refused:
        with pytest.raises(ValueError, match=why):
            _native.Where(postfix)


def test_a_condition_says_what_it_speaks_of() -> None:
    assert compile_condition("abs(score) < 3 and (ply > e4 or not is_capture)").names == ["score", "ply", "is_capture"]


def test_rights_of_chess960_are_those_of_the_sides_of_the_king() -> None:
    """As Shredder and X-FEN write them; what a short FEN does not say is none."""
    fens = {
        "1r3k1r/8/8/8/8/8/8/1R3K1R w BHbh - 0 1": (4, True, True),
        "1r3k1r/8/8/8/8/8/8/1R3K1R w Bh - 0 1": (2, False, True),
        "1r3k1r/8/8/8/8/8/8/1R3K1R b Bh - 0 1": (2, True, False),
        "1r3k1r/8/8/8/8/8/8/1R3K1R w KQ - 0 1": (2, True, True),
    }
    records = _native.pack_records([(fen, "0000", 0, 0, 0) for fen in fens])
    assert compile_condition("castling_rights == 4").holds(records).tolist() == [each[0] == 4 for each in fens.values()]
    assert compile_condition("can_castle_short").holds(records).tolist() == [each[1] for each in fens.values()]
    assert compile_condition("can_castle_long").holds(records).tolist() == [each[2] for each in fens.values()]
