"""What a step takes at least with one card and with all of them, what bounds it, and what would help. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pool.cost_model.traffic import SCHEMES, Box
from pool.cost_model.work import Work
from pool.device.cards import Speeds

PAYS = 1.1  # times as fast as with one card, at least
_HELPS = 1.2  # times as fast as the step is, per sample, at least
_MOST_BATCHES = 8  # that are proposed for a group


@dataclass(frozen=True)
class Step:
    """Milliseconds, each at least; they run side by side as far as they can."""

    compute: float
    link: float  # of one card: batches, gradients and weights
    host: float  # its memory, or what else all cards share

    @property
    def total(self) -> float:
        return max(self.compute, self.link, self.host)

    @property
    def bound(self) -> str:
        """What takes longest, for "bound by"."""
        words = {"computing": self.compute, "the cards' links": self.link, "the host's memory": self.host}
        return max(words, key=lambda what: words[what])


def step_of(work: Work, speeds: Speeds, box: Box, cards: int, scheme: str) -> Step:
    """`speeds`: of the slowest card."""
    groups = -(-work.batches_per_step // work.batches_per_group)
    used = min(cards, groups)
    rounds = -(-groups // used)
    cost = SCHEMES[scheme](work.load, used, box)
    more = SCHEMES[scheme](replace(work.load, weights=0.0), used, box)  # of each further round: the weights stay
    first, later = cost.milliseconds(box), more.milliseconds(box)
    batches = rounds * work.batches_per_group
    inward = 1e-6 * batches * work.batch / box.link
    return Step(
        compute=batches * work.compute_ms(speeds),
        link=first.link + (rounds - 1) * later.link + inward,
        host=first.host + (rounds - 1) * later.host + 1e-6 * used * batches * work.batch / box.host,
    )


@dataclass(frozen=True)
class Verdict:
    alone: Step  # with one card
    together: Step
    cards: int
    pays: bool
    helps: tuple[str, ...]  # what would make a step faster, most first

    def lines(self) -> Iterator[str]:
        yield f"a step takes at least {_ms(self.together)} with {_cards(self.cards)}"
        if self.cards > 1:
            yield f"with 1 card {_ms(self.alone)}"
        if not self.pays:
            yield f"more than one card will not pay: {self.together.bound} bounds the step"
        if self.helps:
            yield f"would help: {'; '.join(self.helps)}"


def verdict_of(work: Work, speeds: Speeds, box: Box, cards: int, scheme: str) -> Verdict:
    alone, together = (step_of(work, speeds, box, count, scheme) for count in (1, cards))
    pays = cards == 1 or alone.total >= PAYS * together.total
    helps = tuple(_helps(work, speeds, box, cards, scheme)) if together.bound != "computing" else ()
    return Verdict(alone, together, cards, pays, helps)


def _helps(work: Work, speeds: Speeds, box: Box, cards: int, scheme: str) -> Iterator[str]:
    """Changes that make samples pass faster, with the time of as many samples as a step has now."""
    now = step_of(work, speeds, box, cards, scheme).total
    for words, changed, samples in _changes(work, cards):
        then = step_of(changed, speeds, box, cards, scheme).total / samples
        if now >= _HELPS * then:
            yield f"{words} ({then:.1f} ms for as many samples)"


def _changes(work: Work, cards: int) -> Iterator[tuple[str, Work, float]]:
    """Words, the changed work, and how many times the samples a step then has."""
    most = work.load.weights / (2 if work.rounded else 1)  # bytes of a gradient
    k = min(_MOST_BATCHES, max(2 * work.batches_per_group, 4))
    steps = max(work.batches_per_step, k * cards)
    gradient = min(most, k / work.batches_per_group * work.load.gradient)
    grouped = replace(work, batches_per_group=k, batches_per_step=steps, load=replace(work.load, gradient=gradient))
    words = f"train.batches_per_group={k}"
    words += f" with train.batches_per_step={steps}" if steps != work.batches_per_step else ""
    yield words, grouped, steps / work.batches_per_step
    larger = replace(
        work,
        samples=2 * work.samples,
        batch=2 * work.batch,
        gathered=2 * work.gathered,
        operations=2 * work.operations,
        load=replace(work.load, gradient=min(most, 2 * work.load.gradient)),
    )
    yield f"data.batch_size={larger.samples}", larger, 2.0
    if not work.rounded:
        halved = replace(work.load, gradient=work.load.gradient / 2)
        yield "train.gradient_dtype=bfloat16", replace(work, load=halved, rounded=True), 1.0


def _ms(step: Step) -> str:
    parts = f"computing {step.compute:.1f}, links {step.link:.1f}, host's memory {step.host:.1f}"
    return f"{step.total:.1f} ms ({parts})"


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count} cards"
