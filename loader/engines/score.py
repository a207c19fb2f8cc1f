"""Scores as an engine prints them, and in the internal units that training data hold. Pure."""

from __future__ import annotations

MATE = 32000  # internal value of being mated now; one less for each ply until then
MATES = 1000  # plies that are told apart; all other scores stay below MATE - MATES


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
