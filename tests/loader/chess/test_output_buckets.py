"""Tables of output buckets: those that a batch can be ordered by, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loader.chess.output_buckets import MAX_PIECES, OutputBuckets, buckets_by_pieces, num_buckets

TABLES = TypeAdapter(OutputBuckets)


@given(st.lists(st.booleans(), min_size=MAX_PIECES, max_size=MAX_PIECES))
def test_a_table_that_goes_up_by_one_at_a_time_is_taken(steps: list[bool]) -> None:
    table = [sum(steps[:pieces]) for pieces in range(MAX_PIECES + 1)]
    taken = TABLES.validate_python(table)
    assert buckets_by_pieces(taken) == table
    assert num_buckets(taken) == table[-1] + 1


@pytest.mark.parametrize(
    ("place", "bucket"), [(0, 1), (1, 2), (7, 0), (32, 4), (20, 1)], ids=["first", "leap", "back", "last", "dip"]
)
def test_any_other_is_refused_with_the_number_of_pieces(place: int, bucket: int) -> None:
    """Where the config is read: batches are ordered by bucket, and a native error would not name the key."""
    table = [pieces // 16 for pieces in range(MAX_PIECES + 1)]
    table[5:] = [number + 1 for number in table[5:]]
    table[place] = bucket
    with pytest.raises(ValidationError, match=r"the bucket of [0-9]+ pieces is"):
        TABLES.validate_python(table)
