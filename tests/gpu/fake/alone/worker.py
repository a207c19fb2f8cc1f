"""A worker's computing part on the fake GPU: what it waits for, what it copies, what it computes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pool import numerics
from pool.config.load import parse_config
from pool.device.event_waiter import EventWaiter
from pool.device.memory import is_out_of_memory
from pool.device.page_lock import page_lock
from pool.device.precision import DenseProducts
from pool.device.timeline import COMPUTES, COPIES_IN, COPIES_OUT
from pool.nn.generators import seed_for_purpose
from pool.protocol.identity import WORKER, Peer
from pool.shm.memory import Memory
from pool.shm.memory_map import RING, WEIGHTS, MemoryMap, gradients_segment
from pool.shm.segment import Segment, SegmentHandle, create_segment
from pool.telemetry.trace import Trace, merge
from tests.gpu.fake import fakegpu
from tests.gpu.fake.races import RACES, Wanted, expected, found_by, observed
from tests.gpu.fake.rig import MODES, Code, Inputs, TakingRig, inputs, touched_bytes

MODULE = "tests.gpu.fake.fakegpu"
FAILED = "illegal memory access"


@pytest.fixture(scope="module")
def wanted() -> Wanted:
    return expected()


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    yield
    fakegpu.configure(delay_us=0, bytes_per_us=0, lazy=0, fail_kernel=0, fail_launch=0)
    fakegpu.mend()


@pytest.mark.parametrize("mode", MODES)
def test_it_computes_what_a_cpu_does_and_never_waits(mode: str, wanted: Wanted) -> None:
    """0 waits of the threads that compute, 0 pageable copies; to float rounding."""
    for seed in (1, 2):
        assert observed(Code(), MODES[mode], seed, wanted) == ""


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_each_seeded_race_is_found(race: Any, wanted: Wanted) -> None:
    assert found_by(race, wanted)


def test_there_are_at_least_twenty_races() -> None:
    assert len({race.name for race in RACES}) >= 20


def test_a_batch_is_one_copy_in_and_of_a_table_the_touched_rows_alone_come_out() -> None:
    given = inputs()
    rig = TakingRig(given)
    before = fakegpu.counters()
    rig.train()
    rig.close()
    counted = fakegpu.counters() - before
    count, plan = len(given.batches), given.plan
    assert counted.copies_in == 2 * count  # a batch and a version of the weights
    tables = [b for b, bucket in enumerate(plan.buckets) if bucket.rows is not None]
    touched = sum(touched_bytes(given, k, b) for k in range(count) for b in tables)
    dense = sum(tensor.nbytes for tensor in plan.parameters if tensor.sparse_field is None)
    end = plan.buffers[-1].offset + plan.buffers[-1].nbytes
    numbers = 8 * (1 + len(plan.parameters))
    assert counted.bytes_out == touched + count * (dense + end - plan.buffers[0].offset + numbers)


def test_a_trace_shows_copies_beside_computation(tmp_path: Path) -> None:
    fakegpu.configure(delay_us=10_000)  # computing takes much longer than to queue it
    trace = Trace(tmp_path, Peer(WORKER), on=True)
    rig = TakingRig(inputs(), trace=trace)
    rig.train()
    rig.close()
    merge(tmp_path, tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(rows.values()) == sorted((COPIES_IN, COMPUTES, COPIES_OUT))
    bars: dict[str, list[tuple[float, float]]] = {name: [] for name in rows.values()}
    for event in events:
        if event["tid"] in rows and event["ph"] == "X":
            bars[rows[event["tid"]]].append((event["ts"], event["ts"] + event["dur"]))
    copies, computed, buckets = bars[COPIES_IN], bars[COMPUTES], bars[COPIES_OUT]
    per_batch = len(inputs().plan.buckets)
    assert (len(copies), len(computed), len(buckets)) == (5, 5, 5 * per_batch)
    assert all(copied[1] <= compute[0] + 1 for copied, compute in zip(copies, computed, strict=True))
    assert any(copied[0] < compute[1] for copied, compute in zip(copies[1:], computed, strict=False))
    assert any(bucket[1] < compute[1] for compute, bucket in zip(computed, buckets[::per_batch], strict=True))


def test_all_devices_give_the_same_bits() -> None:
    results = []
    for name in ("fakegpu:0", "fakegpu:1"):
        rig = TakingRig(inputs(), name)
        results.append(rig.train())
        rig.close()
    for a, b in zip(*results, strict=True):
        assert (a.losses, a.unsound) == (b.losses, b.unsound)
        for bucket, tensors in a.gradients.items():
            assert all(map(torch.equal, tensors, b.gradients[bucket]))


def test_every_bucket_but_the_last_is_announced_in_the_order_of_backward() -> None:
    rig = TakingRig(inputs())
    done = rig.train()
    rig.close()
    buckets = len(inputs().plan.buckets)
    assert all(each.announced[0] == 0 and len(each.announced) == buckets - 1 for each in done)


def test_a_gradient_that_is_not_finite_is_named() -> None:
    rig = TakingRig(inputs(3, infinite_gradient_of_batch=1))
    done = rig.train()
    rig.close()
    assert [any(each.unsound) for each in done] == [False, True, False]
    assert done[1].unsound[0] in {tensor.name for tensor in inputs().plan.parameters}


def test_weights_are_read_again_after_their_coordinator_has_died() -> None:
    """Version 0 of its successor may be another one."""
    given = inputs(1)
    rig = TakingRig(given)
    (first,) = rig.train()
    rig.computer.forget_weights()
    other = Inputs(given.task, given.schema, given.plan, given.batches, [2 * np.ones_like(given.weights[0])])
    rig._given = other
    (second,) = rig.train()
    rig.close()
    assert first.losses != second.losses


def test_what_a_model_draws_does_not_depend_on_the_device() -> None:
    """Fault: the seed went to the device that is current, which nobody had set."""
    drawn = []
    for name in ("fakegpu:0", "fakegpu:1"):
        torch.accelerator.set_device_index(0)
        seed_for_purpose(5, 0, torch.device(name))
        drawn.append(torch.rand(8, device=name).cpu())
    assert torch.equal(*drawn)


def handle(name: str, nbytes: int, *, writable: bool) -> SegmentHandle:
    fd = create_segment(name, nbytes, lambda _: None)
    return SegmentHandle(fd, writable, registered=not writable)


def test_the_ring_and_the_weights_are_page_locked_and_then_read_only() -> None:
    """Fault: memory that may only be read was registered, which many devices refuse."""
    memory_map = MemoryMap(
        train_slots=4,
        slot_nbytes=4096,
        weights_nbytes=8192,
        slot_gradients_nbytes=8192,
        gradient_slots=2,
        workers=1,
        state_nbytes=0,
        num_chunks={},
    )
    sizes = memory_map.sizes()
    names = {RING: False, WEIGHTS: False, gradients_segment(0): True}
    memory = Memory(memory_map, {name: handle(name, sizes[name], writable=w) for name, w in names.items()})
    locked: list[bool] = []
    segments: list[Segment] = []

    def lock(segment: Segment) -> None:
        segments.append(segment)
        locked.append(page_lock(segment))

    memory.register(lock)
    assert locked == [True, True, True]
    permissions = {}
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        for name in names:
            if line.endswith(f"/memfd:{name} (deleted)"):
                permissions[name] = line.split()[1]
    assert permissions == {RING: "r--s", WEIGHTS: "r--s", gradients_segment(0): "rw-s"}
    device = torch.zeros(4096, dtype=torch.uint8, device="fakegpu:0")
    before = fakegpu.counters()
    device.copy_(torch.from_numpy(memory.rings["train"][0]), non_blocking=True)
    assert (fakegpu.counters() - before).pageable_copies == 0
    torch.accelerator.synchronize(0)
    for segment in segments:
        fakegpu.host_unregister(segment.array.ctypes.data)


def test_memory_that_could_not_be_registered_is_said_and_used_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    segment = Segment(create_segment("test", 4096, lambda _: None), writable=False)
    assert not page_lock(segment)
    assert "memory is not page-locked, copies to and from the device are slower: CUDA error 1" in caplog.text


@pytest.mark.parametrize("chosen", ["float32", "tf32", "bfloat16"])
def test_a_forward_pass_multiplies_what_was_chosen(chosen: DenseProducts, wanted: Wanted) -> None:
    """bfloat16 is torch's autocast: parameters and gradients stay float32, and numbers come out near those."""
    rig = TakingRig(inputs(), dense_products=chosen)
    (model,) = (member.model for member in rig.computer._members)
    seen: set[torch.dtype] = set()
    model.output.register_forward_hook(lambda *of: seen.add(of[2].dtype))
    found = rig.train()
    rig.close()
    assert seen == {torch.bfloat16 if chosen == "bfloat16" else torch.float32}
    losses = [(of.losses[0], want.losses[0]) for of, want in zip(found, wanted[1], strict=True)]
    assert all(loss == pytest.approx(want, rel=0.05 if chosen == "bfloat16" else 1e-5) for loss, want in losses)


