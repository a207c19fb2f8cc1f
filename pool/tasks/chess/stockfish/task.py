"""The task `stockfish`, as the runtime calls it (see pool.task.task.Task)."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from loader.stream.schema import BatchSchema
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.model import StockfishModel
from pool.tasks.chess.stockfish.network import StockfishNetwork, write_network
from pool.tasks.chess.stockfish.nnue_file import read_net
from pool.tasks.chess.stockfish.nnue_pytorch import is_checkpoint, read_checkpoint
from pool.tasks.chess.stockfish.quantization import Floats, dequantize, quantize
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, Version
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import num_inputs
from pool.tasks.chess.training.task import ChessTask


class StockfishTask(ChessTask):
    """Trains a network of Stockfish and writes it as a .nnue file."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        super().__init__(loss)
        self._model = model

    def check(self, schema: BatchSchema) -> None:
        """Checks that the batches and the file to start from fit the model. Raises ValueError."""
        name = self._model.feature_set
        inputs, batch_inputs = self._model.inputs, num_inputs(schema)
        remedy = f"set data.chess.features = {name} or change model.version or model.factorized"
        if batch_inputs != inputs:
            factorized = str(self._model.factorized).lower()
            setting = f"model.version = {self._model.version} with model.factorized = {factorized}"
            raise ValueError(
                f"data.chess.features: {batch_inputs} inputs, but {setting} needs the {inputs} of {name}; {remedy}"
            )
        if schema.num_buckets != NUM_BUCKETS:
            raise ValueError(
                f"data.chess.features: {schema.num_buckets} output buckets, but the net has {NUM_BUCKETS}; "
                f"set data.chess.features = {name}"
            )
        self._read_start_floats()

    def build_model(self) -> StockfishModel:
        """Returns a newly initialised model."""
        return StockfishModel(self._model)

    def initialize(self, model: nn.Module) -> None:
        """Loads the network of model.start_from, if that is set."""
        floats = self._read_start_floats()
        if floats is not None:
            _nnue(model).load_merged_floats(floats)

    def after_step(self, model: nn.Module) -> None:
        """Clips the weights that are exported as int8, if model.clip_weights is set."""
        if self._model.clip_weights:
            _nnue(model).clip()

    def network(self, model: nn.Module, description: str = "") -> StockfishNetwork:
        """Returns the integer network that the model would be exported as. Raises ValueError if a value doesn't fit its
        integer type."""
        floats = _nnue(model).merged_floats()
        return StockfishNetwork(quantize(self._model.architecture, floats, description, self._model.clip_weights))

    def export(self, model: nn.Module, path: Path, description: str) -> None:
        """Writes a .nnue file. Raises ValueError if a value doesn't fit or the file does not read back as the same
        network, and DataError if it can't be written."""
        write_network(self.network(model, description), path)

    def _read_start_floats(self) -> Floats | None:
        """Returns the floats of the network in model.start_from, or None if that is not set. Raises DataError, and
        ValueError if the network does not fit the model."""
        if self._model.start_from is None:
            return None
        path = Path(self._model.start_from)
        if is_checkpoint(path):
            checkpoint = read_checkpoint(path)
            self._check_start(path, checkpoint.version, checkpoint.l1)
            return checkpoint.floats
        net = read_net(path)
        self._check_start(path, net.version, net.l1)
        return dequantize(net)

    def _check_start(self, path: Path, version: Version, l1: int) -> None:
        """Checks that the network to start from has the model's version and width. Raises ValueError."""
        if version.name != self._model.version:
            raise ValueError(
                f"model.start_from: {path} is {version.name} ({version.engine}); set model.version = {version.name}"
            )
        if l1 != self._model.l1:
            raise ValueError(f"model.start_from: {path} has l1 = {l1}; set model.l1 = {l1}")


def _nnue(model: nn.Module) -> StockfishModel:
    assert isinstance(model, StockfishModel)
    return model
