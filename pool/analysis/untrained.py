"""Finds features of data that a network was never trained on: rows of its tables that no batch has touched.

Such a row adds its first random value, or nothing, to a prediction. Most often the reason is that ids are spelled
differently than in training.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from loader.files.regular import open_regular
from pool.checkpoint.state import OPTIMIZER
from pool.exchange.layout import remove_member_prefix
from pool.export.load import TrainedNetwork, build_initial_model
from pool.metrics.feature_uses import FeatureUses, UntrainedShare
from pool.nn.sparse_linear import SparseLinear

_DECAY_TOLERANCE = 1e-4  # relative deviation of each number in a row that only weight decay changed


def untrained_shares(uses: FeatureUses, trained: TrainedNetwork) -> tuple[UntrainedShare, ...]:
    """Returns the share of untrained features for each field that the network has tables for. Returns nothing where
    that can't be known: for a network that did not begin with newly drawn weights, or was written by another version of
    torch.

    A row counts as untrained if it equals that of a new model, except for weight decay, and if the optimizer's sums of
    squares contain no gradient of it.
    """
    first = build_initial_model(trained)
    if first is None:
        return ()
    initial = dict(first.named_parameters())
    used_fields = uses.of_fields()
    shares = []
    for field, tables in _tables(trained.model).items():
        used = used_fields.get(field)
        if used is None:
            continue
        untouched = np.ones(len(used.features), bool)
        for name, weight in tables.items():
            untouched &= _untouched_rows(trained, name, weight, initial[name].detach(), used.features)
        shares.append(used.share(untouched))
    return tuple(shares)


def _tables(model: nn.Module) -> Mapping[str, Mapping[str, Tensor]]:
    """Returns the weights of the sparse tables of a model, by field and then by parameter name."""
    tables: dict[str, dict[str, Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, SparseLinear):
            tables.setdefault(module.field, {})[f"{name}.weight" if name else "weight"] = module.weight.detach()
    return tables


def _untouched_rows(
    trained: TrainedNetwork, name: str, weight: Tensor, initial: Tensor, rows: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Returns for each of `rows` whether training left it unchanged, except for weight decay. The optimizer's state is
    read only if the weights alone do not decide."""
    unchanged: npt.NDArray[np.bool_] = (weight == initial).all(1).numpy()
    if unchanged.any() and not unchanged[rows].any():
        return unchanged[rows]
    without_gradient = _rows_without_gradient(trained, name, weight)
    if unchanged.any():
        return unchanged[rows] & without_gradient[rows]
    return _only_decayed(weight[without_gradient], initial[without_gradient], without_gradient)[rows]


def _only_decayed(weight: Tensor, initial: Tensor, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Returns for each row of the table whether it is among `rows`, and all its numbers are the initial ones times one
    factor that these rows share. `weight` and `initial` hold only the rows that are True in `rows`."""
    weight, initial = weight.double(), initial.double()
    ratios = (weight / initial)[initial != 0]
    decayed = np.zeros(len(rows), bool)
    if len(ratios) and weight.shape[1] > 1:
        expected = ratios.median() * initial
        decayed[rows] = ((weight - expected).abs() <= _DECAY_TOLERANCE * expected.abs()).all(1).numpy()
    return decayed


def _rows_without_gradient(trained: TrainedNetwork, name: str, weight: Tensor) -> npt.NDArray[np.bool_]:
    """Returns for each row whether the optimizer's sums of squares are as small as the smallest of the table. All rows
    are True if the optimizer has no such sums."""
    has_no_gradient = torch.ones(len(weight), dtype=torch.bool)
    for sums in _optimizer_tensors(trained, name):
        if sums.shape[:1] == weight.shape[:1] and sums.is_floating_point() and float(sums.min()) >= 0:
            has_no_gradient &= (sums == sums.min()).reshape(len(sums), -1).all(1)
    return has_no_gradient.numpy()


def _optimizer_tensors(trained: TrainedNetwork, name: str) -> Iterator[Tensor]:
    """Yields the tensors of a parameter's optimizer state. For an ensemble they are those of all members, which see the
    same batches."""
    path = trained.checkpoint / OPTIMIZER
    try:
        os.close(open_regular(path))  # checks that it is a file: opening a pipe would block
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                parameter, _, _ = key.rpartition("/")
                if remove_member_prefix(parameter) == name:
                    tensor: Any = file.get_tensor(key)
                    yield tensor
    except (OSError, SafetensorError):
        return
