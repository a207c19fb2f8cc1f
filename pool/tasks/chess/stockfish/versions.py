"""Describes the versions of Stockfish's network as data: inputs, widths, hashes, layout of the file, arithmetic. Free
of torch.

File format, quantizer, evaluator and model are driven by this table, and none of them knows a version by name. The
numbers of inputs are those of `data.chess.features`, where every set begins with HalfKAv2_hm. A file has its tables in
the order of `Version.blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import pool.tasks.chess.stockfish.halfka as halfka

NUM_BUCKETS = 8
FC_1_OUT = 32
L1_STEP = 8  # l1 is a multiple of it
MAX_L1 = 1 << 14
OUTPUT_UNIT = 600  # internal units in one unit of the float network
OUTPUT_SCALE = 16 * OUTPUT_UNIT  # units of the integer terms in one unit of the float network
LARGEST_INPUT = 127  # largest integer that enters a layer

_WORD_2022 = 0x7AF32F20
_WORD_2026 = 0x6A448AFA


class Encoding(Enum):
    """How the numbers of a block are stored: as plain integers, or compressed."""

    RAW = "raw"
    LEB128 = "LEB128"


@dataclass(frozen=True)
class Block:
    """Arrays that lie one after the other in a file, in one encoding."""

    encoding: Encoding
    names: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Describes the rows of one feature set in the first layer."""

    weight: str  # name of the array of weights
    psqt: str
    first: int  # number of the input of its first row
    inputs: int
    most_active: int  # most active features of one side of a position
    kind: type[np.signedinteger[Any]]  # integer type of the weights
    lowest: int | None = None  # smallest integer that training clips weights to; None: not clipped

    @property
    def rows(self) -> slice:
        """The table's rows among those of all feature sets."""
        return slice(self.first, self.first + self.inputs)


@dataclass(frozen=True)
class Pawn:
    """Describes how many internal units the engine prints as one pawn: a polynomial, highest power first, of m / 58.
    Here m is the material, clamped to 17 .. 78, with 1 for pawns, 3 for knights and bishops, 5 for rooks and 9 for
    queens."""

    coefficients: tuple[float, ...]

    def units(self, material: Any) -> Any:
        """Returns the internal units of one pawn, given the material of one position or an array of several."""
        return np.polyval(self.coefficients, np.clip(material, 17, 78) / 58)


