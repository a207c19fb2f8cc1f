"""What a run's step computes and moves, from config and model alone. Pure.

Both are upper bounds where they depend on the data: bags are taken to be full, and a table's rows to be touched as
often as that allows. A kernel that reaches the aim, 60 % of the memory's speed, on bags that are 60 % full, as those of
chess positions are, takes the time that is computed for full bags at full speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from loader.stream.schema import BatchSchema
from pool.cost_model.traffic import Load
from pool.device.cards import Speeds
from pool.exchange.plan import Plan

_PASSES = 2  # forward and backward


@dataclass(frozen=True)
class Work:
    batches_per_step: int
    batches_per_group: int
    samples: int  # of a batch
    batch: int  # bytes of one
    load: Load  # of a group
    rounded: bool  # its gradients are bfloat16
    gathered: int  # bytes that a batch's sparse layers read and write on the card
    operations: int  # multiplications and additions of its dense layers

    def compute_ms(self, speeds: Speeds) -> float:
        """Of one batch."""
        return 1e-6 * (self.gathered / speeds.memory + self.operations / speeds.products)


def work_of(plan: Plan, slot_plan: Plan, schema: BatchSchema, batches_per_step: int, batches_per_group: int) -> Work:
    """`plan`: of all members; `slot_plan`: of their gradients (`pool.exchange.slot_layout`)."""
    fields = {field.name: field for field in schema.sparse}
    gradient = gathered = operations = 0
    for tensor, handed_over in zip(plan.parameters, slot_plan.parameters, strict=True):
        field = fields.get(tensor.sparse_field) if tensor.sparse_field is not None else None
        if field is None:
            gradient += handed_over.nbytes
            operations += 3 * 2 * prod(tensor.shape) * schema.batch_size
            continue
        row, row_handed_over = (each.nbytes // each.shape[0] for each in (tensor, handed_over))
        bags = schema.num_bags(field)
        active = bags * field.max_active
        gradient += row_handed_over * min(field.num_features, batches_per_group * active)
        gathered += _PASSES * row * (active + bags)
    return Work(
        batches_per_step=batches_per_step,
        batches_per_group=batches_per_group,
        samples=schema.batch_size,
        batch=schema.slot_bytes,
        load=Load(plan.nbytes, gradient),
        rounded=slot_plan != plan,
        gathered=gathered,
        operations=operations,
    )
