"""Statistics of a file of positions, computed from counts, and their form as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from loader._native import Census
from loader.chess.filters import CHESS960, MOVE, PLY, SIDE
from loader.chess.positions.entry import NO_SCORE, View
from loader.chess.positions.pgn_comments import PgnComments
from loader.chess.statistics.calibration import Calibration
from loader.chess.statistics.distribution import Counts, Distribution, trimmed
from loader.chess.statistics.filter_counts import FilterCount
from loader.chess.statistics.kings import bucket_counts
from loader.chess.views import (
    ZERO,
    count_missing_scores,
    describe_comments_view,
    describe_missing_scores,
    describe_view,
    evidence_of,
)
from loader.stream.data_facts import DataFact
from loader.stream.skipped_data import SkippedData


@dataclass(frozen=True)
class FileFacts:
    """Facts about a file that do not come from counting: its format, size and units."""

    file: str
    format: str
    lacks: Sequence[str]  # parts of an entry, of loader.chess.filters.PARTS
    bytes: int
    chunks: int
    unit: str | None  # "game" or "chain"; None if positions are stored one by one
    score_unit: str  # the unit that is usual in the format
    score_view: View | None  # whose advantage a positive score is; None: each comment states its own view
    result_view: View | None
    comments: PgnComments | None = None  # how comments were read; None: the format is not PGN


@dataclass(frozen=True)
class FileStatistics:
    """The statistics of a file. `counts` must be a finished census. Scores, results and king squares are from the side
    to move's view."""

    facts: FileFacts
    counts: Census
    king_buckets: Sequence[int]  # a layout, as `data.chess.king_buckets`; empty: not requested
    filter_counts: Sequence[FilterCount]
    unscored: Mapping[str, int] = field(default_factory=dict)  # missing scores by the reason, if the format has one
    left_out: Sequence[SkippedData] = ()  # what can't be used; not in the counts

    @property
    def _comments_view(self) -> View | None:
        return None if self.facts.comments is None else cast("View | None", self.facts.comments.view)

    @property
    def entries(self) -> int:
        """Returns the number of positions."""
        return self.counts.entries

    @property
    def bytes_per_entry(self) -> float:
        return self.facts.bytes / max(self.entries, 1)

    @property
    def units(self) -> int:
        """Returns the number of games or chains."""
        return int(self.counts.lengths.sum())

    def has(self, part: str) -> bool:
        """Tells whether entries of this format have a part (move, ply, ...). The ply must also be known for at least
        one entry."""
        if part in self.facts.lacks:
            return False
        if part == PLY and self.entries:
            return bool(self.counts.plies.any())
        return True

    def missing_parts(self) -> list[str]:
        """Returns the parts (move, ply, ...) that entries of this format do not have, except Chess960."""
        return [part for part in self.facts.lacks if part != CHESS960]

    def score_counts(self) -> Counts:
        """Returns the number of entries with each score, by score + 32768, without entries that have none."""
        return cast(Counts, _count_scored(self.counts).sum(axis=0))

    def score(self) -> Distribution | None:
        """Returns the distribution of scores; None if no entry has one."""
        counts = self.score_counts()
        return Distribution.from_counts(counts, ZERO) if counts.any() else None

    def no_score(self) -> int:
        """Returns the number of entries without a score."""
        return count_missing_scores(self.counts)

    def no_ply(self) -> int:
        """Returns the number of entries whose ply is not known, or 0 for a format without plies."""
        return 0 if PLY in self.facts.lacks else self.entries - int(self.counts.plies.sum())

    def results(self) -> dict[str, int]:
        """Returns the number of entries with each result: "loss", "draw", "win", and "none" if some have no result."""
        counts = dict(zip(("loss", "draw", "win", "none"), map(int, self.counts.scores.sum(axis=1)), strict=True))
        return {name: count for name, count in counts.items() if name != "none" or count}

    def moves(self) -> dict[str, int]:
        """Returns the number of entries with each kind of move, and without one."""
        names = ("normal", "promotion", "castling", "en_passant")
        return {**dict(zip(names, map(int, self.counts.move_types), strict=True)), "none": self.counts.no_move}

    def calibration(self) -> Calibration:
        """Returns the results by score. They are compared with the win-rate model if plies are known."""
        return Calibration(_count_scored(self.counts)[:3], self.counts.score_plies if self.has(PLY) else None)

    def buckets(self) -> list[int]:
        """Returns how often each king bucket is used, empty without a layout."""
        if not self.king_buckets:
            return []
        return bucket_counts(self.counts.own_kings, self.counts.opponent_kings, self.king_buckets)

    def repeated(self) -> float:
        """Returns the share of positions that repeat another one, 0 to 1. It is exact if `counts.one_in` is 1, else
        estimated from a sample."""
        if not self.counts.sampled:
            return 0.0
        return 1.0 - self.counts.different / self.counts.sampled

    def data_facts(self) -> list[DataFact]:
        """Returns lines that describe how the file is read: unit and view of scores, missing scores, what was left
        out."""
        facts = self.facts
        left_out = [
            DataFact("left out", each.describe("positions").removeprefix("left out: ")) for each in self.left_out
        ]
        if not self.entries:
            return left_out
        views = [
            describe_view(label, view, self.counts, facts.format, comments_view=self._comments_view)
            for label, view in (("score", facts.score_view), ("result", facts.result_view))
        ]
        return [
            DataFact("score unit", f"usually {facts.score_unit} ({facts.format})"),
            *([] if facts.comments is None else [describe_comments_view(facts.comments.view)]),
            *(view for view in views if view is not None),
            *describe_missing_scores(self.counts, "{positions}"),
            *left_out,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns all statistics for JSON, without those for which the format stores nothing."""
        facts = asdict(self.facts)
        unit = facts.pop("unit")
        for key in ("score_view", "result_view", "comments"):  # `_scores` adds them, with the evidence for them
            del facts[key]
        summary = {**facts, "lacks": list(self.facts.lacks), "entries": self.entries}
        summary["bytes_per_entry"] = round(self.bytes_per_entry, 4)
        if unit:
            summary |= {
                "unit": unit,
                "units": self.units,
                "length": asdict(Distribution.from_counts(self.counts.lengths)),
            }
        return summary | self._positions() | self._scores() | self._estimates()

    def _positions(self) -> dict[str, Any]:
        """Returns the JSON keys about positions: plies, pieces, material, kings, moves."""
        counts = self.counts
        summary: dict[str, Any] = {}
        if self.has(PLY):
            summary |= {"ply": asdict(Distribution.from_counts(counts.plies)), "plies": trimmed(counts.plies)}
        if self.no_ply():
            summary["no_ply"] = self.no_ply()
        for name, names, histogram in (
            ("piece_count", "piece_counts", counts.piece_counts),
            ("phase", "phases", counts.phases),
            ("material", "materials", counts.materials),
        ):
            summary |= {name: asdict(Distribution.from_counts(histogram)), names: [int(count) for count in histogram]}
        summary["materials"] = trimmed(counts.materials)
        summary |= {"own_king": counts.own_kings.tolist(), "opponent_king": counts.opponent_kings.tolist()}
        if self.king_buckets:
            summary["king_buckets"] = self.buckets()
        if self.has(MOVE):
            summary |= {"moves": self.moves(), "captures": counts.captures}
        if self.has(SIDE):
            summary["white_to_move"] = counts.white_to_move
        return {**summary, "in_check": counts.in_check}

    def _scores(self) -> dict[str, Any]:
        """Returns the JSON keys about scores and results."""
        score, calibration = self.score(), self.calibration()
        intervals = [
            {**asdict(each), "result": each.result} for each in calibration.intervals() if each.entries or each.model
        ]
        return {
            "score": None if score is None else asdict(score),
            "no_score": self.no_score(),
            "no_score_reasons": dict(self.unscored),
            "results": self.results(),
            "score_view": evidence_of("score", self.facts.score_view, self.counts, self._comments_view).to_dict(),
            "result_view": evidence_of("result", self.facts.result_view, self.counts).to_dict(),
            "read": [asdict(fact) for fact in self.data_facts()],
            "calibration": intervals,
            "scale": calibration.scale(),
        }

    def _estimates(self) -> dict[str, Any]:
        """Returns the JSON keys about repeated positions, and about filters if some are set."""
        counts = self.counts
        summary: dict[str, Any] = {
            "duplicates": {
                "share": round(self.repeated(), 6),
                "sampled": counts.sampled,
                "different": counts.different,
                "one_in": counts.one_in,
            }
        }
        if self.filter_counts:
            summary["filters"] = [asdict(count) for count in self.filter_counts]
        return summary


def _count_scored(counts: Census) -> Counts:
    """Returns counts of entries that have a score, [4, 65536] as `Census.scores`."""
    scores: Counts = counts.scores.copy()
    scores[:, NO_SCORE + ZERO] = 0
    return scores
