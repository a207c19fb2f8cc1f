"""The data of a stream as one value: settings, files and seed, and the questions that the source of the samples answers
about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loader.files.identity import DataFile, identify
from loader.plugins.interface import find_interface_problem
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.interface import Cursor, Stream
from loader.stream.schema import BatchSchema
from loader.stream.source import Source, no_split_error
from loader.stream.sources import create_source

if TYPE_CHECKING:
    from loader.stream.mixture_rates import Portion

_MAX_SEED = (1 << 64) - 1


@dataclass(frozen=True)
class Data:
    """The samples of one stream. Batch k is a function of settings, files (their order counts) and seed (I1)."""

    config: DataConfig
    files: tuple[DataFile, ...] = ()
    seed: int = 0
    validation: bool = False  # validation samples: those of data.validation_share, or else of all files

    def __post_init__(self) -> None:
        """Raises ValueError unless the seed is an integer from 0 to 2^64 - 1."""
        if not isinstance(self.seed, int) or not 0 <= self.seed <= _MAX_SEED:
            raise ValueError(f"seed: must be an integer from 0 to {_MAX_SEED}, not {self.seed!r:.40}")

    @classmethod
    def from_paths(
        cls, config: DataConfig, paths: Sequence[Path | DataFile], seed: int = 0, *, validation: bool = False
    ) -> Self:
        """Makes the data of these files, and identifies (inode, size, time of change) those that are given as paths.
        Raises DataError for a file that can't be found."""
        files = tuple(path if isinstance(path, DataFile) else identify([path])[0] for path in paths)
        return cls(config, files, seed, validation)

    def with_settings(self, **keys: Any) -> Self:
        """Returns the same data with other values of these keys of the settings. The values are not checked."""
        return replace(self, config=self.config.model_copy(update=keys))

    @cached_property
    def source(self) -> Source:
        """Returns the source of the samples. Raises ValueError if no source has the name data.source."""
        return create_source(self.config.source)

    def schema(self) -> BatchSchema:
        """Returns the layout of a batch. Raises ValueError for settings that the source can't serve."""
        return self.source.schema(self.config)

    def open(self) -> Stream:
        """Opens the stream at its beginning.

        Raises DataError for a file that can't be used, of which DataChangedError if it has changed since it was
        identified. Raises ValueError for settings that the source can't serve.
        """
        config, source = self.config, self.source
        self._check_abilities()
        if self.validation and config.validation_share:
            method = "open_validation_share"
            stream = source.open_validation_share(config, self.files, self.seed)
        elif self.validation and not self.files:
            method = "open_validation"
            stream = source.open_validation(config, self.seed)
        else:
            method = "open"
            stream = source.open(config, self.files, self.seed)
        problem = find_interface_problem(stream, Stream, "a stream")
        if problem:
            if hasattr(stream, "close"):
                stream.close()
            raise ValueError(f"data.source: {config.source}: {method}: {problem}")
        return stream

    def origin(self, cursor: Cursor) -> dict[str, Any]:
        """Describes where the batch that begins at `cursor` comes from, as plain data for people. Raises DataError."""
        return self.source.origin(self.config, self.files, self.seed, cursor)

    def samples_per_epoch(self) -> int | None:
        """Estimates the number of samples in one pass over the files, by reading a few parts of them. Returns None if
        the source can't estimate it. Raises DataError."""
        if self._has_shares:
            samples: int | None = sum(portion.samples for portion in self.portions())
        else:
            samples = self.source.samples_per_epoch(self.config, self.files, self.seed)
        share = self.config.validation_share
        if samples is None or not share:
            return samples
        return round(samples * (share if self.validation else 1 - share))

    def count_samples(self, look: Callable[[], object] = lambda: None) -> int:
        """Counts the samples of the first pass over the files, which may take as long as reading them. Calls `look` now
        and then; an exception of `look` ends the count. Raises DataError, and ValueError if the samples can't be
        counted."""
        count = self.source.count_samples(self.config, self.files, self.seed, validation=self.validation, look=look)
        if type(count) is not int or count < 1:
            raise ValueError(f"there are {count} samples")
        return count

    def portions(self) -> Sequence[Portion]:
        """Estimates what an epoch has of each entry of data.train. Returns an empty sequence if the entries have no
        shares. Raises DataError, ValueError."""
        return self.source.portions(self.config, self.files, self.seed) if self._has_shares else ()

    def window_nbytes(self) -> int:
        """Estimates the bytes of memory that the stream allocates for itself."""
        return self.source.window_nbytes(self.config, self.files)

    def describe(self) -> Sequence[DataFact]:
        """Describes for people how the files are read: units and views of scores, samples left out, ids. Raises
        DataError, ValueError."""
        return self.source.describe_data(self.config, self.files)

    def score_unit(self, file: DataFile) -> str | None:
        """Returns the unit of the scores in a file: empty if it is not known, None if the samples have no scores.
        Raises DataError, ValueError."""
        return self.source.score_unit(self.config, file)

    def format_name(self, file: DataFile) -> str:
        """Returns the name of the file's format, empty if it has none. Raises DataError, ValueError."""
        return self.source.format_name(self.config, file)

    def trim_files(self) -> Self:
        """Returns the same data without half-written records at the files' ends, if files may grow. Raises
        DataError."""
        if not self.config.may_grow:
            return self
        trimmed = tuple(file.up_to(self.source.whole_size(self.config, file)) for file in self.files)
        return replace(self, files=trimmed)

    @property
    def _has_shares(self) -> bool:
        """Returns whether the files are mixed in the ratio of shares (all of them, or none)."""
        return bool(self.files) and self.files[0].component is not None

    def _check_abilities(self) -> None:
        """Raises ValueError if the settings need what the source can't do: split its files, mix them, or scale
        scores."""
        config, source = self.config, self.source
        if config.validation_share and not source.can_split:
            raise no_split_error(config)
        if self._has_shares and not source.can_mix:
            raise ValueError(
                f"data.train: its entries have shares, but the source {config.source} can't mix files (it has no "
                "method portions); name the files alone"
            )
        if not source.has_scores:
            self._refuse_score_settings()

    def _refuse_score_settings(self) -> None:
        """Raises ValueError for the first file that has a scale or a unit of scores."""
        for file in self.files:
            setting = None
            if file.score_scale != 1:
                setting = f"score_scale: {file.score_scale:g}"
            elif file.score_unit is not None:
                setting = f"score_unit: {file.score_unit}"
            if setting is not None:
                raise ValueError(
                    f"{setting} ({file.path}), but samples of the source {self.config.source} have no scores: leave it "
                    "out"
                )


def open_stream(config: DataConfig, files: Sequence[Path | DataFile], seed: int) -> Stream:
    """Opens the stream of these files at its beginning. Raises as `Data.open`."""
    return Data.from_paths(config, files, seed).open()
