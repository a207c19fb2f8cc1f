"""The task: what pool.task.task asks for, put together from the parts in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from torch import Tensor, nn

from loader.stream.schema import BatchSchema
from pool.errors import ConfigError
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.export.proof import check_tensors, write_proved
from pool.tasks.chess.export.reordering import reorder
from pool.tasks.chess.export.whole_file import write_whole
from pool.tasks.chess.training.batches import num_inputs
from pool.tasks.chess.training.loss import batch_loss
from pool.tasks.chess.training.loss_config import LossConfig
from pool.tasks.perspective.config import ModelConfig
from pool.tasks.perspective.description import beside, description
from pool.tasks.perspective.files.evaluate import check_evaluable
from pool.tasks.perspective.files.file_bytes import (
    holds_factoriser,
    parse_quantised,
    quantised_bytes,
    raw_bytes,
    weights_bytes,
)
from pool.tasks.perspective.files.header import header
from pool.tasks.perspective.files.integers import Net, quantise, roundings
from pool.tasks.perspective.files.shape import Floats, Shape
from pool.tasks.perspective.form import clips_of, export_of, folded, shape_of
from pool.tasks.perspective.model import PerspectiveModel
from pool.tasks.perspective.networks import PerspectiveNetwork
from pool.tasks.perspective.reading import RAW, floats_of, holds_floats, read_bytes


class PerspectiveTask:
    """Trains a network of this family and writes it as a file of numbers."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        self._model = model
        self._loss = loss

    def check(self, schema: BatchSchema) -> None:
        """Raises ValueError if batches, the list of tensors or the file to start from don't fit the model."""
        shape = shape_of(self._model)
        found, wanted = num_inputs(schema), shape.num_real + shape.num_virtual
        if found != wanted:
            raise ValueError(f"model.features: {wanted} inputs, but the batches have {found}")
        if schema.num_buckets != shape.buckets:
            raise ValueError(f"model.output_buckets: {shape.buckets}, but the batches have {schema.num_buckets}")
        export_of(self._model, shape)
        clips_of(self._model, shape)
        self._start(shape)

    def build_model(self) -> PerspectiveModel:
        """Freshly initialised."""
        shape, model = shape_of(self._model), self._model
        return PerspectiveModel(shape, model.kernels, model.fake_quantization, roundings(export_of(model, shape)))

    def initialize(self, model: nn.Module) -> None:
        """Loads model.start_from, if it is set."""
        floats = self._start(_perspective(model).shape)
        if floats is not None:
            _perspective(model).load_floats(floats)

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """Mean loss of a batch."""
        return batch_loss(self._loss, model(batch), batch, progress)

    def predict(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """[B]: in units of the score, the side to move's view."""
        output: Tensor = model(batch) * self._loss.output_unit
        return output

    def after_step(self, model: nn.Module) -> None:
        """Clips the tensors that are to be."""
        _perspective(model).clip(self._clips)

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes a file of numbers, by its name the floats (*raw.bin, *weights.bin) or the quantised network, and its
        description beside it. ValueError if a value doesn't fit or the file is not read back as it was, DataError
        if a file can't be written."""
        if holds_floats(path):
            self._export_floats(model, path, description)
        else:
            self._export_quantised(self.exported(model), path, description)

    def exported(self, model: nn.Module) -> Net:
        """What a quantised file holds. ValueError if a value doesn't fit."""
        shape = _perspective(model).shape
        net = quantise(_perspective(model).floats(), shape, export_of(self._model, shape), self._loss.output_unit)
        check_evaluable(net)
        return net

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Puts pairs that are 0 together side by side (pool.tasks.chess.export.sparsity)."""
        if self._model.activation != "pairwise":
            raise ConfigError(f"--permute: orders pairs, and model.activation = {self._model.activation} has none")
        return reorder(lambda: PerspectiveNetwork(self.exported(model)), _perspective(model).reorder_pairs, patterns)

    def header(self, model: nn.Module, path: Path, language: str) -> str:
        """Source in C or Rust that describes the quantised file `path`."""
        return header(self.exported(model), language, path.name)

    @cached_property
    def _clips(self) -> dict[str, float]:
        return clips_of(self._model, shape_of(self._model))

    def _export_floats(self, model: nn.Module, path: Path, text: str) -> None:
        section, shape = self._model, _perspective(model).shape
        floats: Floats = _perspective(model).floats()
        raw = path.name.endswith(RAW)
        if raw and shape.num_virtual and not holds_factoriser(export_of(section, shape)):
            section, floats = folded(section, shape), shape.fold(floats)
            shape = shape_of(section)
        entries = export_of(section, shape)
        data = raw_bytes(floats, entries) if raw else weights_bytes(floats)
        kept = {entry.weight: floats[entry.weight] for entry in entries} if raw else floats
        write_whole(
            path, data, lambda written: check_tensors(kept, floats_of(read_bytes(written), shape, entries, path))
        )
        write_whole(beside(path), description(section, self._loss, data, text))

    def _export_quantised(self, net: Net, path: Path, text: str) -> None:
        data = quantised_bytes(net)

        def read(written: Path) -> PerspectiveNetwork:
            return PerspectiveNetwork(parse_quantised(read_bytes(written), net.shape, net.entries, net.unit, written))

        write_proved(path, data, PerspectiveNetwork(net), read)
        write_whole(beside(path), description(self._model, self._loss, data, text))

    def _start(self, shape: Shape) -> Floats | None:
        """The floats to start from. Raises DataError or ValueError."""
        if self._model.start_from is None:
            return None
        path = Path(self._model.start_from)
        return floats_of(read_bytes(path), shape, export_of(self._model, shape), path)


def _perspective(model: nn.Module) -> PerspectiveModel:
    assert isinstance(model, PerspectiveModel)
    return model
