"""Sources of data, by name: from settings to a schema, from settings and files to a stream.

A source is a family of records. It is imported when it is first used, and decides itself which file formats it reads
(`loader.formats`). The pool finds sources through this module and imports none itself. A source of a user's own is
named "module:factory".
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from pydantic import create_model

from loader.files.identity import DataFile, identify
from loader.files.paths import expanded
from loader.plugins.interface import call_problem, interface_problem
from loader.plugins.registry import Registry
from loader.section import Section, section_problem
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact
from loader.stream.interface import Cursor, Stream
from loader.stream.schema import BatchSchema

if TYPE_CHECKING:
    from loader.stream.mixture_rates import Portion

Data = TypeVar("Data", bound=DataConfig)


class Source(Protocol):
    """A kind of data. All raise ValueError with one clear line for settings they can't serve.

    A source with keys of its own has `settings`, the class of their section (`loader.Section`): [data.chess] for the
    source "chess", [data.rows] for "my.rows:Rows". It finds them in `config.settings`.
    """

    def schema(self, config: DataConfig) -> BatchSchema:
        """Returns the layout of a batch made with these settings; reads no file."""

    def open(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:
        """The stream of the first `size` bytes of each file. Raises DataError for a file that can't be used (I8)."""

    def origin(self, config: DataConfig, files: Sequence[DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
        """Describes where the batch at `cursor` comes from, as plain data for people. Raises DataError."""


@runtime_checkable
class GrowingSource(Protocol):
    """A source whose files may be written to by others while they are read."""

    def whole_size(self, config: DataConfig, file: DataFile) -> int:
        """Bytes of the file without a last piece that is not all there yet. Raises DataError."""


@runtime_checkable
class GeneratingSource(Protocol):
    """A source that makes samples without files and a run may validate with them."""

    def open_validation(self, config: DataConfig, seed: int) -> Stream:
        """Samples of the same kind as those of `open` without files, but others."""


@runtime_checkable
class SplittingSource(Protocol):
    """A source that can keep a share of its files for validations: then `open` leaves that out."""

    def open_validation_share(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Stream:
        """The samples of data.validation_share. Raises as `open`, and ValueError for a share that has no sample."""


@runtime_checkable
class MixingSource(Protocol):
    """A source whose streams mix files in the ratio of their shares (`DataFile.component`)."""

    def portions(self, config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:
        """About what an epoch has of each component; nothing of files without shares. Raises as `open`."""


@runtime_checkable
class CountedSource(Protocol):
    """A source that can say how many samples its streams have before they begin again."""

    def count_samples(
        self,
        config: DataConfig,
        files: Sequence[DataFile],
        seed: int,
        *,
        validation: bool = False,
        look: Callable[[], object] = lambda: None,
    ) -> int:
        """Counts the samples of the first pass of `open`, or of the stream for validations. Calls `look` now and then,
        which may raise to end it. Raises as `open`."""


@runtime_checkable
class ScoringSource(Protocol):
    """A source whose samples have scores: it multiplies them by `DataFile.score_scale`."""

    def score_unit(self, config: DataConfig, file: DataFile) -> str:
        """Returns the unit that scores in this file have: that of its entry, or else the usual one of its format, in
        words; empty if that is not known. Raises as `open`."""


@runtime_checkable
class DescribingSource(Protocol):
    """A source that can say how it reads files, beyond what the files say themselves."""

    def describe_data(self, config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:
        """Describes how these files are read: what is taken for granted, what is left out. May look at a sample of
        them, and says so then. Raises as `open`."""


# Calling what a name stands for, without arguments, gives the Source.
SOURCES = Registry(
    "data.source",
    "family of records",
    {
        "chess": "loader.chess.source:ChessSource",
        "rows": "loader.rows.source:RowsSource",
        "synthetic": "loader.stream.synthetic:SyntheticSource",
    },
    "module:factory",
)


def built_in_formats() -> list[str]:
    """Returns the names that data.format may have without running code from outside. Imported late, as formats are
    their source's."""
    return list(importlib.import_module("loader.formats.registry").built_in())


def source_by_name(name: str) -> Source:
    """A bundled source, or the object that the factory `name` ("module:factory") makes.

    Raises ValueError if there is none, or if what the factory makes is no Source.
    """
    factory = SOURCES.find(name)
    if problem := call_problem(factory, ()):
        raise ValueError(f"data.source: {name} {problem}; allowed: {SOURCES.form}")
    source: Source = factory()
    if problem := interface_problem(source, Source, "a source"):
        raise ValueError(f"data.source: {name}: {problem}")
    return source


def data_class(name: str, base: type[Data]) -> type[Data]:
    """`base`, with the section of the source `name`, if it has one. Raises ValueError."""
    own = getattr(source_by_name(name), "settings", None)
    if own is None:
        return base
    if problem := section_problem(own):
        raise ValueError(f"data.source: {name}: settings{problem}")
    section = name.partition(":")[0].rpartition(".")[2]
    if section.startswith("_") or section in base.model_fields or hasattr(base, section):
        why = "begins with an underscore" if section.startswith("_") else "has the name of a key"
        raise ValueError(f"data.source: {name}: the section data.{section} of its settings {why}; rename the module")
    return cast(type[Data], _with_section(base, section, own))


@cache
def _with_section(base: type[DataConfig], section: str, own: type[Section]) -> type[DataConfig]:
    """Returns one class for each source, however often it is asked for."""
    made: type[DataConfig] = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **{section: (own, own())})  # type: ignore[call-overload]
    made.section = section
    return made


def data_config(**keys: Any) -> DataConfig:
    """Settings of a stream; the source's own as a mapping by the name of its section.

    `data_config(batch_size=100, chess={"features": "chess768"})`. Raises ValueError.
    """
    source = keys.get("source", DataConfig.model_fields["source"].default)
    return data_class(source, DataConfig)(**keys)


def schema_of(config: DataConfig) -> BatchSchema:
    """The schema of the batches that `open_stream` will give for these settings."""
    return source_by_name(config.source).schema(config)


def open_stream(config: DataConfig, files: Sequence[Path | DataFile], seed: int) -> Stream:
    """A stream at its beginning. Batch k is a function of the files (their order counts), config and seed (I1).

    Raises DataChangedError if a file has changed since it was identified.
    """
    if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise ValueError(f"seed: must be an integer from 0 to {(1 << 64) - 1}, not {seed!r:.40}")
    source = source_by_name(config.source)
    identified = _identified(files)
    if config.validation_share:
        _splitting(config, source)
    _check_scales(config, source, identified)
    if identified and identified[0].component is not None and not isinstance(source, MixingSource):
        raise ValueError(
            f"data.train: its entries have shares, but the source {config.source} can't mix files (it has no method "
            "portions); name the files alone"
        )
    return _checked(config, "open", source.open(config, identified, seed))


def generates(source: str) -> bool:
    """Tells whether the source makes samples for validations without files."""
    return isinstance(source_by_name(source), GeneratingSource)


def open_validation(config: DataConfig, files: Sequence[Path | DataFile], seed: int) -> Stream:
    """Opens a stream as `open_stream` does, for validations: of data.validation_share of the files, which are those of
    training then; without files of a source that makes samples."""
    source = source_by_name(config.source)
    if config.validation_share:
        identified = _identified(files)
        _check_scales(config, source, identified)
        opened = _splitting(config, source).open_validation_share(config, identified, seed)
        return _checked(config, "open_validation_share", opened)
    if files:
        return open_stream(config, files, seed)
    assert isinstance(source, GeneratingSource), f"{config.source} makes no samples for validations"
    return _checked(config, "open_validation", source.open_validation(config, seed))


def _check_scales(config: DataConfig, source: Source, files: Sequence[DataFile]) -> None:
    """Raises ValueError for a scale or unit of scores that the source's samples do not have."""
    if isinstance(source, ScoringSource):
        return
    for file in files:
        for key, value, default in (
            ("score_scale", f"{file.score_scale:g}", "1"),
            ("score_unit", file.score_unit, None),
        ):
            if value != default:
                raise ValueError(
                    f"{key}: {value} ({file.path}), but samples of the source {config.source} have no scores: leave it "
                    "out"
                )


def _splitting(config: DataConfig, source: Source) -> SplittingSource:
    if not isinstance(source, SplittingSource):
        raise ValueError(
            f"data.validation_share: {config.validation_share:g}, but the source {config.source} can't split its data "
            "(it has no method open_validation_share); name files in data.validation"
        )
    return source


def _checked(config: DataConfig, method: str, stream: Stream) -> Stream:
    """Raises ValueError for what is no stream."""
    if problem := interface_problem(stream, Stream, "a stream"):
        if hasattr(stream, "close"):
            stream.close()
        raise ValueError(f"data.source: {config.source}: {method}: {problem}")
    return stream


def samples_per_epoch(
    config: DataConfig, files: Sequence[Path | DataFile], seed: int, *, validation: bool = False
) -> int | None:
    """About how many samples a pass over the files gives, by a look at a few places of them; `validation`: a pass of
    validations. None if the source has no method `samples_per_epoch` with these arguments, or can't say. Raises
    DataError."""
    identified = _identified(files)
    if identified and identified[0].component is not None:
        samples: int | None = sum(portion.samples for portion in portions(config, identified, seed))
    else:
        estimate = getattr(source_by_name(config.source), "samples_per_epoch", None)
        samples = None if estimate is None else estimate(config, identified, seed)
    if samples is None or not config.validation_share:
        return samples
    return round(samples * (config.validation_share if validation else 1 - config.validation_share))


def count_samples(
    config: DataConfig,
    files: Sequence[Path | DataFile],
    seed: int,
    *,
    validation: bool = False,
    look: Callable[[], object] = lambda: None,
) -> int:
    """Counts the samples of the first pass over the files, which may take as long as reading them; `validation`: of
    validations. Calls `look` now and then, which may raise to end it. Raises DataError, and ValueError if they can't be
    counted."""
    source = source_by_name(config.source)
    if not isinstance(source, CountedSource):
        raise ValueError(f"the source {config.source} does not count its samples (it has no method count_samples)")
    count = source.count_samples(config, _identified(files), seed, validation=validation, look=look)
    if type(count) is not int or count < 1:
        raise ValueError(f"there are {count} samples")
    return count


def portions(config: DataConfig, files: Sequence[DataFile], seed: int) -> Sequence[Portion]:
    """About what an epoch has of files that have shares. Raises DataError, ValueError."""
    source = source_by_name(config.source)
    if not files or files[0].component is None or not isinstance(source, MixingSource):
        return ()
    return source.portions(config, files, seed)


def window_nbytes(config: DataConfig, files: Sequence[DataFile]) -> int:
    """Memory that a stream of these files takes for itself, about. 0 if the source has no method `window_nbytes` with
    these arguments."""
    estimate = getattr(source_by_name(config.source), "window_nbytes", None)
    return 0 if estimate is None else estimate(config, files)


def describe_data(config: DataConfig, files: Sequence[DataFile]) -> Sequence[DataFact]:
    """Describes how these files are read, for people: units and views of scores, what is left out, ids. Nothing of a
    source that can't say it. Raises DataError, ValueError."""
    source = source_by_name(config.source)
    return source.describe_data(config, files) if isinstance(source, DescribingSource) else ()


def samples_noun(config: DataConfig) -> str:
    """Returns what the samples are called, in the plural."""
    noun: str = getattr(source_by_name(config.source), "samples", "samples")
    return noun


def has_ids(config: DataConfig) -> bool:
    """Tells whether features stand for ids of whoever has written the files, which may be spelled in several ways; what
    the source's `has_ids` says, and False if it has none."""
    found: bool = getattr(source_by_name(config.source), "has_ids", False)
    return found


def score_unit(config: DataConfig, file: DataFile) -> str | None:
    """Returns the unit that scores in the file have, as `ScoringSource.score_unit`; None if its samples have no scores.
    Raises DataError, ValueError."""
    source = source_by_name(config.source)
    return source.score_unit(config, file) if isinstance(source, ScoringSource) else None


def format_name(config: DataConfig, file: DataFile) -> str:
    """The name of the file's format; empty if the source has no method `format_name` with these arguments. Raises
    DataError, ValueError."""
    name_of = getattr(source_by_name(config.source), "format_name", None)
    return "" if name_of is None else name_of(config, file)


def origin_of(config: DataConfig, files: Sequence[Path | DataFile], seed: int, cursor: Cursor) -> dict[str, Any]:
    """Describes where the batch that begins at `cursor` comes from, as plain data for people. Raises DataError."""
    return source_by_name(config.source).origin(config, _identified(files), seed, cursor)


def whole_files(config: DataConfig, files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The files without what is half written at their ends, if they may grow. Raises DataError."""
    source = source_by_name(config.source)
    if not config.may_grow or not isinstance(source, GrowingSource):
        return tuple(files)
    return tuple(file.up_to(source.whole_size(config, file)) for file in files)


class NoFileError(ValueError):
    """A pattern matches nothing: its files may still be to come."""


def find_files(patterns: Sequence[str], key: str) -> list[Path]:
    """The files that the patterns (* and ?, ~ for home) name: in the order given, sorted within a pattern.

    Raises NoFileError that names `key` (the config key the patterns came from) if one matches nothing, ValueError if
    one matches a folder.
    """
    files: list[Path] = []
    for pattern in patterns:
        path = expanded(pattern, key)
        # A name that exists is taken as it is, so that brackets in a file's name need no quoting.
        names = [str(path)] if path.exists() else sorted(glob.glob(str(path)))  # noqa: PTH207 (absolute patterns)
        matches = [Path(name) for name in names]
        if not matches:
            raise NoFileError(f"{key}: no file matches {pattern!r}")
        for match in matches:
            if match.is_dir():
                raise ValueError(f"{key}: {str(match)!r} is a folder; name the files in it, as '{match}/*'")
        files += matches
    return files


def _identified(files: Sequence[Path | DataFile]) -> list[DataFile]:
    return [file if isinstance(file, DataFile) else identify([file])[0] for file in files]
