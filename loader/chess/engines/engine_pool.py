"""Tasks done by several engines at once, and their results in order of the tasks' numbers: games, say."""

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

TRIES = 2  # of a task: an engine that crashes may do so by chance
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
AHEAD = 4  # tasks an engine may be ahead of the oldest that is not done

T = TypeVar("T")


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """Something that an engine has done, or that was given up because it failed TRIES times."""

    value: T | None  # None: given up
    faults: tuple[str, ...]  # of each try that failed; the engine was started anew


class RestartedEngines:
    """A thread's engines: started when they are needed, and anew after a fault of one of them."""

    def __init__(self, settings: Sequence[EngineSettings], stop: int) -> None:
        self._settings = settings
        self._stop = stop
        self._engines: list[Engine] = []

    def attempt(self, do: Callable[..., T]) -> Attempt[T]:
        """Raises EngineStartError: no task is to blame for that."""
        faults: list[str] = []
        while len(faults) < TRIES:
            try:
                for settings in self._settings[len(self._engines) :]:
                    self._engines.append(Engine(settings, self._stop))
                return Attempt(do(*self._engines), tuple(faults))
            except EngineStartError:
                raise
            except EngineError as error:
                faults.append(str(error))
                self.close()
        return Attempt(None, tuple(faults))

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()


class EnginePool(Generic[T]):
    """Threads with an engine each, or with several. A context manager; leaving it ends the engines, whatever they do.

    `option`: what the user calls the number of threads. `do`: does task number n.
    """

    def __init__(
        self, settings: Sequence[EngineSettings], threads: int, option: str, do: Callable[[RestartedEngines, int], T]
    ) -> None:
        self._settings = settings
        self._option = option
        self._do = do
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._numbers: SimpleQueue[int | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[int, T] | BaseException | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:
                self._end()
                raise EngineStartError(f"{self._option} {len(self._threads)}: {error} after {number}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def wake(self) -> None:
        """Lets `results` call its `check`. For a signal handler."""
        self._results.put(None)

    def results(self, first: int, check: Callable[[], None]) -> Iterator[tuple[int, T]]:
        """Number and result of task `first` and all after it, without end; once only. What `check` raises ends it."""
        done: dict[int, T] = {}
        for number in range(first, first + AHEAD * len(self._threads)):
            self._numbers.put(number)
        for number in itertools.count(first):
            check()
            while number not in done:
                match self._results.get():
                    case None:
                        check()
                    case BaseException() as error:
                        raise error
                    case finished, result:
                        done[finished] = result
            yield number, done.pop(number)
            self._numbers.put(number + AHEAD * len(self._threads))

    def _end(self) -> None:
        os.eventfd_write(self._stop, 1)
        started = [thread for thread in self._threads if thread.ident is not None]
        for _ in started:
            self._numbers.put(None)
        for thread in started:
            thread.join()
        os.close(self._stop)

    def _run(self) -> None:
        engines = RestartedEngines(self._settings, self._stop)
        try:
            while (number := self._numbers.get()) is not None:
                self._results.put((number, self._do(engines, number)))
        except StoppedError:
            pass
        except BaseException as error:
            self._results.put(error)
        finally:
            engines.close()


def try_engine(
    settings: EngineSettings, limits: Limits, interruption: Interruption, tell: Callable[[str], object]
) -> None:
    """Starts one engine, lets it search the start position, and ends it, so that what is wrong with every engine is
    said once: an option that it does not have, or no network. Tells of limits that it does not keep."""
    asked = _trial_limits(limits)
    try:
        with Engine(settings, interruption.descriptor) as engine:
            engine.new_game()
            search = engine.search(START, [], asked)
            if search.complaint is not None:
                raise EngineStartError(f"{settings.program}: complains of its options: {search.complaint}")
            if search.score is None:
                raise engine.fault("bestmove without a score")
    except StoppedError:
        interruption.check()
        return
    if problem := _limit_problem(asked, search):
        tell(f"warning: {settings.program}: {problem}: its scores and games are not those that the limit promises")


def _trial_limits(limits: Limits) -> Limits:
    """Returns limits of the same kind, within which any engine has a score soon."""
    return Limits(
        None if limits.nodes is None else min(max(limits.nodes, 100), 10_000),
        None if limits.depth is None else min(limits.depth, 6),
    )


def _limit_problem(asked: Limits, search: Search) -> str | None:
    """Returns how a search of the start position missed its limit by more than a factor of two; None if it kept it, or
    if the engine does not report that. Of two limits either may end a search."""
    for name, limit, reported in (("nodes", asked.nodes, search.nodes), ("depth", asked.depth, search.depth)):
        if limit is None or reported is None:
            continue
        is_too_short = 2 * reported < limit and None in (asked.nodes, asked.depth)
        if is_too_short or reported > 2 * limit:
            return f"does not keep to `go {name} {limit}`: it reports {name} {reported}"
    return None
