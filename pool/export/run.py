"""Provides the `predict` method and the data settings of a checkpoint's run, which predictions need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from loader.plugins.interface import find_call_problem
from loader.stream.sources import SOURCES, bundled_format_names
from pool.config.changes import Change
from pool.config.load import changed_config
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.export.load import Trained
from pool.nn.batch import TensorBatch
from pool.run_folder import strict_json

Method = Callable[[nn.Module, TensorBatch], torch.Tensor]


def method_of(trained: Trained, verb: str) -> Method:
    """Returns the task's `predict`. `verb`: name of the command. Raises ConfigError if there is none or it can't be
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


def data_config(trained: Trained, changes: Sequence[Change], verb: str, sections: Sequence[str] = ("data",)) -> Config:
    """Returns the settings of the run's `sections` as a config, with `changes` applied.

    Code that the checkpoint names is imported only if `changes` name it too. `verb`: name of the command. Raises
    ConfigError.
    """
    data = trained.config.get("data")
    if not isinstance(data, Mapping):
        raise strict_json.foreign_content_error(trained.checkpoint, "config.data: a section is expected")
    others = {name: trained.config.get(name) for name in sections}
    tree = json.loads(json.dumps({"task": trained.name, **others, "data": {**data, "train": [], "validation": []}}))
    named = {change.key: change.value for change in changes}
    for key, known in (("source", SOURCES.bundled), ("format", (None, *bundled_format_names()))):
        value = data.get(key)
        if value not in known and f"data.{key}" not in named:
            raise ConfigError(
                f"the data.{key} of {trained.checkpoint} is {strict_json.printable(str(value))}, which is no part of "
                f"this program; {verb} runs it only if you name it too: "
                f"--set data.{key}={strict_json.printable(str(value))}"
            )
    if wrong := [key for key in named if key.partition(".")[0] not in sections]:
        raise ConfigError(f"--set {wrong[0]}: {verb} takes keys of {' and '.join(sections)} alone")
    return changed_config(tree, changes, str(trained.checkpoint))
