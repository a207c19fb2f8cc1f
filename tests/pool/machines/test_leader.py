"""The books of the first machine, and each machine's part: who begins when, and with which step."""

from __future__ import annotations

from dataclasses import replace

from pool.machines.follower import Decision, Follower, MachineRefused, RunEnded, StartGeneration, StopGeneration
from pool.machines.leader import SILENCE_TIMEOUT, Leader
from pool.protocol.messages import CheckpointLocation, Fact


class Group:
    """A leader and its followers, which hear one another at once."""

    def __init__(self, machines: int) -> None:
        self.leader = Leader(machines)
        self.followers = [Follower(f"life {machine}", "") for machine in range(machines)]
        self.now = 0.0
        self.silent: set[int] = set()

    def turn(self) -> list[Decision | None]:
        """All report; returns what follows for each."""
        for machine, follower in enumerate(self.followers):
            if machine not in self.silent:
                self.leader.receive_report(machine, follower.report, self.now)
        self.leader.update(self.now)
        return [
            None
            if machine in self.silent
            else follower.apply_orders(self.leader.orders_for(machine, follower.report, self.now))
            for machine, follower in enumerate(self.followers)
        ]

    def turns(self) -> list[list[Decision]]:
        """Returns what follows for each in some turns, until nothing more does."""
        turns = [self.turn() for _ in range(3)]
        return [[each for turn in turns if (each := turn[m]) is not None] for m in range(len(self.followers))]


def running(machines: int = 2) -> Group:
    """All have begun with step 0."""
    group = Group(machines)
    for follower in group.followers:
        follower.report_steps([0])
    assert group.turn() == [StartGeneration(1, 0)] * machines
    for machine, follower in enumerate(group.followers):
        follower.report_coordinator(f"coordinator {machine}")
    assert group.turn() == [None] * machines
    return group


def test_they_begin_when_all_are_there_with_the_newest_step_that_all_have() -> None:
    group = Group(3)
    for follower, steps in zip(group.followers, ([0, 10, 20], [10, 20, 30], [5, 10]), strict=True):
        assert group.turn() == [None] * 3
        follower.report_steps(steps)
    assert group.turn() == [StartGeneration(1, 10)] * 3
    assert group.turn() == [None] * 3


def test_without_a_common_step_the_run_ends_with_what_each_has() -> None:
    group = Group(2)
    group.followers[0].report_steps([10, 20])
    group.followers[1].report_steps([0])
    (first, _) = group.turn()
    assert isinstance(first, RunEnded)
    assert "machine 0 has 10, 20; machine 1 has 0" in first.reason


def test_who_has_no_step_in_common_copies_the_newest_checkpoint_the_first_machine_first() -> None:
    group = Group(4)
    for follower, steps in zip(group.followers, ([0], [10, 20], [20], [5]), strict=True):
        follower.report_steps(steps, copies=True)
    assert group.turns() == [[], [], [], []]
    assert [follower.checkpoint_to_copy for follower in group.followers] == [
        CheckpointLocation(20, 1),
        None,
        None,
        None,
    ]
    group.followers[0].report_steps([20], copies=True)
    group.turn()
    assert [follower.checkpoint_to_copy for follower in group.followers] == [
        None,
        None,
        None,
        CheckpointLocation(20, 0),
    ]
    group.followers[3].report_steps([20], copies=True)
    assert group.turn() == [StartGeneration(1, 20)] * 4
    assert [follower.checkpoint_to_copy for follower in group.followers] == [None] * 4


def test_a_machine_that_comes_back_with_nothing_gets_what_the_others_have_saved() -> None:
    group = running()
    group.followers[1] = Follower("another life", "")
    group.now += SILENCE_TIMEOUT
    group.followers[1].report_steps([0], copies=True)
    assert isinstance(group.turn()[0], StopGeneration)
    group.followers[0].report_death([6, 8], [6])
    group.turn()
    assert group.followers[1].checkpoint_to_copy == CheckpointLocation(6, 0)
    group.followers[1].report_steps([6], copies=True)
    assert group.turn() == [StartGeneration(2, 6)] * 2


def test_all_learn_where_the_coordinators_are_reached() -> None:
    group = running()
    group.turn()
    assert [each.address for each in group.followers[1].coordinators] == ["coordinator 0", "coordinator 1"]


def test_when_a_coordinator_dies_all_are_ended_and_begin_together() -> None:
    group = running(3)
    group.followers[1].report_death([0, 6], [])
    ended = StopGeneration("the coordinator of machine 1 is dead")
    assert group.turn() == [ended, None, ended]
    group.followers[0].report_death([0, 4, 6], [])
    assert group.turn()[0] is None
    group.followers[2].report_death([6, 8], [])
    assert group.turn() == [StartGeneration(2, 6)] * 3


def test_a_machine_that_was_ordered_to_begin_and_has_not_begins_with_the_others() -> None:
    group = Group(2)
    for follower in group.followers:
        follower.report_steps([0])
    group.silent = {1}
    group.leader.receive_report(1, group.followers[1].report, 0.0)
    assert group.turn()[0] == StartGeneration(1, 0)
    group.followers[0].report_death([0], [])
    group.turn()
    group.silent = set()
    assert group.turns() == [[StartGeneration(2, 0)]] * 2


