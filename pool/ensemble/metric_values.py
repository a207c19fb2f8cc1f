"""Copies the arrays that a task returns for its metrics into memory that outlives the worker."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


def collect_arrays(result: object, targets: Mapping[str, npt.NDArray[Any]]) -> str:
    """Copies the arrays in the result of `validate` to `targets`, by name.

    The result is a loss and a mapping of arrays. Returns a description of why the result can't be used; "" if it can.
    """
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        return f"gave {reprlib.repr(result)}: it must be the loss and a mapping of arrays by name"
    arrays = result[1]
    if arrays.keys() != targets.keys():
        return f"gave the arrays {_format_names(arrays)}; the metrics need {_format_names(targets)}"
    for name, target in targets.items():
        problem = _copy(arrays[name], target)
        if problem:
            return f"gave for {name} {problem}"
    return ""


def _format_names(arrays: Mapping[str, Any]) -> str:
    return ", ".join(sorted(map(str, arrays))) or "(none)"


def _copy(array: object, target: npt.NDArray[Any]) -> str:
    """Copies a tensor to an array. Returns a description of why the tensor does not fit; "" if it does."""
    if not isinstance(array, Tensor):
        return f"{type(array).__name__}, which is no tensor"
    if tuple(array.shape) != target.shape:
        return f"a tensor of shape {tuple(array.shape)}: it must be {target.shape}"
    if array.is_complex() or array.is_meta:
        return f"numbers that are {'complex' if array.is_complex() else 'on the device meta'}"
    if array.layout != torch.strided:
        return f"a tensor of layout {array.layout}: it must be dense"
    torch.from_numpy(target).copy_(array)
    return ""
