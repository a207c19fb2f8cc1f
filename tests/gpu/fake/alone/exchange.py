"""An exchange on a fake GPU: what travels over the bus, who waits, and the bits of an exchange in host memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from loader.stream.schema import SparseBatch
from pool.exchange.device import card_copies
from pool.exchange.device.store import DeviceStore
from tests.gpu.fake import fakegpu
from tests.gpu.fake.device_races import DEVICE_MODES, DEVICE_RACES, KINDS, Wanted, expected, found_by, observed
from tests.gpu.fake.rig import Code, Inputs, inputs
from tests.gpu.fake.stepping_rig import DEVICES, PER_STEP, STEPS, SteppingRig, Trained


@pytest.fixture(scope="module")
def wanted() -> Wanted:
    return expected()


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    yield
    fakegpu.configure(delay_us=0, bytes_per_us=0, lazy=0)
    fakegpu.mend()


@pytest.mark.parametrize("mode", DEVICE_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_has_the_bits_of_host_memory_and_nobody_waits_in_a_step(kind: Any, mode: str, wanted: Wanted) -> None:
    """0 waits of the threads that compute, 0 pageable copies; the coordinator waits for a version, and for a part of a
    step that it adds up early."""
    seed = 1 + list(DEVICE_MODES).index(mode) + KINDS.index(kind)  # every other one has groups of several batches
    assert observed(Code(), kind, DEVICE_MODES[mode], seed, wanted) == ""


@pytest.mark.parametrize("race", DEVICE_RACES, ids=lambda race: race.name)
def test_each_seeded_race_is_found(race: Any, wanted: Wanted) -> None:
    assert found_by(race, wanted)


def trained(kind: Any, **settings: Any) -> tuple[Trained, Inputs]:
    given = inputs(STEPS * PER_STEP)
    rig = SteppingRig(given, kind, **settings)
    found = rig.train()
    rig.close()
    return found, given


def test_gradients_of_two_bytes_give_the_same_bits_wherever_they_are_exchanged() -> None:
    """The first group's are added up early, in float32, and the second's beside that sum."""
    found = {kind: trained(kind, gradient_dtype="bfloat16")[0] for kind in ("host", *KINDS)}
    assert all(found[kind].tensors == found["host"].tensors for kind in ("local", "one process", "remote"))
    assert found["host"].tensors != trained("host")[0].tensors
    assert found["remote"].counted.bytes_out < trained("remote")[0].counted.bytes_out


@pytest.mark.parametrize("kind", KINDS)
def test_the_coordinator_waits_once_a_step(kind: Any) -> None:
    found, _ = trained(kind, early=False)
    exports = kind not in ("one process", "remote")  # memory, to the worker's second life
    assert found.waits["coordinator"] == STEPS + exports


@pytest.mark.parametrize(("kind", "devices"), [("local", 1), ("one process", 1), ("shared", 2)])
def test_of_a_worker_on_the_coordinators_device_no_gradient_and_no_weight_goes_over_the_bus(
    kind: Any, devices: int
) -> None:
    """BatchLoader and lists of touched rows come in, losses and flags go out."""
    found, given = trained(kind, early=False)
    views = [SparseBatch.view(given.schema, slot) for slot in given.batches]
    batches = sum(filled(view, slot) for view, slot in zip(views, given.batches, strict=True))
    lists = sum(view.sparse["features"].touched.nbytes for view in views)
    assert found.counted.bytes_in == batches + devices * lists
    assert found.counted.bytes_out == 8 * (1 + len(given.plan.parameters)) * len(given.batches)


def test_each_device_has_the_optimizers_state_of_its_own_rows_alone() -> None:
    given = inputs(STEPS * PER_STEP)
    rig = SteppingRig(given, "shared")
    rig.train()
    divided = rig.divided_state()
    rig.close()
    assert sorted(divided) == ["table.weight/exp_avg", "table.weight/exp_avg_sq"]
    for parts in divided.values():
        rows = {index: sum(len(part) for part in parts if part.device.index == index) for index in (0, 1)}
        assert rows == {0: 520, 1: 480}


def filled(batch: SparseBatch, slot: npt.NDArray[np.uint8]) -> int:
    """Bytes of a ring slot that travel."""
    arrays = [*batch.dense.values(), *(array for view in batch.sparse.values() for array in view.arrays().values())]
    return max(array.ctypes.data - slot.ctypes.data + array.nbytes for array in arrays)


def test_what_does_not_arrive_on_another_card_is_found() -> None:
    """Though no error is raised."""

    class Losing(DeviceStore):
        def send(self, *_: object) -> None:
            self.retain()

    stores = [
        DeviceStore(torch.device(device), fakegpu.SharedMemory().allocate, card_copies.NBYTES, 1) for device in DEVICES
    ]
    assert card_copies.find_first_difference(stores) == ""
    losing = Losing(torch.device(DEVICES[1]), fakegpu.SharedMemory().allocate, card_copies.NBYTES, 1)
    found = card_copies.find_first_difference([stores[0], losing])
    assert re.fullmatch(r"fakegpu:1 to fakegpu:0: [\d,]+ of 2,097,176 bytes differ when sent", found)
