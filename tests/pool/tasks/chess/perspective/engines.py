"""Networks of strong engines: their configs, what their files hold, and what they evaluate to.

Facts of the engines' sources, written down again: nothing here is the project's own code. A tensor of a file is listed
as the engine's struct has it, its type, what its axes are from the slowest to the fastest, and their sizes: r rows, w
the width; b buckets, i inputs, o outputs, c inputs side by side.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import chess
import numpy as np
import numpy.typing as npt

from tests.loader.chess.native.slow_threats import V11, V16, pawn_pairs, threats

Floats = npt.NDArray[np.float32]
Tensors = Mapping[str, npt.NDArray[Any]]
File = Mapping[str, tuple[str, str, tuple[int, ...]]]

BY_FOURS = [max(0, pieces - 2) // 4 for pieces in range(33)]
QA = 255


@dataclass(frozen=True)
class Engine:
    config: str  # TOML; WIDTH stands for the width
    width: int  # the engine's own
    file: Callable[[int], File]  # by width
    kings: Sequence[int]  # buckets of the own king's squares on the files a to d, rank by rank
    unit: int
    outputs: Sequence[int] = field(default_factory=lambda: BY_FOURS)  # buckets of 0 to 32 pieces
    threats: Sequence[str] = V16
    planes: int = 12  # 11: the enemy's king is on the own king's plane
    qb: int = 64
    first: str = "crelu"  # activations of the layers behind
    second: str = "crelu"
    skip: bool = False

    def tree(self, width: int) -> dict[str, Any]:
        return tomllib.loads(self.config.replace("WIDTH", str(width)))

    def size(self, width: int) -> int:
        """Of the file, which is filled up to a multiple of 64 bytes."""
        sizes = (np.dtype(kind).itemsize * int(np.prod(shape)) for kind, _, shape in self.file(width).values())
        return -(-sum(sizes) // 64) * 64

    def parse(self, data: bytes, width: int) -> Tensors:
        """Weights become [buckets, inputs, outputs]."""
        tensors, offset = {}, 0
        for name, (kind, axes, shape) in self.file(width).items():
            values = np.frombuffer(data, np.dtype(kind).newbyteorder("<"), int(np.prod(shape)), offset).reshape(shape)
            offset += values.nbytes
            if "i" in axes:
                order = [axes.index(axis) for axis in "bico" if axis in axes]
                values = values.transpose(order).reshape(shape[axes.index("b")], -1, shape[axes.index("o")])
            tensors[name] = values
        return tensors

    def rows(self, board: chess.Board, colour: chess.Color, tensors: Tensors) -> list[npt.NDArray[Any]]:
        """Returns those of the features that are on, as that colour sees the board."""
        king = board.king(colour)
        assert king is not None
        turn = (0 if colour == chess.WHITE else 56) ^ (7 if chess.square_file(king) > 3 else 0)
        bucket = self.kings[4 * chess.square_rank(king ^ turn) + chess.square_file(king ^ turn)]
        found = []
        for square, piece in board.piece_map().items():
            plane = piece.piece_type - 1 + 6 * (piece.color != colour)
            plane = 5 if plane == self.planes == 11 else plane
            found.append(tensors["pieces"][64 * (self.planes * bucket + plane) + (square ^ turn)])
        if "threats" in tensors:
            found += [tensors["threats"][number] for number in threats(board, colour, self.threats)]
        if "pairs" in tensors:
            found += [tensors["pairs"][number] for number in pawn_pairs(board, colour)]
        return found

    def evaluate(self, board: chess.Board, tensors: Tensors) -> int:
        bucket = self.outputs[len(board.piece_map())]
        inputs = []
        for colour in (board.turn, not board.turn):
            accumulated = tensors["l0b"].astype(np.int64)
            for row in self.rows(board, colour, tensors):
                accumulated = (accumulated + row + 32768) % 65536 - 32768
            clamped = accumulated.clip(0, QA)
            half = len(clamped) // 2
            inputs.append(clamped[:half] * clamped[half:] >> 9)
        sums = np.concatenate(inputs) @ tensors["l1w"][bucket].astype(np.int64)
        y = sums.astype(np.float32) * np.float32(512 / (QA * QA * self.qb)) + tensors["l1b"][bucket]
        x1 = _activated(y, self.first)
        x2 = _activated(_layer(x1, tensors["l2w"][bucket], tensors["l2b"][bucket]), self.second)
        last = np.concatenate([x2, x1]) if self.skip else x2
        (result,) = _layer(last, tensors["l3w"][bucket], tensors["l3b"][bucket].reshape(1))
        return int(result * np.float32(self.unit))


def _layer(x: Floats, weight: Floats, bias: Floats) -> Floats:
    y = bias.copy()
    for value, row in zip(x, weight, strict=True):
        y = y + value * row
    return y


def _activated(y: Floats, name: str) -> Floats:
    one, six, half = np.float32(1), np.float32(6), np.float32(0.5)
    clamped = np.minimum(np.maximum(y, np.float32(0)), one)
    if name == "screlu":
        return clamped * clamped
    if name == "dual":
        return np.concatenate([clamped, np.minimum(y * y, one)])
    if name == "hard_swish":
        swish: Floats = y * np.minimum(np.maximum(y / six + half, np.float32(0)), one)
        return swish
    if name == "gated":
        values, gates = np.split(y, 2)
        gated: Floats = values * np.minimum(np.maximum(gates / six + half, np.float32(0)), one)
        return gated
    assert name == "crelu"
    return clamped


_DATA = """
task = "perspective"
[data]
train = ["configs/sample/train.binpack"]
batch_size = 256
threads = 1
[data.chess]
"""

# Reckless 789de89; its struct: src/nnue.rs. #608 had 79,856 threats, later networks 66,864.
RECKLESS = Engine(
    config=_DATA
    + """
