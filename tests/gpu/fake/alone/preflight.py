"""What the planner finds out about the fake GPU before a run."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from pool.device import probe
from pool.device.cards import Card
from pool.device.lost import is_device_lost
from pool.device.names import Device
from pool.device.probe import describe_cards
from pool.device.startup import naming_lost_devices
from pool.errors import LostDeviceError
from tests.gpu.fake import fakegpu


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    yield
    fakegpu.configure(fail_context=0, lost_devices=0)
    fakegpu.mend()


def one() -> Card:
    (card,) = describe_cards(["fakegpu:1", "cpu", "fakegpu:1"])
    return card


def test_a_context_that_can_not_be_made_is_said() -> None:
    """Before this process has opened the device."""
    fakegpu.configure(fail_context=1)
    card = one()
    assert (card.page_locked, card.problem) == (True, "RuntimeError: FAKEGPU error: out of memory")


def test_each_device_is_looked_at_once() -> None:
    card = one()
    assert (card.device, card.name, card.page_locked, card.problem) == ("fakegpu:1", "fake GPU", True, "")


def test_a_device_that_is_lost_is_said_and_the_others_are_looked_at() -> None:
    fakegpu.configure(lost_devices=2)
    first, second = describe_cards(["fakegpu:0", "fakegpu:1"])
    assert first.problem == ""
    assert "busy or unavailable" in second.problem
    with (
        pytest.raises(LostDeviceError, match=r"cuda:5 can't be used: RuntimeError: FAKEGPU"),
        naming_lost_devices("cuda:5"),
    ):
        torch.zeros(1, device="fakegpu:0") + 1


def test_what_is_no_lost_device() -> None:
    assert not is_device_lost(RuntimeError("CUDA error: an illegal memory access was encountered"))
    assert not is_device_lost(ValueError("busy or unavailable"))
    assert is_device_lost(RuntimeError("No CUDA GPUs are available"))


def test_a_workers_view_is_named_by_the_cards_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device("cuda", 1)
    whole = SimpleNamespace(name="NVIDIA A100", uuid="89-32")
    slice_of = SimpleNamespace(name="NVIDIA A100 MIG 1g.5gb", uuid="89-32")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    assert probe._visible_devices_value(device, whole) == "GPU-89-32"
    assert probe._visible_devices_value(device, slice_of) == "2"
    assert probe._visible_devices_value(device, SimpleNamespace(name="NVIDIA A100")) == "2"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert probe._visible_devices_value(device, whole) == ""
