"""Parses and writes lines of the UCI protocol: options of an engine, commands that set them, scores. Does no input or
output.

Training data store scores in internal units. An engine prints centipawns, or moves to mate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KINDS = ("check", "spin", "combo", "button", "string")
MATE = 32000  # internal size of the score of a mate on the board, one less for each ply until the mate
_BOUNDS = ("lowerbound", "upperbound")
_INFO_KEYS = frozenset({
    "depth", "seldepth", "time", "nodes", "pv", "multipv", "score", "wdl", "currmove", "currmovenumber", "hashfull",
    "nps", "tbhits", "sbhits", "cpuload", "refutation", "currline",
})  # fmt: skip
MATES = 1000  # plies to a mate that have scores of their own; other scores are limited to MATE - MATES


@dataclass(frozen=True)
class Option:
    """An option that an engine offers, from its line `option name ... type ...`."""

    name: str
    kind: str  # one of KINDS
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


def parse_option(line: str) -> Option | None:
    """Parses a line `option name ... type ...`. Returns None for any other line."""
    match = re.fullmatch(r"option\s+name\s+(.+?)\s+type\s+(\w+)(.*)", line.strip())
    if match is None or match[2] not in KINDS:
        return None
    name, kind, rest = match.groups()
    bounds = {key: int(value) for key, value in re.findall(r"\b(min|max)\s+(-?\d{1,18})\b", rest)}
    choices = tuple(choice.strip() for choice in re.split(r"\bvar\b", rest)[1:]) if kind == "combo" else ()
    return Option(name, kind, bounds.get("min"), bounds.get("max"), choices)


def parse_setting(text: str) -> tuple[str, str]:
    """Splits NAME=VALUE into name and value. The value is empty for the NAME of a button alone. Raises ValueError."""
    name, _, value = text.partition("=")
    if not text.isprintable() or not name.strip():
        raise ValueError(f"{text!r}: an option is given as NAME=VALUE")
    return name.strip(), value.strip()


def format_setoption(offered: Sequence[Option], name: str, value: str) -> str:
    """Returns the command that sets an option. Raises ValueError if the engine does not offer the option or does not
    allow the value."""
    by_name: Mapping[str, Option] = {option.name.lower(): option for option in offered}
    option = by_name.get(name.lower())
    if option is None:
        names = ", ".join(sorted(option.name for option in offered)) or "none"
        raise ValueError(f"there is no option {name}; there are: {names}")
    problem = _find_value_problem(option, value)
    if problem:
        raise ValueError(f"option {option.name}: {problem}")
    if option.kind == "button":
        return f"setoption name {option.name}"
    return f"setoption name {option.name} value {value}"


def _find_value_problem(option: Option, value: str) -> str:
    """Returns the reason why an option can't have a value, or an empty text if it can."""
    match option.kind:
        case "check" if value.lower() not in ("true", "false"):
            return f"true or false, not {value!r}"
        case "combo" if value.lower() not in [choice.lower() for choice in option.choices]:
            return f"one of {', '.join(option.choices)}, not {value!r}"
        case "button" if value:
            return f"a button takes no value, such as {value!r}"
        case "spin":
            low, high = option.minimum, option.maximum
            problem = f"a number from {low} to {high}, not {value!r}"
            if not re.fullmatch(r"-?\d{1,18}", value):
                return problem
            number = int(value)
            if (low is not None and number < low) or (high is not None and number > high):
                return problem
    return ""


def internal_score(kind: str, value: int, units_per_100cp: int) -> int:
    """Converts a UCI score to internal units. Centipawns are scaled and rounded. A mate becomes 32000 minus the plies
    to it, negative for the side that is mated."""
    if kind == "mate" and value > 0:
        return MATE - min(2 * value - 1, MATES - 1)
    if kind == "mate":
        return -MATE + min(-2 * value, MATES - 1)
    rounded = (2 * abs(value) * units_per_100cp + 100) // 200
    limited = min(rounded, MATE - MATES)
    return limited if value >= 0 else -limited


@dataclass(frozen=True)
class Score:
    """A score as an engine prints it, in centipawns or moves to mate."""

    kind: str  # cp or mate
    value: int
    is_exact: bool = True  # False: a bound


@dataclass(frozen=True)
class Info:
    """The values in one line `info ...` of a search. None: the line does not have the value."""

    score: Score | None = None  # of the best move only
    nodes: int | None = None
    depth: int | None = None


def parse_info(line: str) -> Info | None:
    """Parses a line `info ...` of a search, whose keys may stand in any order. Returns None for any other line.

    Unknown keys are skipped with their values, and text after `string` is ignored. The word for a bound may stand
    anywhere, also after `wdl` and its numbers.
    """
    if not line.startswith("info"):
        return None
    words = line.split()
    if words[0] != "info":
        return None
    values = _split_by_key(words[1:])
    is_best_line = values.get("multipv", ["1"])[:1] == ["1"]
    score = _parse_score(values) if is_best_line else None
    return Info(score, _parse_number(values, "nodes"), _parse_number(values, "depth"))


def parse_best_move(line: str) -> str | None:
    """Parses a line `bestmove ...`. Returns the move, or None if the engine has none."""
    words = line.split()
    if len(words) < 2 or words[1] in ("(none)", "0000"):
        return None
    return words[1]


def parse_complaint(line: str, settings: Sequence[tuple[str, str]]) -> str | None:
    """Returns the text of a line in which an engine complains of an option, None for any other line.

    A line is a complaint if it has the word error, or says that there is no such option. It is also one if it says that
    something failed, and names an option of `settings` (name, value), its value, or the last part of a value that is a
    path.
    """
    text = " ".join(line.split()).removeprefix("info string ")
    if re.search(r"\b(error|no such option|unknown option)\b", text, re.IGNORECASE):
        return text
    names = {part.lower() for name, value in settings for part in (name, value, value.rpartition("/")[2]) if part}
    has_failed = re.search(
        r"\b(fail(ed|s|ure)?|can ?not|can't|could not|couldn't|unable|not|invalid)\b", text, re.IGNORECASE
    )
    return text if has_failed and any(name in text.lower() for name in names) else None


def _split_by_key(words: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Returns the words that follow each key of an `info` line, up to the next key or `string`."""
    values: dict[str, list[str]] = {}
    values_of_key: list[str] = []
    for word in words:
        if word == "string":
            break
        if word in _BOUNDS:
            values[word] = []
        elif word in _INFO_KEYS:
            values_of_key = values.setdefault(word, [])
        else:
            values_of_key.append(word)
    return values


def _parse_score(values: Mapping[str, Sequence[str]]) -> Score | None:
    """Returns the score of an `info` line, given its values by key, or None if it has none that can be read."""
    words = values.get("score", ())
    if len(words) < 2 or words[0] not in ("cp", "mate"):
        return None
    is_bound = any(bound in values for bound in _BOUNDS)
    try:
        return Score(words[0], int(words[1]), not is_bound)
    except ValueError:
        return None


def _parse_number(values: Mapping[str, Sequence[str]], key: str) -> int | None:
    """Returns the whole number that follows a key of an `info` line, or None."""
    words = values.get(key, ())
    if not words or not re.fullmatch(r"\d{1,18}", words[0]):
        return None
    return int(words[0])
