"""Every named crash point once, with SIGKILL: the run ends with the bits of one in which nothing happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.oracle import SETTINGS, Undisturbed, assert_unharmed, undisturbed
from tests.chaos.points import armed, came_by, crash_points, together
from tests.support.runs import Ended, run, run_well

POINTS = crash_points()
SUPERVISOR = POINTS.pop("supervisor")
OF_CHILDREN = together(POINTS)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("chaos") / "undisturbed")


@pytest.mark.parametrize("names", OF_CHILDREN, ids=" ".join)
def test_processes_that_are_killed_at_these_points_change_nothing(
    names: tuple[str, ...], reference: Undisturbed, tmp_path: Path
) -> None:
    ended = run(tmp_path / "run", armed(*(f"{name}=kill" for name in names)))
    assert_unharmed(ended, reference)
    assert set(came_by(ended.dir)) == {name for name in names if not name.startswith("planner.")}  # has no log


@pytest.mark.parametrize("name", SUPERVISOR)
def test_a_supervisor_that_is_killed_at_this_point_changes_nothing_after_a_resume(
    name: str, reference: Undisturbed, tmp_path: Path
) -> None:
    killed = run(tmp_path / "run", armed(f"{name}=kill"))
    assert killed.code == -9, killed.err
    assert f"crash point {name}" in killed.err
    ended = run_well(tmp_path / "run", SETTINGS, "--resume")
    assert_unharmed(Ended(ended.dir, ended.code, ended.out, ended.err), reference)
