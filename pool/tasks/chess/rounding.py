"""From the floats of a network to the integers that an engine computes with, and back exactly. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_EXACT = 1 << 23  # integers up to here survive a division by the scale, in float32, and back
_PIECE = 1 << 15  # numbers


Way = Literal["half to even", "half away from zero", "towards zero"]


@dataclass(frozen=True)
class Rounding:
    """How one array is stored: integer = round(float * scale), the product in double."""

    scale: float
    kind: type[np.signedinteger[Any]]
    lowest: int | None = None  # training keeps the weights between these, in steps; None: whatever the type holds
    highest: int | None = None
    way: Way = "half to even"
    remedy: str = ""  # what keeps values within bounds, in words

    @property
    def clips(self) -> bool:
        return self.lowest is not None

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        info = np.iinfo(self.kind)
        return (
            int(info.min) if self.lowest is None else self.lowest,
            int(info.max) if self.highest is None else self.highest,
        )


def to_integers(name: str, floats: npt.NDArray[np.float32], rule: Rounding, clip: bool) -> npt.NDArray[Any]:
    """With `clip` an array with limits is clamped to them. Any other value that does not fit raises ValueError: the
    array's name, how many, the extreme one, and what would have prevented it."""
    pieces = _pieces(floats)
    broken = sum(int(np.count_nonzero(~np.isfinite(piece))) for _, piece in pieces)
    if broken:
        raise ValueError(f"{name}: {broken} of {floats.size} values are not finite")
    low, high = rule.bounds
    integers = np.empty(floats.size, rule.kind)
    outside, extreme, distance = 0, 0.0, 0.0
    for place, piece in pieces:
        scaled = piece.astype(np.float64) * rule.scale
        if rule.clips and clip:
            np.clip(scaled, low, high, out=scaled)
        scaled = rounded(scaled, rule.way)
        wrong = np.flatnonzero((scaled < low) | (scaled > high))
        if not wrong.size:
            integers[place] = scaled
            continue
        outside += wrong.size
        worst = wrong[np.argmax(np.abs(scaled[wrong]))]
        if abs(scaled[worst]) > distance:
            extreme, distance = float(piece[worst]), abs(scaled[worst])
    if outside:
        clamping = "model.clip_weights = true clamps them" if rule.clips else ""
        remedy = f"; {rule.remedy or clamping}" if rule.remedy or clamping else ""
        raise ValueError(
            f"{name}: {outside} of {floats.size} values do not fit {np.dtype(rule.kind)} (times {rule.scale:g}); "
            f"the most extreme is {extreme:.6g}, allowed is {low / rule.scale:.6g} to {high / rule.scale:.6g}{remedy}"
        )
    return integers.reshape(floats.shape)


def rounded(values: npt.NDArray[np.float64], way: Way) -> npt.NDArray[np.float64]:
    """Whole numbers."""
    if way == "half to even":
        return np.rint(values)
    cut: npt.NDArray[np.float64] = np.trunc(values)
    if way == "half away from zero":
        cut += np.sign(values) * (np.abs(values - cut) >= 0.5)  # adding 0.5 first would round 0.49999999999999994 up
    return cut


def to_floats(name: str, integers: npt.NDArray[Any], rule: Rounding) -> npt.NDArray[np.float32]:
    """Floats that `to_integers` turns into the same integers again. Raises ValueError for integers that float32 can't
    tell apart."""
    pieces = _pieces(integers)
    large = sum(int(np.count_nonzero((piece > _EXACT) | (piece < -_EXACT))) for _, piece in pieces)
    if large:
        extreme = int(integers.flat[int(np.argmax(np.abs(integers.astype(np.int64))))])
        raise ValueError(
            f"{name}: {large} of {integers.size} values are too large for float32 to hold exactly; the most extreme is "
            f"{extreme}, allowed is up to {_EXACT}"
        )
    floats = np.empty(integers.size, np.float32)
    for place, piece in pieces:
        floats[place] = piece / rule.scale
    return floats.reshape(integers.shape)


def _pieces(values: npt.NDArray[Any]) -> list[tuple[slice, npt.NDArray[Any]]]:
    """What is computed beside a piece, in doubles, stays in the cache."""
    flat = values.reshape(-1)
    places = [slice(start, start + _PIECE) for start in range(0, flat.size, _PIECE)]
    return [(place, flat[place]) for place in places]
