"""The socket between the supervisor and a child: who is told what, and how each notices that the other is gone."""

from __future__ import annotations

from pool.process import lifeline


def test_an_answer_of_any_length_arrives_whole() -> None:
    ours, theirs = lifeline.create_pair()
    with ours, theirs:
        data = bytes(range(256)) * 20_000
        lifeline.send_answer(theirs, data)
        assert lifeline.receive_answer(ours) == data


def test_a_child_that_dies_without_an_answer_gives_none() -> None:
    ours, theirs = lifeline.create_pair()
    with ours:
        theirs.close()
        assert lifeline.receive_answer(ours) is None


def test_a_child_that_dies_before_it_has_read_what_it_was_told_gives_none() -> None:
    """The kernel calls that a reset connection."""
    ours, theirs = lifeline.create_pair()
    with ours:
        ours.send(b"unread")
        theirs.close()
        assert lifeline.receive_answer(ours) is None


def test_numbers_and_requests_pass_and_the_end_is_told_apart() -> None:
    ours, theirs = lifeline.create_pair()
    with ours:
        lifeline.send_request(ours, theirs)
        with lifeline.receive_request(theirs) as passed:
            assert passed.family == theirs.family
        lifeline.send_number(theirs, -11)
        assert lifeline.receive_number(ours) == -11
        theirs.close()
        assert lifeline.receive_number(ours) is None
        lifeline.send_request(ours, ours)  # to nobody
