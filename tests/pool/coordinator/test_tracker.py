"""Trackers of experiments get a run's numbers from a thread: whatever they do, nothing waits for them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loader.stream.interface import Cursor
from pool.coordinator.metrics import tracker
from pool.coordinator.metrics.metrics import Metrics, Traffic
from pool.coordinator.scheduler.actions import Commit
from pool.telemetry import sinks
from pool.telemetry.sinks import find_factory
from tests.support.wait import wait_for

TELEMETRY = {"project": "nets", "name": "", "tags": ["a", "b"]}


class FakeRun:
    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.axes: list[tuple[Any, ...]] = []
        self.finished = False

    def define_metric(self, name: str, step_metric: str | None = None, hidden: bool = False) -> None:
        assert hidden == (step_metric is None)
        self.axes.append((name, step_metric))

    def log(self, numbers: dict[str, float]) -> None:
        self.logged.append(numbers)

    def finish(self) -> None:
        self.finished = True


class FakeWandb(ModuleType):
    """Has of wandb what a sink uses."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None)
        self.runs: list[tuple[dict[str, Any], FakeRun]] = []
        self.before: Callable[[], object] = str  # what `init` does first

    def init(
        self,
        project: str,
        name: str,
        id: str,
        tags: list[str],
        config: dict[str, Any],
        resume: str,
        dir: str,
        settings: dict[str, Any],
    ) -> FakeRun:
        self.before()
        self.runs.append((dict(locals()), FakeRun()))
        return self.runs[-1][1]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeWandb]:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(tracker, "SEND_SECONDS", 0.0)
    (tmp_path / "config.json").write_text(json.dumps({"telemetry": TELEMETRY, "train": {"steps": 9}}))
    yield fake
    wait_for(lambda: not alive(), "the thread's end")


def alive() -> bool:
    return any(thread.name == "wandb" for thread in threading.enumerate())


def run(folder: Path, begin: int, end: int, said: list[str]) -> None:
    """Steps, a validation and a net of an earlier step, recorded as the coordinator does."""
    metrics = Metrics(folder, begin, 10, 64, said.append, sinks=["wandb"])
    for step in range(begin, end):
        metrics.add_step(Commit(step, ((1.0,), (3.0,)), Cursor()), (0.1, 0.1), Traffic())
    metrics.add_validation(end, (0.5, 0.25))
    metrics.close()


def test_numbers_come_in_groups_by_step_with_the_settings(wandb: FakeWandb, tmp_path: Path) -> None:
    said: list[str] = []
    run(tmp_path, 0, 3, said)
    ((given, got),) = wandb.runs
    assert (given["project"], given["name"], given["tags"]) == ("nets", tmp_path.name, ["a", "b"])
    assert (given["resume"], given["dir"]) == ("never", str(tmp_path))
    assert given["config"]["train"] == {"steps": 9}
    assert got.axes == [("step", None), ("*", "step")]
    assert [numbers["step"] for numbers in got.logged] == [1, 2, 3, 3]
    assert got.logged[0]["loss/train"] == 2.0
    assert got.logged[0]["loss/train/member 1"] == 3.0
    assert got.logged[0]["schedule/learning_rate"] == 0.1
    assert got.logged[-1] == {
        "step": 3,
        "loss/validation": 0.375,
        "loss/validation/member 0": 0.5,
        "loss/validation/member 1": 0.25,
    }
    assert got.finished
    assert said == []


def test_a_run_that_goes_on_goes_on_there_and_one_that_begins_anew_is_another(wandb: FakeWandb, tmp_path: Path) -> None:
    for begin, end in ((0, 3), (2, 5), (0, 1)):
        run(tmp_path, begin, end, [])
    first, resumed, anew = (given for given, _ in wandb.runs)
    assert (resumed["id"], resumed["resume"]) == (first["id"], "allow")
    assert anew["id"] != first["id"]
    assert anew["resume"] == "never"


@pytest.mark.parametrize("error", [ConnectionError("no network"), SystemExit(1), KeyError()])
def test_a_tracker_that_fails_is_told_once_and_training_goes_on(
    wandb: FakeWandb, tmp_path: Path, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    wandb.before = fail
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append, sinks=["wandb"])
    metrics.add_step(Commit(0, ((1.0,),), Cursor()), (0.1,), Traffic())
    wait_for(lambda: not alive(), "the thread's end")
    for step in range(1, 5):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic())
    metrics.close()
    (line,) = said
    assert line.startswith("wandb can't be written: ")
    assert line.endswith("training goes on")
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5


def test_a_tracker_that_hangs_is_not_waited_for_and_holds_little(
    wandb: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "FINISH_SECONDS", 0.01)
    hangs = threading.Event()
    wandb.before = hangs.wait
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append, sinks=["wandb"])
    for step in range(tracker.MOST_WAITING + 10):
        metrics.add_step(Commit(step, ((1.0,),), Cursor()), (0.1,), Traffic())
    metrics.close()
    assert len(said) == 1
    assert f"{tracker.MOST_WAITING} points wait" in said[0]
    hangs.set()
    wait_for(lambda: bool(wandb.runs) and wandb.runs[0][1].finished, "what was kept")
    assert len(wandb.runs[0][1].logged) == tracker.MOST_WAITING


def test_without_the_package_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda _: None)
    for name in sinks.EXTRAS:
        with pytest.raises(ValueError, match=rf"run\.sinks: {name} is not installed: .*sparsepool\[{name}\]"):
            find_factory(name)
