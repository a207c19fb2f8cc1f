"""Rows that a user's code returns: the function that data.rows.blocks names. It runs in the feeder, the process that
reads the data, as a file's reader does."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from loader.errors import DataError
from loader.formats.format import Place
from loader.plugins.error_text import PluginError, format_error_with_location
from loader.plugins.interface import find_call_problem, find_interface_problem
from loader.plugins.registry import Registry, import_object
from loader.rows.block import Rows
from loader.rows.csr import split_csr_rows
from loader.rows.settings import RowsConfig

log = logging.getLogger(__name__)

ROWS = 8192  # rows of a matrix in each block
GENERATOR = (
    "is a generator: its rows are one block, which is in memory as a whole and is made again from its beginning in "
    "each epoch and when the feeder is restarted"
)


class Blocks(Protocol):
    """Rows in blocks. Each block can be made independently, repeatedly, in any order and by several threads."""

    def num_blocks(self) -> int:
        """Returns the number of blocks, which is the same at every start."""

    def block(self, i: int) -> Any:
        """Returns the rows of block `i`, always the same: `Rows`, or a pair of a csr_matrix and its labels (or all
        dense numbers by name)."""


class BlocksReader:
    """A `loader.formats.format.Reader` of blocks that a user's code makes, where each chunk is one block."""

    noun = "block"

    def __init__(self, key: str, name: str, settings: RowsConfig) -> None:
        """Calls the function `name` ("module:function", or empty), which the setting `key` names. Raises ValueError if
        it returns no rows."""
        if not name:
            raise ValueError(f"{key}: nothing is named, and no file either; set one, or leave validations out")
        self.name = name
        self._settings = settings
        self._function = Registry(key, "function that gives rows", {}, "module:function").find(name)
        if not callable(self._function):
            raise ValueError(
                f"{key}: {name} is of type {type(self._function).__name__}, not a function; write module:function"
            )
        result = self._call_function(key)
        self._blocks: Blocks | None = None
        if isinstance(result, Iterator):
            log.warning("%s: %s %s", key, name, GENERATOR)
            self.num_chunks = 1
            return
        self._blocks = _MatrixBlocks(*result) if _is_matrix_pair(result) else result
        problem = find_interface_problem(self._blocks, Blocks, "what gives rows")
        if problem:
            raise ValueError(f"{key}: {name}: {problem}; or give a csr_matrix and its labels, or a generator")
        self.num_chunks = _count_blocks(key, name, self._blocks)

    def place(self, chunk: int) -> Place:
        return Place(Path(self.name), chunk)

    def read(self, chunk: int) -> Iterator[Rows]:
        """Yields the rows of a block. Raises PluginError for an exception of the user's code, except for DataError."""
        if self._blocks is None:
            yield from self._read_generator()
            return
        try:
            block = self._blocks.block(chunk)
        except DataError:
            raise
        except (Exception, SystemExit) as error:  # the user's code
            raise PluginError(f"{type(self._blocks).__name__}.block: {format_error_with_location(error)}") from error
        yield self._to_rows(block)

    def _read_generator(self) -> Iterator[Rows]:
        """Yields the rows of a generator, which it creates anew. Raises PluginError for an exception of the
        generator."""
        generator = iter(self._function())
        while True:
            try:
                block = next(generator)
            except StopIteration:
                return
            except DataError:
                raise
            except (Exception, SystemExit) as error:  # the user's code
                raise PluginError(format_error_with_location(error)) from error
            yield self._to_rows(block)

    def _call_function(self, key: str) -> Any:
        """Calls the user's function and returns its result. Raises ValueError for any exception that it raises."""
        problem = "" if inspect.isgeneratorfunction(self._function) else find_call_problem(self._function, ())
        if problem:
            raise ValueError(f"{key}: {self.name} {problem}")
        try:
            return self._function()
        except Exception as error:  # the user's code
            raise ValueError(f"{key}: {self.name}: {format_error_with_location(error)}") from error

    def _to_rows(self, block: Any) -> Rows:
        """Converts a block that the user's code has made. Raises PluginError if it can't be converted."""
        if isinstance(block, Rows):
            return block
        if not _is_matrix_pair(block):
            raise PluginError(f"a block is loader.Rows or (csr_matrix, labels), not {_describe_type(block)}")
        matrix, dense = block
        csr = matrix.tocsr()
        try:
            return split_csr_rows(csr.indptr, csr.indices, csr.data, _dense_by_name(dense), self._settings)
        except ValueError as error:
            raise PluginError(str(error)) from None


def _describe_type(block: Any) -> str:
    """Returns the name of a value's type, with the types of its items if it is a tuple."""
    name = type(block).__name__
    if isinstance(block, tuple):
        name += f" ({', '.join(type(item).__name__ for item in block)})"
    return name


def _dense_by_name(dense: Any) -> Mapping[str, Any]:
    """Returns dense numbers by name. An array without a name is the labels."""
    return dense if isinstance(dense, Mapping) else {"label": np.asarray(dense)}


class _MatrixBlocks:
    """The rows of a matrix in memory, in blocks of ROWS."""

    def __init__(self, matrix: Any, dense: Any) -> None:
        self._matrix = matrix.tocsr()
        self._dense = _dense_by_name(dense)
        num_rows = self._matrix.shape[0]
        for name, numbers in self._dense.items():
            if np.shape(numbers) != (num_rows,):
                shape = list(np.shape(numbers))
                raise ValueError(f"data.rows.blocks: {name} has the shape {shape} for {num_rows} rows of the matrix")

    def num_blocks(self) -> int:
        return int(-(-self._matrix.shape[0] // ROWS))

    def block(self, i: int) -> Any:
        rows = slice(i * ROWS, (i + 1) * ROWS)
        return self._matrix[rows], {name: numbers[rows] for name, numbers in self._dense.items()}


def _is_matrix_pair(value: object) -> bool:
    """Returns whether a value is a pair of a sparse matrix and its dense numbers."""
    return isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "tocsr")


def names_generator_function(name: str) -> bool:
    """Returns whether "module:function" names a generator function. Returns False for a name that can't be found, since
    opening it later raises the error."""
    try:
        return bool(name) and inspect.isgeneratorfunction(import_object(name))
    except ValueError:
        return False


def _count_blocks(key: str, name: str, blocks: Blocks) -> int:
    """Returns the number of blocks that `blocks` says it has. Raises ValueError unless it is an integer of at least
    1."""
    try:
        count = blocks.num_blocks()
    except Exception as error:  # the user's code
        raise ValueError(f"{key}: {name}: num_blocks: {format_error_with_location(error)}") from error
    if not isinstance(count, int | np.integer) or not 0 < count < 1 << 40:
        raise ValueError(f"{key}: {name}: num_blocks() is {count!r}; an integer of at least 1 is expected")
    return int(count)
