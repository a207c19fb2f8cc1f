"""The socket between the supervisor and a child: who is told what, and how each notices that the other is gone."""

from __future__ import annotations

from pool.process import lifeline


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


def test_numbers_and_requests_pass_and_the_end_is_told_apart() -> None:
    ours, theirs = lifeline.pair()
    with ours:
        lifeline.request(ours, theirs)
        with lifeline.take_request(theirs) as passed:
            assert passed.family == theirs.family
        lifeline.say(theirs, -11)
        assert lifeline.take_number(ours) == -11
        theirs.close()
        assert lifeline.take_number(ours) is None
        lifeline.request(ours, ours)  # to nobody