features = "chess768^ + threats_v11"
king_buckets = [0, 1, 2, 3,  4, 5, 6, 7,  8, 8, 8, 8,  9, 9, 9, 9,  9, 9, 9, 9,  9, 9, 9, 9,  9, 9, 9, 9,  9, 9, 9, 9]
output_buckets = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 7]
[model]
width = WIDTH
activation = "pairwise"
hidden = [16, 32]
hidden_activation = "crelu"
clip_tensors = { "l0w[threats]" = 0.498 }
export = [
    { weight = "l0w[threats]", type = "i8", scale = 255 },
    { weight = "l0w[pieces]", merge = "l0f", type = "i16", scale = 255 },
    { weight = "l0b", type = "i16", scale = 255 },
    { weight = "l1w", type = "i8", scale = 64, chunk = 4 },
    { weight = "l1b" },
    { weight = "l2w", chunk = 1 },
    { weight = "l2b" },
    { weight = "l3w", transpose = true },
    { weight = "l3b" },
]
[loss]
output_unit = 380
""",
    width=768,
    file=lambda w: {
        "threats": ("i1", "rw", (66_864, w)),
        "pieces": ("i2", "rw", (10 * 768, w)),
        "l0b": ("i2", "w", (w,)),
        "l1w": ("i1", "bioc", (8, w // 4, 16, 4)),
        "l1b": ("f4", "bo", (8, 16)),
        "l2w": ("f4", "bio", (8, 16, 32)),
        "l2b": ("f4", "bo", (8, 32)),
        "l3w": ("f4", "bio", (8, 32, 1)),
        "l3b": ("f4", "b", (8,)),
    },
    kings=[0, 1, 2, 3, 4, 5, 6, 7, *[8] * 4, *[9] * 20],
    unit=380,
    outputs=[*[0] * 9, *[1] * 4, *[2] * 4, *[3] * 3, *[4] * 3, *[5] * 3, *[6] * 3, *[7] * 4],
    threats=V11,
)

# PlentyChess 20878a8; quantised.bin as tools/process_net.cpp reads it, before it moves weights for a CPU.
PLENTY = Engine(
    config=_DATA
    + """
