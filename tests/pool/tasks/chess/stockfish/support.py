"""Helpers of the NNUE tests: features by python-chess, random nets, and the engine over pipes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import chess
import numpy as np
import numpy.typing as npt
import torch

from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from pool.nn.batch import SparseInput, TensorBatch
from pool.tasks.chess.positions import Position
from pool.tasks.chess.stockfish import halfka
from pool.tasks.chess.stockfish.inference import Evaluation
from pool.tasks.chess.stockfish.nnue_file import Net
from pool.tasks.chess.stockfish.versions import NUM_BUCKETS, VERSIONS, Version
from pool.tasks.chess.stockfish.versions import bucket as bucket_of
from tests.support.paths import SAMPLE

V5 = VERSIONS["SFNNv5"]


def slow_features(board: chess.Board, perspective: chess.Color) -> list[int]:
    """HalfKAv2_hm, written down from its definition, piece by piece."""
    king = board.king(perspective)
    assert king is not None
    flip = (0 if perspective == chess.WHITE else 56) ^ (7 if chess.square_file(king) < 4 else 0)
    home = king ^ flip
    king_bucket = (7 - chess.square_rank(home)) * 4 + 7 - chess.square_file(home)
    features = []
    for square, piece in board.piece_map().items():
        own = piece.color == perspective
        plane = 10 if piece.piece_type == chess.KING else 2 * (piece.piece_type - 1) + (not own)
        features.append(704 * king_bucket + 64 * plane + (square ^ flip))
    return features


def slow_position(fen: str) -> Position:
    """Reads a position as pool.tasks.chess.positions.read_fen does, by python-chess."""
    board = chess.Board(fen)
    own, opponent = slow_features(board, board.turn), slow_features(board, not board.turn)
    return Position(np.array(own), np.array(opponent), len(board.piece_map()))


def random_net(l1: int, seed: int, extreme: bool = False, version: Version = V5) -> Net:
    """A net of plausible size; `extreme` makes every wrap and overflow of the arithmetic happen."""
    rng = np.random.default_rng(seed)
    plausible = {"transformer_bias": 60, "transformer_weight": 30, "fc_0_weight": 40, "fc_1_weight": 60}
    plausible |= {"fc_0_bias": 8000, "fc_1_bias": 8000, "fc_2_bias": 5000, "fc_2_weight": 127}
    largest = {"transformer_bias": 32000, "transformer_weight": 32000, "fc_0_bias": (1 << 31) - 1}
    kinds = version.kinds()
    arrays = {}
    for name, shape in version.shapes(l1).items():
        limit = plausible.get(name, 9600 if name.endswith("psqt") or name.startswith("psqt") else 30)
        if extreme:
            limit = largest.get(
                name, {np.int8: 127, np.int32: limit if "bias" in name else 1 << 30}.get(kinds[name], limit)
            )
        arrays[name] = rng.integers(-limit, limit, shape, kinds[name], endpoint=True)
    arrays["fc_1_weight"][:, :, version.fc_1_in :] = 0
    return Net(version, f"random {seed}", arrays)


def make_batch(
    positions: Sequence[Position],
    scores: Sequence[int] | None = None,
    results: Sequence[int] | None = None,
    virtual: bool = False,
) -> tuple[TensorBatch, list[int]]:
    """A batch as the loader makes it, and which position each of its samples is."""
    order = sorted(range(len(positions)), key=lambda i: bucket_of(positions[i].piece_count))
    bags = [positions[i].own for i in order] + [positions[i].opponent for i in order]
    if virtual:
        bags = [np.concatenate([bag, halfka.INPUTS + halfka.virtual_features()[bag]]) for bag in bags]
    numbers = np.concatenate(bags)
    bag_of = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    kind = np.uint16 if numbers.max() < 1 << 16 else np.uint32
    touched, counts = np.unique(numbers, return_counts=True)
    columns = np.lexsort((bag_of, numbers))

    def tensor(array: npt.ArrayLike, dtype: npt.DTypeLike) -> torch.Tensor:
        return torch.from_numpy(np.array(array, dtype))

    features = SparseInput(
        offsets=tensor(np.cumsum([0, *(len(bag) for bag in bags)]), np.uint32),
        features=tensor(numbers, kind),
        touched=tensor(touched, kind),
        touched_offsets=tensor(np.cumsum([0, *counts]), np.uint32),
        bags=tensor(bag_of[columns], np.uint16),
    )
    dense = {
        "score": tensor([scores[i] if scores else 0 for i in order], np.int16),
        "result": tensor([results[i] if results else 0 for i in order], np.int8),
        "piece_count": tensor([positions[i].piece_count for i in order], np.uint8),
    }
    buckets = [bucket_of(positions[i].piece_count) for i in order]
    offsets = tuple(sum(bucket < b for bucket in buckets) for b in range(NUM_BUCKETS + 1))
    return TensorBatch(0, {"features": features}, dense, offsets), order


def same_net(one: Net, other: Net) -> bool:
    """Version, all arrays and the description are equal."""
    return (one.version, one.description) == (other.version, other.description) and all(
        np.array_equal(one[name], other[name]) for name in one.version.shapes(one.l1)
    )


@dataclass(frozen=True)
class Printed:
    """The lines that `eval` prints: three cells a bucket, the bucket it marks, and the evaluation from white's view."""

    cells: list[tuple[str, str, str]]
    used: int
    evaluation: str


