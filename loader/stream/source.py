"""The base class of sources: what turns files of one kind into batches, and what it may offer beside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from loader.files.identity import DataFile
from loader.section import Section
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.interface import Cursor, Stream
from loader.stream.schema import BatchSchema

if TYPE_CHECKING:
    from loader.stream.mixture_rates import Portion


class Source(ABC):
    """A kind of data. All methods raise ValueError with one clear line for settings they can't serve.

    A class must have `schema`, `open` and `origin`. Each other method or attribute that it overrides is an ability; the
    default is that of a source which lacks it.
    """

    # The class of its own section of settings: [data.chess] for the source "chess", [data.rows] for "my.rows:Rows". The
    # source finds them in `config.settings`.
    settings: ClassVar[type[Section] | None] = None
    samples: ClassVar[str] = "samples"  # what they are called, in the plural
    has_ids: ClassVar[bool] = False  # features stand for ids of the files' author, which may be spelled in several ways

    @abstractmethod
    def schema(self, config: DataConfig) -> BatchSchema:
        """Returns the layout of a batch made with these settings; reads no file."""

    @abstractmethod
    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:
        """Opens the stream of the first `size` bytes of each file. Raises DataError for a file that can't be used (I8).

        With `config.validation_share` it leaves out what `open_validation_share` has.
        """

    @abstractmethod
    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        """Describes where the batch at `cursor` comes from, as plain data for people. Raises DataError."""

    def whole_size(self, config: DataConfig, file: DataFile) -> int:  # noqa: ARG002
        """Returns the bytes of the file without a half-written record at its end, for files that others may write to
        while they are read. Raises DataError."""
        return file.size

    def open_validation(self, config: DataConfig, seed: int) -> Stream:  # noqa: ARG002
        """Opens a stream for validations without files, of a source that makes its samples: of the same kind as those
        of `open`, but others."""
        raise ValueError(f"the source {config.source} makes no samples for validations (no method open_validation)")

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:  # noqa: ARG002
        """Opens the stream of the samples of data.validation_share. Raises as `open`, and ValueError for a share that
        has no sample."""
        raise no_split_error(config)

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:  # noqa: ARG002
        """Estimates what an epoch has of each component, of a source whose streams mix files in the ratio of their
        shares (`DataFile.component`); empty for files without shares. Raises as `open`."""
        return ()

    def count_samples(
        self,
        config: DataConfig,
        files: Sequence[DataFile],  # noqa: ARG002
        seed: int,  # noqa: ARG002
        *,
        validation: bool = False,  # noqa: ARG002
        look: Callable[[], object] = lambda: None,  # noqa: ARG002
    ) -> int:
        """Counts the samples of the first pass of `open`, or of the stream for validations. Calls `look` now and then,
        which may raise to end it. Raises as `open`."""
        raise ValueError(f"the source {config.source} does not count its samples (it has no method count_samples)")

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:  # noqa: ARG002
        """Estimates the samples of a pass over the files by a look at a few parts of them; None if that is not known.
        Raises as `open`."""
        return None

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:  # noqa: ARG002
        """Estimates the memory that a stream of these files takes for itself."""
        return 0

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:  # noqa: ARG002
        """Describes how these files are read, beyond what they say themselves: what is assumed, what is left out. May
        look at a sample of them, and says so then. Raises as `open`."""
        return ()

    def score_unit(self, config: DataConfig, file: DataFile) -> str | None:  # noqa: ARG002
        """Returns the unit that scores in this file have, in words: that of its entry, or else the usual one of its
        format; empty if that is not known. None of a source whose samples have no scores: one that has them multiplies
        them by `DataFile.score_scale`. Raises as `open`."""
        return None

    def format_name(self, config: DataConfig, file: DataFile) -> str:  # noqa: ARG002
        """Returns the name of the file's format; empty if there is none. Raises as `open`."""
        return ""

    @property
    def can_generate(self) -> bool:
        """True if it makes samples for validations without files."""
        return type(self).open_validation is not Source.open_validation

    @property
    def can_split(self) -> bool:
        """True if it can keep a share of its files for validations."""
        return type(self).open_validation_share is not Source.open_validation_share

    @property
    def can_mix(self) -> bool:
        """True if it mixes files in the ratio of their shares."""
        return type(self).portions is not Source.portions

    @property
    def has_scores(self) -> bool:
        """True if its samples have scores."""
        return type(self).score_unit is not Source.score_unit


def no_split_error(config: DataConfig) -> ValueError:
    """Returns the error for data.validation_share of a source that can't split its data."""
    return ValueError(
        f"data.validation_share: {config.validation_share:g}, but the source {config.source} can't split its data (it "
        "has no method open_validation_share); name files in data.validation"
    )
