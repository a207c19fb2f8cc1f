"""The planner's answer: what the supervisor can't find out without torch, or why the run is impossible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.stream.schema import BatchSchema
from pool.device.cards import Card
from pool.exchange.exchange_choice import HOST, Exchange
from pool.exchange.layout import joined
from pool.exchange.plan import Plan
from pool.metrics.layout import Measured
from pool.protocol.messages import Purpose


@dataclass(frozen=True)
class LearningRates:
    """Learning rates of the steps that a run has to do, as the schedule alone makes them."""

    first: float
    middle: float
    last: float
    low_from: int | None = None  # the step from which it is below a millionth of the highest before it, if it falls so


@dataclass(frozen=True)
class Planned:
    """The planner's findings, which the supervisor makes the documents of all other processes from
    (`pool.supervisor.prepare.run_plan`)."""

    schema: BatchSchema
    plans: tuple[Plan, ...]  # of each member
    measured: Measured  # by the task, in validations
    num_chunks: Mapping[Purpose, int]  # of each stream whose chunks are compared
    devices: tuple[str, ...]  # one a worker, `auto` resolved
    device_names: tuple[str, ...]  # what each of them is, for people
    state_nbytes: int  # of weights and optimizer state: one snapshot
    fingerprint: Mapping[str, str]  # of what the run's bits depend on
    on_meta: bool = False  # models are built without numbers: they are too large for every process to draw them
    rates: tuple[LearningRates | None, ...] = ()  # of each member; None: the schedule has too many steps to compute it
    about_devices: tuple[str, ...] = ()  # lines for the user: what `auto` is here, devices that are not used
    missing: str = ""  # why the run can't be on this machine, which lacks devices: of a run that is only checked
    exchange: Exchange = HOST
    cards: tuple[Card, ...] = ()  # the GPUs among `devices`, each once

    @property
    def plan(self) -> Plan:
        """The plan of all members' parameters."""
        return joined(self.plans)

    def card(self, device: str) -> Card | None:
        return next((card for card in self.cards if card.device == device), None)


@dataclass(frozen=True)
class Accepted:
    planned: Planned
    sizes: Mapping[Purpose, tuple[int, ...]]  # bytes of each file that are read


@dataclass(frozen=True)
class Refused:
    error: str  # one line for the user
    exit_code: int


Answer = Accepted | Refused
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
