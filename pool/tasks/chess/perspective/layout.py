"""Converts tensors to and from the order in which their numbers lie in a file. Free of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def to_file_order(
    name: str, values: npt.NDArray[Any], *, transpose: bool = False, chunk: int | None = None
) -> npt.NDArray[Any]:
    """Returns the numbers of a tensor in the order of a file, [size]. The tensor is shaped as in
    pool.tasks.chess.perspective.shape.

    Without options the order is that of bullet: all outputs of input 0, all of input 1, and so on, where outputs are
    bucket by bucket. transpose: all inputs of output 0, and so on. chunk: bucket by bucket, in each the first `chunk`
    inputs of output 0, of output 1, and so on, then the next inputs. Biases have one order.
    """
    if name.startswith("l0"):
        return (values.T if transpose else values).reshape(-1)
    if not name.endswith("w"):
        return values.reshape(-1)
    weights = values.reshape(-1, *values.shape[-2:])  # [buckets, outputs, inputs]
    if chunk is not None:
        return weights.reshape(*weights.shape[:2], -1, chunk).transpose(0, 2, 1, 3).reshape(-1)
    return (weights if transpose else weights.transpose(2, 0, 1)).reshape(-1)


def from_file_order(
    name: str, flat: npt.NDArray[Any], shape: tuple[int, ...], *, transpose: bool = False, chunk: int | None = None
) -> npt.NDArray[Any]:
    """Returns the tensor of this shape, given its numbers in the order of a file. The inverse of `to_file_order`."""
    if name.startswith("l0"):
        return np.ascontiguousarray(flat.reshape(shape[::-1]).T) if transpose else flat.reshape(shape)
    places = to_file_order(name, np.arange(flat.size).reshape(shape), transpose=transpose, chunk=chunk)
    values = np.empty_like(flat)
    values[places] = flat
    return values.reshape(shape)
