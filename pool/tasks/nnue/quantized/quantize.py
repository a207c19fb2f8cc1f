"""From float parameters to the integers of a .nnue file, and back exactly. numpy only, free of torch.

Floats are the parameters as the network uses them: extra features and shared layers already added in,
named and shaped as the arrays of NnueNet, except that the weights of fc_0 and fc_1 have no padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.nnue.quantized import arch
from pool.tasks.nnue.quantized.nnue_file import NnueNet

Floats = Mapping[str, npt.NDArray[np.float32]]

_EXACT = 1 << 23  # integers up to here survive a division by the scale, in float32, and back


@dataclass(frozen=True)
class _Rule:
    """How one array is stored: integer = round(float * scale), half to even."""

    scale: float
    kind: type[np.signedinteger[Any]]
    clamped: bool = False  # to +-127 steps, the range that training keeps the weights in


_RULES = {
    "transformer_bias": _Rule(arch.ACTIVATION_SCALE, np.int16),
    "transformer_weight": _Rule(arch.ACTIVATION_SCALE, np.int16),
    "psqt_weight": _Rule(arch.OUTPUT_SCALE, np.int32),
    "fc_0_bias": _Rule(arch.HIDDEN_BIAS_SCALE, np.int32),
    "fc_0_weight": _Rule(arch.WEIGHT_SCALE, np.int8, clamped=True),
    "fc_1_bias": _Rule(arch.HIDDEN_BIAS_SCALE, np.int32),
    "fc_1_weight": _Rule(arch.WEIGHT_SCALE, np.int8, clamped=True),
    "fc_2_bias": _Rule(arch.OUTPUT_SCALE, np.int32),
    "fc_2_weight": _Rule(arch.FC_2_WEIGHT_SCALE, np.int8, clamped=True),
}


def quantize(floats: Floats, description: str, clip: bool) -> NnueNet:
    """The integer network.

    With `clip` the weights of fc_0, fc_1 and fc_2 are clamped to +-127 steps, as in training. Any other
    value that does not fit its integer type raises ValueError: the layer, how many, and the extreme one.
    """
    integers = {name: _to_integers(name, floats[name], rule, clip) for name, rule in _RULES.items()}
    l1 = len(integers["transformer_bias"])
    integers["fc_0_weight"] = _padded(integers["fc_0_weight"], arch.padded(l1))
    integers["fc_1_weight"] = _padded(integers["fc_1_weight"], arch.padded(arch.FC_1_IN))
    return NnueNet(description, **integers)


def dequantize(net: NnueNet) -> dict[str, npt.NDArray[np.float32]]:
    """Floats that `quantize` turns into the same integers again.

    Padding is left out: nothing reads it. Raises ValueError for integers that float32 can't tell apart.
    """
    floats = {name: _to_floats(name, getattr(net, name), rule) for name, rule in _RULES.items()}
    floats["fc_0_weight"] = floats["fc_0_weight"][:, :, : net.l1]
    floats["fc_1_weight"] = floats["fc_1_weight"][:, :, : arch.FC_1_IN]
    return floats


def _to_integers(name: str, floats: npt.NDArray[np.float32], rule: _Rule, clip: bool) -> npt.NDArray[Any]:
    broken = int(np.count_nonzero(~np.isfinite(floats)))
    if broken:
        raise ValueError(f"{name}: {broken} of {floats.size} values are not finite")
    scaled = floats.astype(np.float64) * rule.scale
    if rule.clamped and clip:
        np.clip(scaled, -127, 127, out=scaled)
    np.rint(scaled, out=scaled)
    info = np.iinfo(rule.kind)
    low, high = (-127, 127) if rule.clamped else (info.min, info.max)
    outside = int(np.count_nonzero((scaled < low) | (scaled > high)))
    if outside:
        extreme = float(floats.flat[int(np.argmax(np.abs(scaled)))])
        remedy = "; model.clip_weights = true clamps them" if rule.clamped else ""
        raise ValueError(
            f"{name}: {outside} of {floats.size} values do not fit {info.dtype} (times {rule.scale:g}); "
            f"the most extreme is {extreme:.6g}, allowed is {low / rule.scale:.6g} to {high / rule.scale:.6g}{remedy}"
        )
    return scaled.astype(rule.kind)


def _to_floats(name: str, integers: npt.NDArray[Any], rule: _Rule) -> npt.NDArray[np.float32]:
    large = int(np.count_nonzero((integers > _EXACT) | (integers < -_EXACT)))
    if large:
        extreme = int(integers.flat[int(np.argmax(np.abs(integers.astype(np.int64))))])
        raise ValueError(
            f"{name}: {large} of {integers.size} values are too large for float32 to hold exactly; the most extreme is "
            f"{extreme}, allowed is up to {_EXACT}"
        )
    return (integers / rule.scale).astype(np.float32)


def _padded(weight: npt.NDArray[Any], inputs: int) -> npt.NDArray[Any]:
    """Zero columns up to `inputs`."""
    return np.pad(weight, [(0, 0), (0, 0), (0, inputs - weight.shape[2])])