@dataclass(frozen=True)
class Version:
    """Describes one architecture. The integers of the arithmetic are those of the engine. The scales of the float
    network follow from them."""

    name: str
    engine: str
    feature_set: str  # as in data.chess.features
    tables: tuple[Table, ...]
    blocks: tuple[Block, ...]  # of the feature transformer, in the file's order
    l1: int  # the width that the engine loads
    word: int  # first word of the file
    feature_hash: int
    fc_0_out: int
    transformer_one: int  # integer for 1.0 in the first layer's sums
    doubled: bool  # whether sums are doubled before they are clamped
    largest_sum: int  # sums are clamped to this
    input_one: int  # integer for 1.0 in a layer's inputs
    weight_one: tuple[int, int]  # integer for 1.0 in the weights of fc_0 and fc_1
    square_shift: tuple[int, int | None]  # right shift of the squared outputs of fc_0 and fc_1; None: no squares
    clip_shift: tuple[int, int]
    fc_2_one: float  # scale of fc_2's weights
    output_one: int  # integer for 1.0 in fc_2's sums
    skips: int  # fc_0's outputs added to the result: 1: its last, which has no activation; 2: last but one minus last
    skip_one: int  # integer for 1.0 in fc_0's outputs
    all_activations: bool  # fc_2 sees all activations of both layers, else only the clipped ones of fc_1
    cut_apart: bool  # psqt and positional term are divided by 16 separately
    pawn: Pawn

    @property
    def paired(self) -> int:
        """The number of fc_0's outputs that have activations, a square and a clipped one each."""
        return self.fc_0_out - (1 if self.skips == 1 else 0)

    @property
    def fc_1_in(self) -> int:
        return 2 * self.paired

    @property
    def fc_2_in(self) -> int:
        return self.fc_1_in + 2 * FC_1_OUT if self.all_activations else FC_1_OUT

    @property
    def inputs(self) -> int:
        return sum(table.inputs for table in self.tables)

    @property
    def bias_one(self) -> tuple[int, int]:
        """The integers that stand for 1.0 in fc_0's and fc_1's biases."""
        return self.weight_one[0] * self.input_one, self.weight_one[1] * self.input_one

    @property
    def product_factor(self) -> float:
        """The factor of a pairwise product in floats. The engine divides the integer product by 512."""
        one = self.transformer_one * (2 if self.doubled else 1)
        return one * one / 512 / self.input_one

    def square_factor(self, layer: int) -> float:
        """Returns the factor of the squared activations of fc_0 (layer 0) or fc_1 (layer 1), in floats."""
        shift = self.square_shift[layer]
        assert shift is not None
        return self.bias_one[layer] ** 2 / (1 << shift) / self.input_one

    @property
    def largest_float_sum(self) -> float:
        """The value that the first layer's sums are clamped to, in floats."""
        return self.largest_sum / (self.transformer_one * (2 if self.doubled else 1))

    @property
    def largest_float_input(self) -> float:
        """The largest activation, in floats."""
        return LARGEST_INPUT / self.input_one

    def shapes(self, l1: int) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each stored array, by name. The inputs of fc_* are padded."""
        return {
            "transformer_bias": (l1,),
            **{table.weight: (table.inputs, l1) for table in self.tables},
            **{table.psqt: (table.inputs, NUM_BUCKETS) for table in self.tables},
            "fc_0_bias": (NUM_BUCKETS, self.fc_0_out),
            "fc_0_weight": (NUM_BUCKETS, self.fc_0_out, padded(l1)),
            "fc_1_bias": (NUM_BUCKETS, FC_1_OUT),
            "fc_1_weight": (NUM_BUCKETS, FC_1_OUT, padded(self.fc_1_in)),
            "fc_2_bias": (NUM_BUCKETS,),
            "fc_2_weight": (NUM_BUCKETS, padded(self.fc_2_in)),
        }

    def kinds(self) -> dict[str, type[np.signedinteger[Any]]]:
        """Returns the integer type of each array, by name."""
        return {
            "transformer_bias": np.int16,
            **{table.weight: table.kind for table in self.tables},
            **{table.psqt: np.int32 for table in self.tables},
            **{f"fc_{i}_bias": np.int32 for i in range(3)},
            **{f"fc_{i}_weight": np.int8 for i in range(3)},
        }


def padded(inputs: int) -> int:
    """Returns the number of inputs of an affine layer as stored, rounded up to a multiple of 32."""
    return -(-inputs // 32) * 32


Count = TypeVar("Count", int, npt.NDArray[np.int64])


def bucket(piece_count: Count) -> Count:
    """Returns the output bucket (layer stack and PSQT column) that Stockfish uses for a number of pieces, kings
    included. Takes one number or an array."""
    stack: Count = (piece_count - 1) // 4
    return stack


_RAW, _LEB = Encoding.RAW, Encoding.LEB128
_HALFKA = Table("transformer_weight", "psqt_weight", 0, halfka.INPUTS, 32, np.int16)


def _threats(inputs: int, lowest: int) -> Table:
    return Table("threat_weight", "threat_psqt", halfka.INPUTS, inputs, 128, np.int8, lowest)


_THREATS_16 = _threats(59_808, -127)
_PAIRS = Table("pair_weight", "pair_psqt", halfka.INPUTS + _THREATS_16.inputs, 4_560, 96, np.int8, -127)

# Common to SFNNv5 to SFNNv14.
_FC_2022: Mapping[str, Any] = {
    "word": _WORD_2022,
    "input_one": 127,
    "weight_one": (64, 64),
    "square_shift": (19, None),
    "clip_shift": (6, 6),
    "fc_2_one": OUTPUT_SCALE / 127,
    "output_one": OUTPUT_SCALE,
    "skips": 1,
    "skip_one": 64 * 127,
    "all_activations": False,
}
# SFNNv5 to SFNNv9 and the small network differ in width, and in how the file is compressed.
_HALFKA_ONLY: Mapping[str, Any] = {
    **_FC_2022,
    "feature_set": "HalfKAv2_hm",
    "tables": (_HALFKA,),
    "feature_hash": 0x7F234CB8,
    "fc_0_out": 16,
    "transformer_one": 127,
    "doubled": True,
    "largest_sum": 254,
}
_COMPRESSED: Mapping[str, Any] = {
    **_HALFKA_ONLY,
    "blocks": tuple(Block(_LEB, (name,)) for name in ("transformer_bias", "transformer_weight", "psqt_weight")),
}
_PAWN_17 = Pawn((-13.50030198, 40.92780883, -36.82753545, 386.83004070))
_PAWN_18 = Pawn((-72.32565836, 185.93832038, -144.58862193, 416.44950446))

VERSIONS: Mapping[str, Version] = {
    version.name: version
    for version in (
        Version(
            name="SFNNv5",
            engine="Stockfish 15.1",
            l1=1024,
            blocks=tuple(Block(_RAW, (name,)) for name in ("transformer_bias", "transformer_weight", "psqt_weight")),
            cut_apart=False,
            pawn=Pawn((361,)),
            **_HALFKA_ONLY,
        ),
        Version(name="SFNNv6", engine="Stockfish 16", l1=1536, cut_apart=False, pawn=Pawn((328,)), **_COMPRESSED),
        Version(name="SFNNv8", engine="Stockfish 16.1", l1=2560, cut_apart=False, pawn=Pawn((328,)), **_COMPRESSED),
        Version(name="SFNNv9", engine="Stockfish 17.1", l1=3072, cut_apart=True, pawn=_PAWN_17, **_COMPRESSED),
        Version(
            name="small", engine="Stockfish 18, small network", l1=128, cut_apart=True, pawn=_PAWN_18, **_COMPRESSED
        ),
        Version(
            name="SFNNv10",
            engine="Stockfish 18",
            feature_set="SFNNv10",
            tables=(_HALFKA, _threats(79_856, -128)),
            blocks=(
                Block(_LEB, ("transformer_bias",)),
                Block(_RAW, ("threat_weight",)),
                Block(_LEB, ("transformer_weight",)),
                Block(_LEB, ("threat_psqt", "psqt_weight")),
            ),
            l1=1024,
            feature_hash=0x8F234CB8,
            fc_0_out=16,
            transformer_one=255,
            doubled=False,
            largest_sum=255,
            cut_apart=True,
            pawn=_PAWN_18,
            **_FC_2022,
        ),
        Version(
            name="SFNNv16",
            engine="Stockfish 19",
            feature_set="SFNNv16",
            tables=(_HALFKA, _THREATS_16, _PAIRS),
            blocks=(
                Block(_LEB, ("transformer_bias",)),
                Block(_RAW, ("threat_weight",)),
                Block(_LEB, ("threat_psqt",)),
                Block(_RAW, ("pair_weight",)),
                Block(_LEB, ("pair_psqt",)),
                Block(_LEB, ("transformer_weight",)),
                Block(_LEB, ("psqt_weight",)),
            ),
            l1=1024,
            word=_WORD_2026,
            feature_hash=0xCB685B13,
            fc_0_out=32,
            transformer_one=256,
            doubled=False,
            largest_sum=255,
            input_one=128,
            weight_one=(128, 64),
            square_shift=(21, 19),
            clip_shift=(7, 6),
            fc_2_one=128,
            output_one=16_384,
            skips=2,
            skip_one=16_384,
            all_activations=True,
            cut_apart=True,
            pawn=_PAWN_18,
        ),
    )
}
