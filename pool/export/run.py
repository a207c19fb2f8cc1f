"""Provides the `predict` method and the data settings of a checkpoint's run, which predictions need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from loader.plugins.interface import find_call_problem
from loader.stream.sources import SOURCES, bundled_format_names
from pool.config.changes import Change
from pool.config.load import apply_changes
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.export.load import TrainedNetwork
from pool.nn.batch import TensorBatch
from pool.run_folder import strict_json

Method = Callable[[nn.Module, TensorBatch], torch.Tensor]


def predict_method(trained: TrainedNetwork, verb: str) -> Method:
    """Returns the task's `predict`. `verb`: name of the command. Raises ConfigError if the task has none that can be
    called."""
    method = getattr(trained.task, "predict", None)
    if method is None:
        raise ConfigError(
            f"{verb}: the task {trained.name} has no method predict(model, batch), which gives a tensor of [batch] or "
            "[batch, k]: add it"
        )
    if problem := find_call_problem(method, ("model", "batch")):
        raise ConfigError(f"{verb}: the task {trained.name}: its method predict {problem}")
    predicts: Method = method
    return predicts


def build_data_config(
    trained: TrainedNetwork, changes: Sequence[Change], verb: str, sections: Sequence[str] = ("data",)
) -> Config:
    """Returns the settings of the run's `sections` as a config, with `changes` applied.

    Code that the checkpoint names is imported only if `changes` name it too. `verb`: name of the command. Raises
    ConfigError.
    """
    data = trained.config.get("data")
    if not isinstance(data, Mapping):
        raise strict_json.foreign_content_error(trained.checkpoint, "config.data: a section is expected")
    recorded = {name: trained.config.get(name) for name in sections}
    tree = json.loads(json.dumps({"task": trained.name, **recorded, "data": {**data, "train": [], "validation": []}}))
    changed_keys = [change.key for change in changes]
    for key, built_in in (("source", SOURCES.bundled), ("format", (None, *bundled_format_names()))):
        value = data.get(key)
        if value not in built_in and f"data.{key}" not in changed_keys:
            raise ConfigError(
                f"the data.{key} of {trained.checkpoint} is {strict_json.printable(str(value))}, which is no part of "
                f"this program; {verb} runs it only if you name it too: "
                f"--set data.{key}={strict_json.printable(str(value))}"
            )
    for key in changed_keys:
        if key.partition(".")[0] not in sections:
            raise ConfigError(f"--set {key}: {verb} takes keys of {' and '.join(sections)} alone")
    return apply_changes(tree, changes, str(trained.checkpoint))
