"""Runs numbered tasks (games, say) on several engines at once, and returns the results in the order of the numbers."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Self, TypeVar

from loader.chess.engines.engine import Engine, EngineSettings, Limits, Search
from loader.chess.engines.line_process import StoppedError
from loader.errors import EngineError, EngineStartError
from loader.files.interruption import Interruption

TRIES = 2  # attempts at a task, because an engine may crash by chance
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
TASKS_PER_THREAD = 4  # tasks for each thread that may be started before the oldest one is done

T = TypeVar("T")


@dataclass(frozen=True)
class TaskResult(Generic[T]):
    """The result of a task, or the record that it failed TRIES times."""

    value: T | None  # None: the task has failed TRIES times
    faults: tuple[str, ...]  # one for each attempt that failed, after which the engine was started again


class RestartedEngines:
    """The engines of one thread, started when a task needs them, and started again after one of them has failed."""

    def __init__(self, settings: Sequence[EngineSettings], stop: int) -> None:
        self._settings = settings
        self._stop = stop
        self._engines: list[Engine] = []

    def run(self, task: Callable[..., T]) -> TaskResult[T]:
        """Calls `task` with the engines, at most TRIES times if it raises EngineError, each time with new engines.
        Returns its value and the faults. Raises EngineStartError, which is not the fault of a task."""
        faults: list[str] = []
        while len(faults) < TRIES:
            try:
                for settings in self._settings[len(self._engines) :]:
                    self._engines.append(Engine(settings, self._stop))
                return TaskResult(task(*self._engines), tuple(faults))
            except EngineStartError:
                raise
            except EngineError as error:
                faults.append(str(error))
                self.close()
        return TaskResult(None, tuple(faults))

    def close(self) -> None:
        """Ends all engines of the thread."""
        while self._engines:
            self._engines.pop().close()


class EnginePool(Generic[T]):
    """Threads that run tasks, each with an engine or several of its own. A context manager that ends all engines when
    it is left, whatever they are doing.

    `run_task` runs the task with a given number. `option` is the name of the option for the number of threads, for an
    error message.
    """

    def __init__(
        self,
        settings: Sequence[EngineSettings],
        threads: int,
        option: str,
        run_task: Callable[[RestartedEngines, int], T],
    ) -> None:
        """Prepares `threads` threads, each with one engine for each of `settings`. They start when the context is
        entered."""
        self._settings = settings
        self._option = option
        self._run_task = run_task
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._numbers: SimpleQueue[int | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[int, T] | BaseException | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:
                self._stop_engines()
                raise EngineStartError(f"{self._option} {len(self._threads)}: {error} after {number}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_engines()

    def wake(self) -> None:
        """Makes `results` call its `check` soon. Can be called from a signal handler."""
        self._results.put(None)

    def results(self, first: int, check: Callable[[], None]) -> Iterator[tuple[int, T]]:
        """Yields number and result of task `first` and of all later tasks, in order and without end. Can be called
        once. `check` is called before each result and after `wake`, and ends the work by raising an exception."""
        max_started = TASKS_PER_THREAD * len(self._threads)
        finished: dict[int, T] = {}
        for number in range(first, first + max_started):
            self._numbers.put(number)
        for number in itertools.count(first):
            check()
            while number not in finished:
                match self._results.get():
                    case None:
                        check()
                    case BaseException() as error:
                        raise error
                    case finished_number, result:
                        finished[finished_number] = result
            yield number, finished.pop(number)
            self._numbers.put(number + max_started)

    def _stop_engines(self) -> None:
        """Stops all engines and waits for their threads."""
        os.eventfd_write(self._stop, 1)
        started = [thread for thread in self._threads if thread.ident is not None]
        for _ in started:
            self._numbers.put(None)
        for thread in started:
            thread.join()
        os.close(self._stop)

    def _run(self) -> None:
        """Runs tasks in a thread until it is stopped. Puts each result, or the exception that ends the thread, into the
        queue of results."""
        engines = RestartedEngines(self._settings, self._stop)
        try:
            for number in iter(self._numbers.get, None):
                self._results.put((number, self._run_task(engines, number)))
        except StoppedError:
            pass
        except BaseException as error:
            self._results.put(error)
        finally:
            engines.close()


def check_engine(
    settings: EngineSettings, limits: Limits, interruption: Interruption, notify: Callable[[str], object]
) -> None:
    """Starts one engine and lets it search the start position, so that an unknown option or a missing network is
    reported once, before many engines are started. Warns through `notify` if the engine does not keep its search
    limits."""
    trial_limits = _trial_limits(limits)
    try:
        with Engine(settings, interruption.descriptor) as engine:
            engine.new_game()
            search = engine.search(START, [], trial_limits)
            if search.complaint is not None:
                raise EngineStartError(f"{settings.program}: complains of its options: {search.complaint}")
            if search.score is None:
                raise engine.fault("bestmove without a score")
    except StoppedError:
        interruption.check()
        return
    problem = _find_limit_problem(trial_limits, search)
    if problem:
        notify(f"warning: {settings.program}: {problem}: its scores and games are not those that the limit promises")


def _trial_limits(limits: Limits) -> Limits:
    """Returns search limits of the same kind, within which any engine soon has a score."""
    return Limits(
        None if limits.nodes is None else min(max(limits.nodes, 100), 10_000),
        None if limits.depth is None else min(limits.depth, 6),
    )


def _find_limit_problem(limits: Limits, search: Search) -> str | None:
    """Describes how a search of the start position missed its limit by more than a factor of two. Returns None if the
    search kept it, or if the engine does not report nodes or depth. If both limits are set, a short search is no
    problem, because either limit may end it."""
    for name, limit, reported in (("nodes", limits.nodes, search.nodes), ("depth", limits.depth, search.depth)):
        if limit is None or reported is None:
            continue
        is_too_short = 2 * reported < limit and None in (limits.nodes, limits.depth)
        if is_too_short or reported > 2 * limit:
            return f"does not keep to `go {name} {limit}`: it reports {name} {reported}"
    return None
