"""Helpers of these tests: networks with random weights, and what they evaluate to, number by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import chess
import numpy as np
import numpy.typing as npt
import torch

from pool.nn.batch import SparseInput, TensorBatch
from pool.tasks.chess.perspective import shape as shapes
from pool.tasks.chess.perspective.config import ModelConfig
from pool.tasks.chess.perspective.quantization import Net
from pool.tasks.chess.perspective.shape import Shape
from pool.tasks.chess.positions import Position

MIRRORED = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)
SIMPLE: dict[str, Any] = {"features": "chess768", "king_buckets": (), "output_buckets": "single", "width": 32}
BUCKETS: dict[str, Any] = {**SIMPLE, "output_buckets": "material_count_8", "activation": "crelu"}
FACTORISED: dict[str, Any] = {**BUCKETS, "features": "chess768^", "king_buckets": MIRRORED, "activation": "screlu"}
LAYERS: dict[str, Any] = {**FACTORISED, "activation": "pairwise", "hidden": (16, 32)}
RUNGS = {"simple": SIMPLE, "buckets": BUCKETS, "factorised": FACTORISED, "layers": LAYERS}


def make_shape(model: dict[str, Any]) -> Shape:
    return shapes.make_shape(ModelConfig(**model))


def random_floats(shape: Shape, seed: int = 1, size: float = 0.5) -> dict[str, npt.NDArray[np.float32]]:
    """Draws weights of a size at which all activations are clamped at times."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(0, size, sizes).clip(-1.9, 1.9).astype(np.float32) for name, sizes in shape.tensors.items()
    }


def slow_inputs(board: chess.Board, colour: chess.Color, king_buckets: tuple[int, ...]) -> list[int]:
    """chess768 with mirrored king buckets, or without any."""
    seen = board if colour == chess.WHITE else board.mirror()
    king = seen.king(chess.WHITE)
    assert king is not None
    if king_buckets and chess.square_file(king) >= 4:
        seen = seen.transform(chess.flip_horizontal)
        king = chess.square_mirror(chess.square(7 - chess.square_file(king), 7 - chess.square_rank(king)))
    bucket = king_buckets[4 * chess.square_rank(king) + chess.square_file(king)] if king_buckets else 0
    return [
        768 * bucket + 384 * (piece.color != chess.WHITE) + 64 * (piece.piece_type - 1) + square
        for square, piece in seen.piece_map().items()
    ]


def slow_evaluation(net: Net, fen: str) -> int:
    """Evaluates as an engine's author would write it down: own loops over plain numbers, one output bucket."""
    shape, tensors = net.shape, net.tensors
    board = chess.Board(fen)
    pieces = len(board.piece_map())
    assert isinstance(shape.output_buckets, str)
    bucket = {"single": 0, "material_count_8": (pieces - 2) // 4}[shape.output_buckets]
    inputs: list[int] = []
    for colour in (board.turn, not board.turn):
        acc = [int(value) for value in tensors["l0b"]]
        for row in slow_inputs(board, colour, shape.inputs.king_buckets):
            acc = [(a + int(b) + 32768) % 65536 - 32768 for a, b in zip(acc, tensors["l0w"][row], strict=True)]
        clamped = [min(max(a, 0), 255) for a in acc]
        if shape.activation == "pairwise":
            half = shape.width // 2
            inputs += [a * b >> 9 for a, b in zip(clamped[:half], clamped[half:], strict=True)]
        else:
            inputs += [a * a if shape.activation == "screlu" else a for a in clamped]
    weights = tensors["l1w"][bucket]
    sums = [sum(x * int(w) for x, w in zip(inputs, row, strict=True)) for row in weights]
    if not shape.hidden and shape.activation != "pairwise":
        total = _cut(sums[0], 255) if shape.activation == "screlu" else sums[0]
        return _cut((total + int(tensors["l1b"][bucket][0])) * 400, 255 * 64)
    scale = np.float32({"pairwise": 512, "crelu": 255, "screlu": 1}[shape.activation] / (255 * 255 * 64))
    y = [np.float32(s) * scale + b for s, b in zip(sums, tensors["l1b"][bucket], strict=True)]
    for layer in range(2, len(shape.layers) + 1):
        x = [min(max(value, np.float32(0)), np.float32(1)) ** 2 for value in y]
        y = []
        for row, bias in zip(tensors[f"l{layer}w"][bucket], tensors[f"l{layer}b"][bucket], strict=True):
            total_of_output = bias
            for a, w in zip(x, row, strict=True):
                total_of_output = total_of_output + a * w
            y.append(total_of_output)
    return int(y[0] * np.float32(400))


def batch_of(positions: Sequence[Position], buckets: Sequence[int], num_buckets: int) -> TensorBatch:
    """Returns the evaluations of positions in the order of their output buckets."""
    bags = [position.own for position in positions] + [position.opponent for position in positions]
    numbers = np.concatenate(bags)
    bag_of = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    touched, counts = np.unique(numbers, return_counts=True)
    columns = np.lexsort((bag_of, numbers))

    def tensor(values: npt.ArrayLike) -> torch.Tensor:
        return torch.from_numpy(np.array(values, np.uint32))

    sparse = SparseInput(
        offsets=tensor(np.cumsum([0, *(len(bag) for bag in bags)])),
        features=tensor(numbers),
        touched=tensor(touched),
        touched_offsets=tensor(np.cumsum([0, *counts])),
        bags=tensor(bag_of[columns]),
    )
    borders = tuple(sum(bucket < border for bucket in buckets) for border in range(num_buckets + 1))
    return TensorBatch(0, {"features": sparse}, {}, borders)


def _cut(value: int, divisor: int) -> int:
    """C's division."""
    return value // divisor if value >= 0 else -(-value // divisor)
