"""The sockets of a simulated run: messages are lost, repeated, delayed, overtaken, and delivered to whoever has taken
the place of the one they were for. Whether they count there is the real code's to say (`pool.protocol.admission`)."""

from __future__ import annotations

import random

from pool.protocol.codec import Envelope
from pool.protocol.identity import SUPERVISOR, Peer
from pool.protocol.messages import Message

Place = tuple[str, int]

HIGH_WATER = 40  # messages that wait at one socket; the oldest beyond are lost


class Network:
    def __init__(self, draw: random.Random, loss: float) -> None:
        self._draw = draw.random
        self._loss = loss
        self._sequence = 0
        self._waiting: dict[tuple[Place, bool], list[Envelope]] = {}  # by addressee, and whether the supervisor's

    def send(self, sender: Peer, addressee: Peer, message: Message) -> None:
        self._sequence += 1
        waiting = self._waiting.setdefault((addressee.role_index, sender.role == SUPERVISOR), [])
        waiting.append(Envelope(sender, addressee, self._sequence, message))
        if len(waiting) > HIGH_WATER:
            del waiting[0]

    def receive(self, place: Place, *, from_supervisor: bool) -> Envelope | None:
        waiting = self._waiting.get((place, from_supervisor))
        if not waiting:
            return None
        if not self._loss:
            return waiting.pop(0)
        chance = self._draw()
        if chance < self._loss:
            del waiting[0]
            return None
        if chance < 2 * self._loss:
            return waiting[0]  # and comes again
        if chance < 3 * self._loss:
            return waiting.pop(int(self._draw() * len(waiting)))
        return waiting.pop(0)

    def cut(self, place: Place) -> None:
        """The process is dead: some of what waits for it is lost, the rest comes to its successor."""
        for key, waiting in self._waiting.items():
            if key[0] == place:
                waiting[:] = [envelope for envelope in waiting if self._draw() < 0.5]
