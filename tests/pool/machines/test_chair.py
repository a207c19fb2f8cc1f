"""The books of the first machine, and each machine's part: who begins when, and with which step."""

from __future__ import annotations

from dataclasses import replace

from pool.machines.chair import PATIENCE, Chair
from pool.machines.member import Begin, Break, Decision, Member, Over, Refused
from pool.protocol.messages import CheckpointLocation, Fact


class Group:
    """A chair and its members, which hear one another at once."""

    def __init__(self, machines: int) -> None:
        self.chair = Chair(machines)
        self.members = [Member(f"life {machine}", "") for machine in range(machines)]
        self.now = 0.0
        self.silent: set[int] = set()

    def turn(self) -> list[Decision | None]:
        """All report; returns what follows for each."""
        for machine, member in enumerate(self.members):
            if machine not in self.silent:
                self.chair.hear(machine, member.report, self.now)
        self.chair.look(self.now)
        return [
            None if machine in self.silent else member.hear(self.chair.orders(machine, member.report, self.now))
            for machine, member in enumerate(self.members)
        ]

    def turns(self) -> list[list[Decision]]:
        """Returns what follows for each in some turns, until nothing more does."""
        turns = [self.turn() for _ in range(3)]
        return [[each for turn in turns if (each := turn[m]) is not None] for m in range(len(self.members))]


def running(machines: int = 2) -> Group:
    """All have begun with step 0."""
    group = Group(machines)
    for member in group.members:
        member.can_begin([0])
    assert group.turn() == [Begin(1, 0)] * machines
    for machine, member in enumerate(group.members):
        member.reached_at(f"coordinator {machine}")
    assert group.turn() == [None] * machines
    return group


def test_they_begin_when_all_are_there_with_the_newest_step_that_all_have() -> None:
    group = Group(3)
    for member, steps in zip(group.members, ([0, 10, 20], [10, 20, 30], [5, 10]), strict=True):
        assert group.turn() == [None] * 3
        member.can_begin(steps)
    assert group.turn() == [Begin(1, 10)] * 3
    assert group.turn() == [None] * 3


def test_without_a_common_step_the_run_ends_with_what_each_has() -> None:
    group = Group(2)
    group.members[0].can_begin([10, 20])
    group.members[1].can_begin([0])
    (first, _) = group.turn()
    assert isinstance(first, Over)
    assert "machine 0 has 10, 20; machine 1 has 0" in first.why


def test_who_has_no_step_in_common_copies_the_newest_checkpoint_the_first_machine_first() -> None:
    group = Group(4)
    for member, steps in zip(group.members, ([0], [10, 20], [20], [5]), strict=True):
        member.can_begin(steps, copies=True)
    assert group.turns() == [[], [], [], []]
    assert [member.lacks for member in group.members] == [CheckpointLocation(20, 1), None, None, None]
    group.members[0].can_begin([20], copies=True)
    group.turn()
    assert [member.lacks for member in group.members] == [None, None, None, CheckpointLocation(20, 0)]
    group.members[3].can_begin([20], copies=True)
    assert group.turn() == [Begin(1, 20)] * 4
    assert [member.lacks for member in group.members] == [None] * 4


def test_a_machine_that_comes_back_with_nothing_gets_what_the_others_have_saved() -> None:
    group = running()
    group.members[1] = Member("another life", "")
    group.now += PATIENCE
    group.members[1].can_begin([0], copies=True)
    assert isinstance(group.turn()[0], Break)
    group.members[0].lost([6, 8], [6])
    group.turn()
    assert group.members[1].lacks == CheckpointLocation(6, 0)
    group.members[1].can_begin([6], copies=True)
    assert group.turn() == [Begin(2, 6)] * 2


def test_all_learn_where_the_coordinators_are_reached() -> None:
    group = running()
    group.turn()
    assert [each.address for each in group.members[1].coordinators] == ["coordinator 0", "coordinator 1"]


def test_when_a_coordinator_dies_all_are_ended_and_begin_together() -> None:
    group = running(3)
    group.members[1].lost([0, 6], [])
    ended = Break("the coordinator of machine 1 is dead")
    assert group.turn() == [ended, None, ended]
    group.members[0].lost([0, 4, 6], [])
    assert group.turn()[0] is None
    group.members[2].lost([6, 8], [])
    assert group.turn() == [Begin(2, 6)] * 3


def test_a_machine_that_was_ordered_to_begin_and_has_not_begins_with_the_others() -> None:
    group = Group(2)
    for member in group.members:
        member.can_begin([0])
    group.silent = {1}
    group.chair.hear(1, group.members[1].report, 0.0)
    assert group.turn()[0] == Begin(1, 0)
    group.members[0].lost([0], [])
    group.turn()
    group.silent = set()
    assert group.turns() == [[Begin(2, 0)]] * 2


