"""What is simulated: the shape of a run and what goes wrong in it, all of it a function of one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from pool.coordinator.books.rules import Rules

VALIDATION_SLOTS = 2


@dataclass(frozen=True)
class Setup:
    rules: Rules
    workers: int
    ring_slots: int
    disasters: int = 0  # processes killed or frozen in the run
    loss: float = 0.0  # share of messages lost; as many are repeated, as many overtaken
    unsound: frozenset[int] = frozenset()  # batches whose gradient is not finite
    deadly: frozenset[int] = frozenset()  # batches that nobody survives who computes them
    raising: frozenset[int] = frozenset()  # batches that always raise an exception
    flaky: float = 0.0  # share of the others that raise one
    snapshot_every: int = 1  # steps
    checkpoint_every: int = 3
    drain_at: int = 0  # scheduler step; 0: never
    early_stopping: int | None = None  # validations without improvement; higher values are better
    says_once: bool = False  # nothing is said again: a run in which nothing is lost needs no second time

    @property
    def bad(self) -> frozenset[int]:
        """Batches that can take part in no step."""
        return self.unsound | self.deadly | self.raising


def setup_of(seed: int) -> Setup:
    """Small runs of every shape: what goes wrong in them goes wrong at the borders of steps and slots."""
    draw = random.Random(seed)
    batches = draw.choice((1, 2, 2, 3, 4))
    steps = draw.randint(2, 5)
    rules = Rules(
        steps=steps,
        batches_per_step=batches,
        num_buckets=draw.choice((1, 2, 2, 3)),
        gradient_slots=draw.choice((1, 2, 3)),
        has_buffers=draw.random() < 0.5,
        validate_every=draw.choice((0, 0, 2)),
        validation_batches=3,
        on_bad_batch="skip",
    )
    strange = draw.sample(range(steps * batches), 2)
    setup = Setup(
        rules,
        workers=draw.choice((1, 2, 2, 3)),
        ring_slots=batches + draw.randint(0, batches + 2),
        disasters=draw.choice((0, 1, 2, 3, 4, 6)),
        loss=draw.choice((0.0, 0.02, 0.1)),
        unsound=frozenset(strange[:1] if draw.random() < 0.2 else ()),
        deadly=frozenset(strange[1:] if draw.random() < 0.05 else ()),
        snapshot_every=draw.choice((1, 2, 3)),
        checkpoint_every=draw.choice((2, 3)),
        drain_at=draw.randint(1, 1500) if draw.random() < 0.1 else 0,
    )
    if draw.random() < 0.3:
        setup = replace(setup, rules=replace(rules, on_bad_batch="stop"))
    if draw.random() < 0.1:
        setup = replace(setup, disasters=0, loss=0.0, deadly=frozenset(), says_once=True)
    elif draw.random() < 0.1:
        setup = replace(setup, raising=frozenset(strange[:1]), flaky=draw.choice((0.0, 0.1, 0.3)))
    if draw.random() > 0.9:
        many = draw.choice((5, 6, 7, 8))
        setup = replace(setup, rules=replace(setup.rules, batches_per_step=many), ring_slots=many + draw.randint(0, 6))
    if setup.rules.validate_every:
        collects, every = draw.random() < 0.7, draw.choice((1, 2))
        setup = replace(setup, rules=replace(setup.rules, collects=collects, validate_every=every))
        if collects:
            setup = replace(setup, early_stopping=draw.choice((None, 1, 1, 2)))
    return setup