def test_silence_ends_a_generation_and_who_wakes_joins_the_next() -> None:
    group = running()
    group.silent = {1}
    group.now = SILENCE_TIMEOUT + 1
    assert group.turn()[0] == StopGeneration(f"machine 1 is not heard for {SILENCE_TIMEOUT:g} s")
    group.followers[0].report_death([0, 2], [])
    assert group.turn()[0] is None
    assert group.followers[0].missing_machines == (1,)
    group.silent = set()
    assert isinstance(group.turn()[1], StopGeneration)
    group.followers[1].report_death([0, 2], [])
    assert group.turns() == [[StartGeneration(2, 2)]] * 2


def test_a_supervisor_that_has_begun_anew_is_no_rival_of_its_dead_predecessor() -> None:
    group = running()
    group.followers[1] = Follower("another life", "")
    group.followers[1].report_steps([0])
    assert group.turn() == [None, None]  # the predecessor was heard a moment ago
    group.now = SILENCE_TIMEOUT
    group.silent = {0}
    group.turn()
    group.silent = set()
    assert group.turn()[0] == StopGeneration("machine 1 has begun anew")
    group.followers[0].report_death([0], [])
    assert group.turns() == [[StartGeneration(2, 0)]] * 2


def test_two_that_say_to_be_the_same_machine() -> None:
    group = running()
    rival = Follower("a rival", "")
    group.leader.receive_report(1, rival.report, 0.0)
    assert rival.apply_orders(group.leader.orders_for(1, rival.report, 0.0)) is None
    group.now = 1.0
    assert group.turn() == [None, None]
    group.leader.receive_report(1, rival.report, 1.0)
    decision = rival.apply_orders(group.leader.orders_for(1, rival.report, 1.0))
    assert decision == MachineRefused("there is another machine 1 (--machine), at ")


def test_the_second_of_two_is_answered_when_the_first_is_refused() -> None:
    group = Group(2)
    for machine, follower in enumerate(group.followers):
        follower.add_facts([Fact("train.steps", str(10 + machine))])
        group.leader.receive_report(machine, follower.report, 0.0)
    rival = Follower("a rival", "")
    group.leader.receive_report(1, rival.report, 0.0)
    group.leader.update(0.0)
    assert 1 in group.leader.refused
    assert rival.apply_orders(group.leader.orders_for(1, rival.report, 0.0)) is None


def test_a_first_machine_that_has_begun_anew_takes_over_the_generation() -> None:
    group = running()
    group.leader, group.followers[0] = Leader(2), Follower("another life", "")
    group.followers[0].report_steps([0])
    assert group.turn() == [None, StopGeneration("machine 0 has begun anew")]
    group.followers[1].report_death([0, 2], [])
    assert group.turns() == [[StartGeneration(2, 0)]] * 2


def test_what_differs_is_named_on_the_machine_that_differs() -> None:
    group = Group(2)
    group.followers[0].add_facts([Fact("data.batch_size", "64"), Fact("torch", "2.13.0")])
    group.followers[1].add_facts([Fact("data.batch_size", "32")])
    assert group.turn() == [None, MachineRefused("data.batch_size: 32 on machine 1, 64 on machine 0")]


def test_the_run_is_over_when_all_have_finished_and_not_before() -> None:
    group = running()
    group.followers[0].report_death([0, 9], [], finished=True)
    assert group.turn() == [None, None]
    assert [each.finished for each in group.followers[1].coordinators] == [True, False]
    group.followers[1].report_death([0, 6], [])  # it died before it had saved the last step
    assert group.turns() == [[StartGeneration(2, 0)]] * 2
    for follower in group.followers:
        follower.report_death([0, 9], [], finished=True)
    assert group.turn() == [RunEnded("")] * 2


def test_a_run_that_ends_on_one_machine_ends_on_all() -> None:
    group = running()
    group.followers[1].report_end("data.bin: damaged")
    assert group.turn() == [RunEnded("machine 1: data.bin: damaged")] * 2


def test_orders_for_a_dead_supervisor_are_not_followed() -> None:
    group = running()
    orders = group.leader.orders_for(1, group.followers[1].report, 0.0)
    assert Follower("another life", "").apply_orders(replace(orders, generation=7)) is None


def test_a_machine_that_is_refused_is_waited_for_and_nobody_begins() -> None:
    group = Group(2)
    for machine, follower in enumerate(group.followers):
        follower.add_facts([Fact("train.steps", str(10 + machine))])
        follower.report_steps([0])
    assert group.turn() == [None, MachineRefused("train.steps: 11 on machine 1, 10 on machine 0")]
    assert group.turn()[0] is None
    assert group.followers[0].missing_machines == (1,)
    assert group.leader.refused == {1: "train.steps: 11 on machine 1, 10 on machine 0"}
    group.followers[1] = Follower("another life", "")
    group.followers[1].report_steps([0])
    group.now += SILENCE_TIMEOUT
    assert group.turns() == [[StartGeneration(1, 0)], [StartGeneration(1, 0)]]
    assert not group.leader.refused


def test_what_is_found_when_a_generation_lives_ends_it_and_says_why() -> None:
    group = running()
    group.followers[0].add_facts([Fact("data.train", "a.csv")])
    group.followers[1].add_facts([Fact("data.train", "b.csv")])
    why = "data.train: b.csv on machine 1, a.csv on machine 0"
    assert group.turn() == [StopGeneration(f"machine 1 can't take part: {why}"), MachineRefused(why)]
    group.followers[0].report_death([0], [])
    group.silent = {1}
    assert group.turn() == [None, None]
    assert group.followers[0].missing_machines == (1,)
    group.silent = set()
    group.followers[1] = Follower("another life", "")
    group.followers[1].add_facts([Fact("data.train", "a.csv")])
    group.followers[1].report_steps([0])
    assert group.turns() == [[StartGeneration(2, 0)], [StartGeneration(2, 0)]]
