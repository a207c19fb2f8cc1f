"""What a run records: after a resume as if it had never stopped."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from pool.coordinator.metrics import METRICS, TENSORBOARD, Metrics
from pool.protocol.codec import Envelope, decode, encode
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer
from pool.telemetry.line_file import MOST_KEPT, LineFile


def records(dir: Path) -> list[tuple[int, str]]:
    lines = (dir / METRICS).read_text().splitlines()
    return [(r["step"], "validation" if "validation_loss" in r else "step") for r in map(json.loads, lines)]


def write(dir: Path, begin: int, end: int) -> Metrics:
    metrics = Metrics(dir, begin, 10, 64, say=str)
    for step in range(begin, end):
        metrics.committed(step, (1.0,), 0, 0.1, 2_000_000 * (step + 1))
        if step % 2:
            metrics.validated(step + 1, 0.5)
    metrics.close()
    return metrics


def test_a_resumed_run_forgets_what_it_does_again_and_knows_what_is_validated(tmp_path: Path) -> None:
    write(tmp_path, 0, 7)
    assert write(tmp_path, 4, 4).validated_version == 4
    assert records(tmp_path) == [
        (1, "step"),
        (2, "step"),
        (2, "validation"),
        (3, "step"),
        (4, "step"),
        (4, "validation"),
    ]


def test_a_full_disk_is_said_once_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append)
    write, left = os.write, 30

    def full(fd: int, data: bytes) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(fd, data[:left])
        left -= written
        return written

    monkeypatch.setattr(os, "write", full)
    for step in range(3):
        metrics.committed(step, (1.0,), 0, 0.1, 0)
    assert said == [f"{tmp_path / METRICS} can't be written: No space left on device; training goes on"]
    monkeypatch.setattr(os, "write", write)
    metrics.committed(3, (1.0,), 0, 0.1, 0)
    metrics.close()
    assert said[1:] == [f"{tmp_path / METRICS} is written again"]
    assert [step for step, _ in records(tmp_path)] == [1, 2, 3, 4]


def test_what_a_full_disk_can_not_hold_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile(tmp_path / "lines")
    write = os.write
    monkeypatch.setattr(os, "write", lambda *_: fail())
    for _ in range(MOST_KEPT // 1_000_000 + 5):
        file.add("x" * 1_000_000)
    assert file.error is not None
    monkeypatch.setattr(os, "write", write)
    file.add("y")
    file.close()
    assert MOST_KEPT <= (tmp_path / "lines").stat().st_size < MOST_KEPT + 2_000_000


def fail() -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_no_tensorboard_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / TENSORBOARD).write_text("in the way")
    said: list[str] = []
    metrics = Metrics(tmp_path, 0, 10, 64, said.append)
    for step in range(3):
        metrics.committed(step, (1.0,), 0, 0.1, 0)
    metrics.close()
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path / TENSORBOARD} can't be written: ")
    assert [step for step, _ in records(tmp_path)] == [1, 2, 3]


def test_a_run_that_begins_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path, 0, 2)
    assert write(tmp_path, 0, 0).validated_version == -1
    assert records(tmp_path) == []


def test_what_is_reported_before_a_worker_has_spoken_is_taken_by_the_supervisor(tmp_path: Path) -> None:
    """The report is also the coordinator's heartbeat, and a successor may have to wait for a worker that hangs."""
    report = write(tmp_path, 0, 0).report(0, -1, 0, 0.1, best=None, finished=False)
    envelope = Envelope(Peer(COORDINATOR), Peer(SUPERVISOR), 1, report)
    assert str(decode(encode(envelope))) == str(envelope)  # NaN is not equal to itself


def test_gradients_are_counted_step_by_step(tmp_path: Path) -> None:
    write(tmp_path, 0, 3)
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [line["gradient_mb"] for line in lines if "loss" in line] == [2.0, 2.0, 2.0]
