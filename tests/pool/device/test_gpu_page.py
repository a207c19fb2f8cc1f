"""What is said of GPUs before a run: of made-up cards; tests/gpu/fake/alone looks at fake ones."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pool.device.cards import Card, KernelSupport
from pool.exchange.exchange_choice import Exchange
from pool.kernels.cuda.compiler import Compiler, describe_kernels, explain_missing_kernels, record_compile_time
from pool.supervisor.prepare.gpu_page import describe_exchange, gpu_lines, gpu_notes
from pool.supervisor.prepare.run_plan import RunPlan
from tests.support.run_plans import planned, run_plan

CARD = Card(
    "cuda:0",
    "NVIDIA GeForce RTX 4090",
    nbytes=24 << 30,
    free=23 << 30,
    capability="8.9",
    visible="GPU-1",
    peers=("cuda:1",),
    kernels=KernelSupport(available=True, description="NVRTC 13.0"),
)
OTHER = replace(CARD, device="cuda:1", peers=(), kernels=None)


def run_with(*cards: Card) -> RunPlan:
    answer = planned(devices=("cuda:0", "cuda:1"), cards=cards)
    return run_plan(Path("/nowhere"), answer=answer)


def test_each_card_is_described() -> None:
    broken = replace(OTHER, page_locked=False, problem="RuntimeError: CUDA error: busy or unavailable")
    assert list(gpu_lines(run_with(CARD, broken))) == [
        (
            "cuda:0",
            "NVIDIA GeForce RTX 4090, 24 GiB, 23.0 free, compute capability 8.9; may use the memory of cuda:1",
        ),
        ("", "kernels: NVRTC 13.0"),
        (
            "cuda:1",
            "NVIDIA GeForce RTX 4090, 24 GiB, 23.0 free, compute capability 8.9; memory can't be page-locked",
        ),
        ("", "RuntimeError: CUDA error: busy or unavailable"),
        ("exchange", "host: sums, optimizer and weights are the host's (pool.exchange)"),
    ]


def test_an_exchange_on_a_card_says_what_was_seen_of_it() -> None:
    why = "shared memory was tried on 2026-11-23"
    assert describe_exchange(Exchange(("cuda:0",))) == "device: sums, optimizer and weights lie on cuda:0"
    local = Exchange(("cuda:0",), ((0,),), one_process=True)
    assert describe_exchange(local) == "local: sums, optimizer and weights lie on cuda:0, its worker's process has them"
    for devices in (("cuda:0",), ("cuda:0", "cuda:1")):
        assert describe_exchange(Exchange(devices, reason=why)).endswith(f"; {why}")
    assert describe_exchange(Exchange(("cuda:0", "cuda:1"))).startswith("rows shared out: each of cuda:0, cuda:1 adds")


def test_nothing_is_said_without_gpus() -> None:
    assert not list(gpu_lines(run_with()))
    assert not list(gpu_notes(run_with()))


def test_what_its_user_may_want_to_change_is_told_at_the_start() -> None:
    broken = replace(OTHER, problem="RuntimeError: CUDA error: busy or unavailable")
    plain = replace(
        CARD, page_locked=False, kernels=KernelSupport(available=False, description="No module named 'cuda'")
    )
    assert ("", "kernels: none, torch's own operations serve: No module named 'cuda'") in gpu_lines(run_with(plain))
    plain_line, locked_line, broken_line = gpu_notes(run_with(plain, broken))
    assert plain_line == "cuda:0: torch's own operations compute there, which is slower: No module named 'cuda'"
    assert locked_line.startswith("cuda:0: memory can't be page-locked")
    assert broken_line == "cuda:1: RuntimeError: CUDA error: busy or unavailable"


def test_what_the_kernels_lack_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)  # another test may have made it importable
    assert explain_missing_kernels("sm_90").endswith("pip install 'sparsepool[gpu]'")


def test_what_is_compiled_and_how_long_that_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compiler, "__init__", lambda self, *_: setattr(self, "_version", "13.0"))
    words = "NVRTC 13.0 compiles for sm_89 what a worker needs first and is not kept;"
    assert describe_kernels("sm_89", tmp_path).startswith(f"{words} 0 programs")
    (tmp_path / "step-sm_89-00.cubin").touch()
    (tmp_path / "fold-sm_90-00.cubin").touch()
    for seconds, architecture in ((0.3, "sm_89"), (0.45, "sm_89"), (7.0, "sm_90")):
        record_compile_time(seconds, "step.cu WIDTH=4", architecture, tmp_path)
    said = describe_kernels("sm_89", tmp_path)
    assert said.startswith(f"{words} 1 programs")
    assert said.endswith("; the last took 0.5 s")
    record_compile_time(1.0, "step.cu", "sm_89", tmp_path / "not there")
