"""A match of two engines: pairs of games from the same opening, each side once. A function of engines, settings and
seed, whatever number of threads plays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from loader.chess.engines.book import read_book
from loader.chess.engines.engine import Engine, EngineSettings
from loader.chess.engines.engine_pool import EnginePool, try_engine
from loader.chess.engines.game import GameSettings, fair_opening, play_on
from loader.chess.engines.opening import Openings
from loader.chess.engines.sprt import Sprt
from loader.errors import EngineError, UsageError
from loader.files.interruption import interruptible

_SURE = NormalDist().inv_cdf(0.975)  # deviations to either side that hold 95 %


@dataclass(frozen=True)
class MatchSettings:
    """How a match is played."""

    engines: tuple[EngineSettings, EngineSettings]
    pairs: int
    game: GameSettings
    seed: int = 0
    random_plies: int = 8
    book: Path | None = None
    threads: int = 1
    sprt: Sprt | None = None  # ends the match before all pairs are played


@dataclass(frozen=True)
class Standing:
    """The results of the first engine so far."""

    wins: int = 0
    draws: int = 0
    losses: int = 0
    pairs: tuple[int, ...] = (0, 0, 0, 0, 0)  # with 0, 1/2, 1, 3/2 and 2 points

    def after(self, results: Sequence[int]) -> Standing:
        """Returns it with one pair of games more: 1, 0 or -1 each."""
        pairs = list(self.pairs)
        pairs[sum(results) + 2] += 1
        counts = (results.count(result) for result in (1, 0, -1))
        wins, draws, losses = (a + b for a, b in zip((self.wins, self.draws, self.losses), counts, strict=True))
        return Standing(wins, draws, losses, tuple(pairs))

    @property
    def games(self) -> int:
        return 2 * sum(self.pairs)

    @property
    def score(self) -> float:
        """Points a game."""
        return sum(points * count for points, count in enumerate(self.pairs)) / (2 * self.games)

    @property
    def error(self) -> float:
        """The standard deviation of the score, by the pairs: games of one opening depend on each other. 0 if all pairs
        ended alike, which says nothing."""
        number = sum(self.pairs)
        squares = sum(count * (points / 4 - self.score) ** 2 for points, count in enumerate(self.pairs))
        return math.sqrt(squares) / number

    @property
    def elo(self) -> float:
        """How much stronger the first engine is."""
        return self._elo_of(self.score)

    @property
    def elo_error(self) -> float:
        """Half the width of the interval that holds 95 %."""
        reach = _SURE * self.error
        return (self._elo_of(self.score + reach) - self._elo_of(self.score - reach)) / 2

    @property
    def superiority(self) -> float:
        """The likelihood that the first engine is the stronger one (LOS), where there is an error."""
        distance = self.score - 0.5
        return NormalDist().cdf(distance / self.error)

    def _elo_of(self, score: float) -> float:
        """The difference that this score is expected for: as if a quarter of a point more, or less, was won where it is
        all or nothing."""
        least = 0.25 / self.games
        kept = min(max(score, least), 1 - least)
        return 400 * math.log10(kept / (1 - kept))


def match(settings: MatchSettings, tell: Callable[[str], object]) -> Iterator[Standing]:
    """Plays, and yields the standing after each pair of games, in the order of their openings: so a test ends the
    match behind the same pair, whichever games are done first.

    Raises EngineError if an engine can't be used, or fails twice in the same pair; InterruptedBySignalError; DataError
    for a book; UsageError for an option that an engine does not have, and for a book with fewer openings than pairs.
    `tell`: of an engine that was started again.
    """
    book = None if settings.book is None else read_book(settings.book)
    if book is not None:
        book.check(settings.game.max_ply)
        if not settings.random_plies and settings.pairs > len(book.positions):
            raise UsageError(
                f"{book.path}: {len(book.positions)} openings for {settings.pairs} pairs of games, and a game that is "
                "played again says nothing new: fewer --games, or --random-plies"
            )
    openings = Openings(f"{settings.seed}", settings.random_plies, book)

    def pair(number: int) -> Callable[[Engine, Engine], list[int]]:
        def play(first: Engine, second: Engine) -> list[int]:
            opening = fair_opening(first, settings.game, openings.of_game(number))
            _, as_white = play_on(first, second, settings.game, opening.copy())
            _, as_black = play_on(second, first, settings.game, opening.copy())
            return [as_white, -as_black]

        return play

    with interruptible() as interruption:
        for engine in settings.engines:
            try_engine(engine, settings.game.limits, interruption, tell)
        standing = Standing()
        with EnginePool(
            settings.engines, settings.threads, "--threads", lambda engines, n: engines.attempt(pair(n))
        ) as pool:
            interruption.wake = pool.wake
            for number, played in pool.results(0, interruption.check):
                for fault in played.faults:
                    tell(f"games {2 * number + 1} and {2 * number + 2}: {fault}; the engines are started again")
                if played.value is None:
                    raise EngineError(f"these games failed twice, at last with: {played.faults[-1]}")
                standing = standing.after(played.value)
                yield standing
                if number + 1 == settings.pairs or (settings.sprt and settings.sprt.accepted(standing.pairs)):
                    return
