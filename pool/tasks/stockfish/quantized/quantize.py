"""From float parameters to the integers of a .nnue file, and back exactly. numpy only, free of torch.

Floats are the parameters as the network uses them: extra features and shared layers already added in,
named and shaped as the arrays of NnueNet, except that the weights of fc_0 and fc_1 have no padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.rounding import Rounding, to_floats, to_integers
from pool.tasks.stockfish.quantized import arch
from pool.tasks.stockfish.quantized.nnue_file import NnueNet

Floats = Mapping[str, npt.NDArray[np.float32]]

_RULES = {
    "transformer_bias": Rounding(arch.ACTIVATION_SCALE, np.int16),
    "transformer_weight": Rounding(arch.ACTIVATION_SCALE, np.int16),
    "psqt_weight": Rounding(arch.OUTPUT_SCALE, np.int32),
    "fc_0_bias": Rounding(arch.HIDDEN_BIAS_SCALE, np.int32),
    "fc_0_weight": Rounding(arch.WEIGHT_SCALE, np.int8, limit=127),
    "fc_1_bias": Rounding(arch.HIDDEN_BIAS_SCALE, np.int32),
    "fc_1_weight": Rounding(arch.WEIGHT_SCALE, np.int8, limit=127),
    "fc_2_bias": Rounding(arch.OUTPUT_SCALE, np.int32),
    "fc_2_weight": Rounding(arch.FC_2_WEIGHT_SCALE, np.int8, limit=127),
}


def quantize(floats: Floats, description: str, clip: bool) -> NnueNet:
    """The integer network.

    With `clip` the weights of fc_0, fc_1 and fc_2 are clamped to +-127 steps, as in training. Any other
    value that does not fit its integer type raises ValueError: the layer, how many, and the extreme one.
    """
    integers = {name: to_integers(name, floats[name], rule, clip) for name, rule in _RULES.items()}
    l1 = len(integers["transformer_bias"])
    integers["fc_0_weight"] = _padded(integers["fc_0_weight"], arch.padded(l1))
    integers["fc_1_weight"] = _padded(integers["fc_1_weight"], arch.padded(arch.FC_1_IN))
    return NnueNet(description, **integers)


def dequantize(net: NnueNet) -> dict[str, npt.NDArray[np.float32]]:
    """Floats that `quantize` turns into the same integers again.

    Padding is left out: nothing reads it. Raises ValueError for integers that float32 can't tell apart.
    """
    floats = {name: to_floats(name, getattr(net, name), rule) for name, rule in _RULES.items()}
    floats["fc_0_weight"] = floats["fc_0_weight"][:, :, : net.l1]
    floats["fc_1_weight"] = floats["fc_1_weight"][:, :, : arch.FC_1_IN]
    return floats


def _padded(weight: npt.NDArray[Any], inputs: int) -> npt.NDArray[Any]:
    """Zero columns up to `inputs`."""
    return np.pad(weight, [(0, 0), (0, 0), (0, inputs - weight.shape[2])])
