"""Writes a run's numbers to all sinks (files and services). No sink can stop the training: its failure is reported
once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader.plugins.error_text import format_error_with_location
from loader.plugins.interface import find_interface_problem
from pool.telemetry.sinks import ResumedSink, Sink, find_factory


def open_sinks(names: Sequence[str], run_dir: Path, notify: Callable[[str], object]) -> list[Sink]:
    """Makes the sinks of these names (`run.sinks`). One that can't be made is reported to the user and left out."""
    sinks: list[Sink] = []
    for name in names:
        try:
            sink = find_factory(name)(run_dir)
            problem = find_interface_problem(sink, Sink, "a metrics sink")
        except (Exception, SystemExit) as error:  # a user's code may raise anything
            problem = format_error_with_location(error)
        if problem:
            notify(f"run.sinks: {name}: {problem}; training goes on without it")
        else:
            sinks.append(sink)
    return sinks


class Sinks:
    """Passes numbers on to several sinks. An error of a sink is reported to the user, and training goes on."""

    def __init__(self, sinks: Sequence[Sink], notify: Callable[[str], object]) -> None:
        """Makes one sink of several. `notify`: shows the run's user a line."""
        self._sinks = sinks
        self._notify = notify
        self._failed: set[int] = set()  # ids of sinks whose failure has been reported

    def resume(self, step: int) -> None:
        """Lets each sink remove its numbers of steps after `step`, which are done again."""
        for sink in self._sinks:
            if isinstance(sink, ResumedSink):
                with self.guarded(sink):
                    sink.resume(step)

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Passes the numbers of a step on to each sink (file or service). Names are those in metrics.jsonl."""
        for sink in self._sinks:
            with self.guarded(sink):
                if sink.add(step, scalars) and id(sink) in self._failed:
                    self._failed.remove(id(sink))
                    self._notify(f"{_describe_sink(sink)} is written again")

    def close(self) -> None:
        """Closes each sink; an error is reported to the user."""
        for sink in self._sinks:
            with self.guarded(sink):
                sink.close()

    @contextmanager
    def guarded(self, sink: Sink) -> Iterator[None]:
        """Reports an error of a sink inside the context to the user: once, until the sink works again."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if id(sink) not in self._failed:
                self._failed.add(id(sink))
                reason = (error.strerror or error) if isinstance(error, OSError) else format_error_with_location(error)
                self._notify(f"{_describe_sink(sink)} can't be written: {reason}; training goes on")


def _describe_sink(sink: Sink) -> str:
    """Returns a name for a sink that the user understands: its path, or its class if the path of a user's own sink
    can't be shown."""
    try:
        return str(sink.path)
    except Exception:
        return f"run.sinks: {type(sink).__name__}"
