"""The work of `loader match`, in which two engines play pairs of games, both sides of each opening. The result depends
only on engines, settings and seed, not on the number of threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from loader.chess.engines.book import read_book
from loader.chess.engines.engine import Engine, EngineSettings
from loader.chess.engines.engine_pool import EnginePool, RestartedEngines, TaskResult, check_engine
from loader.chess.engines.game import GameSettings, find_balanced_opening, play_to_end
from loader.chess.engines.opening import Openings
from loader.chess.engines.sprt import Sprt
from loader.errors import EngineError, UsageError
from loader.files.interruption import record_stop_signals

_CONFIDENCE_DEVIATIONS = NormalDist().inv_cdf(0.975)  # half the width of the 95 % interval, in standard deviations


@dataclass(frozen=True)
class MatchSettings:
    """Settings of a match between two engines."""

    engines: tuple[EngineSettings, EngineSettings]
    pairs: int
    game: GameSettings
    seed: int = 0
    random_plies: int = 8
    book: Path | None = None
    threads: int = 1
    sprt: Sprt | None = None  # sequential test that may end the match early


@dataclass(frozen=True)
class MatchScore:
    """The results of a match so far, from the first engine's point of view."""

    wins: int = 0
    draws: int = 0
    losses: int = 0
    pairs: tuple[int, ...] = (0, 0, 0, 0, 0)  # number of pairs with 0, 1/2, 1, 3/2 and 2 points

    def add_pair(self, results: Sequence[int]) -> MatchScore:
        """Returns the score after one more pair of games, given their results: 1, 0 or -1 each."""
        pairs = list(self.pairs)
        pairs[sum(results) + 2] += 1
        return MatchScore(
            self.wins + results.count(1), self.draws + results.count(0), self.losses + results.count(-1), tuple(pairs)
        )

    @property
    def games(self) -> int:
        """Returns the number of games played."""
        return 2 * sum(self.pairs)

    @property
    def score(self) -> float:
        """Returns the mean number of points a game, 0 to 1."""
        return sum(points * count for points, count in enumerate(self.pairs)) / (2 * self.games)

    @property
    def error(self) -> float:
        """Returns the standard deviation of the score, computed from pairs, because the two games of an opening depend
        on each other. It is 0 if all pairs ended alike, and then says nothing."""
        num_pairs = sum(self.pairs)
        squares = sum(count * (points / 4 - self.score) ** 2 for points, count in enumerate(self.pairs))
        return math.sqrt(squares) / num_pairs

    @property
    def elo(self) -> float:
        """Returns the Elo difference, positive if the first engine is stronger."""
        return self._elo_of(self.score)

    @property
    def elo_error(self) -> float:
        """Returns half the width of the 95 % interval of the Elo difference."""
        half_width = _CONFIDENCE_DEVIATIONS * self.error
        return (self._elo_of(self.score + half_width) - self._elo_of(self.score - half_width)) / 2

    @property
    def superiority(self) -> float:
        """Returns the likelihood that the first engine is the stronger one (LOS), 0 to 1. Defined only where `error` is
        not 0."""
        distance = self.score - 0.5
        return NormalDist().cdf(distance / self.error)

    def _elo_of(self, score: float) -> float:
        """Returns the Elo difference for which this score is expected. A score of 0 or 1 is moved by a quarter of a
        point, so that the difference stays finite."""
        min_score = 0.25 / self.games
        limited = min(max(score, min_score), 1 - min_score)
        return 400 * math.log10(limited / (1 - limited))


def match(settings: MatchSettings, notify: Callable[[str], object]) -> Iterator[MatchScore]:
    """Plays a match, and yields the score after each pair of games, in the order of the openings. So a sequential
    test ends the match after the same pair, whichever games finish first.

    Reports an engine that was started again to `notify`. Raises EngineError if an engine can't be used, or fails twice
    in the same pair. Raises UsageError for an option that an engine does not have, and for a book with fewer openings
    than pairs if no random plies make games differ. Raises InterruptedBySignalError, and DataError for a faulty book.
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

    def play_pair(first: Engine, second: Engine, number: int) -> list[int]:
        opening = find_balanced_opening(first, settings.game, openings.openings_of_game(number))
        _, result_as_white = play_to_end(first, second, settings.game, opening.copy())
        _, white_result = play_to_end(second, first, settings.game, opening.copy())
        return [result_as_white, -white_result]

    def run_task(engines: RestartedEngines, number: int) -> TaskResult[list[int]]:
        return engines.run(lambda first, second: play_pair(first, second, number))

    with record_stop_signals() as interruption:
        for engine in settings.engines:
            check_engine(engine, settings.game.limits, interruption, notify)
        score = MatchScore()
        with EnginePool(settings.engines, settings.threads, "--threads", run_task) as pool:
            interruption.wake = pool.wake
            for number, pair in pool.results(0, interruption.check):
                for fault in pair.faults:
                    notify(f"games {2 * number + 1} and {2 * number + 2}: {fault}; the engines are started again")
                if pair.value is None:
                    raise EngineError(f"these games failed twice, at last with: {pair.faults[-1]}")
                score = score.add_pair(pair.value)
                yield score
                is_decided = settings.sprt is not None and settings.sprt.accepted_hypothesis(score.pairs) is not None
                if is_decided or number + 1 == settings.pairs:
                    return
