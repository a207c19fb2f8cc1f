"""The work of `loader generate`, which plays many games of an engine into one file. The file depends only on engine,
settings and seed, also if the work is interrupted and continued.

Games are numbered and recorded in the order of their numbers, so the number of engines changes nothing. Each game is a
chunk of FILE.part. In the end the games are packed into chunks of the usual size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from loader import _native
from loader.chess.engines.book import Book, read_book
from loader.chess.engines.engine_pool import EnginePool, RestartedEngines, TaskResult, check_engine
from loader.chess.engines.game import play_game
from loader.chess.engines.opening import Openings
from loader.chess.engines.selfplay_settings import GenerateSettings
from loader.chess.positions.entry import Entry
from loader.chess.positions.file import fault_of_walk, raise_fault
from loader.chess.positions.format import named_format
from loader.chess.positions.games_writer import encode, rechunk
from loader.errors import EngineError, InterruptedBySignalError, UsageError
from loader.files.delivery import APPENDED_AT, deliver_appended, deliver_new, is_delivered
from loader.files.interruption import Interruption, record_stop_signals
from loader.files.work_file import WorkFile, has_unfinished_work

Game = TaskResult[list[Entry]]

FAILURES = 5  # number of games dropped in a row that ends the command

# Keys of the work's state.
GAMES = "games"  # number of games, dropped ones included
POSITIONS = "positions"
DROPPED = "dropped"  # number of dropped games
DROPPED_BEFORE = "dropped before this"  # numbers of the games dropped just before the last one
AFTER = "after"  # with --append: size of the file in bytes when the work began


class ProgressReport(Protocol):
    """The progress display of `loader generate`."""

    def progress(self, positions: int, more: str) -> None:
        """Shows the number of positions that are in the file now, and a text with more numbers."""

    def notify(self, line: str) -> None:
        """Shows a message while the work goes on."""


def generate(settings: GenerateSettings, out: Path, report: ProgressReport) -> dict[str, Any]:
    """Plays games until `out` has all positions, or continues an interrupted work. Returns the last state of the work,
    a dict with the keys defined in this module (GAMES, POSITIONS, ...).

    Finished games are kept in the work file after an error. Raises UsageError if `out` exists or its work file can't be
    continued. Raises EngineError if the engine can't be used, or if FAILURES games in a row are dropped. Raises
    InterruptedBySignalError, DataError, OSError.
    """
    if not settings.append and not has_unfinished_work(out):
        refuse_existing(out)
    book = None if settings.book is None else read_book(settings.book)
    if book is not None and book.empty:
        report.notify(f"{book.path}: left out, without a move: {book.empty:,} of its games")
    size_before = file_size(out) if settings.append else 0
    start = {GAMES: 0, POSITIONS: 0, DROPPED: 0, AFTER: size_before}
    with WorkFile(out, settings.identity(book), start) as work:
        if is_delivered(work, partial(rechunk, work.part, settings.format)):
            work.remove()
            return work.state
        refuse_output(settings, work)
        if book is not None and not work.state[GAMES]:
            book.check(settings.game.max_ply, chess960=settings.variant.shows_rooks)
        with record_stop_signals() as interruption, note_kept_games(settings, work):
            play(settings, book, work, report, interruption)
            deliver(settings, work, interruption)
    return work.state


def refuse_existing(out: Path) -> None:
    """Refuses an output that exists. Raises UsageError."""
    if os.path.lexists(out):
        raise UsageError(f"{out}: exists, and is never replaced; give another name, --append, or move it away")


def refuse_output(settings: GenerateSettings, work: WorkFile) -> None:
    """Refuses an output that can't be written. Raises UsageError for a file that exists without --append, DataError or
    OSError for one to which games can't be appended."""
    if not settings.append:
        refuse_existing(work.path)
    elif os.path.lexists(work.path) and APPENDED_AT not in work.state:
        check_appendable(work.path, settings.format)


def check_appendable(path: Path, format: str) -> None:
    """Checks that games can be appended to a file. Raises DataError if the file's last chunk is not whole or not of the
    format, OSError if the file can't be written."""
    file = _native.open_entries(named_format(format).codec, path)
    if file.num_chunks:  # bytes that are no chunk count as the last chunk
        raise_fault(fault_of_walk(_native.ChunkWalk(file, file.num_chunks - 1)))
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))


