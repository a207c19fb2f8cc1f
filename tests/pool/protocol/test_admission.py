"""Which messages count (I5): of the living, for this life, each once and none that was overtaken."""

from __future__ import annotations

from pool.protocol.admission import Admission, next_incarnation
from pool.protocol.codec import Envelope
from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.protocol.messages import Hello, Roster, RosterEntry

ME = Peer(COORDINATOR, 0, 2)
WORKER_1 = Peer(WORKER, 1, 5)


def envelope(sender: Peer = WORKER_1, addressee: Peer = ME, sequence: int = 7) -> Envelope:
    return Envelope(sender, addressee, sequence, Hello(1))


def test_a_message_of_the_living_for_this_life_counts_once() -> None:
    admission = Admission(ME, (WORKER_1,))
    assert admission.refusal(envelope()) == ""
    assert "came again or late" in admission.refusal(envelope())
    assert "came again or late" in admission.refusal(envelope(sequence=6))
    assert admission.refusal(envelope(sequence=8)) == ""


def test_who_is_not_known_to_live_is_not_heard() -> None:
    admission = Admission(ME, (WORKER_1,))
    for other in (Peer(WORKER, 1, 4), Peer(WORKER, 1, 6), Peer(WORKER, 2, 5)):
        assert "not alive" in admission.refusal(envelope(sender=other))


def test_what_was_for_another_life_does_not_count() -> None:
    admission = Admission(ME, (WORKER_1,))
    for other in (Peer(COORDINATOR, 0, 1), Peer(COORDINATOR, 0, 3)):
        assert "this is coordinator" in admission.refusal(envelope(addressee=other))


def test_who_stays_alive_is_not_heard_twice_after_a_new_roster() -> None:
    admission = Admission(ME, (WORKER_1,))
    assert admission.refusal(envelope()) == ""
    admission.set_alive((WORKER_1, Peer(WORKER, 2)))
    assert "came again or late" in admission.refusal(envelope())
    admission.set_alive(())
    assert "not alive" in admission.refusal(envelope(sequence=9))


def test_only_a_later_life_is_followed() -> None:
    def roster(incarnation: int) -> Roster:
        return Roster((RosterEntry(WORKER, 0, 9, 100), RosterEntry(COORDINATOR, 0, incarnation, 101)), drain=False)

    assert next_incarnation(ME, roster(3)) == Peer(COORDINATOR, 0, 3)
    assert next_incarnation(ME, roster(2)) is None
    assert next_incarnation(ME, roster(1)) is None
    assert next_incarnation(ME, Roster((), drain=False)) is None
