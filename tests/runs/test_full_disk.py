"""Runs on a disk that becomes full: kept so until the end, or freed. Nothing ends for it, no file is torn, and what is
said is so."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.analysis.records import read_run
from pool.analysis.table import summarize_status
from pool.supervisor.resources.signals import ONE_SECONDS
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, command, pids_of, run_well, steps_done
from tests.support.wait import wait_for

pytestmark = pytest.mark.runs

LIBC = ctypes.CDLL(None, use_errno=True)
SETTINGS: dict[str, Any] = {
    **TOY,
    "train.steps": 300,
    "train.batches_per_step": 1,
    "train.checkpoint_every": 0,
    "pool.devices": ["fake:0?compute_ms=10"],
    "run.sinks": ["tensorboard"],
    "testing.history": True,
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if LIBC.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=12m") != 0:
        if os.environ.get("CI"):
            pytest.fail("CI mounts a tmpfs")
        pytest.skip("only root can mount a tmpfs")
    yield place
    LIBC.umount2(os.fsencode(place), 2)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def start(disk: Path, settings: dict[str, Any]) -> subprocess.Popen[str]:
    """A run that has done some steps."""
    words = command(disk.parent / "run", settings, "--set", f"run.dir={disk / 'run'}")
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: steps_done(disk / "run") > 20 or process.poll() is not None, "some steps")
    return process


def wait_for_line(process: subprocess.Popen[str], text: str) -> list[str]:
    """Reads what the run says up to a line with this text; returns the lines."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = process.stdout.readline()
        assert line, f"ended without {text!r}: {''.join(lines)}"
        lines.append(line)
    return lines


def whole_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    assert text.endswith("\n"), f"{path}: its last line is torn"
    return [json.loads(line) for line in text.splitlines()]


def test_a_disk_that_is_freed_costs_nothing(disk: Path, tmp_path: Path) -> None:
    expected = run_well(tmp_path / "undisturbed", SETTINGS)
    process = start(disk, SETTINGS)
    ballast = fill(disk)
    wait_for_line(process, "the run keeps it in memory and tries again")
    found = summarize_status(read_run(disk / "run"))
    assert (found["state"], found["disk_full"], found["eta_seconds"]) == ("running", True, None)
    for name in ("metrics.jsonl", "history.jsonl"):
        for path in disk.glob(f"run/**/{name}"):
            whole_lines(path)
    ballast.unlink()
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, ""), out + err
    ended = Ended(disk / "run", 0, out, err)
    assert ended.digest() == expected.digest()
    steps = [line["step"] for line in whole_lines(disk / "run/metrics.jsonl")]
    assert steps == list(range(1, SETTINGS["train.steps"] + 1))
    found = summarize_status(read_run(disk / "run"))
    assert (found["state"], found["step"], found["exit_code"]) == ("finished", SETTINGS["train.steps"], 0)


def test_a_disk_that_stays_full_leaves_whole_files_and_a_run_that_can_be_stopped(disk: Path) -> None:
    process = start(disk, SETTINGS)
    fill(disk)
    try:
        wait_for_line(process, "the run keeps it in memory and tries again")
        process.send_signal(signal.SIGTERM)
        wait_for_line(process, "stopping: ")
        time.sleep(2 * ONE_SECONDS)  # signals that are closer count as one
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = whole_lines(disk / "run/metrics.jsonl")
    missing = SETTINGS["train.steps"] - len(lines)
    assert process.returncode == 128 + signal.SIGTERM, out + err
    assert missing > 0
    assert "metrics.jsonl lacks the newest lines: there was no room for them" in out
    found = summarize_status(read_run(disk / "run"))
    assert (found["state"], found["step"], found["exit_code"]) == ("stopped", len(lines), 128 + signal.SIGTERM)
    wait_for(lambda: not pids_of(disk / "run"), "processes gone", 10)
