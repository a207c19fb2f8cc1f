"""The networks of this task as `pool eval` asks them (pool.tasks.chess.network.Family)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pool.errors import ConfigError
from pool.tasks.chess.network import Evaluation
from pool.tasks.chess.positions import Inputs, Position
from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.quantized.evaluate import evaluate, truncating_divide
from pool.tasks.stockfish.quantized.nnue_file import NnueNet, read_net

if TYPE_CHECKING:
    from pool.config.tree import Config
    from pool.tasks.trained import Trained

SUFFIXES = (".nnue",)
_INPUTS = Inputs(arch.FEATURE_SET)
_PAWN = 361  # internal units


@dataclass(frozen=True)
class StockfishNetwork:
    """`pool.tasks.chess.network.Network`."""

    net: NnueNet
    inputs: Inputs = _INPUTS
    units: str = f"internal units ({_PAWN} = one pawn)"
    units_of_terms: str = "sixteenths of them"

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        found = evaluate(self.net, positions)
        values = truncating_divide(found.psqt + found.positional, 16)
        terms = {"psqt": found.psqt, "positional": found.positional}
        return Evaluation(found.bucket, terms, values, found.value, found.value.astype(np.float64) / _PAWN)


def read_network(path: Path, config: Config | None) -> StockfishNetwork:
    """Raises DataError; ConfigError, since such a file says itself what network it holds."""
    if config is not None:
        raise ConfigError(f"eval: --config: {path} says itself what network it holds; leave it out")
    return StockfishNetwork(read_net(path))


def exported_network(found: Trained) -> StockfishNetwork:
    """Raises ValueError if a value doesn't fit."""
    from pool.tasks.stockfish.task import StockfishTask

    assert isinstance(found.task, StockfishTask)
    return StockfishNetwork(found.task.exported(found.model, ""))