features = "chess768^ + threats + pawn_pairs"
king_buckets = [
    0, 1, 2, 3,  4, 5, 6, 7,  8, 8, 9, 9,  10, 10, 10, 10,
    11, 11, 11, 11,  11, 11, 11, 11,  11, 11, 11, 11,  11, 11, 11, 11,
]
output_buckets = "material_count_8"
[model]
width = WIDTH
activation = "pairwise"
hidden = [16, 32]
hidden_activation = ["dual", "screlu"]
skip = true
clip_tensors = { "l0w[threats]" = 0.498, "l0w[pawn_pairs]" = 0.498 }
export = [
    { weight = "l0w[pieces]", merge = "l0f", type = "i16", scale = 255 },
    { weight = "l0w[pawn_pairs]", type = "i8", scale = 255 },
    { weight = "l0w[threats]", type = "i8", scale = 255 },
    { weight = "l0b", type = "i16", scale = 255 },
    { weight = "l1w", type = "i8", scale = 64 },
    { weight = "l1b" },
    { weight = "l2w" },
    { weight = "l2b" },
    { weight = "l3w" },
    { weight = "l3b" },
]
[loss]
output_unit = 287
""",
    width=1024,
    file=lambda w: {
        "pieces": ("i2", "rw", (12 * 768, w)),
        "pairs": ("i1", "rw", (96 * 95 // 2, w)),
        "threats": ("i1", "rw", (59_808, w)),
        "l0b": ("i2", "w", (w,)),
        "l1w": ("i1", "ibo", (w, 8, 16)),
        "l1b": ("f4", "bo", (8, 16)),
        "l2w": ("f4", "ibo", (2 * 16, 8, 32)),
        "l2b": ("f4", "bo", (8, 32)),
        "l3w": ("f4", "ibo", (32 + 2 * 16, 8, 1)),
        "l3b": ("f4", "b", (8,)),
    },
    kings=[0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, *[10] * 4, *[11] * 16],
    unit=287,
    first="dual",
    second="screlu",
    skip=True,
)

# Viridithas 8bc0706; QuantisedNetwork in src/nnue/network.rs. The two activations are by the page's word, "gated".
VIRIDITHAS = Engine(
    config=_DATA
    + """
features = "chess704^ + threats + pawn_pairs"
king_buckets = [
    0, 1, 2, 3,  4, 5, 6, 7,  8, 9, 10, 11,  8, 9, 10, 11,
    12, 12, 13, 13,  12, 12, 13, 13,  14, 14, 15, 15,  14, 14, 15, 15,
]
output_buckets = "material_count_8"
[model]
width = WIDTH
activation = "pairwise"
hidden = [32, 32]
hidden_activation = ["hard_swish", "gated"]
factorised_layers = [2, 3]
sparsity_penalty = 0.005
clip_tensors = { "l0w[threats]" = 0.498, "l0w[pawn_pairs]" = 0.498 }
export = [
    { weight = "l0w[pawn_pairs]", type = "i8", scale = 255 },
    { weight = "l0w[threats]", type = "i8", scale = 255 },
    { weight = "l0w[pieces]", merge = "l0f", type = "i16", scale = 255 },
    { weight = "l0b", type = "i16", scale = 255 },
    { weight = "l1w", type = "i8", scale = 64 },
    { weight = "l1b" },
    { weight = "l2w", merge = "l2fw" },
    { weight = "l2b", merge = "l2fb" },
    { weight = "l3w", merge = "l3fw" },
    { weight = "l3b", merge = "l3fb" },
]
[loss]
output_unit = 240
""",
    width=1024,
    file=lambda w: {
        "pairs": ("i1", "rw", (96 * 95 // 2, w)),
        "threats": ("i1", "rw", (59_808, w)),
        "pieces": ("i2", "rw", (16 * 704, w)),
        "l0b": ("i2", "w", (w,)),
        "l1w": ("i1", "ibo", (w, 8, 32)),
        "l1b": ("f4", "bo", (8, 32)),
        "l2w": ("f4", "ibo", (32, 8, 2 * 32)),
        "l2b": ("f4", "bo", (8, 2 * 32)),
        "l3w": ("f4", "ibo", (32, 8, 1)),
        "l3b": ("f4", "b", (8,)),
    },
    kings=[*range(12), 8, 9, 10, 11, *[12, 12, 13, 13] * 2, *[14, 14, 15, 15] * 2],
    unit=240,
    planes=11,
    first="hard_swish",
    second="gated",
)

# Integral 0267903b; RawNetwork in shared/nnue/definitions.h, nnue.cc.
INTEGRAL = Engine(
    config=_DATA
    + """
