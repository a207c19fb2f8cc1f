"""Computes the bytes that a step sends between machines, and the time they take.

Each machine sends to each of the others the gradients of its share of the step: of a table the rows that its batches
touch, of any other parameter all numbers. So with M machines each sends (M - 1) times a gradient, and receives as much
at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from pool.exchange.groups import Groups
from pool.exchange.plan import Plan
from pool.kernels.tree import join_into_nodes

_ROW_NUMBER_NBYTES = 4  # bytes of a row's number


@dataclass(frozen=True)
class _Group:
    """Stands for the gradients of one group, by its index in the step."""

    leaf: int


@dataclass(frozen=True)
class StepTraffic:
    """Holds the bytes that one machine sends to another in a step. An upper bound: the batches of a share may touch all
    rows."""

    table: int  # rows of tables, with their row numbers
    dense: int  # all other parameters
    num_machines: int

    @property
    def sent(self) -> int:
        """Returns the bytes that one machine sends to all others in a step."""
        return (self.num_machines - 1) * (self.table + self.dense)

    def seconds(self, gigabits: float) -> float:
        """Returns the seconds that a machine's sending takes at a rate in Gbit/s, while it receives at the same
        rate."""
        return self.sent * 8 / (gigabits * 1e9)


def compute_step_traffic(plan: Plan, groups: Groups, num_machines: int) -> StepTraffic:
    """Computes the traffic of a step. If the machines have shares of different size, the one that sends most counts."""
    shares = [groups.share(machine, num_machines) for machine in range(num_machines)]
    max_sums = max(len(join_into_nodes([_Group(index) for index in share], share)) for share in shares)
    tables = [tensor for tensor in plan.parameters if tensor.sparse_field is not None]
    table_nbytes = sum(tensor.nbytes + _ROW_NUMBER_NBYTES * tensor.shape[0] for tensor in tables)
    dense_nbytes = sum(tensor.nbytes for tensor in plan.parameters if tensor.sparse_field is None)
    return StepTraffic(max_sums * table_nbytes, max_sums * dense_nbytes, num_machines)
