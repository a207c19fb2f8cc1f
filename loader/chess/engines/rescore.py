"""New scores for all positions of some files: a function of files, engine and settings, whatever happens on the way.

Each position is searched in a new game, so its score depends on nothing before it, nor on which engine searched it.
FILE.part holds the scores that are there, each with its position, in the order of the positions; FILE is made from them
at the end. Where the input has changed meanwhile, they are looked up by position: nothing is searched twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from loader.chess.engines.engine import Engine
from loader.chess.engines.engine_pool import START, EnginePool, RestartedEngines, try_engine
from loader.chess.engines.rescore_positions import (
    FAILED,
    RECORD,
    SILENT,
    KnownScores,
    Records,
    Tasks,
    count_all,
    places,
    position_of,
    rescored,
)
from loader.chess.engines.rescore_settings import RescoreSettings, digest_of_all
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.format import Target
from loader.chess.positions.input import SourceFile, expected_bytes, refuse_empty
from loader.chess.positions.output import check_free, packed
from loader.errors import EngineError, InterruptedBySignalError
from loader.files.delivery import deliver_new, is_delivered
from loader.files.interruption import Interruption, interruptible
from loader.files.work_file import WorkFile, is_begun
from loader.formats.format import OnProgress

LISTED = 20  # positions without a score that are named at the end

# Keys of the work's state.
FILES = "files"  # digest of their content
BEFORE = "before"  # records of an earlier content of the files, which the others follow
POSITIONS = "positions"  # scored
ALL = "all"  # positions of the files
UNSCORED = "unscored"  # of those, by this command


class Report(Protocol):
    """The report that the user sees meanwhile."""

    def progress(self, positions: int) -> None:
        """Says that so many of the positions have their scores."""

    def tell(self, line: str) -> None:
        """Something to know, while the work goes on."""


def prepare(
    settings: RescoreSettings,
    sources: Sequence[SourceFile],
    target: Target,
    out: Path,
    progress: OnProgress | None,
    tell: Callable[[str], object],
) -> int:
    """How many positions the files have, after all that can be seen to go wrong before hours have been spent. Tells of
    limits that the engine does not keep.

    Raises as `rescore`.
    """
    refuse_empty(sources)
    if not is_begun(out):
        check_free(out, expected_bytes(sources, target.format))
    with interruptible() as interruption:
        try_engine(settings.engine, settings.limits, interruption, tell)
        return count_all(sources, target.format, interruption.check, progress)


def rescore(
    settings: RescoreSettings, sources: Sequence[SourceFile], whole: int, target: Target, out: Path, report: Report
) -> dict[str, Any]:
    """Makes `out`, or goes on making it; gives back the last state, see the keys above. `whole`: as `prepare` says.

    Raises UsageError if `out` exists, or its work can't be gone on with; EngineError if the engine can't be used;
    InterruptedBySignalError; DataError; OSError. Scores are kept in its work file.
    """
    files = digest_of_all([source.known for source in sources if source.known is not None])
    with WorkFile(out, settings.identity(target), {FILES: files, BEFORE: 0, POSITIONS: 0}) as work:

        def blocks() -> Iterator[bytes]:
            scores = np.array(_records(work)["score"])
            for block in packed(rescored(sources, target.format, scores, drop=settings.drop_unscored), target):
                interruption.check()
                yield block

        with interruptible() as interruption, _work_left(work):
            same = work.state[FILES] == files
            if work.done or (same and is_delivered(work, blocks)):
                work.remove()
                if same:
                    return work.state
            check_free(out, 0)
            if not same:
                report.tell(f"{work.part}: the files have changed; scores of positions that they still have are kept")
                before = work.state[BEFORE] + work.state[POSITIONS]
                work.commit(b"", {FILES: files, BEFORE: before, POSITIONS: 0, ALL: whole})
            _score(settings, sources, whole, work, report, interruption)
            _list_unscored(sources, work, report)
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
    known = KnownScores(_all_records(work)[: work.state[BEFORE]])

    def search(engine: RestartedEngines, number: int) -> tuple[Records, list[str]]:
        faults: list[str] = []
        found = []
        for entry in tasks.entries(number):
            position, score = 0, NO_SCORE
            if entry.score != NO_SCORE:
                position = position_of(entry)
                earlier = known.get(position)
                score = _score_of(engine, settings, entry.fen, faults) if earlier is None else earlier
            found.append((position, score))
        return np.array(found, RECORD), faults

    with EnginePool([settings.engine], settings.engines, "--threads", search) as pool:
        interruption.wake = pool.wake
        for number, (records, faults) in pool.results(0, interruption.check):
            for fault in faults:
                report.tell(fault)
            tasks.forget(number)
            done = work.state[POSITIONS] + len(records)
            work.commit(records.tobytes(), {**work.state, POSITIONS: done, ALL: whole})
            report.progress(done)
            if done == whole:
                break
    work.sync()


def _score_of(engine: RestartedEngines, settings: RescoreSettings, fen: str, faults: list[str]) -> int:
    """A position's score, or why it has none; adds what went wrong. Raises EngineError for an engine of no use."""

    def search(each: Engine, fen: str) -> int:
        each.new_game()
        score = each.search(fen, [], settings.limits).score
        return SILENT if score is None else score

    attempt = engine.attempt(lambda each: search(each, fen))
    faults.extend(f"{fault}; position {fen}; the engine is started again" for fault in attempt.faults)
    if attempt.value is not None:
        return attempt.value
    elsewhere = engine.attempt(lambda each: search(each, START))
    if elsewhere.value is None:
        raise EngineError(f"an engine fails at the start position, too: {elsewhere.faults[-1]}; before at {fen}")
    return FAILED


def _list_unscored(sources: Sequence[SourceFile], work: WorkFile, report: Report) -> None:
    scores = _records(work)["score"]
    numbers = np.flatnonzero(scores > NO_SCORE)
    work.state[UNSCORED] = len(numbers)
    for number, place in zip(numbers, places(sources, numbers[:LISTED].tolist()), strict=False):
        why = "the engine failed twice" if scores[number] == FAILED else "the engine printed no exact one"
        report.tell(f"no score: {why}: {place}")
    if len(numbers) > LISTED:
        report.tell(f"no score: and {len(numbers) - LISTED:,} more")


def _all_records(work: WorkFile) -> Records:
    count = work.state[BEFORE] + work.state[POSITIONS]
    return np.memmap(work.part, RECORD, mode="r", shape=(count,)) if count else np.empty(0, RECORD)


def _records(work: WorkFile) -> Records:
    """Returns the records of the files as they are."""
    return _all_records(work)[work.state[BEFORE] :]


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
