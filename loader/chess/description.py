"""Descriptions, for people, of how files of positions are read: units and views of their scores, and how many have
none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from loader import _native
from loader.chess.positions.entry import Entry, View
from loader.chess.readers import FAMILY, label_views, native_reader, open_readers
from loader.chess.views import describe_missing_scores, describe_view, evidence_of
from loader.errors import DataError
from loader.files.compression import is_readably_compressed
from loader.files.identity import DataFile
from loader.formats.format import GrowingFormat, Place, Reader
from loader.formats.readers import format_name, resolve_file_format
from loader.stream.config import DataConfig
from loader.stream.data_facts import DataFact

MAX_FILES = 8  # files of one kind that are sampled
_CHUNKS = 4  # chunks that are sampled for one kind of files
_MAX_NBYTES = 32 << 20  # bytes of a file that are opened to take a sample
_PYTHON_ENTRIES = 20_000  # entries that are read of a chunk, by a reader written in Python
T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """The properties that files of positions must share to be described in one line."""

    format: str
    unit: str  # unit of the scores; empty: not known
    scale: float
    score_view: View | None
    result_view: View | None

    def describe_unit(self, origin: str) -> str:
        scale = "" if self.scale == 1.0 else f", multiplied by {self.scale:g}"
        return f"{self.unit or 'not known'}{scale} ({origin})"


def describe_positions(config: DataConfig, files: Sequence[DataFile]) -> Iterator[DataFact]:
    """Yields facts about each kind of files, measured on a sample: the unit of the scores, the views of scores and
    results, and how many positions have no score. Raises DataError, ValueError."""
    kinds: dict[Kind, list[DataFile]] = {}
    for file in files:
        kinds.setdefault(_determine_kind(config, file), []).append(file)
    for kind, group in kinds.items():
        origin = _describe_origin(kind, group)
        yield DataFact("score unit", kind.describe_unit(origin))
        samples = {file: _sample_file(config, file, _CHUNKS // len(group)) for file in pick_evenly(group, MAX_FILES)}
        for label, view in (("score", kind.score_view), ("result", kind.result_view)):
            yield from _describe_view(label, view, kind, group, samples, config.settings.pgn.view)
        if kind.score_view is not None:  # for PGN, `describe_comments` yields missing scores with their reasons
            yield from describe_missing_scores(_add_censuses(samples.values()), f"a sample of {{positions}} ({origin})")


def _describe_view(
    label: str,
    view: View | None,
    kind: Kind,
    files: Sequence[DataFile],
    samples: Mapping[DataFile, _native.Census],
    comments_view: View | None,
) -> Iterator[DataFact]:
    """Yields facts about whose view a label ("score" or "result") has. Files whose labels look like another view get a
    warning for each such view. All other files of the kind share one fact."""
    evidence = {file: evidence_of(label, view, census, comments_view) for file, census in samples.items()}
    contradicted = {file: each.looks_like for file, each in evidence.items() if each.is_contradicted}
    others_agree = any(each.looks_like == view for each in evidence.values())
    facts = []
    for looks_like in dict.fromkeys(contradicted.values()):
        alike = [file for file in contradicted if contradicted[file] == looks_like]
        total = _add_censuses([samples[file] for file in alike])
        origin = _describe_origin(kind, alike)
        facts.append(describe_view(label, view, total, origin, comments_view=comments_view, others_agree=others_agree))
    remaining = [file for file in files if file not in contradicted]
    if remaining:
        total = _add_censuses([samples[file] for file in remaining if file in samples])
        origin = _describe_origin(kind, remaining)
        facts.append(describe_view(label, view, total, origin, comments_view=comments_view))
    yield from (fact for fact in facts if fact is not None)


def _add_censuses(samples: Iterable[_native.Census]) -> _native.Census:
    total = _native.Census()
    for census in samples:
        total.add_census(census)
    return total


def _determine_kind(config: DataConfig, file: DataFile) -> Kind:
    """Returns the kind to which a file belongs. The unit that the user has set comes before that of the format."""
    format = resolve_file_format(config, file, FAMILY)
    unit = file.score_unit or ""
    usual_unit = getattr(format, "SCORE_UNIT", "")
    if not unit and usual_unit:
        unit = f"usually {usual_unit}"
    views = label_views(config, format)
    return Kind(format_name(config, format), unit, file.score_scale, views["score"], views["result"])


def _describe_origin(kind: Kind, files: Sequence[DataFile]) -> str:
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{kind.format}: {files[0].path.name}{more}"


def pick_evenly(items: Sequence[T], max_items: int) -> Sequence[T]:
    """Returns at most `max_items` of the items, at equal distances."""
    return items[:: -(-len(items) // max_items)]


def _sample_file(config: DataConfig, file: DataFile, chunks: int) -> _native.Census:
    """Counts scores, results and material in up to `chunks` chunks of a file, at least one. Returns an empty census for
    a file that can't be opened, because opening it for the run reports the error."""
    census = _native.Census()
    try:
        (reader,) = open_readers(*cut_to_beginning(config, file))
    except DataError:
        return census
    sampled = reader if hasattr(reader, "native") else _Beginnings(reader)
    native = native_reader(sampled)
    max_chunks = max(1, chunks)
    # Files that can only be decoded in order are sampled at their beginning.
    step = 1 if native.in_file_order else max(1, native.num_chunks // max_chunks)
    for chunk in range(0, native.num_chunks, step)[:max_chunks]:
        census.add_chunk(native, chunk)
    return census


def cut_to_beginning(config: DataConfig, file: DataFile) -> tuple[DataConfig, Sequence[DataFile]]:
    """Returns settings and files with which to open a sample of a file. A file of more than 32 MiB is cut to its
    beginning where its format allows it, because some formats read a whole file when they open it."""
    format = resolve_file_format(config, file, FAMILY)
    if file.size <= _MAX_NBYTES or is_readably_compressed(file) or not isinstance(format, GrowingFormat):
        return config, [file]
    part = file.up_to(_MAX_NBYTES)
    return config.model_copy(update={"growing": "ignore_new"}), [part.up_to(format.whole_size(part))]


class _Beginnings:
    """A reader of the first 20,000 entries of each chunk of another reader, which is written in Python and therefore
    slow. It implements `loader.formats.format.Reader`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.name = reader.name
        self.num_chunks = reader.num_chunks

    def place(self, chunk: int) -> Place:
        return self._reader.place(chunk)

    def read(self, chunk: int) -> Iterable[Entry]:
        return islice(self._reader.read(chunk), _PYTHON_ENTRIES)
