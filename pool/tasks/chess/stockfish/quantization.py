"""Converts float parameters to the integers of a .nnue file, and back exactly. numpy only, free of torch.

The floats are the parameters in the form that the network uses: virtual features and shared layers are already added
in. They are named and shaped as the arrays of a Net, except that the weights of fc_0, fc_1 and fc_2 have no padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.quantization import Rounding, to_floats, to_integers
from pool.tasks.chess.stockfish.nnue_file import Net
from pool.tasks.chess.stockfish.versions import OUTPUT_SCALE, Version

Floats = Mapping[str, npt.NDArray[np.float32]]


def roundings(version: Version) -> dict[str, Rounding]:
    """Returns for each array, by name, how its floats are stored as integers."""
    one = version.transformer_one
    tables: dict[str, Rounding] = {}
    for table in version.tables:
        highest = None if table.lowest is None else 127
        tables[table.weight] = Rounding(one, table.kind, table.lowest, highest)
        tables[table.psqt] = Rounding(OUTPUT_SCALE, np.int32)
    return {
        "transformer_bias": Rounding(one, np.int16),
        **tables,
        "fc_0_bias": Rounding(version.bias_one[0], np.int32),
        "fc_0_weight": Rounding(version.weight_one[0], np.int8, -127, 127),
        "fc_1_bias": Rounding(version.bias_one[1], np.int32),
        "fc_1_weight": Rounding(version.weight_one[1], np.int8, -127, 127),
        "fc_2_bias": Rounding(version.output_one, np.int32),
        "fc_2_weight": Rounding(version.fc_2_one, np.int8, -127, 127),
    }


def quantize(version: Version, floats: Floats, description: str, clip: bool) -> Net:
    """Rounds the floats to an integer network.

    With `clip` the int8 weights are clamped to their range, as in training. Any other value that does not fit its
    integer type raises ValueError, which names the array, how many such values there are, the extreme one, and the
    range.
    """
    integers = {name: to_integers(name, floats[name], rule, clip) for name, rule in roundings(version).items()}
    shapes = version.shapes(len(integers["transformer_bias"]))
    return Net(version, description, {name: _padded(array, shapes[name]) for name, array in integers.items()})


def dequantize(net: Net) -> dict[str, npt.NDArray[np.float32]]:
    """Returns floats from which `quantize` makes the same integers again.

    Padding is left out, as nothing reads it. Raises ValueError for integers that are too large for float32 to hold
    exactly.
    """
    floats = {name: to_floats(name, net[name], rule) for name, rule in roundings(net.version).items()}
    for name, inputs in (("fc_0", net.l1), ("fc_1", net.version.fc_1_in), ("fc_2", net.version.fc_2_in)):
        floats[f"{name}_weight"] = floats[f"{name}_weight"][..., :inputs]
    return floats


def _padded(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Pads an array with zeros to the shape of the file."""
    if array.shape == shape:
        return array
    return np.pad(array, [(0, wanted - size) for wanted, size in zip(shape, array.shape, strict=True)])
