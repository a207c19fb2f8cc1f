"""Lines of the UCI protocol: the options an engine offers, the commands that set them, the scores it prints. Pure.

Training data hold scores in internal units; an engine prints centipawns, or moves to mate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KINDS = ("check", "spin", "combo", "button", "string")
MATE = 32000  # internal value of being mated now; one less for each ply until then
MATES = 1000  # plies that are told apart; all other scores stay below MATE - MATES


@dataclass(frozen=True)
class Option:
    """One line `option name ... type ...` of an engine."""

    name: str
    kind: str  # of KINDS
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


def parse_option(line: str) -> Option | None:
    """None for any other line."""
    match = re.fullmatch(r"option\s+name\s+(.+?)\s+type\s+(\w+)(.*)", line.strip())
    if match is None or match[2] not in KINDS:
        return None
    name, kind, rest = match.groups()
    bounds = {key: int(value) for key, value in re.findall(r"\b(min|max)\s+(-?\d{1,18})\b", rest)}
    choices = tuple(choice.strip() for choice in re.split(r"\bvar\b", rest)[1:]) if kind == "combo" else ()
    return Option(name, kind, bounds.get("min"), bounds.get("max"), choices)


def parse_setting(text: str) -> tuple[str, str]:
    """NAME=VALUE, or the NAME of a button. Raises ValueError."""
    name, _, value = text.partition("=")
    if not text.isprintable() or not name.strip():
        raise ValueError(f"{text!r}: an option is given as NAME=VALUE")
    return name.strip(), value.strip()


def setoption(offered: Sequence[Option], name: str, value: str) -> str:
    """The `setoption` line. Raises ValueError if the engine has no such option, or not with that value."""
    by_name: Mapping[str, Option] = {option.name.lower(): option for option in offered}
    option = by_name.get(name.lower())
    if option is None:
        names = ", ".join(sorted(option.name for option in offered)) or "none"
        raise ValueError(f"there is no option {name}; there are: {names}")
    if fault := _fault(option, value):
        raise ValueError(f"option {option.name}: {fault}")
    return f"setoption name {option.name}" + ("" if option.kind == "button" else f" value {value}")


def _fault(option: Option, value: str) -> str:
    """Why the value can't be, or an empty text."""
    match option.kind:
        case "check" if value.lower() not in ("true", "false"):
            return f"true or false, not {value!r}"
        case "combo" if value.lower() not in [choice.lower() for choice in option.choices]:
            return f"one of {', '.join(option.choices)}, not {value!r}"
        case "button" if value:
            return f"a button takes no value, such as {value!r}"
        case "spin":
            low, high = option.minimum, option.maximum
            number = int(value) if re.fullmatch(r"-?\d{1,18}", value) else None
            if number is None or (low is not None and number < low) or (high is not None and number > high):
                return f"a number from {low} to {high}, not {value!r}"
    return ""


def internal_score(kind: str, value: int, units_per_100cp: int) -> int:
    """A UCI score in internal units: centipawns scaled and rounded, mates as 32000 minus the plies to go."""
    if kind == "mate":
        plies = min(2 * value - 1 if value > 0 else -2 * value, MATES - 1)
        return MATE - plies if value > 0 else -MATE + plies
    scaled = (2 * abs(value) * units_per_100cp + 100) // 200
    limit = MATE - MATES
    return min(scaled, limit) if value >= 0 else -min(scaled, limit)


def parse_score(line: str) -> tuple[str, int, bool] | None:
    """Kind (cp or mate), value and whether it is exact, of an `info` line about the best move; None for others."""
    words = line.split()
    if words[:1] != ["info"] or words[1:2] == ["string"]:  # a string is free text
        return None
    try:
        at = words.index("score")
        kind, value = words[at + 1], int(words[at + 2])
    except (ValueError, IndexError):
        return None
    if "multipv" in words[:at] and words[words.index("multipv") + 1] != "1":
        return None
    bound = words[at + 3 : at + 4] in (["lowerbound"], ["upperbound"])
    return (kind, value, not bound) if kind in ("cp", "mate") else None
