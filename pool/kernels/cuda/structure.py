"""Structures that kernels take by value, laid out as in their sources."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from torch import Tensor

Pointer, Float, UInt32, UInt64 = ctypes.c_void_p, ctypes.c_float, ctypes.c_uint32, ctypes.c_uint64


def structure(**fields: tuple[Any, Sequence[Any]]) -> ctypes.Structure:
    """Arrays by name, each of a type and with its values; pointers are tensors, or None."""
    shape = tuple((name, kind, len(values)) for name, (kind, values) in fields.items())
    made = _type(shape)()
    for name, (kind, values) in fields.items():
        getattr(made, name)[:] = [_address(value) for value in values] if kind is Pointer else values
    return made


def _address(tensor: Tensor | None) -> int:
    assert tensor is None or tensor.is_contiguous()
    return 0 if tensor is None else tensor.data_ptr()


@cache
def _type(shape: tuple[tuple[str, Any, int], ...]) -> type[ctypes.Structure]:
    return type("Structure", (ctypes.Structure,), {"_fields_": [(name, kind * count) for name, kind, count in shape]})
