"""Keeps curves of any number of records with few points."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

MOST_POINTS = 1000  # of a curve: a chart has fewer pixels
_LARGEST = sys.float_info.max


class Curves:
    """Curves by name. Each point is the mean over `span` consecutive records. The span doubles whenever there are too
    many points."""

    def __init__(self) -> None:
        self._span = 1
        self._in_newest = 0  # number of records in the newest point
        self._points: list[dict[str, tuple[float, int]]] = []  # by name: sum and count of finite numbers

    def add(self, numbers: Mapping[str, float]) -> None:
        """Adds the numbers of one more record."""
        if self._in_newest == self._span or not self._points:
            if len(self._points) == MOST_POINTS:
                self._halve()
            self._points.append({})
            self._in_newest = 0
        _add(self._points[-1], {name: (float(value), 1) for name, value in numbers.items() if abs(value) <= _LARGEST})
        self._in_newest += 1

    def columns(self) -> dict[str, list[float | None]]:
        """Returns the points of each curve, lists of the same length. A point is None where its records have no finite
        number."""
        names = dict.fromkeys(name for point in self._points for name in point)
        return {name: [_mean(point.get(name)) for point in self._points] for name in names}

    def _halve(self) -> None:
        """Merges each two consecutive points into one."""
        for one, other in zip(self._points[::2], self._points[1::2], strict=True):
            _add(one, other)
        del self._points[1::2]
        self._span *= 2


def _add(point: dict[str, tuple[float, int]], numbers: Mapping[str, tuple[float, int]]) -> None:
    """Adds sums and counts, by name, to those of a point."""
    for name, (total, count) in numbers.items():
        before, counted = point.get(name, (0.0, 0))
        point[name] = (before + total, counted + count)


def _mean(number: tuple[float, int] | None) -> float | None:
    mean = math.nan if number is None else number[0] / number[1]
    return mean if math.isfinite(mean) else None
