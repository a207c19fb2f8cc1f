"""Sinks of a run's numbers. No sink can stop the training: a failure is told once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader.plugins.error_text import error_line
from loader.plugins.interface import interface_problem
from pool.telemetry.sinks import ResumedSink, Sink, factory_of


def open_sinks(names: Sequence[str], run_dir: Path, say: Callable[[str], object]) -> list[Sink]:
    """The sinks of these names (`run.sinks`). One that can't be made is reported and left out."""
    sinks: list[Sink] = []
    for name in names:
        try:
            sink = factory_of(name)(run_dir)
            problem = interface_problem(sink, Sink, "a metrics sink")
        except (Exception, SystemExit) as error:  # a user's code may raise anything
            problem = error_line(error)
        if problem:
            say(f"run.sinks: {name}: {problem}; training goes on without it")
        else:
            sinks.append(sink)
    return sinks


class Sinks:
    def __init__(self, sinks: Sequence[Sink], say: Callable[[str], object]) -> None:
        """`say`: to the user."""
        self._sinks = sinks
        self._say = say
        self._failed: set[int] = set()  # ids of sinks whose failure has been reported

    def resume(self, step: int) -> None:
        for sink in self._sinks:
            if isinstance(sink, ResumedSink):
                with self.guarded(sink):
                    sink.resume(step)

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        for sink in self._sinks:
            with self.guarded(sink):
                if sink.add(step, scalars) and id(sink) in self._failed:
                    self._failed.remove(id(sink))
                    self._say(f"{_place_of(sink)} is written again")

    def close(self) -> None:
        for sink in self._sinks:
            with self.guarded(sink):
                sink.close()

    @contextmanager
    def guarded(self, sink: Sink) -> Iterator[None]:
        """An error inside is reported, once until the sink works again."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if id(sink) not in self._failed:
                self._failed.add(id(sink))
                reason = (error.strerror or error) if isinstance(error, OSError) else error_line(error)
                self._say(f"{_place_of(sink)} can't be written: {reason}; training goes on")


def _place_of(sink: Sink) -> str:
    """Names a sink as the user knows it; a sink of the user's may have anything for its `path`."""
    try:
        return str(sink.path)
    except Exception:
        return f"run.sinks: {type(sink).__name__}"