features = "chess768^"
king_buckets = [
    0, 1, 2, 3,  4, 5, 6, 7,  8, 8, 9, 9,  10, 10, 10, 10,
    10, 10, 10, 10,  11, 11, 11, 11,  11, 11, 11, 11,  11, 11, 11, 11,
]
output_buckets = "material_count_8"
[model]
width = WIDTH
activation = "pairwise"
hidden = [16, 32]
hidden_activation = "crelu"
clip_tensors = { l1w = 0.992 }
export = [
    { weight = "l0w", merge = "l0f", type = "i16", scale = 255 },
    { weight = "l0b", type = "i16", scale = 255 },
    { weight = "l1w", type = "i8", scale = 128, transpose = true },
    { weight = "l1b" },
    { weight = "l2w", transpose = true },
    { weight = "l2b" },
    { weight = "l3w", transpose = true },
    { weight = "l3b" },
]
[loss]
output_unit = 189
""",
    width=1536,
    file=lambda w: {
        "pieces": ("i2", "rw", (12 * 768, w)),
        "l0b": ("i2", "w", (w,)),
        "l1w": ("i1", "boi", (8, 16, w)),
        "l1b": ("f4", "bo", (8, 16)),
        "l2w": ("f4", "boi", (8, 32, 16)),
        "l2b": ("f4", "bo", (8, 32)),
        "l3w": ("f4", "boi", (8, 1, 32)),
        "l3b": ("f4", "b", (8,)),
    },
    kings=[0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, *[10] * 8, *[11] * 12],
    unit=189,
    qb=128,
)

# Obsidian 44239cc; Net in nnue.cpp.
OBSIDIAN = Engine(
    config=_DATA
    + """
features = "chess768^"
king_buckets = [
    0, 1, 2, 3,  4, 5, 6, 7,  8, 8, 9, 9,  10, 10, 10, 10,
    11, 11, 11, 11,  11, 11, 11, 11,  12, 12, 12, 12,  12, 12, 12, 12,
]
output_buckets = "material_count_8"
[model]
width = WIDTH
activation = "pairwise"
hidden = [16, 32]
hidden_activation = ["dual", "crelu"]
clip_tensors = { l1w = 0.992 }
export = [
    { weight = "l0w", merge = "l0f", type = "i16", scale = 255 },
    { weight = "l0b", type = "i16", scale = 255 },
    { weight = "l1w", type = "i8", scale = 128, chunk = 1 },
    { weight = "l1b" },
    { weight = "l2w", chunk = 1 },
    { weight = "l2b" },
    { weight = "l3w", transpose = true },
    { weight = "l3b" },
]
[loss]
output_unit = 400
""",
    width=1536,
    file=lambda w: {
        "pieces": ("i2", "rw", (13 * 768, w)),
        "l0b": ("i2", "w", (w,)),
        "l1w": ("i1", "bio", (8, w, 16)),
        "l1b": ("f4", "bo", (8, 16)),
        "l2w": ("f4", "bio", (8, 2 * 16, 32)),
        "l2b": ("f4", "bo", (8, 32)),
        "l3w": ("f4", "bio", (8, 32, 1)),
        "l3b": ("f4", "b", (8,)),
    },
    kings=[0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, *[10] * 4, *[11] * 8, *[12] * 8],
    unit=400,
    qb=128,
    first="dual",
)

ENGINES = {
    "Reckless": RECKLESS,
    "PlentyChess": PLENTY,
    "Viridithas": VIRIDITHAS,
    "Integral": INTEGRAL,
    "Obsidian": OBSIDIAN,
}
