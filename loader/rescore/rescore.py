"""New scores for all positions of some files: a function of files, engine and settings, whatever happens on the way.

Each position is searched in a new game, so its score depends on nothing before it, nor on which engine searched it.
FILE.part holds the scores that are there, int16, in the order of the positions; FILE is made from them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from loader.chess.tools.kind import Target
from loader.chess.tools.output import check_free, packed
from loader.chess.tools.source import SourceFile, expected_bytes, refuse_empty
from loader.errors import EngineError, EngineStartError, InterruptedBySignalError
from loader.formats.format import OnProgress
from loader.rescore.positions import NO_SCORE, Scores, Tasks, count_storable, rescored
from loader.rescore.settings import RescoreSettings
from loader.resumable.delivery import deliver_new, is_delivered
from loader.resumable.interruption import Interruption, interruptible
from loader.resumable.work_file import WorkFile, is_begun
from loader.uci.engine import Engine
from loader.uci.engine_pool import EnginePool, try_engine

# Keys of the work's state.
POSITIONS = "positions"  # scored
ALL = "all"  # positions of the files


class Report(Protocol):
    """What the user sees meanwhile."""

    def progress(self, positions: int) -> None:
        """So many of the positions have their scores."""

    def tell(self, line: str) -> None:
        """Something to know, while the work goes on."""


def prepare(
    settings: RescoreSettings, sources: Sequence[SourceFile], target: Target, out: Path, progress: OnProgress | None
) -> int:
    """How many positions the files have, after all that can be seen to go wrong before hours have been spent.

    Raises as `rescore`.
    """
    refuse_empty(sources)
    if not is_begun(out):
        check_free(out, expected_bytes(sources, target.kind))
    size, counted = sum(source.size for source in sources), 0
    with interruptible() as interruption:
        try_engine(settings.engine, interruption)
        for positions, done in count_storable(sources, target.kind):
            interruption.check()
            counted = positions
            if progress is not None:
                progress(done, size)
    return counted


def rescore(
    settings: RescoreSettings, sources: Sequence[SourceFile], whole: int, target: Target, out: Path, report: Report
) -> dict[str, Any]:
    """Makes `out`, or goes on making it; gives back the last state, see the keys above. `whole`: as `prepare` says.

    Raises UsageError if `out` exists, or its work can't be gone on with; EngineError if the engine can't be used, or
    fails twice at the same place; InterruptedBySignalError; DataError; OSError. Scores are kept in its work file.
    """
    with WorkFile(out, settings.identity([source.path for source in sources], target), {POSITIONS: 0}) as work:

        def blocks() -> Iterator[bytes]:
            for block in packed(rescored(sources, target.kind, _scores(work)), target):
                interruption.check()
                yield block

        with interruptible() as interruption, _work_left(work):
            if is_delivered(work, blocks):
                work.remove()
                return work.state
            check_free(out, 0)
            _score(settings, sources, whole, work, report, interruption)
            deliver_new(work, blocks)
    return work.state


def _score(
    settings: RescoreSettings,
    sources: Sequence[SourceFile],
    whole: int,
    work: WorkFile,
    report: Report,
    interruption: Interruption,
) -> None:
    """Searches until the work holds all scores."""
    begin = work.state[POSITIONS]
    report.progress(begin)
    if begin == whole:
        return
    tasks = Tasks(sources, begin, settings.positions_of_a_task)

    def search(engine: Engine, number: int) -> Scores:
        scores = []
        for entry in tasks.entries(number):
            scores.append(NO_SCORE if entry.score == NO_SCORE else _search(engine, settings, entry.fen))
        return np.array(scores, np.int16)

    with EnginePool(settings.engine, settings.engines, "--threads", search) as pool:
        interruption.wake = pool.wake
        for result in pool.results(0, interruption.check):
            faults = list(result.faults)
            last = faults.pop() if result.value is None else ""
            for fault in faults:
                report.tell(f"{fault}; the engine is started again")
            if result.value is None:
                raise EngineError(f"an engine has failed at the same place again: {last}")
            tasks.forget(result.number)
            done = work.state[POSITIONS] + len(result.value)
            work.commit(result.value.astype("<i2").tobytes(), {POSITIONS: done, ALL: whole})
            report.progress(done)
            if done == whole:
                break
    work.sync()


def _search(engine: Engine, settings: RescoreSettings, fen: str) -> int:
    try:
        engine.new_game()
        return engine.search(fen, [], settings.limits).score
    except EngineStartError:
        raise
    except EngineError as error:
        raise EngineError(f"{error}; position {fen}") from None


def _scores(work: WorkFile) -> Scores:
    count = work.state[POSITIONS]
    return np.memmap(work.part, "<i2", mode="r", shape=(count,)) if count else np.empty(0, np.int16)


@contextmanager
def _work_left(work: WorkFile) -> Iterator[None]:
    """Adds to what ends the command how much there is to go on with."""
    try:
        yield
    except (EngineError, InterruptedBySignalError, OSError) as error:
        if done := work.state[POSITIONS]:
            error.add_note(
                f"{done:,} of {work.state[ALL]:,} positions have their scores in {work.part}; the same command goes on"
            )
        raise
