"""The task `perspective`, as the runtime calls it (see pool.task.task.Task)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from loader.files.regular import read_regular
from loader.stream.schema import BatchSchema
from pool.errors import ConfigError
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.perspective.config import ExportTensor, ModelConfig
from pool.tasks.chess.perspective.description import description_path, serialize_description
from pool.tasks.chess.perspective.export_list import list_exported_tensors
from pool.tasks.chess.perspective.header import generate_header
from pool.tasks.chess.perspective.inference import check_evaluable
from pool.tasks.chess.perspective.model import PerspectiveModel
from pool.tasks.chess.perspective.network import PerspectiveNetwork
from pool.tasks.chess.perspective.network_file import (
    RAW,
    holds_floats,
    parse_floats,
    parse_quantised,
    quantised_bytes,
    raw_bytes,
    read_bytes,
    unlisted_factorisers,
    weights_bytes,
)
from pool.tasks.chess.perspective.quantization import Net, quantise, roundings
from pool.tasks.chess.perspective.shape import Floats, Shape, make_shape, real_features
from pool.tasks.chess.proof import check_tensors, write_verified, write_whole
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import batch_loss, num_inputs
from pool.tasks.chess.training.task import ChessTask


class PerspectiveTask(ChessTask):
    """Trains a perspective network and writes it as a file of bullet's format."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        super().__init__(loss)
        self._model = model

    def check(self, schema: BatchSchema) -> None:
        """Checks that the batches, the list of exported tensors and the file to start from fit the model. Raises
        ValueError."""
        shape = make_shape(self._model)
        batch_inputs = num_inputs(schema)
        if batch_inputs != shape.num_inputs:
            raise ValueError(f"model.features: {shape.num_inputs} inputs, but the batches have {batch_inputs}")
        if schema.num_buckets != shape.buckets:
            raise ValueError(f"model.output_buckets: {shape.buckets}, but the batches have {schema.num_buckets}")
        list_exported_tensors(self._model, shape)
        _clip_limits(self._model, shape)
        self._read_start_floats(shape)

    def build_model(self) -> PerspectiveModel:
        """Returns a newly initialised model."""
        shape, model = make_shape(self._model), self._model
        rules = roundings(list_exported_tensors(model, shape))
        dtype = getattr(torch, model.table_dtype)
        return PerspectiveModel(shape, model.kernels, model.fake_quantization, rules, dtype)

    def initialize(self, model: nn.Module) -> None:
        """Loads the network of model.start_from, if that is set."""
        floats = self._read_start_floats(_perspective(model).shape)
        if floats is not None:
            _perspective(model).load_floats(floats)

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """Returns the mean loss of a batch. In training, model.sparsity_penalty times the mean of the first activations
        is added."""
        if not self._model.sparsity_penalty or not model.training:
            return super().loss(model, batch, progress)
        output, activity = _perspective(model).with_activity(batch)
        return batch_loss(self._loss, output, batch, progress) + self._model.sparsity_penalty * activity

    def after_step(self, model: nn.Module) -> None:
        """Clips the tensors for which the settings have limits."""
        _perspective(model).clip(self._limits)

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes the network's file, and its description beside it. The file's name decides whether it holds floats
        (*raw.bin, *weights.bin) or the quantised network. Raises ValueError if a value doesn't fit or the file does not
        read back the same, and DataError if a file can't be written."""
        if holds_floats(path):
            self._export_floats(model, path, description)
        else:
            self._export_quantised(self.network(model).net, path, description)

    def network(self, model: nn.Module, description: str = "") -> PerspectiveNetwork:
        """Returns the integer network that the model would be exported as. Raises ValueError if a value doesn't fit, or
        no engine computes with the export's types and scales."""
        shape = _perspective(model).shape
        net = quantise(
            _perspective(model).floats(), shape, list_exported_tensors(self._model, shape), self._loss.output_unit
        )
        check_evaluable(net)
        return PerspectiveNetwork(net, description=description)

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Reorders the pairs of the first layer (see ChessTask). Raises ConfigError for a network without pairs."""
        if self._model.activation != "pairwise":
            raise ConfigError(f"--permute: orders pairs, and model.activation = {self._model.activation} has none")
        return super().reorder(model, patterns)

    def header(self, model: nn.Module, path: Path, language: str) -> str:
        """Returns source in C or Rust that describes the quantised file `path`."""
        return generate_header(self.network(model).net, language, path.name)

    @cached_property
    def _limits(self) -> dict[str, float]:
        """The limit to which each tensor is clamped after a step, by name."""
        return _clip_limits(self._model, make_shape(self._model))

    def _export_floats(self, model: nn.Module, path: Path, text: str) -> None:
        """Writes a file of floats and its description. Factorisers that a raw file does not list are added to their
        tensors."""
        section, shape = self._model, _perspective(model).shape
        floats: Floats = _perspective(model).floats()
        is_raw = path.name.endswith(RAW)
        entries = list_exported_tensors(section, shape)
        unlisted = unlisted_factorisers(shape, entries) if is_raw else []
        if unlisted:
            kept = [name for name in shape.factorisers if name not in unlisted]
            floats = shape.merge_factorisers(floats, kept=kept)
            section = _merge_config(section, entries, unlisted)
            shape = make_shape(section)
            entries = list_exported_tensors(section, shape)
        data = raw_bytes(floats, shape, entries) if is_raw else weights_bytes(floats)

        def check(written: Path) -> None:
            check_tensors(floats, parse_floats(read_regular(written, len(data)), shape, entries, path))

        write_whole(path, data, check)
        write_whole(description_path(path), serialize_description(section, self._loss, data, text))

    def _export_quantised(self, net: Net, path: Path, text: str) -> None:
        """Writes a quantised file, checked by reading it back, and its description."""
        data = quantised_bytes(net)

        def read(written: Path) -> PerspectiveNetwork:
            content = read_regular(written, len(data))
            return PerspectiveNetwork(parse_quantised(content, net.shape, net.entries, net.unit, written))

        write_verified(path, data, PerspectiveNetwork(net), read)
        write_whole(description_path(path), serialize_description(self._model, self._loss, data, text))

    def _read_start_floats(self, shape: Shape) -> Floats | None:
        """Returns the floats of model.start_from, or None if that is not set. Raises DataError or ValueError."""
        if self._model.start_from is None:
            return None
        path = Path(self._model.start_from)
        entries = list_exported_tensors(self._model, shape)
        return parse_floats(read_bytes(path, shape, entries), shape, entries, path)


def _perspective(model: nn.Module) -> PerspectiveModel:
    assert isinstance(model, PerspectiveModel)
    return model


def _merge_config(model: ModelConfig, entries: Sequence[ExportTensor], merged: Collection[str]) -> ModelConfig:
    """Returns the section that describes the network after the factorisers named in `merged` have been added to their
    tensors."""
    assert model.features is not None
    export = [entry.model_copy(update={"merge": None}) if entry.merge in merged else entry for entry in entries]
    changes = {
        "features": real_features(model.features) if "l0f" in merged else model.features,
        "factorised_layers": tuple(layer for layer in model.factorised_layers if f"l{layer}fw" not in merged),
        "export": tuple(export),
    }
    return model.model_copy(update=changes)


def _clip_limits(model: ModelConfig, shape: Shape) -> dict[str, float]:
    """Returns the limit to which each tensor is clamped, by name. Raises ValueError for a tensor that the network does
    not have."""
    tensors = {**shape.tensors, **shape.blocks}
    for name in model.clip_tensors:
        if name not in tensors:
            raise ValueError(f"model.clip_tensors: this network has no {name}; it has {', '.join(tensors)}")
    limits = {}
    for name in shape.tensors:
        if not name.startswith("l0") and name not in shape.factorisers:
            limits[name] = model.clip_weights
    limits |= model.clip_tensors
    return {name: limit for name, limit in limits.items() if limit}
