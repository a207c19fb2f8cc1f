"""The checkpoint that validated best is there when the run ends, whatever is deleted, fails or dies meanwhile (I9)."""

from __future__ import annotations

import math
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from loader.exit_codes import EXIT_FAILED, EXIT_RESOURCES
from loader.stream.interface import Cursor
from pool.checkpoint import snapshot, store
from pool.checkpoint.folder import (
    find_checkpoint,
    keep_former_best,
    linked_step,
    list_checkpoints,
    remove_old_checkpoints,
    step_of,
    step_path,
)
from pool.checkpoint.schedule import FINAL_SECONDS, Schedule
from pool.checkpoint.snapshot import Snapshot
from pool.checkpoint.state import BEST, FOLDER, LAST, OptimizerNumbers, read_state
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.validations import NONE, Goal, Validation, Validations
from pool.checkpoint.writer import CheckpointWriter, WriteResult
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.snapshots import Snapshots
from pool.errors import CheckpointError
from pool.protocol.messages import RunReport, Shares
from pool.supervisor.failover import SnapshotInArea, choose_snapshot
from pool.supervisor.summary import closing_lines
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, run_well


def state(step: int, validations: Validations = NONE) -> Checkpoint:
    return Checkpoint(
        step=step,
        cursor=Cursor(2 * step, 0, 0, 0),
        config={},
        fingerprint={},
        data=[],
        weights={"w": torch.full((2,), float(step))},
        optimizer_tensors={},
        optimizer=OptimizerNumbers({}, [], []),
        validations=validations,
    )


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([(0, 1.0)], None),
        ([(0, 1.0), (4, 2.0)], 4),
        ([(4, 2.0), (8, 2.0)], 4),
        ([(4, 2.0), (8, float("nan")), (12, float("inf")), (16, 1.0)], 16),
        ([(4, float("nan"))], None),
    ],
    ids=["what a run begins with", "the first", "a draw", "not finite", "never finite"],
)
def test_the_first_of_the_lowest_is_the_best(losses: Sequence[tuple[int, float]], best: int | None) -> None:
    known = NONE
    for step, loss in losses:
        known = known.with_results([Validation(step, loss)])
    assert known.newest is not None
    assert known.newest.step == losses[-1][0]
    assert (known.best and known.best.step) == best


def test_a_number_that_is_not_finite_hides_no_other_members() -> None:
    """Also one that would be better if it were a number."""
    for goal, infinite in ((Goal(), -math.inf), (Goal("auc", "max"), math.inf)):
        found = [Validation(4, value, {"auc": value}) for value in (infinite, math.nan, 0.25, 0.5)]
        known = NONE.with_results(found, goal)
        assert known.best == (found[2] if goal.best == "min" else found[3])


AUC = Goal("auc", "max")


def validation(step: int, loss: float, auc: float = 0.5) -> Validation:
    return Validation(step, loss, {"auc": auc})


@pytest.mark.parametrize(
    ("losses", "diverged_at"),
    [
        ([0.7, 0.6, 2.79], None),
        ([0.7, 0.6, 2.81], 2),
        ([0.7, 3.0, 0.6], None),
        ([0.7, 3.0, 100.0, math.inf], 1),
        ([0.7, math.nan], 1),
        ([-2.0, 3.9], None),
        ([-2.0, 4.1], 1),
        ([0.0, 100.0], None),
        ([math.inf, 100.0], None),
    ],
    ids=["worse", "four times", "a peak", "ever since", "NaN", "below 0", "below 0, far", "no start", "bad start"],
)
def test_a_loss_far_beyond_that_of_the_start_has_diverged(losses: Sequence[float], diverged_at: int | None) -> None:
    known = NONE
    for step, loss in enumerate(losses):
        known = known.with_results([Validation(step, loss)])
    assert known.diverged_at == diverged_at


def test_what_has_diverged_is_never_the_best_whatever_its_metric_is() -> None:
    known = NONE.with_results([validation(0, 0.7), validation(0, 0.7)], AUC)
    known = known.with_results([validation(5, 0.6, 0.7), validation(5, 9.0, 0.8)], AUC)
    assert known.best == validation(5, 0.6, 0.7)
    assert known.diverged_at is None
    assert [member.diverged_at for member in known.members] == [None, 5]
    alone = NONE.with_results([validation(0, 0.7)], AUC).with_results([validation(5, 9.0, 0.8)], AUC)
    assert (alone.best, alone.record, alone.since) == (None, None, 1)


