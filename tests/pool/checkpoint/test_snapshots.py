"""Copies of the state in memory: whole or not there at all (I9)."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.stream.interface import Cursor
from pool.checkpoint import snapshot
from pool.checkpoint.snapshot import Area, area_nbytes
from pool.checkpoint.state import OptimizerNumbers
from pool.checkpoint.store import Checkpoint, tensor_bytes
from pool.coordinator.snapshots import Snapshots
from pool.coordinator.update.changed_rows import Changes
from pool.errors import CheckpointError
from pool.kernels.reduction import Touched


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
        average={"table": torch.randn(rows, 16)} if step > 3 else {},
        averaged=max(0, step - 3),
    )


def area(nbytes: int = 64 << 10) -> Area:
    return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)


def assert_same(found: Checkpoint, expected: Checkpoint) -> None:
    assert (found.step, found.cursor) == (expected.step, expected.cursor)
    assert found.optimizer.plain() == expected.optimizer.plain()
    assert found.averaged == expected.averaged
    for kind in ("weights", "optimizer_tensors", "average"):
        mine, its = getattr(found, kind), getattr(expected, kind)
        assert mine.keys() == its.keys()
        for name, tensor in its.items():
            assert mine[name].dtype == tensor.dtype
            assert torch.equal(mine[name], tensor), name


def test_what_was_taken_is_what_a_successor_loads() -> None:
    areas = [area(), area()]
    Snapshots(areas).take(state(5))
    found = snapshot.read_snapshot(areas[1])
    assert found is not None
    assert (found.step, found.cursor) == (5, state(5).cursor)
    assert_same(Snapshots(areas).load(1, state(0)), state(5))


def test_a_successor_does_not_overwrite_what_it_came_from() -> None:
    areas = [area(), area()]
    first = Snapshots(areas)
    for step in (1, 2, 3):
        first.take(state(step))
    assert [snapshot.committed_step(a) for a in areas] == [2, 3]
    Snapshots(areas, newest=1).take(state(4))
    assert [snapshot.committed_step(a) for a in areas] == [4, 3]


def test_what_a_successor_does_with_its_optimizer_does_not_change_the_snapshot() -> None:
    areas = [area(), area()]
    Snapshots(areas).take(state(5))
    loaded = Snapshots(areas, newest=1).load(1, state(0))
    for tensor in loaded.optimizer_tensors.values():
        tensor.add_(1)
    assert snapshot.read_snapshot(areas[1]) is not None


def test_the_sum_of_a_state_does_not_tell_in_which_order_its_tensors_are_kept() -> None:
    """One machine restores an optimizer from a checkpoint's file, which has its own order, another from a snapshot."""
    sums = set()
    for order in (1, -1):
        live = state(5)
        weights, optimizer = (dict(list(each.items())[::order]) for each in (live.weights, live.optimizer_tensors))
        taker = Snapshots([area(), area()])
        taker.take(replace(live, weights=weights, optimizer_tensors=optimizer))
        sums.add(taker.summed)
    assert len(sums) == 1
    other = Snapshots([area(), area()])
    other.take(replace(state(5), weights=state(6).weights))
    assert other.summed not in sums


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
    assert sorted(snapshot.committed_step(a) or 0 for a in areas) == [4, 5]


def test_what_was_taken_stays_as_it_was_when_the_optimizer_goes_on() -> None:
    """A thread writes it to disk meanwhile; some optimizers keep lists that they change in place."""
    live = state(5)
    taken = Snapshots([area(), area()]).take(live)
    assert live.optimizer.groups is not None
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
    assert (snapshot.committed_step(areas[1]) is None) == (point != "snapshot_begun")
    oldest = snapshot.read_snapshot(areas[1])
    assert oldest is None or (point == "snapshot_begun" and oldest.step == 1)
    assert_same(Snapshots(areas).load(0, state(0)), state(2))


class Training:
    """A table of which each step changes some rows, in weights and optimizer state, and what is not stepped by rows."""

    def __init__(self, rows: int, columns: int) -> None:
        self.changes = Changes({"table": rows}, 2)
        self.state = replace(
            state(0, 4),
            weights={"table": torch.randn(rows, columns), "bias": torch.randn(3)},
            optimizer_tensors={
                "table/exp_avg": torch.randn(rows, columns),
                "table/sum": torch.randn(rows, 1),
                "bias/exp_avg": torch.randn(3),
                "table/step": torch.tensor(0.0),
            },
        )

    def step(self, touched: Touched) -> None:
        rows = torch.from_numpy(touched.astype(np.int64))
        tensors = {**self.state.weights, **self.state.optimizer_tensors}
        for name in ("table", "table/exp_avg", "table/sum"):
            tensors[name][rows] += 1 + torch.rand(len(rows), 1)
        for name in ("bias", "bias/exp_avg", "table/step"):
            tensors[name] += 1
        self.changes.of_table("table").mark(touched)
        self.state = replace(self.state, step=self.state.step + 1)

    def copy(self) -> Checkpoint:
        return replace(
            self.state,
            weights={name: tensor.clone() for name, tensor in self.state.weights.items()},
            optimizer_tensors={name: tensor.clone() for name, tensor in self.state.optimizer_tensors.items()},
        )


