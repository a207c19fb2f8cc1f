"""The task: what pool.task.task asks for, put together from the parts in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from loader.stream.schema import BatchSchema
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.export.reordering import reorder
from pool.tasks.chess.training.batches import num_inputs
from pool.tasks.chess.training.loss import batch_loss
from pool.tasks.chess.training.loss_config import LossConfig
from pool.tasks.stockfish.clipping import clip_rows, clip_stacks
from pool.tasks.stockfish.config import ModelConfig
from pool.tasks.stockfish.model import StockfishModel
from pool.tasks.stockfish.networks import StockfishNetwork, write_network
from pool.tasks.stockfish.quantized.nnue_file import Net, read_net
from pool.tasks.stockfish.quantized.quantize import Floats, dequantize, quantize
from pool.tasks.stockfish.quantized.versions import NUM_BUCKETS, Version
from pool.tasks.stockfish.trainer.nnue_pytorch import is_of_trainer, read_trainer


class StockfishTask:
    """Trains a network of Stockfish and writes it as a .nnue file."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        self._model = model
        self._loss = loss

    def check(self, schema: BatchSchema) -> None:
        """Raises ValueError if batches or the file to start from don't fit the model."""
        name = self._model.feature_set
        inputs = self._model.inputs
        remedy = f"set data.chess.features = {name} or change model.version or model.factorized"
        if (found := num_inputs(schema)) != inputs:
            factorized = str(self._model.factorized).lower()
            setting = f"model.version = {self._model.version} with model.factorized = {factorized}"
            raise ValueError(
                f"data.chess.features: {found} inputs, but {setting} needs the {inputs} of {name}; {remedy}"
            )
        if schema.num_buckets != NUM_BUCKETS:
            raise ValueError(
                f"data.chess.features: {schema.num_buckets} output buckets, but the net has {NUM_BUCKETS}; "
                f"set data.chess.features = {name}"
            )
        self._start()

    def build_model(self) -> StockfishModel:
        """Freshly initialised."""
        return StockfishModel(self._model)

    def initialize(self, model: nn.Module) -> None:
        """Loads model.start_from, if it is set."""
        floats = self._start()
        if floats is not None:
            _nnue(model).load_folded(floats)

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:
        """Mean loss of a batch."""
        return batch_loss(self._loss, model(batch), batch, progress)

    def predict(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """[B]: internal units (the score's), the side to move's view."""
        output: Tensor = model(batch) * self._loss.output_unit
        return output

    def after_step(self, model: nn.Module) -> None:
        """Clips the weights that are stored as int8."""
        if self._model.clip_weights:
            network = _nnue(model)
            clip_stacks(network.stacks)
            clip_rows(network.version, network.transformer.weight)

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes a .nnue file. ValueError if a value doesn't fit or the file is not read back as the network, DataError
        if it can't be written."""
        write_network(StockfishNetwork(self.exported(model, description)), path)

    def reorder(self, model: nn.Module, patterns: Sequence[str]) -> str:
        """Puts pairs that are 0 together side by side (pool.tasks.chess.export.sparsity)."""
        return reorder(lambda: StockfishNetwork(self.exported(model, "")), _nnue(model).reorder_pairs, patterns)

    def exported(self, model: nn.Module, description: str) -> Net:
        """What a .nnue file holds. ValueError if a value doesn't fit."""
        return quantize(self._model.architecture, _nnue(model).folded(), description, self._model.clip_weights)

    def _start(self) -> Floats | None:
        """Those of the network to start from, which fits the model. Raises DataError or ValueError."""
        if self._model.start_from is None:
            return None
        path = Path(self._model.start_from)
        if is_of_trainer(path):
            found = read_trainer(path)
            self._check_start(path, found.version, found.l1)
            return found.floats
        net = read_net(path)
        self._check_start(path, net.version, net.l1)
        return dequantize(net)

    def _check_start(self, path: Path, version: Version, l1: int) -> None:
        if version.name != self._model.version:
            raise ValueError(
                f"model.start_from: {path} is {version.name} ({version.engine}); set model.version = {version.name}"
            )
        if l1 != self._model.l1:
            raise ValueError(f"model.start_from: {path} has l1 = {l1}; set model.l1 = {l1}")


def _nnue(model: nn.Module) -> StockfishModel:
    assert isinstance(model, StockfishModel)
    return model
