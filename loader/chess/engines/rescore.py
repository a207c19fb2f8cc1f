"""The work of `loader rescore`, which gives all positions of files new scores by an engine. The scores depend only on
files, engine and settings, also if the work is interrupted and continued.

Each position is searched in a new game, so its score depends neither on earlier positions nor on which of the engines
searched it. FILE.part holds the scores so far, each with a hash of its position, in the order of the positions. FILE is
made from them in the end. If the input has changed since an interruption, scores are looked up by position, and nothing
is searched twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from loader.chess.engines.engine import Engine
from loader.chess.engines.engine_pool import START, EnginePool, RestartedEngines, check_engine
from loader.chess.engines.rescore_positions import (
    FAILED,
    RECORD,
    SILENT,
    Records,
    ScoreTable,
    TaskReader,
    count_positions,
    find_places,
    hash_position,
    write_rescored,
)
from loader.chess.engines.rescore_settings import RescoreSettings, content_digest
from loader.chess.positions.entry import NO_SCORE
from loader.chess.positions.format import Target
from loader.chess.positions.input import SourceFile, estimate_bytes, refuse_empty
from loader.chess.positions.output import check_output, compress
from loader.errors import EngineError, InterruptedBySignalError
from loader.files.delivery import deliver_new, is_delivered
from loader.files.interruption import Interruption, record_stop_signals
from loader.files.work_file import WorkFile, has_unfinished_work
from loader.formats.format import OnProgress

LISTED = 20  # positions without a score that are named at the end

# Keys of the work's state.
FILES = "files"  # digest of the files' content
BEFORE = "before"  # number of records made from an earlier content of the files, which stand first
POSITIONS = "positions"  # number of positions that have been searched
ALL = "all"  # number of positions in the files
UNSCORED = "unscored"  # number of positions for which the engine gave no score


class ProgressReport(Protocol):
    """The progress display of `loader rescore`."""

    def progress(self, positions: int) -> None:
        """Shows the number of positions that have their scores."""

    def notify(self, line: str) -> None:
        """Shows a message while the work goes on."""


def prepare(
    settings: RescoreSettings,
    sources: Sequence[SourceFile],
    target: Target,
    out: Path,
    progress: OnProgress | None,
    notify: Callable[[str], object],
) -> int:
    """Checks what can be checked before hours of searching: the files, the disk and the engine. Returns the number of
    positions in the files. Reports search limits that the engine does not keep to `notify`.

    Raises as `rescore`.
    """
    refuse_empty(sources)
    if not has_unfinished_work(out):
        check_output(out, estimate_bytes(sources, target.format))
    with record_stop_signals() as interruption:
        check_engine(settings.engine, settings.limits, interruption, notify)
        return count_positions(sources, target.format, interruption.check, progress)


def rescore(
    settings: RescoreSettings,
    sources: Sequence[SourceFile],
    num_positions: int,
    target: Target,
    out: Path,
    report: ProgressReport,
) -> dict[str, Any]:
    """Searches all positions and writes `out`, or continues an interrupted work. `num_positions` is that of
    `prepare`. Returns the last state of the work, a dict with the keys defined in this module (POSITIONS,
    UNSCORED, ...).

    Scores are kept in the work file after an error. Raises UsageError if `out` exists or its work file can't be
    continued, EngineError if the engine can't be used. Raises InterruptedBySignalError, DataError, OSError.
    """
    files = content_digest([source.data_file for source in sources if source.data_file is not None])
    with WorkFile(out, settings.identity(target), {FILES: files, BEFORE: 0, POSITIONS: 0}) as work:

        def write_blocks() -> Iterator[bytes]:
            scores = np.array(_records(work)["score"])
            for block in compress(write_rescored(sources, target.format, scores, drop=settings.drop_unscored), target):
                interruption.check()
                yield block

        with record_stop_signals() as interruption, _note_kept_scores(work):
            is_unchanged = work.state[FILES] == files
            if work.done or (is_unchanged and is_delivered(work, write_blocks)):
                work.remove()
                if is_unchanged:
                    return work.state
            check_output(out, 0)
            if not is_unchanged:
                report.notify(f"{work.part}: the files have changed; scores of positions that they still have are kept")
                before = work.state[BEFORE] + work.state[POSITIONS]
                work.commit(b"", {FILES: files, BEFORE: before, POSITIONS: 0, ALL: num_positions})
            _score(settings, sources, num_positions, work, report, interruption)
            _list_unscored(sources, work, report)
            deliver_new(work, write_blocks)
    return work.state


def _score(
    settings: RescoreSettings,
    sources: Sequence[SourceFile],
    num_positions: int,
    work: WorkFile,
    report: ProgressReport,
    interruption: Interruption,
) -> None:
    """Searches positions until the work file has all scores, and reports progress."""
    first = work.state[POSITIONS]
    report.progress(first)
    if first == num_positions:
        return
    tasks = TaskReader(sources, first, settings.positions_of_a_task)
    earlier_scores = ScoreTable(_all_records(work)[: work.state[BEFORE]])

    def search(engines: RestartedEngines, number: int) -> tuple[Records, list[str]]:
        faults: list[str] = []
        records = []
        for entry in tasks.entries(number):
            if entry.score == NO_SCORE:
                records.append((0, NO_SCORE))
                continue
            position = hash_position(entry)
            score = earlier_scores.get(position)
            if score is None:
                score = _search_score(engines, settings, entry.fen, faults)
            records.append((position, score))
        return np.array(records, RECORD), faults

    with EnginePool([settings.engine], settings.engines, "--threads", search) as pool:
        interruption.wake = pool.wake
        for number, (records, faults) in pool.results(0, interruption.check):
            for fault in faults:
                report.notify(fault)
            tasks.forget(number)
            done = work.state[POSITIONS] + len(records)
            work.commit(records.tobytes(), {**work.state, POSITIONS: done, ALL: num_positions})
            report.progress(done)
            if done == num_positions:
                break
    work.sync()


def _search_score(engines: RestartedEngines, settings: RescoreSettings, fen: str, faults: list[str]) -> int:
    """Searches a position. Returns its score, or SILENT or FAILED if it has none. Adds failures of the engine to
    `faults`. Raises EngineError if the engine fails at the start position, too."""

    def search(engine: Engine, fen: str) -> int:
        engine.new_game()
        score = engine.search(fen, [], settings.limits).score
        return SILENT if score is None else score

    result = engines.run(lambda engine: search(engine, fen))
    faults.extend(f"{fault}; position {fen}; the engine is started again" for fault in result.faults)
    if result.value is not None:
        return result.value
    check = engines.run(lambda engine: search(engine, START))
    if check.value is None:
        raise EngineError(f"an engine fails at the start position, too: {check.faults[-1]}; before at {fen}")
    return FAILED


def _list_unscored(sources: Sequence[SourceFile], work: WorkFile, report: ProgressReport) -> None:
    """Reports positions for which the engine gave no score, the first 20 with their place in the files, and stores
    their number in the work's state."""
    scores = _records(work)["score"]
    unscored = np.flatnonzero(scores > NO_SCORE)
    work.state[UNSCORED] = len(unscored)
    listed = unscored[:LISTED].tolist()
    for index, place in zip(listed, find_places(sources, listed), strict=False):
        reason = "the engine failed twice" if scores[index] == FAILED else "the engine printed no exact one"
        report.notify(f"no score: {reason}: {place}")
    if len(unscored) > LISTED:
        report.notify(f"no score: and {len(unscored) - LISTED:,} more")


def _all_records(work: WorkFile) -> Records:
    """Returns all records in the work file, a memory map: those of an earlier content of the files, then those of the
    present one."""
    count = work.state[BEFORE] + work.state[POSITIONS]
    return np.memmap(work.part, RECORD, mode="r", shape=(count,)) if count else np.empty(0, RECORD)


def _records(work: WorkFile) -> Records:
    """Returns the records for the present content of the files."""
    return _all_records(work)[work.state[BEFORE] :]


@contextmanager
def _note_kept_scores(work: WorkFile) -> Iterator[None]:
    """Adds a note to an error or signal that ends the command: how many positions have their scores."""
    try:
        yield
    except (EngineError, InterruptedBySignalError, OSError) as error:
        done = work.state[POSITIONS]
        if done:
            error.add_note(
                f"{done:,} of {work.state[ALL]:,} positions have their scores in {work.part}; the same command goes on"
            )
        raise