def test_a_best_of_a_member_that_diverges_later_gives_way_to_that_of_the_others() -> None:
    known = NONE.with_results([validation(0, 0.7), validation(0, 0.7)], AUC)
    known = known.with_results([validation(5, 0.6, 0.7), validation(5, 0.6, 0.9)], AUC)
    assert known.best == validation(5, 0.6, 0.9)
    known = known.with_results([validation(10, 0.6, 0.75), validation(10, math.inf, 0.9)], AUC)
    assert known.best == known.record == validation(10, 0.6, 0.75)
    assert known.without_diverged(validation(5, 0.6, 0.9)) is None
    alone = NONE.with_results([validation(0, 0.7)], AUC).with_results([validation(5, 0.6, 0.9)], AUC)
    assert alone.with_results([validation(10, 99.0, 0.9)], AUC).best == validation(5, 0.6, 0.9), "a run of one network"


class SlowWriter:
    """Writes when it is told to, as its thread does when the disk has time."""

    def __init__(self, best_step: int = -1) -> None:
        self.best_step = best_step
        self.begun: list[int] = []
        self.written: list[int] = []
        self.in_work: Checkpoint | None = None
        self._ended: WriteResult | None = None
        self._event = os.eventfd(1, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Readable at once."""
        return self._event

    @property
    def is_busy(self) -> bool:
        return self.in_work is not None

    def start(self, checkpoint: Checkpoint) -> None:
        self.begun.append(checkpoint.step)
        self.in_work = checkpoint

    def end(self, problem: str | None = None, *, is_permanent: bool = False) -> None:
        assert self.in_work is not None
        assert torch.equal(self.in_work.weights["w"], state(self.in_work.step).weights["w"]), "overwritten"
        self._ended = WriteResult(self.in_work.step, problem, is_permanent)
        if problem is None:
            self.written.append(self.in_work.step)
        self.in_work = None

    def pop_result(self) -> WriteResult | None:
        ended, self._ended = self._ended, None
        return ended


class Run:
    """The coordinator's side, driven step by step; a snapshot after each."""

    def __init__(
        self, writer: SlowWriter, *, step: int = 0, known: Validations = NONE, every: int = 0, export_every: int = 0
    ) -> None:
        self.step = step
        self.said: list[str] = []
        self.areas = [np.frombuffer(mmap.mmap(-1, 64 << 10), np.uint8) for _ in range(2)]
        self.writer = writer
        self.known = known
        self.checkpoints = Checkpoints(
            Snapshots(self.areas),
            cast(CheckpointWriter, writer),
            Schedule(every, -1, nets=export_every, snapshots=1),
            state=lambda: state(self.step),
            notify=self.said.append,
        )
        self.checkpoints.while_waiting = writer.end

    def resume(self) -> None:
        self.checkpoints.resume(self.step, self.known)

    def advance(self, loss: float | None = None) -> None:
        self.step += 1
        self.checkpoints.on_commit(self.step, validated_next=loss is not None)
        if loss is not None:
            self.validate(loss)

    def validate(self, loss: float) -> None:
        known = self.checkpoints.validations.with_results([Validation(self.step, loss)])
        self.checkpoints.on_validation(known)

    def written(self, problem: str | None = None) -> None:
        self.writer.end(problem)
        self.checkpoints.handle_ended()


def test_each_validation_that_is_better_gets_a_checkpoint_of_its_own_version() -> None:
    run = Run(SlowWriter())
    for loss in (3.0, None, 2.0, 2.5, None, 1.0, 9.0):
        run.advance(loss)
        if run.writer.is_busy:
            run.written()
    assert run.writer.written == [1, 3, 6]
    assert run.checkpoints.best_on_disk == Validation(6, 1.0)


def test_what_is_due_at_a_validated_step_waits_for_the_result_and_holds_it() -> None:
    run = Run(SlowWriter(), every=2)
    run.advance(2.0)
    run.written()
    run.step = 2
    run.checkpoints.on_commit(2, validated_next=True)
    assert run.writer.begun == [1]
    run.validate(5.0)
    assert run.writer.in_work is not None
    first = Validation(1, 2.0)
    assert run.writer.in_work.validations == Validations(Validation(2, 5.0), first, first, 1, start_loss=2.0)


def test_the_best_waits_in_memory_while_another_is_written() -> None:
    """It is not overwritten by the snapshots of later steps; a better one takes its place."""
    run = Run(SlowWriter(), every=1)
    run.advance()
    for loss in (3.0, None, 2.0, None, 2.5, None):
        run.advance(loss)
    assert run.writer.begun == [1]
    run.written()
    assert run.writer.begun == [1, 4]
    assert run.checkpoints.best_on_disk is None, "not before it is on the disk"
    assert not run.checkpoints.finish(run.step)
    run.written()
    assert run.checkpoints.best_on_disk == Validation(4, 2.0)
    assert not run.checkpoints.finish(run.step)
    run.written()
    assert run.checkpoints.finish(run.step)
    assert run.writer.written == [1, 4, 7]


def test_a_best_that_could_not_be_written_is_not_the_best() -> None:
    run = Run(SlowWriter())
    run.advance(3.0)
    run.written()
    run.advance(1.0)
    run.written("No space left on device")
    assert run.checkpoints.best_on_disk == Validation(1, 3.0)
    assert "checkpoint of step 2 can't be written" in run.said[0]
    run.advance(2.0)
    run.written()
    assert run.checkpoints.best_on_disk == Validation(3, 2.0)


def test_the_last_checkpoint_is_kept_in_memory_until_the_disk_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an hour; what is said is said once, and nothing is tried without a pause."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    run = Run(SlowWriter())
    run.advance()
    assert not run.checkpoints.finish(1)
    run.written("No space left on device")
    assert run.checkpoints.waits_for_disk
    assert not run.checkpoints.finish(1)
    assert run.writer.begun == [1], "after a pause"
    now += 0.99 * FINAL_SECONDS
    assert not run.checkpoints.finish(1)
    run.written("No space left on device")
    assert len(run.said) == 1
    assert "checkpoint of step 1 can't be written: No space left on device; there is none yet; the run" in run.said[0]
    assert "Ctrl-C twice; --resume then begins with step 1" in run.said[0]
    now += 0.02 * FINAL_SECONDS
    assert not run.checkpoints.finish(1)
    run.writer.end("No space left on device")
    with pytest.raises(CheckpointError, match=r"No space left on device; .*tried for 60 minutes") as error:
        run.checkpoints.handle_ended()
    assert error.value.exit_code == EXIT_RESOURCES


def test_a_state_without_a_form_on_disk_is_not_waited_for() -> None:
    run = Run(SlowWriter())
    run.advance()
    run.checkpoints.finish(1)
    run.writer.end("optimizer keeps what is no plain data", is_permanent=True)
    with pytest.raises(CheckpointError, match="no plain data") as error:
        run.checkpoints.handle_ended()
    assert error.value.exit_code == EXIT_FAILED


@pytest.mark.parametrize(("best_step", "begun"), [(-1, [5]), (3, [5]), (5, [])])
def test_a_successor_writes_the_best_that_its_predecessor_died_over(best_step: int, begun: list[int]) -> None:
    writer = SlowWriter(best_step)
    known = Validations(Validation(5, 1.0), Validation(5, 1.0))
    Run(writer, step=5, known=known).resume()
    assert writer.begun == begun
    later = SlowWriter(best_step)
    Run(later, step=6, known=known).resume()
    assert later.begun == []


@pytest.mark.parametrize(("best_step", "begun"), [(5, []), (3, [7]), (-1, [7])])
def test_a_best_checkpoint_that_was_deleted_since_is_the_best_no_more(best_step: int, begun: list[int]) -> None:
    writer = SlowWriter(best_step)
    run = Run(writer, step=6, known=Validations(Validation(6, 2.0), Validation(5, 1.0)))
    run.resume()
    run.advance(1.5)
    assert writer.begun == begun
    assert len(run.said) == len(begun)


@pytest.mark.parametrize(
    ("steps", "best", "on_disk", "chosen"),
    [
        ([7, 5], None, -1, 7),
        ([7, 5], 5, 5, 7),
        ([7, 5], 5, 3, 5),
        ([5, 4], 5, -1, 5),
        ([7, 6], 5, -1, 7),
        ([7], 5, -1, 7),
        ([], None, -1, None),
    ],
)
def test_a_coordinator_goes_on_from_the_copy_that_still_has_to_be_written(
    steps: Sequence[int], best: int | None, on_disk: int, chosen: int | None
) -> None:
    known = Validations(None, None if best is None else Validation(best, 1.0))
    none = OptimizerNumbers({}, [], [])
    areas = [
        SnapshotInArea(index, Snapshot(step=step, cursor=Cursor(), optimizer=none, validations=known, tensors={}))
        for index, step in enumerate(steps)
    ]
    found = choose_snapshot(iter(areas), on_disk)
    assert (found and found.state.step) == chosen


def test_the_best_and_each_of_so_many_steps_are_kept(tmp_path: Path) -> None:
    best = Validation(3, 1.0)
    for step in range(1, 12):
        known = Validations(best, best) if step >= 3 else NONE
        store.save_checkpoint(tmp_path, state(step, known))
        remove_old_checkpoints(tmp_path, keep=2, keep_every=4)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        step_path(tmp_path, s).name for s in (3, 4, 8, 10, 11)
    ]
    assert (linked_step(tmp_path, BEST), linked_step(tmp_path, LAST)) == (3, 11)
    assert store.load_checkpoint(tmp_path / BEST).validations.best == best
    better = Validation(12, 0.5)
    store.save_checkpoint(tmp_path, state(12, Validations(better, better)))
    remove_old_checkpoints(tmp_path, keep=2, keep_every=4)
    assert [path.name for path in list_checkpoints(tmp_path)] == [step_path(tmp_path, s).name for s in (4, 8, 11, 12)]
    assert linked_step(tmp_path, BEST) == 12


