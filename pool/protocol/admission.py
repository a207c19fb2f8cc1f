"""Decides which messages count. Pure: no sockets.

A message counts if its sender is alive, if it is addressed to this incarnation, and if no later message of that sender
has been received. All others are dropped (I5).
"""

from __future__ import annotations

from collections.abc import Iterable

from pool.protocol.codec import Envelope
from pool.protocol.identity import Peer
from pool.protocol.messages import Roster


class Admission:
    """The state of one socket: the peers that count there, and the newest message of each."""

    def __init__(self, me: Peer, alive: Iterable[Peer] = ()) -> None:
        self._me = me
        self._newest = dict.fromkeys(alive, 0)

    def set_alive(self, peers: Iterable[Peer]) -> None:
        """Sets whose messages count from now on."""
        self._newest = {peer: self._newest.get(peer, 0) for peer in peers}

    def refusal(self, envelope: Envelope) -> str:
        """Why a message does not count; empty if it does."""
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
    """The successor of `peer`, if the roster has one."""
    for entry in roster.alive:
        other = Peer(entry.role, entry.index, entry.incarnation)
        if other.place == peer.place and other.incarnation > peer.incarnation:
            return other
    return None
