"""The chess networks that benchmarks train: by name, what their config says of data and model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from loader.stream.data import open_stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess import perspective, stockfish
from pool.tasks.chess.layer_stacks import Kernels
from pool.tasks.chess.perspective.task import PerspectiveTask
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.task import StockfishTask
from pool.tasks.chess.stockfish.versions import VERSIONS


@dataclass(frozen=True)
class Network:
    """What a config has in data.chess and model."""

    task: str
    chess: Mapping[str, Any]
    model: Mapping[str, Any]
    in_words: str
    required: float = field(default=0.0)  # positions/s of a step by two threads or processes

    def create_task(self, kernels: Kernels) -> StockfishTask | PerspectiveTask:
        if self.task == "stockfish":
            return stockfish.create_task(ModelConfig(**self.model, kernels=kernels), stockfish.LossConfig())
        model = perspective.ModelConfig(**self.model, **self.chess, kernels=kernels)
        return perspective.create_task(model, perspective.LossConfig())

    def config(self) -> str:
        """Lines of a config file."""
        given = {"task": self.task}
        given |= {f"data.chess.{key}": value for key, value in self.chess.items()}
        given |= {f"model.{key}": value for key, value in self.model.items()}
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())

    def batches(self, path: Path, samples: int, count: int, seed: int = 0) -> list[SparseBatch]:
        """The first of a file."""
        stream = open_stream(data_config(batch_size=samples, chess=dict(self.chess)), [path], seed)
        return list(read_batches(stream, count))


def tables(model: nn.Module) -> dict[str, SparseLinear]:
    """The sparse layers of a model, by the names of its attributes."""
    return {name: layer for name, layer in model.named_children() if isinstance(layer, SparseLinear)}


def _stockfish(version: str, l1: int, required: float = 0.0, rounded: Sequence[str] = ()) -> Network:
    model = {"version": version, "l1": l1, "fake_quantization": rounded}
    words = f"{version}, {VERSIONS[version].engine}, l1 = {l1}{', fake quantization of all' if rounded else ''}"
    return Network("stockfish", {"features": VERSIONS[version].feature_set}, model, words, required)


_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)


def _ladder(width: int, buckets: bool, words: str, **model: Any) -> Network:
    chess: dict[str, Any] = {"features": "chess768", "output_buckets": "single"}
    if buckets:
        chess |= {"king_buckets": _BUCKETS, "output_buckets": "material_count_8"}
    return Network("perspective", chess, {"width": width, **model}, words)


NETWORKS = {
    "SFNNv5-256": _stockfish("SFNNv5", 256, required=804e3),
    "SFNNv5": _stockfish("SFNNv5", 1024, required=238e3),
    **{name: _stockfish(name, version.l1) for name, version in VERSIONS.items() if name != "SFNNv5"},
    **{
        f"{name}-rounded": _stockfish(name, 1024, rounded=("rows", "dense", "activations"))
        for name in ("SFNNv5", "SFNNv16")
    },
    "simple": _ladder(128, False, "(768 -> 128)x2 -> 1, SCReLU"),
    "king-buckets": _ladder(1024, True, "(768x10 -> 1024)x2 -> 1, 8 times, SCReLU"),
    "multi-layer": _ladder(
        1024, True, "(768x10 -> 1024)x2 -> 16 -> 32 -> 1, 8 times, pairs", activation="pairwise", hidden=(16, 32)
    ),
    "gated": _ladder(  # by torch's operations behind the first layer
        1024,
        True,
        "(768x10 -> 1024)x2 -> 32 -> 32 -> 1, 8 times, pairs, hard swish and gates",
        activation="pairwise",
        hidden=(32, 32),
        hidden_activation=("hard_swish", "gated"),
    ),
}