def file_size(path: Path) -> int:
    """Returns the size of a file in bytes, or 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


@contextmanager
def note_kept_games(settings: GenerateSettings, work: WorkFile) -> Iterator[None]:
    """Adds a note to an error or signal that ends the command: how many positions and games are kept."""
    try:
        yield
    except (EngineError, InterruptedBySignalError, OSError) as error:
        positions, games = work.state[POSITIONS], work.state[GAMES] - work.state[DROPPED]
        if games:
            count = f"{positions:,} of {settings.positions:,} positions ({games:,} games)"
            error.add_note(f"{count} are in {work.part}; the same command goes on")
        raise


def make_openings(settings: GenerateSettings, book: Book | None, size_before: int) -> Openings:
    """Returns the openings of the games. With --append, `size_before`, the number of bytes that the file had, is mixed
    into the seed, so that the same command makes other games each time."""
    seed = f"{settings.seed}+{size_before}" if size_before else f"{settings.seed}"
    return Openings(seed, settings.random_plies, book, settings.variant)


def play(
    settings: GenerateSettings, book: Book | None, work: WorkFile, report: ProgressReport, interruption: Interruption
) -> None:
    """Plays games until the work file has all positions, and reports progress."""
    report.progress(work.state[POSITIONS], f"{work.state[GAMES]:,} games")
    if work.state[POSITIONS] >= settings.positions:
        return
    check_engine(settings.engine, settings.game.limits, interruption, report.notify)
    openings = make_openings(settings, book, work.state[AFTER])

    def run_task(engines: RestartedEngines, number: int) -> Game:
        return engines.run(lambda engine: play_game(engine, settings.game, openings.openings_of_game(number)))

    with EnginePool([settings.engine], settings.engines, "--engines", run_task) as pool:
        interruption.wake = pool.wake
        dropped: list[int] = []
        for number, game in pool.results(work.state[GAMES], interruption.check):
            report_faults(number, game, report)
            if game.value is None:
                dropped.append(number)
                refuse_failures(dropped, game)
                continue
            commit_game(work, number, game.value, dropped, settings)
            dropped = []
            report.progress(work.state[POSITIONS], f"{work.state[GAMES]:,} games")
            if work.state[POSITIONS] >= settings.positions:
                break
    work.sync()


def commit_game(work: WorkFile, number: int, game: list[Entry], dropped: list[int], settings: GenerateSettings) -> None:
    """Commits a game to the work file, with the numbers of the games that were dropped before it. The last game is cut
    to the number of positions that is missing."""
    entries = game[: settings.positions - work.state[POSITIONS]]
    state = {key: value for key, value in work.state.items() if key != DROPPED_BEFORE}
    state |= {GAMES: number + 1, POSITIONS: state[POSITIONS] + len(entries)}
    if dropped:
        state |= {DROPPED: state[DROPPED] + len(dropped), DROPPED_BEFORE: dropped}
    try:
        encoded = encode(entries, settings.format)
    except ValueError as error:
        raise UsageError(f"{work.path}: a file of {settings.format} can't hold game {number}: {error}") from None
    work.commit(encoded, state)


def report_faults(number: int, game: Game, report: ProgressReport) -> None:
    """Reports the faults of the engine in a game, and whether the game is dropped."""
    for fault in game.faults:
        report.notify(f"game {number}: {fault}; the engine is started again")
    if game.value is None:
        report.notify(f"game {number} is dropped")


def refuse_failures(dropped: list[int], last: Game) -> None:
    """Ends the command after FAILURES failed games in a row. Raises EngineError with the last fault. These games are
    not recorded, so that they are played again when the command continues, perhaps with the cause removed."""
    if len(dropped) == FAILURES:
        raise EngineError(f"{FAILURES} games in a row have failed, at last with: {last.faults[-1]}")


def deliver(settings: GenerateSettings, work: WorkFile, interruption: Interruption) -> None:
    """Writes the games of the work file to a new output, or appends them to the existing one."""

    def read_blocks() -> Iterator[bytes]:
        for block in rechunk(work.part, settings.format):
            interruption.check()
            yield block

    if settings.append and os.path.lexists(work.path):
        refuse_output(settings, work)
        deliver_appended(work, read_blocks)
    else:
        deliver_new(work, read_blocks)
