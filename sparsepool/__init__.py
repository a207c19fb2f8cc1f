"""The Python interface of the project: `open` and `write` for files of positions, `batches` for the loader alone, and
`train` for a whole run.

    import sparsepool

    with sparsepool.write("quiet.bf", lossy=True) as out:
        for block in sparsepool.open("games.viri").where("not in_check"): out.add(block)
    with sparsepool.batches("games.binpack", features="HalfKAv2_hm", batch_size=16384) as stream:
        for batch in stream: ...
    result = sparsepool.train("configs/demo.toml", {"train.steps": 50})
    result.weights(), result.metrics(), result.run_dir

Importing this package imports neither torch nor numpy nor pydantic. That happens when a name is used that needs them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

import sparsepool.safe_import as _whole_import

if TYPE_CHECKING:
    from sparsepool.errors import RunFailedError as RunFailedError
    from sparsepool.errors import SparsepoolError as SparsepoolError
    from sparsepool.positions import Positions as Positions
    from sparsepool.positions import PositionWriter as PositionWriter
    from sparsepool.positions import open as open
    from sparsepool.positions import position_dtype as position_dtype
    from sparsepool.positions import write as write
    from sparsepool.result import Result as Result
    from sparsepool.run import train as train
    from sparsepool.stream import Batches as Batches
    from sparsepool.stream import batches as batches

_MODULE_OF_NAME = {
    "Batches": "sparsepool.stream",
    "PositionWriter": "sparsepool.positions",
    "Positions": "sparsepool.positions",
    "Result": "sparsepool.result",
    "RunFailedError": "sparsepool.errors",
    "SparsepoolError": "sparsepool.errors",
    "batches": "sparsepool.stream",
    "open": "sparsepool.positions",
    "position_dtype": "sparsepool.positions",
    "train": "sparsepool.run",
    "write": "sparsepool.positions",
}
__all__ = sorted(_MODULE_OF_NAME)


def _refuse_shadowed_packages() -> None:
    """Raises ImportError if Python finds a user's file in the place of the packages `loader` or `pool`."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 (pathlib takes long to import)
    for name in ("loader", "pool"):
        module_or_spec = sys.modules[name] if name in sys.modules else importlib.util.find_spec(name)
        file = getattr(module_or_spec, "__file__", None) or getattr(module_or_spec, "origin", None) or "nothing"
        if os.path.dirname(os.path.realpath(file)) != os.path.join(root, name):  # noqa: PTH118, PTH120
            raise ImportError(
                f"{file}: is in the way of the package {name!r}, which sparsepool needs: give it another name, or keep "
                "it in a folder that Python does not search"
            )


_refuse_shadowed_packages()


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_whole_import.import_without_signals(_MODULE_OF_NAME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
