"""Chooses whether the members (networks) of an ensemble are computed together or one after the other.

The choice affects bits. So it depends only on settings, model, layout of a batch and kind of device, and all workers of
a run, and a resumed run, choose alike.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from loader.plugins.error_text import format_error
from loader.stream.schema import BatchSchema, SparseBatch
from loader.stream.slots import allocate_slots, write_batch
from pool.device.memory import is_out_of_memory
from pool.ensemble.batched_members import BatchedMembers, alike, sparse_parameters
from pool.ensemble.execution import Execution
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.task.task import Progress

# By kind of device. CPU: measured (docs/explanation/performance.md). GPU: not measured; ten microseconds of a large
# one's arithmetic, the time of two kernel launches.
FEWEST = {"cpu": 8, "cuda": 2}  # members with equal settings; with fewer, torch.func.vmap is slower
MOST_WORK = {"cpu": 1 << 20, "cuda": 1 << 28}  # multiply-adds per batch in a member's dense layers; more fill a device
RULE = ", ".join(  # text for the run's fingerprint
    f"on {kind} together from {few} members on, up to {MOST_WORK[kind]} multiply-adds" for kind, few in FEWEST.items()
)

_TOGETHER = "the dense layers of all members are computed together"
_IN_TURN = "members are computed one after the other"
_SAID_BY_TORCH = {  # part of torch's error text -> what the model does
    "random operation": "draws random numbers",
    "data-dependent control flow": "decides by numbers that differ from member to member",
    ".item()": "takes numbers out of tensors that differ from member to member",
    "doesn't match the broadcast shape": "writes into a tensor that all members share",
    "vmap-incompatible in-place": "writes into a tensor that all members share",
    "autograd.Function": "uses an autograd.Function that has no rule for vmap",
}


def choose(members: Sequence[Member], schema: BatchSchema, one_by_one: Execution) -> tuple[Execution, str]:
    """Chooses how to compute the members, and returns the Execution with a line that explains the choice.

    All members are on one device, and are in training mode afterwards. `schema`: of the batches.
    """
    if reason := _obvious_reason(members, schema):
        return one_by_one, f"{_IN_TURN}: {reason}"
    batched = BatchedMembers(members, one_by_one)
    for member in members:
        member.model.train()
    device = next(members[0].model.parameters()).device
    try:
        _try(batched, members, some_batch(schema).to(device))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return one_by_one, f"{_IN_TURN}: {_place(batched, error)} {_in_words(error)}"
    return batched, _TOGETHER


def _obvious_reason(members: Sequence[Member], schema: BatchSchema) -> str:
    """Explains why computing the members together would not be faster; "" if it may be."""
    device = "cpu" if next(members[0].model.parameters()).device.type == "cpu" else "cuda"
    most_alike = max(map(len, alike(members)))
    if most_alike < FEWEST[device]:
        few = f"no more than {most_alike} have the same task settings and attributes"
        return f"{few}; together is faster from {FEWEST[device]} on"
    if not (parameters := dense(members[0].model)):
        return "there are no dense layers"
    work = schema.batch_size * sum(parameter.numel() for parameter in parameters)
    if work > (most := MOST_WORK[device]):
        return f"the dense layers of each take {work:,} multiply-adds a batch; with more than {most:,} that is faster"
    return ""


def dense(model: nn.Module) -> list[nn.Parameter]:
    """Returns the parameters of a model that are not in sparse layers."""
    sparse = {id(parameter) for parameter in sparse_parameters(model)}
    return [parameter for parameter in model.parameters() if id(parameter) not in sparse]


def _try(batched: BatchedMembers, members: Sequence[Member], batch: TensorBatch) -> None:
    """Computes forward and backward once, without storing anything. Raises what training would."""
    losses = batched.together(batch, Progress(0, 1))
    if trained := [parameter for parameter in dense(members[0].model) if parameter.requires_grad]:
        torch.autograd.grad(losses.sum(), trained, allow_unused=True)


def some_batch(schema: BatchSchema) -> TensorBatch:
    """Returns a batch that any source might produce.

    Each bag has feature 0 with value 1, dense fields are 0, and output buckets have equal sizes.
    """
    (slot,) = allocate_slots(schema, 1)
    rows = {}
    for field in schema.sparse:
        bags = schema.num_bags(field)
        values = (np.ones(bags, np.float32),) if field.values else ()
        rows[field.name] = (np.arange(bags + 1), np.zeros(bags, np.int64), *values)
    dense = {field.name: np.zeros(schema.batch_size, field.dtype) for field in schema.dense}
    borders = np.linspace(0, schema.batch_size, schema.num_buckets + 1).astype(np.int64)
    write_batch(schema, slot, 0, rows, dense, borders)
    return TensorBatch.from_numpy(SparseBatch.view(schema, slot)).copy()


def _place(batched: BatchedMembers, error: BaseException) -> str:
    """Names the innermost module of a model that was being computed when an error occurred, or the task's loss."""
    names = {id(module): name for stack in batched.stacks for name, module in stack.model.named_modules()}
    place = "the task's loss"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if id(owner) in names:
            name = names[id(owner)]
            place = f"the layer {name} ({type(owner).__name__})" if name else f"the model ({type(owner).__name__})"
    return place


def _in_words(error: Exception) -> str:
    """Explains an error of torch.func.vmap, as what the model does."""
    words = format_error(error)
    return next(
        (meaning for text, meaning in _SAID_BY_TORCH.items() if text in words), f"raises {words} for a batch of zeros"
    )
