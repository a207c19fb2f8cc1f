"""Reads metrics.jsonl, of a run that has ended or goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pool.errors import ConfigError

METRICS = "metrics.jsonl"


def read_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The lines that are records; none of a file that is not there. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    for line in lines:
        with suppress(ValueError, RecursionError):  # the last one, of a process that was killed
            record = json.loads(line)
            if isinstance(record, dict) and type(record.get("step")) is int:
                yield record
