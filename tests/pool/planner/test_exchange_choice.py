"""Which exchange a run has, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pool.config.load import parse_config
from pool.device import shared_memory
from pool.device.proof import COPIED, NEEDED, NEEDED_BY_SEVERAL, WRITTEN, Record, Setup, note
from pool.errors import ConfigError
from pool.exchange.exchange_choice import HOST, Exchange
from pool.exchange.plan import TensorSpec, make_plan
from pool.planner.exchange import choose_exchange

TREE: dict[str, Any] = {"task": "tests.support.toy", "data": {"source": "synthetic", "batch_size": 64}}
PLANS = [make_plan([TensorSpec("bias", (4,), "float32", 4)], [], [512])]
HALVES = [make_plan([TensorSpec("bias", (4,), "bfloat16", 2)], [], [512])]


SETUP = Setup("A100", "580.1", mps=False)
PROOF = Record(SETUP, "2026-11-23", dict.fromkeys(NEEDED_BY_SEVERAL, ""))
WHY = f"make gpu-check on 2026-11-23, A100, driver 580.1: {'; '.join(NEEDED_BY_SEVERAL)}"


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Of two kinds: memory of cuda can be shared, which was seen to work."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    note(PROOF)
    before = dict(shared_memory.makers)
    shared_memory.makers.clear()
    shared_memory.makers["cuda"] = lambda: SimpleNamespace(setup=lambda _: SETUP)  # type: ignore[assignment, return-value]
    shared_memory.shared_memory_of.cache_clear()
    yield
    shared_memory.makers.clear()
    shared_memory.makers.update(before)
    shared_memory.shared_memory_of.cache_clear()


def chosen(*names: str, plans: Any = PLANS, **settings: Any) -> Exchange:
    """`settings`: by section, over an optimizer that has a step on devices."""
    tree = {**TREE, "optimizer": {"name": "pool.optim.Adam"}, "pool": {}, **settings}
    tree["testing"] = {"device_module": "tests.other"}
    return choose_exchange(parse_config(tree, "test"), names, plans)


def test_auto_takes_the_first_workers_device() -> None:
    found = chosen("cuda:1", "cuda:0", "cuda:1")
    assert found == Exchange(("cuda:1",), workers=((0, 2),), why=WHY)
    assert found.local == (0, 2)
    assert str(found) == f"gradients are added up on cuda:1: {WHY}"


def test_a_device_may_be_named_that_no_worker_has() -> None:
    found = chosen("cuda:1", pool={"coordinator_device": "cuda:0"})
    assert found == Exchange(("cuda:0",), workers=((),), why=WHY)


def test_a_device_that_the_machine_has_not_is_named() -> None:
    with pytest.raises(ConfigError, match="coordinator_device: 'cuda:2': this machine has 2 cuda devices"):
        chosen("cuda:1", pool={"coordinator_device": "cuda:2"})


def test_all_takes_the_devices_of_all_workers() -> None:
    found = chosen("cuda:1", "cuda:0", "cuda:1", pool={"coordinator_device": "all"})
    assert found == Exchange(("cuda:1", "cuda:0"), workers=((0, 2), (1,)), why=WHY)
    assert str(found) == f"gradients are added up on cuda:1, cuda:0: {WHY}"
    assert chosen("cuda:1", pool={"coordinator_device": "all"}) == chosen("cuda:1")


@pytest.mark.parametrize("problem", [None, "cuda:0 to cuda:1: 5 of 2,097,176 bytes differ when sent"])
def test_all_is_refused_until_copies_between_cards_were_seen_to_arrive(problem: str | None) -> None:
    """Where one device alone is taken without that."""
    problems = dict.fromkeys(NEEDED, "") | ({} if problem is None else {COPIED: problem})
    note(replace(PROOF, problems=problems))
    why = (
        "make gpu-check on 2026-11-23, A100, driver 580.1: not seen that what lies in it arrives on every other card: "
        f"{problem or 'not tried'}"
    )
    several = {"coordinator_device": "all"}
    assert chosen("cuda:1", "cuda:0", pool=several) == Exchange(why=why)
    with pytest.raises(ConfigError) as error:
        chosen("cuda:1", "cuda:0", pool={**several, "exchange": "device"})
    assert str(error.value) == f"pool.coordinator_device: all can't be had: {why}; one device can, by its name"
    for settings in ({}, {"coordinator_device": "cuda:0"}, {"exchange": "device"}):
        assert chosen("cuda:1", "cuda:0", pool=settings).on_device
    assert chosen("cuda:1", "cuda:1", pool={**several, "exchange": "device"}).on_device


def test_on_cpus_there_is_nothing_to_choose_or_to_say() -> None:
    assert chosen("cpu", "fake:0") == HOST
    assert chosen("cuda:0", pool={"exchange": "host"}) == HOST


def test_auto_does_not_take_what_was_never_seen_to_work() -> None:
    note(replace(PROOF, problems={**PROOF.problems, WRITTEN: "it holds 00"}))
    found = chosen("cuda:0")
    assert not found.on_device
    assert str(found) == (
        "gradients are added up on the host: make gpu-check on 2026-11-23, A100, driver 580.1: not seen that its maker "
        'reads what another process has written: it holds 00 (pool.exchange = "device" takes it all the same)'
    )
    assert chosen("cuda:0", pool={"exchange": "device"}).on_device


PROBLEMS: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "a CPU": (("cuda:0", "cpu"), {}, "a worker is on cpu, which is no cuda device"),
    "a CPU of all": (
        ("cpu", "cuda:0"),
        {"pool": {"coordinator_device": "all"}},
        "a worker is on cpu, which is no cuda device",
    ),
    "only CPUs": (("cpu",), {}, "a worker is on cpu, which is no accelerator"),
    "another kind": (("other:0",), {}, "two processes can't share the memory of other:0"),
    "optimizer": (
        ("cuda:0",),
        {"optimizer": {"name": "torch.optim.Adam"}},
        "torch.optim.Adam has no step there, as pool.optim.Adam and pool.optim.SparseAdam have",
    ),
    "norm": (("cuda:0",), {"train": {"clip_norm": 1.0}}, "train.clip_norm is set"),
    "value": (("cuda:0",), {"train": {"clip_value": 1.0}}, "train.clip_value is set"),
    "halves": (("cuda:0",), {"plans": HALVES}, "parameter bias is bfloat16"),
    "groups": (
        ("cuda:0",),
        {"train": {"batches_per_step": 130, "batches_per_group": 2}},
        "a step has 65 groups of batches, and 64 can be added up there",
    ),
}


@pytest.mark.parametrize(("names", "settings", "why"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_stands_against_a_device_is_said(names: tuple[str, ...], settings: dict[str, Any], why: str) -> None:
    if any(name != "cpu" for name in names):
        assert chosen(*names, **settings) == Exchange(why=why)
    with pytest.raises(ConfigError) as error:
        chosen(*names, **{**settings, "pool": {**settings.get("pool", {}), "exchange": "device"}})
    assert str(error.value) == (f"pool.exchange: device can't be had: {why}; host is another choice, auto chooses")


@pytest.mark.parametrize("name", ["cpu", "other:0?crash=1", "rubbish", "cuda:", " "])
def test_a_coordinators_device_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        chosen("cuda:0", pool={"coordinator_device": name})
    assert str(error.value) == (
        f"pool.coordinator_device: {name!r}: allowed: an accelerator, as pool.devices names it, or all"
    )