def test_silence_ends_a_generation_and_who_wakes_joins_the_next() -> None:
    group = running()
    group.silent = {1}
    group.now = PATIENCE + 1
    assert group.turn()[0] == Break(f"machine 1 is not heard for {PATIENCE:g} s")
    group.members[0].lost([0, 2], [])
    assert group.turn()[0] is None
    assert group.members[0].missing == (1,)
    group.silent = set()
    assert isinstance(group.turn()[1], Break)
    group.members[1].lost([0, 2], [])
    assert group.turns() == [[Begin(2, 2)]] * 2


def test_a_supervisor_that_has_begun_anew_is_no_rival_of_its_dead_predecessor() -> None:
    group = running()
    group.members[1] = Member("another life", "")
    group.members[1].can_begin([0])
    assert group.turn() == [None, None]  # the predecessor was heard a moment ago
    group.now = PATIENCE
    group.silent = {0}
    group.turn()
    group.silent = set()
    assert group.turn()[0] == Break("machine 1 has begun anew")
    group.members[0].lost([0], [])
    assert group.turns() == [[Begin(2, 0)]] * 2


def test_two_that_say_to_be_the_same_machine() -> None:
    group = running()
    rival = Member("a rival", "")
    group.chair.hear(1, rival.report, 0.0)
    assert rival.hear(group.chair.orders(1, rival.report, 0.0)) is None
    group.now = 1.0
    assert group.turn() == [None, None]
    group.chair.hear(1, rival.report, 1.0)
    decision = rival.hear(group.chair.orders(1, rival.report, 1.0))
    assert decision == Refused("there is another machine 1 (--machine), at ")


def test_a_first_machine_that_has_begun_anew_takes_over_the_generation() -> None:
    group = running()
    group.chair, group.members[0] = Chair(2), Member("another life", "")
    group.members[0].can_begin([0])
    assert group.turn() == [None, Break("machine 0 has begun anew")]
    group.members[1].lost([0, 2], [])
    assert group.turns() == [[Begin(2, 0)]] * 2


def test_what_differs_is_named_on_the_machine_that_differs() -> None:
    group = Group(2)
    group.members[0].knows([Fact("data.batch_size", "64"), Fact("torch", "2.13.0")])
    group.members[1].knows([Fact("data.batch_size", "32")])
    assert group.turn() == [None, Refused("data.batch_size: 32 on machine 1, 64 on machine 0")]


def test_the_run_is_over_when_all_have_finished_and_not_before() -> None:
    group = running()
    group.members[0].lost([0, 9], [], finished=True)
    assert group.turn() == [None, None]
    assert [each.finished for each in group.members[1].coordinators] == [True, False]
    group.members[1].lost([0, 6], [])  # it died before it had saved the last step
    assert group.turns() == [[Begin(2, 0)]] * 2
    for member in group.members:
        member.lost([0, 9], [], finished=True)
    assert group.turn() == [Over("")] * 2


def test_a_run_that_ends_on_one_machine_ends_on_all() -> None:
    group = running()
    group.members[1].ends("data.bin: damaged")
    assert group.turn() == [Over("machine 1: data.bin: damaged")] * 2


def test_orders_for_a_dead_supervisor_are_not_followed() -> None:
    group = running()
    orders = group.chair.orders(1, group.members[1].report, 0.0)
    assert Member("another life", "").hear(replace(orders, generation=7)) is None


def test_a_machine_that_is_refused_is_waited_for_and_nobody_begins() -> None:
    group = Group(2)
    for machine, member in enumerate(group.members):
        member.knows([Fact("train.steps", str(10 + machine))])
        member.can_begin([0])
    assert group.turn() == [None, Refused("train.steps: 11 on machine 1, 10 on machine 0")]
    assert group.turn()[0] is None
    assert group.members[0].missing == (1,)
    assert group.chair.refused == {1: "train.steps: 11 on machine 1, 10 on machine 0"}
    group.members[1] = Member("another life", "")
    group.members[1].can_begin([0])
    group.now += PATIENCE
    assert group.turns() == [[Begin(1, 0)], [Begin(1, 0)]]
    assert not group.chair.refused


def test_what_is_found_when_a_generation_lives_ends_it_and_says_why() -> None:
    group = running()
    group.members[0].knows([Fact("data.train", "a.csv")])
    group.members[1].knows([Fact("data.train", "b.csv")])
    why = "data.train: b.csv on machine 1, a.csv on machine 0"
    assert group.turn() == [Break(f"machine 1 can't take part: {why}"), Refused(why)]
    group.members[0].lost([0], [])
    group.silent = {1}
    assert group.turn() == [None, None]
    assert group.members[0].missing == (1,)
    group.silent = set()
    group.members[1] = Member("another life", "")
    group.members[1].knows([Fact("data.train", "a.csv")])
    group.members[1].can_begin([0])
    assert group.turns() == [[Begin(2, 0)], [Begin(2, 0)]]
