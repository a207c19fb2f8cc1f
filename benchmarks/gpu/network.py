"""The network that is trained here, Stockfish 15.1's, and batches of the bundled sample."""

from __future__ import annotations

from benchmarks.gpu.machine import Machine
from benchmarks.networks import NETWORKS
from benchmarks.rotated import SAMPLE
from pool.nn.batch import TensorBatch
from pool.tasks.chess import stockfish
from pool.tasks.chess.stockfish.config import ModelConfig
from pool.tasks.chess.stockfish.task import StockfishTask


def task_of(machine: Machine) -> StockfishTask:
    return stockfish.create_task(ModelConfig(version="SFNNv5", l1=machine.size.width), stockfish.LossConfig())


def batches(machine: Machine, count: int) -> list[TensorBatch]:
    """In memory of their own."""
    found = NETWORKS["SFNNv5"].batches(SAMPLE, machine.size.samples, count)
    return [TensorBatch.from_numpy(batch).copy() for batch in found]
