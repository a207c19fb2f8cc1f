"""A model of what a step moves, per scheme of exchange: bytes, and the milliseconds that these take at least. Pure.

Each card computes one group of batches, then gradients travel, are added up and stepped with dense Adam, and the next
version of the weights travels. Counted are the busiest card's link to the others, the host's memory, and the busiest
card's own memory. They work side by side, so a step takes at least the largest of the three, and the computation.

Of a card's own memory only the exchange's part is counted: adding up, and the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

_ADAM = 6  # times the weights: Adam reads weights, gradient and both moments, and writes weights (the next) and moments


@dataclass(frozen=True)
class Load:
    """Bytes."""

    weights: float  # of a version
    gradient: float  # that one card hands over, in the type that travels: of tables the touched rows


@dataclass(frozen=True)
class Box:
    """Speeds of a machine, GB/s as they can be had, not as they are printed."""

    link: float  # of a card with the host, each way
    host: float  # of the host's memory, reads and writes together
    memory: float  # of a card's own
    peer: float = 0.0  # of a card with the other cards, each way, if they may use one another's memory; 0: they may not


@dataclass(frozen=True)
class Cost:
    """Bytes of a step; `link`: of the busiest card."""

    link: float
    host: float
    memory: float
    over_peers: bool = False  # the link is that between cards

    def milliseconds(self, box: Box) -> Milliseconds:
        link = box.peer if self.over_peers else box.link
        return Milliseconds(*(1e-6 * nbytes / speed for nbytes, speed in (
            (self.link, link), (self.host, box.host), (self.memory, box.memory)
        )))  # fmt: skip


@dataclass(frozen=True)
class Milliseconds:
    link: float
    host: float
    memory: float

    @property
    def largest(self) -> float:
        return max(self.link, self.host, self.memory)


def through_host(load: Load, cards: int) -> Cost:
    """Slots and weights in the host's memory, Adam on its processor."""
    return Cost(
        link=load.gradient + load.weights,
        host=2 * cards * load.gradient + _ADAM * load.weights + cards * load.weights,
        memory=0.0,
    )


def on_first_card(load: Load, cards: int, *, peers: bool = False) -> Cost:
    """Weights, moments and sums on the first card, Adam there; others reach it through slots in the host's memory, or
    directly where they are peers."""
    others = cards - 1
    inward, outward = others * load.gradient, others * load.weights
    memory = cards * load.gradient + _ADAM * load.weights
    if peers:
        return Cost(max(inward, outward), 0.0, memory, over_peers=True)
    version = load.weights if others else 0.0  # it is written once, and each of the others reads it
    return Cost(
        link=max(inward, version) + version,
        host=2 * inward + version + others * load.weights,
        memory=memory,
    )


def shared_out(load: Load, cards: int, *, peers: bool = False) -> Cost:
    """Each card has a share of the rows, adds it up and steps it, and gives it to all."""
    others = cards - 1
    travels = others / cards * (load.gradient + load.weights)
    memory = load.gradient + _ADAM * load.weights / cards
    if peers:
        return Cost(travels, 0.0, memory, over_peers=True)
    version = load.weights if others else 0.0
    return Cost(
        link=travels,
        host=others * load.gradient + version + others * (load.gradient + load.weights),
        memory=memory,
    )


SCHEMES: Mapping[str, Callable[[Load, int, Box], Cost]] = {
    "host": lambda load, cards, _: through_host(load, cards),
    "device": lambda load, cards, box: on_first_card(load, cards, peers=box.peer > 0 and cards > 1),
    "rows shared out": lambda load, cards, box: shared_out(load, cards, peers=box.peer > 0 and cards > 1),
}


def touched_by(share: float, batches: int) -> float:
    """The share of a table's rows that a group of batches touches, if each touches `share` of them independently."""
    return 1.0 - (1.0 - share) ** batches
