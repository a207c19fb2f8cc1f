"""The hashes of a .nnue file, which name its architecture. Free of torch."""

from __future__ import annotations

from pool.tasks.stockfish.quantized.versions import FC_1_OUT, L1_STEP, MAX_L1, Version

_STACK_START = 0xEC42E90D
_ACTIVATION = 0x538D24C7
_AFFINE = 0xCC03DAE4
_MASK = 0xFFFFFFFF


def transformer_hash(version: Version, l1: int) -> int:
    """In front of the transformer's parameters."""
    return version.feature_hash ^ (2 * l1)


def l1_of_transformer_hash(version: Version, value: int) -> int | None:
    """The width that a transformer hash stands for; None if it belongs to other inputs."""
    doubled = value ^ version.feature_hash
    l1 = doubled // 2
    return l1 if doubled % 2 == 0 and 0 < l1 <= MAX_L1 and l1 % L1_STEP == 0 else None


def stack_hash(version: Version, l1: int) -> int:
    """In front of each layer stack."""
    value = _affine(_STACK_START ^ (2 * l1), version.fc_0_out)
    value = _affine((value + _ACTIVATION) & _MASK, FC_1_OUT)
    return _affine((value + _ACTIVATION) & _MASK, 1)


def network_hash(version: Version, l1: int) -> int:
    """In the file's header."""
    return transformer_hash(version, l1) ^ stack_hash(version, l1)


def _affine(previous: int, outputs: int) -> int:
    return ((_AFFINE + outputs) & _MASK) ^ (previous >> 1) ^ ((previous << 31) & _MASK)
