"""The base class of sources. A source turns files of one kind into batches, or makes samples itself, and may have more
abilities."""

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
    """A kind of data. All methods raise ValueError with one clear line for settings that the source can't serve.

    A class must have `schema`, `open` and `origin`. Each other method or attribute that it overrides is an ability of
    the source. The defaults here are those of a source without the ability.
    """

    # The class of its own section of settings: [data.chess] for the source "chess", [data.rows] for "my.rows:Rows". The
    # source finds them in `config.settings`.
    settings: ClassVar[type[Section] | None] = None
    samples: ClassVar[str] = "samples"  # what error messages and reports call the samples, in the plural
    has_ids: ClassVar[bool] = False  # features stand for ids of the files' author, which may be spelled in several ways

    @abstractmethod
    def schema(self, config: DataConfig) -> BatchSchema:
        """Returns the layout of a batch made with these settings. Reads no file."""

    @abstractmethod
    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:
        """Opens the stream of the first `size` bytes of each file. Raises DataError for a file that can't be used (I8).

        If `config.validation_share` is set, the stream leaves out the samples of `open_validation_share`.
        """

    @abstractmethod
    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        """Describes where the batch at `cursor` comes from, as plain data for people. Raises DataError."""

    def whole_size(self, config: DataConfig, file: DataFile) -> int:  # noqa: ARG002
        """Returns the bytes of the file without a half-written record at its end, for files that others may write to
        while they are read. Raises DataError."""
        return file.size

    def open_validation(self, config: DataConfig, seed: int) -> Stream:  # noqa: ARG002
        """Opens a stream of validation samples for a source that makes its samples instead of reading files. The
        samples are of the same kind as those of `open`, but different ones."""
        raise ValueError(f"the source {config.source} makes no samples for validations (no method open_validation)")

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:  # noqa: ARG002
        """Opens the stream of the samples that data.validation_share keeps from training for validations. Raises as
        `open`, and ValueError for a share that has no sample."""
        raise no_split_error(config)

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:  # noqa: ARG002
        """Estimates what an epoch has of each component (files with one share, `DataFile.component`). A source that
        overrides this mixes files in the ratio of their shares. Returns an empty sequence for files without shares.
        Raises as `open`."""
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
        """Counts the samples of the first pass of `open`, or of the stream for validations. Calls `look` now and then;
        an exception of `look` ends the count. Raises as `open`."""
        raise ValueError(f"the source {config.source} does not count its samples (it has no method count_samples)")

    def samples_per_epoch(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> int | None:  # noqa: ARG002
        """Estimates the number of samples in one pass over the files by reading a few parts of them. Returns None if it
        can't be estimated. Raises as `open`."""
        return None

    def window_nbytes(self, config: DataConfig, files: Sequence[DataFile]) -> int:  # noqa: ARG002
        """Estimates the bytes of memory that a stream of these files allocates for itself."""
        return 0

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:  # noqa: ARG002
        """Describes how these files are read, beyond what the files say themselves: what is assumed, what is left out.
        May read a sample of the files, and then says so. Raises as `open`."""
        return ()

    def score_unit(self, config: DataConfig, file: DataFile) -> str | None:  # noqa: ARG002
        """Returns the name of the unit of the scores in this file: that of its entry in data.train, or else the usual
        one of its format. Returns an empty text if the unit is not known, and None if samples of this source have no
        scores. A source that has scores multiplies them by `DataFile.score_scale`. Raises as `open`."""
        return None

    def format_name(self, config: DataConfig, file: DataFile) -> str:  # noqa: ARG002
        """Returns the name of the file's format, empty if it has none. Raises as `open`."""
        return ""

    @property
    def can_generate(self) -> bool:
        """Returns whether the source can make samples for validations without files."""
        return type(self).open_validation is not Source.open_validation

    @property
    def can_split(self) -> bool:
        """Returns whether the source can keep a share of its files for validations."""
        return type(self).open_validation_share is not Source.open_validation_share

    @property
    def can_mix(self) -> bool:
        """Returns whether the source can mix files in the ratio of their shares."""
        return type(self).portions is not Source.portions

    @property
    def has_scores(self) -> bool:
        """Returns whether the samples of the source have scores."""
        return type(self).score_unit is not Source.score_unit


def no_split_error(config: DataConfig) -> ValueError:
    """Returns the error for data.validation_share with a source that can't split its data."""
    return ValueError(
        f"data.validation_share: {config.validation_share:g}, but the source {config.source} can't split its data (it "
        "has no method open_validation_share); name files in data.validation"
    )
