"""How much memory an optimizer's state takes: one step of it on parameters without memory."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pool.buckets.tensors import trained

UNKNOWN = 3  # times the parameters, for an optimizer that can't step without memory


def optimizer_nbytes(model: nn.Module, name: str, args: Mapping[str, Any]) -> int:
    """Bytes of the state of class `name`; `model` is on the meta device."""
    parameters = [parameter for _, parameter in trained(model)]
    try:
        module, _, class_name = name.rpartition(".")
        keywords = {key: tuple(value) if isinstance(value, list) else value for key, value in args.items()}
        optimizer = getattr(importlib.import_module(module), class_name)(parameters, **keywords)
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
        entries = [entry for state in optimizer.state.values() for entry in state.values()]
    except Exception:  # any class may be given; what is wrong with it is said where it is used
        return UNKNOWN * sum(parameter.nbytes for parameter in parameters)
    return sum(entry.nbytes for entry in entries if isinstance(entry, torch.Tensor))
