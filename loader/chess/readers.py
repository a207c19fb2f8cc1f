"""Files of chess positions, opened by the formats that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from loader import _native
from loader.chess.filters import SIDE, needed_parts, needs
from loader.chess.positions.entry import NO_SCORE, Entry, View
from loader.chess.python_reader import PythonChunks
from loader.files.identity import DataFile
from loader.formats import readers
from loader.formats.format import Format, Place, Reader
from loader.stream.config import DataConfig

FAMILY = "chess"
LABELS = ("score", "result")
MOST_SCORE = 32767


@dataclass(frozen=True)
class LabelChange:
    """How scores and results of files differ from what their format means."""

    scale: float = 1.0  # of scores
    flips_score: bool = False  # those of positions with Black to move have the other sign
    flips_result: bool = False  # likewise

    def applied_to(self, entry: Entry) -> Entry:
        is_black_to_move = entry.fen.split(maxsplit=2)[1:2] == ["b"]
        score = _native.scaled_score(entry.score, self.scale)
        if is_black_to_move and self.flips_score and score != NO_SCORE:
            score = -max(score, -MOST_SCORE)
        result = entry.result
        if is_black_to_move and self.flips_result and result is not None:
            result = -result
        return replace(entry, score=score, result=result)


class RelabelledReader:
    """`loader.formats.format.Reader` of files whose scores and results are changed."""

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
        yield from map(self._change.applied_to, self._reader.read(chunk))


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    """Opens files as `loader.formats.readers.open_readers`; a filter that needs what a format lacks is a ValueError,
    too."""
    wanted = needs(config.settings.filters)
    for file in files if wanted else ():
        lacks = getattr(readers.format_of(config, file, FAMILY), "LACKS", ())
        for need in wanted:
            if need.part in lacks:
                name = readers.name_of(config, readers.format_of(config, file, FAMILY))
                raise ValueError(
                    f"data.chess.filters.{need.key}: {need}, which files in {name} do not have "
                    f"({file.path}); leave {'that' if need.name else 'the filter'} out, or use data in another format"
                )
    parts = needed_parts(config.settings.filters)
    groups = [(change, list(group)) for change, group in groupby(files, lambda file: _label_change(config, file))]
    opened: list[Reader] = []
    skips = config.on_bad_data == "skip"
    for change, group in groups or [(LabelChange(), [])]:
        for reader in readers.open_readers(config, group, FAMILY):
            opened.append(reader if change == LabelChange() else RelabelledReader(reader, change, parts, skips=skips))
    return opened


def views_of(config: DataConfig, format: Format) -> Mapping[str, View | None]:
    """Returns the views by which labels of files in a format are read, of "score" and "result": that of the settings,
    or the format's; None where each label says its own."""
    return {label: _view_setting(config, label) or _format_view(format, label) for label in LABELS}


def _label_change(config: DataConfig, file: DataFile) -> LabelChange:
    """Raises ValueError for a view that the file's format can't have."""
    flips = {label: _is_flipped(config, file, label) for label in LABELS}
    return LabelChange(file.score_scale, flips["score"], flips["result"])


def _is_flipped(config: DataConfig, file: DataFile, label: str) -> bool:
    view = _view_setting(config, label)
    if view is None:
        return False
    found = readers.format_of(config, file, FAMILY)
    key, name = f"data.chess.{label}_view", readers.name_of(config, found)
    if (usual := _format_view(found, label)) is None:
        raise ValueError(
            f"{key}: each comment of a file in {name} has a view of its own ({file.path}): leave it out, and see "
            "data.chess.pgn.view"
        )
    if view != usual and SIDE in getattr(found, "LACKS", ()):
        raise ValueError(
            f"{key}: files in {name} do not say who was to move ({file.path}), so their labels can only be the mover's"
        )
    return view != usual


def _view_setting(config: DataConfig, label: str) -> View | None:
    view: View | None = getattr(config.settings, f"{label}_view")
    return view


def _format_view(found: Format, label: str) -> View | None:
    """Returns the view that labels have in files of a format; what a format of a user's own does not state is the
    mover's, as its entries' are."""
    view: View | None = getattr(found, f"{label.upper()}_VIEW", "mover")
    return view


def native_reader(reader: Reader, needed: Sequence[str] = (), *, skips: bool = False) -> _native.PositionReader:
    """Returns a reader as the native stream takes it: one written in Python is called by the stream's threads, and an
    entry of it that lacks a part of `needed` is damage. `skips`: such entries, and others that can't be used, are left
    out."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader, needed, skips=skips))
