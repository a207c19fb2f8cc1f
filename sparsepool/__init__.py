"""The front of the project for Python: `batches`, the loader alone, and `train`, a whole run.

    import sparsepool

    with sparsepool.batches("games.binpack", features="HalfKAv2_hm", batch_size=16384) as stream:
        for batch in stream: ...
    result = sparsepool.train("configs/demo.toml", {"train.steps": 50})
    result.weights(), result.metrics(), result.run_dir

Importing this imports neither torch nor numpy nor pydantic: that happens when a name is used that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsepool.errors import RunFailedError as RunFailedError
    from sparsepool.errors import SparsepoolError as SparsepoolError
    from sparsepool.result import Result as Result
    from sparsepool.stream import Batches as Batches
    from sparsepool.stream import batches as batches
    from sparsepool.training import train as train

_HOMES = {
    "Batches": "sparsepool.stream",
    "Result": "sparsepool.result",
    "RunFailedError": "sparsepool.errors",
    "SparsepoolError": "sparsepool.errors",
    "batches": "sparsepool.stream",
    "train": "sparsepool.training",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
