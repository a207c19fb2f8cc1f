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
from pool.ensemble.batched_members import BatchedMembers, group_equal_members, sparse_parameters
from pool.ensemble.execution import Execution
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.task.task import Progress

# By kind of device. CPU: measured (docs/explanation/performance.md). GPU: not measured; ten microseconds of a large
# one's arithmetic, the time of two kernel launches.
MIN_MEMBERS = {"cpu": 8, "cuda": 2}  # members with equal settings; with fewer, torch.func.vmap is slower
MAX_WORK = {"cpu": 1 << 20, "cuda": 1 << 28}  # multiply-adds per batch in a member's dense layers; more fill a device
RULE = ", ".join(  # text for the run's fingerprint
    f"on {kind} together from {few} members on, up to {MAX_WORK[kind]} multiply-adds"
    for kind, few in MIN_MEMBERS.items()
)

_TOGETHER = "the dense layers of all members are computed together"
_SEQUENTIALLY = "members are computed one after the other"
_CAUSES = {  # part of torch's error text -> what the model does
    "random operation": "draws random numbers",
    "data-dependent control flow": "decides by numbers that differ from member to member",
    ".item()": "takes numbers out of tensors that differ from member to member",
    "doesn't match the broadcast shape": "writes into a tensor that all members share",
    "vmap-incompatible in-place": "writes into a tensor that all members share",
    "autograd.Function": "uses an autograd.Function that has no rule for vmap",
}


def choose_execution(members: Sequence[Member], schema: BatchSchema, sequential: Execution) -> tuple[Execution, str]:
    """Chooses how to compute the members, and returns the Execution with a line that explains the choice.

    All members are on one device, and are in training mode afterwards. `schema`: of the batches.
    """
    reason = _find_obvious_reason(members, schema)
    if reason:
        return sequential, f"{_SEQUENTIALLY}: {reason}"
    batched = BatchedMembers(members, sequential)
    for member in members:
        member.model.train()
    device = next(members[0].model.parameters()).device
    try:
        _compute_once(batched, members, create_sample_batch(schema).to(device))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return sequential, f"{_SEQUENTIALLY}: {_failed_module(batched, error)} {_describe_error(error)}"
    return batched, _TOGETHER


def _find_obvious_reason(members: Sequence[Member], schema: BatchSchema) -> str:
    """Explains why computing the members together would not be faster; "" if it may be."""
    device = "cpu" if next(members[0].model.parameters()).device.type == "cpu" else "cuda"
    max_equal = max(map(len, group_equal_members(members)))
    if max_equal < MIN_MEMBERS[device]:
        few = f"no more than {max_equal} have the same task settings and attributes"
        return f"{few}; together is faster from {MIN_MEMBERS[device]} on"
    parameters = dense_parameters(members[0].model)
    if not parameters:
        return "there are no dense layers"
    work = schema.batch_size * sum(parameter.numel() for parameter in parameters)
    limit = MAX_WORK[device]
    if work > limit:
        return f"the dense layers of each take {work:,} multiply-adds a batch; with more than {limit:,} that is faster"
    return ""


def dense_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Returns the parameters of a model that are not in sparse layers."""
    sparse = {id(parameter) for parameter in sparse_parameters(model)}
    return [parameter for parameter in model.parameters() if id(parameter) not in sparse]


def _compute_once(batched: BatchedMembers, members: Sequence[Member], batch: TensorBatch) -> None:
    """Computes forward and backward once, without storing anything. Raises what training would."""
    losses = batched.compute_together(batch, Progress(0, 1))
    trained = [parameter for parameter in dense_parameters(members[0].model) if parameter.requires_grad]
    if trained:
        torch.autograd.grad(losses.sum(), trained, allow_unused=True)


def create_sample_batch(schema: BatchSchema) -> TensorBatch:
    """Returns a batch that any source might produce.

    Each bag has feature 0 with value 1, dense fields are 0, and output buckets have equal sizes.
    """
    (slot,) = allocate_slots(schema, 1)
    rows = {}
    for field in schema.sparse:
        bags = schema.num_bags(field)
        values = (np.ones(bags, np.float32),) if field.values else ()
        rows[field.name] = (np.arange(bags + 1), np.zeros(bags, np.int64), *values)
    dense_fields = {field.name: np.zeros(schema.batch_size, field.dtype) for field in schema.dense}
    borders = np.linspace(0, schema.batch_size, schema.num_buckets + 1).astype(np.int64)
    write_batch(schema, slot, 0, rows, dense_fields, borders)
    return TensorBatch.from_numpy(SparseBatch.view(schema, slot)).copy()


def _failed_module(batched: BatchedMembers, error: BaseException) -> str:
    """Names the innermost module of a model that was being computed when an error occurred, or the task's loss."""
    names = {id(module): name for stack in batched.stacks for name, module in stack.model.named_modules()}
    innermost = "the task's loss"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if id(module) in names:
            name = names[id(module)]
            innermost = f"the layer {name}" if name else "the model"
            innermost += f" ({type(module).__name__})"
    return innermost


def _describe_error(error: Exception) -> str:
    """Explains an error of torch.func.vmap, as what the model does."""
    message = format_error(error)
    for text, cause in _CAUSES.items():
        if text in message:
            return cause
    return f"raises {message} for a batch of zeros"
