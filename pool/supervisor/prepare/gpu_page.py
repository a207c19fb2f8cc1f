"""Describes a run's GPUs before it begins: completely on the page of `pool check`, at a start only what should be
changed."""

from __future__ import annotations

from collections.abc import Iterator

from pool.device.cards import Card
from pool.exchange.exchange_choice import Exchange
from pool.supervisor.prepare.run_plan import RunPlan

_GIB = 1 << 30
_HOST = "sums, optimizer and weights are the host's (pool.exchange)"


def gpu_lines(run: RunPlan) -> Iterator[tuple[str, str]]:
    """Yields names and values of the page's lines about GPUs. Nothing if the run uses no GPU."""
    cards = run.planned.cards
    if not cards and not run.planned.missing:
        return
    for card in cards:
        yield card.device, _describe_card(card)
        if card.problem:
            yield "", card.problem
        if card.kernels is not None:
            none = "" if card.kernels.available else "none, torch's own operations serve: "
            yield "", f"kernels: {none}{card.kernels.description}"
    yield "exchange", describe_exchange(run.planned.exchange)


def gpu_notes(run: RunPlan) -> Iterator[str]:
    """Yields a line for each property of a GPU that the user may want to change."""
    for card in run.planned.cards:
        if card.problem:
            yield f"{card.device}: {card.problem}"
        if card.kernels is not None and not card.kernels.available and run.config.pool.own_kernels:
            yield f"{card.device}: torch's own operations compute there, which is slower: {card.kernels.description}"
        if not card.page_locked:
            yield (
                f"{card.device}: memory can't be page-locked, so copies are slow and make the host wait; "
                "in a container: --ulimit memlock=-1"
            )


def describe_exchange(exchange: Exchange) -> str:
    """Describes where gradients and weights lie, and why there."""
    if not exchange.on_device:
        return f"host: {exchange.reason or _HOST}"
    proof = f"; {exchange.reason}" if exchange.reason else ""
    if len(exchange.devices) > 1:
        return f"rows shared out: each of {exchange.place_name} adds up and steps a share of the weights' rows{proof}"
    if exchange.one_process:
        return f"local: sums, optimizer and weights lie on {exchange.place_name}, its worker's process has them{proof}"
    return f"device: sums, optimizer and weights lie on {exchange.place_name}{proof}"


def _describe_card(card: Card) -> str:
    """Describes a GPU in a line: name, memory, capability, the GPUs whose memory it can use."""
    capability = f", compute capability {card.capability}" if card.capability else ""
    peers = f"; may use the memory of {', '.join(card.peers)}" if card.peers else ""
    locked = "" if card.page_locked else "; memory can't be page-locked"
    return f"{card.name}, {card.nbytes / _GIB:.0f} GiB, {card.free / _GIB:.1f} free{capability}{peers}{locked}"
