"""Which exchange a run has, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.exchange.exchange_choice import HOST, Exchange
from pool.exchange.plan import TensorSpec, build_plan
from pool.planner import exchange
from pool.planner.exchange import choose_exchange
from pool.planner.memory_sharing import CheckResult

TREE: dict[str, Any] = {"task": "tests.support.toy", "data": {"source": "synthetic", "batch_size": 64}}
PLANS = [build_plan([TensorSpec("bias", (4,), "float32", 4)], [], [512])]
HALVES = [build_plan([TensorSpec("bias", (4,), "bfloat16", 2)], [], [512])]


WHY = "shared memory was tried on 2026-11-23"
DIFFER = "5 of 2,097,176 bytes differ when sent"
ANYWAY = ' (pool.exchange = "device" takes it all the same)'


class Proofs:
    """In place of what is noted and tried."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str, float]] = []
        self.answer = CheckResult(works=True, reason=WHY)
        self.of_several: CheckResult | None = None  # if it is another one

    def __call__(self, devices: Sequence[torch.device], module: str, seconds: float) -> CheckResult:
        self.asked.append(([str(device) for device in devices], module, seconds))
        return self.answer if len(devices) == 1 or self.of_several is None else self.of_several


@pytest.fixture(autouse=True)
def proofs(monkeypatch: pytest.MonkeyPatch) -> Proofs:
    """Of two devices of a kind, memory of cuda can be shared."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(exchange, "get_shared_memory", lambda kind: kind if kind == "cuda" else None)
    made = Proofs()
    monkeypatch.setattr(exchange, "check_memory_sharing", made)
    return made


def chosen(*names: str, plans: Any = PLANS, **settings: Any) -> Exchange:
    """`settings`: by section, over an optimizer that has a step on devices."""
    tree = {**TREE, "optimizer": {"name": "pool.optim.Adam"}, "pool": {}, **settings}
    tree["testing"] = {"device_module": "tests.other"}
    return choose_exchange(parse_config(tree, "test"), names, plans)


@pytest.mark.parametrize("settings", [{}, {"coordinator_device": "all"}, {"exchange": "device"}], ids=str)
def test_the_devices_of_all_workers_are_taken(settings: dict[str, str]) -> None:
    found = chosen("cuda:1", "cuda:0", "cuda:1", pool=settings)
    assert found == Exchange(("cuda:1", "cuda:0"), workers=((0, 2), (1,)), reason=WHY)
    assert found.workers_on_devices == (0, 1, 2)
    assert str(found) == f"gradients are added up on cuda:1, cuda:0: {WHY}"


def test_where_copies_between_cards_do_not_arrive_the_first_one_is_taken(proofs: Proofs) -> None:
    proofs.of_several = CheckResult(works=False, reason=DIFFER)
    alone = f"cuda:1 alone, as {DIFFER}"
    one = Exchange(("cuda:1",), workers=((0, 2),), reason=f"{WHY}; {alone}")
    assert chosen("cuda:1", "cuda:0", "cuda:1") == one
    assert chosen("cuda:1", "cuda:0", "cuda:1", pool={"exchange": "device"}) == replace(one, reason=alone)
    proofs.answer = proofs.of_several = CheckResult(works=False, reason="it holds 00")
    assert chosen("cuda:1", "cuda:0") == Exchange(reason=f"it holds 00{ANYWAY}")


def test_auto_takes_the_only_workers_process_and_has_nothing_to_try_for_that(proofs: Proofs) -> None:
    found = chosen("cuda:1")
    assert found == Exchange(("cuda:1",), workers=((0,),), one_process=True)
    assert found == chosen("cuda:1", pool={"exchange": "local"}) == chosen("cuda:1", pool={"coordinator_device": "all"})
    assert str(found) == "gradients are added up on cuda:1 in the worker's own process"
    assert chosen("other:0").one_process, "whose memory processes can't share"
    assert proofs.asked == []


@pytest.mark.parametrize(
    ("names", "home"), [(("cuda:0", "cuda:0"), ""), (("cuda:0", "cuda:1"), ""), (("cuda:0",), "cuda:1")]
)
def test_several_workers_or_devices_are_not_one_process(names: tuple[str, ...], home: str) -> None:
    assert not chosen(*names, pool={"coordinator_device": home}).one_process
    with pytest.raises(ConfigError) as error:
        chosen(*names, pool={"exchange": "local", "coordinator_device": home})
    assert str(error.value) == (
        "pool.exchange: local can't be had: it takes one worker, on the coordinator's device; "
        "host is another choice, auto chooses"
    )


def test_a_device_may_be_named_that_no_worker_has() -> None:
    found = chosen("cuda:1", pool={"coordinator_device": "cuda:0"})
    assert found == Exchange(("cuda:0",), workers=((),), reason=WHY)


def test_a_device_that_the_machine_has_not_is_named() -> None:
    with pytest.raises(ConfigError, match="coordinator_device: 'cuda:2': this machine has 2 cuda devices"):
        chosen("cuda:1", pool={"coordinator_device": "cuda:2"})


def test_all_is_refused_where_copies_between_cards_do_not_arrive(proofs: Proofs) -> None:
    """Where one device alone is taken, which nobody has to have seen."""
    proofs.of_several = CheckResult(works=False, reason=DIFFER)
    several = {"coordinator_device": "all"}
    assert chosen("cuda:1", "cuda:0", pool=several) == Exchange(reason=DIFFER)
    with pytest.raises(ConfigError) as error:
        chosen("cuda:1", "cuda:0", pool={**several, "exchange": "device"})
    assert str(error.value) == (f"pool.coordinator_device: all can't be had: {DIFFER}; one device can, by its name")
    assert chosen("cuda:1", "cuda:1", pool={**several, "exchange": "device"}).on_device


def test_what_is_seen_of_the_devices_is_asked_for_where_it_decides(proofs: Proofs) -> None:
    """The half of the time that the planner has is left for all else."""
    chosen("cuda:1", "cuda:1", pool={"start_timeout": 30})
    chosen("cuda:1", "cuda:0")
    chosen("cuda:1", "cuda:0", pool={"coordinator_device": "all"})
    chosen("cuda:1", "cuda:0", pool={"exchange": "device"})
    chosen("cuda:1", "cuda:0", pool={"exchange": "device", "coordinator_device": "cuda:0"})
    chosen("cuda:1", pool={"exchange": "host"})
    chosen("cpu")
    chosen("cuda:1", "cuda:0", optimizer={"name": "pool.optim.FTRL"})
    both = ["cuda:1", "cuda:0"], "tests.other", 60.0
    assert proofs.asked == [(["cuda:1"], "tests.other", 15.0), both, both, both]


def test_devices_that_the_machine_lacks_are_not_tried(proofs: Proofs) -> None:
    """Of a run that is only checked."""
    config = parse_config({**TREE, "optimizer": {"name": "pool.optim.Adam"}}, "test")
    for devices in (["cuda:5"], ["cuda:5", "cuda:5"]):
        assert choose_exchange(config, devices, PLANS, missing="no cuda:5").reason.startswith("no cuda:5")
    assert proofs.asked == []


def test_on_cpus_there_is_nothing_to_choose_or_to_say() -> None:
    assert chosen("cpu", "fake:0") == HOST
    assert chosen("cuda:0", pool={"exchange": "host"}) == HOST


def test_auto_does_not_take_what_does_not_work(proofs: Proofs) -> None:
    proofs.answer = CheckResult(works=False, reason="it holds 00")
    assert str(chosen("cuda:0", "cuda:0")) == f"gradients are added up on the host: it holds 00{ANYWAY}"
    assert chosen("cuda:0", pool={"exchange": "device"}) == Exchange(("cuda:0",), workers=((0,),))


PROBLEMS: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "a CPU": (("cuda:0", "cpu"), {}, "a worker is on cpu, which is no cuda device"),
    "a CPU of all": (
        ("cpu", "cuda:0"),
        {"pool": {"coordinator_device": "all"}},
        "a worker is on cpu, which is no cuda device",
    ),
    "only CPUs": (("cpu",), {}, "a worker is on cpu, which is no accelerator"),
    "another kind": (("other:0", "other:1"), {}, "two processes can't share the memory of other:0"),
    "optimizer": (
        ("cuda:0",),
        {"optimizer": {"name": "pool.optim.RowwiseAdagrad"}},
        "pool.optim.RowwiseAdagrad steps on a CPU alone; pool.optim.Adam, AdamW, SparseAdam and torch's step there",
    ),
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
        assert chosen(*names, **settings) == Exchange(reason=why)
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