def test_a_snapshot_holds_what_is_known_of_validations() -> None:
    area = np.frombuffer(mmap.mmap(-1, 64 << 10), np.uint8)
    known = Validations(Validation(9, float("inf")), Validation(4, 0.25))
    assert snapshot.SnapshotWriter(area).write(state(9, known), {}).validations == known
    found = snapshot.read_snapshot(area)
    assert found is not None
    assert found.validations == known


REPORT = RunReport(12, 12, 0, 64, 64, 1.0, (0.1,), (0.2,), 12, 1e-3, Shares(), 1.0, 12, True)


@pytest.mark.parametrize(
    ("changes", "resume", "task", "lines"),
    [
        (
            {"best_step": 4, "best_value": 0.25},
            None,
            None,
            [
                "best checkpoint: runs/a b/checkpoints/step-000000004, validation 0.250000; newest checkpoint: "
                "step-000000012",
                "to export it: pool export 'runs/a b/checkpoints/best' -o 'runs/a b/best.nnue'",
            ],
        ),
        (
            {"best_step": 12, "best_value": 0.25},
            "pool train x --resume",
            "mine",
            [
                "best and newest checkpoint: runs/a b/checkpoints/step-000000012, validation 0.250000",
                "to export it: pool export 'runs/a b/checkpoints/best' -o 'runs/a b/best.nnue' --task mine",
                "to go on: pool train x --resume",
            ],
        ),
        (
            {"best_step": 12, "best_value": 0.75, "best_metric": "auc"},
            None,
            None,
            [
                "best and newest checkpoint: runs/a b/checkpoints/step-000000012, validation auc 0.750000",
                "to export it: pool export 'runs/a b/checkpoints/best' -o 'runs/a b/best.nnue'",
            ],
        ),
        (
            {"best_step": 12, "best_value": 0.75, "best_metric": "average_loss"},
            None,
            None,
            [
                "best and newest checkpoint: runs/a b/checkpoints/step-000000012, validation average_loss 0.750000",
                "to export it: pool export 'runs/a b/checkpoints/best' -o 'runs/a b/best.nnue' --ema",
            ],
        ),
        (
            {},
            None,
            None,
            [
                "newest checkpoint: runs/a b/checkpoints/step-000000012",
                "to export it: pool export 'runs/a b/checkpoints/last' -o 'runs/a b/last.nnue'",
            ],
        ),
        ({"checkpoint": -1}, "pool train x --resume", None, ["to go on: pool train x --resume"]),
    ],
    ids=["best", "stopped", "by a metric", "by an average", "no validation", "no checkpoint"],
)
def test_the_last_lines_say_what_is_best_and_what_to_type(
    changes: Mapping[str, Any],
    resume: str | None,
    task: str | None,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An average is exported if there is one: before the first the weights stand for it, and a task's own metric may
    be called like this, too."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pool"])
    report = replace(REPORT, **changes)
    assert list(closing_lines("runs/a b", report, resume, task, ".nnue", averaged=True)) == lines
    without = [line.removesuffix(" --ema") for line in lines]
    assert list(closing_lines("runs/a b", report, resume, task, ".nnue")) == without


