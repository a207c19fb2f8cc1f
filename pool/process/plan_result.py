"""Defines the planner's answer to the supervisor: facts that need torch to be found, or the reason why the run is
impossible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.stream.schema import BatchSchema
from pool.device.cards import Card
from pool.exchange.exchange_choice import HOST, Exchange
from pool.exchange.layout import join_plans
from pool.exchange.plan import Plan
from pool.metrics.layout import Measured
from pool.protocol.messages import Purpose


@dataclass(frozen=True)
class LearningRates:
    """Holds learning rates of the steps that a run still has to do, as the schedule alone makes them."""

    first: float
    middle: float
    last: float
    low_from: int | None = None  # first step whose rate is below a millionth of the highest before, if there is one


@dataclass(frozen=True)
class Planned:
    """Holds the planner's findings about a run.

    The supervisor makes the start documents of all other processes from them (`pool.supervisor.prepare.run_plan`).
    """

    schema: BatchSchema
    plans: tuple[Plan, ...]  # plan of each member's parameters
    measured: Measured  # what the task measures in validations
    num_chunks: Mapping[Purpose, int]  # number of chunks of each stream whose chunks have checksums
    devices: tuple[str, ...]  # one for each worker, with `auto` resolved
    device_names: tuple[str, ...]  # description of each device, for people
    state_nbytes: int  # bytes of a snapshot: weights and optimizer state
    fingerprint: Mapping[str, str]  # everything that the bits of the run's results depend on
    on_meta: bool = False  # models are so large that processes build them on torch's meta device, without numbers
    rates: tuple[LearningRates | None, ...] = ()  # of each member; None: the schedule has too many steps to compute it
    about_devices: tuple[str, ...] = ()  # lines for the user: what `auto` chose, which devices are not used
    missing: str = ""  # devices that this machine lacks, of a run that is only checked; empty: none
    exchange: Exchange = HOST
    cards: tuple[Card, ...] = ()  # the GPUs among `devices`, each once

    @property
    def plan(self) -> Plan:
        """Returns the plan of the parameters of all members (networks that are trained together)."""
        return join_plans(self.plans)

    def card(self, device: str) -> Card | None:
        """Returns the facts about a GPU, by the device's name, or None if the device is no GPU of this run."""
        return next((card for card in self.cards if card.device == device), None)


@dataclass(frozen=True)
class Accepted:
    """Tells that the run is possible, with the planner's findings."""

    planned: Planned
    sizes: Mapping[Purpose, tuple[int, ...]]  # number of bytes that are read of each file


@dataclass(frozen=True)
class Refused:
    """Tells why the run is impossible."""

    error: str  # one line for the user
    exit_code: int


Answer = Accepted | Refused
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
