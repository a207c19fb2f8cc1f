"""Statistics of a file as text: a table of numbers, then charts of letters.

Statistics for which the format stores nothing are omitted. The first row names what the format lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from loader.chess.filters import MOVE, PLY, SIDE
from loader.chess.statistics.calibration import Interval
from loader.chess.statistics.distribution import Counts, Distribution
from loader.chess.statistics.statistics import FileStatistics
from loader.stream.data_facts import format_facts

# Limits of the intervals of scores for which results are shown; multiples of 25.
_SCORES = (-1000, -500, -300, -200, -100, -50, 0, 50, 100, 200, 300, 500, 1000)
_BAR = 30  # length of the longest bar, in letters
_PHASES = ((24, 24), (20, 23), (16, 19), (12, 15), (8, 11), (4, 7), (0, 3))
_PIECES = ((32, 32), (28, 31), (24, 27), (20, 23), (16, 19), (12, 15), (8, 11), (0, 7))
_FILES = "abcdefgh"


def format_rows(statistics: FileStatistics) -> list[tuple[str, str]]:
    """Returns the names and values of the table."""
    facts, counts = statistics.facts, statistics.counts
    without = statistics.missing_parts()
    lines = [
        ("format", f"{facts.format}; it has no {', '.join(without)}" if without else facts.format),
        ("bytes", f"{facts.bytes:,} in {_format_count(facts.chunks, 'chunk')}"),
    ]
    if not statistics.entries:
        return [*lines, ("positions", "0")]
    lines.append(("positions", f"{statistics.entries:,} of {statistics.bytes_per_entry:.3f} bytes"))
    if facts.unit:
        lines.append(
            (f"{facts.unit}s", f"{statistics.units:,}; positions each: {_format_distribution(counts.lengths)}")
        )
    score = statistics.score()
    lines.append(("score", "no position has one" if score is None else str(score)))
    if statistics.no_score():
        lines.append(("without score", _format_share(statistics.no_score(), statistics.entries)))
        reasons = Counter(statistics.unscored).most_common()
        lines += [("", f"{reason}: {_format_share(count, statistics.entries)}") for reason, count in reasons]
    lines.append(("result", _format_shares(statistics.results(), statistics.entries)))
    if statistics.has(PLY):
        lines.append(("ply", _format_distribution(counts.plies)))
    if statistics.no_ply():
        lines.append(("without ply", _format_share(statistics.no_ply(), statistics.entries)))
    lines += [
        ("pieces", _format_distribution(counts.piece_counts)),
        ("material", _format_distribution(counts.materials)),
    ]
    if statistics.has(MOVE):
        moves = {name: count for name, count in statistics.moves().items() if name != "none" or count}
        lines += [("moves", _format_shares(moves, statistics.entries))]
        lines += [("captures", _format_share(counts.captures, statistics.entries))]
    lines.append(("in check", _format_share(counts.in_check, statistics.entries)))
    if statistics.has(SIDE):
        lines.append(("white to move", _format_share(counts.white_to_move, statistics.entries)))
    return [*lines, ("repeated", _format_repeated(statistics))]


def format_sections(statistics: FileStatistics, solid: str = "#") -> Iterator[str]:
    """Yields the lines below the table: how the file is read, then charts of results, pieces, phase, kings and filters.
    `solid` is the letter of which bars are made."""
    facts = statistics.data_facts()
    if facts:
        yield ""
    yield from (f"  {line}" for line in format_facts(facts))
    if not statistics.entries:
        return
    yield from _format_results(statistics, solid)
    yield from _format_groups("pieces", statistics.counts.piece_counts, _PIECES, solid)
    yield from _format_groups("phase (24: all pieces; 0: none)", statistics.counts.phases, _PHASES, solid)
    yield from _format_kings(statistics)
    yield from _format_buckets(statistics, solid)
    yield from _format_filters(statistics, solid)


def _format_results(statistics: FileStatistics, solid: str) -> Iterator[str]:
    """Yields a table of mean results by score, with bars and the win-rate model."""
    calibration = statistics.calibration()
    borders = [None, *_SCORES, None]
    intervals = [calibration.interval(low, high) for low, high in pairwise(borders)]
    if not any(each.entries for each in intervals):
        return
    with_model = statistics.has(PLY)
    yield ""
    yield "  score against result: as the side to move sees both; a draw counts 0.5" + (
        "; |: what the win-rate model says" if with_model else ""
    )
    yield f"  {'score':>14}  {'positions':>15}  {'result':>6}" + (f"  {'model':>6}" if with_model else "")
    for each in intervals:
        if each.result is None:
            continue
        if not with_model:
            model = ""
        elif each.model is None:
            model = "       -"
        else:
            model = f"  {each.model:6.3f}"
        bar = _format_bar(each.result, each.model, solid)
        yield f"  {_format_interval(each):>14}  {each.entries:>15,}  {each.result:6.3f}{model}  {bar}".rstrip()
    scale = calibration.scale()
    yield f"  nearest curve 1 / (1 + e^(-score / K)): {f'K = {scale:,.1f}' if scale else 'there is none'}"
    if not with_model:
        yield f"  the win-rate model needs the ply, which {statistics.facts.format} does not have"


def _format_groups(title: str, counts: Counts, groups: Sequence[tuple[int, int]], solid: str) -> Iterator[str]:
    """Yields a chart of counts, summed over groups (first and last number) such as 28 to 31 pieces."""
    numbers = [int(counts[low : high + 1].sum()) for low, high in groups]
    yield ""
    yield f"  {title}"
    for (low, high), number in zip(groups, numbers, strict=True):
        yield _format_bar_line(
            str(low) if low == high else f"{low} to {high}", number, int(counts.sum()), max(numbers), solid
        )


def _format_kings(statistics: FileStatistics) -> Iterator[str]:
    """Yields two chessboards with the shares of king squares in percent."""
    own = statistics.counts.own_kings
    opponent = statistics.counts.opponent_kings[np.arange(64) ^ 56]
    yield ""
    yield "  kings, % of positions, each as its own side sees the board"
    yield f"     {'side to move':<42}{'other side'}"
    for rank in range(7, -1, -1):
        squares = slice(8 * rank, 8 * rank + 8)
        own_rank = _format_rank(own[squares], statistics.entries)
        opponent_rank = _format_rank(opponent[squares], statistics.entries)
        yield f"  {rank + 1}  {own_rank}  {opponent_rank}".rstrip()
    letters = "".join(f"{letter:>5}" for letter in _FILES)
    yield f"     {letters}  {letters}"


def _format_rank(counts: Counts, entries: int) -> str:
    return "".join(f"{100 * int(count) / entries:5.1f}" if count else "    ." for count in counts)


def _format_buckets(statistics: FileStatistics, solid: str) -> Iterator[str]:
    counts = statistics.buckets()
    if not counts:
        return
    yield ""
    yield "  king buckets, of both sides"
    for bucket, count in enumerate(counts):
        yield _format_bar_line(str(bucket), count, sum(counts), max(counts), solid)


def _format_filters(statistics: FileStatistics, solid: str) -> Iterator[str]:
    """Yields a chart of the number of positions that each filter would leave."""
    if not statistics.filter_counts:
        return
    names = [f"{each.name} {each.setting}".rstrip() for each in statistics.filter_counts]
    width = max(map(len, names))
    yield ""
    yield "  what each filter would leave"
    for name, each in zip(names, statistics.filter_counts, strict=True):
        yield _format_bar_line(f"{name:<{width}}", each.entries, statistics.entries, statistics.entries, solid)


def _format_bar_line(name: str, count: int, entries: int, max_count: int, solid: str) -> str:
    bar = solid * round(_BAR * count / max(max_count, 1))
    return f"  {name:>14}  {count:>15,}  {count / max(entries, 1):6.1%}  {bar}".rstrip()


def _format_bar(result: float, model: float | None, solid: str) -> str:
    """Returns a bar as long as the result, with a mark | at the model's prediction."""
    bar = list((solid * round(_BAR * result)).ljust(_BAR + 1))
    if model is not None:
        bar[round(_BAR * model)] = "|"
    return "".join(bar)


def _format_interval(interval: Interval) -> str:
    if interval.low is None:
        return f"below {interval.high:,}"
    return f"{interval.low:,} and up" if interval.high is None else f"{interval.low:,} to {interval.high:,}"


def _format_repeated(statistics: FileStatistics) -> str:
    counts = statistics.counts
    share = f"{statistics.repeated():.2%} of the positions repeat another"
    if counts.one_in == 1:
        return share
    return f"about {share}; estimated from {counts.sampled:,} of them, one in {counts.one_in:,} different ones"


def _format_distribution(counts: Counts) -> str:
    return str(Distribution.from_counts(counts))


def _format_share(count: int, entries: int) -> str:
    return f"{count:,} ({count / max(entries, 1):.1%})"


def _format_shares(counts: dict[str, int], entries: int) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_format_share(count, entries)}" for name, count in counts.items())


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
