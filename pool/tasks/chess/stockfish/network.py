"""Stockfish's integer networks for the commands that inspect networks (pool.tasks.chess.network.Family)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import pool.tasks.chess.stockfish.halfka as halfka
from loader.errors import DataError
from pool.errors import ConfigError
from pool.tasks.chess.network import Evaluation, FirstLayerBoards, NetworkSummary, summarize_tensor
from pool.tasks.chess.positions import Inputs, Position, PositionBatch
from pool.tasks.chess.proof import write_verified
from pool.tasks.chess.quantization import Ints
from pool.tasks.chess.stockfish.inference import compute_values, evaluate, pair_products
from pool.tasks.chess.stockfish.nnue_file import Net, read_net, serialize_net
from pool.tasks.chess.stockfish.nnue_pytorch import SUFFIXES as CHECKPOINT_SUFFIXES
from pool.tasks.chess.stockfish.nnue_pytorch import is_checkpoint, read_checkpoint
from pool.tasks.chess.stockfish.quantization import quantize, roundings
from pool.tasks.chess.stockfish.versions import LARGEST_INPUT, NUM_BUCKETS, OUTPUT_SCALE, OUTPUT_UNIT

if TYPE_CHECKING:
    from pool.config.tree import Config

SUFFIXES = (".nnue", *CHECKPOINT_SUFFIXES)
_PIECE_VALUES = np.repeat([1, 3, 3, 5, 9, 0], 2)[: halfka.PLANES]  # value of a piece in the material, by plane


@dataclass(frozen=True)
class StockfishNetwork:
    """An integer network of Stockfish. Implements pool.tasks.chess.network.FileNetwork."""

    net: Net
    term_units: str = "sixteenths of them"

    @property
    def inputs(self) -> Inputs:
        return Inputs(self.net.version.feature_set)

    @property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        return self.net.arrays

    @property
    def description(self) -> str:
        return self.net.description

    @property
    def in_centipawns(self) -> bool:
        return False

    @property
    def units(self) -> str:
        pawn = self.net.version.pawn.coefficients
        one = f"{pawn[0]} = one pawn" if len(pawn) == 1 else "a pawn's worth depends on the material"
        return f"internal units ({one})"

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        sums = evaluate(self.net, positions)
        terms = {"psqt": sums.psqt, "positional": sums.positional}
        return Evaluation(sums.bucket, terms, sums.values, sums.value, sums.value / self.pawn_units(positions))

    def compute_values(self, block: PositionBatch, threads: int = 1) -> Ints:
        return compute_values(self.net, block, threads)

    def activations(self, positions: Sequence[Position]) -> npt.NDArray[Any]:
        return pair_products(self.net, positions)

    def pawn_units(self, positions: Sequence[Position]) -> npt.NDArray[np.float64]:
        """Returns for each position the number of internal units that the engine prints as one pawn."""
        units: npt.NDArray[np.float64] = self.net.version.pawn.units(_material(positions))
        return units

    def summarize(self) -> NetworkSummary:
        """Summarises the network for `pool inspect`. An output counts as dead if it is 0 even with the largest inputs
        that there can be."""
        net, version = self.net, self.net.version
        about: dict[str, str | int] = {
            "version": version.name,
            "engine": version.engine + ("" if net.l1 == version.l1 else f" (which loads {version.l1} outputs only)"),
            "description": "".join(letter if letter.isprintable() else "?" for letter in net.description),
            "inputs": version.inputs,
            "outputs of the first layer": net.l1,
        }
        tensors = [summarize_tensor(name, net[name], rule) for name, rule in roundings(version).items()]
        highest = net["transformer_bias"].astype(np.int64)
        for table in version.tables:
            largest = net[table.weight].max(axis=0).astype(np.int64)
            highest = highest + table.most_active * np.maximum(largest, 0)
        weight = net["fc_1_weight"][:, :, : version.fc_1_in].astype(np.int64)
        second = net["fc_1_bias"] + LARGEST_INPUT * np.maximum(weight, 0).sum(axis=2)
        dead = {"the first layer": (highest <= 0), "fc_1": second >> version.clip_shift[1] <= 0}
        return NetworkSummary(
            about, tensors, {name: (int(outputs.sum()), outputs.size) for name, outputs in dead.items()}
        )

    def boards(self) -> FirstLayerBoards:
        """Returns the rows of HalfKAv2_hm, which every version has, as boards."""
        net, table = self.net, self.net.version.tables[0]
        shape = halfka.KING_BUCKETS, halfka.PLANES, halfka.SQUARES
        return FirstLayerBoards(
            (*(f"{whose} {piece}" for piece in halfka.PIECES for whose in ("own", "other")), "kings"),
            [[halfka.king_bucket(rank, file) for file in range(4, 8)] for rank in range(8)],
            net[table.weight].reshape(*shape, net.l1),
            net.version.transformer_one,
            "e",
            net[table.psqt].reshape(*shape, NUM_BUCKETS) * (OUTPUT_UNIT / OUTPUT_SCALE),
        )

    def settings(self) -> dict[str, Any]:
        version = self.net.version
        return {
            "task": "stockfish",
            "data": {"chess": {"features": version.feature_set}},
            "model": {"version": version.name, "l1": self.net.l1},
        }


def read_network(path: Path, config: Config | None) -> StockfishNetwork:
    """Reads a .nnue file, or a checkpoint of nnue-pytorch as the network that it would be exported as. Raises
    DataError. Raises ConfigError if a config is given, as such a file says itself what network it holds."""
    if config is not None:
        raise ConfigError(f"--config: {path} says itself what network it holds; leave it out")
    if not is_checkpoint(path):
        return StockfishNetwork(read_net(path))
    checkpoint = read_checkpoint(path)
    try:
        return StockfishNetwork(quantize(checkpoint.version, checkpoint.floats, f"From {path.name}.", clip=True))
    except ValueError as error:
        raise DataError(path, str(error)) from None


def write_network(network: StockfishNetwork, path: Path) -> None:
    """Writes a .nnue file completely or not at all. Raises DataError, and ValueError if the file does not read back as
    the same network."""

    def read(written: Path) -> StockfishNetwork:
        # A file of another width does not tell versions apart that differ in width alone.
        return StockfishNetwork(replace(read_net(written), version=network.net.version))

    write_verified(path, serialize_net(network.net), network, read)


def _material(positions: Sequence[Position]) -> npt.NDArray[np.int64]:
    """Returns the material of the side to move and its opponent in each position, in pawns as the engine counts
    them."""
    planes = halfka.planes()
    pieces = [position.own[position.own < halfka.INPUTS] for position in positions]
    return np.array([_PIECE_VALUES[planes[numbers]].sum() for numbers in pieces], np.int64)
