"""What is new of a card and its driver is tried once: what is found is noted, and nothing else that goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pool.device.proof import (
    COPIED,
    NEEDED,
    OPENED,
    OUTLIVES,
    TRAINED,
    WRITTEN,
    Record,
    Setup,
    read_records,
    write_record,
)
from pool.device.second_process import NotTriedError
from pool.planner import memory_sharing
from pool.planner.memory_sharing import CheckResult

SETUPS = {"cuda:0": Setup("A100", "580.1", mps=False), "cuda:1": Setup("H100", "580.1", mps=False)}
SHARED = f"{OPENED}; {WRITTEN}"


class Cards:
    """Two that differ, and what is found of each."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.shared = dict.fromkeys(NEEDED, "")
        self.copied = ""
        self.not_tried = ""  # the function that can't try it

    def find_sharing_problems(self, device: str, module: str, deadline: float) -> dict[str, str]:
        assert (module, deadline > 0) == ("tests.other", True)
        self._try(device, "find_sharing_problems")
        return dict(self.shared)

    def find_copy_problem(self, kind: str, *_: object) -> str:
        self._try(f"copies of {kind}", "find_copy_problem")
        return self.copied

    def _try(self, what: str, function: str) -> None:
        self.tried.append(what)
        if function == self.not_tried:
            raise NotTriedError("CUDA error: out of memory")


@pytest.fixture(autouse=True)
def cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cards:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Cards()
    for name in ("find_sharing_problems", "find_copy_problem"):
        monkeypatch.setattr(memory_sharing, name, getattr(made, name))
    shared = SimpleNamespace(setup=lambda device: SETUPS[str(device)])
    monkeypatch.setattr(memory_sharing, "get_shared_memory", lambda _: shared)
    return made


def proof(*devices: str) -> CheckResult:
    return memory_sharing.check_memory_sharing([torch.device(device) for device in devices], "tests.other", 10)


def test_what_is_new_is_tried_once_and_noted(cards: Cards) -> None:
    first, second = proof("cuda:0"), proof("cuda:0")
    assert cards.tried == ["cuda:0"]
    assert first.works
    assert re.fullmatch(rf"shared memory was tried now, in \d+\.\d s, A100, driver 580\.1: {SHARED}", first.reason)
    (record,) = read_records()
    assert (record.setup, record.problems) == (SETUPS["cuda:0"], dict.fromkeys(NEEDED, ""))
    assert second == CheckResult(
        works=True, reason=f"shared memory was tried on {record.day}, A100, driver 580.1: {SHARED}"
    )


def test_each_kind_of_card_is_tried_and_copies_of_all_together(cards: Cards) -> None:
    assert proof("cuda:0", "cuda:1").works
    assert cards.tried == ["cuda:0", "copies of cuda", "cuda:1"]
    assert proof("cuda:0", "cuda:1").reason.count(f"{SHARED}; {COPIED}") == 2
    assert proof("cuda:1").works
    assert len(cards.tried) == 3


def test_only_what_is_not_noted_is_tried(cards: Cards) -> None:
    """And what else was seen stays."""
    seen = {**dict.fromkeys(NEEDED, ""), OUTLIVES: "it was gone"}
    write_record(Record(SETUPS["cuda:0"], "2026-11-23", seen))
    assert proof("cuda:0").reason.startswith("shared memory was tried on 2026-11-23, A100")
    proof("cuda:0", "cuda:0")
    assert cards.tried == ["copies of cuda"]
    assert Record.find(SETUPS["cuda:0"]).problems == {**seen, COPIED: ""}


def test_a_failure_is_noted_with_what_to_do(cards: Cards, tmp_path: Path) -> None:
    cards.shared = {OPENED: "", WRITTEN: "it holds 00"}
    file = tmp_path / "sparsepool/shared-memory.json"
    for when in (r"now, in \d+\.\d s", r"on \d{4}-\d\d-\d\d"):
        verdict = proof("cuda:0", "cuda:1")
        said = f"shared memory was tried {when}, A100, driver 580.1: not seen that {WRITTEN}: it holds 00; "
        assert re.fullmatch(f"{said}to try it again, remove {file}", verdict.reason)
        assert not verdict.works
    assert cards.tried == ["cuda:0", "cuda:1"]
    file.unlink()
    proof("cuda:0")
    assert len(cards.tried) == 3


def test_other_bits_that_gpu_check_has_seen_count(cards: Cards) -> None:
    write_record(Record(SETUPS["cuda:0"], "2026-11-23", {**dict.fromkeys(NEEDED, ""), TRAINED: "other bits"}))
    assert f"not seen that {TRAINED}: other bits" in proof("cuda:0").reason
    assert cards.tried == []


def test_what_does_not_arrive_on_another_card_stands_against_several_alone(cards: Cards) -> None:
    cards.copied = "cuda:0 to cuda:1: 5 of 2,097,176 bytes differ when sent"
    assert f"not seen that {COPIED}: {cards.copied}" in proof("cuda:0", "cuda:1").reason
    assert proof("cuda:0").works


@pytest.mark.parametrize("function", ["find_sharing_problems", "find_copy_problem"])
def test_what_may_pass_is_not_noted_and_tried_again(function: str, cards: Cards) -> None:
    cards.not_tried = function
    verdict = proof("cuda:0", "cuda:1")
    assert not verdict.works
    assert verdict.reason == (
        "it can't be tried now whether processes can share memory of A100, driver 580.1: CUDA error: out of memory"
    )
    assert read_records() == ()
    cards.not_tried = ""
    assert proof("cuda:0", "cuda:1").works


@pytest.fixture(params=["no folder", "a file"])
def nowhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Why nothing can be noted."""
    if request.param == "a file":
        (tmp_path / "sparsepool").touch()
        yield "since that can't be noted: "
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", no_home)
        yield "since there is no cache folder to note that in"


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_where_nothing_can_be_noted_each_start_tries_it(nowhere: str, cards: Cards) -> None:
    for _ in range(2):
        verdict = proof("cuda:0")
        assert verdict.works
        assert f"{SHARED}; each start tries it, {nowhere}" in verdict.reason
    assert cards.tried == ["cuda:0", "cuda:0"]
