"""Members in the lines that a user reads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loader.stream.interface import Cursor
from pool.coordinator.bad_batches import _describe_consequence
from pool.coordinator.scheduler.actions import BadBatch
from pool.metrics.medians import format_members


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ((3,), "member 3"),
        ((0, 1), "members 0, 1"),
        ((9, 1, 2, 3, 5), "members 1 to 3, 5, 9"),
        (range(256), "members 0 to 255"),
    ],
)
def test_members_are_named_in_few_words(members: Sequence[int], said: str) -> None:
    assert format_members(members) == said


@pytest.mark.parametrize(
    ("members", "freezes", "said"),
    [
        ((), (), "it is left out"),
        ((4,), (), "it is left out for this member"),
        ((4, 5), (), "it is left out for these members"),
        ((4,), (4,), "the member keeps the weights of step 2, the others go on"),
        ((4, 5), (4, 5), "these members keep the weights of step 2, the others go on"),
        ((), (5,), "it is left out; member 5 keeps the weights of step 2, the others go on"),
        (
            (4, 5, 6),
            (4, 5),
            "it is left out for these members; members 4, 5 keep the weights of step 2, the others go on",
        ),
    ],
)
def test_what_follows_from_a_bad_batch_is_said(members: tuple[int, ...], freezes: tuple[int, ...], said: str) -> None:
    assert (
        _describe_consequence(BadBatch(2, 8, "", Cursor(), is_fatal=False, members=members, frozen_members=freezes))
        == said
    )
