"""Shared memory belongs to the process that was given it (I4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np

from pool.shm.segment import Segment, create_segment, reopen_read_only
from tests.support.paths import ROOT

FORKS = """
import os
from pool.shm.segment import Segment, create_segment
segment = Segment(create_segment("test", 4096, lambda nbytes: None), writable=True)
segment.array[0] = 7
pid = os.fork()
if pid == 0:
    segment.array[0] = 8
    os._exit(0)
status = os.waitpid(pid, 0)[1]
print(os.waitstatus_to_exitcode(status), segment.array[0])
"""


def test_a_process_that_a_task_forks_has_none_of_it() -> None:
    """It would write where the memory is another batch's by then."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == [str(-signal.SIGSEGV), "7"], done.stderr


def test_what_is_in_a_segment_stays_when_its_pages_become_huge() -> None:
    """Where the kernel has none, they stay small."""
    huge = 2 << 20
    fd = create_segment("test", 3 * huge + 4096, lambda _: None)
    writer, reader = Segment(fd, writable=True), Segment(reopen_read_only(fd), writable=False)
    writer.array[:] = np.arange(writer.size) % 251
    writer.touch(huge_pages=True)
    reader.touch()
    assert (reader.array == np.arange(writer.size) % 251).all()
    assert [segment.array.ctypes.data % huge for segment in (writer, reader)] == [0, 0]
    writer.array[huge] = 7
    assert reader.array[huge] == 7