def test_what_is_multiplied_is_part_of_the_fingerprint() -> None:
    def found(chosen: str, *devices: str) -> dict[str, str]:
        tree = {"dense_products": chosen, "devices": ["cpu"]}
        config = parse_config({"task": "tests.support.toy", "pool": tree, "testing": {"device_module": MODULE}}, "test")
        return numerics.reference(config, inputs().plan, devices)

    assert found("tf32", "cpu") == found("float32", "cpu")
    with_devices = found("float32", "cpu", "fakegpu:1")
    assert found("tf32", "cpu", "fakegpu:1") == {**with_devices, "dense products": "tf32"}
    assert with_devices["devices"].endswith("compute capability 0.0, torch's own operations")


def test_too_little_memory_for_a_library_or_a_kernel_is_known() -> None:
    """Fault: only torch's own allocator was recognised."""
    fakegpu.configure(fail_launch=1)
    with pytest.raises(RuntimeError) as error:
        torch.ones(4, device="fakegpu:0")
    assert is_out_of_memory(error.value)


def test_what_the_device_has_failed_with_is_raised_by_who_waits() -> None:
    rig = TakingRig(inputs(2))
    fakegpu.configure(fail_kernel=30, lazy=1)  # later than it was launched
    with pytest.raises(RuntimeError, match=FAILED):
        rig.train()
    fakegpu.mend()
    rig.close()


def test_arrivals_are_done_in_their_order_and_none_after_a_failure() -> None:
    event_waiter = EventWaiter()
    stream = torch.Stream(device="fakegpu:0")
    done: list[object] = []

    def fail() -> None:
        raise ValueError("no")

    event_waiter.call_after(stream.record_event(), lambda: done.append(threading.current_thread()))
    event_waiter.wait(stream.record_event())
    assert done == [event_waiter]
    event_waiter.call_after(stream.record_event(), fail)
    event_waiter.call_after(stream.record_event(), lambda: done.append("after"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            event_waiter.wait(stream.record_event())
    assert done == [event_waiter]
