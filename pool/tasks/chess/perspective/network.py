"""The integer networks of this task for the commands that inspect networks (pool.tasks.chess.network.Family)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.output_buckets import buckets_by_pieces, format_output_buckets
from loader.errors import DataError
from pool.errors import ConfigError
from pool.tasks.chess.network import Evaluation, FirstLayerBoards, NetworkSummary, summarize_tensor
from pool.tasks.chess.perspective.config import ModelConfig
from pool.tasks.chess.perspective.description import TASK, Description, description_path, read_description
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.inference import check_evaluable, compute_values, evaluate, first_activations
from pool.tasks.chess.perspective.network_file import check_readable, parse_net, read_bytes
from pool.tasks.chess.perspective.quantization import Net, roundings
from pool.tasks.chess.perspective.shape import factorised_features, make_shape
from pool.tasks.chess.positions import Inputs, Position, PositionBatch
from pool.tasks.chess.quantization import Ints
from pool.tasks.chess.training.config import LossConfig

if TYPE_CHECKING:
    from pool.config.tree import Config

SUFFIXES = (".bin",)
_PIECES = ("pawn", "knight", "bishop", "rook", "queen", "king")


@dataclass(frozen=True)
class PerspectiveNetwork:
    """An integer network of bullet's format. Implements pool.tasks.chess.network.FileNetwork."""

    net: Net
    term_units: str = ""
    description: str = ""

    @property
    def inputs(self) -> Inputs:
        return self.net.shape.inputs

    @property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        return self.net.tensors

    @property
    def in_centipawns(self) -> bool:
        return True

    @property
    def units(self) -> str:
        return f"{self.net.unit:g} for an output of 1 (a hundred of them = one pawn)"

    def activations(self, positions: Sequence[Position]) -> npt.NDArray[Any]:
        return first_activations(self.net, PositionBatch.from_positions(positions))

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        return evaluate(self.net, positions, buckets_by_pieces(self.net.shape.output_buckets))

    def compute_values(self, block: PositionBatch, threads: int = 1) -> Ints:
        return compute_values(self.net, block, buckets_by_pieces(self.net.shape.output_buckets), threads)

    def summarize(self) -> NetworkSummary:
        """Summarises the network for `pool inspect`. An output counts as dead if it is 0 even with the largest row as
        often as may be."""
        net, shape = self.net, self.net.shape
        rules = roundings(net.entries)
        tensors = [summarize_tensor(name, values, rules.get(name)) for name, values in net.tensors.items()]
        rows = np.max([table.max(axis=0) for _, table in net.tables], axis=0).astype(np.int64)
        most_active = _native.describe_feature_set(*shape.inputs)[1]
        highest = net.tensors["l0b"] + most_active * np.maximum(rows, 0)
        about: dict[str, str | int] = {
            "network": shape.describe(),
            "activation": shape.activation,
            "inputs": shape.inputs.features,
            "output buckets": format_output_buckets(shape.output_buckets),
        }
        return NetworkSummary(about, tensors, {"the first layer": (int((highest <= 0).sum()), highest.size)})

    def boards(self) -> FirstLayerBoards | None:
        """Returns the first layer's rows as boards if the inputs are chess768, else None."""
        net = self.net
        inputs = net.shape.inputs
        if inputs.features != "chess768":
            return None
        files = max(1, len(inputs.king_buckets) // 8)
        layout = inputs.king_buckets or (0,)
        return FirstLayerBoards(
            [f"{whose} {piece}" for whose in ("own", "other") for piece in _PIECES],
            [layout[start : start + files] for start in range(0, len(layout), files)],
            net.tensors["l0w"].reshape(-1, 2 * len(_PIECES), 64, net.shape.width),
            net.entry("l0w").scale,
        )

    def settings(self) -> dict[str, Any]:
        """Returns the sections task, data, model and loss of a config that trains a network of the same shape."""
        net, shape = self.net, self.net.shape
        features = shape.inputs.features
        return {
            "task": TASK,
            "data": {
                "chess": {
                    "features": factorised_features(features) if shape.num_virtual else features,
                    "king_buckets": list(shape.inputs.king_buckets),
                    "output_buckets": shape.output_buckets,
                }
            },
            "model": {
                "width": shape.width,
                "activation": shape.activation,
                "hidden": list(shape.hidden),
                "hidden_activation": list(shape.hidden_activation),
                "skip": shape.skip,
                "factorised_layers": list(shape.factorised_layers),
                "export": [entry.model_dump(mode="json") for entry in net.entries],
            },
            "loss": {"output_unit": net.unit},
        }


def read_network(path: Path, config: Config | None) -> PerspectiveNetwork:
    """Reads a network's file. Its settings are those of `config`, else of the description beside the file. Raises
    DataError, and ConfigError if there is neither or the settings are not valid."""
    if config is None:
        described = read_description(path)
    else:
        assert isinstance(config.model, ModelConfig)
        assert isinstance(config.loss, LossConfig)
        described = Description(config.model, config.loss, "")
    if described is None:
        check_readable(path)
        expected = description_path(path).name
        raise ConfigError(
            f"{path} does not say what network it holds, and {expected} is not beside it: name a config of such a "
            "network with --config"
        )
    model, loss = described.model, described.loss
    try:
        shape = make_shape(model)
        entries = list_exported_tensors(model, shape)
        data = read_bytes(path, shape, entries)
        if described.sha256 is not None:
            described.check_content(path, data)
        net = parse_net(data, shape, entries, loss.output_unit, path)
        check_evaluable(net)
    except DataError:
        raise
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return PerspectiveNetwork(net, description=described.text)
