"""Writes a task whose code does something hostile, as a module of its own in a folder: the toy task otherwise."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

NAME = "hostile_task"
MODEL = "hostile_model"

_TASK = f"""
from tests.support.toy import LossConfig, ModelConfig
def create_task(model, loss):
    from {MODEL} import Hostile
    return Hostile(model, loss)
"""

_MODEL = """
import os, signal, sys, threading, time, warnings
import torch
from tests.support.toy_model import ToyTask

METHOD, AT, ONCE = {method!r}, {at}, {once!r}

class Mute(Exception):
    def __str__(self):
        raise OSError("no")

class Boom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("bad value")

def boom(*arguments):
    raise ValueError("bad value")

def mischief(model, batch, usual):
{code}

def wanted(method, batch=None):
    if METHOD != method or (batch is not None and AT not in (-1, batch.number)):
        return False
    if ONCE:
        try:
            open(ONCE, "x").close()
        except FileExistsError:
            return False
    return True

class Hostile(ToyTask):
    def __init__(self, model, loss):
        if wanted("create_task"):
            mischief(None, None, None)
        super().__init__(model, loss)
    def check(self, schema):
        return mischief(None, None, None) if wanted("check") else super().check(schema)
    def build_model(self):
        return mischief(None, None, None) if wanted("build_model") else super().build_model()
    def initialize(self, model):
        return mischief(model, None, None) if wanted("initialize") else super().initialize(model)
    def after_step(self, model):
        return mischief(model, None, None) if wanted("after_step") else super().after_step(model)
    def export(self, model, path, description):
        return mischief(model, None, None) if wanted("export") else super().export(model, path, description)
    def loss(self, model, batch, progress):
        usual = super().loss
        if wanted("loss" if model.training else "validate", batch):
            return mischief(model, batch, lambda: usual(model, batch, progress))
        return usual(model, batch, progress)
"""


def write(folder: Path, code: str, *, method: str = "loss", at: int = -1, once: bool = False) -> dict[str, Any]:
    """Settings of a task that does `code`, the body of a function (model, batch, usual), instead of what its `method`
    does: in every batch or that of number `at`; `once`: one time only, in all lives of all processes.

    `usual()` gives the toy's loss. A `method` "validate" is the loss while validating.
    """
    once_file = str(folder / "once") if once else ""
    (folder / f"{NAME}.py").write_text(_TASK, encoding="utf-8")
    text = _MODEL.format(method=method, at=at, once=once_file, code=indent(code, "    "))
    (folder / f"{MODEL}.py").write_text(text, encoding="utf-8")
    return {"task": NAME}
