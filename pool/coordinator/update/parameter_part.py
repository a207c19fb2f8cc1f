"""The part of one parameter that lies in one bucket, as the coordinator steps it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from pool.coordinator.update.copy_over import CarryOver
from pool.exchange.groups import Contribution
from pool.exchange.interface import PieceMemory
from pool.kernels.fold import Addend, Touched
from pool.kernels.tree import join_into_nodes


class ParameterPart:
    """Holds the sum of the step in progress, as far as it was folded early: whole nodes of the tree."""

    def __init__(self, index: int, parameter: nn.Parameter, memory: PieceMemory, carry: CarryOver) -> None:
        """`index`: of the parameter in the plan; `parameter`: what the optimizer steps."""
        self.index = index
        self.parameter = parameter
        self.memory = memory
        self._carry = carry
        self._nodes: dict[int, Addend] = {}  # by number of the memory that it lies in, ascending by place
        self.total: Tensor | None = None  # after `fold_all`: the sum, if a contribution had a gradient
        self._touched: Touched | None = None  # of a table's sum: the rows that it defines, None: all

    def begin(self) -> None:
        """A step begins, or its sum begins anew."""
        self._nodes = {}
        self.total = None

    def gradients(self, contributions: Sequence[Contribution]) -> list[Addend]:
        """All that the step's sum is made of: what was folded early, and these; ascending by place."""
        taken = self.memory.take(contributions)
        return sorted([*self._nodes.values(), *taken], key=lambda addend: addend.place)

    @property
    def folded(self) -> list[Addend]:
        """Returns what was folded early, ascending by place."""
        return list(self._nodes.values())

    def fold(self, contributions: Sequence[Contribution], places: range) -> None:
        """Adds up as much of the tree as these complete; all groups at the places are folded now, or do not count."""
        lies_in = {id(node): number for number, node in self._nodes.items()}
        taken = set(self._nodes)
        folded: dict[int, Addend] = {}
        for addends in join_into_nodes(self.gradients(contributions), places):
            own = [lies_in[id(addend)] for addend in addends if id(addend) in lies_in]
            number = own[0] if own else next(n for n in range(len(taken) + 1) if n not in taken)
            folded[number] = addends[0] if own and len(addends) == 1 else self.memory.node(number, addends)
            taken = (taken - set(own)) | {number}
        self._nodes = folded

    def fold_all(self, contributions: Sequence[Contribution], scale: float) -> None:
        """Adds up all of the step, with these. Rows that none of them touched become zeros."""
        addends = self.gradients(contributions)
        self.begin()
        if addends:
            self.total, self._touched = self.memory.sum(0), self._carry.rows_to_write(addends)
            self.memory.fold(self.total, addends, scale=scale, touched_only=False)

    @property
    def sum(self) -> list[Addend]:
        """`total` as it is now: one, or none."""
        return [] if self.total is None else [self.memory.addend(0, self.total, self._touched)]

    def ahead(self, version: int) -> None:
        """The version is complete, and workers compute with it: makes `next_version` shorter."""
        self._carry.ahead(version)

    def next_version(self, step: int, gradients: Sequence[Addend]) -> None:
        """Before the optimizer steps with these: points the parameter to version step + 1, and copies to it from
        version `step` what the optimizer will not write."""
        old, new = self.memory.weights(step), self.memory.weights(step + 1)
        assert old.data_ptr() != new.data_ptr(), "I3"
        self._carry.over(step, gradients)
        self.parameter.data = new

    def give_out(self, step: int) -> None:
        """The optimizer has made version step + 1 of it."""
        self.memory.give_out(step + 1, self._carry.written)

    def forget(self) -> None:
        """All of it was written in the exchange's weights: the two versions may differ in any row."""
        self._carry.forget()
        self.memory.overwritten()
