"""Converts a network's floats to the integers that an engine computes with, and back exactly. Provides the engine's
int32 arithmetic. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_EXACT = 1 << 23  # float32 keeps integers up to here through a division by the scale and back
_BLOCK_SIZE = 1 << 15  # numbers that are converted at a time


Ints = npt.NDArray[np.int64]
RoundingMode = Literal["half to even", "half away from zero", "towards zero"]


@dataclass(frozen=True)
class Rounding:
    """Describes how one array is stored: integer = round(float * scale), with the product in double precision."""

    scale: float
    kind: type[np.signedinteger[Any]]
    lowest: int | None = None  # training clips weights to these integers; None: all that the type holds
    highest: int | None = None
    mode: RoundingMode = "half to even"
    remedy: str = ""  # advice for messages: what keeps values within bounds

    @property
    def clips(self) -> bool:
        """Whether training clips the array to its bounds."""
        return self.lowest is not None

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest integer that the array may have."""
        info = np.iinfo(self.kind)
        return (
            int(info.min) if self.lowest is None else self.lowest,
            int(info.max) if self.highest is None else self.highest,
        )

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest float that the array may have."""
        low, high = self.bounds
        return low / self.scale, high / self.scale


def to_integers(name: str, floats: npt.NDArray[np.float32], rule: Rounding, clip: bool) -> npt.NDArray[Any]:
    """Rounds an array by its rule. With `clip`, an array that has limits is clamped to them first. Raises ValueError
    for any other value that does not fit. The message names the array, the number of such values, the most extreme one,
    and what would prevent it."""
    blocks = _split_flat(floats)
    num_infinite = sum(int(np.count_nonzero(~np.isfinite(block))) for _, block in blocks)
    if num_infinite:
        raise ValueError(f"{name}: {num_infinite} of {floats.size} values are not finite")
    low, high = rule.bounds
    integers = np.empty(floats.size, rule.kind)
    num_outside, extreme, distance = 0, 0.0, 0.0
    for place, block in blocks:
        scaled = block.astype(np.float64) * rule.scale
        if rule.clips and clip:
            np.clip(scaled, low, high, out=scaled)
        scaled = round_values(scaled, rule.mode)
        outside = np.flatnonzero((scaled < low) | (scaled > high))
        if not outside.size:
            integers[place] = scaled
            continue
        num_outside += outside.size
        worst = outside[np.argmax(np.abs(scaled[outside]))]
        if abs(scaled[worst]) > distance:
            extreme, distance = float(block[worst]), abs(scaled[worst])
    if num_outside:
        advice = rule.remedy
        if not advice and rule.clips:
            advice = "model.clip_weights = true clamps them"
        remedy = f"; {advice}" if advice else ""
        raise ValueError(
            f"{name}: {num_outside} of {floats.size} values do not fit {np.dtype(rule.kind)} (times {rule.scale:g}); "
            f"the most extreme is {extreme:.6g}, allowed is {low / rule.scale:.6g} to {high / rule.scale:.6g}{remedy}"
        )
    return integers.reshape(floats.shape)


def round_values(values: npt.NDArray[np.float64], mode: RoundingMode) -> npt.NDArray[np.float64]:
    """Rounds values to whole numbers, which stay float64. `mode` decides about values halfway between two."""
    if mode == "half to even":
        return np.rint(values)
    cut: npt.NDArray[np.float64] = np.trunc(values)
    if mode == "half away from zero":
        cut += np.sign(values) * (np.abs(values - cut) >= 0.5)  # adding 0.5 first would round 0.49999999999999994 up
    return cut


def to_floats(name: str, integers: npt.NDArray[Any], rule: Rounding) -> npt.NDArray[np.float32]:
    """Converts integers to floats from which `to_integers` makes the same integers again. Raises ValueError for
    integers that are too large for float32 to hold exactly."""
    blocks = _split_flat(integers)
    num_large = sum(int(np.count_nonzero((block > _EXACT) | (block < -_EXACT))) for _, block in blocks)
    if num_large:
        extreme = int(integers.flat[int(np.argmax(np.abs(integers.astype(np.int64))))])
        raise ValueError(
            f"{name}: {num_large} of {integers.size} values are too large for float32 to hold exactly; the most "
            f"extreme is {extreme}, allowed is up to {_EXACT}"
        )
    floats = np.empty(integers.size, np.float32)
    for place, block in blocks:
        floats[place] = block / rule.scale
    return floats.reshape(integers.shape)


def _split_flat(values: npt.NDArray[Any]) -> list[tuple[slice, npt.NDArray[Any]]]:
    """Splits an array, flattened, into blocks that are small enough for temporary doubles of their size to stay in the
    cache. Returns the slice and the values of each block."""
    flat = values.reshape(-1)
    places = [slice(start, start + _BLOCK_SIZE) for start in range(0, flat.size, _BLOCK_SIZE)]
    return [(place, flat[place]) for place in places]


def truncating_divide(value: Ints, divisor: int) -> Ints:
    """Divides and rounds toward zero, as C does. Numpy's division rounds down."""
    quotient: Ints = np.sign(value) * (np.abs(value) // divisor)
    return quotient


def wrap_int32(value: Ints) -> Ints:
    """Returns the values that an int32 would hold after overflow."""
    return value.astype(np.int32).astype(np.int64)
