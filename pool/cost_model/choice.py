"""Which exchange a run's gradients and weights take, in the words of the model of its cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pool.exchange.exchange_choice import Exchange


@dataclass(frozen=True)
class Choice:
    scheme: str  # a name of `pool.cost_model.traffic.SCHEMES`
    why: str


def choice_of(exchange: Exchange) -> Choice:
    """`exchange`: that the planner has chosen."""
    if len(exchange.devices) > 1:
        return Choice("rows shared out", f"each of {exchange.where} adds up and steps a share of the weights' rows")
    if exchange.on_device:
        proof = f"; {exchange.why}" if exchange.why else ""
        return Choice("device", f"sums, optimizer and weights lie on {exchange.where}{proof}")
    return Choice("host", exchange.why or "sums, optimizer and weights are the host's (pool.exchange)")
