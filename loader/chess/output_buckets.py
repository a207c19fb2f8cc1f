"""Rules that choose a network's output bucket (one of several output layers) for a position by its number of pieces."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from loader.section import as_tuple

MAX_PIECES = 32
_BY_NAME = "^(single|stockfish|material_count_([2-8]|11|16))$"
_MAX_BUCKET = 63


def _check_table(rule: str | tuple[int, ...]) -> str | tuple[int, ...]:
    """Checks a rule that is a table of buckets. Raises ValueError unless it has 33 numbers that begin with 0 and ascend
    by at most 1. A rule that is a name passes."""
    if isinstance(rule, str):
        return rule
    if len(rule) != MAX_PIECES + 1:
        raise ValueError(f"{len(rule)} numbers; {MAX_PIECES + 1} are expected, for 0 to {MAX_PIECES} pieces")
    for pieces, (before, bucket) in enumerate(pairwise((0, *rule))):
        if bucket != before and (bucket != before + 1 or pieces == 0):
            raise ValueError(
                f"the bucket of {pieces} pieces is {bucket}; buckets begin with 0, and each is that of a piece less or "
                "the next"
            )
    return rule


OutputBuckets = Annotated[
    Annotated[str, Field(pattern=_BY_NAME)] | tuple[Annotated[int, Field(ge=0, le=_MAX_BUCKET)], ...],
    BeforeValidator(as_tuple),
    AfterValidator(_check_table),
]


def buckets_by_pieces(rule: str | tuple[int, ...]) -> list[int]:
    """Returns the output bucket for each number of pieces, 33 numbers for 0 to 32 pieces, kings included. Piece counts
    that no position has get bucket 0.

    A rule that is a table is returned as a list. "single": all 0. "stockfish": (pieces - 1) / 4, 8 buckets.
    "material_count_N": (pieces - 2) / ceil(32 / N), as bullet's MaterialCount<N>. With an N that is not allowed, some
    buckets would have no position.
    """
    if not isinstance(rule, str):
        return list(rule)
    counts = range(MAX_PIECES + 1)
    if rule == "single":
        return [0] * len(counts)
    if rule == "stockfish":
        return [max(0, pieces - 1) // 4 for pieces in counts]
    width = math.ceil(MAX_PIECES / int(rule.removeprefix("material_count_")))
    return [max(0, pieces - 2) // width for pieces in counts]


def num_buckets(rule: str | tuple[int, ...]) -> int:
    """Returns the number of output buckets of a rule."""
    return max(buckets_by_pieces(rule)) + 1


def format_output_buckets(rule: str | tuple[int, ...]) -> str:
    """Returns the rule for people: its name, or the numbers of its table."""
    return rule if isinstance(rule, str) else " ".join(map(str, rule))
