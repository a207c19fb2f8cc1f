"""Each worker sees its own card alone, whatever the user's CUDA_VISIBLE_DEVICES is."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from pool.device.cards import VISIBLE_DEVICES, Card, describe_hidden_cards, parse_visible_devices, visible_devices_value
from pool.device.names import Device, resolve_devices
from pool.device.startup import hide_other_devices
from pool.errors import ConfigError

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
MIG = "MIG-6c3b8d5e-bd8a-5c9c-a4e5-1c2d3e4f5a6b"
OLD_MIG = f"MIG-{UUID}/1/0"


@pytest.mark.parametrize(
    ("variable", "listed"),
    [
        (None, None),
        ("", ()),
        ("0", ("0",)),
        ("2,0", ("2", "0")),
        (" 1 ,+3", ("1", "3")),
        ("1gpu2,2ampere", ("1", "2")),
        ("0,-1,1", ("0",)),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("0,,1", ("0",)),
        ("1,1", ()),
        ("1,01", ()),
        (f"{UUID},GPU-3f", (UUID, "GPU-3f")),
        (f"{UUID},1", (UUID,)),
        (f"{UUID},{MIG}", (UUID,)),
        (f"{UUID},{UUID}", ()),
        (f"{MIG},{OLD_MIG}", (MIG, OLD_MIG)),
    ],
)  # fmt: skip
def test_a_setting_is_read_as_the_driver_reads_it(variable: str | None, listed: tuple[str, ...] | None) -> None:
    assert parse_visible_devices(variable) == listed


@pytest.mark.parametrize(
    ("variable", "index", "uuid", "value"),
    [
        (None, 3, "", "3"),
        (None, 3, UUID, UUID),
        ("2,0", 1, "", "0"),
        ("2,0", 0, "", "2"),
        ("2,0", 0, UUID, UUID),
        ("GPU-3f,GPU-89", 1, UUID, "GPU-89"),
        (f"{MIG},{OLD_MIG}", 1, UUID, OLD_MIG),
    ],
)
def test_a_worker_is_shown_one_card(variable: str | None, index: int, uuid: str, value: str) -> None:
    assert visible_devices_value(variable, index, uuid) == value
    assert parse_visible_devices(value) == (value,), "one card, and the same when it is read again"


@pytest.mark.parametrize(
    ("variable", "count", "line"),
    [
        (None, 1, "pool.devices: 'cuda:2': this machine shows 1 CUDA device (cuda:0)"),
        ("0,1", 2, "pool.devices: 'cuda:2': this machine shows 2 CUDA devices (cuda:0 to cuda:1), with "
                   "CUDA_VISIBLE_DEVICES=0,1"),
        ("", 0, "pool.devices: 'cuda:2': this machine shows no CUDA device, CUDA_VISIBLE_DEVICES is empty, which hides "
                "all"),
    ],
)  # fmt: skip
def test_a_device_that_is_hidden_is_named_with_what_hides_it(variable: str | None, count: int, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_devices(["cuda:2"], count, hidden=describe_hidden_cards(variable))
    assert str(error.value) == line


def test_a_worker_calls_its_only_card_by_the_first_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE_DEVICES, "5,6")
    device, card = Device("cuda", 1), Card("cuda:1", "RTX", 1, 1, "8.9", visible="6")
    assert hide_other_devices([device], [None]) == [device]
    assert hide_other_devices([device], [replace(card, visible="")]) == [device]
    assert os.environ[VISIBLE_DEVICES] == "5,6"
    assert [own.torch_name for own in hide_other_devices([device], [card])] == ["cuda:0"]
    assert os.environ[VISIBLE_DEVICES] == "6"


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (["GPU-3", "GPU-1"], "GPU-3,GPU-1"),
        (["2", "0"], "2,0"),
        (["GPU-3", "0"], None),  # the driver would see the first alone
        (["0", "0"], None),
        (["GPU-3", ""], None),
    ],
)
def test_a_coordinator_on_several_cards_sees_these_in_its_own_order_or_all(
    names: list[str], value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE_DEVICES, "3,1,0")
    devices = [Device("cuda", 2), Device("cuda", 1)]
    cards = [Card(each.torch_name, "RTX", 1, 1, "8.9", visible=name) for each, name in zip(devices, names, strict=True)]
    found = [device.torch_name for device in hide_other_devices(devices, cards)]
    assert (found, os.environ[VISIBLE_DEVICES]) == (
        (["cuda:2", "cuda:1"], "3,1,0") if value is None else (["cuda:0", "cuda:1"], value)
    )
