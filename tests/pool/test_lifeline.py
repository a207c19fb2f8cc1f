"""The socket between the supervisor and a child: who is told what, and how each notices that the other is gone."""

from __future__ import annotations

import signal
from pathlib import Path

from pool import lifeline
from pool.supervisor.child import Child
from tests.support.wait import wait_for


def test_an_answer_of_any_length_arrives_whole() -> None:
    ours, theirs = lifeline.pair()
    with ours, theirs:
        data = bytes(range(256)) * 20_000
        lifeline.answer(theirs, data)
        assert lifeline.take_answer(ours) == data


def test_a_child_that_dies_without_an_answer_gives_none() -> None:
    ours, theirs = lifeline.pair()
    with ours:
        theirs.close()
        assert lifeline.take_answer(ours) is None


def test_a_child_that_dies_before_it_has_read_what_it_was_told_gives_none() -> None:
    """The kernel calls that a reset connection."""
    ours, theirs = lifeline.pair()
    with ours:
        ours.send(b"unread")
        theirs.close()
        assert lifeline.take_answer(ours) is None


def test_a_child_ends_when_the_supervisor_s_end_is_closed(tmp_path: Path) -> None:
    """As it would be if the supervisor died; also before the child was told anything."""
    child = Child(tmp_path / "log")
    child.channel.close()
    wait_for(lambda: (tmp_path / "log").exists(), "a log")
    assert child.end(grace=30) == f"was killed by {signal.SIGKILL.name}"
    assert (tmp_path / "log").read_text() == ""
