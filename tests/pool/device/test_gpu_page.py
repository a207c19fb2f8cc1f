"""What is said of GPUs before a run: of made-up cards; tests/fakegpu/alone looks at fake ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pool.cost_model.choice import choice_of
from pool.device.cards import Card, Link, Speeds
from pool.device.pci import link_of
from pool.exchange.exchange_choice import Exchange
from pool.kernels.cuda.compiler import Compiler, kernels_in_words, note_compiled
from pool.supervisor.prepare.gpu_page import gpu_lines, gpu_notes
from pool.supervisor.prepare.run_plan import RunPlan
from tests.support.run_plans import planned, run_plan

SPEEDS = Speeds(inward=25.1, outward=12, memory=903.4, host=65, products=41_000)
CARD = Card(
    "cuda:0",
    "NVIDIA GeForce RTX 4090",
    nbytes=24 << 30,
    free=23 << 30,
    capability="8.9",
    visible="GPU-1",
    link=Link(4, 16, 5, 16),
    speeds=SPEEDS,
    peers=("cuda:1",),
    kernels="NVRTC 13.0",
)
OTHER = replace(CARD, device="cuda:1", link=None, peers=(), speeds=replace(SPEEDS, outward=25), kernels="")


def run_with(*cards: Card) -> RunPlan:
    answer = planned(devices=("cuda:0", "cuda:1"), cards=cards)
    return run_plan(Path("/nowhere"), answer=answer)


def test_each_card_is_described_with_its_link_and_what_was_measured() -> None:
    names, values = zip(*gpu_lines(run_with(CARD, OTHER)), strict=True)
    assert names[:6] == ("cuda:0", "", "", "cuda:1", "", "exchange")
    assert values[:3] == (
        "NVIDIA GeForce RTX 4090, 24 GiB, 23.0 free, compute capability 8.9, PCIe 4 x16, 32 GB/s at most (could be "
        "5 x16); may use the memory of cuda:1",
        "copies from page-locked memory: 25.1 GB/s in, 12 out; own memory 903 GB/s; dense products 41 TFLOP/s; the "
        "link should give more",
        "kernels: NVRTC 13.0",
    )
    assert values[3] == "NVIDIA GeForce RTX 4090, 24 GiB, 23.0 free, compute capability 8.9"
    assert values[5] == "host: sums, optimizer and weights are the host's (pool.exchange)"
    assert values[6].startswith("at most; a card: 1 x ")
    assert values[7].startswith("a step takes at least ")


def test_an_exchange_on_a_card_says_what_was_seen_of_it() -> None:
    assert choice_of(Exchange(("cuda:0",), why="make gpu-check on 2026-11-23")).why == (
        "sums, optimizer and weights lie on cuda:0; make gpu-check on 2026-11-23"
    )


def test_nothing_is_said_without_gpus() -> None:
    assert not list(gpu_lines(run_with()))
    assert not list(gpu_notes(run_with()))


def test_a_card_that_could_not_be_measured_is_told_at_the_start() -> None:
    broken = replace(OTHER, speeds=None, problem="RuntimeError: CUDA error: busy or unavailable")
    assert list(gpu_notes(run_with(CARD, broken))) == ["cuda:1: RuntimeError: CUDA error: busy or unavailable"]
    lines = [value for _, value in gpu_lines(run_with(CARD, broken))]
    assert "not measured: RuntimeError: CUDA error: busy or unavailable" in lines
    assert lines[-1] == "how long a step takes is not known: not every card could be measured"


def test_memory_that_can_not_be_page_locked_and_a_card_too_many_are_told_at_the_start() -> None:
    """Where the host's memory bounds a step, and where computing does."""
    poor = replace(SPEEDS, host=1)
    notes = list(gpu_notes(run_with(replace(CARD, page_locked=False, speeds=poor), OTHER)))
    assert notes[0].startswith("cuda:0: memory can't be page-locked")
    assert len(notes) == 2
    assert "more than one card will not pay" in notes[1]
    slow = replace(SPEEDS, products=1e-9)
    assert list(gpu_notes(run_with(replace(CARD, speeds=slow), replace(OTHER, speeds=slow)))) == []


@pytest.mark.parametrize(
    ("speed", "most", "link"),
    [
        ("16.0 GT/s PCIe\n", "32.0 GT/s PCIe\n", Link(4, 8, 5, 16)),
        ("8 GT/s\n", "8.0 GT/s\n", Link(3, 8, 3, 16)),
        ("Unknown\n", "16.0 GT/s PCIe\n", None),
    ],
)
def test_a_cards_link_is_the_kernels_to_say(speed: str, most: str, link: Link | None, tmp_path: Path) -> None:
    folder = tmp_path / "0001:0a:00.0"
    folder.mkdir()
    files = {"current_link_speed": speed, "max_link_speed": most, "current_link_width": "8", "max_link_width": "16"}
    for name, text in files.items():
        (folder / name).write_text(text)
    card = SimpleNamespace(pci_domain_id=1, pci_bus_id=10, pci_device_id=0)
    assert link_of(card, tmp_path) == link
    assert link_of(SimpleNamespace(pci_domain_id=1, pci_bus_id=11, pci_device_id=0), tmp_path) is None
    assert link_of(SimpleNamespace(), tmp_path) is None


def test_what_is_compiled_and_how_long_that_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compiler, "__init__", lambda self, *_: setattr(self, "_version", "13.0"))
    words = "NVRTC 13.0 compiles for sm_89 what a worker needs first and is not kept; kept of"
    assert kernels_in_words("sm_89", tmp_path).startswith(f"{words} 0 of ")
    (tmp_path / "adam-sm_89-00.cubin").touch()
    (tmp_path / "fold-sm_90-00.cubin").touch()
    for seconds, architecture in ((0.3, "sm_89"), (0.45, "sm_89"), (7.0, "sm_90")):
        note_compiled(seconds, "adam.cu WIDTH=4", architecture, tmp_path)
    said = kernels_in_words("sm_89", tmp_path)
    assert said.startswith(f"{words} 1 of ")
    assert said.endswith("; the last took 0.5 s")
    note_compiled(1.0, "adam.cu", "sm_89", tmp_path / "not there")


def test_without_a_compiler_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(Compiler, "__init__", refuse)
    assert kernels_in_words("sm_89") == "none, torch's own operations serve: No module named 'cuda'"
