"""A worker's mailbox without the worker: takes one job and ends it when a line comes in.

Usage: python -m tests.support.programs.mailbox_alone ADDRESS_KEY
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np

from pool.process.start import RunStart
from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.protocol.messages import Outcome
from pool.shm.signals import Signal, WorkerSignals, num_report_words
from pool.telemetry.trace import Trace
from pool.worker.mailbox import Mailbox

if __name__ == "__main__":
    start = SimpleNamespace(
        peer=Peer(WORKER),
        coordinator=Peer(COORDINATOR),
        coordinator_pid=os.getppid(),
        address_key=sys.argv[1],
    )
    mine, coordinators = (Signal(os.eventfd(0, os.EFD_NONBLOCK)) for _ in range(2))
    words = np.zeros(num_report_words(1), np.int64), np.zeros(1, np.int64)
    shortcut = WorkerSignals(*words, own=mine, coordinator=coordinators)
    mailbox = Mailbox(cast(RunStart, start), shortcut, Trace(Path(), Peer(WORKER), on=False))
    mailbox.start()
    job, _ = mailbox.next_job()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    sys.stdin.readline()
    mailbox.finish(job, (Outcome((0.5,)),))
    sys.stdout.write(f"finished {words[0][0]}\n")
    sys.stdout.flush()
    sys.stdin.readline()
