"""The shape of the network of Stockfish 15.1 (SFNNv5) with the width of its first layer left open.

Sizes, hashes and scales, each once; the file format, the quantizer, the evaluator and the model meet
here. Free of torch. Stockfish itself loads l1 = 1024 only; other widths follow the same rules.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEATURE_SET = "HalfKAv2_hm"
NUM_FEATURES = 22_528  # 32 king buckets x 11 planes x 64 squares
NUM_VIRTUAL = 768  # 12 planes x 64 squares: what HalfKAv2_hm^ adds, numbered from NUM_FEATURES on
PLANES = 11
SQUARES = 64
KING_PLANE = 10  # of both kings; among the virtual planes own king 10, enemy king 11

NUM_BUCKETS = 8
FC_0_OUT = 16
PAIR_OUT = FC_0_OUT - 1  # the last output of fc_0 skips the other layers
FC_1_IN = 2 * PAIR_OUT  # squared, then clipped
FC_1_OUT = 32

VERSION = 0x7AF32F20
_FEATURE_HASH = 0x7F234CB8
_STACK_START = 0xEC42E90D
_ACTIVATION = 0x538D24C7
_AFFINE = 0xCC03DAE4
_MASK = 0xFFFFFFFF

L1_STEP = 8  # l1 is a multiple of it
MAX_L1 = 1 << 14

# One unit of the float network is 600 internal units, and 16 times that in the integer network.
OUTPUT_UNIT = 600
OUTPUT_SCALE = 16 * OUTPUT_UNIT
ACTIVATION_SCALE = 127  # of what enters a layer: 1.0 is 127
WEIGHT_SCALE = 64  # of the weights of fc_0 and fc_1
FC_2_WEIGHT_SCALE = OUTPUT_SCALE / ACTIVATION_SCALE
HIDDEN_BIAS_SCALE = WEIGHT_SCALE * ACTIVATION_SCALE

# Limits of what an int8 weight can say, in float units: 127 steps.
HIDDEN_WEIGHT_LIMIT = 127 / WEIGHT_SCALE
FC_2_WEIGHT_LIMIT = 127 / FC_2_WEIGHT_SCALE


def bucket(piece_count: int) -> int:
    """The layer stack and PSQT column that Stockfish uses; kings are counted."""
    return (piece_count - 1) // 4


def padded(inputs: int) -> int:
    """Inputs of an affine layer as stored: a multiple of 32."""
    return -(-inputs // 32) * 32


def transformer_hash(l1: int) -> int:
    """Hash in front of the transformer's parameters."""
    return _FEATURE_HASH ^ (2 * l1)


def l1_of_transformer_hash(value: int) -> int | None:
    """The width that a transformer hash stands for; None if it belongs to another architecture."""
    doubled = value ^ _FEATURE_HASH
    l1 = doubled // 2
    return l1 if doubled % 2 == 0 and 0 < l1 <= MAX_L1 and l1 % L1_STEP == 0 else None


def stack_hash(l1: int) -> int:
    """Hash in front of each layer stack."""
    value = _affine(_STACK_START ^ (2 * l1), FC_0_OUT)
    value = _affine((value + _ACTIVATION) & _MASK, FC_1_OUT)
    return _affine((value + _ACTIVATION) & _MASK, 1)


def network_hash(l1: int) -> int:
    """Hash in the file's header."""
    return transformer_hash(l1) ^ stack_hash(l1)


def _affine(previous: int, outputs: int) -> int:
    return ((_AFFINE + outputs) & _MASK) ^ (previous >> 1) ^ ((previous << 31) & _MASK)


def virtual_features() -> npt.NDArray[np.int64]:
    """[NUM_FEATURES]: the virtual feature (0 .. NUM_VIRTUAL - 1) that each real one is a case of.

    Same plane and square without the king bucket. Both kings share a real plane; the own king is the
    one on the square that the king bucket stands for.
    """
    feature = np.arange(NUM_FEATURES)
    square = feature % SQUARES
    plane = feature // SQUARES % PLANES
    king_bucket = feature // (SQUARES * PLANES)
    own_king = (7 - king_bucket // 4) * 8 + 7 - king_bucket % 4
    enemy_king = (plane == KING_PLANE) & (square != own_king)
    virtual: npt.NDArray[np.int64] = (plane + enemy_king) * SQUARES + square
    return virtual
