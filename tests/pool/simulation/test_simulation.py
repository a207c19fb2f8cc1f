"""Whole runs without processes, from seeds: whatever dies, freezes or is lost, each step is the same (I1 to I5, I9).

`make test-simulation` runs more of them, `make chaos` many more.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.pool.simulation import seeds as simulate
from tests.pool.simulation.cluster import Cluster
from tests.pool.simulation.setup import setup_of
from tests.pool.simulation.world import World

SEEDS = 1000
PARTS = 5
SEEDS_OF_SEVERAL = 120  # each takes several times as long

# Each has failed once, with the scheduler or the simulation of its time.
REGRESSION_SEEDS = (39, 57, 3638, 4723, 6555, 6943, 35591, 3356, 3458)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_run_ends_with_the_bits_of_the_undisturbed_one(part: int) -> None:
    size = SEEDS // PARTS
    assert [str(failure) for failure in simulate.failures(range(part * size, (part + 1) * size))] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_so_does_every_run_on_several_machines(part: int) -> None:
    size = SEEDS_OF_SEVERAL // PARTS
    first = simulate.SEVERAL + part * size
    assert [str(failure) for failure in simulate.failures(range(first, first + size))] == []


@pytest.mark.parametrize("seed", REGRESSION_SEEDS)
def test_what_failed_once_fails_no_more(seed: int) -> None:
    simulate.simulate(seed)


def test_everything_that_may_go_wrong_goes_wrong_in_some_of_the_runs() -> None:
    runs: Counter[str] = Counter()
    for seed in range(400):
        world = World(setup_of(seed), seed)
        world.run()
        runs.update(world.seen.keys())
    rare = {what: count for what, count in runs.items() if count < 5}
    assert not rare
    assert runs.keys() == {
        *(f"{role} died" for role in ("supervisor", "coordinator", "feeder", "worker")),
        *(f"{role} froze" for role in ("supervisor", "coordinator", "feeder", "worker")),
        "worker hung",
        "worker left out",
        "worker died with the coordinator",
        "exception",
        "killed for not moving",
        "steps to do again",
        "worker not finished with the old life",
        "batch of a group computed",
        "batch left out",
        "batch left out for one member",
        "member frozen",
        "stopped by a bad batch",
        "stopped early",
        "learning rate reduced",
        "stepped while a batch was in work",
        "sum in parts",
        "order refused",
        "message to the coordinator refused",
    }


def test_everything_that_may_go_wrong_goes_wrong_on_several_machines() -> None:
    runs: Counter[str] = Counter()
    for seed in range(simulate.SEVERAL, simulate.SEVERAL + 100):
        cluster = Cluster(setup_of(seed), seed, machines=2 + seed % 3)
        cluster.run()
        runs.update(cluster.seen.keys())
    assert {"generation broken", "supervisor died", "steps to do again", "batch left out", "sum in parts"} <= {
        what for what, count in runs.items() if count >= 5
    }


def test_a_seed_is_the_same_run_each_time() -> None:
    worlds = [World(setup_of(41), 41) for _ in range(2)]
    for world in worlds:
        world.run()
    assert worlds[0].time == worlds[1].time
    assert worlds[0].seen == worlds[1].seen


def test_a_seed_that_fails_is_named_with_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_at_five(seed: int) -> None:
        assert seed != 5, "I2: step 3"

    monkeypatch.setattr(simulate, "simulate", fails_at_five)
    (failure,) = simulate.failures(range(10))
    assert "seed 5: AssertionError: I2: step 3" in str(failure)
    assert "python -m tests.pool.simulation --first 5 --seeds 1" in str(failure)