@pytest.mark.runs
def test_the_last_lines_of_a_run_in_the_home_folder_are_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In quotes it does not expand ~."""
    monkeypatch.setenv("HOME", str(tmp_path))
    ended = run_well(tmp_path / "x", {**TOY, "train.steps": 1}, "--set", "run.dir=~/a b")
    assert f"export '{tmp_path}/a b/checkpoints/last' -o '{tmp_path}/a b/last'" in ended.out


RISING: Mapping[str, Any] = {
    **TOY,
    "data.source": "tests.support.data.validated:NamedSource",
    "data.train": ["configs/sample/train.binpack"],
    "data.validation": ["configs/sample/validation.binpack"],
    "schedule.name": "torch.optim.lr_scheduler.ExponentialLR",
    "schedule.args.gamma": 1.6,
    "train.validate_every": 2,
    "train.checkpoint_every": 3,
    "train.keep_checkpoints": 1,
    "pool.snapshot_steps": 1,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run whose learning rate rises until it validates worse again."""
    return run_well(tmp_path_factory.mktemp("rising") / "run", RISING)


@pytest.mark.runs
def test_a_run_ends_with_its_best_checkpoint_and_the_command_that_exports_it(undisturbed: Ended) -> None:
    folder = undisturbed.dir / FOLDER
    losses = {r["step"]: r["validation_loss"] for r in undisturbed.metrics() if "validation_loss" in r and r["step"]}
    best = min(losses, key=lambda step: losses[step])
    assert best != 12, "the test needs a best one that is not the newest"
    assert [path.name for path in list_checkpoints(folder)] == [step_path(folder, step).name for step in (best, 12)]
    assert linked_step(folder, BEST) == best
    assert read_state(folder / "last").validations.best == Validation(best, losses[best])
    shown, export = undisturbed.out.splitlines()[-2:]
    assert shown.startswith(f"best checkpoint: {step_path(folder, best)}, validation {losses[best]:.6f}")
    command = export.removeprefix("to export it: ").replace("python", shlex.quote(sys.executable), 1)
    subprocess.run(shlex.split(command), cwd=ROOT, check=True, timeout=60, capture_output=True)
    assert (undisturbed.dir / "best").read_text().startswith("Trained with sparsepool.")


