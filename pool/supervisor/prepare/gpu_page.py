"""What is said of a run's GPUs before it begins: on the page of `--check` all, at the start what should be changed."""

from __future__ import annotations

from collections.abc import Iterator

from pool.cost_model.choice import choice_of
from pool.cost_model.traffic import SCHEMES, Box
from pool.cost_model.verdict import Verdict, verdict_of
from pool.cost_model.work import Work, work_of
from pool.device.cards import Card, Speeds
from pool.device.names import parse_device
from pool.supervisor.prepare.memory_plan import mib
from pool.supervisor.prepare.run_plan import RunPlan

_GIB = 1 << 30
_SLOW = 0.7  # of a link's own speed: below it something else slows copies


def gpu_lines(run: RunPlan) -> Iterator[tuple[str, str]]:
    """Names and values of the page's lines; none without GPUs."""
    cards = run.planned.cards
    if not cards and not run.planned.missing:
        return
    module = run.config.testing.device_module
    accelerators = {spec for spec in run.planned.devices if parse_device(spec, module).is_accelerator}
    for card in cards:
        yield card.device, _identity(card)
        yield "", _measured(card)
        if card.kernels:
            yield "", f"kernels: {card.kernels}"
    choice, work = choice_of(run.planned.exchange), _work(run)
    yield "exchange", f"{choice.scheme}: {choice.why}"
    yield "bytes of a step", _bytes(work, len(accelerators), choice.scheme)
    for line in _verdict_lines(run):
        yield "", line


def gpu_notes(run: RunPlan) -> Iterator[str]:
    """One line for each thing that its user may want to change."""
    cards = run.planned.cards
    for card in cards:
        if card.problem:
            yield f"{card.device}: {card.problem}"
        if not card.page_locked:
            yield (
                f"{card.device}: memory can't be page-locked, so copies are slow and make the host wait; "
                "in a container: --ulimit memlock=-1"
            )
    found = _verdict(run)
    if found is not None and not found.pays:
        yield "; ".join(found.lines())


def slowest(cards: tuple[Card, ...]) -> Speeds | None:
    """Of each speed the lowest; None unless all were measured."""
    found = [card.speeds for card in cards if card.speeds is not None]
    if not found or len(found) < len(cards):
        return None
    return Speeds(*(min(getattr(speeds, name) for speeds in found) for name in Speeds.__dataclass_fields__))


def _work(run: RunPlan) -> Work:
    train, planned = run.config.train, run.planned
    slot_plan = run.layout.slot_plan
    return work_of(planned.plan, slot_plan, planned.schema, train.batches_per_step, train.batches_per_group)


def _verdict(run: RunPlan) -> Verdict | None:
    """None if something was not measured."""
    cards = run.planned.cards
    if run.planned.missing or (speeds := slowest(cards)) is None:
        return None
    box = Box(link=min(speeds.inward, speeds.outward), host=speeds.host, memory=speeds.memory)
    return verdict_of(_work(run), speeds, box, len(cards), choice_of(run.planned.exchange).scheme)


def _verdict_lines(run: RunPlan) -> Iterator[str]:
    found = _verdict(run)
    if found is None:
        yield "how long a step takes is not known: not every card could be measured"
    else:
        yield from found.lines()


def _identity(card: Card) -> str:
    capability = f", compute capability {card.capability}" if card.capability else ""
    link = f", {card.link}" if card.link is not None else ""
    peers = f"; may use the memory of {', '.join(card.peers)}" if card.peers else ""
    return f"{card.name}, {card.nbytes / _GIB:.0f} GiB, {card.free / _GIB:.1f} free{capability}{link}{peers}"


def _measured(card: Card) -> str:
    if card.speeds is None:
        return f"not measured: {card.problem}"
    speeds = card.speeds
    locked = "page-locked memory" if card.page_locked else "memory that could not be page-locked"
    text = (
        f"copies from {locked}: {speeds.inward:.3g} GB/s in, {speeds.outward:.3g} out; own memory {speeds.memory:.3g} "
        f"GB/s; dense products {speeds.products / 1000:.3g} TFLOP/s"
    )
    if card.link is not None and min(speeds.inward, speeds.outward) < _SLOW * card.link.speed:
        text += "; the link should give more"
    return text


def _bytes(work: Work, cards: int, scheme: str) -> str:
    """At most, since it depends on the data how many rows a batch touches."""
    groups = -(-work.batches_per_step // work.batches_per_group)
    used = min(cards, groups)
    rounds = -(-groups // used)
    cost = SCHEMES[scheme](work.load, used, Box(1.0, 1.0, 1.0))
    batches = rounds * work.batches_per_group
    return (
        f"at most; a card: {batches} x {mib(work.batch)} of batches and {mib(int(work.load.weights))} of weights in, "
        f"{rounds} x {mib(int(work.load.gradient))} of gradients out; the host's memory: {mib(int(cost.host))}"
    )
