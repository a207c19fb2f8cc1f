"""Compiles conditions on positions, given as text like `ply >= 16 and abs(score) < 3000`, for the native filter.

The language is the subset of Python's expressions that has numbers and conditions, in this order of precedence:

    or      and      not      < <= > >= == !=  (as in a < b < c)      + -      * /      - +
    numbers, squares (a1 0 ... h8 63), names, abs(x), min(x, y), max(x, y), file(square), rank(square), ( )

Numbers and conditions are different types, and neither is converted to the other.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence

from loader import _native

_LONGEST = 4096  # characters
_DEEPEST = 100  # nested brackets; nested operators, too
_IS_CONDITION = {name: is_condition for name, is_condition, _, _ in _native.where_names()}
_ARGUMENTS = {"abs": 1, "min": 2, "max": 2, "file": 1, "rank": 1}
_SQUARES = {f"{'abcdefgh'[square % 8]}{square // 8 + 1}": float(square) for square in range(64)}
_KNOWN = {"and", "or", "not", *_IS_CONDITION, *_ARGUMENTS, *_SQUARES}
_SIGNS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.And: "and",
    ast.Or: "or",
}
_TOKEN = re.compile(
    r"""[ \t\n]+ | (?P<word>[A-Za-z_]\w*) | (?P<number>[\d.](?:(?<=[\d.][eE])[+-]|[\w.])*)
    | (?!\*\*|//|<<|>>|<>|,\s*\)) (?:[<>=!]=|[<>+\-*/(),]) | (?P<foreign>\*\*|//|<<|>>|<>|.)""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_NUMBER = re.compile(r"(?:0+|[1-9]\d*|\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?", re.ASCII)
_INSTEAD = {  # what to write instead of operators of other languages
    "&": "and",
    "|": "or",
    "!": "not, or !=",
    "=": "==",
    "<>": "!=",
    "%": "+, -, * or /: there is no remainder",
}


def compile_condition(text: str) -> _native.Where:
    """Compiles the text of a condition to a native program. Raises ValueError with the column, counted from 1, and the
    fault there."""
    _check_tokens(text)
    try:
        return _native.Where(_Compiler(text).postfix)
    except (RecursionError, MemoryError):  # Python's parser raises them, too
        raise _fault(0, "the expression is nested too deeply") from None


def _fault(at: int, why: str) -> ValueError:
    """Makes an error that names the column. `at` counts from 0."""
    return ValueError(f"column {at + 1}: {why}")


def _check_tokens(text: str) -> None:
    """Refuses tokens that are valid in Python and not in this language, and tokens that deserve a better message than
    Python's parser gives. Raises ValueError with the column."""
    if len(text) > _LONGEST:
        raise _fault(_LONGEST, f"an expression has {_LONGEST:,} characters at most")
    depth = 0
    for token in _TOKEN.finditer(text):
        at, word = token.start(), token[0]
        depth += (word == "(") - (word == ")")
        if depth > _DEEPEST:
            raise _fault(at, "the expression is nested too deeply")
        match token.lastgroup:
            case "word" if word not in _KNOWN:
                names = [*_IS_CONDITION, *(f"{function}()" for function in _ARGUMENTS), "squares as e4"]
                raise _fault(at, f"{word!r} is no name; there are {', '.join(names)}")
            case "number" if _NUMBER.fullmatch(word) is None or not math.isfinite(float(word)):
                raise _fault(at, f"{word!r} is no number")
            case "foreign" if word in _INSTEAD:
                raise _fault(at, f"instead of {word} write {_INSTEAD[word]}")
            case "foreign":
                shown = word if word.isascii() and word.isprintable() else "this character"
                raise _fault(at, f"{shown} has no meaning here")


class _Compiler:
    """Compiles a text whose tokens have been checked to a program in postfix order, `postfix`."""

    def __init__(self, text: str) -> None:
        """Compiles the text. Raises ValueError with the column of a fault, also if the text is a number and no
        condition."""
        self.postfix: list[float | str] = []
        line = text.replace("\n", " ")
        self._source = line.lstrip()  # Python takes a space at the beginning for an indent
        self._begin = len(line) - len(self._source)
        try:
            whole = ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            raise self._syntax_fault(error) from None
        self._require(True, whole, 0, "a filter is a condition, as score > 0")

    def _syntax_fault(self, error: SyntaxError) -> ValueError:
        """Converts a SyntaxError of Python's parser to an error with the column in the text."""
        if not error.offset:  # something is missing at the end
            return _fault(self._begin + len(self._source), "a number, a name or ( is expected, not the end")
        at = error.offset - 1
        is_open = error.msg.endswith("was never closed")
        return _fault(self._begin + at, error.msg if is_open else f"{self._token(at)!r} has no place here")

    def _fault(self, node: ast.expr, why: str) -> ValueError:
        return _fault(self._begin + node.col_offset, why)

    def _token(self, at: int) -> str:
        token = _TOKEN.match(self._source, at)
        return token[0] if token else ""

    def _require(self, is_condition: bool, node: ast.expr, depth: int, why: str) -> None:
        """Appends the program of `node`. Raises ValueError with the reason `why` if the node is a condition where a
        number is required, or the reverse."""
        if self._append(node, depth) != is_condition:
            kind = "a number" if is_condition else "a condition"
            raise self._fault(node, f"{why}, and {self._token(node.col_offset)!r} begins {kind}")

    def _append(self, node: ast.expr, depth: int) -> bool:
        """Appends the program of `node` in postfix order. Returns True if the node is a condition, False if it is a
        number. `depth` is its depth in the expression, which is limited."""
        if depth > _DEEPEST:
            raise RecursionError
        match node:
            case ast.BoolOp():
                self._append_joined(True, node.values, [node.op] * (len(node.values) - 1), depth)
                return True
            case ast.BinOp():
                left: ast.expr = node
                joined: list[ast.BinOp] = []
                while isinstance(left, ast.BinOp):  # a chain of operators counts as one level of depth
                    joined.insert(0, left)
                    left = left.left
                self._append_joined(
                    False, [left, *(each.right for each in joined)], [each.op for each in joined], depth
                )
                return False
            case ast.Compare():
                self._require(False, node.left, depth, "only numbers are compared")
                for number, (sign, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                    self.postfix += ["again"] if number else []  # b in a < b < c
                    self._require(False, right, depth + number + 1, "only numbers are compared")
                    self.postfix.append(_SIGNS[type(sign)])
                self.postfix += ["and"] * (len(node.ops) - 1)
                return True
            case ast.UnaryOp(ast.Not()):
                self._require(True, node.operand, depth + 1, "not needs a condition")
                self.postfix.append("not")
                return True
            case ast.UnaryOp():
                self._require(False, node.operand, depth + 1, "only a number has a sign")
                self.postfix += ["negate"] if isinstance(node.op, ast.USub) else []
                return False
            case ast.Call(ast.Name(function)) if self._token(node.col_offset) == function and function in _ARGUMENTS:
                if (count := len(node.args)) != (wanted := _ARGUMENTS[function]):
                    raise self._fault(node, f"{function}() takes {wanted} number{'s'[: wanted - 1]}, not {count}")
                for number, argument in enumerate(node.args):
                    self._require(False, argument, depth + number, f"{function}() is of numbers")
                self.postfix.append(function)
                return False
            case ast.Name(name) if name in _IS_CONDITION:
                self.postfix.append(name)
                return _IS_CONDITION[name]
            case ast.Name(name) if name in _SQUARES:
                self.postfix.append(_SQUARES[name])
                return False
            case ast.Constant():
                self.postfix.append(float(self._token(node.col_offset)))
                return False
        raise self._fault(node, f"{self._token(node.col_offset)!r} begins neither a number nor a condition")

    def _append_joined(
        self, is_condition: bool, nodes: Sequence[ast.expr], signs: Sequence[ast.AST], depth: int
    ) -> None:
        """Appends the programs of operands with the operators between them, grouped from the left."""
        kind = "conditions" if is_condition else "numbers"
        words = [_SIGNS[type(sign)] for sign in signs]
        for number, node in enumerate(nodes):
            before = max(number - 1, 0)
            self._require(is_condition, node, depth + (number > 0), f"{words[before]!r} joins {kind}")
            self.postfix += words[before:number]