@pytest.mark.runs
@pytest.mark.parametrize("point", ["coordinator.checkpoint_tensors_written", "coordinator.checkpoint_renamed"])
def test_a_kill_while_the_best_is_written_does_not_change_which_one_it_is(
    point: str, undisturbed: Ended, tmp_path: Path
) -> None:
    """Its successor knows from memory what it has died over."""
    killed = run_well(tmp_path / "run", {**RISING, "testing.crash_points": [f"{point}@1=kill"]})
    assert "the run goes on from step" in killed.out
    assert killed.digest() == undisturbed.digest()
    theirs, ours = killed.dir / FOLDER, undisturbed.dir / FOLDER
    assert linked_step(theirs, BEST) == linked_step(ours, BEST)
    assert read_state(theirs / LAST).validations == read_state(ours / LAST).validations


# --- checkpoints that nets are exported from ---


def test_there_is_no_newer_snapshot_before_the_checkpoint_of_a_net_is_written() -> None:
    """A successor begins with the newest: it must come by the net's step again."""
    run = Run(SlowWriter(), export_every=2)

    def newest() -> int:
        return max(snapshot.committed_step(area) or 0 for area in run.areas)

    for _ in range(3):
        run.advance()
    assert (run.writer.begun, newest(), run.checkpoints.exported_step) == ([2], 2, 0)
    run.written()
    assert run.checkpoints.exported_step == 2
    run.advance(1.0)
    assert (run.writer.begun, newest()) == ([2, 4], 4)
    run.advance(0.5)  # the best so far: the run waits for the thread, and goes on with it
    assert (run.writer.begun, run.writer.written, newest()) == ([2, 4, 5], [2, 4], 5)


