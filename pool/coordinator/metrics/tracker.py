"""Sinks that send a run's numbers to trackers of experiments: Weights & Biases (`wandb`), and packages with the same
functions (`trackio`).

A thread of its own does all that may take long: the import, the login, the sending. Training waits for none of it.
Numbers that the thread has no room for are lost. Keys and logins are the tracker's own: nothing here reads or writes
one.
"""

from __future__ import annotations

import importlib
import inspect
import queue
import secrets
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pool.config.load import read_recorded_settings
from pool.coordinator.metrics.newest import NewestNumbers
from pool.run_folder import files

SEND_SECONDS = 1.0  # smallest time between two points of a curve
MOST_WAITING = 1000  # points that wait to be sent, at most
FINISH_SECONDS = 20.0  # how long the end of a run waits for the last points to be sent
_ID = "{}-id"  # file in the run folder; {}: the tracker's package
_STEP = "step"
_LONGEST = 100  # bytes of that file

Point = tuple[int, dict[str, float]]


class Tracker:
    """The sink that sends numbers to one tracker, by the package of that name (`ResumedSink`)."""

    def __init__(self, package: str, folder: Path) -> None:
        self.path = Path(package)  # messages name the sink by this
        self._package = package
        self._folder = folder
        self._newest = NewestNumbers()
        self._next = 0.0
        self._queue: queue.SimpleQueue[Point | None] = queue.SimpleQueue()
        self._error: BaseException | None = None  # the error that has ended the thread
        self._thread = threading.Thread(target=self._send, name=package, daemon=True)
        self._step = 0

    def resume(self, step: int) -> None:
        """Lets the tracker's own run go on if `step` is above 0. Numbers of later steps are sent again, and are the
        same."""
        self._step = step

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        """Takes the numbers of a step, and hands the newest ones to the thread, at most once in SEND_SECONDS. Returns
        True if it has. Raises the error that has ended the thread, or BlockingIOError if too many points wait."""
        if self._error is not None:
            raise self._error
        self._newest.add(step, scalars)
        if (now := time.monotonic()) < self._next:
            return False
        self._next = now + SEND_SECONDS
        if self._thread.ident is None:
            self._thread.start()
        self._hand_over()
        return True

    def close(self) -> None:
        """Waits until the tracker has been sent the last numbers. Raises TimeoutError if that takes longer than
        FINISH_SECONDS, so that the rest is lost; the error that has ended the sending thread; or BlockingIOError if too
        many points wait."""
        if self._thread.ident is None:
            return
        if self._error is not None:
            raise self._error
        try:
            self._hand_over()
        finally:
            self._queue.put(None)
            self._thread.join(FINISH_SECONDS)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise TimeoutError(f"it has not sent all within {FINISH_SECONDS:g} s, and the rest is lost")

    def _hand_over(self) -> None:
        """Hands the newest numbers to the thread that sends them. Raises BlockingIOError if too many points wait: then
        these are lost."""
        for point in self._newest.take().items():
            if self._queue.qsize() >= MOST_WAITING:
                raise BlockingIOError(f"{MOST_WAITING} points wait to be sent, and newer ones are lost")
            self._queue.put(point)

    def _send(self) -> None:
        """Begins the tracker's run and sends it all points that are handed over, until None comes. Runs in a thread of
        its own, and keeps an error that has ended it."""
        try:
            run = self._begin()
            while (point := self._queue.get()) is not None:
                step, values = point
                run.log({**values, _STEP: step}) if hasattr(run, "define_metric") else run.log(values, step=step)
            run.finish()
        except (Exception, SystemExit) as error:
            self._error = error

    def _begin(self) -> Any:
        """Begins the tracker's run, and returns it. A resumed run of ours goes on with the run that the tracker has
        under its old identity."""
        tracker = importlib.import_module(self._package)
        config = read_recorded_settings(self._folder)
        own = config["telemetry"]
        folder = self._folder.resolve()  # other processes can't follow our descriptor
        wanted = {
            "project": own["project"],
            "name": own["name"] or folder.name,
            "tags": own["tags"],
            "config": config,
            "resume": "allow" if self._step else "never",
            "dir": str(folder),
            "settings": {"console": "off"},  # what the process prints is in its log
        }
        taken = inspect.signature(tracker.init).parameters
        if "id" in taken:
            wanted["id"] = self._identity()
        run = tracker.init(**{name: value for name, value in wanted.items() if name in taken})
        if hasattr(run, "define_metric"):  # the step is sent as a number too: nets' numbers come after later steps
            run.define_metric(_STEP, hidden=True)
            run.define_metric("*", step_metric=_STEP)
        return run

    def _identity(self) -> str:
        """Returns the name by which the tracker knows this run, unique among all runs. It is kept in the run folder. A
        run that begins anew gets a new one. Raises OSError."""
        path = self._folder / _ID.format(self._package)
        if self._step and path.exists():
            return files.read_all(path, _LONGEST).decode()
        identity = secrets.token_hex(8)
        files.replace_file(path, identity.encode())
        return identity


wandb = partial(Tracker, "wandb")
trackio = partial(Tracker, "trackio")
