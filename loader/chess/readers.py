"""Opens files of chess positions, each with the reader of its format, and adapts scores and results to the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from loader import _native
from loader.chess.filters import SIDE, filter_needs, needed_parts
from loader.chess.positions.entry import NO_SCORE, Entry, View
from loader.chess.python_reader import PythonChunks
from loader.files.identity import DataFile
from loader.formats import readers
from loader.formats.format import Format, Place, Reader
from loader.stream.config import DataConfig

FAMILY = "chess"
LABELS = ("score", "result")
MAX_SCORE = 32767


@dataclass(frozen=True)
class LabelChange:
    """The changes that the settings ask for in the scores and results (labels) of a file, relative to the meaning that
    its format states."""

    scale: float = 1.0  # factor of the scores
    flips_score: bool = False  # negates scores of positions with Black to move
    flips_result: bool = False  # negates results of positions with Black to move

    def apply(self, entry: Entry) -> Entry:
        """Returns a copy of the entry with its score scaled, and with its score and result negated where the settings
        ask for it. A missing score or result stays missing."""
        is_black_to_move = entry.fen.split(maxsplit=2)[1:2] == ["b"]
        score = _native.scaled_score(entry.score, self.scale)
        if is_black_to_move and self.flips_score and score != NO_SCORE:
            score = -max(score, -MAX_SCORE)
        result = entry.result
        if is_black_to_move and self.flips_result and result is not None:
            result = -result
        return replace(entry, score=score, result=result)


class RelabelledReader:
    """A reader that applies a `LabelChange` to every entry of another reader. It implements
    `loader.formats.format.Reader`."""

    def __init__(self, reader: Reader, change: LabelChange, needed: Sequence[str], *, skips: bool) -> None:
        self._reader = reader
        self._change = change
        native_change = _native.LabelChange(change.scale, change.flips_score, change.flips_result)
        self.native = _native.RelabelledReader(native_reader(reader, needed, skips=skips), native_change)

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def num_chunks(self) -> int:
        return self._reader.num_chunks

    def place(self, chunk: int) -> Place:
        return self._reader.place(chunk)

    def read(self, chunk: int) -> Iterator[Entry]:
        yield from map(self._change.apply, self._reader.read(chunk))


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    """Opens files with the readers of their formats, as `loader.formats.readers.open_readers`, and changes scores and
    results as the settings ask.

    Raises ValueError for a filter that needs a part of a position (a move, a ply) that a file's format does not store,
    and for a `score_view` or `result_view` that the format can't have.
    """
    _check_filter_needs(config, files)
    parts = needed_parts(config.settings.filters)
    groups = [(change, list(group)) for change, group in groupby(files, lambda file: _label_change(config, file))]
    if not groups:
        groups = [(LabelChange(), [])]
    opened: list[Reader] = []
    skips = config.on_bad_data == "skip"
    for change, group in groups:
        group_readers = readers.open_readers(config, group, FAMILY)
        if change != LabelChange():
            group_readers = [RelabelledReader(reader, change, parts, skips=skips) for reader in group_readers]
        opened += group_readers
    return opened


def _check_filter_needs(config: DataConfig, files: Sequence[DataFile]) -> None:
    """Checks that the formats of all files store the parts of a position that the filters need. Raises ValueError."""
    needs = filter_needs(config.settings.filters)
    if not needs:
        return
    for file in files:
        format = readers.resolve_file_format(config, file, FAMILY)
        lacks = getattr(format, "LACKS", ())
        for need in needs:
            if need.part in lacks:
                name = readers.format_name(config, format)
                advice = f"leave {'that' if need.name else 'the filter'} out, or use data in another format"
                raise ValueError(
                    f"data.chess.filters.{need.key}: {need}, which files in {name} do not have ({file.path}); {advice}"
                )


def label_views(config: DataConfig, format: Format) -> Mapping[str, View | None]:
    """Returns whose view (mover or White) the scores and results of files in a format have, under the keys "score" and
    "result". A view in the settings comes before that of the format. None: each label states its own view."""
    return {label: _view_setting(config, label) or _format_view(format, label) for label in LABELS}


def _label_change(config: DataConfig, file: DataFile) -> LabelChange:
    """Determines how labels of a file must be changed. Raises ValueError for a view that the file's format can't
    have."""
    flips = {label: _is_flipped(config, file, label) for label in LABELS}
    return LabelChange(file.score_scale, flips["score"], flips["result"])


def _is_flipped(config: DataConfig, file: DataFile, label: str) -> bool:
    """Tells whether labels of positions with Black to move change their sign, because the settings ask for another view
    than the file's format has. Raises ValueError for a view that the format can't have."""
    view = _view_setting(config, label)
    if view is None:
        return False
    format = readers.resolve_file_format(config, file, FAMILY)
    key, name = f"data.chess.{label}_view", readers.format_name(config, format)
    usual = _format_view(format, label)
    if usual is None:
        raise ValueError(
            f"{key}: each comment of a file in {name} has a view of its own ({file.path}): leave it out, and see "
            "data.chess.pgn.view"
        )
    if view != usual and SIDE in getattr(format, "LACKS", ()):
        raise ValueError(
            f"{key}: files in {name} do not say who was to move ({file.path}), so their labels can only be the mover's"
        )
    return view != usual


def _view_setting(config: DataConfig, label: str) -> View | None:
    view: View | None = getattr(config.settings, f"{label}_view")
    return view


def _format_view(format: Format, label: str) -> View | None:
    """Returns the view that a label ("score" or "result") has in files of a format, or None if each comment states its
    own. The default is the mover's, for formats written by users that state no view."""
    view: View | None = getattr(format, f"{label.upper()}_VIEW", "mover")
    return view


def native_reader(reader: Reader, needed: Sequence[str] = (), *, skips: bool = False) -> _native.PositionReader:
    """Returns a reader as the native stream takes it. A reader written in Python is wrapped, and called by the threads
    of the stream.

    An entry of a Python reader that lacks a part listed in `needed` counts as damage. With `skips`, damaged entries are
    left out instead of raising an error.
    """
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader, needed, skips=skips))
