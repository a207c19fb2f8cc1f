"""The loader library: reads files and writes sparse batches into given memory. Knows nothing of the pool, the training
runtime.

Code from outside (a task, a source, a script) may import the names below, from here. They keep their names and meaning,
whatever module they lie in. A module is imported when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loader.chess.positions.entry import Entry as Entry
    from loader.errors import DataError as DataError
    from loader.files.identity import DataFile as DataFile
    from loader.formats.format import Format as Format
    from loader.formats.format import Place as Place
    from loader.formats.format import Reader as Reader
    from loader.rows.block import Rows as Rows
    from loader.section import Effect as Effect
    from loader.section import Section as Section
    from loader.stream.config import DataConfig as DataConfig
    from loader.stream.data import open_stream as open_stream
    from loader.stream.interface import Compared as Compared
    from loader.stream.interface import Cursor as Cursor
    from loader.stream.interface import Filled as Filled
    from loader.stream.interface import PassesOver as PassesOver
    from loader.stream.interface import Stream as Stream
    from loader.stream.schema import BatchSchema as BatchSchema
    from loader.stream.schema import DenseField as DenseField
    from loader.stream.schema import SparseField as SparseField
    from loader.stream.slots import allocate_slots as allocate_slots
    from loader.stream.slots import read_batches as read_batches
    from loader.stream.slots import write_batch as write_batch
    from loader.stream.source import Source as Source

_MODULE_OF_NAME = {
    "BatchSchema": "loader.stream.schema",
    "Compared": "loader.stream.interface",
    "Cursor": "loader.stream.interface",
    "DataConfig": "loader.stream.config",
    "DataError": "loader.errors",
    "DataFile": "loader.files.identity",
    "DenseField": "loader.stream.schema",
    "Effect": "loader.section",
    "Entry": "loader.chess.positions.entry",
    "Filled": "loader.stream.interface",
    "Format": "loader.formats.format",
    "PassesOver": "loader.stream.interface",
    "Place": "loader.formats.format",
    "Reader": "loader.formats.format",
    "Rows": "loader.rows.block",
    "Section": "loader.section",
    "Source": "loader.stream.source",
    "SparseField": "loader.stream.schema",
    "Stream": "loader.stream.interface",
    "allocate_slots": "loader.stream.slots",
    "open_stream": "loader.stream.data",
    "read_batches": "loader.stream.slots",
    "write_batch": "loader.stream.slots",
}
__all__ = sorted(_MODULE_OF_NAME)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF_NAME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
