"""Checks a run's data: that files can be read, what a batch contains, and how much of each file is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.plugins.error_text import format_error_with_location
from loader.stream.interface import Compared
from loader.stream.schema import BatchSchema
from pool.errors import ConfigError
from pool.process.start import PlannerStart
from pool.protocol.messages import Purpose

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DataPlan:
    """The schema of batches, the files, and the number of chunks, as the planner reports them."""

    schema: BatchSchema
    files: Mapping[Purpose, tuple[DataFile, ...]]
    num_chunks: Mapping[Purpose, int]  # of streams that compare their chunks


def plan_data(start: PlannerStart) -> DataPlan:
    """Opens each stream of the data once. Returns what the run needs to know about it.

    Raises ConfigError for settings that the source can't serve and for errors of its code. Raises DataError for a
    file that can't be used at all.
    """
    files: dict[Purpose, tuple[DataFile, ...]] = {}
    num_chunks: dict[Purpose, int] = {}
    try:
        schema = start.data["train"].schema()
        for purpose, data in start.data.items():
            files[purpose] = data.files
            if data.validation and not start.config.has_validations:
                continue
            trimmed = data.trim_files()
            files[purpose] = trimmed.files
            with closing(trimmed.open()) as stream:
                if isinstance(stream, Compared):
                    num_chunks[purpose] = stream.num_chunks
    except DataError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except (Exception, SystemExit) as error:
        log.exception("the data can't be opened")
        raise ConfigError(f"data.source: {start.config.data.source}: {format_error_with_location(error)}") from None
    return DataPlan(schema, files, num_chunks)