_ROW = re.compile(r"^\|  (\d)         \|([^|]{12})\|([^|]{12})\|([^|]{12})\|( <-- this bucket is used)?$")


class Engine:
    """A UCI engine over pipes."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, *lines: str) -> None:
        """Sends commands."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines))
        self._process.stdin.flush()

    def read_until(self, prefix: str) -> list[str]:
        """Lines up to the one that begins with `prefix`."""
        assert self._process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith(prefix):
            line = self._process.stdout.readline()
            assert line, f"the engine ended: {lines[-3:]}"
            lines.append(line.rstrip("\n"))
        return lines

    def printed_eval(self, fen: str) -> Printed | None:
        """None if the side to move is in check."""
        self.say(f"position fen {fen}", "eval")
        lines = self.read_until("Final evaluation")
        assert not any("ERROR" in line for line in lines), lines
        if "none (in check)" in lines[-1]:
            return None
        rows = [match for line in lines if (match := _ROW.match(line))]
        used = [int(row[1]) for row in rows if row[5]]
        evaluation = next(line for line in lines if line.startswith("NNUE evaluation"))
        return Printed([(row[2], row[3], row[4]) for row in rows], used[0], evaluation.split()[2])


def _toward_zero(value: int) -> int:
    return abs(value) // 16 * (1 if value >= 0 else -1)


def _cell(value: int) -> str:
    sign = "+" if value > 0 else "-" if value < 0 else " "
    return f"  {sign}{abs(value) / 361:6.2f}   "


def expected_print(evaluation: Evaluation, i: int, black_to_move: bool) -> Printed:
    """Returns what Stockfish 15.1 prints for these integers."""
    cells = []
    for psqt, positional in zip(evaluation.psqt[i].tolist(), evaluation.positional[i].tolist(), strict=True):
        a, b = _toward_zero(psqt), _toward_zero(positional)
        cells.append((_cell(a), _cell(b), _cell(a + b)))
    value = int(evaluation.value[i]) * (-1 if black_to_move else 1)
    return Printed(cells, int(evaluation.bucket[i]), f"{value / 361:+.2f}")


def sample_entries(count: int) -> list[Entry]:
    """Entries of the bundled sample, from all over its first games."""
    return list(islice(entries(SAMPLE / "train.binpack"), 0, 41 * count, 41))


def sample_fens(count: int) -> list[str]:
    return [entry.fen for entry in sample_entries(count)]


def expected_integers(shared_data: Path) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
    """FENs, and [400, 1 + 8 + 8 + 1]: bucket, psqt, positional, value."""
    rows = [line.split("\t") for line in (shared_data / "sf15-eval.tsv").read_text().splitlines()[1:]]
    return [row[0] for row in rows], np.array([[int(cell) for cell in row[1:19]] for row in rows])
