"""Every named crash point once, with SIGKILL: the run ends with the bits of one in which nothing happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.oracle import CHESS, SETTINGS, Undisturbed, assert_unharmed, undisturbed
from tests.chaos.points import (
    BORROWED,
    apart,
    armed,
    came_by,
    chess_points,
    crash_points,
    device_points,
    local_points,
    run_and_continue,
    together,
)
from tests.support.runs import run, run_well

pytestmark = pytest.mark.chaos
POINTS = crash_points()
SUPERVISOR = POINTS.pop("supervisor")
GPUS: dict[str, Any] = {
    **SETTINGS,
    "testing.device_module": "tests.gpu.fake.fakegpu",
    "pool.devices": ["fakegpu:0", "fakegpu:1"],
}

ON_DEVICE: dict[str, Any] = {
    **GPUS,
    "optimizer.name": "pool.optim.Adam",
    "pool.exchange": "device",
    "pool.coordinator_device": "all",
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("chaos") / "undisturbed")


@pytest.fixture(scope="module")
def chess_reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("chaos") / "undisturbed", CHESS)


@pytest.fixture(scope="module")
def device_reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    settings = {**ON_DEVICE, "pool.devices": ["fakegpu:0"], "pool.exchange": "host"}
    return undisturbed(tmp_path_factory.mktemp("chaos") / "undisturbed", settings)


@pytest.fixture(scope="module")
def gpu_reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("chaos") / "undisturbed", {**GPUS, "pool.devices": ["fakegpu:0"]})


def check(dir: Path, names: tuple[str, ...], reference: Undisturbed, settings: dict[str, Any]) -> None:
    ended = run(dir, armed(settings, *(f"{name}=kill" for name in names)))
    assert_unharmed(ended, reference, settings)
    assert set(came_by(dir)) == set(names)


@pytest.mark.parametrize("names", together(POINTS), ids=" ".join)
def test_processes_that_are_killed_at_these_points_change_nothing(
    names: tuple[str, ...], reference: Undisturbed, tmp_path: Path
) -> None:
    check(tmp_path / "run", names, reference, SETTINGS)


@pytest.mark.parametrize("names", together(chess_points()), ids=" ".join)
def test_with_real_data_too(names: tuple[str, ...], chess_reference: Undisturbed, tmp_path: Path) -> None:
    check(tmp_path / "run", names, chess_reference, CHESS)


@pytest.mark.usefixtures("fakegpu_is_built")
@pytest.mark.parametrize("name", [name for name in POINTS["worker"] if name != "worker.mid_table"])  # a CPU's kernel
def test_on_fake_gpus_too(name: str, gpu_reference: Undisturbed, tmp_path: Path) -> None:
    """Buckets are announced by another thread than the one that computes them, later."""
    check(tmp_path / "run", (name,), gpu_reference, GPUS)


@pytest.mark.usefixtures("fakegpu_is_built")
@pytest.mark.parametrize("names", [*apart(together(device_points())), (BORROWED,)], ids=" ".join)
def test_with_an_exchange_on_devices_too(names: tuple[str, ...], device_reference: Undisturbed, tmp_path: Path) -> None:
    """The reference is that of an exchange in host memory."""
    ended = run(tmp_path / "run", armed(ON_DEVICE, *(f"{name}=kill" for name in names)))
    assert_unharmed(ended, device_reference, ON_DEVICE)
    assert set(came_by(tmp_path / "run")) == set(names)


@pytest.mark.usefixtures("fakegpu_is_built")
@pytest.mark.parametrize("name", local_points())
def test_with_an_exchange_in_the_workers_process_too(name: str, device_reference: Undisturbed, tmp_path: Path) -> None:
    """Both roles die at once. The reference is that of an exchange in host memory."""
    settings = {**ON_DEVICE, "pool.devices": ["fakegpu:0"], "pool.exchange": "local"}
    check(tmp_path / "run", (name,), device_reference, settings)


@pytest.mark.parametrize("name", SUPERVISOR)
def test_a_supervisor_that_is_killed_at_this_point_changes_nothing_after_a_resume(
    name: str, reference: Undisturbed, tmp_path: Path
) -> None:
    killed = run(tmp_path / "run", armed(SETTINGS, f"{name}=kill"))
    assert killed.code == -9, killed.err
    assert f"crash point {name}" in killed.err
    assert_unharmed(run_well(tmp_path / "run", SETTINGS, "--resume"), reference)


@pytest.mark.parametrize("point", ["verified", "renamed", "synced", "linked"])
def test_a_final_checkpoint_that_was_cut_short_is_finished(point: str, reference: Undisturbed, tmp_path: Path) -> None:
    """Nobody comes by here again: there is no later checkpoint that would make up for it. It is the only one: a slow
    disk would leave out others, and the point be come by less often."""
    settings = {**SETTINGS, "train.checkpoint_every": SETTINGS["train.steps"]}
    ended = run(tmp_path / "run", armed(settings, f"coordinator.checkpoint_{point}=kill"))
    assert f"the run goes on from step {SETTINGS['train.steps']}" in ended.out
    assert_unharmed(ended, reference, settings)


def test_weights_that_are_still_being_written_are_computed_with_by_nobody(tmp_path: Path) -> None:
    """With clip_norm all of a version is written by the commit; here its writer stands still for a second."""
    settings = {**SETTINGS, "train.clip_norm": 1e9}
    whole = undisturbed(tmp_path / "undisturbed", settings)
    ended = run_and_continue(tmp_path / "run", armed(settings, "coordinator.weights_copied@25=stop"))
    assert_unharmed(ended, whole, settings)
