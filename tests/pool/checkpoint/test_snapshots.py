"""Copies of the state in memory: whole or not there at all (I9)."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch

from loader.stream import Cursor
from pool.checkpoint import snapshot
from pool.checkpoint.snapshot import Area, area_nbytes
from pool.checkpoint.state import OptimizerNumbers
from pool.checkpoint.store import Checkpoint, tensor_bytes
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError


def state(step: int, rows: int = 100) -> Checkpoint:
    torch.manual_seed(step)
    return Checkpoint(
        step=step,
        cursor=Cursor(step * 2, 0, step, 7),
        config={},
        fingerprint={},
        data=[("a.binpack", 4711)],
        weights={"table": torch.randn(rows, 16), "bias": torch.randn(3).bfloat16(), "count": torch.tensor(step)},
        optimizer_tensors={"table/exp_avg": torch.randn(rows, 16), "table/step": torch.tensor(float(step))},
        optimizer=OptimizerNumbers({"table": {"beta": 0.1}}, [[{"lr": 1e-3, "betas": [0.9, 0.999]}]], []),
    )


def area(nbytes: int = 64 << 10) -> Area:
    return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)


def assert_same(found: Checkpoint, expected: Checkpoint) -> None:
    assert (found.step, found.cursor) == (expected.step, expected.cursor)
    assert found.optimizer.plain() == expected.optimizer.plain()
    for kind in ("weights", "optimizer_tensors"):
        mine, its = getattr(found, kind), getattr(expected, kind)
        assert mine.keys() == its.keys()
        for name, tensor in its.items():
            assert mine[name].dtype == tensor.dtype
            assert torch.equal(mine[name], tensor), name


def test_what_was_taken_is_what_a_successor_loads() -> None:
    areas = [area(), area()]
    Snapshots(areas).take(state(5))
    found = snapshot.read(areas[1])
    assert found is not None
    assert (found.step, found.cursor) == (5, state(5).cursor)
    assert_same(Snapshots(areas).load(1, state(0)), state(5))


def test_a_successor_does_not_overwrite_what_it_came_from() -> None:
    areas = [area(), area()]
    first = Snapshots(areas)
    for step in (1, 2, 3):
        first.take(state(step))
    assert [snapshot.committed(a) for a in areas] == [2, 3]
    Snapshots(areas, newest=1).take(state(4))
    assert [snapshot.committed(a) for a in areas] == [4, 3]


def test_what_a_successor_does_with_its_optimizer_does_not_change_the_snapshot() -> None:
    areas = [area(), area()]
    Snapshots(areas).take(state(5))
    loaded = Snapshots(areas, newest=1).load(1, state(0))
    for tensor in loaded.optimizer_tensors.values():
        tensor.add_(1)
    assert snapshot.read(areas[1]) is not None


def test_an_area_that_is_written_to_disk_is_left_alone() -> None:
    areas = [area(), area()]
    taker = Snapshots(areas)
    held = taker.take(state(1))
    taker.hold()
    for step in (2, 3, 4):
        taker.take(state(step))
    assert_same(held, state(1))
    taker.release()
    taker.take(state(5))
    assert sorted(snapshot.committed(a) or 0 for a in areas) == [4, 5]


def test_what_was_taken_stays_as_it_was_when_the_optimizer_goes_on() -> None:
    """A thread writes it to disk meanwhile; some optimizers keep lists that they change in place."""
    live = state(5)
    taken = Snapshots([area(), area()]).take(live)
    live.optimizer.groups[0][0]["betas"][0] = 0.5
    live.weights["table"].zero_()
    assert_same(taken, state(5))


@pytest.mark.parametrize("point", ["snapshot_begun", "snapshot_withdrawn", "snapshot_tensor_copied", "snapshot_copied"])
def test_a_copy_that_was_cut_short_is_not_there_and_the_one_before_is(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiedError(Exception):
        pass

    def die_at(name: str) -> None:
        if name == f"coordinator.{point}":
            raise DiedError

    areas = [area(), area()]
    taker = Snapshots(areas)
    taker.take(state(1))
    taker.take(state(2))
    monkeypatch.setattr(snapshot, "crash_point", die_at)
    with pytest.raises(DiedError):
        taker.take(state(3))
    assert (snapshot.committed(areas[1]) is None) == (point != "snapshot_begun")
    oldest = snapshot.read(areas[1])
    assert oldest is None or (point == "snapshot_begun" and oldest.step == 1)
    assert_same(Snapshots(areas).load(0, state(0)), state(2))


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    whole = area(16 << 10)
    snapshot.write(whole, state(3), {"weights": tensor_bytes(state(3, rows=4).weights)})
    assert snapshot.read(whole) is not None
    end = int(whole[:32].view(np.int64)[2])
    for place in [*range(28), *range(snapshot.PAGE, end, 7)]:
        whole[place] ^= 0x10
        assert snapshot.read(whole) is None, f"byte {place}"
        whole[place] ^= 0x10
    assert snapshot.read(whole) is not None


def test_a_state_that_has_grown_beyond_its_area_is_one_line() -> None:
    with pytest.raises(CheckpointError, match=r"takes \d+ bytes, and 4096 were reserved"):
        Snapshots([area(4096), area(4096)]).take(state(1))


def test_the_room_that_is_reckoned_is_enough() -> None:
    for rows in (1, 10, 1000):
        example = state(1, rows)
        tensors = [*example.weights.values(), *example.optimizer_tensors.values()]
        room = area(area_nbytes([t.nbytes for t in tensors], 150 + 120 * len(tensors)))
        assert Snapshots([room, room.copy()]).take(example).step == 1