class DiedError(Exception):
    pass


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_of_changed_rows_alone_a_whole_snapshot_is_made_and_a_torn_one_is_none(data: st.DataObject) -> None:
    """Deaths at any point of a copy, before any tensor; areas that are held; a successor that knows nothing."""
    torch.manual_seed(0)
    rows, columns = data.draw(st.sampled_from([(1, 1), (130, 1), (200, 3), (65, 16), (700, 5)]))
    training = Training(rows, columns)
    areas = [area(256 << 10), area(256 << 10)]
    threads = data.draw(st.integers(1, 2))
    taker = Snapshots(areas, changes=training.changes, threads=threads)
    copies: dict[int, Checkpoint] = {}
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    for _ in range(data.draw(st.integers(1, 12))):
        training.step(np.flatnonzero(rng.random(rows) < rng.choice([0.0, 0.02, 0.5, 1.0])).astype(np.uint32))
        what = data.draw(st.sampled_from(["nothing", "take", "take", "take", "hold", "release", "die"]))
        if what == "hold" and copies:
            taker.hold()
        elif what == "release":
            taker.release()
        elif what == "take":
            copies[training.state.step] = training.copy()
            assert_same(taker.take(training.state), training.state)
        elif what == "die":
            passes = iter(range(data.draw(st.integers(0, 8)), -1, -1))

            def die(_: str, passes: Iterator[int] = passes) -> None:
                if next(passes, 0) == 0:
                    raise DiedError

            copies[training.state.step] = training.copy()
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(DiedError):
                patch.setattr(snapshot, "crash_point", die)
                taker.take(training.state)
            whole = [index for index in (0, 1) if snapshot.read_snapshot(areas[index]) is not None]
            newest = max(whole, key=lambda index: snapshot.committed_step(areas[index]) or 0, default=None)
            training.changes = Changes({"table": rows}, 2)
            taker = Snapshots(areas, newest, changes=training.changes, threads=threads)
        for index in (0, 1):
            step = snapshot.committed_step(areas[index])
            assert (snapshot.read_snapshot(areas[index]) is None) == (step is None)
            if step is not None:
                assert_same(Snapshots(areas).load(index, state(0)), copies[step])


def test_rows_that_did_not_change_are_not_copied() -> None:
    training = Training(640, 16)
    areas = [area(256 << 10), area(256 << 10)]
    taker = Snapshots(areas, changes=training.changes)
    for _ in range(3):
        taker.take(training.state)
    training.state.weights["table"].zero_()  # without a word of it
    training.step(np.array([7, 300], np.uint32))
    table = taker.take(training.state).weights["table"]
    assert (table != 0).all(1).sum() == 640
    assert torch.equal(table[[7, 300]], training.state.weights["table"][[7, 300]])


def test_bits_flipped_where_nothing_is_copied_any_more_are_noticed() -> None:
    training = Training(640, 16)
    areas = [area(256 << 10), area(256 << 10)]
    taker = Snapshots(areas, changes=training.changes)
    for _ in range(2):
        taker.take(training.state)
    whole = snapshot.read_snapshot(areas[1])
    assert whole is not None
    (table,) = (placed.offset for placed in whole.tensors["weights"] if placed.name == "table")
    for place in (table, table + 7 * 64):
        areas[1][place] ^= 0x80
        training.step(np.array([7], np.uint32))
        for _ in range(2):
            taker.take(training.state)
        assert snapshot.read_snapshot(areas[0]) is not None
        assert snapshot.read_snapshot(areas[1]) is None
        areas[1][place] ^= 0x80


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    whole = area(16 << 10)
    snapshot.SnapshotWriter(whole).write(state(3), {"weights": tensor_bytes(state(3, rows=4).weights)})
    assert snapshot.read_snapshot(whole) is not None
    end = int(whole[:32].view(np.int64)[2])
    for place in [*range(28), *range(snapshot.PAGE, end, 7)]:
        whole[place] ^= 0x10
        assert snapshot.read_snapshot(whole) is None, f"byte {place}"
        whole[place] ^= 0x10
    assert snapshot.read_snapshot(whole) is not None


def test_after_a_copy_that_failed_the_next_one_is_whole() -> None:
    whole = area()
    writer = snapshot.SnapshotWriter(whole)
    before, after = state(1), state(2)
    writer.write(before, {"weights": tensor_bytes(before.weights)})
    unfit = replace(before, optimizer=OptimizerNumbers({"table": {"beta": object()}}, [], []))
    with pytest.raises(CheckpointError, match="plain data"):
        writer.write(unfit, {"weights": tensor_bytes(before.weights)})
    assert snapshot.read_snapshot(whole) is None
    nothing = {"weights": {"table": np.zeros(2, np.uint64)}}
    writer.write(after, {"weights": tensor_bytes(after.weights)}, nothing)
    found = snapshot.read_snapshot(whole)
    assert found is not None
    place = next(place for place in found.tensors["weights"] if place.name == "table")
    table = whole[place.offset : place.offset + place.nbytes].view(np.float32)
    assert np.array_equal(table, after.weights["table"].numpy().reshape(-1))


def test_a_state_that_has_grown_beyond_its_area_is_one_line() -> None:
    with pytest.raises(CheckpointError, match=r"takes \d+ bytes, and 4096 were reserved"):
        Snapshots([area(4096), area(4096)]).take(state(1))


def test_the_room_that_is_reckoned_is_enough() -> None:
    for rows in (1, 10, 1000):
        example = state(1, rows)
        tensors = [*example.weights.values(), *example.optimizer_tensors.values()]
        room = area(area_nbytes([t.nbytes for t in tensors], 150 + 120 * len(tensors)))
        assert Snapshots([room, room.copy()]).take(example).step == 1
