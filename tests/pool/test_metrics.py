"""What a run records: after a resume as if it had never stopped."""

from __future__ import annotations

import json
from pathlib import Path

from pool.coordinator.metrics import METRICS, Metrics
from pool.protocol.codec import Envelope, decode, encode
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer


def records(dir: Path) -> list[tuple[int, str]]:
    lines = (dir / METRICS).read_text().splitlines()
    return [(r["step"], "validation" if "validation_loss" in r else "step") for r in map(json.loads, lines)]


def write(dir: Path, begin: int, end: int) -> Metrics:
    metrics = Metrics(dir, begin, 10, 64)
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


def test_a_run_that_begins_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path, 0, 2)
    assert write(tmp_path, 0, 0).validated_version == -1
    assert records(tmp_path) == []


def test_what_is_reported_before_a_worker_has_spoken_is_taken_by_the_supervisor(tmp_path: Path) -> None:
    """The report is also the coordinator's heartbeat, and a successor may have to wait for a worker that hangs."""
    report = write(tmp_path, 0, 0).report(0, -1, 0, 0.1, finished=False)
    envelope = Envelope(Peer(COORDINATOR), Peer(SUPERVISOR), 1, report)
    assert str(decode(encode(envelope))) == str(envelope)  # NaN is not equal to itself


def test_gradients_are_counted_step_by_step(tmp_path: Path) -> None:
    write(tmp_path, 0, 3)
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [line["gradient_mb"] for line in lines if "loss" in line] == [2.0, 2.0, 2.0]
