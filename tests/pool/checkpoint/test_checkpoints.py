"""Checkpoints: whole or not there, damage named by its place, the same state always the same bytes (I7, I8, I9)."""

from __future__ import annotations

import errno
import itertools
import json
import os
import select
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from loader.files.whole_file import temporary_path
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.folder import find_newest_undamaged, list_checkpoints, remove_old_checkpoints
from pool.checkpoint.overrides import Override
from pool.checkpoint.schedule import (
    FINAL_PAUSE,
    FINAL_SECONDS,
    FIRST_PAUSE,
    LONG_COPY,
    LONGEST_FINAL_PAUSE,
    LONGEST_PAUSE,
    SHARE,
    FinalAttempts,
    Schedule,
    SnapshotSpacing,
)
from pool.checkpoint.state import FORMAT, LAST, STATE, WEIGHTS, OptimizerNumbers, read_state, verify
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.writer import CheckpointWriter, WriteResult
from pool.errors import CheckpointError
from pool.run_folder import files
from tests.support.failing_calls import FAULTS, SHORT_WRITE, failing_call

NAMES = {WEIGHTS, "optimizer.safetensors", STATE}


def example(step: int, rows: int = 8) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    return Checkpoint(
        step=step,
        cursor=Cursor(2 * step, 0, 1, 17),
        config={"task": "toy", "data": {"files": ["a", "b"]}},
        fingerprint={"torch": "2"},
        data=[("a.binpack", 4711)],
        weights={
            "table": torch.randn(rows, 4, generator=generator),
            "scalar": torch.tensor(step),
            "flag": torch.tensor([True, False, True]),
            "half": torch.randn(5, generator=generator).bfloat16(),
            "empty": torch.empty(0, 3),
        },
        optimizer_tensors={
            "table/exp_avg": torch.randn(rows, 4, generator=generator).t(),
            "table/step": torch.tensor(1.0),
        },
        optimizer=OptimizerNumbers(
            numbers={"table": {"lr": 0.1 + 1e-17}},
            groups=[],
            schedulers=[{"x": float("inf")}],
            overrides=[Override(1, "optimizer.args.lr", 0.1)],
        ),
    )


def save(folder: Path, checkpoint: Checkpoint, keep: int = 1) -> Path:
    """Does as the writer does."""
    saved = store.save_checkpoint(folder, checkpoint)
    remove_old_checkpoints(folder, keep)
    return saved


def assert_same(a: Checkpoint, b: Checkpoint) -> None:
    for name in ("step", "cursor", "config", "fingerprint", "optimizer"):
        assert getattr(a, name) == getattr(b, name)
    for one, other in ((a.weights, b.weights), (a.optimizer_tensors, b.optimizer_tensors)):
        assert one.keys() == other.keys()
        assert all(torch.equal(tensor, other[key]) and tensor.dtype == other[key].dtype for key, tensor in one.items())


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def temporaries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_what_is_saved_is_loaded_and_saved_again_as_the_same_bytes(tmp_path: Path) -> None:
    first = save(tmp_path / "one", example(3), keep=2)
    loaded = store.load_checkpoint(first)
    assert_same(loaded, example(3))
    second = save(tmp_path / "two", loaded, keep=2)
    assert content(first) == content(second)
    assert content(first).keys() == NAMES


def test_others_read_the_files_as_safetensors(tmp_path: Path) -> None:
    path = save(tmp_path, example(1))
    weights = load_file(path / WEIGHTS)
    assert torch.equal(weights["table"], example(1).weights["table"])
    assert json.loads((path / STATE).read_text())["format"] == FORMAT


def test_only_the_newest_are_kept_and_last_points_to_the_newest(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, example(step), keep=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000000004", "step-000000005"]
    assert (tmp_path / "last").resolve().name == "step-000000005"
    assert not temporaries(tmp_path)


def test_saving_a_step_again_keeps_the_good_one_and_replaces_a_damaged_one(tmp_path: Path) -> None:
    path = save(tmp_path, example(1))
    inode = path.stat().st_ino
    assert save(tmp_path, example(1)).stat().st_ino == inode
    (path / WEIGHTS).unlink()
    assert save(tmp_path, example(1)) == path
    assert_same(store.load_checkpoint(path), example(1))
    assert (tmp_path / "damaged-step-000000001").is_dir()


def test_damage_is_named_by_file_tensor_and_byte_range(tmp_path: Path) -> None:
    path = save(tmp_path, example(1, rows=1 << 18)) / WEIGHTS  # the table has 4 MiB
    good = path.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    begin, _ = json.loads(good[8:header])["table"]["data_offsets"]
    start = header + begin
    damaged = bytearray(good)
    damaged[start + (2 << 20) + 5] ^= 1
    path.write_bytes(damaged)
    place = f"tensor table is damaged: bytes {start + (2 << 20)} to {start + (3 << 20)} of the file"
    with pytest.raises(CheckpointError, match=f"{WEIGHTS}: {place}"):
        store.load_checkpoint(path.parent)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_no_flipped_bit_and_no_truncation_goes_unnoticed(name: str, tmp_path: Path) -> None:
    """I8: refused, with the file's name, wherever the damage is."""
    path = save(tmp_path, example(1)) / name
    good = path.read_bytes()
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=name):
            read_state(path.parent) if name == STATE else verify(path.parent)
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(CheckpointError, match=name):
            verify(path.parent)
    path.write_bytes(good + b"x")
    with pytest.raises(CheckpointError, match=name):
        verify(path.parent)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: errno.errorcode.get(fault, fault))  # type: ignore[call-overload]
