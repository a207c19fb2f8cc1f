"""What follows here from the first machine's orders, and from machines that are not heard: a table of decisions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from loader.exit_codes import EXIT_CRASH_LOOP
from pool.errors import ConfigError, RunError
from pool.machines.follower import Decision, Follower, MachineRefused, RunEnded, StartGeneration, StopGeneration
from pool.protocol.identity import COORDINATOR, Peer
from pool.protocol.messages import MachineAddress
from pool.supervisor.listeners import Action, EndRun, KillCoordinator, SendRoster, StartCoordinator
from pool.supervisor.machine_watch import MachineWatch

PEER = Peer(COORDINATOR, 0, 3)
ADDRESSES = (MachineAddress(1, "tcp://a:1"),)
ANEW = KillCoordinator("has to begin anew with those of the other machines")


class Group:
    """In the place of a MachineGroup: the decision that the first machine's orders come to is given."""

    def __init__(self) -> None:
        self.follower = Follower("life", "tcp://here:1")
        self.decision: Decision | None = None
        self.coordinators = self.follower.coordinators
        self.missing_machines, self.advice = "", "start it again"
        self.is_leader_silent = self.closed = False

    def exchange_messages(self) -> Decision | None:
        self.follower.coordinators = self.coordinators
        return self.decision

    def rank_in_generation(self, generation: int) -> Any:
        return f"generation {generation}"

    def close(self) -> None:
        self.closed = True


class Run:
    def __init__(self) -> None:
        self.group = cast("Any", Group())
        self.lines: list[str] = []
        self.now = 0.0
        self.watch = MachineWatch(self.group, 30.0, self.lines.append, lambda: self.now)

    def hear(self, decision: Decision | None = None) -> list[Action]:
        self.group.decision = decision
        return list(self.watch.poll({}))

    def end_coordinator(self, *, finished: bool = False) -> None:
        self.watch.coordinator_ended(PEER, "it was killed", [4, 6], [4], finished=finished)


def test_a_coordinator_begins_when_the_first_machine_orders_it() -> None:
    run = Run()
    run.end_coordinator()
    assert (run.group.follower.report.steps, run.group.follower.report.saved) == ((4, 6), (4,))
    assert run.hear() == []
    assert run.hear(StartGeneration(2, 6)) == [StartCoordinator(PEER, "it was killed", "generation 2", 6)]  # type: ignore[arg-type]


def test_a_generation_that_can_not_go_on_is_ended_until_it_has_and_shown_once() -> None:
    run = Run()
    run.group.follower.report = run.group.follower.report.__class__("life", "tcp://here:1", (), generation=2)
    assert [run.hear(StopGeneration("machine 1 is gone")) for _ in range(2)] == [[ANEW], [ANEW]]
    assert run.lines == ["machine 1 is gone"]


@pytest.mark.parametrize(
    ("decision", "error", "code"),
    [
        (MachineRefused("other data"), ConfigError, ConfigError.exit_code),
        (RunEnded("it died"), RunError, EXIT_CRASH_LOOP),
    ],
)
def test_a_machine_that_can_not_take_part_and_a_run_that_is_over_elsewhere_end_it_here(
    decision: Decision, error: type[RunError], code: int
) -> None:
    with pytest.raises(error, match=decision.reason) as raised:  # type: ignore[union-attr]
        Run().hear(decision)
    assert raised.value.exit_code == code


def test_the_run_ends_when_nothing_is_left_to_do() -> None:
    assert Run().hear(RunEnded("")) == [EndRun()]
    finished, unfinished = Run(), Run()
    for run in (finished, unfinished):
        run.end_coordinator(finished=run is finished)
        assert run.hear() == []
        run.group.is_leader_silent = True
    assert (finished.hear(), unfinished.hear()) == ([EndRun()], [])  # the first machine knows of the one that has


def test_addresses_of_other_coordinators_are_sent_when_they_change() -> None:
    run = Run()
    run.group.coordinators = ADDRESSES
    assert [run.hear(), run.hear()] == [[SendRoster()], []]
    assert run.watch.coordinators == ADDRESSES


def test_a_run_that_is_stopped_while_its_coordinator_waits_has_no_step_to_finish() -> None:
    run = Run()
    run.watch.stop()
    assert run.hear() == []
    run.end_coordinator()
    assert run.hear() == [EndRun()]


def test_a_machine_that_is_not_heard_for_too_long_ends_the_run_with_a_checkpoint() -> None:
    run = Run()
    run.group.missing_machines = "machine 1"
    run.now = 30.0
    assert run.hear() == []
    run.now = 30.1
    assert [run.hear(), run.hear()] == [[KillCoordinator("waits for machine 1")]] * 2
    run.end_coordinator()
    assert run.watch.has_group
    assert run.hear() == [StartCoordinator(PEER, "it was killed", None)]
    assert (run.watch.has_group, run.watch.coordinators) == (False, ())
    assert run.group.closed
    assert run.hear(RunEnded("")) == []
    assert run.lines == [
        "waiting up to 30 s for machine 1: start it again",
        "machine 1 is not heard for 30 s: saving what there is",
    ]


def test_a_machine_that_is_heard_again_has_all_of_the_time_again() -> None:
    run = Run()
    for now, missing in ((29.0, "machine 1"), (31.0, ""), (61.0, "machine 1")):
        run.now, run.group.missing_machines = now, missing
        assert run.hear() == []
    assert len(run.lines) == 2
