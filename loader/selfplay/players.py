"""Games played on several engines at once, and handed out in order of their numbers."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from loader.chess.entry import Entry
from loader.errors import EngineError, EngineStartError
from loader.uci.engine import Engine, EngineSettings
from loader.uci.line_process import StoppedError

TRIES = 2  # of a game: an engine that crashes may do so by chance
AHEAD = 4  # games an engine may be ahead of the oldest that is still played

Play = Callable[[Engine, int], list[Entry]]


@dataclass(frozen=True)
class Game:
    """A game that has been played, or dropped because it failed TRIES times."""

    number: int
    entries: list[Entry] | None  # None: dropped
    faults: tuple[str, ...]  # of each try that failed; the engine was started anew


class Players:
    """Threads with an engine each. A context manager; leaving it ends the engines, whatever they do."""

    def __init__(self, settings: EngineSettings, engines: int, play: Play) -> None:
        self._settings = settings
        self._play = play
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._numbers: SimpleQueue[int | None] = SimpleQueue()
        self._results: SimpleQueue[Game | BaseException | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run) for _ in range(engines)]

    def __enter__(self) -> Self:
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:
                self._end()
                raise EngineStartError(f"--engines {len(self._threads)}: {error} after {number}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def wake(self) -> None:
        """Lets `games` call its `check`. For a signal handler."""
        self._results.put(None)

    def games(self, first: int, check: Callable[[], None]) -> Iterator[Game]:
        """Game `first` and all after it, without end; once only. What `check` raises ends it."""
        played: dict[int, Game] = {}
        for number in range(first, first + AHEAD * len(self._threads)):
            self._numbers.put(number)
        for number in itertools.count(first):
            check()
            while number not in played:
                match self._results.get():
                    case None:
                        check()
                    case Game() as game:
                        played[game.number] = game
                    case BaseException() as error:
                        raise error
            yield played.pop(number)
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
        engine = _Replaceable(self._settings, self._stop)
        try:
            while (number := self._numbers.get()) is not None:
                self._results.put(self._play_or_drop(engine, number))
        except StoppedError:
            pass
        except BaseException as error:
            self._results.put(error)
        finally:
            engine.close()

    def _play_or_drop(self, engine: _Replaceable, number: int) -> Game:
        faults: list[str] = []
        while len(faults) < TRIES:
            try:
                return Game(number, self._play(engine.get(), number), tuple(faults))
            except EngineStartError:  # no game is to blame: dropping it would make another file
                raise
            except EngineError as error:
                faults.append(str(error))
                engine.close()
        return Game(number, None, tuple(faults))


class _Replaceable:
    """A thread's engine: started when it is needed, and anew after `close`."""

    def __init__(self, settings: EngineSettings, stop: int) -> None:
        self._settings = settings
        self._stop = stop
        self._engine: Engine | None = None

    def get(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self._settings, self._stop)
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
