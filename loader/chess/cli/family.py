"""The part of the program `loader` that works on files of positions. Implements `loader.formats.file_tools.Family`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loader.chess.cli import (
    bench,
    convert,
    filter,
    filter_options,
    generate,
    inspect_options,
    match,
    pgn_options,
    rescore,
    shuffle,
)
from loader.chess.cli.filter_options import FilterOptions
from loader.chess.cli.inspect_options import check_pictures, parse_king_buckets
from loader.chess.cli.pgn_options import Unit, View, comments_of
from loader.chess.cli.tool_options import BadData, parse_bad_data_policy, show_progress
from loader.errors import UsageError
from loader.files.pipes import Input
from loader.formats.file_tools import Options, Statistics, VerifyResult

if TYPE_CHECKING:
    from loader.chess.statistics.statistics import FileStatistics

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

COMMANDS = (convert, filter, shuffle, generate, match, rescore, bench)
READS_PIPES = True
OPTIONS: Mapping[str, Mapping[str, Options]] = {
    "verify": {"input_format": pgn_options.OPTIONS},
    "dump": {"input_format": pgn_options.OPTIONS},
    "inspect": {
        "files": filter_options.OPTIONS,
        "as_json": inspect_options.STATISTICS_OPTIONS,
        "input_format": {**pgn_options.OPTIONS, **inspect_options.READING_OPTIONS},
    },
}


class PositionTools:
    """The commands verify, dump and inspect for files of positions. Implements
    `loader.formats.file_tools.FileTools`."""

    def __init__(
        self,
        num_files: int,
        *,
        pgn_view: View | None = None,
        pgn_unit: Unit | None = None,
        on_bad_data: BadData = BadData.STOP,
        pictures: Path | None = None,
        king_buckets: str = "",
        seed: int = 0,
        **filters: Any,
    ) -> None:
        """Checks the options of a command for `num_files` files. `filters` are the values of `filter_options.OPTIONS`.
        Raises UsageError."""
        self._comments = comments_of(pgn_view, pgn_unit)
        self._skips_bad_data = on_bad_data is BadData.SKIP
        self._king_buckets = parse_king_buckets(king_buckets)
        options = FilterOptions(**filters)
        self._filters = options.config() if options.has_changes else None
        self._pictures = check_pictures(pictures, num_files)
        self._seed = seed

    def refuse_options(self, path: Path) -> None:
        """Refuses options that apply only to positions, for a file that has none. Raises UsageError."""
        from loader.chess.positions.format import refuse_unused_comments

        refuse_unused_comments(self._comments, ())
        options = {
            "filters": self._filters,
            "--king-buckets": self._king_buckets,
            "--pictures": self._pictures,
            "--on-bad-data skip": self._skips_bad_data,
        }
        for option, value in options.items():
            if value:
                raise UsageError(f"{option}: only of positions; {path} has none")

    def verify(self, file: Input, format: str | None, threads: int) -> VerifyResult:
        from loader.chess.positions.file import COUNT_ILLEGAL
        from loader.chess.positions.inputs import open_input
        from loader.chess.positions.verify import verify

        source = open_input(file, format, comments=self._comments, policy=COUNT_ILLEGAL, indexed=False)
        with show_progress(file.path.name, [source]) as on_progress:
            return verify(source, threads, on_progress)

    def dump(self, file: Input, format: str | None, limit: int | None) -> Iterator[bytes]:
        from loader.chess.positions.inputs import open_input
        from loader.chess.positions.verify import dump

        return dump(open_input(file, format, comments=self._comments, indexed=False), limit)

    def inspect(self, file: Input, format: str | None, threads: int) -> Statistics:
        from loader.chess.positions.file import KEEP_ILLEGAL
        from loader.chess.statistics.inspection import inspect_source, open_for_inspection

        policy = parse_bad_data_policy(BadData.SKIP) if self._skips_bad_data else KEEP_ILLEGAL
        source = open_for_inspection(file, self._filters, format, self._comments, policy)
        with show_progress(file.path.name, [source]) as on_progress:
            statistics = inspect_source(source, self._filters, self._seed, self._king_buckets, threads, on_progress)
        return PositionReport(statistics, self._pictures)


make_tools = PositionTools


@dataclass(frozen=True)
class PositionReport(Statistics):
    """The statistics of a file of positions, as rows and charts of text, as JSON and as pictures."""

    statistics: FileStatistics
    pictures: Path | None  # the folder, if pictures are asked for

    def to_dict(self) -> dict[str, Any]:
        return self.statistics.to_dict()

    def rows(self) -> list[tuple[str, str]]:
        from loader.chess.statistics.text import format_rows

        return format_rows(self.statistics)

    def charts(self, solid: str) -> Iterable[str]:
        from loader.chess.statistics.text import format_sections

        return format_sections(self.statistics, solid)

    def draw(self) -> Sequence[Path]:
        if self.pictures is None:
            return ()
        from loader.chess.statistics.pictures import draw_pictures

        return draw_pictures(self.statistics, self.pictures)
