"""Many games into one file: a function of engine, settings and seed, whatever happens on the way.

Games are numbered and recorded in order of their numbers, so the file depends neither on how many engines played
them nor on how often the work was interrupted. Each game is a chunk of FILE.part; at the end they are packed into
chunks of the usual size.
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
from loader.chess.engines.engine_pool import Attempt, EnginePool, try_engine
from loader.chess.engines.game import play_game
from loader.chess.engines.opening import Openings
from loader.chess.engines.selfplay_settings import GenerateSettings
from loader.chess.positions.entry import Entry
from loader.chess.positions.file import fault_behind, raise_fault
from loader.chess.positions.format import named_format
from loader.chess.positions.games_writer import encode, rechunk
from loader.errors import EngineError, InterruptedBySignalError, UsageError
from loader.files.delivery import APPENDED_AT, deliver_appended, deliver_new, is_delivered
from loader.files.interruption import Interruption, interruptible
from loader.files.work_file import WorkFile, is_begun

Game = Attempt[list[Entry]]

FAILURES = 5  # dropped games in a row that end the command

# Keys of the work's state.
GAMES = "games"  # numbers used up, those of dropped games included
POSITIONS = "positions"
DROPPED = "dropped"  # games
DROPPED_BEFORE = "dropped before this"  # numbers of games
AFTER = "after"  # bytes of the file when the work began, with --append


class Report(Protocol):
    """The report that the user sees meanwhile."""

    def progress(self, positions: int, more: str) -> None:
        """Says that so many positions are in the file now, and what else there is to say."""

    def tell(self, line: str) -> None:
        """Something to know, while the work goes on."""


def generate(settings: GenerateSettings, out: Path, report: Report) -> dict[str, Any]:
    """Makes `out`, or goes on making it; gives back the last state, see the keys above.

    Raises UsageError if `out` exists, or its work can't be gone on with; EngineError if the engine can't be used or
    FAILURES games in a row are dropped; InterruptedBySignalError; DataError; OSError. Whole games are kept in its work
    file.
    """
    if not settings.append and not is_begun(out):
        refuse_existing(out)
    book = None if settings.book is None else read_book(settings.book)
    if book is not None and book.empty:
        report.tell(f"{book.path}: left out, without a move: {book.empty:,} of its games")
    start = {GAMES: 0, POSITIONS: 0, DROPPED: 0, AFTER: size_of(out) if settings.append else 0}
    with WorkFile(out, settings.identity(book), start) as work:
        if is_delivered(work, partial(rechunk, work.part, settings.format)):
            work.remove()
            return work.state
        refuse_output(settings, work)
        if book is not None and not work.state[GAMES]:
            book.check(settings.game.max_ply, chess960=settings.variant.shows_rooks)
        with interruptible() as interruption, work_left(settings, work):
            play(settings, book, work, report, interruption)
            deliver(settings, work, interruption)
    return work.state


def refuse_existing(out: Path) -> None:
    if os.path.lexists(out):
        raise UsageError(f"{out}: exists, and is never replaced; give another name, --append, or move it away")


def refuse_output(settings: GenerateSettings, work: WorkFile) -> None:
    """An output that could not be delivered to."""
    if not settings.append:
        refuse_existing(work.path)
    elif os.path.lexists(work.path) and APPENDED_AT not in work.state:
        check_appendable(work.path, settings.format)


def check_appendable(path: Path, format: str) -> None:
    """A file of the format whose chunks are whole and that may be written to."""
    file = _native.open_entries(named_format(format).codec, path)
    if file.num_chunks:  # what is no chunk is the last one
        raise_fault(fault_behind(_native.ChunkWalk(file, file.num_chunks - 1)))
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def work_left(settings: GenerateSettings, work: WorkFile) -> Iterator[None]:
    """Adds to what ends the command how much there is to go on with."""
    try:
        yield
    except (EngineError, InterruptedBySignalError, OSError) as error:
        positions, games = work.state[POSITIONS], work.state[GAMES] - work.state[DROPPED]
        if games:
            count = f"{positions:,} of {settings.positions:,} positions ({games:,} games)"
            error.add_note(f"{count} are in {work.part}; the same command goes on")
        raise


def openings(settings: GenerateSettings, book: Book | None, after: int) -> Openings:
    """Returns the openings. The same command, given again to append, makes other games: the seed is mixed with the
    bytes that were there."""
    seed = f"{settings.seed}+{after}" if after else f"{settings.seed}"
    return Openings(seed, settings.random_plies, book, settings.variant)


def play(
    settings: GenerateSettings, book: Book | None, work: WorkFile, report: Report, interruption: Interruption
) -> None:
    """Games until the work holds all positions."""
    report.progress(work.state[POSITIONS], f"{work.state[GAMES]:,} games")
    if work.state[POSITIONS] >= settings.positions:
        return
    try_engine(settings.engine, settings.game.limits, interruption, report.tell)
    starts = openings(settings, book, work.state[AFTER])
    with EnginePool(
        [settings.engine],
        settings.engines,
        "--engines",
        lambda engine, number: engine.attempt(lambda each: play_game(each, settings.game, starts.of_game(number))),
    ) as pool:
        interruption.wake = pool.wake
        dropped: list[int] = []
        for number, game in pool.results(work.state[GAMES], interruption.check):
            tell_faults(number, game, report)
            if game.value is None:
                dropped.append(number)
                give_up_after(dropped, game)
                continue
            record(work, number, game.value, dropped, settings)
            dropped = []
            report.progress(work.state[POSITIONS], f"{work.state[GAMES]:,} games")
            if work.state[POSITIONS] >= settings.positions:
                break
    work.sync()


def record(work: WorkFile, number: int, game: list[Entry], dropped: list[int], settings: GenerateSettings) -> None:
    """A game and the numbers of those dropped before it; of the last one as much as is needed."""
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


def tell_faults(number: int, game: Game, report: Report) -> None:
    for fault in game.faults:
        report.tell(f"game {number}: {fault}; the engine is started again")
    if game.value is None:
        report.tell(f"game {number} is dropped")


def give_up_after(dropped: list[int], last: Game) -> None:
    """Failing games in a row are not recorded: when the command goes on, perhaps with the cause mended, they count."""
    if len(dropped) == FAILURES:
        raise EngineError(f"{FAILURES} games in a row have failed, at last with: {last.faults[-1]}")


def deliver(settings: GenerateSettings, work: WorkFile, interruption: Interruption) -> None:
    """To a new file, or to the end of the one that is there."""

    def blocks() -> Iterator[bytes]:
        for block in rechunk(work.part, settings.format):
            interruption.check()
            yield block

    if settings.append and os.path.lexists(work.path):
        refuse_output(settings, work)
        deliver_appended(work, blocks)
    else:
        deliver_new(work, blocks)
