"""What is simulated: the shape of a run and what goes wrong in it, all of it a function of one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from pool.checkpoint.plateau import ReduceOnPlateau
from pool.checkpoint.validations import Goal
from pool.config.average import AverageConfig
from pool.coordinator.scheduler.rules import Rules
from pool.metrics.validation_pass import ValidationPass

VALIDATION_SLOTS = 2
NO_AVERAGE = AverageConfig()
GOAL = Goal("metric", "max")
OF_MEMBERS = (0, 2, 4)  # seeds with these last digits have several members
GROUPED = (3, 4, 5)  # seeds with these last digits but one have groups of several batches
LOSING = (1, 4, 6, 9)  # seeds with these last digits but two lose workers for good


@dataclass(frozen=True)
class Setup:
    rules: Rules
    workers: int
    ring_slots: int
    disasters: int = 0  # processes killed or frozen in the run
    loss: float = 0.0  # share of messages lost; as many are repeated, as many overtaken
    unsound: frozenset[tuple[int, int]] = frozenset()  # (member, batch) whose gradient is not finite
    deadly: frozenset[int] = frozenset()  # batches that nobody survives who computes them
    raising: frozenset[int] = frozenset()  # batches that always raise an exception
    flaky: float = 0.0  # share of the others that raise one
    snapshot_every: int = 1  # steps
    checkpoint_every: int = 3
    drain_at: int = 0  # scheduler step; 0: never
    lost: frozenset[int] = frozenset()  # workers that nobody starts again after their last life
    lives: int = 1  # that these have
    average: AverageConfig = NO_AVERAGE
    one_process: bool = False  # the only worker dies with the coordinator
    says_once: bool = False  # nothing is said again: a run in which nothing is lost needs no second time

    @property
    def members(self) -> range:
        return range(self.rules.members)

    def is_bad(self, member: int, batch: int) -> bool:
        """The batch can take part in no step of that member."""
        return (member, batch) in self.unsound or batch in self.deadly or batch in self.raising

    def buckets_of(self, member: int) -> list[int]:
        return [bucket for bucket in range(self.rules.num_buckets) if self.member_of(bucket) == member]

    def member_of(self, bucket: int) -> int:
        return self.rules.member_of[bucket]


def setup_of(seed: int) -> Setup:
    """Small runs of every shape: what goes wrong in them goes wrong at the borders of steps and slots."""
    draw = random.Random(seed)
    batches = draw.choice((1, 2, 2, 3, 4))
    steps = draw.randint(2, 5)
    rules = Rules(
        steps=steps,
        batches_per_step=batches,
        member_of=(0,) * draw.choice((1, 2, 2, 3)),
        gradient_slots=draw.choice((1, 2, 3)),
        has_buffers=draw.random() < 0.5,
        validate_every=draw.choice((0, 0, 2)),
        validation=ValidationPass(3, 1),
        on_bad_batch="skip",
    )
    strange = draw.sample(range(steps * batches), 2)
    setup = Setup(
        rules,
        workers=draw.choice((1, 2, 2, 3)),
        ring_slots=batches + draw.randint(0, batches + 2),
        disasters=draw.choice((0, 1, 2, 3, 4, 6)),
        loss=draw.choice((0.0, 0.02, 0.1)),
        unsound=frozenset((0, batch) for batch in strange[:1] if draw.random() < 0.2),
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
            rules = replace(setup.rules, goal=GOAL, early_stopping=draw.choice((None, 1, 1, 2)))
            setup = replace(setup, rules=rules)
    if seed % 2:
        setup = replace(setup, average=AverageConfig(kind="ema", start=seed // 2 % 3, every=1 + seed // 8 % 2))
    if seed % 10 in OF_MEMBERS:
        setup = _of_members(setup, draw)
    if seed // 10 % 10 in GROUPED:
        setup = _grouped(setup, draw)
    if setup.rules.collects and seed // 7 % 2:
        setup = _on_plateaus(setup, patience=seed // 14 % 2)
    if seed // 100 % 10 in LOSING:
        return _losing(setup, draw)
    return replace(setup, one_process=setup.workers == 1 and not setup.flaky and seed // 2 % 2 == 0)


def _on_plateaus(setup: Setup, patience: int) -> Setup:
    """The same, but learning rates are reduced by validations; of several members not those of the last."""
    rule = ReduceOnPlateau(GOAL, patience, factor=0.5, min_lr=0.0, threshold=0.0, cooldown=0)
    others = len(setup.members) - 1
    plateaus = (rule,) * others + (None,) if others else (rule,)
    return replace(setup, rules=replace(setup.rules, plateaus=plateaus))


def _grouped(setup: Setup, draw: random.Random) -> Setup:
    """The same in groups, of which a batch may be bad."""
    rules = setup.rules
    rules = replace(rules, batches_per_group=draw.randint(2, max(2, rules.batches_per_step)))
    return replace(setup, rules=rules)


def _losing(setup: Setup, draw: random.Random) -> Setup:
    """The same with more workers, of which at least one remains, and more deaths; with longer steps and few slots, all
    of which the others may have filled when one is lost."""
    workers, rules = draw.choice((2, 3, 3, 4)), setup.rules
    batches = min(8, rules.batches_per_step + draw.choice((1, 2, 4)))
    setup = replace(setup, workers=workers, ring_slots=setup.ring_slots + batches - rules.batches_per_step)
    return replace(
        setup,
        rules=replace(rules, batches_per_step=batches, gradient_slots=draw.choice((1, 1, 2))),
        disasters=setup.disasters + draw.choice((2, 4, 6)) if setup.disasters else 0,
        lost=frozenset(draw.sample(range(workers), draw.randint(1, workers - 1))),
        lives=draw.choice((1, 1, 2)),
    )


def _of_members(setup: Setup, draw: random.Random) -> Setup:
    """The same with several members, which have buckets of their own; batches are bad for some of them, more often. A
    member may be frozen early, and coordinators die after that."""
    members, rules = draw.choice((2, 2, 3)), setup.rules
    member_of = tuple(member for member in range(members) for _ in range(draw.choice((1, rules.num_buckets))))
    rules = replace(rules, member_of=member_of, steps=rules.steps + draw.choice((0, 3)))
    batches = range(rules.steps * rules.batches_per_step)
    early = range(draw.choice((2 * rules.batches_per_step, len(batches))))
    stop = rules.on_bad_batch == "stop"
    spoilt = range(1 if stop and draw.random() < 0.5 else 0, members)
    pairs = [(member, batch) for member in spoilt for batch in early]
    unsound = draw.sample(pairs, min(len(pairs), draw.choice((1, 2, 3) if stop else (0, 0, 1, 1, 2, 3))))
    disasters = setup.disasters + draw.choice((0, 2, 4)) if setup.disasters else 0
    return replace(setup, rules=rules, unsound=frozenset(unsound), disasters=disasters)