def test_a_net_waits_for_the_thread_and_nothing_takes_its_place() -> None:
    run = Run(SlowWriter(), every=1, export_every=3)
    for loss in (None, 2.0, 1.0):  # the best of step 2 waits while step 1 is written
        run.advance(loss)
    assert run.writer.begun == [1, 2, 3]
    assert run.writer.written == [1, 2]


def test_a_net_whose_checkpoint_fails_is_told_and_the_run_goes_on() -> None:
    run = Run(SlowWriter(), export_every=2)
    for _ in range(2):
        run.advance()
    run.written("disk full")
    assert run.checkpoints.exported_step == 0
    assert "checkpoint of step 2 can't be written: disk full" in run.said[0]
    for _ in range(2):
        run.advance()
    assert run.writer.begun == [2, 4]


def test_a_successor_at_the_step_of_a_net_writes_its_checkpoint() -> None:
    run = Run(SlowWriter(), step=4, export_every=2)
    run.resume()
    assert run.writer.begun == [4]
    other = Run(SlowWriter(), step=5, export_every=2)
    other.resume()
    assert other.writer.begun == []


# --- other validation data ---


def test_what_was_the_best_by_other_validations_stays_under_a_name(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        store.save_checkpoint(tmp_path, state(step, Validations(None, Validation(1, 0.5))))
    assert linked_step(tmp_path, BEST) == 1
    name = keep_former_best(tmp_path)
    assert name == "former-best-step-000000001"
    store.save_checkpoint(tmp_path, state(4, Validations(None, Validation(4, 0.5))))
    remove_old_checkpoints(tmp_path, 1)
    assert [step_of(path) for path in list_checkpoints(tmp_path)] == [1, 4]
    assert find_checkpoint(tmp_path / name) == step_path(tmp_path, 1)
    (tmp_path / name).unlink()
    remove_old_checkpoints(tmp_path, 1)
    assert [step_of(path) for path in list_checkpoints(tmp_path)] == [4]
    assert keep_former_best(tmp_path / "empty") is None


MOVED = {**RISING, "train.steps": 8, "train.keep_checkpoints": 1}


@pytest.mark.runs
@pytest.mark.parametrize("is_same", [True, False])
def test_a_validation_file_is_known_by_its_content(is_same: bool, tmp_path: Path) -> None:
    """Neither its name nor its folder says what is measured: the best checkpoint of a run that is moved stays."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = tmp_path / "one/validation.rows", tmp_path / "two/other.rows"
    first.write_bytes(b"rows")
    second.write_bytes(b"rows" if is_same else b"other rows")
    ended = run_well(tmp_path / "run", {**MOVED, "data.validation": [str(first)]})
    before = linked_step(ended.dir / FOLDER, BEST)
    shutil.copytree(ended.dir, tmp_path / "moved", symlinks=True)
    first.unlink()
    resumed = run_well(tmp_path / "moved", {**MOVED, "train.steps": 16, "data.validation": [str(second)]}, "--resume")
    folder, name = resumed.dir / FOLDER, f"former-best-{step_path(Path(), before).name}"
    line = f"the best checkpoint is chosen anew; the former best is kept: checkpoints/{name}"
    assert (line in resumed.out) == ("can't be compared any more" in resumed.out) == (not is_same)
    assert (folder / name).is_symlink() == (not is_same)
    assert step_path(folder, before).is_dir() == (not is_same or linked_step(folder, BEST) == before)
