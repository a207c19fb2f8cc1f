"""Decides which messages a socket accepts, without sockets of its own.

A message is accepted if its sender is alive, if it is addressed to this incarnation (this process, not an earlier one
of the same role), and if no later message of that sender was received. All others are dropped (I5).
"""

from __future__ import annotations

from collections.abc import Iterable

from pool.protocol.codec import Envelope
from pool.protocol.identity import Peer
from pool.protocol.messages import Roster


class Admission:
    """Holds the state of one socket: the peers whose messages are accepted, and the newest sequence number of each."""

    def __init__(self, me: Peer, alive: Iterable[Peer] = ()) -> None:
        self._me = me
        self._newest = dict.fromkeys(alive, 0)

    def set_alive(self, peers: Iterable[Peer]) -> None:
        """Sets the peers whose messages are accepted from now on."""
        self._newest = {peer: self._newest.get(peer, 0) for peer in peers}

    def refusal(self, envelope: Envelope) -> str:
        """Returns the reason to drop a message, or an empty string if the message is accepted. An accepted message
        becomes the newest of its sender."""
        sender = envelope.sender
        if sender not in self._newest:
            return f"{type(envelope.message).__name__} from {sender}, which is not alive"
        if envelope.addressee != self._me:
            return f"{type(envelope.message).__name__} for {envelope.addressee}, this is {self._me}"
        if envelope.sequence <= self._newest[sender]:
            return f"{type(envelope.message).__name__} of {sender} came again or late"
        self._newest[sender] = envelope.sequence
        return ""


def next_incarnation(peer: Peer, roster: Roster) -> Peer | None:
    """Returns the restarted process that replaces `peer`, or None if the roster has none."""
    for entry in roster.alive:
        other = Peer(entry.role, entry.index, entry.incarnation)
        if other.role_index == peer.role_index and other.incarnation > peer.incarnation:
            return other
    return None
