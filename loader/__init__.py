"""Files to sparse batches in given memory: the loader library. Knows nothing of the pool.

The names below are the ones that code from outside (a task, a source, a script) may import, from here: they keep their
names and meaning, whatever module they lie in. Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loader.batch.schema import BatchSchema as BatchSchema
    from loader.batch.schema import DenseField as DenseField
    from loader.batch.schema import SparseField as SparseField
    from loader.batch.slots import allocate_slots as allocate_slots
    from loader.batch.slots import read_batches as read_batches
    from loader.batch.slots import write_batch as write_batch
    from loader.chess.entry import Entry as Entry
    from loader.config import DataConfig as DataConfig
    from loader.errors import DataError as DataError
    from loader.files.identity import DataFile as DataFile
    from loader.formats.format import Format as Format
    from loader.formats.format import Place as Place
    from loader.formats.format import Reader as Reader
    from loader.rows.block import Rows as Rows
    from loader.section import Effect as Effect
    from loader.section import Section as Section
    from loader.sources import GeneratingSource as GeneratingSource
    from loader.sources import GrowingSource as GrowingSource
    from loader.sources import MixingSource as MixingSource
    from loader.sources import ScoringSource as ScoringSource
    from loader.sources import Source as Source
    from loader.sources import SplittingSource as SplittingSource
    from loader.sources import open_stream as open_stream
    from loader.stream import Compared as Compared
    from loader.stream import Cursor as Cursor
    from loader.stream import Filled as Filled
    from loader.stream import Stream as Stream

_HOMES = {
    "BatchSchema": "loader.batch.schema",
    "Compared": "loader.stream",
    "Cursor": "loader.stream",
    "DataConfig": "loader.config",
    "DataError": "loader.errors",
    "DataFile": "loader.files.identity",
    "DenseField": "loader.batch.schema",
    "Effect": "loader.section",
    "Entry": "loader.chess.entry",
    "Filled": "loader.stream",
    "Format": "loader.formats.format",
    "GeneratingSource": "loader.sources",
    "GrowingSource": "loader.sources",
    "MixingSource": "loader.sources",
    "Place": "loader.formats.format",
    "Reader": "loader.formats.format",
    "Rows": "loader.rows.block",
    "ScoringSource": "loader.sources",
    "Section": "loader.section",
    "Source": "loader.sources",
    "SparseField": "loader.batch.schema",
    "SplittingSource": "loader.sources",
    "Stream": "loader.stream",
    "allocate_slots": "loader.batch.slots",
    "open_stream": "loader.sources",
    "read_batches": "loader.batch.slots",
    "write_batch": "loader.batch.slots",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