def test_whatever_call_fails_the_last_good_checkpoint_stays_and_the_next_save_succeeds(
    fault: int | str, tmp_path: Path
) -> None:
    save(tmp_path / "origin", example(1))
    failures = 0
    for at in range(1, 1000):
        folder = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "origin", folder, symlinks=True)
        raised = False
        with failing_call(at, fault) as calls:
            try:
                save(folder, example(2))
            except (OSError, CheckpointError):
                raised = True
        if not calls.failed:
            break
        failures += raised
        for path in list_checkpoints(folder):
            verify(path)  # what has the name of a checkpoint is one
        assert find_newest_undamaged(folder).good is not None
        assert raised or list_checkpoints(folder)[-1].name == "step-000000002"
        assert raised is False or fault != SHORT_WRITE
        files.sweep(folder)
        assert not temporaries(folder), f"call {at}, {calls.failed}"
        save(folder, example(3))
        assert_same(store.load_checkpoint(folder / "last"), example(3))
        shutil.rmtree(folder)
    else:
        pytest.fail("a checkpoint takes more than a thousand calls")
    assert failures > 20 or fault == SHORT_WRITE


def test_what_a_name_promises_is_on_the_disk_before_the_name_and_the_name_before_older_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut there is the new checkpoint whole, or the old one."""
    save(tmp_path, example(1))
    done: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def recorded_fsync(fd: int) -> None:
        done.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink().name.lstrip('.').partition('.')[0]}")
        fsync(fd)

    def recorded_rename(source: Path, target: Path) -> None:
        done.append(f"rename {Path(source).name.lstrip('.').partition('.')[0]}")
        rename(source, target)

    def recorded_replace(source: Path, target: Path) -> None:
        done.append(f"replace {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "replace", recorded_replace)
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "rename", recorded_rename)
    save(tmp_path, example(2))
    new, old = "step-000000002", "step-000000001"
    first = done.index(f"rename {new}")
    assert {*done[:first]} == {"sync weights", "sync optimizer", "sync state", f"sync {new}"}
    assert done[first - 1] == f"sync {new}"
    folder = f"sync {tmp_path.name}"
    assert done[first + 1 :] == [folder, f"replace {LAST}", folder, f"rename {old}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_leaves_the_last_good_checkpoint_alone(tmp_path: Path) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(tmp_path), b"tmpfs", 0, b"size=1m,mode=700") != 0:
        pytest.skip(f"mount: {os.strerror(ctypes.get_errno())}")
    try:
        save(tmp_path, example(1, rows=1000))
        with pytest.raises(OSError, match="No space left"):
            save(tmp_path, example(2, rows=50_000))
        assert not temporaries(tmp_path)
        assert_same(store.load_checkpoint(tmp_path / "last"), example(1, rows=1000))
        save(tmp_path, example(3, rows=1000))
        assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000000003"]
    finally:
        libc.umount2(os.fsencode(tmp_path), 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_folder_that_may_not_be_written_leaves_the_last_good_checkpoint_alone() -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    try:
        save(folder, example(1))
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.seteuid(65_534)
        try:
            with pytest.raises(PermissionError):
                save(folder, example(2))
            assert_same(store.load_checkpoint(folder / "last"), example(1))
        finally:
            os.seteuid(0)
        save(folder, example(3))
        assert_same(store.load_checkpoint(folder / "last"), example(3))
    finally:
        shutil.rmtree(folder)


def test_the_writer_works_in_the_background_and_says_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    its_save = store.save_checkpoint

    def slow_save(folder: Path, checkpoint: Checkpoint) -> Path:
        held.wait(60)
        return its_save(folder, checkpoint)

    monkeypatch.setattr(store, "save_checkpoint", slow_save)
    temporary_path(tmp_path / "step-000000001").mkdir()
    writer = CheckpointWriter(tmp_path, keep=1)
    assert not temporaries(tmp_path)
    state = example(1)
    writer.start(state)
    assert writer.is_busy
    assert writer.pop_result() is None
    held.set()
    assert ended(writer) == WriteResult(1, None)
    assert not writer.is_busy
    assert_same(store.load_checkpoint(tmp_path / "last"), example(1))


def ended(writer: CheckpointWriter) -> WriteResult:
    assert select.select([writer.fileno()], [], [], 60)[0], "the attempt does not end"
    written = writer.pop_result()
    assert written is not None
    return written


def test_a_checkpoint_that_cannot_be_written_is_reported_and_the_next_one_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.write_text("in the way")
    writer = CheckpointWriter(folder, keep=1)
    writer.start(example(1))
    assert ended(writer) == WriteResult(1, f"{folder}: File exists")
    folder.unlink()
    writer.start(example(2))
    assert ended(writer) == WriteResult(2, None)


def test_a_checkpoint_is_due_every_so_many_steps_and_after_a_failure_when_the_pause_is_over() -> None:
    schedule = Schedule(every=10, saved=-1)
    due = []
    for step in range(1, 31):
        if schedule.is_due(step, 0.0):
            schedule.record_start(0.0)
            due.append(step)
    assert due == [10, 20, 30]
    assert schedule.record_end(30, 100.0, well=False) == FIRST_PAUSE
    assert not schedule.is_due(31, 100.0 + FIRST_PAUSE - 1)
    assert schedule.is_due(32, 100.0 + FIRST_PAUSE)
    schedule.record_start(100.0 + FIRST_PAUSE)
    assert schedule.record_end(32, 200.0, well=False) == 2 * FIRST_PAUSE
    assert [schedule.record_end(33, 0.0, well=False) for _ in range(10)][-1] == LONGEST_PAUSE
    assert schedule.saved == -1
    assert schedule.record_end(40, 0.0, well=True) == 0.0
    assert schedule.saved == 40
    assert schedule.record_end(50, 0.0, well=False) == FIRST_PAUSE


def snapshots_of(every: int | None, copy_seconds: float, step_seconds: float, last: int) -> list[int]:
    """The steps at which snapshots are taken, up to step `last`."""
    spacing, now, found = SnapshotSpacing(every), 0.0, []
    for step in range(1, last + 1):
        now += step_seconds
        if spacing.is_due(step, now):
            found.append(step)
            spacing.record_snapshot(now, now + copy_seconds)
            now += copy_seconds
    return found


@pytest.mark.parametrize(
    ("copy_seconds", "step_seconds", "taken_at"),
    [
        (0.09, 0.01, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (0.2, 0.1, [10, 30, 50, 70, 90]),
        (0.4, 0.1, [10, 50, 90]),
        (1.3, 0.06, [10, 210, 410]),
        (3.0, 0.1, [10, 280, 550]),
        (0.0, 100.0, [10, 20, 30, 40, 50]),
    ],
    ids=["short copies", "0.2 s", "0.4 s", "10 million rows x 16", "3 s", "long steps"],
)
def test_snapshots_take_at_most_a_tenth_of_the_time(
    copy_seconds: float, step_seconds: float, taken_at: list[int]
) -> None:
    assert snapshots_of(10, copy_seconds, step_seconds, taken_at[-1]) == taken_at
    between = [(b - a) * step_seconds + copy_seconds for a, b in itertools.pairwise(taken_at)]
    assert copy_seconds <= LONG_COPY or copy_seconds <= 1.001 * SHARE * min(between)


@pytest.mark.parametrize(
    ("copy_seconds", "step_seconds", "taken_at"),
    [
        (0.01, 0.07, [1, 144, 287]),
        (0.01, 4.0, [1, 4, 7, 10]),
        (0.01, 100.0, [1, 2, 3]),
        (3.0, 0.5, [1, 55, 109]),
    ],
    ids=["short steps", "long steps", "very long steps", "long copies"],
)
def test_snapshots_are_taken_by_time_unless_their_steps_are_set(
    copy_seconds: float, step_seconds: float, taken_at: list[int]
) -> None:
    assert snapshots_of(None, copy_seconds, step_seconds, taken_at[-1]) == taken_at


def test_without_an_interval_there_are_no_snapshots() -> None:
    assert not any(SnapshotSpacing(0).is_due(step, 1e9) for step in range(20))


@pytest.mark.parametrize(
    ("every", "seconds", "due"),
    [(0, 50.0, [6, 12, 18]), (10, 50.0, [6, 10, 16, 20]), (4, 50.0, [4, 8, 12, 16, 20]), (0, 3.0, [*range(1, 21)])],
)
def test_a_checkpoint_is_due_when_the_one_before_is_so_old(every: int, seconds: float, due: list[int]) -> None:
    """Steps of 9 s. Time counts from the newest checkpoint, whatever it was for."""
    schedule, found = Schedule(every, -1, seconds=seconds, now=1000.0), []
    for step in range(1, 21):
        if schedule.is_due(step, now := 1000.0 + 9.0 * step):
            found.append(step)
            schedule.record_start(now)
    assert found == due


def test_the_last_checkpoint_is_tried_again_for_an_hour() -> None:
    attempts, now, tried = FinalAttempts(), 5.0, [5.0]
    assert attempts.is_due(now)
    while attempts.record_failure(now):
        assert not attempts.is_due(now)
        now = next(now + second for second in range(1, 100) if attempts.is_due(now + second))
        tried.append(now)
    assert tried[1] - tried[0] == FINAL_PAUSE
    assert max(after - before for before, after in itertools.pairwise(tried)) == LONGEST_FINAL_PAUSE
    assert FINAL_SECONDS <= now - tried[0] < FINAL_SECONDS + LONGEST_FINAL_PAUSE


def test_without_an_interval_only_the_last_checkpoint_is_written() -> None:
    assert not any(Schedule(every=0, saved=-1).is_due(step, 0.0) for step in range(1, 100))
