"""What a process says on a disk that is full: the status is written over the old one, what it prints is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pool.run_folder import files
from pool.telemetry.status import STATUS, Status, read_status, write_status
from tests.support.paths import ROOT


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("reason", ["", "no room", "x" * 10_000, "\U0001f9e0" * 10_000])
def test_a_status_finds_room_in_the_block_of_the_old_one(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_status(tmp_path, Status(1.0, reason="of an earlier life, and so a little longer" * 5))
    monkeypatch.setattr(files, "replace_file", full)
    write_status(tmp_path, Status(1.0, 2, 3.0, 143, reason))
    found = read_status(tmp_path)
    assert found is not None
    assert (found.restarts, found.ended, found.exit_code) == (2, 3.0, 143)
    assert reason.startswith(found.reason.removesuffix(" ..."))
    assert (tmp_path / STATUS).stat().st_size <= 4096


PRINTS = """
import os, sys
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
from pool.process.log_streams import tolerate_full_disk
tolerate_full_disk()
print("x" * 100_000, flush=True)
print("y", file=sys.stderr)
os.close(1)
try:
    print("z", flush=True)
except OSError:
    os._exit(7)  # another error than a full disk's is heard
"""


def test_what_a_process_prints_is_lost_and_ends_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS], cwd=ROOT, check=False)
    assert done.returncode == 7
